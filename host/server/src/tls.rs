//! TLS: reads the server's certificate and key, reads them again when they change, and finds the
//! names in a peer's certificate. `skillhost-identity` finds the client with these names.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use skillhost::Trust;
use skillhost_identity::CertificateNames;
use skillhost_skills::broker::Opener;
use skillhost_skills::named_file;
use tokio_rustls::TlsAcceptor;
use webpki::{EndEntityCert, KeyUsage, VerifiedPath, anchor_from_trusted_cert};

use crate::authority::{BoundedVerifier, allows_intermediates, check_authority, check_time};

/// The maximum number of bytes of a file. Guards against: a large file of another kind.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The maximum size of the certificates that the server sends, in bytes, and also of the names of
/// authorities that it sends. Guards against: files with which no client in Java connects. Java
/// accepts messages of 32 KiB (`jdk.tls.maxHandshakeMessageSize`), rustls of 64 KiB, and OpenSSL of
/// 100 KB.
const MAX_SENT_BYTES: usize = 30 << 10;

/// The maximum number of certificates that the server sends. Guards against: a file with which no
/// client in Java connects, because Java accepts ten.
const MAX_SENT_CERTIFICATES: usize = 10;

/// The maximum number of bytes before a name in a list of authorities: its length, and the start of
/// its DER.
const MAX_NAME_HEADER: usize = 6;

/// The time between two scans of the files.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The time between two checks of a connected peer's certificate.
const CERTIFICATE_PAUSE: Duration = Duration::from_secs(5);

/// The files of a server's TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by intermediate certificates.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities of clients' certificates. `None`: clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// The TLS of a server.
pub struct Tls {
    files: TlsFiles,
    /// The users who may change the paths of the files.
    trust: Trust,
    /// The states of the files before they were first read.
    first: FileStates,
    current: RwLock<Arc<Loaded>>,
}

/// The content of the files.
struct Loaded {
    config: Arc<ServerConfig>,
    /// The certificate and its key.
    identity: Arc<SingleCertAndKey>,
    /// The authorities of clients' certificates. `None`: clients need no certificate.
    authorities: Option<Authorities>,
}

/// The states of the files, to notice changes. The state of a missing file is `None`.
type FileStates = Vec<Option<[i64; 6]>>;

impl TlsFiles {
    /// Returns the paths.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let identity = [&*self.certificate, &*self.key].into_iter();
        identity.chain(self.client_ca.as_deref())
    }

    fn states(&self) -> FileStates {
        let state = |path: &Path| {
            let metadata = path.metadata().ok()?;
            Some([
                metadata.dev().cast_signed(),
                metadata.ino().cast_signed(),
                metadata.size().cast_signed(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ])
        };
        self.paths().map(state).collect()
    }

    /// Reads the certificate and its key.
    fn read_identity(
        &self,
        trust: &Trust,
        opener: &Opener,
    ) -> anyhow::Result<Arc<SingleCertAndKey>> {
        let quoted = |path: &Path| format!("`{}`", path.display());
        let cannot = || format!("cannot use the certificate {}", quoted(&self.certificate));
        let chain = read_certificates(&self.certificate, trust, opener).with_context(cannot)?;
        check_chain(&chain).with_context(cannot)?;
        let key = read_key(&self.key, trust, opener);
        let key = key.with_context(|| format!("cannot use the key {}", quoted(&self.key)))?;
        let certified = CertifiedKey::from_der(chain, key, &default_provider());
        let certified = certified.map_err(|error| {
            let error = match error {
                rustls::Error::InconsistentKeys(_) => {
                    anyhow::anyhow!("it is not the key of the certificate")
                }
                error => error.into(),
            };
            let (key, certificate) = (quoted(&self.key), quoted(&self.certificate));
            error.context(format!("cannot use the key {key} with {certificate}"))
        })?;
        Ok(Arc::new(certified.into()))
    }

    /// Reads the authorities of clients' certificates. `None`: clients need no certificate.
    fn read_authorities(
        &self,
        trust: &Trust,
        opener: &Opener,
    ) -> anyhow::Result<Option<Authorities>> {
        let Some(file) = &self.client_ca else {
            return Ok(None);
        };
        let read = || {
            let authorities = read_certificates(file, trust, opener)?;
            authorities.iter().try_for_each(check_authority)?;
            check_names(&authorities)?;
            Ok(authorities)
        };
        let authorities: anyhow::Result<_> = read();
        let cannot = || format!("cannot use the authorities `{}`", file.display());
        authorities.with_context(cannot).map(Some)
    }
}

/// The authorities of clients' certificates.
type Authorities = Vec<CertificateDer<'static>>;

impl Loaded {
    /// Makes a configuration for TLS 1.2 and 1.3.
    fn new(
        identity: Arc<SingleCertAndKey>,
        authorities: Option<Authorities>,
    ) -> anyhow::Result<Self> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions()?;
        let builder = match &authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in authorities {
                    roots.add(authority.clone())?;
                }
                // A peer without a certificate may have a token. The gate checks both.
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .allow_unauthenticated()
                        .build()?;
                builder.with_client_cert_verifier(Arc::new(BoundedVerifier(verifier)))
            }
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&identity) as Arc<_>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if authorities.is_some() {
            // A peer that resumes a session would not show its certificate again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self {
            config: Arc::new(config),
            identity,
            authorities,
        })
    }

    /// Verifies a peer's certificate with the authorities that are valid now: rustls also accepts
    /// those that have expired. Returns the certificates from the peer's to its authority's.
    fn verify(&self, chain: &[CertificateDer<'_>]) -> Option<Vec<CertificateDer<'static>>> {
        let is_valid = |authority: &&CertificateDer<'_>| check_authority(authority).is_ok();
        let valid = self.authorities.iter().flatten().filter(is_valid);
        let valid: Vec<_> = valid
            .filter_map(|authority| Some((authority, anchor_from_trusted_cert(authority).ok()?)))
            .collect();
        let anchors: Vec<_> = valid.iter().map(|(_, anchor)| anchor.clone()).collect();
        let (first, intermediates) = chain.split_first()?;
        let certificate = EndEntityCert::try_from(first).ok()?;
        let algorithms = default_provider().signature_verification_algorithms.all;
        let (now, usage) = (UnixTime::now(), KeyUsage::client_auth());
        // webpki does not read the path length of an authority.
        let authority_of = |path: &VerifiedPath<'_>| {
            let used = path.intermediate_certificates();
            let number = used.filter(|used| used.issuer() != used.subject()).count();
            let mut authorities = valid.iter();
            authorities.find(|(authority, anchor)| {
                anchor == path.anchor() && allows_intermediates(authority, number)
            })
        };
        let check_path = |path: &VerifiedPath<'_>| {
            let authority = authority_of(path);
            let authority = authority.ok_or(webpki::Error::PathLenConstraintViolated);
            authority.map(drop)
        };
        let check_path: &dyn Fn(&VerifiedPath<'_>) -> Result<(), webpki::Error> = &check_path;
        let check_path = Some(check_path);
        let path = certificate
            .verify_for_usage(
                algorithms,
                &anchors,
                intermediates,
                now,
                usage,
                None,
                check_path,
            )
            .ok()?;
        let (authority, _) = authority_of(&path)?;
        let intermediates = path.intermediate_certificates().map(|used| used.der());
        let mut used = vec![first.clone().into_owned()];
        used.extend(intermediates.map(CertificateDer::into_owned));
        used.push((*authority).clone());
        Some(used)
    }

    /// Returns whether the certificates of a verified path are valid now, and its authority is
    /// still accepted. Verifies no signature.
    fn still_accepts(&self, path: &[CertificateDer<'_>]) -> bool {
        let authorities = self.authorities.as_deref().unwrap_or_default();
        path.last()
            .is_some_and(|authority| authorities.contains(authority))
            && path
                .iter()
                .all(|certificate| check_time(certificate).is_ok())
    }
}

/// A certificate that a peer has shown.
pub(crate) struct PeerCertificate {
    /// The certificate, and the others that the peer has sent.
    chain: Vec<CertificateDer<'static>>,
    /// The certificates from the peer's to its authority's.
    path: Vec<CertificateDer<'static>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or is not valid PEM, if the certificate has expired or is
    /// not valid yet, if it and its intermediate certificates are more than ten or have more than
    /// 30 KiB, if the key belongs to another certificate, if other users may read the key, or if
    /// users outside `trust` may change a file or its path.
    pub fn read(files: TlsFiles, trust: &Trust) -> anyhow::Result<Self> {
        let first = files.states();
        let loaded = Loaded::new(
            files.read_identity(trust, &Opener::DIRECT)?,
            files.read_authorities(trust, &Opener::DIRECT)?,
        )?;
        Ok(Self {
            files,
            trust: trust.clone(),
            first,
            current: RwLock::new(Arc::new(loaded)),
        })
    }

    /// Returns the acceptor for the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        Arc::clone(&self.current().config).into()
    }

    fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether clients are asked for a certificate.
    pub(crate) fn asks_for_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Verifies the certificate of a peer. Returns `None` if it or its authority has expired, or
    /// its authority was removed.
    pub(crate) fn verify(&self, chain: &[CertificateDer<'_>]) -> Option<PeerCertificate> {
        let path = self.current().verify(chain)?;
        let chain = chain
            .iter()
            .map(|certificate| certificate.clone().into_owned());
        let chain = chain.collect();
        Some(PeerCertificate { chain, path })
    }

    /// Returns whether a certificate that was verified is still accepted.
    ///
    /// Verifies signatures only after a change: a certificate has expired, or an authority was
    /// removed.
    fn still_accepts(&self, certificate: &mut PeerCertificate) -> bool {
        let current = self.current();
        if current.still_accepts(&certificate.path) {
            return true;
        }
        // Another authority may have signed it too.
        let path = current.verify(&certificate.chain);
        path.map(|path| certificate.path = path).is_some()
    }

    /// Waits until the certificate of a peer is no longer accepted.
    pub(crate) async fn until_refused(&self, certificate: Option<PeerCertificate>) {
        let Some(mut certificate) = certificate else {
            return std::future::pending().await;
        };
        while self.still_accepts(&mut certificate) {
            tokio::time::sleep(CERTIFICATE_PAUSE).await;
        }
    }

    /// Scans the files, with this pause between scans. Reads them again once a change is complete.
    ///
    /// Files that cannot be used are logged once, and the old certificate stays. They are read
    /// again at every scan, because a certificate becomes valid without a change of its file.
    pub(crate) async fn poll(self: Arc<Self>, pause: Duration, opener: Opener) {
        let mut changes = FileChanges::new(self.first.clone());
        let mut logged = String::new();
        loop {
            tokio::time::sleep(pause).await;
            if changes.are_complete(self.files.states()) {
                let (tls, opener) = (Arc::clone(&self), opener.clone());
                let read = tokio::task::spawn_blocking(move || tls.read_again(&opener)).await;
                let Ok(Err(error)) = read else {
                    logged.clear();
                    continue;
                };
                changes.read = None;
                let problem = format!("{error:#}");
                if problem != logged {
                    tracing::error!("{problem}");
                    logged = problem;
                }
            }
        }
    }

    /// Reads the certificate, and the authorities of clients. If only one of the two can be used,
    /// replaces that one: a bad certificate must not keep a stolen authority accepted.
    fn read_again(&self, opener: &Opener) -> anyhow::Result<()> {
        let before = self.current();
        let identity = self.files.read_identity(&self.trust, opener);
        let authorities = self.files.read_authorities(&self.trust, opener);
        let has_new_authorities = |new: &Option<Authorities>| *new != before.authorities;
        if identity.is_ok() || authorities.as_ref().is_ok_and(has_new_authorities) {
            let loaded = Loaded::new(
                identity.as_ref().unwrap_or(&before.identity).clone(),
                authorities.as_ref().unwrap_or(&before.authorities).clone(),
            )?;
            *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
        }
        let identity =
            identity.context("cannot load the new certificate; still serving the old one");
        let authorities = authorities
            .context("cannot load the new authorities of clients; still accepting the old ones");
        if let (Err(one), Err(other)) = (&identity, &authorities) {
            bail!("{one:#}; {other:#}");
        }
        identity?;
        authorities?;
        tracing::info!("the certificate was read again");
        Ok(())
    }
}

/// The states of files at the last scans, which tell whether a change is complete.
struct FileChanges {
    /// The states at the last reading. `None` if the files could not be used.
    read: Option<FileStates>,
    /// The states at the last scan.
    before: FileStates,
}

impl FileChanges {
    fn new(now: FileStates) -> Self {
        let before = now.clone();
        let read = Some(now);
        Self { read, before }
    }

    /// Records the states of a scan. Returns whether to read the files: they have changed since
    /// they were read, but not since the last scan.
    fn are_complete(&mut self, now: FileStates) -> bool {
        let before = std::mem::replace(&mut self.before, now.clone());
        if now != before || self.read.as_ref() == Some(&now) {
            return false;
        }
        self.read = Some(now);
        true
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}

/// Returns the names in a peer's certificate, or `None` without one.
pub(crate) fn certificate_names(chain: Option<&[CertificateDer<'_>]>) -> Option<CertificateNames> {
    let certificate = EndEntityCert::try_from(chain?.first()?).ok()?;
    let hosts = certificate.valid_dns_names();
    Some(CertificateNames::new(hosts, certificate.valid_uri_names()))
}

fn read_bytes(file: File) -> anyhow::Result<Vec<u8>> {
    let bytes = named_file::read_all(file, MAX_FILE_BYTES)?;
    ensure!(!bytes.is_empty(), "it is empty");
    Ok(bytes)
}

fn read_certificates(
    path: &Path,
    trust: &Trust,
    opener: &Opener,
) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let bytes = read_bytes(named_file::open_public(path, trust, opener)?)?;
    let certificates = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.context("it is not in PEM")?;
    ensure!(!certificates.is_empty(), "it holds no certificate in PEM");
    Ok(certificates)
}

/// Checks that clients accept the length and the size of a chain, and that its certificates are
/// valid now.
fn check_chain(chain: &[CertificateDer<'_>]) -> anyhow::Result<()> {
    ensure!(
        chain.len() <= MAX_SENT_CERTIFICATES,
        "it has {} certificates, more than {MAX_SENT_CERTIFICATES}, so clients in Java refuse \
         them; keep only the certificate and its intermediate ones",
        chain.len()
    );
    let bytes: usize = chain.iter().map(|certificate| certificate.len()).sum();
    ensure!(
        bytes <= MAX_SENT_BYTES,
        "its {} certificates have {bytes} bytes in DER, more than {MAX_SENT_BYTES}, so clients \
         in Java refuse them; keep only the certificate and its intermediate ones",
        chain.len()
    );
    chain.iter().try_for_each(check_time)
}

/// Checks that clients accept the size of the authorities' names, which the server sends them.
fn check_names(authorities: &[CertificateDer<'_>]) -> anyhow::Result<()> {
    let names = authorities.iter().filter_map(|authority| {
        let anchor = anchor_from_trusted_cert(authority).ok()?;
        Some(anchor.subject.len() + MAX_NAME_HEADER)
    });
    let bytes: usize = names.sum();
    ensure!(
        bytes <= MAX_SENT_BYTES,
        "the names of its {} authorities have {bytes} bytes in DER, more than {MAX_SENT_BYTES}, \
         so clients in Java refuse them; keep only the authorities of your clients",
        authorities.len()
    );
    Ok(())
}

fn read_key(path: &Path, trust: &Trust, opener: &Opener) -> anyhow::Result<PrivateKeyDer<'static>> {
    let bytes = read_bytes(named_file::open_private(path, trust, opener)?)?;
    let is_encrypted = bytes.windows(9).any(|part| part == b"ENCRYPTED");
    ensure!(
        !is_encrypted,
        "it is encrypted, which is unsupported; decrypt it"
    );
    PrivateKeyDer::from_pem_slice(&bytes).context("it holds no private key in PEM")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use super::*;
    use crate::authority::tests::{authority, authority_params};

    #[test]
    fn reads_files_once_a_change_is_complete() {
        let state = |state: i64| vec![Some([state; 6]), None];
        let mut changes = FileChanges::new(state(0));
        for (number, (scanned, are_read)) in [
            (0, false),
            (1, false),
            (1, true),
            (1, false),
            // The files are written piece by piece.
            (2, false),
            (3, false),
            (4, false),
            (4, true),
            // A change that is undone.
            (5, false),
            (4, false),
            (4, false),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(changes.are_complete(state(scanned)), are_read, "{number}");
        }
    }

    /// Serves the certificate in a folder.
    fn serve(folder: &Path) -> Arc<Tls> {
        let files = TlsFiles {
            certificate: folder.join("certificate"),
            key: folder.join("key"),
            client_ca: None,
        };
        Arc::new(Tls::read(files, &Trust::new()).unwrap())
    }

    /// Polls the files, changes them, and waits until another certificate is served.
    async fn serves_another_after<T>(tls: Arc<Tls>, change: impl FnOnce() -> T) {
        let served = || Arc::clone(&tls.current.read().unwrap());
        let before = served();
        let polling = tokio::spawn(Arc::clone(&tls).poll(Duration::from_millis(1), Opener::DIRECT));
        change();
        let until_other = async {
            while Arc::ptr_eq(&before, &served()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let changed = tokio::time::timeout(Duration::from_secs(20), until_other).await;
        changed.expect("the new certificate is not served");
        polling.abort();
    }

    #[tokio::test]
    async fn serves_changed_certificate_and_knows_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str| {
            let pair = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
            fs::write(at("certificate"), pair.cert.pem()).unwrap();
            fs::write(at("key"), pair.signing_key.serialize_pem()).unwrap();
            fs::set_permissions(at("key"), fs::Permissions::from_mode(0o600)).unwrap();
            pair.cert.der().clone()
        };
        let first = write("one.example");
        let names = certificate_names(Some(&[first])).unwrap().to_string();
        assert_eq!(names, r#"["one.example"]"#);
        assert_eq!(certificate_names(None), None);
        let tls = serve(folder.path());
        serves_another_after(tls, || write("other.example")).await;
    }

    #[tokio::test]
    async fn serves_certificate_once_it_becomes_valid() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |begins: SystemTime| {
            let mut params = rcgen::CertificateParams::new(["one.example".to_owned()]).unwrap();
            params.not_before = begins.into();
            let key = rcgen::KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            fs::write(at("certificate"), certificate.pem()).unwrap();
            fs::write(at("key"), key.serialize_pem()).unwrap();
            fs::set_permissions(at("key"), fs::Permissions::from_mode(0o600)).unwrap();
        };
        let now = SystemTime::now();
        write(now - Duration::from_secs(60));
        let tls = serve(folder.path());
        let begins = now + Duration::from_secs(3);
        serves_another_after(tls, || write(begins)).await;
        // The time in a certificate is in whole seconds.
        assert!(SystemTime::now() > begins - Duration::from_secs(1));
    }

    /// Returns TLS that accepts clients of these authorities.
    fn accepting(folder: &Path, authorities: &[&rcgen::Certificate]) -> Tls {
        let at = |name: &str| folder.join(name);
        let pair = rcgen::generate_simple_self_signed(["one.example".to_owned()]).unwrap();
        fs::write(at("certificate"), pair.cert.pem()).unwrap();
        fs::write(at("key"), pair.signing_key.serialize_pem()).unwrap();
        fs::set_permissions(at("key"), fs::Permissions::from_mode(0o600)).unwrap();
        write_authorities(folder, authorities);
        let files = TlsFiles {
            certificate: at("certificate"),
            key: at("key"),
            client_ca: Some(at("authorities")),
        };
        Tls::read(files, &Trust::new()).unwrap()
    }

    fn write_authorities(folder: &Path, authorities: &[&rcgen::Certificate]) {
        let text: String = authorities
            .iter()
            .map(|authority| authority.pem())
            .collect();
        fs::write(folder.join("authorities"), text).unwrap();
    }

    /// Returns a certificate of a client.
    fn client_of(issuer: &rcgen::Issuer<'_, rcgen::KeyPair>) -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        params.signed_by(&key, issuer).unwrap().der().clone()
    }

    #[test]
    fn idle_peers_cost_no_signature() {
        let folder = tempfile::tempdir().unwrap();
        let (one, issuer) = authority("one", |_| {});
        let (other, _) = authority("other", |_| {});
        let tls = accepting(folder.path(), &[&one, &other]);
        let chain = [client_of(&issuer)];
        let mut certificate = tls.verify(&chain).unwrap();
        // Nothing can be verified without the chain.
        let chain = std::mem::take(&mut certificate.chain);
        write_authorities(folder.path(), &[&one]);
        tls.read_again(&Opener::DIRECT).unwrap();
        assert!(tls.still_accepts(&mut certificate));
        write_authorities(folder.path(), &[&other]);
        tls.read_again(&Opener::DIRECT).unwrap();
        assert!(!tls.still_accepts(&mut certificate));
        assert!(tls.verify(&chain).is_none());
    }

    #[test]
    fn peer_stays_if_its_authority_is_renewed() {
        let folder = tempfile::tempdir().unwrap();
        let (old, issuer) = authority("one", |_| {});
        let tls = accepting(folder.path(), &[&old]);
        let mut certificate = tls.verify(&[client_of(&issuer)]).unwrap();
        let params = authority_params("one", |params| params.serial_number = Some(7.into()));
        let renewed = params.self_signed(issuer.key()).unwrap();
        assert_ne!(renewed.der(), old.der());
        write_authorities(folder.path(), &[&renewed]);
        tls.read_again(&Opener::DIRECT).unwrap();
        assert!(tls.still_accepts(&mut certificate));
        assert_eq!(certificate.path.last(), Some(renewed.der()));
    }

    #[test]
    fn path_is_refused_when_any_certificate_expires() {
        let folder = tempfile::tempdir().unwrap();
        let (root, root_issuer) = authority("root", |_| {});
        let params = authority_params("middle", |_| {});
        let key = rcgen::KeyPair::generate().unwrap();
        let middle = params.signed_by(&key, &root_issuer).unwrap().der().clone();
        let (unused, _) = authority("unused", |_| {});
        let tls = accepting(folder.path(), &[&root]);
        let client = client_of(&rcgen::Issuer::new(params, key));
        let chain = [client.clone(), unused.der().clone(), middle.clone()];
        let mut certificate = tls.verify(&chain).unwrap();
        assert_eq!(certificate.path, [client, middle, root.der().clone()]);
        certificate.chain.clear();
        assert!(tls.still_accepts(&mut certificate));
        let (expired, _) = authority("middle", |params| {
            params.not_before = SystemTime::UNIX_EPOCH.into();
            params.not_after = (SystemTime::UNIX_EPOCH + Duration::from_secs(86_400)).into();
        });
        for index in 0..2 {
            let before = std::mem::replace(&mut certificate.path[index], expired.der().clone());
            assert!(!tls.still_accepts(&mut certificate), "{index}");
            certificate.path[index] = before;
        }
    }

    #[test]
    fn authority_bounds_the_length_of_paths() {
        use rcgen::{BasicConstraints, IsCa};
        let folder = tempfile::tempdir().unwrap();
        for (longest, is_accepted) in [(None, true), (Some(1), true), (Some(0), false)] {
            let (root, root_issuer) = authority("root", |params| {
                if let Some(longest) = longest {
                    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(longest));
                }
            });
            let tls = accepting(folder.path(), &[&root]);
            assert!(tls.verify(&[client_of(&root_issuer)]).is_some());
            let params = authority_params("middle", |_| {});
            let key = rcgen::KeyPair::generate().unwrap();
            let middle = params.signed_by(&key, &root_issuer).unwrap().der().clone();
            let client = client_of(&rcgen::Issuer::new(params, key));
            let verified = tls.verify(&[client, middle]);
            assert_eq!(verified.is_some(), is_accepted, "{longest:?}");
        }
    }

    #[test]
    fn refuses_removed_authority_despite_bad_key() {
        let folder = tempfile::tempdir().unwrap();
        let (stolen, issuer) = authority("stolen", |_| {});
        let (new, new_issuer) = authority("new", |_| {});
        let tls = accepting(folder.path(), &[&stolen]);
        let identity = Arc::clone(&tls.current().identity);
        fs::write(folder.path().join("key"), "no key").unwrap();
        write_authorities(folder.path(), &[&new]);
        let error = format!("{:#}", tls.read_again(&Opener::DIRECT).unwrap_err());
        assert!(error.starts_with("cannot load the new certificate; still serving the old one: "));
        assert!(tls.verify(&[client_of(&issuer)]).is_none());
        assert!(tls.verify(&[client_of(&new_issuer)]).is_some());
        assert!(Arc::ptr_eq(&identity, &tls.current().identity));
    }

    #[test]
    fn refuses_chain_that_clients_refuse() {
        let folder = tempfile::tempdir().unwrap();
        let (one, _) = authority("one", |_| {});
        let tls = accepting(folder.path(), &[&one]);
        for (names, limit) in [
            (
                1,
                "it has 11 certificates, more than 10, so clients in Java refuse them",
            ),
            (
                1000,
                "in DER, more than 30720, so clients in Java refuse them",
            ),
        ] {
            let names: Vec<_> = (0..names).map(|name| format!("n{name}.example")).collect();
            let pair = rcgen::generate_simple_self_signed(names).unwrap();
            fs::write(folder.path().join("key"), pair.signing_key.serialize_pem()).unwrap();
            let most = (MAX_SENT_BYTES / pair.cert.der().len()).min(10);
            for (number, is_accepted) in [(most, true), (most + 1, false)] {
                let chain = pair.cert.pem().repeat(number);
                fs::write(folder.path().join("certificate"), chain).unwrap();
                let before = Arc::clone(&tls.current().identity);
                let read = tls.read_again(&Opener::DIRECT);
                let is_replaced = !Arc::ptr_eq(&before, &tls.current().identity);
                let outcome = (read.is_ok(), is_replaced);
                assert_eq!(outcome, (is_accepted, is_accepted), "{read:?}");
            }
            let at_start = Tls::read(tls.files.clone(), &Trust::new());
            let error = format!("{:#}", at_start.unwrap_err());
            assert!(error.starts_with("cannot use the certificate `"), "{error}");
            assert!(error.contains(limit), "{error}");
        }
    }

    #[test]
    fn refuses_authorities_with_too_long_names() {
        let folder = tempfile::tempdir().unwrap();
        let (one, issuer) = authority(&"x".repeat(250), |_| {});
        let tls = accepting(folder.path(), &[&one; 100]);
        write_authorities(folder.path(), &[&one; 150]);
        let error = format!("{:#}", tls.read_again(&Opener::DIRECT).unwrap_err());
        assert!(error.contains("still accepting the old ones"), "{error}");
        assert!(
            error.contains("the names of its 150 authorities"),
            "{error}"
        );
        assert!(tls.verify(&[client_of(&issuer)]).is_some());
    }

    #[test]
    fn renews_certificate_despite_bad_authorities() {
        let folder = tempfile::tempdir().unwrap();
        let (old, issuer) = authority("old", |_| {});
        let tls = accepting(folder.path(), &[&old]);
        let before = Arc::clone(&tls.current().identity);
        fs::write(folder.path().join("authorities"), "no authority").unwrap();
        let error = format!("{:#}", tls.read_again(&Opener::DIRECT).unwrap_err());
        assert!(error.contains("still accepting the old ones"), "{error}");
        assert!(!Arc::ptr_eq(&before, &tls.current().identity));
        assert!(tls.verify(&[client_of(&issuer)]).is_some());
    }

    #[test]
    fn notices_every_change_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let files = TlsFiles {
            certificate: at("certificate"),
            key: at("key"),
            client_ca: Some(at("authorities")),
        };
        let mut before = files.states();
        let mut change = |what: &str, change: &dyn Fn() -> std::io::Result<()>| {
            change().unwrap();
            let now = files.states();
            assert_ne!(now, before, "{what}");
            assert_eq!(now, files.states(), "{what}");
            before = now;
        };
        for name in ["certificate", "key", "authorities"] {
            change("made", &|| fs::write(at(name), "one"));
            change("longer", &|| fs::write(at(name), "longer"));
            change("another file", &|| {
                fs::write(at("other"), "longer")?;
                fs::rename(at("other"), at(name))
            });
        }
        change("gone", &|| fs::remove_file(at("key")));
    }
}
