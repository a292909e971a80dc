//! Bundle files: from one home to another without a network.

use std::fs;

use super::rollback::updated_user;
use super::state::State;
use super::{GRANT, User};

/// Returns a user without a network, who has a bundle file of another and its key.
fn receiver(from: &User, files: &[&str]) -> User {
    let user = User::new();
    for name in files {
        user.program.write(name, fs::read(from.path(name)).unwrap());
    }
    user
}

#[test]
fn bundle_file_carries_components_to_a_home_without_network() {
    let author = updated_user();
    let shown = author.good(&["bundle", "export", "air.tar", "--key", "acme.key"]);
    assert!(
        shown.contains("exported 1 component to air.tar\nindex: sha256:"),
        "{shown}"
    );
    assert!(shown.contains("signer: the key "), "{shown}");
    let user = receiver(&author, &["air.tar", "acme.pub", "evil.pub"]);
    author.registry.take_heads();
    let import = ["bundle", "import", "air.tar", "--key", "acme.pub"];
    let place = format!("oci://{}/acme/*", author.registry.authority);
    user.append(&format!(
        "require_signatures = true\n[trust.\"{place}\"]\nkeys = [\"acme.pub\"]\n"
    ));
    let before = user.files();
    assert_eq!(user.good(&import), "csv: in the store\n");
    assert_eq!(user.files(), before);
    let import = [&import[..], &["--write"]].concat();
    let shown = user.good(&import);
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
    user.good(&["lock", "--check"]);
    assert_eq!(user.call().code, 0);
    assert_eq!(user.good(&import), "csv is up to date\n");
    // An older file is a downgrade.
    author.good(&["rollback", "csv"]);
    author.good(&["bundle", "export", "old.tar"]);
    let old = fs::read(author.path("old.tar")).unwrap();
    user.program.write("old.tar", &old);
    author.good(&["bundle", "export", "old.tar"]);
    assert_eq!(fs::read(author.path("old.tar")).unwrap(), old);
    assert_eq!(
        user.good(&["bundle", "import", "old.tar"]),
        "csv: in the store\n"
    );
    assert_eq!(user.call().code, 0);
    let error = user.bad(1, &["bundle", "import", "old.tar", "--write"]);
    assert!(error.contains("is lower than `1.1.0`"), "{error}");
    user.good(&[
        "bundle",
        "import",
        "old.tar",
        "--write",
        "--accept-downgrade",
    ]);
    assert_eq!(user.call().code, 0);
    user.good(&["rollback", "csv"]);
    assert_eq!(author.registry.take_heads(), [""; 0]);
    assert_eq!(user.registry.take_heads(), [""; 0]);
}

#[test]
fn refused_bundle_file_changes_nothing() {
    let author = updated_user();
    author.good(&["bundle", "export", "air.tar", "--key", "acme.key"]);
    author.good(&["bundle", "export", "unsigned.tar"]);
    let user = receiver(
        &author,
        &["air.tar", "unsigned.tar", "acme.pub", "evil.pub"],
    );
    let mut damaged = fs::read(author.path("air.tar")).unwrap();
    let at = damaged.len() / 2;
    damaged[at] ^= 1;
    user.program.write("damaged.tar", damaged);
    let place = format!("oci://{}/acme/*", author.registry.authority);
    let trust = |key: &str| format!("[trust.\"{place}\"]\nkeys = [\"{key}.pub\"]\n");
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
            "it is not signed as a whole",
        ),
        (
            trust("acme"),
            with_key("damaged.tar", "acme.pub"),
            "in it have the digest",
        ),
        (
            other,
            import("air.tar"),
            "there is a component of that name",
        ),
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
        let error = user.bad(4, &arguments);
        assert!(error.contains(why), "{error}");
        let after = State::read(user.program.folder.path());
        assert_eq!(
            state.difference(&after),
            [""; 0].map(std::path::PathBuf::from)
        );
        user.program.write("skillhost.toml", before);
    }
    // Without a rule, nobody has checked the signer.
    let shown = user.good(&import("air.tar"));
    assert!(shown.contains("signer: unsigned"), "{shown}");
    assert!(user.lock().contains("unsigned = true"));
    assert_eq!(
        user.bad(4, &["bundle", "export", "/missing/x"])
            .lines()
            .count(),
        1
    );
    user.good(&["remove", "csv"]);
    let error = user.bad(4, &["bundle", "export", "none.tar"]);
    assert!(error.contains("names no component"), "{error}");
    assert!(!user.path("none.tar").exists());
}
