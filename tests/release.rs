//! The packing code of `cargo xtask release`, without the programs. `tests/release/run` tests the
//! artefacts.

use std::fs;
use std::path::Path;

use crate::support::program::{Run, command, finish};
use crate::support::repository;

/// Runs Python code that can import the packing scripts.
fn python(code: &str, time_zone: &str) -> Run {
    let mut command = command(Path::new("python3"));
    command
        .args(["-B", "-c", code])
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("PYTHONPATH", repository().join("guest-tools/xtask/release"))
        .env("TZ", time_zone);
    finish(command, "")
}

/// Packs one tree in each kind of archive. `order` is a Python function that orders its files.
/// Returns the digests of the archives.
fn packed(order: &str, time_zone: &str) -> String {
    let code = format!(
        "import hashlib
from archives import *
files = [('bin/a', File(b'a', 0o755)), ('share/b/c', File(b'c')), ('d', Folder(0o700, 7))]
tree = dict({order}(files))
only_files = {{path: file for path, file in tree.items() if path != 'd'}}
for data in [compress(tar(tree, 1700000000, './')), zip_file(only_files, 1700000000),
             ar([('x', b'odd'), ('y', b'even')], 1700000000)]:
    print(hashlib.sha256(data).hexdigest())
assert compress(b'')[4:8] == bytes(4)"
    );
    let run = python(&code, time_zone);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.stdout.lines().count(), 3);
    run.stdout
}

#[test]
fn archives_depend_only_on_their_contents() {
    assert_eq!(packed("list", "UTC"), packed("reversed", "Asia/Tokyo"));
}

#[test]
fn other_programs_can_read_archives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let run = python(
        &format!(
            "from archives import *
tree = {{'bin/a': File(b'a', 0o755), 'd': Folder(0o700)}}
open('{path}/a.tgz', 'wb').write(compress(tar(tree, 1700000000, './')))"
        ),
        "UTC",
    );
    assert_eq!(run.code, 0, "{run:?}");
    let mut tar = command(Path::new("tar"));
    tar.args(["--list", "--verbose", "--numeric-owner", "--file"])
        .arg(folder.path().join("a.tgz"))
        .env("PATH", "/usr/bin:/bin")
        .env("TZ", "UTC");
    let listed = finish(tar, "").stdout;
    let lines: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let row = |mode, size, path| vec![mode, "0/0", size, "2023-11-14", "22:13", path];
    assert_eq!(
        lines,
        [
            row("drwxr-xr-x", "0", "./bin/"),
            row("-rwxr-xr-x", "1", "./bin/a"),
            row("drwx------", "0", "./d/"),
        ]
    );
}

#[test]
fn refuses_program_for_newer_glibc() {
    let check = |versions: &str| {
        python(
            &format!("import pack\npack.check_symbols('skillhost', b'{versions}')"),
            "UTC",
        )
    };
    let fine = check("GLIBC_2.2.5 GLIBC_2.17 GLIBC_2.28 GLIBC_PRIVATE");
    assert_eq!(fine.code, 0, "{fine:?}");
    let new = check("GLIBC_2.17 GLIBC_2.29");
    assert_eq!(new.code, 1);
    assert!(
        new.stderr
            .contains("it needs glibc 2.29 and the packages promise 2.28"),
        "{new:?}"
    );
    assert_eq!(check("").code, 1);
}

/// With `SKILLHOST_REWRITE_LIBRARY=1`, writes the library.
#[test]
fn committed_library_matches_its_source() {
    let folder = repository().join("guest-tools/runners/python/stand_ins");
    let built = wat::parse_file(folder.join("skillhost_memory.wat")).unwrap();
    let library = folder.join("skillhost_memory.abi3.so");
    if std::env::var_os("SKILLHOST_REWRITE_LIBRARY").is_some() {
        fs::write(&library, &built).unwrap();
    }
    assert!(fs::read(library).unwrap() == built);
}

/// Finds missing files of packages before a release does.
#[test]
fn packages_name_existing_files() {
    let release = repository().join("guest-tools/xtask/release");
    for name in ["pack.py", "bill.py"] {
        let source = fs::read_to_string(release.join(name)).unwrap();
        let quoted = source.split('"').skip(1).step_by(2);
        for path in quoted.filter(|text| text.starts_with("guest-tools/")) {
            assert!(repository().join(path).exists(), "{name}: `{path}`");
        }
        for part in source.split("template(\"").skip(1) {
            let file = part.split('"').next().unwrap();
            assert!(release.join(file).is_file(), "{name}: `{file}`");
        }
    }
}
