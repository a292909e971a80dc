//! The user's credentials for registries, from the files of docker and podman, and from the programs
//! (credential helpers) that these files name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use skillhost_helper::{GroupLeader, HelperProcess};
use skillhost_skills::broker::Opener;
use skillhost_skills::named_file;
use skillhost_skills::search_path::SearchPath;
use skillhost_skills::trust::Trust;

use crate::quote::quote;

/// The maximum size of a file of credentials, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The maximum size of a credential helper's output, in bytes.
const MAX_OUTPUT: usize = 64 << 10;

/// The maximum length of a helper's name, in bytes.
const MAX_HELPER_NAME: usize = 64;

/// The user name in the answer of a helper that has an identity token instead of a password.
const TOKEN_USER: &str = "<token>";

/// Docker Hub's registry, and its name in docker's files.
const DOCKER_HUB: (&str, &str) = ("registry-1.docker.io", "https://index.docker.io/v1/");

/// The name and password of a user, in base64 as in the header `Authorization`.
#[derive(Clone)]
pub(crate) struct Credentials(String);

impl Credentials {
    /// Returns the header `Authorization`.
    pub(crate) fn header(&self) -> String {
        format!("Basic {}", self.0)
    }
}

/// The source of a registry's credentials.
pub(crate) enum CredentialSource {
    /// Credentials from a file.
    Pair(Credentials),
    /// A program that returns them.
    Helper(CredentialHelper),
}

/// A program that stores credentials elsewhere, such as in a keychain.
pub(crate) struct CredentialHelper {
    /// The file that names the helper.
    file: PathBuf,
    /// The reason why the file is not trusted. If there is one, the program does not run.
    refusal: Option<String>,
    name: String,
    /// The name of the registry, as docker stores it.
    server: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AuthFile {
    auths: BTreeMap<String, AuthEntry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

/// The answer of a helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AuthEntry {
    auth: Option<String>,
}

impl CredentialHelper {
    /// Returns the credentials. Errors contain no part of them.
    ///
    /// # Errors
    ///
    /// If others can change the program or the file that names the helper, or the program's answer
    /// is not what docker defines.
    pub(crate) fn run(&self, time: Duration) -> anyhow::Result<Credentials> {
        let program = format!("docker-credential-{}", self.name);
        let run = || -> anyhow::Result<Credentials> {
            let search_path = SearchPath::from_environment();
            let found = search_path.find(&program).next();
            let found =
                found.context("not found on the PATH; relative folders on the PATH are ignored")?;
            self.ask(&found, &search_path, time)
        };
        run().with_context(|| {
            format!(
                "cannot use the credential helper `{program}`, which `{}` names",
                self.file.display()
            )
        })
    }

    fn ask(
        &self,
        program: &Path,
        search_path: &SearchPath,
        time: Duration,
    ) -> anyhow::Result<Credentials> {
        if let Some(why) = &self.refusal {
            anyhow::bail!("{why}");
        }
        Trust::new().check(program)?;
        let process = HelperProcess::start("the credential helper", |[stdin, stdout, stderr]| {
            let mut command = GroupLeader::command(program);
            command
                .arg("get")
                .envs(std::env::vars_os())
                .stdin(Stdio::from(stdin))
                .stdout(Stdio::from(stdout))
                .stderr(Stdio::from(stderr));
            search_path.set_for(&mut command);
            Ok(Box::new(GroupLeader::spawn(&mut command)?))
        })?;
        let output = process.filter(self.server.as_bytes(), MAX_OUTPUT, time)?;
        // An error of the parser could show a part of the answer.
        let answer: Option<HelperAnswer> = serde_json::from_slice(&output).ok();
        let answer = answer.context("its answer is not the JSON that docker defines")?;
        ensure!(
            answer.username != TOKEN_USER,
            "it has an identity token instead of a password, which is not supported"
        );
        let is_plain = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
        ensure!(
            is_plain(&answer.username)
                && !answer.username.contains(':')
                && is_plain(&answer.secret),
            "its answer has an invalid user or password"
        );
        let pair = format!("{}:{}", answer.username, answer.secret);
        Ok(Credentials(STANDARD.encode(pair)))
    }
}

/// Checks the name of a helper, which becomes a part of a program's name.
fn check_helper(name: &str) -> anyhow::Result<()> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    ensure!(
        (1..=MAX_HELPER_NAME).contains(&name.len()) && name.bytes().all(is_plain),
        "the credential helper `{}` is not the name of a program",
        quote(name)
    );
    Ok(())
}

/// Returns the source of a repository's credentials, from the first file that has one.
///
/// In a file, the registry's helper comes first, then the most specific entry (podman writes entries
/// for parts of a registry), then the helper for all registries.
pub(crate) fn find(
    files: &[PathBuf],
    registry: &str,
    repository: &str,
) -> anyhow::Result<Option<CredentialSource>> {
    for file in files.iter().filter(|file| file.exists()) {
        let cannot = || format!("cannot use the credentials in `{}`", file.display());
        let opened = named_file::open_public(file, &Trust::new(), &Opener::DIRECT);
        let refusal = opened.as_ref().err().map(|error| format!("{error:#}"));
        let text = match opened {
            Ok(file) => named_file::read_all_text(file, MAX_BYTES),
            // A password that others can change does no harm. A helper that they choose would.
            Err(_) => named_file::read_text(file, MAX_BYTES),
        };
        // An error of the parser could show a part of the file.
        let parsed: Option<AuthFile> = serde_json::from_str(&text.with_context(cannot)?).ok();
        let parsed = parsed.context("it is invalid JSON").with_context(cannot)?;
        let is_hub = registry == DOCKER_HUB.0;
        let server = if is_hub { DOCKER_HUB.1 } else { registry };
        let helper = |name: &String| {
            check_helper(name).with_context(cannot)?;
            Ok(Some(CredentialSource::Helper(CredentialHelper {
                file: file.clone(),
                refusal: refusal.clone(),
                name: name.clone(),
                server: server.to_owned(),
            })))
        };
        let place = format!("{registry}/{repository}");
        let places = place.match_indices('/').map(|(at, _)| &place[..at]);
        let places: Vec<&str> = places.chain([&*place]).collect();
        let mut names: Vec<String> = places.iter().rev().map(|it| (*it).to_owned()).collect();
        names.extend([
            format!("https://{registry}"),
            format!("https://{registry}/"),
        ]);
        if is_hub {
            names.push(server.to_owned());
        }
        if let Some(name) = names.iter().find_map(|it| parsed.cred_helpers.get(it)) {
            return helper(name);
        }
        let auths = parsed.auths;
        let found = names.iter().find_map(|name| auths.get(name)?.auth.clone());
        let Some(auth) = found.filter(|auth| !auth.is_empty()) else {
            match parsed.creds_store.filter(|name| !name.is_empty()) {
                Some(name) => return helper(&name),
                None => continue,
            }
        };
        let decoded = STANDARD.decode(auth.trim()).ok();
        let is_pair = decoded.is_some_and(|it| it.contains(&b':') && !it.contains(&b'\n'));
        ensure!(
            is_pair,
            "{}: the entry of `{registry}` is invalid",
            cannot()
        );
        let pair = Credentials(auth.trim().to_owned());
        return Ok(Some(CredentialSource::Pair(pair)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Returns the header's value, or the helper's name and the server it is asked about.
    fn found(source: Option<CredentialSource>) -> Option<String> {
        Some(match source? {
            CredentialSource::Pair(pair) => pair.0,
            CredentialSource::Helper(helper) => format!("{} {}", helper.name, helper.server),
        })
    }

    #[test]
    fn finds_most_specific_credentials() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("auth.json");
        let (one, two) = (STANDARD.encode("one:1"), STANDARD.encode("two:2"));
        let text = serde_json::json!({
            "auths": {
                "registry.example": {"auth": one},
                "registry.example/acme": {"auth": two},
                "https://old.example/": {"auth": one},
                "empty.example": {},
                "helped.example": {"auth": one},
            },
            "credHelpers": {"helped.example": "one.example-1"},
        });
        fs::write(&file, text.to_string()).unwrap();
        let files = [folder.path().join("missing"), file];
        for (registry, repository, expected) in [
            ("registry.example", "other/csv", Some(&*one)),
            ("registry.example", "acme/csv", Some(&two)),
            ("registry.example", "acme-other/csv", Some(&one)),
            ("old.example", "csv", Some(&one)),
            ("empty.example", "csv", None),
            ("other.registry.example", "csv", None),
            (
                "helped.example",
                "csv",
                Some("one.example-1 helped.example"),
            ),
        ] {
            let found = found(find(&files, registry, repository).unwrap());
            assert_eq!(found.as_deref(), expected, "{registry}/{repository}");
        }
        let mut store = text;
        store["credsStore"] = "desktop".into();
        fs::write(&files[1], store.to_string()).unwrap();
        for (registry, expected) in [
            ("registry.example", &*one),
            ("empty.example", "desktop empty.example"),
            (
                "registry-1.docker.io",
                "desktop https://index.docker.io/v1/",
            ),
        ] {
            let found = found(find(&files, registry, "x/y").unwrap());
            assert_eq!(found.as_deref(), Some(expected), "{registry}");
        }
        for name in ["../x", "a b", "x;y", ""] {
            let text = serde_json::json!({"credHelpers": {"registry.example": name}});
            fs::write(&files[1], text.to_string()).unwrap();
            let error = find(&files, "registry.example", "csv").err().unwrap();
            let error = format!("{error:#}");
            assert!(error.contains("not the name of a program"), "{error}");
        }
        fs::write(&files[1], "{\"auths\": secret}").unwrap();
        let error = find(&files, "registry.example", "csv").err().unwrap();
        assert!(!format!("{error:#}").contains("secret"), "{error:#}");
    }

    /// Asks a helper whose program is a script, after `change`.
    fn ask(
        script: &str,
        change: impl FnOnce(&Path, &mut CredentialHelper),
    ) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("helper");
        fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let mut helper = CredentialHelper {
            file: PathBuf::from("config.json"),
            refusal: None,
            name: "test".to_owned(),
            server: "registry.example".to_owned(),
        };
        change(&program, &mut helper);
        let asked = helper.ask(
            &program,
            &SearchPath::from_environment(),
            Duration::from_secs(30),
        );
        asked.map(|it| it.0).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn asks_helper_as_docker_does() {
        let script = r#"test "$1" = get || exit 1
            read server
            echo "{\"ServerURL\":\"$server\",\"Username\":\"acme\",\"Secret\":\"$server\"}""#;
        let expected = STANDARD.encode("acme:registry.example");
        assert_eq!(ask(script, |_, _| {}), Ok(expected));
    }

    #[test]
    fn bad_helpers_give_no_credentials() {
        let answer = |user: &str| format!(r#"echo '{{"Username":"{user}","Secret":"hidden"}}'"#);
        for (script, why) in [
            (
                "echo credentials not found; exit 1".to_owned(),
                "exit status: 1",
            ),
            ("echo no keychain >&2; exit 1".to_owned(), "no keychain"),
            ("echo hidden".to_owned(), "not the JSON that docker defines"),
            (
                r#"echo '{"Username":"acme"}'"#.to_owned(),
                "not the JSON that docker defines",
            ),
            (
                r#"echo '{"Username":"acme","Secret":["hidden"]}'"#.to_owned(),
                "not the JSON that docker defines",
            ),
            (answer("a:b"), "an invalid user or password"),
            (answer("a\\u000ab"), "an invalid user or password"),
            (answer(""), "an invalid user or password"),
            (answer("<token>"), "an identity token"),
            ("exec yes hidden".to_owned(), "wrote more than 65536 bytes"),
        ] {
            let error = ask(&script, |_, _| {}).unwrap_err();
            assert!(error.contains(why), "{script}: {error}");
            assert!(!error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn helper_that_others_could_choose_does_not_run() {
        let run = "echo ran >&2; exit 1";
        let make_writable =
            |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = ask(run, |program, _| make_writable(program)).unwrap_err();
        assert!(!error.contains("ran"), "{error}");
        let refused = |_: &Path, helper: &mut CredentialHelper| {
            helper.refusal = Some("others can change it".to_owned());
        };
        assert_eq!(ask(run, refused), Err("others can change it".to_owned()));
        // A file that others can change does not choose a helper either.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        fs::write(&file, r#"{"credsStore": "test"}"#).unwrap();
        for is_writable in [false, true] {
            if is_writable {
                make_writable(&file);
            }
            match find(std::slice::from_ref(&file), "registry.example", "csv").unwrap() {
                Some(CredentialSource::Helper(helper)) => {
                    assert_eq!(helper.refusal.is_some(), is_writable);
                }
                _ => panic!("no helper"),
            }
        }
    }
}
