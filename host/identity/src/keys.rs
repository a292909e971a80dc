//! The public keys of an issuer: a JWK Set, parsed within limits. Keys for other uses, of
//! unsupported types and of unsupported curves are skipped, as are RSA keys that are slow to use.

use anyhow::{Context as _, ensure};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use serde::Deserialize;
use serde_json::Value;

use crate::signature;

/// The maximum bytes of a JWK Set. Guards against: an issuer that sends without end.
pub(crate) const MAX_BYTES: usize = 256 << 10;

/// The maximum number of keys in a set. Guards against: an issuer that makes every check of a
/// token slow.
const MAX_KEYS: usize = 64;

/// The maximum number of keys that are tried for one token. Guards against: an issuer that gives
/// all its keys the same id.
const MAX_KEYS_PER_ID: usize = 4;

/// The maximum bytes of an RSA modulus: 4096 bits. Guards against: keys that make each check of a
/// token slow.
const MAX_MODULUS_BYTES: usize = 512;

/// The maximum public exponent of an RSA key: the bytes of 65537, the usual one. Guards against:
/// keys that make each check of a token slow.
const MAX_EXPONENT: &[u8] = &[1, 0, 1];

/// The maximum characters of a key's id. Guards against: a token that fills the log.
pub(crate) const MAX_ID_CHARS: usize = 256;

/// The keys of one issuer.
#[derive(Debug, Default)]
pub(crate) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: String,
    /// The only algorithm that the key is for, if its curve or the set names one.
    algorithm: Option<String>,
    family: AlgorithmFamily,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<Value>,
}

/// The reason why a set has no key for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// No key has the id.
    UnknownId,
    /// The keys with the id are for other algorithms.
    OtherAlgorithm,
}

impl KeySet {
    /// Parses a JWK Set.
    ///
    /// # Errors
    ///
    /// If the text is not a JWK Set, or too large.
    pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        signature::install();
        ensure!(
            bytes.len() <= MAX_BYTES,
            "it has more than {MAX_BYTES} bytes"
        );
        let set: RawSet = serde_json::from_slice(bytes).context("it is not a JWK Set")?;
        ensure!(
            set.keys.len() <= MAX_KEYS,
            "it has more than {MAX_KEYS} keys"
        );
        Ok(Self(set.keys.into_iter().filter_map(Key::parse).collect()))
    }

    /// Returns whether the set has no usable key.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first keys with this id for an algorithm, at most [`MAX_KEYS_PER_ID`].
    pub(crate) fn find(
        &self,
        id: &str,
        algorithm: Algorithm,
    ) -> Result<Vec<&DecodingKey>, KeyError> {
        let (mut found, mut error) = (Vec::new(), KeyError::UnknownId);
        for key in self.0.iter().filter(|key| key.id == id) {
            let name = format!("{algorithm:?}");
            let allows_algorithm = key.algorithm.as_ref().is_none_or(|only| *only == name);
            if key.family == algorithm.family() && allows_algorithm {
                found.push(&key.key);
            }
            error = KeyError::OtherAlgorithm;
        }
        found.truncate(MAX_KEYS_PER_ID);
        if found.is_empty() {
            Err(error)
        } else {
            Ok(found)
        }
    }
}

impl Key {
    /// Parses a key. Returns `None` if it is not usable for signatures, or slow to use.
    fn parse(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let common = &jwk.common;
        let is_for_signatures = common
            .public_key_use
            .as_ref()
            .is_none_or(|key_use| *key_use == PublicKeyUse::Signature)
            && common
                .key_operations
                .as_ref()
                .is_none_or(|operations| operations.contains(&KeyOperations::Verify));
        let of_curve = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => None,
            AlgorithmParameters::EllipticCurve(point) => match point.curve {
                EllipticCurve::P256 => Some("ES256"),
                EllipticCurve::P384 => Some("ES384"),
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => None,
            // A shared secret is not a public key.
            _ => return None,
        };
        let named = common.key_algorithm.map(|algorithm| algorithm.to_string());
        let is_usable =
            named.is_none() || of_curve.is_none_or(|only| named.as_deref() == Some(only));
        let algorithm = named.or_else(|| of_curve.map(str::to_owned));
        let id = common.key_id.clone()?;
        if !is_for_signatures || !is_usable || id.chars().count() > MAX_ID_CHARS {
            return None;
        }
        let key = DecodingKey::from_jwk(&jwk).ok().filter(is_fast)?;
        Some(Self {
            id,
            algorithm,
            family: key.family(),
            key,
        })
    }
}

/// Returns whether a key is fast to use. RSA keys are slow if their numbers are large.
fn is_fast(key: &DecodingKey) -> bool {
    let DecodingKeyKind::RsaModulusExponent { n, e } = key.kind() else {
        return true;
    };
    let (n, e) = (strip_zeros(n), strip_zeros(e));
    n.len() <= MAX_MODULUS_BYTES && (e.len(), e) <= (MAX_EXPONENT.len(), MAX_EXPONENT)
}

/// Removes the leading zero bytes of a number.
fn strip_zeros(mut number: &[u8]) -> &[u8] {
    while let [0, rest @ ..] = number {
        number = rest;
    }
    number
}
