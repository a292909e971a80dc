//! Starts that fail: each says why in one line, prints no address, and nothing of the
//! processes that work for the program reaches its user.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use super::*;
use crate::support::guests;

/// Runs a server to its end, which is that of its start. Its input stays open.
#[track_caller]
fn start(program: &Program, arguments: &[&str]) -> Output {
    let mut child = Process::start(&mut program.command(arguments));
    let _input = child.stdin.take();
    child.output()
}

/// Checks that a start has failed and said so in one line.
#[track_caller]
fn assert_said(ended: &Output, says: &str, about: &str) {
    let stderr = String::from_utf8_lossy(&ended.stderr);
    let is_error = |line: &&str| !line.trim_start().starts_with("WARN");
    let errors: Vec<&str> = stderr.lines().filter(is_error).collect();
    let [error] = errors[..] else {
        panic!("{about}: {stderr}");
    };
    assert!(
        error.starts_with("skillhost: ") && error.contains(says),
        "{about}: {stderr}"
    );
    assert_eq!(ended.stdout, b"", "{about}");
    assert_eq!(ended.status.code(), Some(4), "{about}: {stderr}");
}

/// A configuration that no server starts with, and a part of the error.
const CONFIGURATIONS: &[(&str, &str)] = &[
    ("audit_file = \"noise\"", "cannot use the audit log"),
    ("audit_file = \"none/log\"", "cannot use the audit log"),
    ("audit_file = \"skills\"", "cannot use the audit log"),
    (
        "audit_file = \"log\"\n[audit]\nkey_file = \"noise\"",
        "cannot use the key file",
    ),
    ("skills = [\"none\"]", "cannot use the folder"),
    ("tools = [\"none\"]", "cannot use the folder"),
    ("home = \"none\"", "cannot use the folder"),
    ("[grants.\"none.wasm\"]", "grants something to `none.wasm`"),
    ("[pins]\n\"none.wasm\" = \"HASH\"", "pins `none.wasm`"),
    (
        "tools = [\"bad\"]\nrequire_components = true",
        "cannot load the tool component",
    ),
    ("tools = [\"tools\"]\nrequire_pins = true", "it has no pin"),
    (
        "[process]\nconfine = \"required\"",
        "`confine = \"required\"`",
    ),
    ("skils = []", "unknown key"),
];

/// The same for a server over HTTP.
const HTTP_CONFIGURATIONS: &[(&str, &str)] = &[
    (
        "[http]\ntls_cert = \"none\"\ntls_key = \"none\"",
        "cannot use the certificate",
    ),
    (
        "[http]\ntls_cert = \"noise\"\ntls_key = \"noise\"",
        "cannot use the certificate",
    ),
    ("[http]\ntls_cert = \"noise\"", "needs its key"),
    ("[http]\ntoken_file = \"none\"", "`none`"),
];

#[test]
fn a_failed_start_prints_one_error_and_no_address() {
    let program = program();
    program.write("noise", "no record\n");
    program.write("bad/bad.wasm", "no component");
    let component = fs::read(guests().join("count_lines.wasm")).unwrap();
    program.write("tools/count_lines.wasm", component);
    let noise = program.folder.path().join("noise");
    fs::set_permissions(noise, fs::Permissions::from_mode(0o600)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let stdio = ["--config", "c.toml", "serve"];
    let http = [&stdio[..], &["--http", "127.0.0.1:0"]].concat();
    let over_http = CONFIGURATIONS.iter().chain(HTTP_CONFIGURATIONS);
    let over_http = over_http.map(|case| (&http[..], case));
    let over_stdio = CONFIGURATIONS.iter().map(|case| (&stdio[..], case));
    for (arguments, (config, says)) in over_stdio.chain(over_http) {
        if config.contains("confine") && !is_root {
            continue; // Whether it starts depends on the kernel.
        }
        let skills = if config.contains("skills = ") {
            ""
        } else {
            "skills = [\"skills\"]\n"
        };
        let config = format!("{skills}{config}\n").replace("HASH", &"0".repeat(64));
        program.write("c.toml", &config);
        let ended = start(&program, arguments);
        assert_said(&ended, says, &format!("{arguments:?}: {config}"));
    }
    program.write("c.toml", "skills = [\"skills\"]\n");
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let unix = format!("unix:{}", program.folder.path().join("noise").display());
    for (address, says) in [
        (taken.as_str(), "cannot serve at"),
        (unix.as_str(), "noise"),
        ("unix:/none/socket", "/none"),
    ] {
        let ended = start(
            &program,
            &["--config", "c.toml", "serve", "--http", address],
        );
        assert_said(&ended, says, address);
    }
}
