//! A signing service for tests. As sigstore's services do, it issues certificates to identities and
//! logs signatures.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
    SerialNumber, SigningKey as _, date_time_ymd,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The start of the object identifiers of sigstore's extensions.
const SIGSTORE: [u64; 8] = [1, 3, 6, 1, 4, 1, 57264, 1];

/// The object identifiers in a timestamp, in DER.
const SIGNED_DATA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02";
const TIMESTAMP: &[u8] = b"\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x04";
const CONTENT_TYPE: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x03";
const CONTENT_DIGEST: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x04";
const SHA256: &[u8] = b"\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01";
const ECDSA_SHA256: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
const COMMON_NAME: &[u8] = b"\x06\x03\x55\x04\x03";
const POLICY: &[u8] = b"\x06\x03\x2a\x03\x04";

/// The tags of DER.
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const UTF8: u8 = 0x0c;
const TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const CONTEXT: u8 = 0xa0;

/// The name of the authority.
const AUTHORITY: &str = "signing authority";

/// The serial number of each certificate, a positive number of one byte.
const SERIAL: u8 = 7;

/// The object identifier of the extension with signed certificate timestamps.
const CERTIFICATE_TIMESTAMPS: [u64; 10] = [1, 3, 6, 1, 4, 1, 11129, 2, 4, 2];

/// The time from which each certificate is valid: 2025-01-01, in seconds since 1970. All
/// certificates have long expired.
const VALID_FROM: u64 = 1_735_689_600;

/// The time that a certificate is valid for, in seconds.
const LIFETIME: u64 = 600;

const PAYLOAD: &str = "application/vnd.in-toto+json";

/// A signer, and the faults that the signing service makes for the signer.
#[derive(Clone)]
pub(crate) struct Signing {
    pub(crate) identity: String,
    pub(crate) issuer: String,
    pub(crate) repository: Option<String>,
    pub(crate) git_ref: Option<String>,
    /// The seconds from [`VALID_FROM`] to the signature.
    pub(crate) signed_after: u64,
    /// False if the log does not sign the time of its entry.
    pub(crate) has_time: bool,
    /// The seconds from [`VALID_FROM`] to a timestamp of the signature.
    pub(crate) timestamped_after: Option<u64>,
    /// False if no log recorded the certificate.
    pub(crate) is_recorded: bool,
    /// True if the certificate is for signing code, false if it is for servers.
    pub(crate) is_for_code: bool,
    pub(crate) predicate: String,
}

impl Default for Signing {
    fn default() -> Self {
        let repository = "https://forge.example/acme/csv";
        Self {
            identity: format!("{repository}/.github/workflows/release.yml@refs/tags/v1"),
            issuer: "https://tokens.forge.example".to_owned(),
            repository: Some(repository.to_owned()),
            git_ref: Some("refs/tags/v1".to_owned()),
            signed_after: 60,
            has_time: true,
            timestamped_after: None,
            is_recorded: true,
            is_for_code: true,
            predicate: "https://sigstore.dev/cosign/sign/v1".to_owned(),
        }
    }
}

/// An authority for certificates, a log of them, a log of signatures, and a service for timestamps.
pub(crate) struct SigningService {
    authority: Issuer<'static, KeyPair>,
    certificate: Vec<u8>,
    timestamp_key: KeyPair,
    timestamp_certificate: Vec<u8>,
    certificate_log: KeyPair,
    signature_log: KeyPair,
}

impl SigningService {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, AUTHORITY);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().to_vec();
        let authority = Issuer::new(params, key);
        let timestamp_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.serial_number = Some(SerialNumber::from(vec![SERIAL]));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::TimeStamping];
        let signed = params.signed_by(&timestamp_key, &authority).unwrap();
        Self {
            authority,
            certificate,
            timestamp_key,
            timestamp_certificate: signed.der().to_vec(),
            certificate_log: KeyPair::generate().unwrap(),
            signature_log: KeyPair::generate().unwrap(),
        }
    }

    /// Returns the trusted root of the service.
    pub(crate) fn root(&self) -> Value {
        let window = json!({"start": "2020-01-01T00:00:00Z"});
        let log = |key: &KeyPair| {
            json!({
                "baseUrl": "https://log.example",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": STANDARD.encode(key.subject_public_key_info()),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": window,
                },
                "logId": {"keyId": STANDARD.encode(key_id(key))},
            })
        };
        let authority = |chain: &[&[u8]]| {
            let chain = chain.iter();
            let chain = chain.map(|bytes| json!({"rawBytes": STANDARD.encode(bytes)}));
            json!({
                "subject": {"organization": "acme", "commonName": AUTHORITY},
                "uri": "https://authority.example",
                "certChain": {"certificates": chain.collect::<Vec<_>>()},
                "validFor": window,
            })
        };
        let timestamp_chain = [&self.timestamp_certificate[..], &self.certificate];
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(&self.signature_log)],
            "certificateAuthorities": [authority(&[&self.certificate])],
            "ctlogs": [log(&self.certificate_log)],
            "timestampAuthorities": [authority(&timestamp_chain)],
        })
    }

    /// Signs a manifest, named by the hex digits of its digest. Returns the bundle.
    pub(crate) fn sign(&self, manifest: &str, signing: &Signing) -> Value {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certify(&key, signing);
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {"sha256": manifest}}],
            "predicateType": signing.predicate,
            "predicate": {},
        });
        let payload = statement.to_string();
        let signed = format!(
            "DSSEv1 {} {PAYLOAD} {} {payload}",
            PAYLOAD.len(),
            payload.len()
        );
        let signature = key.sign(signed.as_bytes()).unwrap();
        let timestamps = signing.timestamped_after.map(|seconds| {
            let timestamp = self.timestamp(&signature, seconds);
            json!({"signedTimestamp": STANDARD.encode(timestamp)})
        });
        let timestamps: Vec<Value> = timestamps.into_iter().collect();
        let signature = STANDARD.encode(signature);
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": STANDARD.encode(&certificate)},
                "tlogEntries": [self.log(&payload, &signature, &certificate, signing)],
                "timestampVerificationData": {"rfc3161Timestamps": timestamps},
            },
            "dsseEnvelope": {
                "payload": STANDARD.encode(payload),
                "payloadType": PAYLOAD,
                "signatures": [{"sig": signature}],
            },
        })
    }

    /// Returns a certificate for a key of the signer.
    fn certify(&self, key: &KeyPair, signing: &Signing) -> Vec<u8> {
        let valid_from = date_time_ymd(2025, 1, 1);
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.serial_number = Some(SerialNumber::from(vec![SERIAL; 16]));
        params.not_before = valid_from;
        params.not_after = valid_from + Duration::from_secs(LIFETIME);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![if signing.is_for_code {
            ExtendedKeyUsagePurpose::CodeSigning
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        }];
        let identity = signing.identity.as_str().try_into().unwrap();
        params.subject_alt_names = vec![if signing.identity.contains("://") {
            SanType::URI(identity)
        } else {
            SanType::Rfc822Name(identity)
        }];
        for (number, text) in [
            (8, Some(&signing.issuer)),
            (12, signing.repository.as_ref()),
            (14, signing.git_ref.as_ref()),
        ] {
            let oid = [&SIGSTORE[..], &[number]].concat();
            let extension = |text: &String| {
                CustomExtension::from_oid_content(&oid, der_item(UTF8, text.as_bytes()))
            };
            params.custom_extensions.extend(text.map(extension));
        }
        let unrecorded = params.signed_by(key, &self.authority).unwrap();
        if !signing.is_recorded {
            return unrecorded.der().to_vec();
        }
        let extension = self.record(der_content(unrecorded.der()));
        params.custom_extensions.push(extension);
        let certificate = params.signed_by(key, &self.authority).unwrap();
        certificate.der().to_vec()
    }

    /// Returns an RFC 3161 timestamp of a signature, `seconds` after [`VALID_FROM`] and on the same
    /// day.
    fn timestamp(&self, signature: &[u8], seconds: u64) -> Vec<u8> {
        let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60];
        let time = format!("20250101{hour:02}{minute:02}{second:02}Z");
        let algorithm = der_sequence(&[SHA256]);
        let digest = |bytes: &[u8]| der_item(OCTETS, &Sha256::digest(bytes));
        let content = der_sequence(&[
            &der_item(INTEGER, &[1]),
            POLICY,
            &der_sequence(&[&algorithm, &digest(signature)]),
            &der_item(INTEGER, &[1]),
            &der_item(TIME, time.as_bytes()),
        ]);
        let attributes = [
            der_sequence(&[CONTENT_TYPE, &der_item(SET, TIMESTAMP)]),
            der_sequence(&[CONTENT_DIGEST, &der_item(SET, &digest(&content))]),
        ]
        .concat();
        let signed = self.timestamp_key.sign(&der_item(SET, &attributes));
        let name = der_sequence(&[COMMON_NAME, &der_item(UTF8, AUTHORITY.as_bytes())]);
        let name = der_sequence(&[&der_item(SET, &name)]);
        let signer = der_sequence(&[
            &der_item(INTEGER, &[1]),
            &der_sequence(&[&name, &der_item(INTEGER, &[SERIAL])]),
            &algorithm,
            &der_item(CONTEXT, &attributes),
            &der_sequence(&[ECDSA_SHA256]),
            &der_item(OCTETS, &signed.unwrap()),
        ]);
        let data = der_sequence(&[
            &der_item(INTEGER, &[3]),
            &der_item(SET, &algorithm),
            &der_sequence(&[TIMESTAMP, &der_item(CONTEXT, &der_item(OCTETS, &content))]),
            &der_item(SET, &signer),
        ]);
        let granted = der_sequence(&[&der_item(INTEGER, &[0])]);
        der_sequence(&[
            &granted,
            &der_sequence(&[SIGNED_DATA, &der_item(CONTEXT, &data)]),
        ])
    }

    /// Records a certificate in the log of certificates. Returns the extension that proves the
    /// record. `rest` begins with the signed part of the certificate.
    fn record(&self, rest: &[u8]) -> CustomExtension {
        let signed = &rest[..rest.len() - der_rest(rest).len()];
        let time = ((VALID_FROM + 1) * 1000).to_be_bytes();
        let authority = Sha256::digest(self.authority.key().subject_public_key_info());
        let length = u32::try_from(signed.len()).unwrap().to_be_bytes();
        let entry = [
            &[0, 0],
            &time[..],
            &[0, 1],
            &authority[..],
            &length[1..],
            signed,
            &[0, 0],
        ]
        .concat();
        let signature = self.certificate_log.sign(&entry).unwrap();
        let id = key_id(&self.certificate_log);
        let proof = [
            &[0],
            &id[..],
            &time[..],
            &[0, 0, 4, 3],
            &with_length(&signature)[..],
        ]
        .concat();
        let list = with_length(&with_length(&proof));
        CustomExtension::from_oid_content(&CERTIFICATE_TIMESTAMPS, der_item(OCTETS, &list))
    }

    /// Returns the entry of a signature in the log of signatures. The log has no other entry.
    fn log(&self, payload: &str, signature: &str, certificate: &[u8], signing: &Signing) -> Value {
        let key = &self.signature_log;
        let hash =
            |bytes: &[u8]| json!({"algorithm": "sha256", "value": hex(&Sha256::digest(bytes))});
        let pem = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            STANDARD.encode(certificate)
        );
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": hash(b"any"),
                "payloadHash": hash(payload.as_bytes()),
                "signatures": [{"signature": signature, "verifier": STANDARD.encode(pem)}],
            },
        })
        .to_string();
        let root = Sha256::digest([&[0], body.as_bytes()].concat());
        let note = format!("log.example\n1\n{}\n", STANDARD.encode(root));
        let signed_note = [&key_id(key)[..4], &key.sign(note.as_bytes()).unwrap()].concat();
        let signed_note = STANDARD.encode(signed_note);
        let time = VALID_FROM + signing.signed_after;
        let (id, body) = (key_id(key), STANDARD.encode(body));
        let promise = format!(
            r#"{{"body":"{body}","integratedTime":{time},"logID":"{}","logIndex":0}}"#,
            hex(&id)
        );
        let mut entry = json!({
            "logIndex": "0",
            "logId": {"keyId": STANDARD.encode(id)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": time.to_string(),
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": STANDARD.encode(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": format!("{note}\n— log.example {signed_note}\n")},
            },
            "canonicalizedBody": body,
        });
        if signing.has_time {
            let promise = STANDARD.encode(key.sign(promise.as_bytes()).unwrap());
            entry["inclusionPromise"] = json!({"signedEntryTimestamp": promise});
        }
        entry
    }
}

/// Returns the id of the log that signs with a key.
fn key_id(key: &KeyPair) -> Vec<u8> {
    Sha256::digest(key.subject_public_key_info()).to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns bytes after their length, which takes two bytes.
fn with_length(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length, bytes].concat()
}

/// Returns a DER item.
fn der_item(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    let [high, low] = length.to_be_bytes();
    let length = match length {
        0..128 => vec![low],
        128..256 => vec![0x81, low],
        256.. => vec![0x82, high, low],
    };
    [&[tag], &length[..], content].concat()
}

fn der_sequence(items: &[&[u8]]) -> Vec<u8> {
    der_item(SEQUENCE, &items.concat())
}

/// Returns the bytes after the tag and the length of a DER item.
fn der_content(item: &[u8]) -> &[u8] {
    let more = usize::from(item[1].saturating_sub(0x80));
    &item[2 + more..]
}

/// Returns the bytes after a DER item.
fn der_rest(item: &[u8]) -> &[u8] {
    let content = der_content(item);
    let header = &item[1..item.len() - content.len()];
    let length = match header {
        [short] => usize::from(*short),
        [_, bytes @ ..] => bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
        [] => unreachable!(),
    };
    &content[length..]
}
