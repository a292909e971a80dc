//! Starts that fail: each prints one error, and neither the server's address nor a message of a
//! helper process.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use super::*;
use crate::support::guests;

/// Runs a server that fails to start, with an open stdin, and returns its output.
#[track_caller]
fn start(program: &Program, arguments: &[&str]) -> Output {
    let mut child = Process::start(&mut program.command(arguments));
    let _input = child.stdin.take();
    child.output()
}

/// Checks that a start failed with one error line that contains this message.
#[track_caller]
fn assert_failed_with(output: &Output, message: &str, case: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let is_error = |line: &&str| !line.trim_start().starts_with("WARN");
    let errors: Vec<&str> = stderr.lines().filter(is_error).collect();
    let [error] = errors[..] else {
        panic!("{case}: {stderr}");
    };
    assert!(
        error.starts_with("skillhost: ") && error.contains(message),
        "{case}: {stderr}"
    );
    assert_eq!(output.stdout, b"", "{case}");
    assert_eq!(output.status.code(), Some(4), "{case}: {stderr}");
}

/// Configurations that every server refuses, each with a part of the error.
const CONFIGURATIONS: &[(&str, &str)] = &[
    ("audit_file = \"wrong_file\"", "cannot use the audit log"),
    ("audit_file = \"none/log\"", "cannot use the audit log"),
    ("audit_file = \"skills\"", "cannot use the audit log"),
    (
        "audit_file = \"log\"\n[audit]\nkey_file = \"wrong_file\"",
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

/// Configurations that an HTTP server refuses, each with a part of the error.
const HTTP_CONFIGURATIONS: &[(&str, &str)] = &[
    (
        "[http]\ntls_cert = \"none\"\ntls_key = \"none\"",
        "cannot use the certificate",
    ),
    (
        "[http]\ntls_cert = \"wrong_file\"\ntls_key = \"wrong_file\"",
        "cannot use the certificate",
    ),
    ("[http]\ntls_cert = \"wrong_file\"", "needs its key"),
    ("[http]\ntoken_file = \"none\"", "`none`"),
];

#[test]
fn failed_start_prints_one_error_and_no_address() {
    let program = program();
    program.write("wrong_file", "not a record\n");
    program.write("bad/bad.wasm", "not a component");
    let component = fs::read(guests().join("count_lines.wasm")).unwrap();
    program.write("tools/count_lines.wasm", component);
    let wrong_file = program.folder.path().join("wrong_file");
    fs::set_permissions(wrong_file, fs::Permissions::from_mode(0o600)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let stdio = ["--config", "c.toml", "serve"];
    let http = [&stdio[..], &["--http", "127.0.0.1:0"]].concat();
    let over_http = CONFIGURATIONS.iter().chain(HTTP_CONFIGURATIONS);
    let over_http = over_http.map(|case| (&http[..], case));
    let over_stdio = CONFIGURATIONS.iter().map(|case| (&stdio[..], case));
    for (arguments, (config, message)) in over_stdio.chain(over_http) {
        if config.contains("confine") && !is_root {
            // `confine = "required"` always refuses root. For other users it depends on the kernel.
            continue;
        }
        let skills = if config.contains("skills = ") {
            ""
        } else {
            "skills = [\"skills\"]\n"
        };
        let config = format!("{skills}{config}\n").replace("HASH", &"0".repeat(64));
        program.write("c.toml", &config);
        let case = format!("{arguments:?}: {config}");
        assert_failed_with(&start(&program, arguments), message, &case);
        // Stdin is at its end, as if the client had already disconnected.
        let closed = output(program.command(arguments).stdin(Stdio::null()));
        assert_failed_with(&closed, message, &format!("closed: {case}"));
    }
    program.write("c.toml", "skills = [\"skills\"]\n");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let occupied = listener.local_addr().unwrap().to_string();
    let unix = format!(
        "unix:{}",
        program.folder.path().join("wrong_file").display()
    );
    for (address, message) in [
        (occupied.as_str(), "cannot serve at"),
        (unix.as_str(), "wrong_file"),
        ("unix:/none/socket", "/none"),
    ] {
        let arguments = ["--config", "c.toml", "serve", "--http", address];
        assert_failed_with(&start(&program, &arguments), message, address);
    }
    let served = output(program.command(&stdio).stdin(Stdio::null()));
    let stderr = String::from_utf8_lossy(&served.stderr);
    assert_eq!(served.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("skillhost: "), "{stderr}");
}
