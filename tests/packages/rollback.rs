//! `rollback`, `deny`, and updates to lower versions.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::state::State;
use super::{GRANT, User, count_lines, lock_value, needs, versioned_component};
use crate::needs::with_section;

/// Returns a user who has updated the component from 1.0.0 to 1.1.0.
pub(super) fn updated_user() -> User {
    let user = User::new();
    user.new_key("acme");
    user.new_key("evil");
    user.trust("acme");
    user.push(&versioned_component("1.0.0"), Some("acme"));
    let shown = user.run_ok(&["add", &user.reference()]);
    assert!(shown.contains("version: 1.0.0\n"), "{shown}");
    user.append(GRANT);
    user.push(&versioned_component("1.1.0"), Some("acme"));
    let shown = user.run_ok(&["update"]);
    for part in ["  tag: `1` has moved\n", "  version: 1.0.0 -> 1.1.0\n"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    user
}

/// Returns the SKILL.md of a version.
pub(super) fn skill_md(version: &str) -> String {
    format!(
        "---\nname: report\ndescription: Writes reports\nmetadata:\n  version: \"{version}\"\n---\n\
         # Report {version}\n"
    )
}

impl User {
    /// Pushes a version of the skill `report`, with two scripts.
    pub(super) fn push_skill_version(&self, version: &str, key: Option<&str>) {
        let body = skill_md(version);
        let script = format!("print('{version}')\n");
        let files = [
            ("SKILL.md", &*body),
            ("scripts/run.py", &*script),
            ("scripts/same.py", ""),
        ];
        self.push_skill(&files, key);
    }
}

/// Returns a user who has updated the skill from 1.0.0 to 1.1.0.
pub(super) fn updated_skill_user() -> User {
    let user = User::new();
    user.new_key("acme");
    user.new_key("evil");
    user.trust("acme");
    user.push_skill_version("1.0.0", Some("acme"));
    user.add_skill();
    user.push_skill_version("1.1.0", Some("acme"));
    user.run_ok(&["update"]);
    user
}

#[test]
fn rolls_back_skill_once_without_a_network() {
    let user = updated_skill_user();
    let lock = user.lock();
    let list = user.run_ok(&["store", "list"]);
    assert!(list.contains("earlier files of report\n"), "{list}");
    assert_eq!(
        user.run_ok(&["store", "clean"]),
        "removed 0 files, 0 bytes in all\n"
    );
    user.registry.take_request_heads();
    let shown = user.run_ok(&["rollback", "report"]);
    for part in [
        "  version: 1.1.0 -> 1.0.0\n",
        "  script: changed scripts/run.py\n",
        "    + # Report 1.0.0\n",
        &format!("`skillhost deny {}`", lock_value(&lock, "manifest", 0)),
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("same.py"), "{shown}");
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
    assert_eq!(user.lock().matches("version = ").count(), 1);
    user.run_ok(&["lock", "--check"]);
    assert!(user.read_skill().stdout.contains("# Report 1.0.0"));
    let error = user.run_err(2, &["rollback", "report"]);
    assert!(error.contains("no earlier version of `report`"), "{error}");
    // The tag still names the newer version.
    user.run_ok(&["update"]);
    assert_eq!(user.lock(), lock);
    // Rolling back needs no unpacked files: the layer is in the store.
    for root in fs::read_dir(user.path("data/skillhost/store/skills")).unwrap() {
        make_writable(&root.unwrap().path());
    }
    fs::remove_dir_all(user.path("data/skillhost/store/skills")).unwrap();
    user.run_ok(&["rollback", "report"]);
    assert!(user.read_skill().stdout.contains("# Report 1.0.0"));
    user.run_ok(&["remove", "--skill", "report"]);
    user.run_err(2, &["rollback", "report"]);
    user.run_ok(&["store", "clean"]);
    assert_eq!(user.run_ok(&["store", "list"]), "");
}

/// Makes a folder and its subfolders writable, so that a test can remove them.
pub(super) fn make_writable(folder: &Path) {
    fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            make_writable(&path);
        }
    }
}

#[test]
fn rolls_back_component_and_skill_with_same_name() {
    let user = updated_skill_user();
    let component = user.reference().replace("csv:1", "report:component");
    for bytes in [versioned_component("1.0.0"), versioned_component("1.1.0")] {
        user.program.write("dist/report.wasm", bytes);
        let push = ["push", &component, "dist/report.wasm", "--key", "acme.key"];
        user.run_ok(&push);
        if !user.lock().contains("[[component]]") {
            user.run_ok(&["add", &component]);
        }
    }
    user.run_ok(&["update", "report"]);
    user.run_ok(&["rollback", "report"]);
    assert!(user.read_skill().stdout.contains("# Report 1.1.0"));
    user.run_err(2, &["rollback", "report"]);
    user.run_ok(&["rollback", "--skill", "report"]);
    assert!(user.read_skill().stdout.contains("# Report 1.0.0"));
    user.run_err(2, &["rollback", "--skill", "report"]);
}

#[test]
fn rollback_refuses_skill_of_other_or_untrusted_signer() {
    let user = updated_skill_user();
    let pattern = format!("oci://{}/acme/*", user.registry.authority);
    let config = user.files()[0].clone().unwrap();
    let both = config.replace("[\"acme.pub\"]", "[\"acme.pub\", \"evil.pub\"]");
    user.program.write("skillhost.toml", both);
    user.push_skill_version("1.2.0", Some("evil"));
    user.run_ok(&["update", "--accept-signer"]);
    let error = user.run_err(1, &["rollback", "report"]);
    assert!(
        error.contains("`report` is not rolled back: it has another signer"),
        "{error}"
    );
    // The rule no longer trusts the earlier signer.
    let trust = format!("[trust.\"{pattern}\"]\nkeys = ");
    let config = user.files()[0].clone().unwrap();
    let config = config.replace(&format!("{trust}[\"acme.pub\", "), &format!("{trust}["));
    user.program.write("skillhost.toml", &config);
    let error = user.run_err(4, &["rollback", "report", "--accept-signer"]);
    assert!(
        error.contains("cannot roll back `report`: the signature of the skill `report`"),
        "{error}"
    );
    assert!(user.read_skill().stdout.contains("# Report 1.2.0"));
}

#[test]
fn denied_skill_never_loads() {
    let user = updated_skill_user();
    let lock = user.lock();
    let state = State::read(user.program.folder.path());
    for key in ["manifest", "content"] {
        let digest = lock_value(&lock, key, 0);
        let run = user.run(&["deny", &digest, "--why", "it leaks"]);
        let hint =
            "`skillhost rollback --skill report`, `update report` or `remove --skill report`";
        assert!(run.stderr.contains(hint), "{run:?}");
        let why = format!("`[deny]` refuses {digest}: it leaks");
        let run = user.read_skill();
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.stderr.contains(&why), "{run:?}");
        // The denial does not cover the earlier version.
        user.run_ok(&["rollback", "--skill", "report"]);
        assert!(user.read_skill().stdout.contains("# Report 1.0.0"));
        assert!(user.run_err(4, &["update"]).contains(&why));
        state.restore(user.program.folder.path());
    }
    let earlier = lock_value(&lock, "content", 1);
    user.run_ok(&["deny", &earlier]);
    let error = user.run_err(4, &["rollback", "report"]);
    let why = format!("cannot roll back `report`: `[deny]` refuses {earlier}\n");
    assert!(error.contains(&why), "{error}");
    assert!(user.read_skill().stdout.contains("# Report 1.1.0"));
}

#[test]
fn rolls_back_once_without_a_network() {
    let user = updated_user();
    let lock = user.lock();
    assert_eq!(lock_value(&lock, "version", 0), "1.1.0");
    assert_eq!(lock_value(&lock, "version", 1), "1.0.0");
    let list = user.run_ok(&["store", "list"]);
    assert!(list.contains("earlier component of csv\n"), "{list}");
    assert_eq!(
        user.run_ok(&["store", "clean"]),
        "removed 0 files, 0 bytes in all\n"
    );
    user.registry.take_request_heads();
    let shown = user.run_ok(&["rollback", "csv"]);
    assert!(shown.contains("  version: 1.1.0 -> 1.0.0\n"), "{shown}");
    let deny = format!("`skillhost deny {}`", lock_value(&lock, "manifest", 0));
    assert!(shown.contains(&deny), "{shown}");
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
    assert_eq!(user.lock().matches("version = ").count(), 1);
    assert_eq!(lock_value(&user.lock(), "version", 0), "1.0.0");
    user.run_ok(&["lock", "--check"]);
    assert_eq!(user.call().code, 0);
    let error = user.run_err(2, &["rollback", "csv"]);
    assert!(error.contains("no earlier version of `csv`"), "{error}");
    // The tag still names the newer version.
    user.run_ok(&["update"]);
    assert_eq!(user.lock(), lock);
    user.run_ok(&["remove", "csv"]);
    user.run_err(2, &["rollback", "csv"]);
    user.run_ok(&["store", "clean"]);
    assert_eq!(user.run_ok(&["store", "list"]), "");
}

#[test]
fn rollback_accepts_power_only_with_option() {
    let user = User::new();
    user.push(&with_section(versioned_component("1.0.0"), &needs()), None);
    user.run_ok(&["add", &user.reference()]);
    user.push(&versioned_component("1.1.0"), None);
    user.run_ok(&["update"]);
    let error = user.run_err(1, &["rollback", "csv"]);
    assert!(error.contains("a new power; `--accept-powers`"), "{error}");
    user.run_ok(&["rollback", "csv", "--accept-powers"]);
    assert!(user.lock().contains("secret TOKEN"));
}

#[test]
fn denied_package_never_loads() {
    let user = updated_user();
    user.run_ok(&["bundle", "export", "air.tar"]);
    let lock = user.lock();
    let configuration = user.files()[0].clone().unwrap();
    let state = State::read(user.program.folder.path());
    for key in ["manifest", "content"] {
        let digest = lock_value(&lock, key, 0);
        let run = user.run(&["deny", &digest, "--why", "it leaks\u{1b}[2J"]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.stderr.contains("`skillhost rollback csv`"), "{run:?}");
        let why = format!("`[deny]` refuses {digest}: it leaks\\u{{1b}}[2J");
        let denied = user.files()[0].clone().unwrap();
        let expected = format!("{configuration}\n[deny]\n\"{digest}\" = ");
        assert!(denied.starts_with(&expected), "{denied}");
        let run = user.call();
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.stderr.contains(&why), "{run:?}");
        for (code, arguments) in [
            (4, &["serve"][..]),
            (1, &["lock", "--check"]),
            (4, &["fetch"]),
            (4, &["update"]),
            (4, &["bundle", "export", "other.tar"]),
            (4, &["bundle", "import", "air.tar"]),
        ] {
            let config = ["--config", "skillhost.toml"];
            let error = user.run_err(code, &[&config, arguments].concat());
            assert!(error.contains(&why), "{arguments:?}: {error}");
        }
        // The denial does not cover the earlier version.
        user.run_ok(&["rollback", "csv"]);
        assert_eq!(user.call().code, 0);
        assert!(user.run_err(4, &["update"]).contains(&why));
        user.run_ok(&["remove", "csv"]);
        // `add` downloads nothing of the denied package.
        fs::remove_dir_all(user.path("data")).unwrap();
        assert!(user.run_err(4, &["add", &user.reference()]).contains(&why));
        assert_eq!(user.run_ok(&["store", "list"]), "");
        state.restore(user.program.folder.path());
    }
    let earlier = lock_value(&lock, "manifest", 1);
    user.run_ok(&["deny", &earlier]);
    let error = user.run_err(4, &["rollback", "csv"]);
    assert!(
        error.contains(&format!("`[deny]` refuses {earlier}\n")),
        "{error}"
    );
    assert_eq!(user.call().code, 0);
    let error = user.run_err(2, &["deny", "csv"]);
    assert!(error.contains("expected a digest"), "{error}");
    let long = "x".repeat(513);
    user.run_err(4, &["deny", &earlier, "--why", &long]);
}

#[test]
fn denied_component_loads_from_no_folder() {
    let user = User::new();
    user.program.write("tools/copy.wasm", count_lines());
    user.append("tools = [\"tools\"]\n[grants.\"copy.wasm\"]\nskills = [\"calculator\"]\n");
    assert_eq!(user.call().code, 0);
    let digest = skillhost_packages::Digest::of(&count_lines());
    user.run_ok(&["deny", &digest.to_string(), "--why", "it leaks"]);
    let run = user.call();
    let why = format!("`[deny]` refuses {digest}: it leaks");
    assert!(run.code != 0 && run.stderr.contains(&why), "{run:?}");
}

#[test]
fn update_accepts_lower_version_only_with_option() {
    let user = updated_user();
    for (pushed, why) in [
        ("1.0.0", "its version `1.0.0` is lower than `1.1.0`"),
        ("1.1.0-rc.1", "its version `1.1.0-rc.1` is lower than"),
        ("main", "its version `main` cannot be compared with `1.1.0`"),
    ] {
        user.push(&versioned_component(pushed), Some("acme"));
        let error = user.run_err(1, &["update", "--accept-signer", "--accept-powers"]);
        assert!(error.contains(why), "{error}");
        assert!(error.contains("; `--accept-downgrade` accepts"), "{error}");
    }
    // The version in the lock file does not count: somebody may have edited it.
    let lock = user.lock();
    user.push(&versioned_component("1.0.0"), Some("acme"));
    let edited = lock.replacen("version = \"1.1.0\"", "version = \"0.1.0\"", 1);
    user.program.write("skillhost.lock", edited);
    let error = user.run_err(1, &["update"]);
    assert!(error.contains("is lower than `1.1.0`"), "{error}");
    user.program.write("skillhost.lock", lock);
    user.run_ok(&["update", "--accept-downgrade"]);
    assert_eq!(lock_value(&user.lock(), "version", 0), "1.0.0");
    // The same version may have other bytes, and `update` says so.
    user.push(
        &with_section(versioned_component("1.0.0"), "{}"),
        Some("acme"),
    );
    let shown = user.run_ok(&["update"]);
    assert!(
        shown.contains("  version: 1.0.0, with other bytes\n"),
        "{shown}"
    );
}
