//! OAuth access tokens over HTTP: the responses to requests with tokens, and the keys of issuers
//! from a URL or a file. The table of invalid tokens is in the crate `skillhost-identity`.

mod issuer;

use std::fmt::Display;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::program::ServerProcess;
use crate::support::certificates::{Authority, write_owner_only, write_pair};
use crate::support::http::{Answer, Client, Request};
use crate::support::process::Process;
use crate::support::program::Program;
use crate::support::watchdog::{join, patience, wait_until};
use issuer::{Reply, SigningKey, TestIssuer, keys, now};

const RESOURCE: &str = "https://mcp.example.com/mcp";

/// The pause between two requests of a peer that asks repeatedly.
const PAUSE: Duration = Duration::from_millis(50);

/// The configuration of the client `ci`, which most tokens belong to. It never expires during a
/// test.
const CLIENT: &str = "[clients.ci]\nclaims = { sub = \"ci\" }\noauth_scopes = [\"skills:read\"]\n\
                      skills = [\"a\"]\nexpires = 2901-01-01\n";

/// Starts the program with one issuer, and with `line` in the issuer's table.
fn serve(program: &Program, issuer: &str, line: &str) -> ServerProcess {
    let issuer = format!("[issuers.test]\nissuer = \"{issuer}\"\n{line}\n");
    serve_with(program, &format!("{issuer}{CLIENT}"), &[])
}

/// Starts the program with these tables of issuers and clients, and further options.
fn serve_with(program: &Program, tables: &str, options: &[&str]) -> ServerProcess {
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("skills/b/SKILL.md", "# B\n");
    program.write(
        "c.toml",
        format!("skills = [\"skills\"]\n[http]\nresource = \"{RESOURCE}\"\n{tables}"),
    );
    let options = [&["--config", "c.toml"], options].concat();
    let server = ServerProcess::new(program, &options, None);
    wait_until("the server is not ready", || {
        Client::once(server.address, &Request::get("/readyz")).status == 200
    });
    server
}

fn read(server: &ServerProcess, skill: &str, token: &str) -> Answer {
    let read = Request::call(1, "read_skill", json!({"skill_name": skill}));
    let read = read.with("Authorization", &format!("Bearer {token}"));
    Client::once(server.address, &read)
}

#[test]
fn challenge_names_only_metadata_and_scope() {
    let key = SigningKey::new("one");
    let program = Program::new();
    program.write("keys.json", keys(&[&key]));
    let issuer = "https://login.example.com";
    let server = serve(&program, issuer, "jwks_file = \"keys.json\"");
    let metadata = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
    let parameters = format!("resource_metadata=\"{metadata}\", scope=\"skills:read\"");
    let bare = Client::once(server.address, &Request::call(1, "read_skill", json!({})));
    assert_eq!(bare.status, 401);
    assert_eq!(
        bare.header("www-authenticate").unwrap(),
        format!("Bearer {parameters}")
    );
    for path in ["", "/mcp"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let answer = Client::once(server.address, &Request::get(&path));
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let document = answer.json();
        assert_eq!(document["resource"], RESOURCE);
        assert_eq!(document["authorization_servers"], json!([issuer]));
        assert_eq!(document["scopes_supported"], json!(["skills:read"]));
    }
    let good = key.token(issuer, "skills:read");
    assert_eq!(read(&server, "a", &good).text(), "# A\n");
    assert!(!read(&server, "b", &good).body.contains("# B"));
    let foreign = SigningKey::new("one").token(issuer, "skills:read");
    for wrong in [
        foreign,
        key.token("https://evil.example", "x"),
        "wrong".into(),
        "e.y.J".into(),
    ] {
        let answer = read(&server, "a", &wrong);
        assert_eq!(answer.status, 401, "{wrong}");
        let challenge = answer.header("www-authenticate").unwrap();
        assert_eq!(
            challenge,
            format!("Bearer error=\"invalid_token\", {parameters}")
        );
        assert_eq!(answer.body, bare.body);
    }
    let poor = read(&server, "a", &key.token(issuer, "openid"));
    assert_eq!(poor.status, 403);
    let message = &poor.json()["error"]["message"];
    assert_eq!(message, "the token has too few scopes");
    let challenge = poor.header("www-authenticate").unwrap();
    assert_eq!(
        challenge,
        format!("Bearer error=\"insufficient_scope\", {parameters}")
    );
    // The response has no challenge, because another token would not help.
    let nobody = json!({"iss": issuer, "aud": RESOURCE, "exp": now() + 600, "sub": "nobody"});
    let nobody = read(&server, "a", &key.sign(&nobody));
    let message = &nobody.json()["error"]["message"];
    assert_eq!(
        (nobody.status, message),
        (403, &json!("the token belongs to no client"))
    );
    assert_eq!(nobody.header("www-authenticate"), None);
}

#[test]
fn stream_ends_when_access_token_expires() {
    let key = SigningKey::new("one");
    let program = Program::new();
    program.write("keys.json", keys(&[&key]));
    let issuer = "https://login.example.com";
    let server = serve(&program, issuer, "jwks_file = \"keys.json\"");
    // A token stays valid for 30 seconds after its expiry.
    let ends = now() + 3;
    let token = key.token_until(issuer, "skills:read", ends - 30);
    let stream = Request::get("/mcp").with("Accept", "text/event-stream");
    // The server checks the first stream's token, and remembers it for the second.
    let mut streams = Vec::new();
    for _ in 0..2 {
        let stream = stream.clone();
        let stream = stream.with("Authorization", &format!("Bearer {token}"));
        let mut client = Client::connect(server.address);
        client.send(&stream.bytes());
        assert!(client.head().unwrap().contains(" 200 "));
        streams.push(client);
    }
    for mut stream in streams {
        while stream.chunk().unwrap().is_some() {}
        assert!(now() >= ends, "a stream ended too early");
    }
    assert_eq!(read(&server, "a", &token).status, 401);
}

#[test]
fn uses_changed_keys_from_url_and_file() {
    // The server reads no keys from a file that others can write.
    let refusal = [
        "cannot use the keys of `[issuers.test]`: `c.toml`, line 6: `jwks_file`",
        "users other than its owner may write it; set its mode to 0644",
    ];
    // The cases run in parallel, because each waits for the server's next poll.
    thread::scope(|scope| {
        scope.spawn(replace_keys_at_an_address);
        for (mode, statuses) in [(0o644, (401, 200)), (0o666, (200, 503))] {
            scope.spawn(move || {
                let log = replace_keys_in_a_file(mode, statuses);
                let is_refused = refusal.map(|part| log.contains(part));
                assert_eq!(is_refused, [mode == 0o666; 2], "{log}");
            });
        }
    });
}

/// Replaces the keys at an issuer's address. An unknown key makes the server ask again.
fn replace_keys_at_an_address() {
    let (old, new, unknown) = (
        SigningKey::new("old"),
        SigningKey::new("new"),
        SigningKey::new("x"),
    );
    let issuer = TestIssuer::start(Reply::Keys(keys(&[&old])));
    let program = Program::new();
    let line = format!("jwks_url = \"{}/keys\"", issuer.url());
    let server = serve(&program, &issuer.url(), &line);
    let process_status = fs::read_to_string(format!("/proc/{}/status", server.child.pid)).unwrap();
    assert!(
        process_status.contains("\nSeccomp:\t2\n"),
        "{process_status}"
    );
    let status = |key: &SigningKey| {
        let token = key.token(&issuer.url(), "skills:read");
        read(&server, "a", &token).status
    };
    wait_until("the keys are not fetched", || status(&old) == 200);
    let before = issuer.request_count();
    let verified = old.token(&issuer.url(), "skills:read");
    assert_eq!(read(&server, "a", &verified).status, 200);
    assert_eq!(issuer.request_count(), before);
    // The server asks an issuer at most every ten seconds, even if tokens have unknown keys.
    for _ in 0..5 {
        assert_eq!(status(&unknown), 401);
    }
    assert!(
        issuer.request_count() <= before + 1,
        "{}",
        issuer.request_count()
    );
    *issuer.reply.lock().unwrap() = Reply::Keys(keys(&[&new]));
    wait_until("the new key is not fetched", || {
        assert_eq!(status(&unknown), 401);
        thread::sleep(PAUSE);
        status(&new) == 200
    });
    assert!(
        issuer.request_count() <= before + 2,
        "{}",
        issuer.request_count()
    );
    // A removed key verifies no token, and tokens that it verified are forgotten.
    assert_eq!(status(&old), 401);
    assert_eq!(read(&server, "a", &verified).status, 401);
}

/// Replaces a server's key file by one with this mode. Checks the statuses for an old and a new
/// key, and returns the log.
fn replace_keys_in_a_file(mode: u32, statuses: (u16, u16)) -> String {
    let (old, new) = (SigningKey::new("old"), SigningKey::new("new"));
    let program = Program::new();
    program.write("keys.json", keys(&[&old]));
    let issuer = "https://login.example.com";
    let mut server = serve(&program, issuer, "jwks_file = \"keys.json\"");
    let process_status = fs::read_to_string(format!("/proc/{}/status", server.child.pid)).unwrap();
    assert!(
        process_status.contains("\nSeccomp:\t2\n"),
        "{process_status}"
    );
    let log = server.child.collect_stderr();
    let status = |key: &SigningKey| read(&server, "a", &key.token(issuer, "skills:read")).status;
    assert_eq!((status(&old), status(&new)), (200, 401));
    program.write("next", keys(&[&new]));
    let at = |name: &str| program.folder.path().join(name);
    fs::set_permissions(at("next"), fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(at("next"), at("keys.json")).unwrap();
    wait_until("the file is not read again", || {
        thread::sleep(PAUSE);
        status(&new) == 200 || log.lock().unwrap().contains("set its mode to 0644")
    });
    assert_eq!((status(&old), status(&new)), statuses);
    server.signal();
    assert_eq!(server.wait(), Some(0));
    log.lock().unwrap().clone()
}

#[test]
fn bad_issuer_affects_only_its_own_tokens() {
    let elsewhere = TestIssuer::start(Reply::Keys(keys(&[&SigningKey::new("a")])));
    let large = format!("{{\"keys\": [], \"x\": \"{}\"}}", "x".repeat(1 << 20));
    let replies = [
        Reply::Endless,
        Reply::Slow,
        Reply::Silent,
        Reply::Redirect(elsewhere.url()),
        Reply::Status(500),
        Reply::Status(404),
        Reply::Keys(large),
        Reply::Keys("<html>".into()),
        Reply::Keys("{}".into()),
    ];
    // Compile the tool before times are measured.
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let run = program.run(&["call", "read_skill", "skill_name=a"]);
    assert_eq!(run.stdout, "# A\n");
    thread::scope(|scope| {
        scope.spawn(wait_for_a_silent_issuer);
        for reply in replies {
            scope.spawn(|| {
                let issuer = TestIssuer::start(reply);
                let program = Program::new();
                program.write("t", super::TOKEN);
                let path = program.folder.path().join("t");
                fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
                let line = format!(
                    "jwks_url = \"{}/keys\"\n[clients.static]\ntoken_file = \"t\"",
                    issuer.url()
                );
                let mut server = serve(&program, &issuer.url(), &line);
                let log = server.child.collect_stderr();
                // Other clients do not wait for the issuer, whose reply can take ten seconds.
                let start = Instant::now();
                assert_eq!(read(&server, "a", super::TOKEN).text(), "# A\n");
                assert!(start.elapsed() < Duration::from_secs(5));
                // The token may be valid, so the answer is not 401.
                let token = SigningKey::new("k").token(&issuer.url(), "skills:read");
                assert_eq!(read(&server, "a", &token).status, 503);
                wait_until("the failure is not logged", || {
                    log.lock()
                        .unwrap()
                        .contains("refusing all tokens of the issuer")
                });
                // The log does not blame the egress process.
                let log = log.lock().unwrap();
                assert!(!log.contains("egress"), "{log}");
                assert!(issuer.request_count() <= 2);
            });
        }
    });
    assert_eq!(elsewhere.request_count(), 0);
}

/// Sends 17 requests that need the keys of a silent issuer. At most 16 may wait for them.
fn wait_for_a_silent_issuer() {
    let issuer = TestIssuer::start(Reply::Silent);
    let program = Program::new();
    let line = format!("jwks_url = \"{}/keys\"", issuer.url());
    let server = serve(&program, &issuer.url(), &line);
    let token = SigningKey::new("k").token(&issuer.url(), "skills:read");
    let (answered, answers) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..17 {
            let answered = answered.clone();
            scope.spawn(|| {
                let answered = answered;
                answered.send(read(&server, "a", &token)).unwrap();
            });
        }
        // One request is refused at once, and those that wait when the fetch times out.
        let first = answers.recv_timeout(patience()).unwrap();
        assert_eq!(first.status, 503, "{first:?}");
        assert_eq!(first.header("retry-after"), Some("1"));
        let others = (0..16).map(|_| answers.recv_timeout(patience()).unwrap());
        assert_eq!(others.filter(|answer| answer.status == 503).count(), 16);
    });
}

#[test]
fn forced_end_refuses_request_that_waits_for_keys() {
    let issuer = TestIssuer::start(Reply::Silent);
    let url = issuer.url();
    let issuers = format!("[issuers.test]\nissuer = \"{url}\"\njwks_url = \"{url}/keys\"\n");
    let tables = format!("shutdown_time = \"200ms\"\n{issuers}{CLIENT}");
    let program = Program::new();
    let mut server = serve_with(&program, &tables, &[]);
    let token = SigningKey::new("k").token(&url, "skills:read");
    let read = Request::call(1, "read_skill", json!({"skill_name": "a"}));
    let read = read.with("Authorization", &format!("Bearer {token}"));
    let mut waiting = Client::connect(server.address);
    waiting.send(&read.bytes());
    server.signal();
    let answer = waiting.answer().unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("shutting down"), "{answer:?}");
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn issuers_do_not_wait_for_each_other() {
    let key = SigningKey::new("one");
    let silent = TestIssuer::start(Reply::Silent);
    let reply = Reply::KeysAfter(Arc::clone(&silent.request_count), keys(&[&key]));
    let issuer = TestIssuer::start(reply);
    let table = |name: &str, issuer: &str| {
        format!("[issuers.{name}]\nissuer = \"{issuer}\"\njwks_url = \"{issuer}/keys\"\n")
    };
    let tables = format!(
        "{}{}[clients.ci]\nclaims = {{ iss = \"{}\" }}\n",
        table("a", &silent.url()),
        table("b", &issuer.url()),
        issuer.url()
    );
    let program = Program::new();
    let server = serve_with(&program, &tables, &[]);
    wait_until("the silent issuer is not asked", || {
        silent.request_count() > 0
    });
    let token = key.token(&issuer.url(), "skills:read");
    assert_eq!(read(&server, "a", &token).text(), "# A\n");
    assert_eq!(
        silent.closed_while_silent(),
        0,
        "a request waited for the silent issuer"
    );
}

#[test]
fn tokens_never_appear_in_the_log() {
    let key = SigningKey::new("one");
    let program = Program::new();
    program.write("keys.json", keys(&[&key]));
    write_owner_only(&program, "t", super::TOKEN);
    let issuer = "https://login.example.com";
    let issuers = format!("[issuers.test]\nissuer = \"{issuer}\"\njwks_file = \"keys.json\"\n");
    let tables = format!("{issuers}{CLIENT}[clients.static]\ntoken_file = \"t\"\n");
    let mut server = serve_with(&program, &tables, &["--log", "debug"]);
    let mut stderr = server.child.stderr.take().unwrap();
    let log = thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        log
    });
    let nobody = json!({"iss": issuer, "aud": RESOURCE, "exp": now() + 600, "sub": "nobody"});
    let tokens = [
        (super::TOKEN.to_owned(), 200),
        (key.token(issuer, "skills:read"), 200),
        // These tokens may be valid elsewhere.
        ("a-token-of-another-server".to_owned(), 401),
        ("eyA.a-token-that.is-malformed".to_owned(), 401),
        (SigningKey::new("one").token(issuer, "skills:read"), 401),
        (SigningKey::new("two").token(issuer, "skills:read"), 401),
        (key.token_until(issuer, "skills:read", now() - 600), 401),
        (key.token(issuer, "openid"), 403),
        (key.sign(&nobody), 403),
    ];
    let read = Request::call(1, "read_skill", json!({"skill_name": "a"}));
    for (token, status) in &tokens {
        let bearer = read
            .clone()
            .with("Authorization", &format!("Bearer {token}"));
        let basic = read
            .clone()
            .with("Authorization", &format!("Basic {token}"));
        let in_address = Request {
            line: format!("POST /mcp?access_token={token} HTTP/1.1"),
            ..read.clone()
        };
        for (request, status) in [(bearer, *status), (basic, 401), (in_address, 401)] {
            let answer = Client::once(server.address, &request);
            assert_eq!(answer.status, status, "{request:?}");
        }
    }
    server.signal();
    assert_eq!(server.wait(), Some(0));
    let log = join(log, "the end of the log").unwrap();
    assert!(log.contains("refused a request"), "{log}");
    for (token, _) in &tokens {
        let secret = token.rsplit('.').next().unwrap();
        assert!(!log.contains(secret), "{token}: {log}");
    }
}

/// Returns a file of `/proc` about a process, or an empty text if the process has ended.
fn proc_file(id: impl Display, name: &str) -> String {
    fs::read_to_string(format!("/proc/{id}/{name}")).unwrap_or_default()
}

/// Returns the egress supervisor, and the egress process that it starts.
fn egress_processes(server: &ServerProcess) -> [Pid; 2] {
    let mut both = [Vec::new(), Vec::new()];
    wait_until("the egress process does not start", || {
        both = ["egress", "egress-sender"].map(|argument| server.child.descendants(argument));
        both.iter().all(|processes| processes.len() == 1)
    });
    both.map(|processes| processes[0])
}

#[test]
fn egress_process_gets_no_environment() {
    let issuer = TestIssuer::start(Reply::Silent);
    let program = Program::new();
    let line = format!("jwks_url = \"{}/keys\"", issuer.url());
    let server = serve(&program, &issuer.url(), &line);
    // An environment could contain the token in `SKILLHOST_HTTP_TOKEN`.
    assert!(proc_file(server.child.pid, "environ").contains("SKILLHOST_"));
    for process in egress_processes(&server) {
        let variables = proc_file(process.as_raw_nonzero(), "environ");
        let mut variables = variables.split_terminator('\0');
        assert!(variables.all(|variable| variable.starts_with("SKILLHOST_PARENT=")));
    }
}

#[test]
fn arguments_of_egress_process_contain_no_address() {
    let issuer = TestIssuer::start(Reply::Silent);
    let program = Program::new();
    let line = format!("jwks_url = \"{}/keys?key=topsecret\"", issuer.url());
    let server = serve(&program, &issuer.url(), &line);
    wait_until("the issuer is not asked", || issuer.request_count() > 0);
    let arguments = egress_processes(&server)
        .map(|process| proc_file(process.as_raw_nonzero(), "cmdline"))
        .map(|arguments| arguments.split_once('\0').unwrap().1.to_owned());
    assert_eq!(arguments, ["egress\0", "egress-sender\0"]);
}

#[test]
fn server_is_unready_after_egress_supervisor_dies() {
    let issuer = TestIssuer::start(Reply::Silent);
    let program = Program::new();
    let line = format!("jwks_url = \"{}/keys\"", issuer.url());
    let server = serve(&program, &issuer.url(), &line);
    let [supervisor, _] = egress_processes(&server);
    kill_process(supervisor, Signal::KILL).unwrap();
    let ask = |path: &str| Client::once(server.address, &Request::get(path));
    wait_until("still ready", || ask("/readyz").status == 503);
    let answer = ask("/readyz");
    assert!(answer.body.contains("restart the server"), "{answer:?}");
    assert_eq!(ask("/healthz").status, 200);
}

#[test]
fn fetches_keys_after_egress_process_was_interrupted() {
    thread::scope(|scope| {
        for signal in [Signal::KILL, Signal::STOP] {
            scope.spawn(move || fetch_keys_after(signal));
        }
    });
}

/// Sends a signal to the egress process, and expects that a new key is fetched afterwards.
fn fetch_keys_after(signal: Signal) {
    let (old, new) = (SigningKey::new("old"), SigningKey::new("new"));
    let issuer = TestIssuer::start(Reply::Keys(keys(&[&old])));
    let program = Program::new();
    let line = format!("jwks_url = \"{}/keys\"", issuer.url());
    let server = serve(&program, &issuer.url(), &line);
    let status = |key: &SigningKey| {
        let token = key.token(&issuer.url(), "skills:read");
        read(&server, "a", &token).status
    };
    wait_until("the keys are not fetched", || status(&old) == 200);
    let before = egress_processes(&server);
    *issuer.reply.lock().unwrap() = Reply::Keys(keys(&[&new]));
    kill_process(before[1], signal).unwrap();
    if signal == Signal::STOP {
        // Wait until a fetch has failed.
        wait_until("keys come from a paused process", || {
            thread::sleep(PAUSE);
            status(&new) == 503
        });
        // The old keys still verify tokens.
        assert_eq!(status(&old), 200);
        kill_process(before[1], Signal::CONT).unwrap();
    }
    wait_until("the new key is not fetched", || {
        thread::sleep(PAUSE);
        status(&new) == 200
    });
    let after = egress_processes(&server);
    assert_eq!(after[0], before[0]);
    assert_eq!(after[1] != before[1], signal == Signal::KILL);
    let ready = Client::once(server.address, &Request::get("/readyz"));
    assert_eq!(ready.status, 200);
}

#[test]
fn keys_in_a_file_need_no_egress_process() {
    let program = Program::new();
    program.write("keys.json", keys(&[&SigningKey::new("one")]));
    let line = "jwks_file = \"keys.json\"";
    let server = serve(&program, "https://login.example.com", line);
    assert_eq!(server.child.descendants("egress"), []);
}

#[test]
fn fetches_keys_after_resolver_files_appear() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can mount folders; CI runs as root.
    }
    let key = SigningKey::new("one");
    let issuer = TestIssuer::start(Reply::Keys(keys(&[&key])));
    let program = Program::new();
    let url = format!("http://localhost:{}", issuer.address.port());
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("etc/nsswitch.conf", "hosts: files\n");
    let table = format!("[issuers.test]\nissuer = \"{url}\"\njwks_url = \"{url}/keys\"\n");
    let text = format!("skills = [\"skills\"]\n[http]\nresource = \"{RESOURCE}\"\n{table}{CLIENT}");
    program.write("c.toml", text);
    let mounted = "mount --bind etc /etc && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "sh",
            "-c",
            mounted,
            env!("CARGO_BIN_EXE_skillhost"),
        ])
        .args(["serve", "--http", "127.0.0.1:0", "--config", "c.toml"])
        .current_dir(program.folder.path())
        .env("SKILLHOST_CACHE", crate::support::cache())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let server = ServerProcess::started(Process::start(&mut command));
    let token = key.token(&url, "skills:read");
    assert_eq!(read(&server, "a", &token).status, 503);
    // The resolver's file appears, as after a boot, and another one then replaces it.
    for hosts in ["127.0.0.2 other", "127.0.0.1 localhost"] {
        program.write("etc/next", hosts);
        let at = |name: &str| program.folder.path().join("etc").join(name);
        fs::rename(at("next"), at("hosts")).unwrap();
    }
    wait_until("the keys are not fetched", || {
        thread::sleep(PAUSE);
        read(&server, "a", &token).status == 200
    });
}

#[test]
fn egress_process_is_confined_and_still_fetches() {
    let key = SigningKey::new("one");
    let issuer = TestIssuer::start(Reply::Keys(keys(&[&key])));
    let program = Program::new();
    // A host name, which the C library resolves.
    let url = format!("http://localhost:{}", issuer.address.port());
    let server = serve(&program, &url, &format!("jwks_url = \"{url}/keys\""));
    let token = key.token(&url, "skills:read");
    wait_until("the keys are not fetched", || {
        read(&server, "a", &token).status == 200
    });
    let [_, sender] = egress_processes(&server);
    let status = proc_file(sender.as_raw_nonzero(), "status");
    for line in [
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
    ] {
        assert!(status.contains(&format!("\n{line}\n")), "{line}: {status}");
    }
}

#[test]
fn issuers_need_certificates_of_public_authorities() {
    // An authority in `ca_file` is trusted only for requests of tools, so this issuer is refused.
    let authority = Authority::new();
    // A skillhost server takes the place of the issuer. Its TLS handshake fails, so it gets no
    // request for keys.
    let issuer_program = Program::new();
    issuer_program.write("skills/a/SKILL.md", "# A\n");
    write_pair(&issuer_program, "server", &authority.server_pair());
    let options = [
        "--skills",
        "skills",
        "--tls-cert",
        "server.crt",
        "--tls-key",
        "server.key",
    ];
    let start = [&["serve", "--http", "localhost:0"], &options[..]].concat();
    let mut issuer = Process::start(&mut issuer_program.command(&start));
    let address = issuer.first_line();
    let url = address.strip_suffix("/mcp").unwrap();
    let program = Program::new();
    program.write("ca.pem", &authority.certificate);
    let lines = format!("jwks_url = \"{url}/keys\"\n[network]\nca_file = \"ca.pem\"");
    let mut server = serve(&program, url, &lines);
    let token = SigningKey::new("one").token(url, "skills:read");
    assert_eq!(read(&server, "a", &token).status, 503);
    server.signal();
    assert_eq!(server.wait(), Some(0));
    let mut log = String::new();
    let stderr = server.child.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut log).unwrap();
    assert!(log.contains("no trusted authority signed it"), "{log}");
}
