//! Checks the authorities of clients' certificates, and bounds the chain of a certificate. webpki
//! verifies the signatures, but it accepts any certificate as an authority, and ignores an
//! authority's key usage and path length.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};

/// The maximum number of intermediate certificates of a peer. Guards against: the cost of checking
/// many invented certificates.
const MAX_INTERMEDIATES: usize = 5;

/// The last number in the identifier of the extension for a key's usage: 2.5.29.15.
const KEY_USAGE: u8 = 15;

/// The last number in the identifier of the extension for an authority's path length: 2.5.29.19.
const BASIC_CONSTRAINTS: u8 = 19;

/// The bit for signatures in the first byte of a key's usage.
const DIGITAL_SIGNATURE: u8 = 0x80;

/// The bit for signing certificates in the first byte of a key's usage.
const SIGNS_CERTIFICATES: u8 = 0x04;

/// The last number in the identifier of the extension for a certificate's purposes: 2.5.29.37.
const EXTENDED_KEY_USAGE: u8 = 37;

/// A verifier that bounds a peer's chain before another verifier checks its signatures.
#[derive(Debug)]
pub(crate) struct BoundedVerifier(pub(crate) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for BoundedVerifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        check_intermediates(intermediates)?;
        check_client_key(end_entity)?;
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Checks that a peer has few intermediate certificates, that their names differ, and that they may
/// sign.
///
/// At each step, webpki tries every certificate that has the issuer's name, so equal names would
/// multiply the signatures to verify.
fn check_intermediates(intermediates: &[CertificateDer<'_>]) -> Result<(), CertificateError> {
    if intermediates.len() > MAX_INTERMEDIATES {
        return Err(CertificateError::ApplicationVerificationFailure);
    }
    let mut subjects = Vec::new();
    for intermediate in intermediates {
        let parsed =
            EndEntityCert::try_from(intermediate).map_err(|_| CertificateError::BadEncoding)?;
        let subject = parsed.subject().to_vec();
        if subjects.contains(&subject) {
            return Err(CertificateError::ApplicationVerificationFailure);
        }
        if !may_sign_for_clients(intermediate) {
            return Err(CertificateError::InvalidPurpose);
        }
        subjects.push(subject);
    }
    Ok(())
}

/// Checks that a client's key may sign a handshake, or that its certificate names no key usage.
fn check_client_key(certificate: &[u8]) -> Result<(), CertificateError> {
    let extensions = extensions(certificate).ok_or(CertificateError::BadEncoding)?;
    let signs = |(id, usage): &(&[u8], &[u8])| {
        *id != [0x55, 0x1d, KEY_USAGE] || has_usage(usage, DIGITAL_SIGNATURE)
    };
    if !extensions.iter().all(signs) {
        return Err(CertificateError::InvalidPurpose);
    }
    Ok(())
}

/// Returns whether an authority allows this number of intermediate certificates below it.
pub(crate) fn allows_intermediates(authority: &[u8], number: usize) -> bool {
    let Some(extensions) = extensions(authority) else {
        return false;
    };
    extensions.iter().all(|(id, value)| {
        if *id != [0x55, 0x1d, BASIC_CONSTRAINTS] {
            return true;
        }
        let list = element(value).filter(|list| list.tag == 0x30);
        list.is_some_and(|list| {
            let longest = elements(list.contents).find(|part| part.tag == 0x02);
            longest.is_none_or(|longest| match longest.contents {
                [longest @ 0..=0x7f] => number <= usize::from(*longest),
                // A single byte is a negative number here. A longer number exceeds every chain.
                longest => longest.len() > 1,
            })
        })
    })
}

/// Checks that a certificate is valid now. Clients check the rest.
pub(crate) fn check_time(certificate: &CertificateDer<'_>) -> anyhow::Result<()> {
    is_authority(certificate).map(drop)
}

/// Checks that a certificate is valid now and may sign certificates of clients.
pub(crate) fn check_authority(certificate: &CertificateDer<'_>) -> anyhow::Result<()> {
    ensure!(
        is_authority(certificate)? && may_sign_for_clients(certificate),
        "a certificate in the file may not sign certificates of clients"
    );
    Ok(())
}

/// Returns whether a certificate belongs to an authority.
///
/// # Errors
///
/// If the certificate is malformed, has expired or is not valid yet.
fn is_authority(certificate: &CertificateDer<'_>) -> anyhow::Result<bool> {
    let parsed =
        EndEntityCert::try_from(certificate).context("a certificate in the file is malformed")?;
    let usage = KeyUsage::server_auth();
    // webpki checks the time first, then that the certificate is not an authority's, then its
    // issuer.
    let checked = parsed.verify_for_usage(&[], &[], &[], UnixTime::now(), usage, None, None);
    match checked {
        Err(webpki::Error::CertExpired { .. }) => {
            anyhow::bail!("a certificate in the file has expired")
        }
        Err(webpki::Error::CertNotValidYet { .. }) => {
            anyhow::bail!("a certificate in the file is not valid yet")
        }
        Err(webpki::Error::CaUsedAsEndEntity) => Ok(true),
        _ => Ok(false),
    }
}

/// Returns whether a certificate may sign certificates of clients. If it names a key usage or
/// purposes, they must allow that.
fn may_sign_for_clients(certificate: &[u8]) -> bool {
    let Some(extensions) = extensions(certificate) else {
        return false;
    };
    let is_for_clients = |purposes: &[u8]| {
        const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
        const ANY: &[u8] = &[0x55, 0x1d, 37, 0];
        let list = element(purposes).filter(|list| list.tag == 0x30);
        list.is_some_and(|list| {
            elements(list.contents).any(|purpose| [CLIENT_AUTH, ANY].contains(&purpose.contents))
        })
    };
    extensions.iter().all(|(id, value)| match id {
        [0x55, 0x1d, KEY_USAGE] => has_usage(value, SIGNS_CERTIFICATES),
        [0x55, 0x1d, EXTENDED_KEY_USAGE] => is_for_clients(value),
        _ => true,
    })
}

/// Returns whether a key's usage has this bit.
fn has_usage(usage: &[u8], bit: u8) -> bool {
    // A bit string begins with the number of unused bits.
    let bits = element(usage).filter(|bits| bits.tag == 0x03);
    bits.and_then(|bits| bits.contents.get(1).copied())
        .is_some_and(|bits| bits & bit != 0)
}

/// Returns the identifier and the value of each extension of a certificate.
fn extensions(certificate: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let signed = element(element(certificate)?.contents)?;
    let Some(tagged) = elements(signed.contents).find(|part| part.tag == 0xa3) else {
        return Some(Vec::new());
    };
    elements(element(tagged.contents)?.contents)
        .map(extension)
        .collect()
}

fn extension(element: Element<'_>) -> Option<(&[u8], &[u8])> {
    // The flag `critical` can stand between the identifier and the value.
    let id = elements(element.contents).next()?;
    let value = elements(element.contents).last()?;
    (id.tag == 0x06 && value.tag == 0x04).then_some((id.contents, value.contents))
}

/// An element of DER.
struct Element<'a> {
    tag: u8,
    contents: &'a [u8],
    /// The bytes after the element.
    rest: &'a [u8],
}

/// Returns the first element of bytes in DER.
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (&[tag, length], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // The length of the length follows; 64 KiB are enough for a certificate.
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some(Element {
        tag,
        contents,
        rest,
    })
}

/// Returns the elements of bytes in DER, up to the first that is malformed.
fn elements(mut bytes: &[u8]) -> impl Iterator<Item = Element<'_>> {
    std::iter::from_fn(move || {
        let first = element(bytes)?;
        bytes = first.rest;
        Some(first)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
        KeyPair, KeyUsagePurpose,
    };

    use super::*;

    /// Returns the certificate of an authority with this name, and its issuer for signing.
    pub(crate) fn authority(
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (rcgen::Certificate, Issuer<'static, KeyPair>) {
        let key = KeyPair::generate().unwrap();
        let params = authority_params(name, change);
        let certificate = params.self_signed(&key).unwrap();
        (certificate, Issuer::new(params, key))
    }

    pub(crate) fn authority_params(
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        params
    }

    #[test]
    fn accepts_authorities_that_may_sign_for_clients() {
        use ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
        use KeyUsagePurpose::{CrlSign, DigitalSignature, KeyCertSign};
        for (usages, purposes, is_accepted) in [
            (vec![], vec![], true),
            (vec![KeyCertSign], vec![], true),
            (
                vec![DigitalSignature, KeyCertSign, CrlSign],
                vec![ServerAuth, ClientAuth],
                true,
            ),
            (vec![], vec![Any], true),
            (vec![DigitalSignature], vec![], false),
            (vec![CrlSign], vec![ClientAuth], false),
            (vec![], vec![ServerAuth], false),
            (vec![KeyCertSign], vec![ServerAuth], false),
        ] {
            let (certificate, _) = authority("a", |params| {
                params.key_usages.clone_from(&usages);
                params.extended_key_usages.clone_from(&purposes);
            });
            let case = format!("{usages:?} {purposes:?}");
            assert_eq!(
                check_authority(certificate.der()).is_ok(),
                is_accepted,
                "{case}"
            );
            let checked = check_intermediates(&[certificate.der().clone()]);
            assert_eq!(checked.is_ok(), is_accepted, "{case}");
        }
    }

    #[test]
    fn accepts_client_keys_that_may_sign() {
        use KeyUsagePurpose::{DigitalSignature, KeyAgreement, KeyCertSign, KeyEncipherment};
        for (usages, is_accepted) in [
            (vec![], true),
            (vec![DigitalSignature], true),
            (vec![KeyEncipherment, DigitalSignature], true),
            (vec![KeyEncipherment], false),
            (vec![KeyAgreement, KeyCertSign], false),
        ] {
            let (certificate, _) = authority("a", |params| params.key_usages.clone_from(&usages));
            let checked = check_client_key(certificate.der());
            assert_eq!(checked.is_ok(), is_accepted, "{usages:?}");
        }
    }

    #[test]
    fn bounds_intermediates_by_number_and_name() {
        let named = |name: &str| authority(name, |_| {}).0.der().clone();
        let mut chain: Vec<_> = ["a", "b", "c", "d", "e"].map(named).to_vec();
        assert_eq!(check_intermediates(&chain), Ok(()));
        chain.push(named("f"));
        check_intermediates(&chain).unwrap_err();
        chain.truncate(2);
        chain.push(named("a"));
        check_intermediates(&chain).unwrap_err();
    }

    #[test]
    fn malformed_certificates_sign_nothing() {
        let (certificate, _) = authority("a", |params| {
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        });
        let certificate = certificate.der();
        assert!(may_sign_for_clients(certificate));
        for length in 0..certificate.len() {
            assert!(!may_sign_for_clients(&certificate[..length]), "{length}");
        }
        // No changed byte causes a panic.
        for index in 0..certificate.len() {
            for byte in [0, 0x7f, 0x80, 0x81, 0x82, 0x83, 0xff] {
                let mut changed = certificate.to_vec();
                changed[index] = byte;
                may_sign_for_clients(&changed);
            }
        }
    }
}
