//! Clients in the program: invalid configurations, and warnings about useless settings.

use serde_json::json;

use super::super::TOKEN;
use super::super::program::ServerProcess;
use crate::support::http::{Client, Request};
use crate::support::program::Program;
use crate::support::watchdog::wait_until;

#[test]
fn names_setting_of_invalid_client() {
    use std::os::unix::fs::PermissionsExt as _;

    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let token = |name: &str, text: &str, mode| {
        program.write(name, text);
        let path = program.folder.path().join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    token("one", TOKEN, 0o600);
    token("same", TOKEN, 0o600);
    token("open", "a-token-that-others-read", 0o644);
    token("short", "too-short", 0o600);
    let arguments = ["serve", "--config", "c.toml", "--http", "127.0.0.1:0"];
    for (text, extra, reason) in [
        ("[clients.a]\n", &[][..], "the client `a` has no credential"),
        (
            "[clients.a]\ntoken_file = \"one\"\n[clients.b]\ntoken_file = \"same\"\n",
            &[],
            "`c.toml`, line 4: `[clients.a]` has the same token",
        ),
        (
            "[clients.a]\ntoken_file = \"open\"\n",
            &[],
            "`token_file` of `[clients.a]`",
        ),
        (
            "[clients.a]\ntoken_file = \"open\"\n",
            &[],
            "set its mode to 0600",
        ),
        (
            "[clients.a]\ntoken_file = \"short\"\n",
            &[],
            "between 16 and 4096",
        ),
        (
            "[clients.a]\ntoken_file = \"one\"\n",
            &["--token-file", "same"],
            "the token of `[http]`: `[clients.a]` has the same token",
        ),
    ] {
        program.write("c.toml", text);
        let run = program.run(&[&arguments, extra].concat());
        assert_eq!(run.code, 4, "{text}: {run:?}");
        assert!(run.stderr.contains(reason), "{text}: {}", run.stderr);
    }
}

#[test]
fn warns_of_unused_scopes_and_expired_clients() {
    use std::os::unix::fs::PermissionsExt as _;

    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("t", TOKEN);
    let path = program.folder.path().join("t");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    program.write(
        "c.toml",
        "skills = [\"skills\"]\n[clients.old]\ntoken_file = \"t\"\nexpires = 2001-01-01\n\
         tools = [\"read_*\", \"reed_*\"]\nskills = [\"a\", \"zebra\"]\n",
    );
    let mut server = ServerProcess::new(&program, &["--config", "c.toml"], None);
    wait_until("the server is not ready", || {
        Client::once(server.address, &Request::get("/readyz")).status == 200
    });
    let read = Request::call(1, "read_skill", json!({"skill_name": "a"}));
    let read = read.with("Authorization", &format!("Bearer {TOKEN}"));
    let refused = Client::once(server.address, &read);
    assert_eq!(refused.status, 401);
    // The peer does not learn the reason.
    let message = &refused.json()["error"]["message"];
    assert_eq!(message, "the bearer token is missing or wrong");
    server.signal();
    assert_eq!(server.wait(), Some(0));
    let mut log = String::new();
    let stderr = server.child.stderr.as_mut().unwrap();
    std::io::Read::read_to_string(stderr, &mut log).unwrap();
    for line in [
        "`expires` of `[clients.old]` has passed",
        "`reed_*` in `tools` of `[clients.old]` matches none of the tools",
        "`zebra` in `skills` of `[clients.old]` matches none of the skills",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(
        !log.contains("`read_*`") && !log.contains("`a` in"),
        "{log}"
    );
}
