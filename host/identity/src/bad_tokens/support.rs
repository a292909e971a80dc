//! Keys, tokens and clients for the tests of access tokens.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaKeyPair,
};
use serde_json::{Value, json};
use skillhost::{Trust, config};

use crate::clients::Clients;
use crate::refusal::Refusal;
use crate::settings::IdentitySettings;

pub(super) const RESOURCE: &str = "https://mcp.example.com/mcp";
pub(super) const ISSUER: &str = "https://login.example.com";

/// An RSA key that only these tests use.
const RSA_KEY: &str = include_str!("../../tests/rsa-key.base64");

/// The keys of an issuer, and the key of another issuer.
pub(super) struct TestKeys {
    random: SystemRandom,
    pub(super) elliptic: EcdsaKeyPair,
    elliptic_asn1: EcdsaKeyPair,
    elliptic_384: EcdsaKeyPair,
    foreign: EcdsaKeyPair,
    edwards: Ed25519KeyPair,
    rsa: RsaKeyPair,
}

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl TestKeys {
    pub(super) fn new() -> Self {
        let random = SystemRandom::new();
        let method = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let elliptic = EcdsaKeyPair::generate_pkcs8(method, &random).unwrap();
        let method_384 = &ECDSA_P384_SHA384_FIXED_SIGNING;
        let elliptic_384 = EcdsaKeyPair::generate_pkcs8(method_384, &random).unwrap();
        let foreign = EcdsaKeyPair::generate_pkcs8(method, &random).unwrap();
        let asn1 = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let edwards = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let rsa = BASE64_STANDARD.decode(RSA_KEY.replace('\n', "")).unwrap();
        Self {
            elliptic_asn1: EcdsaKeyPair::from_pkcs8(asn1, elliptic.as_ref(), &random).unwrap(),
            elliptic: EcdsaKeyPair::from_pkcs8(method, elliptic.as_ref(), &random).unwrap(),
            elliptic_384: EcdsaKeyPair::from_pkcs8(method_384, elliptic_384.as_ref(), &random)
                .unwrap(),
            foreign: EcdsaKeyPair::from_pkcs8(method, foreign.as_ref(), &random).unwrap(),
            edwards: Ed25519KeyPair::from_pkcs8(edwards.as_ref()).unwrap(),
            rsa: RsaKeyPair::from_pkcs8(&rsa).unwrap(),
            random,
        }
    }

    /// Returns the public keys as a JWK Set.
    pub(super) fn jwk_set(&self) -> Value {
        let point = self.elliptic.public_key().as_ref();
        let foreign = self.foreign.public_key().as_ref();
        let point_384 = self.elliptic_384.public_key().as_ref();
        let rsa: PublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        let rsa =
            |id: &str| json!({"kty": "RSA", "kid": id, "n": base64(&rsa.n), "e": base64(&rsa.e)});
        let mut only_rs256 = rsa("only RS256");
        only_rs256["alg"] = "RS256".into();
        let crowd = |crv: &str, point: &[u8], alg: Option<&str>| {
            let (x, y) = point[1..].split_at(point.len() / 2);
            json!({"kty": "EC", "crv": crv, "kid": "crowd", "alg": alg, "x": base64(x), "y": base64(y)})
        };
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "alg": "ES256",
             "x": base64(&point[1..33]), "y": base64(&point[33..])},
            rsa("rsa"),
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": base64(self.edwards.public_key().as_ref())},
            {"kty": "EC", "crv": "P-256", "kid": "secrecy", "use": "enc",
             "x": base64(&point[1..33]), "y": base64(&point[33..])},
            {"kty": "EC", "crv": "P-256", "kid": "agreement", "key_ops": ["deriveKey", "sign"],
             "x": base64(&point[1..33]), "y": base64(&point[33..])},
            {"kty": "EC", "crv": "P-256", "kid": "operations", "key_ops": ["sign", "verify"],
             "x": base64(&point[1..33]), "y": base64(&point[33..])},
            {"kty": "oct", "kid": "shared", "k": base64(b"a secret that is shared")},
            {"kty": "quantum", "kid": "new"},
            {"kty": "EC", "crv": "P-384", "kid": "ec 384",
             "x": base64(&point_384[1..49]), "y": base64(&point_384[49..])},
            only_rs256,
            // Two keys with the same id.
            rsa("two"),
            {"kty": "EC", "crv": "P-256", "kid": "two",
             "x": base64(&point[1..33]), "y": base64(&point[33..])},
            {"kty": "EC", "crv": "P-256", "kid": "x".repeat(256),
             "x": base64(&point[1..33]), "y": base64(&point[33..])},
            // Two keys with the same id and algorithm.
            {"kty": "EC", "crv": "P-256", "kid": "twins",
             "x": base64(&foreign[1..33]), "y": base64(&foreign[33..])},
            {"kty": "EC", "crv": "P-256", "kid": "twins",
             "x": base64(&point[1..33]), "y": base64(&point[33..])},
            // Four keys of another curve before a key with the same id.
            crowd("P-384", point_384, None),
            crowd("P-384", point_384, None),
            crowd("P-384", point_384, Some("ES256")),
            crowd("P-384", point_384, Some("ES384")),
            crowd("P-256", point, None),
        ]})
    }

    pub(super) fn sign(&self, key: &str, message: &[u8]) -> Vec<u8> {
        let sign = |key: &EcdsaKeyPair| key.sign(&self.random, message).unwrap().as_ref().to_vec();
        match key {
            "ec" => sign(&self.elliptic),
            "asn1" => sign(&self.elliptic_asn1),
            "ec 384" => sign(&self.elliptic_384),
            "foreign" => sign(&self.foreign),
            "ed" => self.edwards.sign(message).as_ref().to_vec(),
            "rsa" | "rsa 384" | "rsa 512" | "pss" | "pss 384" | "pss 512" => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                let padding: &dyn ring::signature::RsaEncoding = match key {
                    "rsa" => &RSA_PKCS1_SHA256,
                    "rsa 384" => &RSA_PKCS1_SHA384,
                    "rsa 512" => &RSA_PKCS1_SHA512,
                    "pss" => &RSA_PSS_SHA256,
                    "pss 384" => &RSA_PSS_SHA384,
                    _ => &RSA_PSS_SHA512,
                };
                self.rsa
                    .sign(padding, &self.random, message, &mut signature)
                    .unwrap();
                signature
            }
            "none" => Vec::new(),
            "zero" => vec![0; 64],
            // Algorithm confusion: a public key that is used as a shared secret.
            secret => {
                let bytes = match secret {
                    "rsa-as-secret" => self.rsa.public().as_ref(),
                    "ec-as-secret" => self.elliptic.public_key().as_ref(),
                    _ => b"a secret that is shared",
                };
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, bytes);
                ring::hmac::sign(&key, message).as_ref().to_vec()
            }
        }
    }

    /// Returns a token with this header and these claims.
    pub(super) fn token(&self, header: &str, claims: &str, key: &str) -> String {
        let message = format!(
            "{}.{}",
            base64(header.as_bytes()),
            base64(claims.as_bytes())
        );
        let signature = base64(&self.sign(key, message.as_bytes()));
        format!("{message}.{signature}")
    }

    /// Returns a valid token with this number of bytes.
    pub(super) fn token_of_length(&self, bytes: usize) -> String {
        // Base64 turns three bytes into four, so the claims alone do not give every length.
        let padded = |header_padding: usize, claims_padding: usize| {
            let header = with(header(), json!({"x": "x".repeat(header_padding)}));
            let claims = with(claims(), json!({"x": "x".repeat(claims_padding)}));
            self.token(&header, &claims, "ec")
        };
        let most = (bytes - padded(0, 0).len()) * 3 / 4;
        let mut paddings =
            (0..4).flat_map(|header| (most - 8..=most).map(move |claims| (header, claims)));
        let token = paddings.find_map(|(header, claims)| {
            Some(padded(header, claims)).filter(|token| token.len() == bytes)
        });
        token.expect("some padding gives the length")
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

pub(super) fn header() -> Value {
    json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"})
}

pub(super) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": RESOURCE, "exp": now() + 600, "sub": "u1", "client_id": "ci",
           "scope": "openid skills:read"})
}

/// Returns an object with some members changed. Null removes a member.
pub(super) fn with(mut value: Value, change: Value) -> String {
    for (name, member) in change.as_object().unwrap() {
        match member {
            Value::Null => drop(value.as_object_mut().unwrap().remove(name)),
            member => value[name] = member.clone(),
        }
    }
    value.to_string()
}

/// Returns the clients in these tables, whose issuer has these keys.
pub(super) fn clients(keys: &Value, tables: &str) -> Clients {
    clients_with("", keys, tables)
}

/// Returns the clients in these tables, whose issuer has these keys and this line in its table.
pub(super) fn clients_with(line: &str, keys: &Value, tables: &str) -> Clients {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.json"), keys.to_string()).unwrap();
    let text = format!(
        "[http]\nresource = \"{RESOURCE}\"\n[issuers.a]\nissuer = \"{ISSUER}\"\n\
         jwks_file = \"keys.json\"\n{line}\n{tables}"
    );
    let settings: IdentitySettings = config::parse(&text, "skillhost.toml", folder.path()).unwrap();
    let clients = Clients::read(&settings.clients, &Trust::new()).unwrap();
    clients
        .with_issuers(
            &settings.clients,
            &settings.issuers,
            RESOURCE,
            &Trust::new(),
        )
        .unwrap()
}

pub(super) fn identify(clients: &Clients, token: &str) -> Result<Option<Arc<str>>, Refusal> {
    let header = format!("Bearer {token}");
    let identity = clients.identify([header.as_bytes()].into_iter());
    identity.map(|identity| identity.client.name().cloned())
}
