//! The digests of packages that the operator has denied, with the reasons.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};

use crate::digest::Digest;
use crate::quote::quote;

/// The maximum length of a reason, in bytes. Messages contain the reason.
const MAX_REASON: usize = 512;

/// The digests of manifests and contents that must not be locked or loaded.
#[derive(Debug, Clone, Default)]
pub struct DenyList(BTreeMap<Digest, String>);

impl DenyList {
    /// Adds a digest. The reason may be empty.
    pub(crate) fn insert(&mut self, digest: Digest, why: String) -> anyhow::Result<()> {
        check_reason(&why)?;
        self.0.insert(digest, why);
        Ok(())
    }

    /// Returns the reason for refusing each digest, by its hex digits.
    pub fn refusals(&self) -> BTreeMap<String, String> {
        let refusal = |digest: &Digest| Some((digest.hex().to_owned(), self.refusal(digest)?));
        self.0.keys().filter_map(refusal).collect()
    }

    /// Returns the reason for refusing a digest, or `None` if it is not denied.
    fn refusal(&self, digest: &Digest) -> Option<String> {
        let why = self.0.get(digest)?;
        let colon = if why.is_empty() { "" } else { ": " };
        Some(format!("`[deny]` refuses {digest}{colon}{}", quote(why)))
    }

    /// Checks that no digest is denied.
    ///
    /// # Errors
    ///
    /// If a digest is denied. The error has the reason.
    pub fn check<'d>(&self, digests: impl IntoIterator<Item = &'d Digest>) -> anyhow::Result<()> {
        for digest in digests {
            if let Some(why) = self.refusal(digest) {
                bail!(why);
            }
        }
        Ok(())
    }
}

/// Checks a reason for a denied digest.
pub(crate) fn check_reason(why: &str) -> anyhow::Result<()> {
    ensure!(
        why.len() <= MAX_REASON,
        "the reason has {} bytes, more than {MAX_REASON}",
        why.len()
    );
    Ok(())
}
