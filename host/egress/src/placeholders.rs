//! Placeholders, which a guest has in place of its secrets.

use std::collections::{BTreeMap, BTreeSet};

use http::HeaderMap;
use http::header::Entry;
use memchr::memmem;
use skillhost_skills::text::digest::hex;

use crate::message::PLACEHOLDER;
use crate::policy::{Denial, NetworkGrant};
use crate::target::Target;

/// The start of a placeholder, before 32 hexadecimal digits. A placeholder cannot contain another
/// one, or overlap it.
const START: &str = "placeholder-";

/// The length of a placeholder, in bytes.
pub(crate) const PLACEHOLDER_BYTES: usize = START.len() + 32;

/// Returns the placeholder with these random bytes.
pub fn placeholder(random: [u8; 16]) -> String {
    format!("{START}{}", hex(&random))
}

/// Returns the names of the secrets that an allowed request with these headers gets in place of
/// placeholders. `placeholders` has pairs of names and placeholders.
pub fn secrets_in(
    grant: &NetworkGrant,
    target: &Target,
    headers: &HeaderMap,
    placeholders: &[(String, String)],
) -> Vec<String> {
    let pair =
        |(name, placeholder): &(String, String)| (placeholder.clone().into_bytes(), name.clone());
    let placeholders = Placeholders {
        names: placeholders.iter().map(pair).collect(),
    };
    let mut found = BTreeSet::new();
    for (header, value) in headers {
        let mut rest = value.as_bytes();
        while let Some((start, name)) = placeholders.find(rest) {
            rest = &rest[start + PLACEHOLDER_BYTES..];
            let secret = grant.find_secret(name);
            if secret.is_some_and(|secret| secret.allows(target, header)) {
                found.insert(name.to_owned());
            }
        }
    }
    found.into_iter().collect()
}

/// The placeholders of a call.
pub(crate) struct Placeholders {
    /// The names of the secrets, by placeholder.
    names: BTreeMap<Vec<u8>, String>,
}

impl Placeholders {
    /// Removes the placeholders from the headers of the host.
    ///
    /// # Errors
    ///
    /// If a placeholder is malformed, or a placeholder or name is repeated. The host never sends
    /// such headers. Guards against: escaped code that guesses parts of a secret.
    pub(crate) fn take(headers: &mut HeaderMap) -> Result<Self, Denial> {
        let pairs = match headers.entry(PLACEHOLDER) {
            Entry::Occupied(entry) => entry.remove_entry_mult().1.collect(),
            Entry::Vacant(_) => Vec::new(),
        };
        let mut names = BTreeMap::new();
        for pair in &pairs {
            let pair = String::from_utf8_lossy(pair.as_bytes());
            let (name, placeholder) = pair.split_once('=').unwrap_or((&pair, ""));
            let placeholder = placeholder.as_bytes();
            let is_repeated =
                names.contains_key(placeholder) || names.values().any(|it| it == name);
            if is_repeated || !is_placeholder(placeholder) {
                return Err(Denial::Secret(name.to_owned()));
            }
            names.insert(placeholder.to_owned(), name.to_owned());
        }
        Ok(Self { names })
    }

    /// Returns the position of the first placeholder in a text, and the name of its secret.
    pub(crate) fn find(&self, text: &[u8]) -> Option<(usize, &str)> {
        memmem::find_iter(text, START).find_map(|at| {
            let placeholder = text.get(at..at + PLACEHOLDER_BYTES)?;
            Some((at, self.names.get(placeholder)?.as_str()))
        })
    }
}

fn is_placeholder(text: &[u8]) -> bool {
    let digits = text.strip_prefix(START.as_bytes());
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.is_some_and(|digits| digits.len() == 32 && digits.iter().all(is_digit))
}
