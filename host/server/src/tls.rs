//! TLS: reads the server's certificate and key, reads them again when they change, and finds the
//! names in a peer's certificate. `skillhost-identity` finds the client with these names.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use skillhost::Trust;
use skillhost_identity::CertificateNames;
use skillhost_skills::broker::Opener;
use skillhost_skills::named_file;
use tokio_rustls::TlsAcceptor;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// The most bytes of a file. Guards against: a file that holds something else.
const MAX_FILE_BYTES: u64 = 1 << 20;

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
    /// The state of the files before they were first read.
    first: FileStates,
    current: RwLock<Arc<Loaded>>,
}

/// The content of the files.
struct Loaded {
    config: Arc<ServerConfig>,
    /// The authorities of clients' certificates.
    authorities: Vec<CertificateDer<'static>>,
}

/// The states of the files, to notice changes. The state of a missing file is `None`.
type FileStates = Vec<Option<[i64; 6]>>;

impl TlsFiles {
    /// Returns the paths.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let both = [&*self.certificate, &*self.key].into_iter();
        both.chain(self.client_ca.as_deref())
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

    /// Reads the files into a configuration for TLS 1.2 and 1.3.
    fn read(&self, trust: &Trust, opener: &Opener) -> anyhow::Result<Loaded> {
        let quoted = |path: &Path| format!("`{}`", path.display());
        let cannot = || format!("cannot use the certificate {}", quoted(&self.certificate));
        let chain = read_certificates(&self.certificate, trust, opener).with_context(cannot)?;
        for certificate in &chain {
            check_time(certificate).with_context(cannot)?;
        }
        let key = read_key(&self.key, trust, opener);
        let key = key.with_context(|| format!("cannot use the key {}", quoted(&self.key)))?;
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions()?;
        let mut authorities = Vec::new();
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let cannot = || format!("cannot use the authorities {}", quoted(file));
                authorities = read_certificates(file, trust, opener).with_context(cannot)?;
                let mut roots = RootCertStore::empty();
                for authority in &authorities {
                    check_authority(authority).with_context(cannot)?;
                    roots.add(authority.clone()).with_context(cannot)?;
                }
                // Peers without a certificate may have a token. The gate checks both.
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .allow_unauthenticated()
                        .build()
                        .with_context(cannot)?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            let error = match error {
                rustls::Error::InconsistentKeys(_) => {
                    anyhow::anyhow!("it is not the key of the certificate")
                }
                error => error.into(),
            };
            let (key, certificate) = (quoted(&self.key), quoted(&self.certificate));
            error.context(format!("cannot use the key {key} with {certificate}"))
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if self.client_ca.is_some() {
            // A resumed session would not be asked for its certificate again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Loaded {
            config: Arc::new(config),
            authorities,
        })
    }
}

impl Loaded {
    /// Returns whether a peer's certificate is accepted now. rustls alone would accept one of an
    /// expired authority.
    fn accepts(&self, chain: &[CertificateDer<'_>]) -> bool {
        let is_valid = |authority: &&CertificateDer<'_>| check_authority(authority).is_ok();
        let valid = self.authorities.iter().filter(is_valid);
        let anchors: Vec<_> = valid.flat_map(anchor_from_trusted_cert).collect();
        let Some((Ok(certificate), intermediates)) = chain
            .split_first()
            .map(|(first, rest)| (EndEntityCert::try_from(first), rest))
        else {
            return false;
        };
        let algorithms = default_provider().signature_verification_algorithms.all;
        let (now, usage) = (UnixTime::now(), KeyUsage::client_auth());
        certificate
            .verify_for_usage(algorithms, &anchors, intermediates, now, usage, None, None)
            .is_ok()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or has other content, if the certificate has expired or is
    /// not valid yet, if the key belongs to another certificate, if other users may read the key,
    /// or if users outside `trust` may change a file or its path.
    pub fn read(files: TlsFiles, trust: &Trust) -> anyhow::Result<Self> {
        let first = files.states();
        let loaded = files.read(trust, &Opener::DIRECT)?;
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

    /// Returns whether a peer may stay connected. A peer with a certificate may not, once the
    /// certificate or its authority has expired, or the authority was removed.
    pub(crate) fn accepts(&self, chain: Option<&[CertificateDer<'_>]>) -> bool {
        chain.is_none_or(|chain| self.current().accepts(chain))
    }

    /// Waits until a peer must be [disconnected](Self::accepts).
    pub(crate) async fn refuses(&self, chain: Option<&[CertificateDer<'_>]>) {
        if chain.is_none() {
            return std::future::pending().await;
        }
        while self.accepts(chain) {
            tokio::time::sleep(CERTIFICATE_PAUSE).await;
        }
    }

    /// Scans the files at this interval, and reads them again with an opener once a change is
    /// complete.
    ///
    /// Files that cannot be used are logged once, and the old certificate stays. They are read again
    /// at every scan, because a certificate becomes valid without a change of its file.
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
                    tracing::error!(
                        "cannot load the new certificate; still serving the old one: {problem}"
                    );
                    logged = problem;
                }
            }
        }
    }

    fn read_again(&self, opener: &Opener) -> anyhow::Result<()> {
        let loaded = self.files.read(&self.trust, opener)?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(loaded);
        tracing::info!("the certificate was read again");
        Ok(())
    }
}

/// The changes of files, which may be incomplete.
struct FileChanges {
    /// The states that were read. `None` if the files could not be used.
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

    /// Takes the states of a scan. Returns whether to read the files: they have changed since they
    /// were read, but not since the last scan.
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

fn read_key(path: &Path, trust: &Trust, opener: &Opener) -> anyhow::Result<PrivateKeyDer<'static>> {
    let bytes = read_bytes(named_file::open_private(path, trust, opener)?)?;
    let is_encrypted = bytes.windows(9).any(|part| part == b"ENCRYPTED");
    ensure!(
        !is_encrypted,
        "it is encrypted, which is unsupported; decrypt it"
    );
    PrivateKeyDer::from_pem_slice(&bytes).context("it holds no private key in PEM")
}

/// Checks that a certificate is valid now. Clients check the rest.
fn check_time(certificate: &CertificateDer<'_>) -> anyhow::Result<()> {
    is_authority(certificate).map(drop)
}

/// Checks that a certificate is valid now and may sign others. webpki trusts any certificate as an
/// authority.
fn check_authority(certificate: &CertificateDer<'_>) -> anyhow::Result<()> {
    ensure!(
        is_authority(certificate)?,
        "it holds a certificate that may not sign others"
    );
    Ok(())
}

/// Returns whether a certificate may sign others.
///
/// # Errors
///
/// Fails if it is not a certificate, has expired or is not valid yet.
fn is_authority(certificate: &CertificateDer<'_>) -> anyhow::Result<bool> {
    let parsed = EndEntityCert::try_from(certificate).context("it holds no valid certificate")?;
    let usage = KeyUsage::server_auth();
    // webpki checks the time first, then that it is not an authority, and its issuer last.
    let checked = parsed.verify_for_usage(&[], &[], &[], UnixTime::now(), usage, None, None);
    match checked {
        Err(webpki::Error::CertExpired { .. }) => anyhow::bail!("it has expired"),
        Err(webpki::Error::CertNotValidYet { .. }) => anyhow::bail!("it is not valid yet"),
        Err(webpki::Error::CaUsedAsEndEntity) => Ok(true),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use super::*;

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
