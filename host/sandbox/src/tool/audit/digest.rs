//! Keyed digests of the arguments and answers of calls.
//!
//! Anybody can find a short text from its plain digest, by trying texts until one matches. With a
//! keyed digest, only somebody who knows the key can try texts.

use std::borrow::Cow;
use std::io;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde_json::Value;
use sha2::Sha256;

use crate::tool::{CallError, Form, Output};
use skillhost_skills::text::digest::{DigestWriter, hex, sha256_hex};

/// The HMAC-SHA-256 key of the digests in one log.
#[derive(Clone)]
pub(super) struct DigestKey(Hmac<Sha256>);

/// A keyed digest in hex, as a record contains it.
#[derive(Serialize)]
pub(super) struct KeyedDigest(String);

impl DigestKey {
    /// Creates a key from its bytes.
    pub(super) fn new(key: &[u8; 32]) -> Self {
        // `Hmac::new` takes a key of 64 bytes, the size of a block. HMAC is defined to append zeros
        // to a shorter key.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(key);
        Self(Hmac::new(&block.into()))
    }

    /// Returns the keyed digest of a call's arguments, as JSON without white space and with the
    /// properties in the caller's order.
    pub(super) fn digest_arguments(&self, arguments: &Value) -> KeyedDigest {
        let mut digest = DigestWriter(self.0.clone());
        // Neither writing to a digest nor serializing a JSON value can fail.
        let _ = serde_json::to_writer(io::BufWriter::new(&mut digest), arguments);
        KeyedDigest::from_hmac(digest.0)
    }

    /// Returns the keyed digest of a text.
    pub(super) fn digest_text(&self, text: &str) -> KeyedDigest {
        KeyedDigest::from_hmac(self.0.clone().chain_update(text.as_bytes()))
    }

    /// Returns the keyed digest of an answer, or `None` if the tool did not answer.
    ///
    /// Without changed files, this is the keyed digest of the text that the model reads. With
    /// changed files, it is the keyed digest of a list. The first line of the list has the keyed
    /// digest of the text, in hex. Each file adds a line with two plain SHA-256 digests: of its
    /// path, and of its bytes. If the answer leaves out a file's bytes, the second digest is that
    /// of an empty file.
    pub(super) fn digest_answer(&self, result: &Result<Output, CallError>) -> Option<KeyedDigest> {
        let text: Cow<'_, str> = match result {
            Ok(output) if output.model_reads == Form::Record => output.record_json().into(),
            Ok(output) => output.text().into(),
            Err(error @ CallError::Failed(_)) => error.model_text().into(),
            Err(_) => return None,
        };
        let digest = KeyedDigest::from_hmac(self.0.clone().chain_update(text.as_bytes()));
        let files = result.as_ref().ok().and_then(Output::files);
        let Some(files) = files.filter(|files| !files.files.is_empty()) else {
            return Some(digest);
        };
        let mut list = format!("{}\n", digest.0);
        for file in &files.files {
            let bytes = file.bytes.as_deref().unwrap_or_default();
            let (path, bytes) = (sha256_hex(file.path.as_bytes()), sha256_hex(bytes));
            list += &format!("{path} {bytes}\n");
        }
        Some(KeyedDigest::from_hmac(
            self.0.clone().chain_update(list.as_bytes()),
        ))
    }
}

impl KeyedDigest {
    fn from_hmac(digest: Hmac<Sha256>) -> Self {
        Self(hex(&digest.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_what_model_reads() {
        let key = DigestKey::new(&[7; 32]);
        let digest = |output: Output| key.digest_answer(&Ok(output)).unwrap().0;
        let details = Some("{\"sum\":3}".to_owned());
        let answer = |form| Output::new("three", details.clone(), form);
        let text = |text: &str| digest(Output::new(text, None, Form::Text));
        let record = answer(Form::Record).record_json();
        assert_eq!(digest(answer(Form::Record)), text(&record));
        assert_eq!(digest(answer(Form::Text)), text("three"));
        assert_ne!(text(&record), text("three"));
    }
}
