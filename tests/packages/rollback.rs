//! Rolling back, denying, and lower versions.

use std::fs;

use super::state::State;
use super::{GRANT, User, digest_of, needs, version};
use crate::needs::with_section;

/// Returns a user who has updated the component from 1.0.0 to 1.1.0.
pub(super) fn updated_user() -> User {
    let user = User::new();
    user.new_key("acme");
    user.new_key("evil");
    user.trust("acme");
    user.push(&version("1.0.0"), Some("acme"));
    let shown = user.good(&["add", &user.reference()]);
    assert!(shown.contains("version: 1.0.0\n"), "{shown}");
    user.append(GRANT);
    user.push(&version("1.1.0"), Some("acme"));
    let shown = user.good(&["update"]);
    for part in ["  tag: `1` has moved\n", "  version: 1.0.0 -> 1.1.0\n"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    user
}

#[test]
fn rolls_back_once_without_a_network() {
    let user = updated_user();
    let lock = user.lock();
    assert_eq!(digest_of(&lock, "version", 0), "1.1.0");
    assert_eq!(digest_of(&lock, "version", 1), "1.0.0");
    let list = user.good(&["store", "list"]);
    assert!(list.contains("earlier component of csv\n"), "{list}");
    assert_eq!(
        user.good(&["store", "clean"]),
        "removed 0 files of 0 bytes\n"
    );
    user.registry.take_heads();
    let shown = user.good(&["rollback", "csv"]);
    assert!(shown.contains("  version: 1.1.0 -> 1.0.0\n"), "{shown}");
    let deny = format!("`skillhost deny {}`", digest_of(&lock, "manifest", 0));
    assert!(shown.contains(&deny), "{shown}");
    assert_eq!(user.registry.take_heads(), [""; 0]);
    assert_eq!(user.lock().matches("version = ").count(), 1);
    assert_eq!(digest_of(&user.lock(), "version", 0), "1.0.0");
    user.good(&["lock", "--check"]);
    assert_eq!(user.call().code, 0);
    let error = user.bad(2, &["rollback", "csv"]);
    assert!(error.contains("no earlier version of `csv`"), "{error}");
    // The tag still has the newer one.
    user.good(&["update"]);
    assert_eq!(user.lock(), lock);
    user.good(&["remove", "csv"]);
    user.bad(2, &["rollback", "csv"]);
    user.good(&["store", "clean"]);
    assert_eq!(user.good(&["store", "list"]), "");
}

#[test]
fn rollback_takes_no_power_unasked() {
    let user = User::new();
    user.push(&with_section(version("1.0.0"), &needs()), None);
    user.good(&["add", &user.reference()]);
    user.push(&version("1.1.0"), None);
    user.good(&["update"]);
    let error = user.bad(1, &["rollback", "csv"]);
    assert!(error.contains("a new power; `--accept-powers`"), "{error}");
    user.good(&["rollback", "csv", "--accept-powers"]);
    assert!(user.lock().contains("secret TOKEN"));
}

#[test]
fn denied_package_never_loads() {
    let user = updated_user();
    user.good(&["bundle", "export", "air.tar"]);
    let lock = user.lock();
    let configuration = user.files()[0].clone().unwrap();
    let state = State::read(user.program.folder.path());
    for key in ["manifest", "content"] {
        let digest = digest_of(&lock, key, 0);
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
            let error = user.bad(code, &[&config, arguments].concat());
            assert!(error.contains(&why), "{arguments:?}: {error}");
        }
        // An earlier version is another package.
        user.good(&["rollback", "csv"]);
        assert_eq!(user.call().code, 0);
        assert!(user.bad(4, &["update"]).contains(&why));
        user.good(&["remove", "csv"]);
        // Nothing of it is downloaded.
        fs::remove_dir_all(user.path("data")).unwrap();
        assert!(user.bad(4, &["add", &user.reference()]).contains(&why));
        assert_eq!(user.good(&["store", "list"]), "");
        state.restore(user.program.folder.path());
    }
    let earlier = digest_of(&lock, "manifest", 1);
    user.good(&["deny", &earlier]);
    let error = user.bad(4, &["rollback", "csv"]);
    assert!(
        error.contains(&format!("`[deny]` refuses {earlier}\n")),
        "{error}"
    );
    assert_eq!(user.call().code, 0);
    let error = user.bad(2, &["deny", "csv"]);
    assert!(error.contains("expected a digest"), "{error}");
    let long = "x".repeat(513);
    user.bad(4, &["deny", &earlier, "--why", &long]);
}

#[test]
fn update_takes_no_lower_version_unasked() {
    let user = updated_user();
    for (pushed, why) in [
        ("1.0.0", "its version `1.0.0` is lower than `1.1.0`"),
        ("1.1.0-rc.1", "its version `1.1.0-rc.1` is lower than"),
        ("main", "its version `main` cannot be compared with `1.1.0`"),
    ] {
        user.push(&version(pushed), Some("acme"));
        let error = user.bad(1, &["update", "--accept-signer", "--accept-powers"]);
        assert!(error.contains(why), "{error}");
        assert!(error.contains("; `--accept-downgrade` accepts"), "{error}");
    }
    // Not what the lock file says: it may have been edited.
    let lock = user.lock();
    user.push(&version("1.0.0"), Some("acme"));
    let edited = lock.replacen("version = \"1.1.0\"", "version = \"0.1.0\"", 1);
    user.program.write("skillhost.lock", edited);
    let error = user.bad(1, &["update"]);
    assert!(error.contains("is lower than `1.1.0`"), "{error}");
    user.program.write("skillhost.lock", lock);
    user.good(&["update", "--accept-downgrade"]);
    assert_eq!(digest_of(&user.lock(), "version", 0), "1.0.0");
    // The same version may have other bytes, and `update` says so.
    user.push(&with_section(version("1.0.0"), "{}"), Some("acme"));
    let shown = user.good(&["update"]);
    assert!(
        shown.contains("  version: 1.0.0, with other bytes\n"),
        "{shown}"
    );
}
