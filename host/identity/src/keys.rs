//! The public keys of an issuer: a JWK Set, read within bounds. Keys for other uses, of
//! other kinds and of other curves are left out.

use anyhow::{Context as _, ensure};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use crate::signature;

/// The most bytes of a JWK Set. Guards against: an issuer that sends without end.
pub(crate) const MOST_BYTES: usize = 256 << 10;

/// The most keys of a set. Guards against: the same.
const MOST_KEYS: usize = 64;

/// The most characters of a key's id. Guards against: a token that fills the log.
pub(crate) const MOST_ID_CHARACTERS: usize = 256;

/// The keys of one issuer.
#[derive(Debug, Default)]
pub(crate) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: String,
    /// The algorithm for which alone it is, if the set says so.
    algorithm: Option<String>,
    family: AlgorithmFamily,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a set.
    ///
    /// # Errors
    ///
    /// If it is no JWK Set, or too large.
    pub(crate) fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        signature::install();
        ensure!(
            bytes.len() <= MOST_BYTES,
            "it has more than {MOST_BYTES} bytes"
        );
        let set: RawSet = serde_json::from_slice(bytes).context("it is not a JWK Set")?;
        ensure!(
            set.keys.len() <= MOST_KEYS,
            "it has more than {MOST_KEYS} keys"
        );
        Ok(Self(set.keys.into_iter().filter_map(Key::read).collect()))
    }

    /// Returns whether the set has no usable key.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the key with this id for an algorithm. The error says whether there is a
    /// key with the id.
    pub(crate) fn find(&self, id: &str, algorithm: Algorithm) -> Result<&DecodingKey, FindError> {
        let mut error = FindError::NoKey;
        for key in self.0.iter().filter(|key| key.id == id) {
            let name = format!("{algorithm:?}");
            let is_for = key.algorithm.as_ref().is_none_or(|only| *only == name);
            if key.family == algorithm.family() && is_for {
                return Ok(&key.key);
            }
            error = FindError::OtherKey;
        }
        Err(error)
    }
}

/// The reason why a set has no key for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FindError {
    /// No key has the id.
    NoKey,
    /// The key with the id is for another algorithm.
    OtherKey,
}

impl Key {
    fn read(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let common = &jwk.common;
        let is_for_signatures = common
            .public_key_use
            .as_ref()
            .is_none_or(|what| *what == PublicKeyUse::Signature);
        let is_known = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => true,
            AlgorithmParameters::EllipticCurve(curve) => {
                matches!(curve.curve, EllipticCurve::P256 | EllipticCurve::P384)
            }
            AlgorithmParameters::OctetKeyPair(pair) => pair.curve == EllipticCurve::Ed25519,
            // A shared secret is no public key.
            _ => false,
        };
        let id = common.key_id.clone()?;
        if !is_for_signatures || !is_known || id.chars().count() > MOST_ID_CHARACTERS {
            return None;
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        Some(Self {
            id,
            algorithm: common.key_algorithm.map(|algorithm| algorithm.to_string()),
            family: key.family(),
            key,
        })
    }
}
