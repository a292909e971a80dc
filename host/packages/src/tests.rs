//! Pushes to and pulls from a registry, well-behaved and hostile.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use skillhost_skills::trust::Trust;
use tempfile::TempDir;

use crate::{
    DenyList, Digest, LockedComponent, LockedPackage, LockedSkill, PackageKind, PulledPackage,
    Reference, Registry, RegistrySettings, Signer, SigningKey, Store, TrustedSigner, pull, push,
    verify_locked,
};
use registry::{Answer, TestRegistry, answer, header};

mod identities;

#[path = "../../../tests/support/registry.rs"]
pub(crate) mod registry;

#[path = "../../../tests/support/keyless.rs"]
mod signing_service;
mod skills;

const WASM: &str = "application/wasm";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONTENT: &[u8] = b"the bytes of a component";

/// Makes a key.
pub(crate) fn signing_key() -> SigningKey {
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let text = STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    SigningKey::from_pem(&pem).unwrap()
}

/// Returns an unsigned component of a lock file.
pub(crate) fn locked(name: &str, content: &Digest) -> LockedComponent {
    LockedComponent {
        package: locked_package(PackageKind::Component, name, content),
        tools: Vec::new(),
        imports: Vec::new(),
        powers: Vec::new(),
    }
}

/// Returns an unsigned skill of a lock file with files, each of which contains its path.
pub(crate) fn locked_skill(name: &str, paths: &[&str]) -> LockedSkill {
    let content = Digest::of(paths.concat().as_bytes());
    let files = paths.iter();
    let files = files.map(|path| ((*path).to_owned(), Digest::of(path.as_bytes())));
    LockedSkill {
        package: locked_package(PackageKind::Skill, name, &content),
        commit: None,
        files: files.collect(),
    }
}

fn locked_package(kind: PackageKind, name: &str, content: &Digest) -> LockedPackage {
    LockedPackage {
        kind,
        name: name.to_owned(),
        source: format!("oci://registry.example/acme/{name}:1"),
        manifest: Digest::of(name.as_bytes()),
        content: content.clone(),
        size: 1,
        version: None,
        signer: Signer::Unsigned,
        bundle: None,
    }
}

/// A registry with the package `acme/csv:1`, and an empty store.
struct Setup {
    registry: TestRegistry,
    store: Store,
    settings: RegistrySettings,
    folder: TempDir,
}

impl Setup {
    fn new() -> Self {
        Self::with(TestRegistry::start())
    }

    fn with(registry: TestRegistry) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layer = registry.put_blob(WASM, CONTENT);
        registry.put_manifest("1", &manifest(&[layer]));
        Self {
            store: Store::open(&folder.path().join("store"), &Trust::new()).unwrap(),
            settings: RegistrySettings::default(),
            registry,
            folder,
        }
    }

    fn reference(&self) -> Reference {
        format!("oci://{}/acme/csv:1", self.registry.authority)
            .parse()
            .unwrap()
    }

    fn client(&self) -> Registry {
        Registry::new(&self.reference(), &self.settings).unwrap()
    }

    fn pull(&self, keys: Option<&[TrustedSigner]>) -> anyhow::Result<PulledPackage> {
        pull(
            &mut self.client(),
            &self.reference(),
            keys,
            None,
            &DenyList::default(),
            &self.store,
        )
    }

    /// Returns the error of a pull. Checks that the pull leaves nothing in the store.
    fn error(&self, keys: Option<&[TrustedSigner]>) -> String {
        let error = format!("{:#}", self.pull(keys).unwrap_err());
        assert!(self.store.list().unwrap().is_empty(), "{error}");
        error
    }

    fn push(&self, content: &[u8], key: Option<&SigningKey>) -> anyhow::Result<Digest> {
        let mut client = self.client().for_push();
        let annotations = [("a".to_owned(), "b".to_owned())].into();
        let interfaces = json!({"exports": [], "imports": []});
        let reference = self.reference();
        let title = "csv.wasm";
        let pushed = push(
            &mut client,
            &reference,
            content,
            title,
            annotations,
            &interfaces,
            key,
        );
        pushed.map(|pushed| pushed.manifest)
    }

    /// Stores credentials for the registry.
    fn log_in(&mut self, pair: &str) {
        let file = self.folder.path().join("auth.json");
        let auths = json!({&self.registry.authority: {"auth": STANDARD.encode(pair)}});
        fs::write(&file, json!({"auths": auths}).to_string()).unwrap();
        self.settings.credentials = vec![PathBuf::from("/missing"), file];
    }
}

fn manifest(layers: &[Value]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": WASM, "digest": Digest::of(b"{}").to_string(), "size": 2},
        "layers": layers,
    })
}

fn raw(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Answer> {
    Some(Answer::Raw(answer(status, headers, body)))
}

#[test]
fn pulls_component_by_tag_and_digest() {
    let setup = Setup::new();
    let pulled = setup.pull(None).unwrap();
    assert_eq!(pulled.content, Digest::of(CONTENT));
    assert_eq!(pulled.signer, Signer::Unsigned);
    assert_eq!(
        setup.store.read(&pulled.content, 99).unwrap().unwrap(),
        CONTENT
    );
    // A tag may move between two requests, so it is resolved once.
    let heads = setup.registry.take_request_heads();
    let tag_requests = heads.iter().filter(|head| head.contains("/manifests/1 "));
    assert_eq!(tag_requests.count(), 1);
    let accept = header(&heads[0], "accept");
    for kind in [
        "oci.image.manifest",
        "oci.image.index",
        "docker.distribution.manifest.v2",
    ] {
        assert!(accept.contains(kind), "{accept}");
    }
    // The blob is in the store, so it is not read again.
    let fixed = format!("{}@{}", setup.reference().place(), pulled.manifest)
        .parse()
        .unwrap();
    pull(
        &mut setup.client(),
        &fixed,
        None,
        None,
        &DenyList::default(),
        &setup.store,
    )
    .unwrap();
    assert!(
        setup
            .registry
            .take_request_heads()
            .iter()
            .all(|head| !head.contains("/blobs/"))
    );
}

#[test]
fn locked_manifest_is_not_replaced() {
    let setup = Setup::new();
    let locked = setup.pull(None).unwrap().manifest;
    let other = setup.registry.put_blob(WASM, b"other");
    let other = manifest(&[other]).to_string();
    setup
        .registry
        .replace_answers(move |_| raw("200 OK", &[], other.as_bytes()));
    let fixed = format!("{}@{locked}", setup.reference().place());
    let pulled = pull(
        &mut setup.client(),
        &fixed.parse().unwrap(),
        None,
        None,
        &DenyList::default(),
        &setup.store,
    );
    let error = format!("{:#}", pulled.unwrap_err());
    assert!(error.contains("sent a manifest with the digest"), "{error}");
}

#[test]
fn chooses_the_wasm_manifest_of_an_index() {
    let setup = Setup::new();
    let wasm = setup
        .registry
        .put_manifest("wasm", &setup.registry.manifest("1").unwrap());
    let entry = |digest: &str, architecture: &str| {
        let platform = json!({"architecture": architecture, "os": "any"});
        json!({"mediaType": MANIFEST, "digest": digest, "size": 1, "platform": platform})
    };
    let other = Digest::of(b"other").to_string();
    let index = |manifests: &[Value]| json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    let put_index = |index: &Value| setup.registry.put_manifest("1", index);
    put_index(&index(&[entry(&other, "amd64"), entry(&wasm, "wasm")]));
    assert_eq!(setup.pull(None).unwrap().manifest.to_string(), wasm);
    let inner = put_index(&index(&[entry(&wasm, "wasm")]));
    for (manifests, why) in [
        (
            vec![entry(&other, "amd64")],
            "no manifest for the architecture `wasm`",
        ),
        (
            vec![entry(&wasm, "wasm"), entry(&other, "wasm")],
            "several manifests",
        ),
        (vec![entry(&inner, "wasm")], "another index"),
        (vec![], "no manifest for the architecture `wasm`"),
    ] {
        put_index(&index(&manifests));
        let error = format!("{:#}", setup.pull(None).unwrap_err());
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn hostile_registries_leave_the_store_as_it_is() {
    type Change = fn(&str) -> Option<Answer>;
    let blob_cases: [(Change, &str); 12] = [
        (
            |_| raw("200 OK", &[], b"the bytes of a comp0nent"),
            "its bytes have the digest",
        ),
        (
            |_| raw("200 OK", &[], b"the"),
            "it has 3 bytes, but its manifest declares 24",
        ),
        (
            |_| {
                Some(Answer::Raw(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 24\r\n\r\nthe".to_vec(),
                ))
            },
            "aborted the response or is too slow",
        ),
        (
            |_| raw("200 OK", &[], &[0; 1 << 20]),
            "more than the 24 allowed bytes",
        ),
        (
            |_| raw("404 Not Found", &[], b"\x1b[2Jno"),
            "status 404: \\u{1b}[2Jno",
        ),
        (
            |_| raw("307 X", &[("location", "http://169.254.169.254/x")], b""),
            "refused plain HTTP to `169.254.169.254`",
        ),
        (
            |_| raw("307 X", &[("location", "https://169.254.169.254/x")], b""),
            "refused a redirect to `169.254.169.254`",
        ),
        (
            |_| raw("302 X", &[("location", "https://10.0.0.1/x")], b""),
            "refused a redirect to `10.0.0.1`",
        ),
        (
            |_| {
                raw(
                    "302 X",
                    &[("location", "https://[::ffff:192.168.0.1]/x")],
                    b"",
                )
            },
            "whose address is not public",
        ),
        (
            |_| raw("302 X", &[("location", "file:///etc/passwd")], b""),
            "an invalid address",
        ),
        (|_| raw("302 X", &[], b""), "no `Location`"),
        (
            |head| {
                let host = header(head, "host");
                raw(
                    "302 X",
                    &[("location", &format!("http://{host}/v2/a/blobs/x"))],
                    b"",
                )
            },
            "more than 3 times",
        ),
    ];
    let manifest_cases: [(Change, &str); 13] = [
        (|_| raw("404 Not Found", &[], b""), "no version `1`"),
        (|_| raw("500 X", &[], b"down"), "status 500: down"),
        (
            |_| raw("200 OK", &[], &[b' '; (1 << 20) + 1]),
            "larger than 1048576 bytes",
        ),
        (
            |_| {
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n".to_vec();
                Some(Answer::Raw([head, vec![b' '; 2 << 20]].concat()))
            },
            "larger than 1048576 bytes",
        ),
        (|_| raw("200 OK", &[], b"{"), "the manifest is invalid"),
        (
            |_| raw("200 OK", &[], b"{\"schemaVersion\": 1}"),
            "schema version 1",
        ),
        (
            |_| {
                raw(
                    "200 OK",
                    &[("content-type", "text/html")],
                    b"{\"schemaVersion\": 2}",
                )
            },
            "not a kind",
        ),
        (
            |_| raw("200 OK", &[("docker-content-digest", "sha256:0")], b"{}"),
            "says that the manifest has the digest `sha256:0`",
        ),
        (
            |_| {
                let body = manifest(&[]).to_string();
                raw("200 OK", &[("content-type", INDEX)], body.as_bytes())
            },
            "but the registry says that it is",
        ),
        (
            |_| {
                let layer = json!({"mediaType": WASM, "digest": "sha256:../x", "size": 1});
                raw("200 OK", &[], manifest(&[layer]).to_string().as_bytes())
            },
            "expected a digest",
        ),
        (
            |_| raw("302 X", &[("location", "http://localhost/v2/")], b""),
            "status 302",
        ),
        (
            |_| {
                let long = "x".repeat(1 << 20);
                raw("200 OK", &[("x-long", &long)], b"{}")
            },
            "cannot reach the registry",
        ),
        (
            |_| Some(Answer::Raw(b"SSH-2.0-x\r\n\r\n".to_vec())),
            "cannot reach the registry",
        ),
    ];
    let setup = Setup::new();
    for (path, cases) in [
        ("/blobs/", &blob_cases[..]),
        ("/manifests/", &manifest_cases[..]),
    ] {
        for (change, why) in cases {
            let change = *change;
            setup.registry.replace_answers(move |head| {
                let line = head.lines().next().unwrap_or_default();
                line.contains(path).then(|| change(head)).flatten()
            });
            let error = setup.error(None);
            assert!(error.contains(why), "expected `{why}`: {error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
    }
    setup.registry.restore_answers();
    setup.pull(None).unwrap();
}

#[test]
fn refuses_packages_other_than_components() {
    let setup = Setup::new();
    let layer = |media_type: &str, size: u64| json!({"mediaType": media_type, "digest": Digest::of(CONTENT).to_string(), "size": size});
    let good = layer(WASM, 24);
    for (layers, why) in [
        (vec![], "has 0 layers"),
        (vec![good.clone(), good.clone()], "has 2 layers"),
        (vec![good.clone(); 4_000], "has 4000 layers"),
        (
            vec![layer("application/vnd.oci.image.layer.v1.tar", 24)],
            "not a component",
        ),
        (
            vec![layer("\u{1b}[2J", 24)],
            "`\\u{1b}[2J`, not a component",
        ),
        (vec![layer(WASM, 1 << 40)], "more than 67108864"),
        (vec![layer(WASM, 23)], "more than the 23 allowed bytes"),
        (vec![layer(WASM, 25)], "its manifest declares 25"),
    ] {
        setup.registry.put_manifest("1", &manifest(&layers));
        let error = setup.error(None);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn pulls_from_slow_registries_end_in_time() {
    let mut setup = Setup::new();
    setup.settings.request_time = Some(Duration::from_millis(300));
    for path in ["/manifests/", "/blobs/"] {
        setup.registry.replace_answers(move |head| {
            let is_slow = head.contains(path);
            let bytes = answer("200 OK", &[("x-long", &"x".repeat(2_000))], &[b'x'; 24]);
            is_slow.then_some(Answer::Slow(bytes))
        });
        let start = Instant::now();
        setup.error(None);
        assert!(start.elapsed() < Duration::from_secs(10), "{path}");
    }
}

#[test]
fn sends_credentials_only_to_the_registry() {
    let mut setup = Setup::new();
    setup.log_in("acme:secret");
    let other = TestRegistry::start();
    other.put_blob(WASM, CONTENT);
    let target = format!(
        "http://{}/v2/x/blobs/{}",
        other.authority,
        Digest::of(CONTENT)
    );
    setup.registry.replace_answers(move |head| {
        if header(head, "authorization").is_empty() {
            return raw("401 X", &[("www-authenticate", "Basic realm=\"x\"")], b"");
        }
        head.contains("/blobs/")
            .then(|| Answer::Raw(answer("307 X", &[("location", &target)], b"")))
    });
    setup.pull(None).unwrap();
    let basic = format!("Basic {}", STANDARD.encode("acme:secret"));
    let heads = setup.registry.take_request_heads();
    // The first request has no credentials, because the registry must ask for them.
    let sent: Vec<_> = heads
        .iter()
        .map(|head| header(head, "authorization"))
        .collect();
    assert_eq!(sent, ["", &basic, &basic]);
    let heads = other.take_request_heads();
    assert_eq!(heads.len(), 1);
    assert_eq!(header(&heads[0], "authorization"), "");
}

#[test]
fn reads_token_of_any_form_for_any_order_of_challenges() {
    let both = r#"{"token": "good", "access_token": "good", "expires_in": 300}"#;
    for (token, is_bearer_first) in [
        (r#"{"token": "good"}"#, false),
        (r#"{"access_token": "good"}"#, true),
        (r#"{"token": null, "access_token": "good"}"#, false),
        (r#"{"token": "", "access_token": "good"}"#, false),
        (both, false),
    ] {
        let setup = Setup::new();
        let realm = &setup.registry.authority;
        let bearer = format!("Bearer realm=\"http://{realm}/token\"");
        let mut challenges = ["Basic realm=\"x\"".to_owned(), bearer];
        if is_bearer_first {
            challenges.reverse();
        }
        setup.registry.replace_answers(move |head| {
            if head.starts_with("GET /token") {
                return raw("200 OK", &[], token.as_bytes());
            }
            let headers = challenges.each_ref().map(|it| ("www-authenticate", &**it));
            let is_good = header(head, "authorization") == "Bearer good";
            (!is_good).then(|| Answer::Raw(answer("401 X", &headers, b"")))
        });
        setup
            .pull(None)
            .unwrap_or_else(|error| panic!("{token}: {error:#}"));
    }
}

#[test]
fn prefers_credentials_to_token_of_service_elsewhere() {
    let mut setup = Setup::new();
    let basic = format!("Basic {}", STANDARD.encode("acme:secret"));
    setup.registry.replace_answers(move |head| {
        let bearer = "Bearer realm=\"http://other.example/token\"";
        let headers = ["Basic realm=\"x\"", bearer].map(|it| ("www-authenticate", it));
        let is_good = header(head, "authorization") == basic;
        (!is_good).then(|| Answer::Raw(answer("401 X", &headers, b"")))
    });
    // Without credentials, the service may have a token for public packages.
    let error = setup.error(None);
    assert!(error.contains("`other.example` has no TLS"), "{error}");
    setup.log_in("acme:secret");
    setup.pull(None).unwrap();
}

#[test]
fn token_service_elsewhere_gets_no_credentials() {
    let mut setup = Setup::new();
    setup.log_in("acme:secret");
    setup.settings.request_time = Some(Duration::from_secs(5));
    let elsewhere = TestRegistry::start();
    let (own, other) = (
        setup.registry.authority.clone(),
        elsewhere.authority.clone(),
    );
    let basic = format!("Basic {}", STANDARD.encode("acme:secret"));
    // A token of the registry's own service is used for all later requests.
    let realm = format!("Bearer realm=\"http://{own}/token\",service=\"the registry\"");
    let expected = basic.clone();
    setup.registry.replace_answers(move |head| {
        let sent = header(head, "authorization");
        if head.starts_with("GET /token") {
            let query = "service=the%20registry&scope=repository:acme/csv:pull";
            assert!(head.contains(query), "{head}");
            assert_eq!(sent, expected);
            return raw("200 OK", &[], b"{\"token\": \"good\"}");
        }
        let is_good = sent == "Bearer good";
        (!is_good).then(|| Answer::Raw(answer("401 X", &[("www-authenticate", &realm)], b"")))
    });
    setup.pull(None).unwrap();
    for (challenge, why) in [
        (
            format!("Bearer realm=\"http://{other}/token\""),
            "has no TLS",
        ),
        (
            format!("Bearer realm=\"https://{other}/token\""),
            "cannot reach the token service",
        ),
        (
            "Bearer realm=\"https://10.0.0.1/token\"".to_owned(),
            "not public",
        ),
        (
            format!("Bearer realm=\"http://{own}@{other}/token\""),
            "has no TLS",
        ),
        ("Bearer realm=\"/token\"".to_owned(), "has no TLS"),
        ("Bearer".to_owned(), "no `realm`"),
        ("Digest realm=\"x\"".to_owned(), "requires credentials"),
        (String::new(), "requires credentials"),
        (
            format!("Basic {}", "x".repeat(5_000)),
            "challenges of more than 4096 bytes",
        ),
        (
            "Basic realm=\"x\"".to_owned(),
            "refused the credentials for `acme/csv`",
        ),
    ] {
        let header = challenge.clone();
        setup
            .registry
            .replace_answers(move |_| raw("401 X", &[("www-authenticate", &header)], b""));
        let error = format!("{:#}", setup.pull(None).unwrap_err());
        assert!(error.contains(why), "{challenge}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    assert_eq!(elsewhere.take_request_heads(), [""; 0]);
}

/// Returns a registry and a token service with TLS, and the file of their certificate authority.
fn start_with_tls(folder: &TempDir) -> (TestRegistry, TestRegistry, PathBuf) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let file = folder.path().join("authority.pem");
    fs::write(&file, certificate.pem()).unwrap();
    let config = || {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    };
    let start = || TestRegistry::start_with_tls(config());
    (start(), start(), file)
}

#[test]
fn token_service_elsewhere_is_asked_for_public_packages() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, service, file) = start_with_tls(&folder);
    let realm = format!(
        "Bearer realm=\"https://{}/token\",service=\"registry\"",
        service.authority
    );
    let mut setup = Setup::with(registry);
    setup.settings.authorities = Some(crate::Authorities::read(&file, &Trust::new()).unwrap());
    // The user has credentials for both, but the service is not at the registry's origin.
    let auths = json!({
        &setup.registry.authority: {"auth": STANDARD.encode("acme:secret")},
        &service.authority: {"auth": STANDARD.encode("acme:secret")},
    });
    let credentials = folder.path().join("auth.json");
    fs::write(&credentials, json!({"auths": auths}).to_string()).unwrap();
    setup.settings.credentials = vec![credentials];
    setup.registry.replace_answers(move |head| {
        let is_good = header(head, "authorization") == "Bearer public";
        (!is_good).then(|| Answer::Raw(answer("401 X", &[("www-authenticate", &realm)], b"")))
    });
    service.replace_answers(|head| {
        assert!(head.starts_with("GET /token?service=registry&scope=repository:acme/csv:pull "));
        raw("200 OK", &[], b"{\"token\": \"public\"}")
    });
    setup.pull(None).unwrap();
    let heads = service.take_request_heads();
    assert_eq!(heads.len(), 1);
    assert_eq!(header(&heads[0], "authorization"), "");
    for head in setup.registry.take_request_heads() {
        assert!(
            !header(&head, "authorization").starts_with("Basic"),
            "{head}"
        );
    }
    // An error says why the service got no credentials.
    service.replace_answers(|_| raw("401 X", &[], b""));
    let error = format!("{:#}", setup.pull(None).unwrap_err());
    assert!(
        error.contains("is not the registry, so it gets no credentials"),
        "{error}"
    );
}

/// Returns a response that ends after `length` bytes of its body.
fn broken(status: &str, headers: &[(&str, &str)], body: &[u8], length: usize) -> Option<Answer> {
    let complete = answer(status, headers, body);
    Some(Answer::Raw(
        complete[..complete.len() - body.len() + length].to_vec(),
    ))
}

#[test]
fn resumes_broken_downloads() {
    thread_local! {
        static REPORTS: std::cell::RefCell<Vec<(u64, u64)>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let half = CONTENT.len() / 2;
    let last = CONTENT.len() - 1;
    let range = |head: &str| header(head, "range");
    type Change = Box<dyn Fn(&str) -> Option<Answer> + Send + Sync>;
    /// The requested ranges, or the error.
    type Outcome = Result<&'static [&'static str], &'static str>;
    let cases: [(&str, Change, Outcome); 6] = [
        (
            "parts",
            Box::new(move |head| match range(head).as_str() {
                "" => broken("200 OK", &[], CONTENT, half),
                "bytes=12-" => broken(
                    "206 X",
                    &[("content-range", "bytes 12-23/24")],
                    &CONTENT[12..],
                    6,
                ),
                "bytes=18-" => raw(
                    "206 X",
                    &[("content-range", "bytes 18-23/24")],
                    &CONTENT[18..],
                ),
                other => panic!("{other}"),
            }),
            Ok(&["", "bytes=12-", "bytes=18-"]),
        ),
        (
            "from the beginning",
            Box::new(move |head| match range(head).as_str() {
                "" => broken("200 OK", &[], CONTENT, half),
                _ => raw("200 OK", &[], CONTENT),
            }),
            Ok(&["", "bytes=12-"]),
        ),
        (
            "other bytes",
            Box::new(move |head| match range(head).as_str() {
                "" => broken("200 OK", &[], CONTENT, half),
                _ => raw("206 X", &[("content-range", "bytes 12-23/24")], &[b'x'; 12]),
            }),
            Err("its bytes have the digest"),
        ),
        (
            "another place",
            Box::new(move |head| match range(head).as_str() {
                "" => broken("200 OK", &[], CONTENT, half),
                _ => raw(
                    "206 X",
                    &[("content-range", "bytes 1-23/24")],
                    &CONTENT[1..],
                ),
            }),
            Err("does not resume the blob at byte 12"),
        ),
        (
            "a part at first",
            Box::new(move |_| raw("206 X", &[("content-range", "bytes 0-23/24")], CONTENT)),
            Err("status 206"),
        ),
        (
            "a byte at a time",
            Box::new(move |head| {
                let at = range(head)
                    .trim_matches(|c: char| !c.is_ascii_digit())
                    .parse()
                    .unwrap_or(0);
                let place = format!("bytes {at}-{last}/24");
                let status = if at == 0 { "200 OK" } else { "206 X" };
                broken(status, &[("content-range", &place)], &CONTENT[at..], 1)
            }),
            Err("aborted the response or is too slow"),
        ),
    ];
    for (what, change, expected) in cases {
        let mut setup = Setup::new();
        setup.settings.progress =
            Some(|| Box::new(|read, size| REPORTS.with_borrow_mut(|all| all.push((read, size)))));
        setup.registry.replace_answers(move |head| {
            let is_blob = head.contains("/blobs/");
            is_blob.then(|| change(head)).flatten()
        });
        match expected {
            Ok(ranges) => {
                setup.pull(None).unwrap();
                let heads = setup.registry.take_request_heads();
                let blobs = heads.iter().filter(|head| head.contains("/blobs/"));
                let sent: Vec<String> = blobs.map(|head| range(head)).collect();
                assert_eq!(sent, ranges, "{what}");
                let reports = REPORTS.take();
                assert!(
                    reports.contains(&(12, 24)) && reports.ends_with(&[(24, 24)]),
                    "{reports:?}"
                );
            }
            Err(why) => {
                let error = setup.error(None);
                assert!(error.contains(why), "{what}: {error}");
                let heads = setup.registry.take_request_heads();
                let blobs = heads.iter().filter(|head| head.contains("/blobs/"));
                assert!(blobs.count() <= 4, "{what}");
            }
        }
    }
}

#[test]
fn resumes_at_target_of_redirect() {
    let setup = Setup::new();
    let elsewhere = TestRegistry::start();
    elsewhere.replace_answers(|head| match header(head, "range").as_str() {
        "" => broken("200 OK", &[], CONTENT, 12),
        _ => raw(
            "206 X",
            &[("content-range", "bytes 12-23/24")],
            &CONTENT[12..],
        ),
    });
    let target = format!("http://{}/blob", elsewhere.authority);
    setup.registry.replace_answers(move |head| {
        let is_blob = head.contains("/blobs/");
        is_blob.then(|| Answer::Raw(answer("307 X", &[("location", &target)], b"")))
    });
    setup.pull(None).unwrap();
    let ranges = elsewhere.take_request_heads();
    let ranges: Vec<String> = ranges.iter().map(|head| header(head, "range")).collect();
    assert_eq!(ranges, ["", "bytes=12-"]);
}

#[test]
fn pushes_and_pulls_signed_components() {
    for registry in [TestRegistry::start(), TestRegistry::start_with_referrers()] {
        let setup = Setup::with(registry);
        let (one, two) = (signing_key(), signing_key());
        let keys = |key: &SigningKey| vec![TrustedSigner::from(key.public())];
        assert!(setup.error(Some(&keys(&one))).contains("it is unsigned"));
        let pushed = setup.push(CONTENT, Some(&one)).unwrap();
        assert!(
            setup
                .error(Some(&keys(&two)))
                .contains("not signed by the key")
        );
        // The second signature is added beside the first.
        assert_eq!(setup.push(CONTENT, Some(&two)).unwrap(), pushed);
        for key in [&one, &two] {
            let pulled = setup.pull(Some(&keys(key))).unwrap();
            assert_eq!(pulled.manifest, pushed);
            assert_eq!(pulled.signer, Signer::Key(key.public().id()));
            let mut locked = locked("csv", &pulled.content);
            locked.manifest = pulled.manifest;
            locked.size = pulled.size;
            locked.bundle = pulled.bundle;
            locked.signer = pulled.signer;
            verify_locked(&locked, Some(&keys(key)), &setup.store).unwrap();
        }
        let manifest = setup.registry.manifest("1").unwrap();
        assert_eq!(
            manifest["config"]["mediaType"],
            "application/vnd.wasm.config.v0+json"
        );
        assert_eq!(
            manifest["layers"][0]["annotations"]["org.opencontainers.image.title"],
            "csv.wasm"
        );
        assert_eq!(manifest["annotations"]["a"], "b");
    }
}

#[test]
fn moves_tag_last() {
    let setup = Setup::new();
    let before = setup.registry.manifest("1").unwrap();
    let key = signing_key();
    type Change = fn(&str) -> Option<Answer>;
    let cases: [(Change, &str); 5] = [
        (
            |head| {
                head.starts_with("POST")
                    .then(|| raw("403 X", &[], b""))
                    .flatten()
            },
            "refused the upload of a blob",
        ),
        (
            |head| {
                let elsewhere = ("location", "https://elsewhere.example/upload");
                head.starts_with("POST")
                    .then(|| raw("202 X", &[elsewhere], b""))
                    .flatten()
            },
            "which gets no credentials",
        ),
        (
            |head| {
                let is_match = head.starts_with("PUT") && head.contains("/manifests/sha256:");
                is_match.then(|| raw("413 X", &[], b"")).flatten()
            },
            "refused the manifest",
        ),
        (
            |head| {
                let is_match = head.starts_with("GET") && head.contains("/blobs/");
                is_match.then(|| raw("200 OK", &[], b"x")).flatten()
            },
            "cannot read back the content",
        ),
        (
            |head| {
                let is_match = head.starts_with("GET") && head.contains("/manifests/sha256-");
                is_match.then(|| raw("404 X", &[], b"")).flatten()
            },
            "other signers change the list of signatures",
        ),
    ];
    for (at, (change, why)) in cases.into_iter().enumerate() {
        setup.registry.replace_answers(change);
        let content = format!("content {at}");
        let error = format!(
            "{:#}",
            setup.push(content.as_bytes(), Some(&key)).unwrap_err()
        );
        assert!(error.contains(why), "{error}");
        assert_eq!(setup.registry.manifest("1").unwrap(), before);
    }
}

#[test]
fn refuses_signatures_of_other_artifacts() {
    let setup = Setup::new();
    let key = signing_key();
    let keys = [key.public().into()];
    let other = setup.push(b"other", Some(&key)).unwrap();
    let fallback = |digest: &Digest| format!("sha256-{}", digest.hex());
    let listed = setup.registry.manifest(&fallback(&other)).unwrap();
    let digest = setup.push(CONTENT, None).unwrap();
    // First the list names the other artifact's signature. Later it names a copy of that signature
    // that claims to be about this artifact.
    setup.registry.put_manifest(&fallback(&digest), &listed);
    assert!(setup.error(Some(&keys)).contains("it is unsigned"));
    let referrer = listed["manifests"][0]["digest"].as_str().unwrap();
    let mut copy = setup.registry.manifest(referrer).unwrap();
    copy["subject"]["digest"] = digest.to_string().into();
    let copy = setup.registry.put_manifest("copy", &copy);
    let mut list = listed.clone();
    list["manifests"][0]["digest"] = copy.into();
    setup.registry.put_manifest(&fallback(&digest), &list);
    assert!(
        setup
            .error(Some(&keys))
            .contains("a signature of another artifact")
    );
    let old = format!("{}.sig", fallback(&digest));
    setup.registry.put_manifest(&old, &manifest(&[]));
    setup.registry.put_manifest(&fallback(&digest), &listed);
    assert!(setup.error(Some(&keys)).contains("cosign's old format"));
    // The same manifest is read once.
    list["manifests"] = Value::Array(vec![list["manifests"][0].clone(); 33]);
    setup.registry.put_manifest(&fallback(&digest), &list);
    assert!(
        setup
            .error(Some(&keys))
            .contains("a signature of another artifact")
    );
}

#[test]
fn junk_does_not_hide_a_signature() {
    const TYPE: &str = "artifactType";
    const EMPTY: &str = "application/vnd.oci.empty.v1+json";
    let setup = Setup::new();
    let key = signing_key();
    let keys = [key.public().into()];
    let digest = setup.push(CONTENT, Some(&key)).unwrap();
    let tag = format!("sha256-{}", digest.hex());
    let signed = setup.registry.manifest(&tag).unwrap();
    let good = signed["manifests"][0].clone();
    // Lists 40 others before the signature.
    let list = |junk: fn(usize, &mut Value), signature: &Value| {
        let others = (0..40).map(|at| {
            let mut entry = good.clone();
            entry["digest"] = Digest::of(at.to_string().as_bytes()).to_string().into();
            junk(at, &mut entry);
            entry
        });
        let mut list = signed.clone();
        list["manifests"] = others.chain([signature.clone()]).collect();
        setup.registry.put_manifest(&tag, &list);
        setup.registry.take_request_heads();
    };
    let mut as_cosign_lists_it = good.clone();
    as_cosign_lists_it[TYPE] = EMPTY.into();
    let mut bare = good.clone();
    bare.as_object_mut().unwrap().remove(TYPE);
    type Junk = fn(usize, &mut Value);
    let set_other_type: Junk = |_, entry| entry[TYPE] = "application/spdx+json".into();
    let cases: [(Junk, &Value, usize); 6] = [
        (set_other_type, &good, 1),
        (set_other_type, &as_cosign_lists_it, 1),
        (set_other_type, &bare, 1),
        (|_, entry| entry[TYPE] = EMPTY.into(), &good, 1),
        (
            |_, entry| {
                let predicate = "https://slsa.dev/provenance/v1";
                entry["annotations"]["dev.sigstore.bundle.predicateType"] = predicate.into();
            },
            &good,
            1,
        ),
        (
            |at, entry| {
                if at > 30 {
                    entry["size"] = (2 << 20).into();
                }
            },
            &good,
            32,
        ),
    ];
    for (junk, signature, requests) in cases {
        list(junk, signature);
        assert_eq!(setup.pull(Some(&keys)).unwrap().manifest, digest);
        let heads = setup.registry.take_request_heads();
        let manifest_requests = heads
            .iter()
            .filter(|head| head.contains("/manifests/sha256:"));
        assert_eq!(manifest_requests.count(), requests, "{signature}");
    }
    // Too many possible signatures are refused, but the one that the lock file names is still found.
    let bundle = setup.pull(Some(&keys)).unwrap().bundle.unwrap();
    list(|_, _| {}, &good);
    let error = format!("{:#}", setup.pull(Some(&keys)).unwrap_err());
    let why = "lists 41 possible signatures, and none of the 32 that are read is trusted";
    assert!(error.contains(why), "{error}");
    let pull_locked = |keys: &[TrustedSigner], bundle: &Digest| {
        let (reference, bundle) = (setup.reference(), Some(bundle));
        let pulled = pull(
            &mut setup.client(),
            &reference,
            Some(keys),
            bundle,
            &DenyList::default(),
            &setup.store,
        );
        pulled.map_err(|error| format!("{error:#}"))
    };
    assert_eq!(pull_locked(&keys, &bundle).unwrap().manifest, digest);
    let error = pull_locked(&[signing_key().public().into()], &bundle).unwrap_err();
    assert!(error.contains("not signed by the key"), "{error}");
    let large = setup.registry.put_blob("", &[b' '; (256 << 10) + 1]);
    let large = large["digest"].as_str().unwrap().parse().unwrap();
    let error = pull_locked(&keys, &large).unwrap_err();
    assert!(
        error.contains("more than the 262144 allowed bytes"),
        "{error}"
    );
}

#[test]
fn transfers_of_a_command_share_one_deadline() {
    let mut setup = Setup::new();
    let late = "the time for transfers is over";
    setup.settings.deadline = Some(Instant::now());
    let error = setup.error(None);
    assert!(error.contains(late), "{error}");
    // Each response arrives within the time of its request.
    setup.registry.replace_answers(|head| {
        let target = head.split(' ').nth(1).unwrap();
        let answer = answer("307 X", &[("location", target)], b"");
        head.contains("/blobs/").then_some(Answer::Slow(answer))
    });
    let start = Instant::now();
    setup.settings.deadline = Some(start + Duration::from_millis(500));
    let error = setup.error(None);
    assert!(error.contains(late), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10), "{error}");
}

#[test]
fn locked_components_are_checked_without_a_network() {
    let setup = Setup::new();
    let key = signing_key();
    let keys = [key.public().into()];
    setup.push(CONTENT, Some(&key)).unwrap();
    let pulled = setup.pull(Some(&keys)).unwrap();
    let mut good = locked("csv", &pulled.content);
    (good.manifest, good.size) = (pulled.manifest.clone(), pulled.size);
    (good.bundle, good.signer) = (pulled.bundle.clone(), pulled.signer.clone());
    let check = |locked: &LockedComponent| {
        let verified = verify_locked(locked, Some(&keys), &setup.store);
        verified.map_err(|error| format!("{error:#}"))
    };
    check(&good).unwrap();
    let other = setup.store.write(b"other bytes").unwrap();
    type Change<'c> = Box<dyn Fn(&mut LockedComponent) + 'c>;
    let cases: [(Change<'_>, &str); 6] = [
        (
            Box::new(|it| it.content = Digest::of(b"missing")),
            "`skillhost fetch` gets it",
        ),
        (
            Box::new(|it| it.content = other.clone()),
            "names other bytes than the lock file",
        ),
        (
            Box::new(|it| it.size += 1),
            "says that it has 24 bytes, but the lock file says 25",
        ),
        (
            Box::new(|it| it.manifest = other.clone()),
            "a signature of another artifact",
        ),
        (
            Box::new(|it| it.bundle = Some(other.clone())),
            "the bundle is invalid",
        ),
        (Box::new(|it| it.bundle = None), "is locked as unsigned"),
    ];
    for (change, why) in cases {
        let mut changed = good.clone();
        change(&mut changed);
        let error = check(&changed).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    // Blobs of the store that changed on the disk.
    for (digest, why) in [
        (pulled.bundle.as_ref().unwrap(), "its bytes have the digest"),
        (&pulled.manifest, "its bytes have the digest"),
    ] {
        let path = setup.store.path(digest);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, "x").unwrap();
        assert!(check(&good).unwrap_err().contains(why));
        fs::remove_file(&path).unwrap();
        assert!(
            check(&good)
                .unwrap_err()
                .contains("`skillhost fetch` gets it")
        );
        fs::write(&path, bytes).unwrap();
    }
    check(&good).unwrap();
}

#[test]
fn messages_quote_only_the_start_of_a_name() {
    let long = "x\u{1b}".repeat(100_000);
    let digest = Digest::of(b"");
    let manifest = json!({"schemaVersion": 2, "mediaType": long}).to_string();
    let lock = format!(
        "[[previous]]\nname = {}\nsource = \"x\"\nmanifest = \"{digest}\"\ncontent = \"{digest}\"\n\
         size = 1\n",
        json!(long)
    );
    let manifest_error = |json: serde_json::Value| {
        let parsed = crate::manifest::Manifest::parse(json.to_string().as_bytes(), None);
        parsed.unwrap_err()
    };
    let lock_error = |text: &str| crate::LockFile::parse(text).unwrap_err();
    let quoted = json!(long);
    let mut errors = vec![
        crate::manifest::Manifest::parse(manifest.as_bytes(), None).unwrap_err(),
        manifest_error(json!({"schemaVersion": long})),
        manifest_error(json!({"schemaVersion": 2, "layers": {long.as_str(): 1}, "config": long})),
        lock_error(&lock),
        lock_error(&format!("{quoted} = 1")),
        lock_error(&format!("component = {quoted}")),
        lock_error(&lock.replace(&format!("\"{digest}\""), &quoted.to_string())),
        lock_error(&format!("# {}\nx", long.replace('\u{1b}', ""))),
        long.parse::<Reference>().unwrap_err(),
        crate::settings::check_name(&long).unwrap_err(),
        crate::client::join("https://a.example/", &long).unwrap_err(),
        crate::client::join("https://a.example/", &format!("http://a@b/{long}")).unwrap_err(),
    ];
    let site = "https://site.example#reports";
    let site: crate::site::SiteSource = site.parse().unwrap();
    for index in [
        json!({"$schema": long, "skills": []}),
        json!({"$schema": [], "skills": long}),
        json!({"$schema": crate::site::SCHEMA, "skills": vec![json!({"name": long}); 10]}),
        json!({"$schema": crate::site::SCHEMA, "skills": [{"name": "reports", "url": 1, "type": {
            "x": long}, "digest": long}]}),
        json!({"$schema": crate::site::SCHEMA, "skills": [{"name": "reports", "url": "", "type": "x",
            "digest": [long]}]}),
    ] {
        errors.extend(site.entry(index.to_string().as_bytes()).err());
    }
    errors.extend(crate::site::files(&long, b"").err());
    let entry =
        |entry: serde_json::Value| json!({"version": 1, "skills": {"a": entry}}).to_string();
    let toolhive = |source: &str| format!("version: 1\nskills:\n- name: a\n  {source}\n");
    for text in [
        format!("{{{quoted}"),
        format!("version: {quoted}"),
        format!("{quoted}: 1\n{quoted}: 1"),
        entry(json!({"source": "x", "sourceType": long})),
        entry(json!({"source": long, "sourceType": "git"})),
        entry(json!({"source": long, "sourceType": "well-known"})),
        entry(json!({"source": "x", "sourceType": {"a": long}})),
        entry(quoted.clone()),
        entry(json!({"source": "https://a.example/x", "sourceType": "git", "skillPath": long})),
        toolhive(&format!("source: git://a.example/x\n  digest: {quoted}")),
        toolhive(&format!("source: {quoted}\n  digest: {digest}")),
        toolhive(&format!("source: {{{quoted}: 1}}")),
        json!({"version": 1, "skills": {long.as_str(): 1}}).to_string(),
    ] {
        match crate::import::parse(&text) {
            Ok(skills) => errors.extend(skills.into_iter().filter_map(|it| it.source.err())),
            Err(error) => errors.push(error),
        }
    }
    assert_eq!(errors.len(), 12 + 6 + 13);
    let signers = [
        crate::Signer::Key(long.clone()),
        crate::Signer::Identity(crate::SignerIdentity {
            identity: long.clone(),
            issuer: long.clone(),
            repository: Some(long.clone()),
            git_ref: Some(long.clone()),
        }),
    ];
    errors.extend(signers.map(|signer| anyhow::anyhow!("{signer}")));
    for error in errors {
        // A message has at most ten names.
        assert!(format!("{error:#}").chars().count() < 10 * 8 * 512);
    }
    for error in [
        crate::manifest::Manifest::parse(manifest.as_bytes(), None).unwrap_err(),
        lock_error(&lock),
        long.parse::<Reference>().unwrap_err(),
        crate::settings::check_name(&long).unwrap_err(),
    ] {
        let message = format!("{error:#}");
        let is_short = message.chars().count() < 8 * 512;
        assert!(is_short && message.contains("x\\u{1b}x"), "{message:.999}");
        assert!(!message.contains('\u{1b}'), "{message:.999}");
    }
}
