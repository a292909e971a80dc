//! Kills the program at each step that changes a file: each creation, write, sync, rename and
//! removal below the user's folder. Between two steps nothing changes on the disk, so this covers
//! every moment.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};

use skillhost_skills::text::digest::sha256_hex;

use super::rollback::{make_writable, updated_skill_user, updated_user};
use super::state::State;
use super::{GRANT, User, lock_value, versioned_component};
use crate::support::guests;
use crate::support::process::{self, Process};
use crate::support::program::Run;

const SIGKILL: i32 = 9;

/// Compiles the library that kills the program at a step.
fn compile_killer(user: &User) {
    let library = user.path("kill.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/packages/kill.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
    let compiled = process::output(compiler.arg(source));
    assert!(compiled.status.success(), "{compiled:?}");
}

/// Runs a verb that is killed at a step.
fn run_until(user: &User, step: usize, arguments: &[&str]) -> Output {
    let mut command = user.program.command(arguments);
    command
        .env("XDG_DATA_HOME", user.path("data"))
        .env("LD_PRELOAD", user.path("kill.so"))
        .env("KILL_BELOW", user.program.folder.path())
        .env("KILL_AT", step.to_string());
    Process::start(&mut command).output()
}

/// Kills a verb at each of its steps, and returns the number of steps.
///
/// After each kill, checks that the files are complete, that `call` works, and that the verb, run
/// again, has the same result as without a kill.
fn kill_at_each_step(user: &User, arguments: &[&str], call: fn(&User) -> Run) -> usize {
    let folder = user.program.folder.path();
    compile_killer(user);
    let before = State::read(folder);
    let files_before = user.files();
    assert_eq!(call(user).code, 0);
    user.run_ok(arguments);
    let files_after = user.files();
    assert_ne!(files_before, files_after);
    for step in 1.. {
        before.restore(folder);
        let run = run_until(user, step, arguments);
        if run.status.success() {
            assert_eq!(user.files(), files_after);
            return step - 1;
        }
        assert_eq!(run.status.signal(), Some(SIGKILL), "{step}: {run:?}");
        for (at, file) in user.files().iter().enumerate() {
            let is_complete = *file == files_before[at] || *file == files_after[at];
            assert!(is_complete, "{step}: {file:?}");
        }
        let called = call(user);
        assert_eq!(called.code, 0, "{step}: {called:?}");
        let checked = user.run(&["lock", "--check"]);
        let is_lock_ahead = checked
            .stderr
            .contains("which the configuration does not name");
        assert!(checked.code == 0 || is_lock_ahead, "{step}: {checked:?}");
        let again = user.run(arguments);
        assert_eq!(user.files(), files_after, "{step}: {again:?}");
        user.run_ok(&["lock", "--check"]);
        user.run_ok(&["store", "clean"]);
        let store = fs::read_dir(user.path("data/skillhost/store/sha256")).unwrap();
        let names = store.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut blobs = names.filter(|name| !name.starts_with(".unfinished-"));
        assert!(blobs.all(|name| is_whole(user, &name)), "{step}");
    }
    unreachable!("a verb has a last step")
}

/// Returns whether a blob's bytes have the digest in its name.
fn is_whole(user: &User, name: &str) -> bool {
    let bytes = fs::read(user.blob(&format!("sha256:{name}"))).unwrap();
    sha256_hex(&bytes) == name
}

#[test]
fn killed_add_leaves_packages_usable() {
    let user = updated_user();
    let other = user.reference().replace("csv:1", "other:1");
    fs::copy(guests().join("unchecked.wasm"), user.path("other.wasm")).unwrap();
    user.run_ok(&["push", &other, "other.wasm", "--key", "acme.key"]);
    // The verb writes blobs, the lock file, its entry in `locks/`, and the configuration. The steps
    // for each file are create, write, sync, rename, sync.
    assert_eq!(
        kill_at_each_step(&user, &["add", &other], User::call),
        6 * 5
    );
}

#[test]
fn killed_update_and_rollback_leave_packages_usable() {
    let user = updated_user();
    assert_eq!(
        kill_at_each_step(&user, &["rollback", "csv"], User::call),
        2 * 5
    );
    user.push(&versioned_component("1.2.0"), Some("acme"));
    assert_eq!(kill_at_each_step(&user, &["update"], User::call), 5 * 5);
}

#[test]
fn killed_import_leaves_packages_usable() {
    let author = updated_user();
    author.run_ok(&["bundle", "export", "air.tar"]);
    author.run_ok(&["rollback", "csv"]);
    author.run_ok(&["store", "clean"]);
    let import = ["bundle", "import", "air.tar", "--write"];
    // First the verb creates and writes a file to inspect.
    let steps = kill_at_each_step(&author, &import, User::call);
    assert_eq!(steps, 2 + 6 * 5);
    assert!(author.files()[0].as_ref().unwrap().contains(GRANT));
}

#[test]
fn killed_import_of_skill_leaves_packages_usable() {
    let user = updated_user();
    user.push_skill_version("1.0.0", Some("acme"));
    user.add_skill();
    user.run_ok(&["bundle", "export", "air.tar"]);
    user.run_ok(&["remove", "--skill", "report"]);
    user.run_ok(&["store", "clean"]);
    let import = ["bundle", "import", "air.tar", "--write"];
    // The lock file's entry in `locks/`, three blobs, the unpacked files, the lock file, the entry
    // again, and the configuration.
    assert!(kill_at_each_step(&user, &import, User::call) > 7 * 5);
    assert_eq!(user.read_skill().code, 0);
}

#[test]
fn killed_add_of_skill_leaves_packages_usable() {
    let user = updated_user();
    user.push_skill_version("1.0.0", Some("acme"));
    let add = ["add", "--skill", &user.skill_reference()];
    // Three blobs, the unpacked files, the lock file, its entry in `locks/`, and the configuration.
    assert!(kill_at_each_step(&user, &add, User::call) > 6 * 5);
    assert_eq!(user.read_skill().code, 0);
}

#[test]
fn killed_skill_update_and_rollback_leave_packages_usable() {
    let user = updated_skill_user();
    // Remove the unpacked files of the earlier version, so that `rollback` unpacks them again.
    let earlier = lock_value(&user.lock(), "content", 1).replace(':', "-");
    let root = user.path(&format!("data/skillhost/store/skills/{earlier}-report"));
    make_writable(&root);
    fs::remove_dir_all(root).unwrap();
    let rollback = ["rollback", "report"];
    assert!(kill_at_each_step(&user, &rollback, User::read_skill) > 2 * 5);
    user.push_skill_version("1.2.0", Some("acme"));
    assert!(kill_at_each_step(&user, &["update"], User::read_skill) > 5 * 5);
}
