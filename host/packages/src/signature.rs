//! Signatures of manifests: sigstore bundles with an in-toto statement, as cosign writes and verifies
//! them. This module signs and verifies with P-256 keys; `identity` verifies identities.
//!
//! The bundle has a DSSE envelope. The signature covers the envelope's encoding (PAE) of the
//! statement, which names the digest of the manifest.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skillhost_skills::broker::Opener;
use skillhost_skills::named_file;
use skillhost_skills::text::digest::sha256_hex;
use skillhost_skills::trust::Trust;

use crate::digest::Digest;
use crate::identity::{IdentityRule, SignerIdentity, SigningRoot};
use crate::quote::{quote, quote_error};
use crate::statement::{PREDICATE_TYPE, STATEMENT, check_statement};

/// The media type of a bundle.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The prefix of the media types of all versions of bundles.
pub(crate) const BUNDLE_PREFIX: &str = "application/vnd.dev.sigstore.bundle";

/// The type of the signed payload.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// The key of the annotation with the predicate type of a bundle.
pub(crate) const PREDICATE_TYPE_ANNOTATION: &str = "dev.sigstore.bundle.predicateType";

/// The maximum size of a bundle, in bytes. Guards against: a registry that fills the memory.
pub(crate) const MAX_BUNDLE: u64 = 256 << 10;

/// The maximum size of a key file, in bytes.
const MAX_KEY: u64 = 16 << 10;

/// The DER encoding of a P-256 public key, before its point.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The size of an uncompressed point, in bytes.
const POINT: usize = 65;

/// A public key that verifies signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    point: Vec<u8>,
}

/// A signer that a rule of `[trust]` names.
#[derive(Debug)]
pub struct TrustedSigner(Trusted);

#[derive(Debug)]
enum Trusted {
    Key(PublicKey),
    Identity(IdentityRule, SigningRoot),
}

impl From<PublicKey> for TrustedSigner {
    fn from(key: PublicKey) -> Self {
        Self(Trusted::Key(key))
    }
}

impl TrustedSigner {
    /// Creates the signer of a rule about identities.
    pub(crate) fn identity(rule: IdentityRule, root: SigningRoot) -> Self {
        Self(Trusted::Identity(rule, root))
    }

    /// Returns the signer of a manifest.
    ///
    /// # Errors
    ///
    /// If the bundle is invalid, signed by another signer, or about another manifest.
    pub(crate) fn verify(&self, bundle: &[u8], manifest: &Digest) -> anyhow::Result<Signer> {
        match &self.0 {
            Trusted::Key(key) => {
                key.verify(bundle, manifest)?;
                Ok(Signer::Key(key.id()))
            }
            Trusted::Identity(rule, root) => {
                let found = root.verify(rule, bundle, manifest)?;
                Ok(Signer::Identity(found))
            }
        }
    }
}

/// A private key that signs.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

/// The signer of a package, as a lock file names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signer {
    /// No signature, or one that no rule of `[trust]` asks for.
    Unsigned,
    /// A key. Its id is the SHA-256 of its encoding.
    Key(String),
    /// An identity that had a certificate for a few minutes.
    Identity(SignerIdentity),
}

impl Signer {
    /// Returns whether another signer is the same. The git refs of workflows may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Identity(one), Self::Identity(other)) => one.is_same(other),
            _ => self == other,
        }
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned => f.write_str("unsigned"),
            Self::Key(id) => write!(f, "key:{}", quote(id)),
            Self::Identity(identity) => identity.fmt(f),
        }
    }
}

impl PublicKey {
    /// Reads a key in PEM. Only users in `trust` may change the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be used or has no P-256 public key.
    pub fn read(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        let read = || {
            let file = named_file::open_public(path, trust, trust.opener())?;
            Self::from_pem(&named_file::read_all_text(file, MAX_KEY)?)
        };
        read().with_context(|| format!("cannot use the public key `{}`", path.display()))
    }

    /// Parses a key in PEM.
    pub(crate) fn from_pem(text: &str) -> anyhow::Result<Self> {
        ensure!(
            !text.contains("PRIVATE KEY"),
            "it is a private key, which only the signer needs; `openssl pkey -in FILE -pubout` \
             prints the public one"
        );
        let der = decode_pem(text, "PUBLIC KEY");
        let point = der
            .as_deref()
            .and_then(|der| der.strip_prefix(&SPKI_PREFIX));
        let point = point.filter(|point| point.len() == POINT && point[0] == 4);
        let point = point.context("it is not a P-256 public key in PEM")?;
        Ok(Self {
            point: point.to_vec(),
        })
    }

    fn der(&self) -> Vec<u8> {
        [&SPKI_PREFIX, &self.point[..]].concat()
    }

    /// Returns the key's id: the SHA-256 of its encoding, in hex.
    pub fn id(&self) -> String {
        sha256_hex(&self.der())
    }

    /// Checks that a bundle has a signature of a manifest by this key.
    ///
    /// # Errors
    ///
    /// If the bundle is invalid, signed by another key, or about another manifest.
    pub(crate) fn verify(&self, bundle: &[u8], manifest: &Digest) -> anyhow::Result<()> {
        let bundle: Bundle = serde_json::from_slice(bundle)
            .map_err(quote_error)
            .context("the bundle is invalid")?;
        ensure!(
            bundle.media_type.starts_with(BUNDLE_PREFIX),
            "the bundle has an unknown media type"
        );
        let envelope = bundle
            .dsse_envelope
            .context("the bundle has no DSSE envelope")?;
        ensure!(
            envelope.payload_type == PAYLOAD_TYPE,
            "the payload of the bundle has the type `{}` instead of `{PAYLOAD_TYPE}`",
            quote(&envelope.payload_type)
        );
        let payload = STANDARD.decode(&envelope.payload);
        let payload = payload.context("the payload is invalid base64")?;
        let [signature] = &envelope.signatures[..] else {
            bail!(
                "the bundle has {} signatures instead of one",
                envelope.signatures.len()
            );
        };
        let signature = STANDARD.decode(&signature.sig);
        let signature = signature.context("the signature is invalid base64")?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point);
        let verified = key.verify(&encode(PAYLOAD_TYPE, &payload), &signature);
        ensure!(
            verified.is_ok(),
            "it is not signed by the key {}",
            self.id()
        );
        check_statement(&payload, manifest)
    }
}

impl SigningKey {
    /// Reads a private key: PKCS#8 in PEM, as openssl writes it.
    ///
    /// # Errors
    ///
    /// If the file cannot be used, others can read it, or it has no P-256 key.
    pub fn read(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        let read = || {
            let file = named_file::open_private(path, trust, &Opener::DIRECT)?;
            Self::from_pem(&named_file::read_all_text(file, MAX_KEY)?)
        };
        read().with_context(|| format!("cannot use the key file `{}`", path.display()))
    }

    pub(crate) fn from_pem(text: &str) -> anyhow::Result<Self> {
        let wrong = "it is not a P-256 private key in PEM (PKCS#8); `openssl genpkey -algorithm EC \
                     -pkeyopt ec_paramgen_curve:P-256` makes one";
        let der = decode_pem(text, "PRIVATE KEY").context(wrong)?;
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random);
        let pair = pair.ok().context(wrong)?;
        Ok(Self { pair, random })
    }

    /// Returns the public key.
    pub fn public(&self) -> PublicKey {
        PublicKey {
            point: self.pair.public_key().as_ref().to_vec(),
        }
    }

    /// Returns a bundle with a signature of a manifest.
    pub(crate) fn sign(&self, manifest: &Digest) -> anyhow::Result<Vec<u8>> {
        let statement = json!({
            "_type": STATEMENT,
            "subject": [{"digest": {"sha256": manifest.hex()}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {},
        });
        self.sign_statement(&statement)
    }

    fn sign_statement(&self, statement: &Value) -> anyhow::Result<Vec<u8>> {
        let payload = serde_json::to_vec(statement)?;
        let signed = self
            .pair
            .sign(&self.random, &encode(PAYLOAD_TYPE, &payload));
        let signature = signed.ok().context("cannot sign")?;
        let bundle = Bundle {
            media_type: BUNDLE.to_owned(),
            verification_material: json!({
                "publicKey": {"hint": STANDARD.encode(self.public().id())},
            }),
            dsse_envelope: Some(Envelope {
                payload: STANDARD.encode(payload),
                payload_type: PAYLOAD_TYPE.to_owned(),
                signatures: vec![EnvelopeSignature {
                    sig: STANDARD.encode(signature),
                }],
            }),
        };
        Ok(serde_json::to_vec(&bundle)?)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    #[serde(default)]
    verification_material: Value,
    #[serde(default)]
    dsse_envelope: Option<Envelope>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Serialize, Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

/// Returns the bytes that a DSSE envelope's signature covers.
fn encode(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}

/// Returns the bytes of the only block of PEM with this label.
fn decode_pem(text: &str, label: &str) -> Option<Vec<u8>> {
    let text = text
        .trim()
        .strip_prefix(&format!("-----BEGIN {label}-----"))?;
    let text = text.strip_suffix(&format!("-----END {label}-----"))?;
    let text: String = text.split_ascii_whitespace().collect();
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::STATEMENT_OF_COSIGN_2;
    use crate::tests::signing_key;

    #[test]
    fn verifies_only_its_own_signature_of_the_manifest() {
        let (one, two) = (signing_key(), signing_key());
        let (manifest, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let bundle = one.sign(&manifest).unwrap();
        one.public().verify(&bundle, &manifest).unwrap();
        let message = |key: &SigningKey, bundle: &[u8], manifest: &Digest| {
            format!("{:#}", key.public().verify(bundle, manifest).unwrap_err())
        };
        assert!(message(&two, &bundle, &manifest).contains("not signed by the key"));
        assert!(message(&one, &bundle, &other).contains("another artifact"));
        assert!(message(&one, b"{", &manifest).contains("bundle is invalid"));
        let changed = |pointer: &str, value: Value| {
            let mut json: Value = serde_json::from_slice(&bundle).unwrap();
            *json.pointer_mut(pointer).unwrap() = value;
            message(&one, json.to_string().as_bytes(), &manifest)
        };
        let payload = STANDARD.encode(
            json!({
                "_type": STATEMENT,
                "subject": [{"digest": {"sha256": manifest.hex()}}],
                "predicateType": PREDICATE_TYPE,
                "predicate": {"more": true},
            })
            .to_string(),
        );
        for (pointer, value, expected) in [
            ("/mediaType", json!("text/plain"), "unknown media type"),
            ("/dsseEnvelope", json!(null), "no DSSE envelope"),
            (
                "/dsseEnvelope/payloadType",
                json!("text/plain"),
                "instead of `application/vnd.in-toto",
            ),
            (
                "/dsseEnvelope/payload",
                json!("%"),
                "payload is invalid base64",
            ),
            (
                "/dsseEnvelope/payload",
                json!(payload),
                "not signed by the key",
            ),
            ("/dsseEnvelope/signatures", json!([]), "0 signatures"),
            (
                "/dsseEnvelope/signatures/0/sig",
                json!("%"),
                "signature is invalid base64",
            ),
            (
                "/dsseEnvelope/signatures/0/sig",
                json!("AAAA"),
                "not signed by the key",
            ),
        ] {
            let message = changed(pointer, value);
            assert!(message.contains(expected), "{pointer}: {message}");
        }
    }

    #[test]
    fn refuses_statements_of_other_types() {
        let key = signing_key();
        let manifest = Digest::of(b"one");
        let verify = |kind: &str, predicate: &str| {
            let statement = json!({
                "_type": kind,
                "subject": [{"name": "x", "digest": {"sha256": manifest.hex()}}],
                "predicateType": predicate,
                "predicate": {},
            });
            let bundle = key.sign_statement(&statement).unwrap();
            let verified = key.public().verify(&bundle, &manifest);
            verified.map_err(|error| error.to_string())
        };
        for kind in [STATEMENT, STATEMENT_OF_COSIGN_2] {
            verify(kind, PREDICATE_TYPE).unwrap();
            // An attestation is about an artifact, but does not sign it.
            let error = verify(kind, "https://slsa.dev/provenance/v1").unwrap_err();
            assert!(error.contains("of another type"), "{error}");
        }
        let error = verify("https://in-toto.io/Statement/v2", PREDICATE_TYPE).unwrap_err();
        assert!(error.contains("of another type"), "{error}");
    }

    #[test]
    fn signs_the_encoding_that_dsse_defines() {
        // The example of the DSSE specification.
        let encoded = encode("http://example.com/HelloWorld", b"hello world");
        let expected = "DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(encoded, expected.as_bytes());
    }
}
