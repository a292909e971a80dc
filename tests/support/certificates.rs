//! Certificates for tests, and their files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};

use super::program::Program;

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: String,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// Makes an authority with changed parameters.
    pub(crate) fn with(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self {
            issuer,
            certificate,
        }
    }

    /// Signs a certificate for names: DNS names, or URIs if they contain a colon.
    pub(crate) fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::default();
        let name = |name: &&str| {
            if name.contains(':') {
                SanType::URI((*name).try_into().unwrap())
            } else {
                SanType::DnsName((*name).try_into().unwrap())
            }
        };
        params.subject_alt_names = names.iter().map(name).collect();
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// Signs a certificate for a server on `localhost`.
    pub(crate) fn server_pair(&self) -> Pair {
        self.sign(&["localhost"], |_| {})
    }

    /// Signs a certificate for a client with this name.
    pub(crate) fn client_pair(&self, name: &str) -> Pair {
        self.sign(&[name], |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }
}

/// Writes a file that only its owner can read.
pub(crate) fn write_owner_only(program: &Program, name: &str, text: &str) {
    program.write(name, text);
    let path = program.folder.path().join(name);
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Writes the files `NAME.crt` and `NAME.key`.
pub(crate) fn write_pair(program: &Program, name: &str, pair: &Pair) {
    program.write(&format!("{name}.crt"), &pair.certificate);
    write_owner_only(program, &format!("{name}.key"), &pair.key);
}
