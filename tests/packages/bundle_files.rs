//! Bundle files, which carry packages from one user to another without a network.

use std::fs;
use std::path::PathBuf;

use super::rollback::{updated_skill_user, updated_user};
use super::state::State;
use super::{GRANT, User, count_lines, lock_value, unloadable};
use crate::support::repository;

/// Returns a new user who has copies of these files of `from`.
fn receiver(from: &User, files: &[&str]) -> User {
    let user = User::new();
    for name in files {
        user.program.write(name, fs::read(from.path(name)).unwrap());
    }
    user
}

#[test]
fn bundle_file_carries_components_without_network() {
    let author = updated_user();
    let shown = author.run_ok(&["bundle", "export", "air.tar", "--key", "acme.key"]);
    assert!(
        shown.contains("exported 1 component to air.tar\nindex: sha256:"),
        "{shown}"
    );
    assert!(shown.contains("signer: the key "), "{shown}");
    let user = receiver(&author, &["air.tar", "acme.pub", "evil.pub"]);
    author.registry.take_request_heads();
    let import = ["bundle", "import", "air.tar", "--key", "acme.pub"];
    let pattern = format!("oci://{}/acme/*", author.registry.authority);
    user.append(&format!(
        "require_signatures = true\n[trust.\"{pattern}\"]\nkeys = [\"acme.pub\"]\n"
    ));
    let before = user.files();
    assert_eq!(user.run_ok(&import), "csv: in the store\n");
    assert_eq!(user.files(), before);
    let import = [&import[..], &["--write"]].concat();
    let shown = user.run_ok(&import);
    for part in [
        "csv from oci://localhost:",
        "version: 1.1.0\n",
        "signer: the key ",
        "[grants.\"csv.wasm\"]",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let [config, _] = user.files().map(Option::unwrap);
    let source = format!("\n[components.csv]\nsource = \"{}\"\n", author.reference());
    assert_eq!(config, before[0].clone().unwrap() + &source);
    user.append(GRANT);
    user.run_ok(&["lock", "--check"]);
    assert_eq!(user.call().code, 0);
    assert_eq!(user.run_ok(&import), "csv is up to date\n");
    // A bundle file with an older version is a downgrade.
    author.run_ok(&["rollback", "csv"]);
    author.run_ok(&["bundle", "export", "old.tar"]);
    let old = fs::read(author.path("old.tar")).unwrap();
    user.program.write("old.tar", &old);
    author.run_ok(&["bundle", "export", "old.tar"]);
    assert_eq!(fs::read(author.path("old.tar")).unwrap(), old);
    assert_eq!(
        user.run_ok(&["bundle", "import", "old.tar"]),
        "csv: in the store\n"
    );
    assert_eq!(user.call().code, 0);
    let error = user.run_err(1, &["bundle", "import", "old.tar", "--write"]);
    assert!(error.contains("is lower than `1.1.0`"), "{error}");
    user.run_ok(&[
        "bundle",
        "import",
        "old.tar",
        "--write",
        "--accept-downgrade",
    ]);
    assert_eq!(user.call().code, 0);
    user.run_ok(&["rollback", "csv"]);
    assert_eq!(author.registry.take_request_heads(), [""; 0]);
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
}

#[test]
fn bundle_file_carries_skills_without_network() {
    let author = updated_skill_user();
    // The same bytes under another name.
    let reference = author.skill_reference();
    author.run_ok(&["add", "--skill", &reference, "--name", "same"]);
    let shown = author.run_ok(&["bundle", "export", "air.tar", "--key", "acme.key"]);
    assert!(
        shown.starts_with("exported 0 components and 2 skills to air.tar\n"),
        "{shown}"
    );
    author.run_ok(&["remove", "--skill", "same"]);
    author.run_ok(&["rollback", "report"]);
    author.run_ok(&["bundle", "export", "old.tar"]);
    let user = receiver(&author, &["air.tar", "old.tar", "acme.pub"]);
    author.registry.take_request_heads();
    let pattern = format!("oci://{}/acme/*", author.registry.authority);
    user.append(&format!(
        "require_signatures = true\n[trust.\"{pattern}\"]\nkeys = [\"acme.pub\"]\n"
    ));
    let before = user.files();
    let import = ["bundle", "import", "air.tar", "--key", "acme.pub"];
    assert_eq!(
        user.run_ok(&import),
        "report: in the store\nsame: in the store\n"
    );
    assert_eq!(user.files(), before);
    let import = [&import[..], &["--write"]].concat();
    let shown = user.run_ok(&import);
    for part in [
        "report from oci://localhost:",
        "version: 1.1.0\n",
        "signer: the key ",
        "script: scripts/run.py (",
        "same from oci://localhost:",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let config = user.files()[0].clone().unwrap();
    let source = format!("\n[skills_from.report]\nsource = \"{reference}\"\n");
    assert!(config.contains(&source), "{config}");
    user.run_ok(&["lock", "--check"]);
    assert!(user.run_ok(&["skills"]).contains("report"));
    assert!(user.read_skill().stdout.contains("# Report 1.1.0"));
    assert_eq!(
        user.run_ok(&import),
        "report is up to date\nsame is up to date\n"
    );
    // A bundle file with an older version is a downgrade.
    let old = ["bundle", "import", "old.tar", "--write"];
    let error = user.run_err(1, &old);
    assert!(
        error.contains("`report` is not updated: its version `1.0.0` is lower than `1.1.0`"),
        "{error}"
    );
    user.run_ok(&[&old[..], &["--accept-downgrade"]].concat());
    assert!(user.read_skill().stdout.contains("# Report 1.0.0"));
    user.run_ok(&["rollback", "report"]);
    assert!(user.read_skill().stdout.contains("# Report 1.1.0"));
    assert_eq!(author.registry.take_request_heads(), [""; 0]);
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
}

#[test]
fn refused_skill_in_bundle_file_changes_nothing() {
    let author = updated_skill_user();
    author.run_ok(&["bundle", "export", "air.tar"]);
    let lock = author.lock();
    let layer = fs::read(author.blob(&lock_value(&lock, "content", 0))).unwrap();
    let user = receiver(&author, &["air.tar", "acme.pub", "evil.pub"]);
    let mut damaged = fs::read(author.path("air.tar")).unwrap();
    let at = damaged.windows(layer.len()).position(|it| it == layer);
    damaged[at.unwrap() + layer.len() / 2] ^= 1;
    user.program.write("damaged.tar", damaged);
    let pattern = format!("oci://{}/acme/*", author.registry.authority);
    let trust = |key: &str| format!("[trust.\"{pattern}\"]\nkeys = [\"{key}.pub\"]\n");
    let manifest = lock_value(&lock, "manifest", 0);
    let other = "[skills_from.report]\nsource = \"oci://registry.example/report:1\"\n";
    user.run(&["store", "list"]);
    let state = State::read(user.program.folder.path());
    for (config, file, why) in [
        (
            trust("evil"),
            "air.tar",
            "cannot import `report`: the signature of the skill `report` is not valid",
        ),
        (
            "require_signatures = true\n".to_owned(),
            "air.tar",
            "has no rule in `[trust]`",
        ),
        (
            format!("[deny]\n\"{manifest}\" = \"it leaks\"\n"),
            "air.tar",
            "cannot import `report`: `[deny]` refuses",
        ),
        (
            other.to_owned(),
            "air.tar",
            "the skill is configured from `oci://registry.example/report:1`",
        ),
        (
            trust("acme"),
            "damaged.tar",
            "cannot import `report`: the bytes of",
        ),
    ] {
        user.append(&config);
        let before = State::read(user.program.folder.path());
        let error = user.run_err(4, &["bundle", "import", file, "--write"]);
        assert!(error.contains(why), "{error}");
        let after = State::read(user.program.folder.path());
        assert_eq!(before.difference(&after), [""; 0].map(PathBuf::from));
        state.restore(user.program.folder.path());
    }
    user.program.write("skills/report/SKILL.md", "# Mine\n");
    let error = user.run_err(4, &["bundle", "import", "air.tar", "--write"]);
    assert!(error.contains("there is another skill `report`"), "{error}");
    fs::remove_dir_all(user.path("skills/report")).unwrap();
    // Without a rule in `[trust]`, the signer is not checked.
    let shown = user.run_ok(&["bundle", "import", "air.tar", "--write"]);
    assert!(shown.contains("signer: unsigned"), "{shown}");
    assert!(user.read_skill().stdout.contains("# Report 1.1.0"));
}

#[test]
fn refused_bundle_file_changes_nothing() {
    let author = updated_user();
    author.run_ok(&["bundle", "export", "air.tar", "--key", "acme.key"]);
    author.run_ok(&["bundle", "export", "unsigned.tar"]);
    let user = receiver(
        &author,
        &["air.tar", "unsigned.tar", "acme.pub", "evil.pub"],
    );
    let mut damaged = fs::read(author.path("air.tar")).unwrap();
    let at = damaged.len() / 2;
    damaged[at] ^= 1;
    user.program.write("damaged.tar", damaged);
    let pattern = format!("oci://{}/acme/*", author.registry.authority);
    let trust = |key: &str| format!("[trust.\"{pattern}\"]\nkeys = [\"{key}.pub\"]\n");
    let other = "[components.csv]\nsource = \"oci://registry.example/csv:1\"\n".to_owned();
    let import = |file: &'static str| vec!["bundle", "import", file, "--write"];
    let with_key =
        |file: &'static str, key: &'static str| [import(file), vec!["--key", key]].concat();
    for (config, arguments, why) in [
        (
            trust("evil"),
            import("air.tar"),
            "cannot import `csv`: the signature of the component `csv` is not valid",
        ),
        (
            "require_signatures = true\n".to_owned(),
            import("air.tar"),
            "has no rule in `[trust]`",
        ),
        (
            trust("acme"),
            with_key("air.tar", "evil.pub"),
            "its signature is not valid: it is not signed by the key",
        ),
        (
            trust("acme"),
            with_key("unsigned.tar", "acme.pub"),
            "it has no signature of its index",
        ),
        (
            trust("acme"),
            with_key("damaged.tar", "acme.pub"),
            "in it have the digest",
        ),
        (other, import("air.tar"), "the component is configured from"),
        (
            String::new(),
            import("missing.tar"),
            "cannot use the bundle file `missing.tar`",
        ),
    ] {
        let before = user.files()[0].clone().unwrap();
        user.append(&config);
        // Opening the store makes its folders.
        user.run(&["store", "list"]);
        let state = State::read(user.program.folder.path());
        let error = user.run_err(4, &arguments);
        assert!(error.contains(why), "{error}");
        let after = State::read(user.program.folder.path());
        assert_eq!(state.difference(&after), [""; 0].map(PathBuf::from));
        user.program.write("skillhost.toml", before);
    }
    // Without a rule in `[trust]`, the signer is not checked.
    let shown = user.run_ok(&import("air.tar"));
    assert!(shown.contains("signer: unsigned"), "{shown}");
    assert!(user.lock().contains("unsigned = true"));
    assert_eq!(
        user.run_err(4, &["bundle", "export", "/missing/x"])
            .lines()
            .count(),
        1
    );
    user.run_ok(&["remove", "csv"]);
    let error = user.run_err(4, &["bundle", "export", "none.tar"]);
    assert!(error.contains("names no component"), "{error}");
    assert!(!user.path("none.tar").exists());
}

#[test]
fn import_of_unloadable_component_writes_nothing() {
    for (bytes, why) in unloadable() {
        let author = User::new();
        author.lock_bytes("aaa", &count_lines(), "count_lines");
        author.lock_bytes("zzz", &bytes, "other");
        author.run_ok(&["bundle", "export", "air.tar"]);
        let user = receiver(&author, &["air.tar"]);
        user.run_ok(&["store", "list"]);
        for write in [&[][..], &["--write"]] {
            let stored = || State::read(&user.path("data"));
            let before = stored();
            let run = user.run(&[&["bundle", "import", "air.tar"], write].concat());
            assert_eq!((run.code, &*run.stdout), (4, ""), "{run:?}");
            assert!(run.stderr.contains(why), "{why}: {run:?}");
            assert!(run.stderr.contains("cannot import `zzz`"), "{run:?}");
            assert_eq!(before.difference(&stored()), [""; 0].map(PathBuf::from));
            assert!(user.files()[1].is_none());
        }
    }
}

#[test]
fn refuses_import_of_tool_that_exists() {
    let author = User::new();
    let search = repository().join("guest-tools/examples/dist/search_in_skill.wasm");
    author.lock_bytes("aaa", &fs::read(search).unwrap(), "x");
    author.lock_bytes("zzz", &count_lines(), "count_lines");
    author.run_ok(&["bundle", "export", "air.tar"]);
    let user = receiver(&author, &["air.tar"]);
    user.lock_bytes("own", &count_lines(), "count_lines");
    let error = user.run_err(4, &["bundle", "import", "air.tar", "--write"]);
    assert!(error.contains("which `own` has too"), "{error}");
    assert_eq!(
        user.run_ok(&["bundle", "import", "air.tar"]),
        "aaa: in the store\nzzz: in the store\n"
    );
}
