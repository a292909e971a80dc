//! TLS in a confined process with real peers: its files and protocols, changed files, and clients
//! with certificates.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rcgen::{CertificateParams, DnType, date_time_ymd};
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::certificates::{Authority, write_owner_only, write_pair};
use crate::support::http::{Client, Request};
use crate::support::process::{self, Process};
use crate::support::program::Program;
use crate::support::watchdog::wait_until;

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/http/tls_peer.py");

/// Returns a folder with a skill, an authority's certificate, and a server's certificate and key.
fn program(authority: &Authority, config: &str) -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let config = format!("skills = [\"skills\"]\naudit_file = \"log\"\n{config}");
    program.write("skillhost.toml", config);
    program.write("ca.crt", &authority.certificate);
    write_pair(&program, "server", &authority.server_pair());
    program
}

/// The program while it serves over TLS.
struct TlsServer {
    program: Program,
    child: Process,
    address: SocketAddr,
}

impl TlsServer {
    fn start(program: Program, arguments: &[&str]) -> Self {
        let serve = [
            "serve",
            "--config",
            "skillhost.toml",
            "--http",
            "127.0.0.1:0",
        ];
        let mut child = Process::start(&mut program.command(&[&serve, arguments].concat()));
        let line = child.first_line();
        let address = line.strip_prefix("https://").unwrap();
        let server = Self {
            address: address.strip_suffix("/mcp").unwrap().parse().unwrap(),
            program,
            child,
        };
        wait_until("the server is not ready", || {
            server.ask(json!({"path": "/readyz"}))["status"] == 200
        });
        let status = fs::read_to_string(format!("/proc/{}/status", server.child.pid)).unwrap();
        assert!(
            status.contains("Seccomp:\t2"),
            "the process is not confined"
        );
        server
    }

    /// Starts a server with the certificate `server.crt`.
    fn with_certificate_options(program: Program) -> Self {
        Self::start(
            program,
            &["--tls-cert", "server.crt", "--tls-key", "server.key"],
        )
    }

    /// Sends a request with Python.
    fn ask(&self, mut peer_request: Value) -> Value {
        let at = |name: &str| self.program.folder.path().join(name).display().to_string();
        peer_request["port"] = self.address.port().into();
        peer_request["authority"] = at("ca.crt").into();
        if let Some(name) = peer_request["client"].as_str().map(str::to_owned) {
            peer_request["certificate"] = at(&format!("{name}.crt")).into();
            peer_request["key"] = at(&format!("{name}.key")).into();
        }
        let mut python = Command::new("python3");
        let run = process::output(python.arg(PEER).arg(peer_request.to_string()));
        let answer = serde_json::from_slice(&run.stdout);
        answer.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&run.stderr)))
    }

    /// Calls a tool, with a certificate or a token if given.
    fn call(&self, client: Option<&str>, token: Option<&str>) -> Value {
        let request = read_skill();
        let headers = request.headers.iter();
        let headers = headers.filter(|(name, _)| *name != "Content-Length");
        let mut headers: serde_json::Map<_, _> = headers
            .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
            .collect();
        if let Some(token) = token {
            headers.insert("Authorization".into(), format!("Bearer {token}").into());
        }
        let body = String::from_utf8(request.body).unwrap();
        let mut peer_request = json!({"path": "/mcp", "body": body, "headers": headers});
        if let Some(client) = client {
            peer_request["client"] = client.into();
        }
        self.ask(peer_request)
    }

    fn serial(&self) -> String {
        let answer = self.ask(json!({"path": "/healthz"}));
        let serial = answer["serial"].as_str();
        serial.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Ends the server. Returns its log.
    fn end(self) -> String {
        self.child.signal(Signal::TERM);
        let output = self.child.output();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }
}

fn read_skill() -> Request {
    Request::call(1, "read_skill", json!({"skill_name": "a"}))
}

#[test]
fn serves_tls_1_2_and_1_3() {
    let server = TlsServer::with_certificate_options(program(&Authority::new(), ""));
    for (version, name) in [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")] {
        let answer = server.ask(json!({"path": "/metrics", "version": version, "reconnect": true}));
        assert_eq!(answer["status"], 200, "{answer}");
        assert_eq!(answer["resumed"], true, "{answer}");
        assert_eq!(
            (&answer["version"], &answer["protocol"]),
            (&name.into(), &"http/1.1".into())
        );
    }
    let answer = server.call(None, None);
    assert!(answer["body"].as_str().unwrap().contains("# A"), "{answer}");
    for refused in [
        json!({"path": "/metrics", "version": "TLSv1_1"}),
        json!({"path": "/metrics", "protocols": ["h2"]}),
    ] {
        let answer = server.ask(refused);
        assert!(answer["error"].is_string(), "{answer}");
    }
    // A client that speaks no TLS gets an alert, and no answer.
    for request in [read_skill(), Request::get("/healthz")] {
        let mut plain = Client::connect(server.address);
        plain.send(&request.bytes());
        assert!(plain.answer().is_err());
    }
    let log = fs::read_to_string(server.program.folder.path().join("log")).unwrap();
    assert_eq!(log.matches("\"peer\":\"127.0.0.1:").count(), 1, "{log}");
    let mut curl = Command::new("curl");
    if curl
        .arg("--version")
        .output()
        .is_ok_and(|run| run.status.success())
    {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--cacert"])
            .arg(server.program.folder.path().join("ca.crt"));
        let url = format!("https://localhost:{}/healthz", server.address.port());
        let run = process::output(curl.arg("-4").arg(url));
        assert_eq!(String::from_utf8(run.stdout).unwrap(), "ok\n");
    }
}

#[test]
fn serves_changed_certificate_unless_it_is_bad() {
    let replace_only_certificate = |folder: &Path| {
        fs::copy(folder.join("other/tls.crt"), folder.join("first/tls.crt")).unwrap();
    };
    let replace_with_fifo = |folder: &Path| {
        fs::remove_file(folder.join("first/tls.crt")).unwrap();
        let path = folder.join("first/tls.crt");
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    };
    let remove = |folder: &Path| fs::remove_dir_all(folder.join("first")).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let log = replace_certificate(replace_only_certificate);
            let reason = "it is not the key of the certificate";
            assert!(log.contains(reason), "{log}");
        });
        scope.spawn(|| replace_certificate(remove));
        scope.spawn(|| {
            let log = replace_certificate(replace_with_fifo);
            let reason = "`tls/tls.crt`: it is not a regular file but a FIFO";
            assert!(log.contains(reason), "{log}");
        });
    });
}

/// Spoils a server's certificate, and then replaces it. Checks which certificates are served, and
/// returns the log.
fn replace_certificate(spoil: impl Fn(&Path)) -> String {
    let authority = Authority::new();
    // Like cert-manager: a link to a folder that is replaced as a whole.
    let config = "[http]\ntls_cert = \"tls/tls.crt\"\ntls_key = \"tls/tls.key\"\n";
    let program = program(&authority, config);
    for folder in ["first", "other", "second"] {
        write_pair(&program, &format!("{folder}/tls"), &authority.server_pair());
    }
    let folder = program.folder.path().to_owned();
    symlink("first", folder.join("tls")).unwrap();
    let mut server = TlsServer::start(program, &["--log", "info"]);
    let mut log = BufReader::new(server.child.stderr.take().unwrap());
    let mut logged = String::new();
    let mut until_logged = |line| {
        while !logged.contains(line) {
            // The log ends only if the watchdog ends a slow server.
            assert_ne!(log.read_line(&mut logged).unwrap(), 0, "{logged}");
        }
    };
    let first = server.serial();
    spoil(&folder);
    let not_loaded = "cannot load the new certificate; still serving the old one";
    until_logged(not_loaded);
    assert_eq!(server.serial(), first);
    symlink("second", folder.join("next")).unwrap();
    fs::rename(folder.join("next"), folder.join("tls")).unwrap();
    let read_again = "the certificate was read again";
    until_logged(read_again);
    assert_ne!(server.serial(), first);
    server.end();
    log.read_to_string(&mut logged).unwrap();
    for line in [not_loaded, read_again] {
        assert_eq!(logged.matches(line).count(), 1, "{logged}");
    }
    logged
}

#[test]
fn refuses_origins_without_tls() {
    let authority = Authority::new();
    let server = TlsServer::with_certificate_options(program(&authority, ""));
    let port = server.address.port();
    for (scheme, status) in [("https", 200), ("http", 403)] {
        let origin = format!("{scheme}://localhost:{port}");
        let asked = json!({"path": "/metrics", "headers": {"Origin": origin}});
        assert_eq!(server.ask(asked)["status"], status, "{scheme}");
    }
}

#[test]
fn names_files_that_cannot_be_used() {
    let authority = Authority::new();
    let program = program(&authority, "");
    let other = authority.server_pair();
    write_pair(&program, "other", &other);
    let expired = authority.sign(&["localhost"], |params| {
        params.not_after = date_time_ymd(2001, 1, 1);
        params.not_before = date_time_ymd(2000, 1, 1);
    });
    write_pair(&program, "expired", &expired);
    // The expired certificate comes second, where intermediate ones do.
    let chain = format!("{}{}", other.certificate, expired.certificate);
    program.write("chain.crt", chain);
    let early = authority.sign(&["localhost"], |params| {
        params.not_before = date_time_ymd(2901, 1, 1);
        params.not_after = date_time_ymd(2902, 1, 1);
    });
    write_pair(&program, "early", &early);
    write_owner_only(&program, "empty", "");
    write_owner_only(&program, "words", "no certificate");
    let torn = other.certificate.replace("-----END", "-----");
    write_owner_only(&program, "torn", &torn);
    write_owner_only(&program, "large", &"x".repeat((1 << 20) + 1));
    write_owner_only(
        &program,
        "encrypted",
        &other.key.replace("PRIVATE", "ENCRYPTED PRIVATE"),
    );
    program.write("open.key", &other.key);
    let open = program.folder.path().join("open.key");
    fs::set_permissions(open, fs::Permissions::from_mode(0o644)).unwrap();
    program.write("shared.crt", &other.certificate);
    let shared = program.folder.path().join("shared.crt");
    fs::set_permissions(shared, fs::Permissions::from_mode(0o666)).unwrap();
    for (certificate, key, reason) in [
        (
            "shared.crt",
            "other.key",
            "`shared.crt`: users other than its owner may write it",
        ),
        (
            "none",
            "server.key",
            "cannot use the certificate `none`: No such file",
        ),
        (
            "skills",
            "server.key",
            "cannot use the certificate `skills`: it is not a regular file",
        ),
        (
            "empty",
            "server.key",
            "cannot use the certificate `empty`: it is empty",
        ),
        (
            "words",
            "server.key",
            "`words`: it holds no certificate in PEM",
        ),
        ("torn", "server.key", "`torn`: it is not in PEM"),
        (
            "large",
            "server.key",
            "`large`: it is larger than 1048576 bytes",
        ),
        (
            "server.key",
            "server.key",
            "`server.key`: it holds no certificate in PEM",
        ),
        (
            "expired.crt",
            "expired.key",
            "`expired.crt`: a certificate in the file has expired",
        ),
        (
            "early.crt",
            "early.key",
            "`early.crt`: a certificate in the file is not valid yet",
        ),
        (
            "chain.crt",
            "other.key",
            "cannot use the certificate `chain.crt`: a certificate in the file has expired",
        ),
        (
            "server.crt",
            "none",
            "cannot use the key `none`: No such file",
        ),
        ("server.crt", "empty", "`empty`: it is empty"),
        (
            "server.crt",
            "words",
            "`words`: it holds no private key in PEM",
        ),
        (
            "server.crt",
            "open.key",
            "`open.key`: users other than its owner may read or write it",
        ),
        ("server.crt", "encrypted", "`encrypted`: it is encrypted"),
        (
            "server.crt",
            "other.key",
            "cannot use the key `other.key` with `server.crt`: it is not the key of the \
             certificate",
        ),
    ] {
        let files = ["--tls-cert", certificate, "--tls-key", key];
        let run = program.run(&[&["serve", "--http", "127.0.0.1:0"], &files[..]].concat());
        assert_eq!(run.code, 4, "{certificate}, {key}: {run:?}");
        assert!(run.stderr.contains(reason), "{certificate}, {key}: {run:?}");
    }
    let run = program.run(&["serve", "--http", "127.0.0.1:0", "--tls-cert", "server.crt"]);
    assert!(run.code == 2 && run.stderr.contains("--tls-key"), "{run:?}");
    let both = ["--tls-cert", "server.crt", "--tls-key", "server.key"];
    let run = program.run(&[&["serve", "--http", "unix:socket"], &both[..]].concat());
    assert!(
        run.code == 4 && run.stderr.contains("a Unix socket has no TLS"),
        "{run:?}"
    );
    let past = Authority::with(|params| {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    });
    program.write(
        "past-ca.crt",
        format!("{}{}", authority.certificate, past.certificate),
    );
    for (keys, reason) in [
        (
            "tls_cert = \"server.crt\"\ntls_key = \"server.key\"\ntls_client_ca = \"past-ca.crt\"",
            "past-ca.crt`: a certificate in the file has expired",
        ),
        (
            "tls_cert = \"server.crt\"\ntls_key = \"server.key\"\ntls_client_ca = \"other.crt\"",
            "other.crt`: a certificate in the file may not sign certificates of clients",
        ),
        ("tls_cert = \"server.crt\"", "needs its key: set `tls_key`"),
        (
            "tls_key = \"server.key\"",
            "needs a certificate: set `tls_cert`",
        ),
        (
            "tls_client_ca = \"ca.crt\"",
            "needs `tls_cert` and `tls_key`",
        ),
        (
            "tls_cert = \"server.crt\"\ntls_key = \"server.key\"\ntls_client_ca = \"ca.crt\"",
            "`tls_client_ca` in `[http]` has no effect without clients",
        ),
        (
            "tls_cert = \"server.crt\"\ntls_key = \"server.key\"\ntls_client_ca = \"words\"",
            "words`: it holds no certificate in PEM",
        ),
    ] {
        program.write("tls.toml", format!("[http]\n{keys}\n"));
        let run = program.run(&["serve", "--config", "tls.toml", "--http", "127.0.0.1:0"]);
        assert_eq!(run.code, 4, "{keys}: {run:?}");
        assert!(run.stderr.contains(reason), "{keys}: {run:?}");
    }
}

#[test]
fn evicts_peer_with_unfinished_handshake() {
    let config = "[http]\nheader_time = \"1s\"\nconnections = 8\n";
    let server = TlsServer::with_certificate_options(program(&Authority::new(), config));
    let begin = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    // The start of a handshake's first message.
    let hello: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    // There are fewer slots than these connections, so the oldest are evicted.
    let begun: Vec<_> = (0..20).map(|_| begin(hello)).collect();
    assert_eq!(server.call(None, None)["status"], 200);
    // Waits until these are closed, because open ones would evict those below.
    for mut stream in begun {
        stream.shutdown(Shutdown::Write).unwrap_or_default();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap_or_default();
    }
    let ends_in_time = |start: &[u8]| {
        let started = Instant::now();
        let mut stream = begin(start);
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // The peer sends its bytes one by one, each within `header_time`.
        let mut rest = hello.iter().chain(std::iter::repeat(&0));
        let mut closed = || stream.write_all(&[*rest.next().unwrap()]).is_err();
        while !closed() {
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "the peer keeps its slot"
            );
            thread::sleep(Duration::from_millis(100));
        }
        assert!(started.elapsed() > Duration::from_millis(750));
    };
    thread::scope(|scope| {
        scope.spawn(|| ends_in_time(&hello[..5]));
        ends_in_time(hello);
    });
    assert_eq!(server.call(None, None)["status"], 200);
}

#[test]
fn certificate_identifies_client() {
    let authority = Authority::new();
    let token = "token-of-the-client-b";
    let digest = skillhost_skills::text::digest::sha256_hex(token.as_bytes());
    let config = format!(
        "[http]\ntls_client_ca = \"clients.crt\"\n\
         [clients.a]\ncertificate_names = [\"a.example\", \"spiffe://example/a\"]\n\
         [clients.b]\ntoken_sha256 = \"{digest}\"\n\
         [clients.c]\ncertificate_names = [\"c.example\"]\nskills = [\"b\"]\n"
    );
    let program = program(&authority, &config);
    // The server accepts two authorities, as while one replaces the other.
    let (old, clients) = (Authority::new(), Authority::new());
    let both = format!("{}{}", old.certificate, clients.certificate);
    program.write("clients.crt", both);
    for (name, pair) in [
        ("old", old.client_pair("a.example")),
        ("host", clients.client_pair("A.example")),
        ("uri", clients.client_pair("spiffe://example/a")),
        ("scoped", clients.client_pair("c.example")),
        ("nobody", clients.client_pair("nobody.example")),
        ("several", clients.sign(&["a.example", "c.example"], |_| {})),
        // Signed by others, or expired.
        ("forged", Authority::new().client_pair("a.example")),
        ("server-ca", authority.client_pair("a.example")),
        (
            "expired",
            clients.sign(&["a.example"], |params| {
                params.not_before = date_time_ymd(2000, 1, 1);
                params.not_after = date_time_ymd(2001, 1, 1);
            }),
        ),
    ] {
        write_pair(&program, name, &pair);
    }
    let server = TlsServer::with_certificate_options(program);
    for (client, sent_token, status) in [
        (Some("old"), None, 200),
        (Some("host"), None, 200),
        (Some("uri"), None, 200),
        (Some("nobody"), None, 401),
        (Some("several"), None, 401),
        (None, None, 401),
        (None, Some(token), 200),
        // With a certificate and a token, the token decides.
        (Some("host"), Some(token), 200),
        (Some("nobody"), Some(token), 200),
        (Some("host"), Some("token-of-nobody-here"), 401),
    ] {
        let answer = server.call(client, sent_token);
        assert_eq!(
            answer["status"], status,
            "{client:?} {sent_token:?}: {answer}"
        );
    }
    let scoped = server.call(Some("scoped"), None);
    assert!(
        !scoped["body"].as_str().unwrap().contains("# A"),
        "{scoped}"
    );
    for client in ["forged", "server-ca", "expired"] {
        for token in [None, Some(token)] {
            let answer = server.call(Some(client), token);
            assert!(answer["error"].is_string(), "{client}: {answer}");
        }
    }
    // No session is resumed, so every handshake checks the certificate.
    for version in ["TLSv1_2", "TLSv1_3"] {
        let again =
            json!({"path": "/metrics", "client": "host", "version": version, "reconnect": true});
        let answer = server.ask(again);
        assert_eq!(answer["resumed"], false, "{answer}");
    }
    let log = fs::read_to_string(server.program.folder.path().join("log")).unwrap();
    let records = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let clients: Vec<_> = records.map(|record| record["client"].clone()).collect();
    let clients: Vec<_> = clients.iter().filter_map(Value::as_str).collect();
    assert_eq!(clients, ["a", "a", "a", "b", "b", "b", "c"]);
}

#[test]
fn long_chains_of_clients_are_refused() {
    let clients = Authority::new();
    let server = server_with_client(&clients, |_| {});
    let folder = server.program.folder.path();
    let own = fs::read_to_string(folder.join("a.crt")).unwrap();
    for (others, is_accepted) in [(0, true), (5, true), (6, false), (60, false)] {
        let others = (0..others).map(|number| {
            let other = Authority::with(|params| {
                let name = format!("other {number}");
                params.distinguished_name.push(DnType::CommonName, name);
            });
            other.certificate
        });
        let chain: String = std::iter::once(own.clone()).chain(others).collect();
        server.program.write("a.crt", chain);
        let answer = server.ask(json!({"path": "/metrics", "client": "a"}));
        assert_eq!(answer["status"] == 200, is_accepted, "{answer}");
        assert_eq!(answer["error"].is_string(), !is_accepted, "{answer}");
    }
}

/// Starts a server that accepts certificates of one authority. The client `a` has one.
fn server_with_client(
    clients: &Authority,
    change: impl FnOnce(&mut CertificateParams),
) -> TlsServer {
    let config = "[http]\ntls_client_ca = \"clients.crt\"\n\
                  [clients.a]\ncertificate_names = [\"a.example\"]\nmetrics = true\n";
    let program = program(&Authority::new(), config);
    program.write("clients.crt", &clients.certificate);
    program.write("others.crt", Authority::new().certificate);
    write_pair(&program, "a", &clients.sign(&["a.example"], change));
    TlsServer::with_certificate_options(program)
}

#[test]
fn connection_ends_when_certificate_or_authority_expires() {
    let soon = SystemTime::now() + Duration::from_secs(12);
    let expires = |params: &mut CertificateParams| params.not_after = soon.into();
    let ends = |server: TlsServer| {
        let answer = server.ask(json!({"path": "/metrics", "client": "a", "until_closed": true}));
        assert_eq!(answer["status"], 200, "{answer}");
        assert_eq!(answer["closed"], true, "{answer}");
        let answer = server.ask(json!({"path": "/metrics", "client": "a"}));
        assert!(answer["error"].is_string(), "{answer}");
    };
    thread::scope(|scope| {
        scope.spawn(|| ends(server_with_client(&Authority::new(), expires)));
        scope.spawn(|| ends(server_with_client(&Authority::with(expires), |_| {})));
    });
}

#[test]
fn connection_and_stream_end_when_authority_is_replaced() {
    let server = server_with_client(&Authority::new(), |_| {});
    let at = |name: &str| server.program.folder.path().join(name);
    let stream = json!({
        "path": "/mcp", "client": "a", "headers": {"Accept": "text/event-stream"},
        "replace": [at("others.crt"), at("clients.crt")], "until_closed": true,
    });
    let answer = server.ask(stream);
    assert_eq!(answer["status"], 200, "{answer}");
    assert_eq!(answer["closed"], true, "{answer}");
}

#[test]
fn warns_that_certificates_are_not_requested() {
    let authority = Authority::new();
    let config = "[clients.a]\ncertificate_names = [\"a.example\"]\n";
    let log = TlsServer::with_certificate_options(program(&authority, config)).end();
    let why = "`certificate_names` of `[clients.a]`: no certificate is asked for without";
    assert!(log.contains(why), "{log}");
}
