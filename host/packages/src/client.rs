//! The client of a registry. Everything that a registry sends is bounded and checked.
//!
//! Credentials are sent to the registry, and to a token service at the registry's origin. Other
//! token services get no credentials. Redirects of blobs are followed without credentials.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE, WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode, Uri};
use serde::Deserialize;
use skillhost_skills::named_file;
use skillhost_skills::trust::Trust;
use ureq::Body;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::transport::DefaultConnector;

use crate::credentials::{self, CredentialSource};
use crate::digest::Digest;
use crate::manifest::{self, MAX_MANIFEST, Manifest};
use crate::quote::quote;
use crate::reference::{Reference, Version, is_loopback};
use crate::resolver::{CheckedResolver, RegistryAddresses, Target};

/// The maximum number of redirects for a blob.
const MAX_REDIRECTS: usize = 3;

/// The maximum number of attempts to read a blob. Guards against: a registry that aborts each
/// response.
const MAX_ATTEMPTS: usize = 4;

/// The maximum time of a request without a large body, from name resolution to the last byte.
/// Guards against: a registry that answers slowly or never.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(30);

/// The minimum average speed at which a blob is transferred. Guards against: a registry that sends
/// one byte per second.
pub(crate) const MIN_BYTES_PER_SECOND: u64 = 64 << 10;

/// The maximum size of a token service's response, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// The maximum size of a registry's challenges (`WWW-Authenticate`), in bytes.
const MAX_CHALLENGE: usize = 4096;

/// The maximum number of bytes of a server's error message that an error shows.
const MAX_ERROR: u64 = 512;

/// The maximum size of a file of certificate authorities, in bytes.
const MAX_AUTHORITIES_BYTES: u64 = 1 << 20;

/// A callback that reports the progress of a blob: the number of bytes that have arrived, and the
/// blob's size. If the size is not known, the second number is the maximum size.
///
/// The callback is dropped when the transfer ends.
pub type BlobProgress = Box<dyn FnMut(u64, u64)>;

/// The settings of a client.
#[derive(Debug, Clone, Default)]
pub struct RegistrySettings {
    /// Files of credentials, as docker and podman write them.
    ///
    /// The first file with credentials for the registry is used.
    pub credentials: Vec<PathBuf>,
    /// Certificate authorities that are trusted instead of Mozilla's.
    pub authorities: Option<Authorities>,
    /// The maximum time of a request without a large body. `None` means 30 seconds.
    pub request_time: Option<Duration>,
    /// The time by which all transfers must end. `None` means that only the limits of each request
    /// apply.
    pub deadline: Option<Instant>,
    /// Starts a progress report for each blob that is read.
    pub progress: Option<fn() -> BlobProgress>,
}

/// Certificate authorities.
#[derive(Debug, Clone)]
pub struct Authorities {
    roots: RootCerts,
    /// The text of the file, for git.
    pem: Arc<[u8]>,
}

impl RegistrySettings {
    /// Returns the certificate authorities in PEM.
    pub(crate) fn authorities_pem(&self) -> Option<&[u8]> {
        self.authorities.as_ref().map(|it| &*it.pem)
    }
}

impl Authorities {
    /// Reads a file of certificate authorities in PEM.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, others can change it, or it has no certificate.
    pub fn read(file: &Path, trust: &Trust) -> anyhow::Result<Self> {
        let read = || -> anyhow::Result<Self> {
            let opened = named_file::open_public(file, trust, trust.opener())?;
            let bytes = named_file::read_all(opened, MAX_AUTHORITIES_BYTES)?;
            let mut found: Vec<Certificate<'static>> = Vec::new();
            for item in parse_pem(&bytes) {
                if let PemItem::Certificate(certificate) = item? {
                    found.push(certificate);
                }
            }
            ensure!(!found.is_empty(), "the file has no certificate in PEM");
            Ok(Self {
                roots: RootCerts::new_with_certs(&found),
                pem: bytes.into(),
            })
        };
        read().with_context(|| {
            let file = file.display();
            format!("cannot use the certificate authorities in `{file}`")
        })
    }
}

/// Connections to a server that the operator names, and to hosts that the server names.
pub(crate) struct Connections {
    /// Sends requests to the server.
    server: ureq::Agent,
    /// Sends requests to other hosts, whose addresses must be public or also the server's.
    others: ureq::Agent,
    /// Sends requests to token services on other hosts.
    token_service: ureq::Agent,
    /// The scheme, host and port of the server.
    origin: String,
    deadline: Option<Instant>,
}

/// A client for one repository of a registry.
pub struct Registry {
    connections: Connections,
    repository: String,
    credentials: Option<CredentialSource>,
    /// The reason why the credential helper returned no credentials.
    helper_problem: Option<String>,
    /// The value of the header `Authorization`, once the registry has asked for credentials.
    authorization: Option<String>,
    /// The access to request from a token service: `pull` or `pull,push`.
    scope: &'static str,
    request_time: Duration,
    progress: Option<fn() -> BlobProgress>,
}

/// The parts of a request, which is sent again if the registry asks for credentials.
struct RequestParts<'a> {
    method: Method,
    address: String,
    headers: Vec<(http::HeaderName, &'a str)>,
    body: Option<&'a [u8]>,
    time: Duration,
}

/// The response of a token service. It may have both keys, with the same value.
#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

impl Connections {
    /// Creates connections, with TLS unless `is_plain`. Does not connect yet.
    ///
    /// `authority` is the server's host, and the port if it is not the default.
    pub(crate) fn new(authority: &str, is_plain: bool, settings: &RegistrySettings) -> Self {
        let authorities = settings.authorities.as_ref();
        let roots = authorities.map(|authorities| authorities.roots.clone());
        let scheme = if is_plain { "http" } else { "https" };
        let tls = TlsConfig::builder().root_certs(roots.unwrap_or(RootCerts::WebPki));
        let tls = tls.build();
        let addresses = RegistryAddresses::default();
        let agent = |target| {
            let config = ureq::Agent::config_builder()
                .tls_config(tls.clone())
                .https_only(!is_plain)
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .proxy(None)
                .user_agent("skillhost")
                .build();
            let resolver = CheckedResolver::new(target, Arc::clone(&addresses));
            ureq::Agent::with_parts(config, DefaultConnector::default(), resolver)
        };
        Self {
            server: agent(Target::Registry),
            others: agent(Target::Redirect),
            token_service: agent(Target::TokenService),
            origin: format!("{scheme}://{authority}"),
            deadline: settings.deadline,
        }
    }

    /// Returns the scheme, host and port of the server.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Reads the bytes at an address of the server, or at one that the server named. Fails if there
    /// are more than `max` bytes.
    pub(crate) fn read(&self, address: &str, max: u64, time: Duration) -> anyhow::Result<Vec<u8>> {
        let time = self.bound(time);
        let agent = if self.is_on_server(address) {
            &self.server
        } else {
            &self.others
        };
        let request = Request::get(address).body(())?;
        let request = agent.configure_request(request);
        let response = agent.run(request.timeout_global(Some(time)).build());
        let response = response
            .map_err(|error| anyhow::anyhow!("cannot reach the server: {}", explain(&error)))?;
        let mut response = self.follow(address.to_owned(), response, None, time)?;
        check_status(&mut response, &[StatusCode::OK])?;
        read_bounded(response.body_mut(), max)
    }

    /// Returns the time until the deadline, if there is a deadline.
    fn time_left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    /// Limits the time of a request to the time left until the deadline.
    fn bound(&self, time: Duration) -> Duration {
        time.min(self.time_left().unwrap_or(time))
    }

    /// Follows the redirects of a response, without credentials. Requests the same range each time.
    fn follow(
        &self,
        mut address: String,
        mut response: Response<Body>,
        range: Option<&str>,
        time: Duration,
    ) -> anyhow::Result<Response<Body>> {
        for _ in 0..MAX_REDIRECTS {
            if !response.status().is_redirection() {
                break;
            }
            address = join(&address, location(&response)?)?;
            let mut request = Request::get(&address);
            if let Some(range) = range {
                request = request.header(RANGE, range);
            }
            let request = self.others.configure_request(request.body(())?);
            let request = request.timeout_global(Some(self.bound(time))).build();
            let sent = self.others.run(request);
            response = sent.map_err(|error| {
                let why = explain(&error);
                anyhow::anyhow!("cannot follow the redirect to `{}`: {why}", quote(&address))
            })?;
        }
        ensure!(
            !response.status().is_redirection(),
            "the server redirects more than {MAX_REDIRECTS} times"
        );
        Ok(response)
    }

    /// Returns whether an address belongs to the server.
    fn is_on_server(&self, address: &str) -> bool {
        let rest = address.strip_prefix(&self.origin);
        rest.is_some_and(|rest| rest.starts_with('/'))
    }
}

impl Registry {
    /// Creates a client that reads a repository. Does not connect yet.
    ///
    /// # Errors
    ///
    /// If the settings name a file that cannot be used.
    pub fn new(reference: &Reference, settings: &RegistrySettings) -> anyhow::Result<Self> {
        let registry = reference.registry();
        let repository = reference.repository().to_owned();
        // A registry on this machine has TLS only if the operator named certificate authorities.
        let is_plain = is_loopback(registry) && settings.authorities.is_none();
        Ok(Self {
            connections: Connections::new(registry, is_plain, settings),
            credentials: credentials::find(&settings.credentials, registry, &repository)?,
            repository,
            helper_problem: None,
            authorization: None,
            scope: "pull",
            request_time: settings.request_time.unwrap_or(REQUEST_TIME),
            progress: settings.progress,
        })
    }

    /// Adds a hint to an error if the deadline for transfers has passed.
    pub fn explain_deadline<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        if self.connections.time_left() != Some(Duration::ZERO) {
            return result;
        }
        result.context(
            "the time for transfers is over; run the command again, which keeps finished \
             transfers, or allow more time with `--transfer-minutes`",
        )
    }

    /// Returns the client changed so that it also asks for the right to write.
    pub fn for_push(mut self) -> Self {
        self.scope = "pull,push";
        self
    }

    /// Returns the manifest of a version, with its bytes and digest.
    pub(crate) fn manifest(
        &mut self,
        version: &Version,
    ) -> anyhow::Result<(Manifest, Vec<u8>, Digest)> {
        let found = self.find_manifest(version)?;
        found.with_context(|| match version {
            Version::Tag(tag) => format!("the registry has no version `{tag}`"),
            Version::Digest(digest) => format!("the registry has no manifest {digest}"),
        })
    }

    /// Returns the manifest of a version, or `None` if the registry has none.
    pub(crate) fn find_manifest(
        &mut self,
        version: &Version,
    ) -> anyhow::Result<Option<(Manifest, Vec<u8>, Digest)>> {
        let name = match version {
            Version::Tag(tag) => tag.clone(),
            Version::Digest(digest) => digest.to_string(),
        };
        let parts = RequestParts {
            headers: vec![(ACCEPT, manifest::ACCEPT)],
            ..self.request_parts(format!("manifests/{name}"))
        };
        let mut response = self.send(&parts)?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let cannot_read = "cannot read the manifest";
        check_status(&mut response, &[StatusCode::OK]).context(cannot_read)?;
        let header = |name: &str| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some(value.split(';').next().unwrap_or(value).trim().to_owned())
        };
        let (media_type, claimed) = (header("content-type"), header("docker-content-digest"));
        let bytes = read_bounded(response.body_mut(), MAX_MANIFEST).context(cannot_read)?;
        let digest = Digest::of(&bytes);
        if let Version::Digest(expected) = version {
            ensure!(
                digest == *expected,
                "the registry sent a manifest with the digest {digest} instead of {expected}"
            );
        }
        if let Some(claimed) = claimed {
            ensure!(
                claimed == digest.to_string(),
                "the registry says that the manifest has the digest `{}`, but it has {digest}",
                quote(&claimed)
            );
        }
        let manifest = Manifest::parse(&bytes, media_type.as_deref())?;
        Ok(Some((manifest, bytes, digest)))
    }

    /// Reads a blob, which must have exactly `size` bytes. The caller has checked this size.
    pub(crate) fn blob(&mut self, digest: &Digest, size: u64) -> anyhow::Result<Vec<u8>> {
        self.read_blob(digest, size, size)
            .with_context(|| format!("cannot read the blob {digest}"))
    }

    /// Reads a blob of unknown size, which must have at most `max` bytes.
    pub(crate) fn blob_up_to(&mut self, digest: &Digest, max: u64) -> anyhow::Result<Vec<u8>> {
        self.read_blob(digest, 0, max)
            .with_context(|| format!("cannot read the blob {digest}"))
    }

    fn read_blob(&mut self, digest: &Digest, min: u64, max: u64) -> anyhow::Result<Vec<u8>> {
        let time = self.request_time + Duration::from_secs(max / MIN_BYTES_PER_SECOND);
        let deadline = Instant::now() + self.connections.bound(time);
        let mut progress = self.progress.map(|start| start());
        let mut bytes = Vec::new();
        for attempt in 1.. {
            let mut body = self.open_blob(digest, &mut bytes, deadline)?;
            let mut reader = body.as_reader();
            let mut part = vec![0; 64 << 10];
            let read = loop {
                let read = match reader.read(&mut part) {
                    Ok(0) => break Ok(()),
                    Ok(read) => read,
                    Err(error) => break Err(error),
                };
                bytes.extend_from_slice(&part[..read]);
                ensure!(
                    bytes.len() as u64 <= max,
                    "it has more than the {max} allowed bytes"
                );
                if let Some(progress) = &mut progress {
                    progress(bytes.len() as u64, max);
                }
            };
            match read {
                Ok(()) => break,
                Err(_) if attempt < MAX_ATTEMPTS && Instant::now() < deadline => {}
                Err(error) => return Err(explain_read(error)),
            }
        }
        ensure!(
            bytes.len() as u64 >= min,
            "it has {} bytes, but its manifest declares {max}",
            bytes.len()
        );
        let found = Digest::of(&bytes);
        ensure!(found == *digest, "its bytes have the digest {found}");
        Ok(bytes)
    }

    /// Requests the bytes of a blob after those in `received`, and returns the response's body.
    /// Clears `received` if the registry sends the blob from the start again.
    fn open_blob(
        &mut self,
        digest: &Digest,
        received: &mut Vec<u8>,
        deadline: Instant,
    ) -> anyhow::Result<Body> {
        let range = (!received.is_empty()).then(|| format!("bytes={}-", received.len()));
        let range = range.as_deref();
        let time = || deadline.saturating_duration_since(Instant::now());
        let parts = RequestParts {
            time: time(),
            headers: range.iter().map(|range| (RANGE, *range)).collect(),
            ..self.request_parts(format!("blobs/{digest}"))
        };
        let response = self.send(&parts)?;
        let address = parts.address;
        let followed = self.connections.follow(address, response, range, time());
        let mut response = followed?;
        if range.is_some() && response.status() == StatusCode::PARTIAL_CONTENT {
            let sent = response.headers().get(CONTENT_RANGE);
            let sent = sent.and_then(|it| it.to_str().ok()).unwrap_or_default();
            ensure!(
                sent.starts_with(&format!("bytes {}-", received.len())),
                "the registry does not resume the blob at byte {}",
                received.len()
            );
        } else {
            check_status(&mut response, &[StatusCode::OK])?;
            received.clear();
        }
        Ok(response.into_body())
    }

    /// Returns the list of the manifests that refer to `subject`, such as its signatures.
    ///
    /// Reads the list from the referrers API, or else from the fallback tag. Returns `None` if the
    /// registry has neither.
    pub(crate) fn referrers(&mut self, subject: &Digest) -> anyhow::Result<Option<Manifest>> {
        let parts = RequestParts {
            headers: vec![(ACCEPT, manifest::OCI_INDEX)],
            ..self.request_parts(format!("referrers/{subject}"))
        };
        let mut response = self.send(&parts)?;
        if response.status() == StatusCode::OK {
            let bytes = read_bounded(response.body_mut(), MAX_MANIFEST)?;
            let index = Manifest::parse(&bytes, Some(manifest::OCI_INDEX));
            return index.context("the list of referrers is invalid").map(Some);
        }
        let tag = Version::Tag(fallback_tag(subject));
        Ok(self.find_manifest(&tag)?.map(|(manifest, ..)| manifest))
    }

    /// Returns whether the registry has the referrers API.
    pub(crate) fn has_referrers_api(&mut self, subject: &Digest) -> anyhow::Result<bool> {
        let parts = self.request_parts(format!("referrers/{subject}"));
        Ok(self.send(&parts)?.status() == StatusCode::OK)
    }

    /// Writes a blob, unless the registry has it already.
    pub(crate) fn put_blob(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let digest = Digest::of(bytes);
        let find = RequestParts {
            method: Method::HEAD,
            ..self.request_parts(format!("blobs/{digest}"))
        };
        if self.send(&find)?.status() == StatusCode::OK {
            return Ok(());
        }
        let start = RequestParts {
            method: Method::POST,
            body: Some(b""),
            ..self.request_parts("blobs/uploads/".to_owned())
        };
        let mut response = self.send(&start)?;
        check_status(&mut response, &[StatusCode::ACCEPTED])
            .context("the registry refused the upload of a blob")?;
        let address = join(&start.address, location(&response)?)?;
        ensure!(
            self.connections.is_on_server(&address),
            "the registry moves the upload to another origin, which gets no credentials: `{}`",
            quote(&address)
        );
        let separator = if address.contains('?') { '&' } else { '?' };
        let size = bytes.len() as u64;
        let put = RequestParts {
            method: Method::PUT,
            address: format!("{address}{separator}digest={digest}"),
            headers: vec![(CONTENT_TYPE, "application/octet-stream")],
            body: Some(bytes),
            time: self.request_time + Duration::from_secs(size / MIN_BYTES_PER_SECOND),
        };
        let mut response = self.send(&put)?;
        check_status(&mut response, &[StatusCode::CREATED]).context("the registry refused the blob")
    }

    /// Writes a manifest under its digest or a tag.
    pub(crate) fn put_manifest(
        &mut self,
        version: &Version,
        media_type: &str,
        bytes: &[u8],
    ) -> anyhow::Result<()> {
        let name = match version {
            Version::Tag(tag) => tag.clone(),
            Version::Digest(digest) => digest.to_string(),
        };
        let put = RequestParts {
            method: Method::PUT,
            headers: vec![(CONTENT_TYPE, media_type)],
            body: Some(bytes),
            ..self.request_parts(format!("manifests/{name}"))
        };
        let mut response = self.send(&put)?;
        let good = [StatusCode::CREATED, StatusCode::OK];
        check_status(&mut response, &good).context("the registry refused the manifest")
    }

    /// Returns the parts of a `GET` request for a path in the repository.
    fn request_parts(&self, path: String) -> RequestParts<'static> {
        let origin = &self.connections.origin;
        RequestParts {
            method: Method::GET,
            address: format!("{origin}/v2/{}/{path}", self.repository),
            headers: Vec::new(),
            body: None,
            time: self.request_time,
        }
    }

    /// Sends a request to the registry, and once more with credentials if it asks for them.
    fn send(&mut self, parts: &RequestParts<'_>) -> anyhow::Result<Response<Body>> {
        let response = self.send_once(parts)?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenges: Vec<_> = challenges.filter_map(|it| it.to_str().ok()).collect();
        ensure!(
            challenges.iter().map(|it| it.len()).sum::<usize>() <= MAX_CHALLENGE,
            "the registry sent challenges of more than {MAX_CHALLENGE} bytes"
        );
        // A token allows less than the user's credentials. But a token service elsewhere gets no
        // credentials, so its token may not suffice.
        let preferred = |challenge: &&str| {
            let (scheme, rest) = scheme(challenge);
            let realm = parameters(rest).remove("realm").unwrap_or_default();
            match scheme.as_str() {
                "bearer" if self.connections.is_on_server(&realm) => 0,
                "basic" if self.basic_authorization().is_some() => 1,
                "bearer" => 2,
                _ => 3,
            }
        };
        let challenge = challenges.into_iter().min_by_key(preferred);
        let challenge = challenge.unwrap_or_default();
        self.authorization = Some(self.answer_challenge(challenge)?);
        let response = self.send_once(parts)?;
        ensure!(
            response.status() != StatusCode::UNAUTHORIZED,
            "the registry refused the credentials for `{}`",
            self.repository
        );
        Ok(response)
    }

    fn send_once(&self, parts: &RequestParts<'_>) -> anyhow::Result<Response<Body>> {
        let mut request = Request::builder()
            .method(parts.method.clone())
            .uri(&parts.address);
        for (name, value) in &parts.headers {
            request = request.header(name, *value);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let connections = &self.connections;
        let (agent, time) = (&connections.server, Some(connections.bound(parts.time)));
        let response = match parts.body {
            None => {
                let request = agent.configure_request(request.body(())?);
                agent.run(request.timeout_global(time).build())
            }
            Some(body) => {
                let request = agent.configure_request(request.body(body)?);
                agent.run(request.timeout_global(time).build())
            }
        };
        response.map_err(|error| {
            let why = explain(&error);
            anyhow::anyhow!(
                "cannot reach the registry `{}`: {why}",
                self.connections.origin
            )
        })
    }

    /// Returns the header `Authorization` that a challenge requires.
    fn answer_challenge(&mut self, challenge: &str) -> anyhow::Result<String> {
        let (scheme, rest) = scheme(challenge);
        match scheme.as_str() {
            "basic" => {
                let basic = self.basic_authorization();
                basic.with_context(|| self.missing_credentials())
            }
            "bearer" => {
                let parameters = parameters(rest);
                let token = self.token(&parameters).context("cannot get a token");
                let token = token.with_context(|| {
                    if self.credentials.is_none() {
                        self.missing_credentials()
                    } else {
                        format!("cannot access `{}`", self.repository)
                    }
                })?;
                ensure!(
                    token.bytes().all(|c| c.is_ascii_graphic()),
                    "the token service sent an invalid token"
                );
                Ok(format!("Bearer {token}"))
            }
            _ => bail!(self.missing_credentials()),
        }
    }

    /// Returns the header `Authorization` with the user's credentials. Runs a credential helper at
    /// most once.
    fn basic_authorization(&mut self) -> Option<String> {
        if let Some(CredentialSource::Helper(helper)) = &self.credentials {
            let found = helper.run(self.request_time);
            self.helper_problem = found.as_ref().err().map(|error| format!("{error:#}"));
            self.credentials = found.ok().map(CredentialSource::Pair);
        }
        match &self.credentials {
            Some(CredentialSource::Pair(pair)) => Some(pair.header()),
            _ => None,
        }
    }

    /// Returns the message about missing or refused credentials.
    fn missing_credentials(&self) -> String {
        let problem = match &self.helper_problem {
            Some(problem) => format!(" ({})", quote(problem)),
            None => String::new(),
        };
        format!(
            "the registry `{}` requires credentials; store them with `docker login` or \
             `podman login`{problem}",
            self.connections.origin
        )
    }

    /// Requests a token from the token service that a challenge's parameters name.
    ///
    /// Sends credentials only if the token service is at the registry's origin.
    fn token(&mut self, parameters: &BTreeMap<String, String>) -> anyhow::Result<String> {
        let realm = parameters
            .get("realm")
            .context("the challenge has no `realm`")?;
        let realm: Uri = realm
            .parse()
            .context("the challenge has an invalid `realm`")?;
        let scheme = realm.scheme_str().unwrap_or_default();
        let authority = realm.authority().map_or("", |it| it.as_str());
        let shown = quote(authority);
        let is_registry = format!("{scheme}://{authority}") == self.connections.origin;
        ensure!(
            is_registry || scheme == "https",
            "the token service at `{shown}` has no TLS"
        );
        ensure!(
            !authority.contains('@'),
            "the challenge has an invalid `realm`"
        );
        let mut query = format!("scope=repository:{}:{}", self.repository, self.scope);
        if let Some(service) = parameters.get("service") {
            ensure!(
                service
                    .bytes()
                    .all(|c| c.is_ascii_alphanumeric() || b"-._~:/ ".contains(&c)),
                "the challenge has an invalid `service`"
            );
            query = format!("service={}&{query}", service.replace(' ', "%20"));
        }
        let path = realm.path_and_query().map_or("/", |it| it.as_str());
        let separator = if path.contains('?') { '&' } else { '?' };
        let address = format!("{scheme}://{authority}{path}{separator}{query}");
        let mut request = Request::get(&address);
        if is_registry && let Some(basic) = self.basic_authorization() {
            request = request.header(AUTHORIZATION, basic);
        }
        let connections = &self.connections;
        let agent = if is_registry {
            &connections.server
        } else {
            &connections.token_service
        };
        let request = agent.configure_request(request.body(())?);
        let time = connections.bound(self.request_time);
        let response = agent.run(request.timeout_global(Some(time)).build());
        let mut response = response.map_err(|error| {
            let why = explain(&error);
            anyhow::anyhow!("cannot reach the token service `{shown}`: {why}")
        })?;
        let hint = if is_registry {
            String::new()
        } else {
            format!(" (`{shown}` is not the registry, so it gets no credentials)")
        };
        ensure!(
            response.status() == StatusCode::OK,
            "the token service answered with status {}{hint}",
            response.status().as_u16()
        );
        let bytes = read_bounded(response.body_mut(), MAX_TOKEN)?;
        let response: Option<TokenResponse> = serde_json::from_slice(&bytes).ok();
        let tokens = response.map(|it| [it.token, it.access_token]);
        let mut tokens = tokens.into_iter().flatten().flatten();
        let token = tokens.find(|token| !token.is_empty());
        token.context("the token service sent no token")
    }
}

/// Returns the tag that replaces the referrers API in registries without it.
pub(crate) fn fallback_tag(subject: &Digest) -> String {
    format!("sha256-{}", subject.hex())
}

/// Returns the scheme of a challenge in lower case, and the rest.
fn scheme(challenge: &str) -> (String, &str) {
    let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
    (scheme.to_ascii_lowercase(), rest)
}

/// Returns the parameters of a challenge: `name="value"`, with commas between them.
fn parameters(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let Some((value, after)) = after.split_once('"') else {
            break;
        };
        let name = name.trim_matches([',', ' ']).to_ascii_lowercase();
        found.insert(name, value.to_owned());
        rest = after;
    }
    found
}

/// Returns the header `Location` of a response.
fn location(response: &Response<Body>) -> anyhow::Result<&str> {
    let location = response.headers().get(LOCATION);
    let location = location.and_then(|it| it.to_str().ok());
    location.context("the response has no `Location` header")
}

/// Resolves the address `target`, which can be relative to `address`.
pub(crate) fn join(address: &str, target: &str) -> anyhow::Result<String> {
    let wrong = || format!("the server names an invalid address: `{}`", quote(target));
    let uri: Uri = address.parse()?;
    let scheme = uri.scheme_str().unwrap_or_default();
    let authority = uri.authority().map_or("", |it| it.as_str());
    let joined = if target.contains("://") {
        target.to_owned()
    } else if target.starts_with("//") {
        format!("{scheme}:{target}")
    } else if target.starts_with('/') {
        format!("{scheme}://{authority}{target}")
    } else {
        let (folder, _) = uri.path().rsplit_once('/').with_context(wrong)?;
        let path = target.trim_start_matches("./");
        format!("{scheme}://{authority}{folder}/{path}")
    };
    let uri: Uri = joined.parse().ok().with_context(wrong)?;
    let authority = uri.authority().with_context(wrong)?;
    let has_parent = uri.path().split('/').any(|part| part == "..");
    ensure!(!authority.as_str().contains('@') && !has_parent, wrong());
    Ok(joined)
}

/// Checks that a response has one of these statuses. The error shows the start of the body.
fn check_status(response: &mut Response<Body>, statuses: &[StatusCode]) -> anyhow::Result<()> {
    let status = response.status();
    if statuses.contains(&status) {
        return Ok(());
    }
    let mut text = String::new();
    let _ = response
        .body_mut()
        .as_reader()
        .take(MAX_ERROR)
        .read_to_string(&mut text);
    let text = quote(text.trim()).to_string();
    let colon = if text.is_empty() { "" } else { ": " };
    bail!("the response has status {}{colon}{text}", status.as_u16())
}

/// Reads a body. Fails if it has more than `max` bytes.
fn read_bounded(body: &mut Body, max: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut reader = body.as_reader().take(max + 1);
    reader.read_to_end(&mut bytes).map_err(explain_read)?;
    ensure!(
        bytes.len() as u64 <= max,
        "the response is larger than {max} bytes"
    );
    Ok(bytes)
}

/// Returns the error for a body that the server aborted or sends too slowly, in plain words.
fn explain_read(error: std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("the server aborted the response or is too slow: {error}")
}

/// Returns the error of a connection in plain words.
fn explain(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "the request took too long".to_owned(),
        ureq::Error::HostNotFound => "the host is unknown".to_owned(),
        ureq::Error::Io(error) => error.to_string(),
        error => quote(&error.to_string()).to_string(),
    }
}
