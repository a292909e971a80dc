//! Packages, as users see them: from an author's component through a registry to a call.

mod credential_helpers;
mod dry_run;
mod identities;
mod live;
mod requests;
// Snapshots of a user's folder.
mod state;
// Skills.
mod skills;
mod sources;
// Earlier and denied versions.
mod rollback;
// Files for machines without a network.
mod bundle_files;
// The program killed at each step.
mod kills;
// Changed locks, stores, registries and configurations.
mod tampering;

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rcgen::KeyPair;
use serde_json::json;

use crate::needs::{count_lines, with_custom_section, with_section};
use crate::support::certificates::write_owner_only;
use crate::support::program::{Program, Run, finish};
use crate::support::registry::{TestRegistry, answer};
use crate::support::{guests, repository};

/// A user with a configuration, skills and an empty store.
struct User {
    program: Program,
    registry: TestRegistry,
}

impl User {
    fn new() -> Self {
        let program = Program::new();
        program.write("skills/calculator/SKILL.md", "# One\n# Two\n");
        let config = "# ours\nskills = [\"skills\"] # here\n";
        program.write("skillhost.toml", config);
        Self {
            program,
            registry: TestRegistry::start(),
        }
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let mut command = self.program.command(arguments);
        command
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/bin:/bin")
            .env("XDG_DATA_HOME", self.path("data"));
        finish(command, "")
    }

    /// Runs a verb that must succeed, and returns what it prints.
    #[track_caller]
    fn run_ok(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {run:?}");
        run.stdout
    }

    /// Runs a verb that must fail with this code, and must not change the configuration or the lock
    /// file. Returns its error.
    #[track_caller]
    fn run_err(&self, code: i32, arguments: &[&str]) -> String {
        let before = self.files();
        let run = self.run(arguments);
        assert_eq!(run.code, code, "{arguments:?}: {run:?}");
        assert_eq!(self.files(), before, "{arguments:?}: {run:?}");
        run.stderr
    }

    fn path(&self, name: &str) -> PathBuf {
        self.program.folder.path().join(name)
    }

    /// Returns the configuration and the lock file, if they exist.
    fn files(&self) -> [Option<String>; 2] {
        ["skillhost.toml", "skillhost.lock"].map(|name| fs::read_to_string(self.path(name)).ok())
    }

    fn append(&self, text: &str) {
        let config = fs::read_to_string(self.path("skillhost.toml")).unwrap();
        self.program.write("skillhost.toml", config + text);
    }

    /// Trusts a key for the packages of `acme`.
    fn trust(&self, key: &str) {
        let pattern = format!("oci://{}/acme/*", self.registry.authority);
        self.append(&format!("[trust.\"{pattern}\"]\nkeys = [\"{key}.pub\"]\n"));
    }

    fn lock(&self) -> String {
        self.files()[1].clone().unwrap()
    }

    /// Returns the path of a blob in the store.
    fn blob(&self, digest: &str) -> PathBuf {
        let store = self.path("data/skillhost/store/sha256");
        store.join(digest.strip_prefix("sha256:").unwrap())
    }

    fn reference(&self) -> String {
        format!("oci://{}/acme/csv:1", self.registry.authority)
    }

    /// Makes a key, with the files `NAME.key` and `NAME.pub`.
    fn new_key(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        write_owner_only(&self.program, &format!("{name}.key"), &key.serialize_pem());
        self.program
            .write(&format!("{name}.pub"), key.public_key_pem());
    }

    /// Pushes a component, and signs it with a key if there is one.
    fn push(&self, component: &[u8], key: Option<&str>) -> String {
        self.program.write("dist/csv.wasm", component);
        let (reference, key) = (self.reference(), key.map(|key| format!("{key}.key")));
        let mut arguments = vec!["push", &*reference];
        arguments.extend(key.iter().flat_map(|key| ["--key", key]));
        self.run_ok(&arguments)
    }

    /// Writes bytes into the store, and locks and configures them as a component.
    fn lock_bytes(&self, name: &str, bytes: &[u8], tool: &str) {
        let write = |bytes: &[u8]| {
            let digest = skillhost_packages::Digest::of(bytes);
            fs::write(self.blob(&digest.to_string()), bytes).unwrap();
            digest
        };
        self.run_ok(&["store", "list"]);
        let content = write(bytes);
        let manifest = json!({"schemaVersion": 2, "layers": [{
            "mediaType": "application/wasm", "digest": content, "size": bytes.len(),
        }]});
        let manifest = write(manifest.to_string().as_bytes());
        let source = self.reference().replace("csv", name);
        let lock = self.files()[1].clone().unwrap_or_default();
        let entry = format!(
            "[[component]]\nname = \"{name}\"\nsource = \"{source}\"\nmanifest = \"{manifest}\"\n\
             content = \"{content}\"\nsize = {}\nunsigned = true\ntools = [\"{tool}\"]\nimports = \
             []\npowers = []\n",
            bytes.len()
        );
        self.program.write("skillhost.lock", lock + &entry);
        self.append(&format!("[components.{name}]\nsource = \"{source}\"\n"));
    }

    fn call(&self) -> Run {
        self.run(&[
            "call",
            "count_lines",
            "skill_name=calculator",
            "path=SKILL.md",
        ])
    }
}

/// Returns [`count_lines`] with a version.
fn versioned_component(version: &str) -> Vec<u8> {
    with_custom_section(count_lines(), "version", version)
}

/// Returns a value of a key in a lock file. `index` counts the entries that have the key.
fn lock_value(lock: &str, key: &str, index: usize) -> String {
    let start = format!("{key} = \"");
    let mut lines = lock.lines().filter_map(|line| line.strip_prefix(&*start));
    lines.nth(index).unwrap().trim_matches('"').to_owned()
}

const GRANT: &str = "[grants.\"csv.wasm\"]\nskills = [\"calculator\"]\n";

fn needs() -> String {
    json!({
        "network": [{"rule": "GET https://api.example.org/v1/*", "why": "reads forecasts"}],
        "secrets": {"TOKEN": {"header": "authorization", "hosts": ["api.example.org"], "why": "x"}},
    })
    .to_string()
}

#[test]
fn signed_component_goes_from_author_to_call() {
    let user = User::new();
    user.new_key("acme");
    let pushed = user.push(&count_lines(), Some("acme"));
    assert!(pushed.contains("signer: the key "), "{pushed}");
    let pattern = format!("oci://{}/acme/*", user.registry.authority);
    user.append(&format!("[trust.\"{pattern}\"]\nkeys = [\"acme.pub\"]\n"));
    let before = user.files()[0].clone().unwrap();
    let shown = user.run_ok(&["add", &user.reference()]);
    for part in [
        "csv from oci://localhost:",
        "signer: the key ",
        "tools:\n  count_lines: reads the skill named by `skill_name`\n    Count the lines",
        "imports:\n",
        "[grants.\"csv.wasm\"]",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let [config, lock] = user.files().map(Option::unwrap);
    let source = format!("\n[components.csv]\nsource = \"{}\"\n", user.reference());
    assert_eq!(config, before + &source);
    assert!(lock.contains("signer = \"key:"), "{lock}");
    user.run_ok(&["lock", "--check"]);
    // No command before `fetch` needs the network. An added component has no grant.
    user.registry.take_request_heads();
    let refused = user.call();
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(
        refused
            .stdout
            .contains("it is not allowed to read the skill"),
        "{refused:?}"
    );
    user.append(GRANT);
    let called = user.call();
    assert_eq!(
        (called.code, called.stdout.contains('2')),
        (0, true),
        "{called:?}"
    );
    let grants = user.run_ok(&["grants", "--all", "count_lines"]);
    assert!(grants.contains("count_lines (from csv.wasm)"), "{grants}");
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
    // Only `fetch` gets missing bytes.
    fs::remove_dir_all(user.path("data")).unwrap();
    let error = user.call();
    assert_eq!(error.code, 4, "{error:?}");
    assert!(
        error.stderr.contains("`skillhost fetch` gets it"),
        "{error:?}"
    );
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
    assert!(
        user.run_err(1, &["lock", "--check"])
            .contains("`skillhost fetch` gets it")
    );
    assert_eq!(user.run_ok(&["fetch"]), "csv: fetched\n");
    assert_eq!(user.run_ok(&["fetch"]), "csv: in the store\n");
    assert_eq!(user.call().code, 0);
}

#[test]
fn locked_bytes_stay_when_the_tag_moves() {
    let user = User::new();
    user.push(&count_lines(), None);
    let shown = user.run_ok(&["add", &user.reference()]);
    assert!(shown.contains("signer: unsigned"), "{shown}");
    user.append(GRANT);
    let before = user.files();
    user.push(&with_section(count_lines(), "{}"), None);
    assert_eq!(user.call().code, 0);
    fs::remove_dir_all(user.path("data")).unwrap();
    user.run_ok(&["fetch"]);
    assert_eq!(user.files(), before);
    assert_eq!(user.call().code, 0);
    let updated = user.run_ok(&["update", "csv"]);
    assert!(updated.contains("manifest: sha256:"), "{updated}");
    assert_ne!(user.files(), before);
    assert_eq!(user.run_ok(&["update"]), "csv is up to date\n");
    assert_eq!(user.call().code, 0);
}

#[test]
fn update_accepts_new_power_or_signer_only_with_option() {
    let user = User::new();
    user.new_key("one");
    user.new_key("two");
    let pattern = format!("oci://{}/acme/csv", user.registry.authority);
    user.append(&format!(
        "[trust.\"{pattern}\"]\nkeys = [\"one.pub\", \"two.pub\"]\n"
    ));
    user.push(&count_lines(), Some("one"));
    user.run_ok(&["add", &user.reference()]);
    let lock = || user.files()[1].clone().unwrap();
    let entry = |lock: &str, key: &str, end: &str| -> String {
        let start = lock.find(&format!("{key} = ")).unwrap();
        let length = lock[start..].find(end).unwrap() + end.len();
        lock[start..start + length].to_owned()
    };
    let first = lock();
    let asks = with_section(count_lines(), &needs());
    user.push(&asks, Some("one"));
    let run = user.run(&["update"]);
    for part in [
        "+ asks for: requests GET https://api.example.org/v1/*",
        "+ asks for: secret TOKEN in the header authorization to api.example.org",
    ] {
        assert!(run.stdout.contains(part), "{run:?}");
    }
    let error = user.run_err(1, &["update"]);
    assert!(error.contains("a new power; `--accept-powers`"), "{error}");
    user.run_err(1, &["update", "--accept-signer"]);
    user.run_ok(&["update", "--accept-powers"]);
    // Powers count as new even if somebody has written them into the lock file.
    let second = lock();
    let powers = entry(&second, "powers", "]");
    let edited = first.replace(&entry(&first, "powers", "]"), &powers);
    user.program.write("skillhost.lock", edited);
    let error = user.run_err(1, &["update"]);
    assert!(error.contains("a new power; `--accept-powers`"), "{error}");
    user.program.write("skillhost.lock", &second);
    user.push(&with_section(asks, &needs()), Some("two"));
    let error = user.run_err(1, &["update", "--accept-powers"]);
    assert!(
        error.contains("another signer; `--accept-signer`"),
        "{error}"
    );
    user.run_ok(&["update", "--accept-signer"]);
    user.run_ok(&["lock", "--check"]);
    let third = lock();
    let signer = entry(&first, "signer", "\n");
    let edited = third.replace(&entry(&third, "signer", "\n"), &signer);
    user.program.write("skillhost.lock", edited);
    let error = user.run_err(1, &["lock", "--check"]);
    assert!(error.contains("another signer of the component"), "{error}");
}

#[test]
fn add_prints_grant_for_component_needs() {
    let user = User::new();
    user.push(&with_section(count_lines(), &needs()), None);
    let config = user.files()[0].clone().unwrap();
    user.append(GRANT);
    let shown = user.run_ok(&["add", &user.reference()]);
    assert!(
        shown.contains("the grant for `csv.wasm` in `skillhost.toml` applies;")
            && shown.contains("\n  network = "),
        "{shown}"
    );
    user.run_ok(&["remove", "csv"]);
    user.program.write("skillhost.toml", config);
    let shown = user.run_ok(&["add", &user.reference(), "--name", "lines"]);
    let (_, grant) = shown.split_once("write into `skillhost.toml`:\n").unwrap();
    user.append(grant);
    write_owner_only(&user.program, "TOKEN.secret", "x");
    let grants = user.run_ok(&["--config", "skillhost.toml", "grants", "count_lines"]);
    assert!(
        grants.contains("granted: requests GET https://api.example.org/v1/*"),
        "{grants}"
    );
    assert!(
        grants.contains("granted: secret TOKEN in the header authorization"),
        "{grants}"
    );
}

#[test]
fn refused_packages_change_nothing() {
    let user = User::new();
    let reference = user.reference();
    let pattern = format!("oci://{}/acme/csv", user.registry.authority);
    user.push(&count_lines(), None);
    for (setting, why) in [
        (
            "require_signatures = true\n".to_owned(),
            "has no rule in `[trust]`",
        ),
        (
            format!("[trust.\"{pattern}\"]\nkeys = [\"acme.pub\"]\n"),
            "it is unsigned",
        ),
    ] {
        let config = user.files()[0].clone().unwrap();
        user.new_key("acme");
        user.append(&setting);
        let error = user.run_err(4, &["add", &reference]);
        assert!(error.contains(why), "{error}");
        user.program.write("skillhost.toml", config);
    }
    for (arguments, why) in [
        (&["add", "csv"][..], "is not a reference such as"),
        (
            &["add", &reference, "--name", "../csv"],
            "`--name NAME` chooses another name",
        ),
        (&["update", "csv"], "names no component or skill `csv`"),
        (&["remove", "csv"], "there is no component `csv`"),
        (
            &["push", "csv", "dist/csv.wasm"],
            "is not a reference such as",
        ),
    ] {
        let error = user.run_err(2, arguments);
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
    let layer = user
        .registry
        .put_blob("application/wasm", b"\0asm\x0d\0\x01\0rubbish");
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "layers": [layer],
    });
    user.registry.put_manifest("1", &manifest);
    user.run_err(4, &["add", &reference]);
    user.push(&count_lines(), None);
    user.run_ok(&["add", &reference]);
    let error = user.run_err(2, &["add", &reference]);
    assert!(error.contains("there is a component `csv`"), "{error}");
    let error = user.run_err(4, &["add", &reference, "--name", "other"]);
    assert!(
        error.contains("the tool `count_lines`, which `csv` has too"),
        "{error}"
    );
    // A registry's response cannot control the terminal.
    user.registry.replace_answers(|_| {
        let body = b"\x1b[2Jcsv is up to date";
        Some(crate::support::registry::Answer::Raw(answer(
            "500 X",
            &[],
            body,
        )))
    });
    let error = user.run_err(4, &["update"]);
    assert!(
        error.contains("\\u{1b}[2J") && !error.contains('\x1b'),
        "{error}"
    );
}

#[test]
fn refuses_components_that_differ_from_lock() {
    let user = User::new();
    user.push(&count_lines(), None);
    user.run_ok(&["add", &user.reference()]);
    user.append(GRANT);
    let [config, lock] = user.files().map(Option::unwrap);
    let other = "0".repeat(64);
    let digest = |key: &str| {
        let start = format!("{key} = \"sha256:");
        let line = lock.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap().trim_matches('"').to_owned()
    };
    let fixed = |text: &str| text.replace("acme/csv:1", &format!("acme/csv@sha256:{other}"));
    for (config, lock, why) in [
        (
            config.replace("acme/csv", "evil/csv"),
            lock.clone(),
            "`skillhost update csv` locks it",
        ),
        (
            config.clone(),
            String::new(),
            "the component `csv` is not locked",
        ),
        (fixed(&config), fixed(&lock), "names a manifest other than"),
        (
            config.clone(),
            lock.replace(&digest("content"), &digest("manifest")),
            "names other bytes than the lock file",
        ),
        (
            config.clone(),
            lock.replace("unsigned = true", ""),
            "needs either `signer`",
        ),
        (
            format!("{config}[pins]\n\"csv.wasm\" = \"{other}\"\n"),
            lock.clone(),
            "and the lock file has",
        ),
        (
            format!("require_signatures = true\n{config}"),
            lock.clone(),
            "has no rule in `[trust]`",
        ),
    ] {
        user.program.write("skillhost.toml", &config);
        user.program.write("skillhost.lock", &lock);
        let run = user.call();
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.stderr.contains(why), "{why}: {run:?}");
    }
    user.program.write("skillhost.toml", &config);
    // `fetch` asks only the configured source.
    user.registry.take_request_heads();
    user.program
        .write("skillhost.lock", lock.replace("acme/csv", "evil/csv"));
    let error = user.run_err(4, &["fetch"]);
    assert!(error.contains("`skillhost update csv` locks it"), "{error}");
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
    // A symlink would name another file to write.
    fs::rename(user.path("skillhost.lock"), user.path("other.lock")).unwrap();
    std::os::unix::fs::symlink("other.lock", user.path("skillhost.lock")).unwrap();
    let error = user.run_err(4, &["update"]);
    assert!(error.contains("it is a symlink"), "{error}");
    fs::remove_file(user.path("skillhost.lock")).unwrap();
    user.program.write("skillhost.lock", &lock);
    assert_eq!(user.call().code, 0);
    // Another file of the same name does not get the component's grant.
    let unchecked = fs::read(guests().join("unchecked.wasm")).unwrap();
    user.program.write("tools/csv.wasm", unchecked);
    user.program
        .write("skillhost.toml", format!("tools = [\"tools\"]\n{config}"));
    let run = user.call();
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("and the pin `csv.wasm` is"), "{run:?}");
    user.program.write("skillhost.toml", &config);
    // Change the bytes in the store.
    let store = user.path("data/skillhost/store/sha256");
    let content = store.join(digest("content"));
    let mut bytes = fs::read(&content).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&content, bytes).unwrap();
    let run = user.call();
    assert_ne!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("and the pin `csv.wasm` is"), "{run:?}");
    assert!(
        user.run_err(1, &["lock", "--check"])
            .contains("its bytes have the digest")
    );
    assert_eq!(user.run_ok(&["fetch"]), "csv: fetched\n");
    assert_eq!(user.call().code, 0);
}

#[test]
fn slow_registry_blocks_no_other_command() {
    let user = User::new();
    user.push(&count_lines(), None);
    let other = TestRegistry::start();
    let elsewhere = format!("oci://{}/acme/other:1", other.authority);
    let unchecked = fs::read(guests().join("unchecked.wasm")).unwrap();
    user.program.write("other.wasm", unchecked);
    user.run_ok(&["push", &elsewhere, "other.wasm"]);
    // Runs other commands while `add` waits for the component, and returns how `add` ends.
    let add_and = |meanwhile: &dyn Fn()| {
        let (arrive, arrival) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let ends = Mutex::new((arrive, released));
        user.registry.replace_answers(move |head| {
            if head.contains("/blobs/") {
                let (arrive, released) = &*ends.lock().unwrap();
                arrive.send(()).unwrap();
                let _ = released.recv_timeout(Duration::from_secs(20));
            }
            None
        });
        thread::scope(|scope| {
            let adding = scope.spawn(|| user.run(&["add", &user.reference()]));
            arrival.recv_timeout(Duration::from_secs(20)).unwrap();
            meanwhile();
            drop(release);
            adding.join().unwrap()
        })
    };
    let run = add_and(&|| {
        user.run_ok(&["lock", "--check"]);
        user.run_ok(&["store", "list"]);
        user.run_ok(&["add", &elsewhere]);
        user.run_ok(&["store", "clean"]);
    });
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        user.run_ok(&["lock", "--check"]),
        "2 components locked, in the store and as `[trust]` asks\n"
    );
    // A change by another command is not overwritten.
    user.run_ok(&["remove", "csv"]);
    user.run_ok(&["remove", "other"]);
    user.run_ok(&["store", "clean"]);
    let run = add_and(&|| drop(user.run_ok(&["add", &elsewhere, "--name", "csv"])));
    assert_eq!(run.code, 4, "{run:?}");
    assert!(
        run.stderr
            .contains("another command has changed `csv` meanwhile"),
        "{run:?}"
    );
    let [config, lock] = user.files().map(Option::unwrap);
    assert!(
        config.contains(&elsewhere) && lock.contains(&elsewhere),
        "{lock}"
    );
    // `add` refuses a tool that another command has locked meanwhile.
    user.run_ok(&["remove", "csv"]);
    user.run_ok(&["store", "clean"]);
    let lines = format!("oci://{}/acme/lines:1", other.authority);
    user.run_ok(&["push", &lines, "dist/csv.wasm"]);
    let run = add_and(&|| drop(user.run_ok(&["add", &lines])));
    assert!(
        run.stderr
            .contains("the tool `count_lines`, which `lines` has too"),
        "{run:?}"
    );
}

#[test]
fn store_clean_removes_bytes_of_removed_components() {
    let user = User::new();
    let before = user.files()[0].clone().unwrap();
    user.push(&count_lines(), None);
    user.run_ok(&["add", &user.reference()]);
    let list = user.run_ok(&["store", "list"]);
    assert!(
        list.contains("component of csv\n") && list.contains("manifest of csv\n"),
        "{list}"
    );
    assert_eq!(
        user.run_ok(&["store", "clean"]),
        "removed 0 files, 0 bytes in all\n"
    );
    user.append(GRANT);
    let run = user.run(&["remove", "csv"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("still names `csv.wasm`"), "{run:?}");
    assert_eq!(user.files()[0].as_deref(), Some(&*(before + GRANT)));
    let list = user.run_ok(&["store", "list"]);
    assert_eq!(list.matches("unused\n").count(), 2, "{list}");
    user.run_ok(&["store", "clean"]);
    assert_eq!(user.run_ok(&["store", "list"]), "");
}

#[test]
fn store_keeps_packages_of_copied_lock_files() {
    for (kind, verb) in [
        ("component", &["tools"][..]),
        ("skill", &["skills"]),
        ("skill", &["call", "read_skill", "skill_name=report"]),
    ] {
        let (user, name, _) = user_with(kind, None);
        user.program.write("copy/skills/x/SKILL.md", REPORT);
        for file in ["skillhost.toml", "skillhost.lock"] {
            fs::copy(user.path(file), user.path("copy").join(file)).unwrap();
        }
        let config = ["--config", "copy/skillhost.toml"];
        user.run_ok(&[verb, &config].concat());
        fs::remove_file(user.path("skillhost.lock")).unwrap();
        user.run_ok(&["store", "clean"]);
        let run = user.run(&[&["lock", "--check"], &config[..]].concat());
        assert_eq!(run.code, 0, "{verb:?} {name}: {run:?}");
    }
}

#[test]
fn edits_no_configuration_that_it_does_not_use() {
    let user = User::new();
    user.append("require_signatures = true\n");
    user.push(&count_lines(), None);
    let reference = user.reference();
    let add = ["--skills", "skills", "add", &reference];
    for option in ["--skills", "--tools"] {
        let error = user.run_err(4, &[&[option], &add[1..]].concat());
        let expected = "is not used beside `--skills` or `--tools`, so it is not changed";
        assert!(error.contains(expected), "{error}");
    }
    // Other verbs do their work.
    for verb in [&["store", "list"][..], &["lock", "--check"]] {
        user.run_ok(&[&["--skills", "skills"], verb].concat());
    }
    let named = [&["--config", "skillhost.toml"], &add[..]].concat();
    let error = user.run_err(4, &named);
    assert!(error.contains("has no rule in `[trust]`"), "{error}");
    fs::remove_file(user.path("skillhost.toml")).unwrap();
    user.run_ok(&add);
    assert!(user.files()[0].as_ref().unwrap().contains(&reference));
}

#[test]
fn push_signs_only_with_private_p256_keys() {
    let user = User::new();
    user.program.write("dist/csv.wasm", count_lines());
    let reference = user.reference();
    let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    write_owner_only(&user.program, "ed25519.key", &ed25519.serialize_pem());
    let readable = KeyPair::generate().unwrap();
    user.program.write("readable.key", readable.serialize_pem());
    for (key, why) in [
        ("ed25519.key", "not a P-256 private key"),
        ("readable.key", "set its mode to 0600"),
        ("missing.key", "cannot use the key file `missing.key`"),
    ] {
        let error = user.run_err(4, &["push", &reference, "--key", key]);
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
}

/// Returns a user who has added a component or a skill, the package's name, and the option for its
/// kind. `key` signs the package, if there is one.
fn user_with(kind: &str, key: Option<&str>) -> (User, &'static str, &'static [&'static str]) {
    let user = User::new();
    key.iter().for_each(|key| user.new_key(key));
    let (name, option): (_, &[&str]) = if kind == "skill" {
        user.push_skill(&[("SKILL.md", REPORT)], key);
        user.add_skill();
        ("report", &["--skill"])
    } else {
        user.push(&with_section(count_lines(), &needs()), key);
        user.run_ok(&["add", &user.reference()]);
        ("csv", &[])
    };
    (user, name, option)
}

const REPORT: &str = "---\nname: report\ndescription: d\n---\n";

#[test]
fn remove_and_add_fix_leftovers_of_a_kill() {
    for kind in ["component", "skill"] {
        let (user, name, option) = user_with(kind, None);
        let lock = user.lock();
        let remove = [&["remove"], option, &[name]].concat();
        user.run_ok(&remove);
        let after = user.files();
        // The files are now as if a kill had ended `remove` or `add` between its two writes.
        user.program.write("skillhost.lock", &lock);
        let advice = user.run_err(1, &["lock", "--check"]);
        let command = format!("`skillhost {}` removes it", remove.join(" "));
        assert!(advice.contains(&command), "{advice}");
        user.run_ok(&remove);
        assert_eq!(user.files(), after);
        user.program.write("skillhost.lock", &lock);
        let source = user.reference().replace("csv", name);
        user.run_ok(&[&["add"], option, &[&source]].concat());
        user.run_ok(&["lock", "--check"]);
        assert_eq!(user.lock(), lock);
        user.run_ok(&remove);
        user.run_err(2, &remove);
        // The host does not serve a package that is only in the lock file, so another package may
        // have the same tools.
        user.program.write("skillhost.lock", &lock);
        user.run_ok(&[&["add"], option, &[&*source, "--name", "other"]].concat());
    }
}

#[test]
fn update_and_fetch_say_that_nothing_is_configured() {
    let user = User::new();
    for verb in ["update", "fetch"] {
        let run = user.run(&[verb]);
        assert_eq!((run.code, &*run.stdout), (0, ""), "{run:?}");
        assert_eq!(
            run.stderr,
            "skillhost: the configuration names no component or skill; `skillhost add REF` adds \
             one\n"
        );
    }
    let (user, ..) = user_with("skill", None);
    for verb in ["update", "fetch"] {
        assert_eq!(user.run(&[verb]).stderr, "");
    }
}

#[test]
fn checks_reference_before_configuration() {
    let user = User::new();
    user.append("unknown = 1\n");
    for arguments in [&["add", "csv"][..], &["add", "--skill", "git+csv"]] {
        let error = user.run_err(2, arguments);
        assert!(error.contains("is not a "), "{error}");
    }
    let error = user.run_err(4, &["add", &user.reference()]);
    assert!(error.contains("`unknown`"), "{error}");
}

#[test]
fn fetch_refuses_what_load_refuses() {
    for kind in ["component", "skill"] {
        let (user, name, _) = user_with(kind, Some("acme"));
        // The registry has a signature, but the lock file says that there is none.
        user.trust("acme");
        for bytes in ["stored", "lost"] {
            if bytes == "lost" {
                fs::remove_dir_all(user.path("data/skillhost/store/sha256")).unwrap();
            }
            let error = user.run_err(4, &["fetch"]);
            let why = format!("the {kind} `{name}` is locked as unsigned");
            assert!(error.contains(&why), "{bytes}: {error}");
        }
        let error = user.run_err(1, &["update"]);
        assert!(error.contains("`--accept-signer`"), "{error}");
        user.run_ok(&["update", "--accept-signer"]);
        assert_eq!(user.run_ok(&["fetch"]), format!("{name}: in the store\n"));
    }
}

/// Returns components that no host loads beside `count_lines`, and the reasons.
fn unloadable() -> [(Vec<u8>, &'static str); 3] {
    let built_in = repository().join("guest-tools/dist/read_skill.wasm");
    [
        (b"text".to_vec(), "is not a component"),
        (fs::read(built_in).unwrap(), "which the host has too"),
        (
            with_custom_section(count_lines(), "version", "2"),
            "which `aaa` has too",
        ),
    ]
}

#[test]
fn fetch_inspects_what_load_inspects() {
    for (bytes, why) in unloadable() {
        let user = User::new();
        user.lock_bytes("aaa", &count_lines(), "count_lines");
        user.lock_bytes("zzz", &bytes, "other");
        let before = user.files();
        let run = user.run(&["fetch"]);
        assert_eq!(
            (run.code, &*run.stdout),
            (4, "aaa: in the store\n"),
            "{run:?}"
        );
        assert!(run.stderr.contains(why), "{why}: {run:?}");
        assert_eq!(user.files(), before);
    }
}

#[test]
fn update_trusts_no_lock_without_its_bytes() {
    for kind in ["component", "skill"] {
        let (user, ..) = user_with(kind, None);
        if kind == "skill" {
            user.push_skill(&[("SKILL.md", &REPORT.replace(": d", ": e"))], None);
        } else {
            let asks = with_section(count_lines(), &needs());
            user.push(&with_section(asks, &needs()), None);
            fs::remove_dir_all(user.path("data/skillhost/store/sha256")).unwrap();
            let run = user.run(&["update"]);
            for part in [
                "+ asks for: requests GET https://api.example.org/v1/*",
                "all of this counts as new; `skillhost fetch` gets the old bytes",
            ] {
                assert!(run.stdout.contains(part), "{part}: {run:?}");
            }
            let why = "it asks for a new power; `--accept-powers`";
            assert!(run.code == 1 && run.stderr.contains(why), "{run:?}");
        }
        let _ = fs::remove_dir_all(user.path("data/skillhost/store/sha256"));
        let error = user.run_err(1, &["update", "--accept-powers"]);
        assert!(error.contains("`--accept-downgrade` accepts"), "{error}");
        user.run_ok(&["fetch"]);
        let updated = user.run_ok(&["update"]);
        assert!(!updated.contains("asks for"), "{updated}");
    }
}

#[test]
fn edited_locks_hide_no_signer() {
    for kind in ["component", "skill"] {
        let user = User::new();
        user.new_key("one");
        user.new_key("two");
        let pattern = format!("oci://{}/acme/*", user.registry.authority);
        user.append(&format!(
            "[trust.\"{pattern}\"]\nkeys = [\"one.pub\", \"two.pub\"]\n"
        ));
        let push = |release: &str, key| match kind {
            "skill" => user.push_skill_version(release, Some(key)),
            _ => drop(user.push(&versioned_component(release), Some(key))),
        };
        push("1.0.0", "one");
        let name = if kind == "skill" {
            user.add_skill();
            "report"
        } else {
            user.run_ok(&["add", &user.reference()]);
            "csv"
        };
        let first = user.lock();
        let one = lock_value(&first, "signer", 0);
        push("1.1.0", "two");
        user.run_ok(&["update", "--accept-signer"]);
        let second = user.lock();
        let two = lock_value(&second, "signer", 0);
        let bundle = format!("bundle = \"{}\"\n", lock_value(&first, "bundle", 0));
        let signer = format!("signer = \"{one}\"");
        let unsigned = first.replace(&signer, "unsigned = true");
        let other = "it has another signer; `--accept-signer`";
        let unknown = "no signer of `[trust]` is known to have signed the locked version";
        for (edited, shown, why) in [
            (
                first.replace(&one, &two),
                format!("signer: was {one}\n"),
                other,
            ),
            (
                unsigned.replace(&bundle, ""),
                "signer: was unsigned, not verified\n".to_owned(),
                unknown,
            ),
            (
                first.replace(&one, "key:00").replace(
                    &bundle,
                    &format!("bundle = \"{}\"\n", lock_value(&second, "bundle", 0)),
                ),
                "signer: was key:00, not verified\n".to_owned(),
                unknown,
            ),
        ] {
            user.program.write("skillhost.lock", edited);
            let run = user.run(&["update"]);
            assert_eq!(run.code, 1, "{run:?}");
            assert!(run.stdout.contains(&shown), "{shown}: {run:?}");
            assert!(run.stderr.contains(why), "{why}: {run:?}");
        }
        // Rolling back hides nothing either.
        let edited = second.replacen(&two, &one, 1);
        user.program.write("skillhost.lock", edited);
        let run = user.run(&["rollback", name]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(
            run.stdout.contains(&format!("signer: was {two}\n")),
            "{run:?}"
        );
        assert!(run.stderr.contains(other), "{run:?}");
        user.run_ok(&["rollback", name, "--accept-signer"]);
        assert_eq!(user.lock(), first);
    }
}

#[test]
fn edited_locks_hide_no_content() {
    let user = User::new();
    user.push_skill_version("1.0.0", None);
    user.add_skill();
    let first = user.lock();
    user.push_skill_version("1.1.0", None);
    user.run_ok(&["update"]);
    let second = user.lock();
    let files = |lock: &str| {
        let (_, files) = lock.split_once("[skill.files]\n").unwrap();
        files.split("\n\n").next().unwrap().trim().to_owned()
    };
    let content = |lock: &str| lock_value(lock, "content", 0);
    let edited = first
        .replace(&files(&first), &files(&second))
        .replace(&content(&first), &content(&second));
    user.program.write("skillhost.lock", edited);
    let shown = user.run_ok(&["update"]);
    for part in [
        "  file: changed SKILL.md\n",
        "  script: changed scripts/run.py\n",
        "    - # Report 1.0.0\n",
        "    + # Report 1.1.0\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Without the old files, all files are new.
    user.program.write("skillhost.lock", &first);
    fs::remove_file(user.blob(&lock_value(&first, "content", 0))).unwrap();
    let shown = user.run_ok(&["update"]);
    for part in [
        "  file: + SKILL.md\n",
        "  script: + scripts/same.py\n",
        "the store does not have the old files, so all files count as new",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    let user = User::new();
    user.push(&count_lines(), None);
    user.run_ok(&["add", &user.reference()]);
    let first = user.lock();
    user.push(&with_section(count_lines(), &needs()), None);
    user.run_ok(&["update", "--accept-powers"]);
    let edited = first.replace(&content(&first), &content(&user.lock()));
    user.program.write("skillhost.lock", edited);
    let error = user.run_err(1, &["update"]);
    assert!(error.contains("a new power; `--accept-powers`"), "{error}");
}
