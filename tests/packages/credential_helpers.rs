//! Credentials for registries, from docker's credential helpers.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::support::registry::{Answer, header};

/// Runs `add` with the user's docker configuration, and a PATH of only the folder `bin`.
fn add(user: &User) -> Run {
    let reference = user.reference();
    let mut command = user.program.command(&["add", &reference]);
    command
        .env("XDG_DATA_HOME", user.path("data"))
        .env("DOCKER_CONFIG", user.path("docker"))
        .env("PATH", user.path("bin").into_os_string());
    finish(command, "")
}

#[test]
fn helper_gives_credentials_for_its_registry() {
    let user = User::new();
    user.push(&count_lines(), None);
    let basic = format!("Basic {}", STANDARD.encode("acme:secret"));
    user.registry.replace_answers(move |head| {
        let challenge = [("www-authenticate", "Basic realm=\"x\"")];
        let is_authorized = header(head, "authorization") == basic;
        (!is_authorized).then(|| Answer::Raw(answer("401 X", &challenge, b"")))
    });
    let authority = user.registry.authority.clone();
    let config = json!({"credHelpers": {&authority: "acme"}}).to_string();
    user.program.write("docker/config.json", &config);
    let missing = add(&user);
    assert_eq!(missing.code, 4, "{missing:?}");
    let expected = "`docker-credential-acme`";
    assert!(missing.stderr.contains(expected), "{missing:?}");
    let script = format!(
        "echo \"$1\" >> '{}'\nread server\n\
         test \"$server\" = '{authority}' || {{ echo \"other: $server\" >&2; exit 1; }}\n\
         echo '{{\"ServerURL\":\"x\",\"Username\":\"acme\",\"Secret\":\"secret\"}}'",
        user.path("runs").display()
    );
    user.program.script("bin/docker-credential-acme", &script);
    let added = add(&user);
    assert_eq!(added.code, 0, "{added:?}");
    let runs = || fs::read_to_string(user.path("runs")).unwrap();
    assert_eq!(runs(), "get\n");
    // The file names the program that runs, so others must not be able to write the file.
    let file = user.path("docker/config.json");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    fs::remove_file(user.path("skillhost.lock")).unwrap();
    user.program
        .write("skillhost.toml", "skills = [\"skills\"]\n");
    let refused = add(&user);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.stderr.contains("cannot use the credential helper"),
        "{refused:?}"
    );
    assert_eq!(runs(), "get\n");
}

#[test]
fn helper_runs_only_if_registry_asks() {
    let user = User::new();
    user.push(&count_lines(), None);
    user.program
        .write("docker/config.json", r#"{"credsStore": "acme"}"#);
    let script = format!("touch '{}'", user.path("ran").display());
    user.program.script("bin/docker-credential-acme", &script);
    let added = add(&user);
    assert_eq!(added.code, 0, "{added:?}");
    assert!(!user.path("ran").exists());
}
