//! Keyed digests of what a call was asked and what it answered. A plain digest of a
//! short text could be guessed by trying texts; these need the key.

use std::io;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use serde_json::Value;
use sha2::Sha256;

use crate::text::digest::hex;
use crate::tool::{CallError, Output};

/// The key of the digests of one log: HMAC-SHA-256.
#[derive(Clone)]
pub(super) struct DigestKey(Hmac<Sha256>);

/// A digest, which a record has in hex.
#[derive(Serialize)]
pub(super) struct KeyedDigest(String);

impl DigestKey {
    /// Creates a key from its bytes.
    pub(super) fn new(key: &[u8; 32]) -> Self {
        // A shorter key counts as one of a block, with zeros.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(key);
        Self(Hmac::new(&block.into()))
    }

    /// Returns the digest of a call's arguments: of their JSON without white space, with
    /// the properties in the caller's order.
    pub(super) fn of_arguments(&self, arguments: &Value) -> KeyedDigest {
        let mut digest = DigestWriter(self.0.clone());
        // Neither the writer nor a value of JSON can fail.
        let _ = serde_json::to_writer(io::BufWriter::new(&mut digest), arguments);
        digest.end()
    }

    /// Returns the digest of an answer: of its text, then its record and each of its
    /// files, path and bytes, with a NUL before each. A failure's text is its message.
    /// None if the host did not let the tool answer.
    pub(super) fn of_answer(&self, result: &Result<Output, CallError>) -> Option<KeyedDigest> {
        let (text, details, files) = match result {
            Ok(output) => (&output.text, &output.details, output.files()),
            Err(CallError::Failed(failure)) => (&failure.message, &failure.details, None),
            Err(_) => return None,
        };
        let mut digest = DigestWriter(self.0.clone());
        digest.0.update(text.as_bytes());
        let files = files.iter().flat_map(|files| &files.files);
        let files = files.flat_map(|file| {
            let bytes = file.bytes.as_deref().unwrap_or_default();
            [file.path.as_bytes(), bytes]
        });
        for part in details.iter().map(String::as_bytes).chain(files) {
            digest.0.update(b"\0");
            digest.0.update(part);
        }
        Some(digest.end())
    }
}

/// A digest of all that is written to it.
struct DigestWriter(Hmac<Sha256>);

impl DigestWriter {
    fn end(self) -> KeyedDigest {
        KeyedDigest(hex(&self.0.finalize().into_bytes()))
    }
}

impl io::Write for DigestWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
