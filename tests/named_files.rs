//! Files and folders that an operator names. The program refuses a FIFO, a device, a folder instead
//! of a file, and a file above the limit at once, and names the path.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;

use crate::support::certificates::{Authority, write_pair};
use crate::support::program::{Program, run_as};

/// The kinds of named files.
#[derive(Clone, Copy, PartialEq)]
enum Named {
    /// A file that is read as a whole.
    Whole,
    /// A file that is read piece by piece, or written.
    Pieces,
    /// A component, a folder or a socket, for which messages differ.
    Other,
}

use Named::{Other, Pieces, Whole};

/// The placeholder for a path.
const PATH: &str = "PATH";

/// Each option and argument that names a file or folder, once.
const OPTIONS: &[(Named, &[&str])] = &[
    (Whole, &["tools", "--config", PATH]),
    (Other, &["tools", "--skills", PATH]),
    (Other, &["tools", "--tools", PATH]),
    (Pieces, &["call", "--audit", PATH, "list_skills"]),
    (Other, &["inspect", PATH]),
    (Whole, &["add", "oci://localhost:1/a:1", "--ca-file", PATH]),
    (Whole, &["add", "--skills-from", PATH]),
    (Whole, &["update", "--ca-file", PATH]),
    (Whole, &["fetch", "--ca-file", PATH]),
    (Whole, &["bundle", "export", "file", "--key", PATH]),
    (Other, &["bundle", "export", PATH]),
    (Whole, &["bundle", "import", "file", "--key", PATH]),
    (Pieces, &["bundle", "import", PATH]),
    (
        Whole,
        &[
            "push",
            "oci://localhost:1/a:1",
            "tool.wasm",
            "--ca-file",
            PATH,
        ],
    ),
    (
        Whole,
        &["push", "oci://localhost:1/a:1", "tool.wasm", "--key", PATH],
    ),
    (Other, &["push", "oci://localhost:1/a:1", PATH]),
    (Other, &["check", PATH]),
    (Other, &["test", PATH]),
    (Other, &["test", "--cases", PATH, "tool.wasm"]),
    (
        Other,
        &["new", "find-word", "--lang", "rust", "--dir", PATH],
    ),
    (
        Other,
        &["new", "find-word", "--lang", "rust", "--sdk-path", PATH],
    ),
    (Other, &["build", PATH]),
    (Other, &["dev", PATH]),
    (Other, &["add-library", "name", "--dir", PATH]),
    (Other, &["remove-library", "name", "--dir", PATH]),
    (Other, &["call", "none", "--output-dir", PATH]),
    (Other, &["serve", "--http", "unix:PATH"]),
    (
        Whole,
        &["serve", "--http", "127.0.0.1:0", "--token-file", PATH],
    ),
    (
        Whole,
        &[
            "serve",
            "--http",
            "127.0.0.1:0",
            "--tls-cert",
            PATH,
            "--tls-key",
            "a.key",
        ],
    ),
    (
        Whole,
        &[
            "serve",
            "--http",
            "127.0.0.1:0",
            "--tls-cert",
            "a.crt",
            "--tls-key",
            PATH,
        ],
    ),
    (Other, &["audit", "new-key", PATH]),
    (Whole, &["audit", "public-key", PATH]),
    (Whole, &["audit", "digest", "--key-file", PATH]),
    (Whole, &["audit", "verify", "--key", PATH, "log"]),
    (
        Pieces,
        &[
            "audit",
            "verify",
            "--key",
            "public",
            "--checkpoints",
            PATH,
            "log",
        ],
    ),
    (Pieces, &["audit", "verify", "--key", "public", PATH]),
    (Pieces, &["audit", "show", PATH]),
];

/// Each configuration key of an HTTP server that names a file to read.
const KEYS: &[(Named, &str)] = &[
    (Pieces, "audit_file = \"PATH\""),
    (Whole, "audit_file = \"log\"\n[audit]\nkey_file = \"PATH\""),
    (Whole, "[http]\ntoken_file = \"PATH\""),
    (Whole, "[http]\ntls_cert = \"PATH\"\ntls_key = \"a.key\""),
    (Whole, "[http]\ntls_cert = \"a.crt\"\ntls_key = \"PATH\""),
    (
        Whole,
        "[http]\ntls_cert = \"a.crt\"\ntls_key = \"a.key\"\ntls_client_ca = \"PATH\"",
    ),
    (Whole, "[clients.a]\ntoken_file = \"PATH\""),
    (
        Whole,
        "[http]\nresource = \"https://a.example\"\n[issuers.a]\nissuer = \"https://b.example\"\n\
         jwks_file = \"PATH\"\n[clients.a]\nclaims = { sub = \"a\" }",
    ),
];

/// Makes a folder with everything that the rows need and name.
fn program() -> Program {
    let program = Program::new();
    write_pair(&program, "a", &Authority::new().server_pair());
    let run = program.run(&["audit", "new-key", "private"]);
    assert_eq!(run.code, 0, "{run:?}");
    program.write("public", run.stdout);
    for path in ["log", "skills/a/SKILL.md", "folder/file"] {
        program.write(path, "");
    }
    let component = fs::read(crate::support::guests().join("scripted.wasm")).unwrap();
    program.write("tool.wasm", component);
    let at = |name: &str| program.folder.path().join(name);
    rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // The file is sparse, and takes no space.
    let large = File::create(at("large")).unwrap();
    large.set_len(1 << 40).unwrap();
    large
        .set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    program
}

/// Runs the program with `path` instead of the placeholder, and checks the exit code and the
/// message. A program that waits is killed, and the test fails.
#[track_caller]
fn check(program: &Program, named: Named, words: &[&str], path: &str) {
    let words: Vec<String> = words.iter().map(|word| word.replace(PATH, path)).collect();
    let run = program.run(&words);
    let output = format!("{}{}", run.stdout, run.stderr);
    assert!((1..=4).contains(&run.code), "{words:?}: {run:?}");
    assert!(output.contains(path), "{words:?}: {run:?}");
    let expected = match (named, path) {
        (Other, _) => "",
        // A configuration that everybody can change is refused before it is opened.
        (_, "/dev/zero") if output.contains("every user can change") => "",
        (_, "fifo") => "it is not a regular file but a FIFO",
        (_, "/dev/zero") => "it is not a regular file but a device",
        // The program opens the log for writing, which fails for a folder.
        (Pieces, "folder") if output.contains("Is a directory") => "",
        (_, "folder") => "it is not a regular file but a folder",
        (Whole, _) => "it is larger than ",
        (Pieces, _) => unreachable!("files read in pieces have no bound"),
    };
    assert!(output.contains(expected), "{words:?}: {run:?}");
}

/// Returns the paths that a row is tested with.
fn paths(named: Named) -> &'static [&'static str] {
    match named {
        Whole => &["fifo", "/dev/zero", "folder", "large"],
        Pieces => &["fifo", "/dev/zero", "folder"],
        Other => &["fifo", "/dev/zero"],
    }
}

#[test]
fn every_option_refuses_special_files_at_once() {
    let program = program();
    for (named, words) in OPTIONS {
        for path in paths(*named) {
            check(&program, *named, words, path);
        }
    }
}

#[test]
fn every_key_refuses_special_and_large_files() {
    let program = program();
    for (named, text) in KEYS {
        for path in paths(*named) {
            let text = format!("{}\n", text.replace(PATH, path));
            program.write("c.toml", text);
            let words = ["serve", "--http", "127.0.0.1:0", "--config", "c.toml"];
            check(&program, *named, &words, path);
        }
    }
}

/// The rows of [`KEYS`] whose files identify the server or its clients.
fn identity_files() -> impl Iterator<Item = &'static str> {
    let files = KEYS.iter().map(|(_, text)| *text);
    files.filter(|text| !text.starts_with("audit_file = \"PATH\""))
}

#[test]
fn refuses_identity_files_that_others_can_replace() {
    let program = program();
    let at = |name: &str| program.folder.path().join(name);
    fs::create_dir(at("shared")).unwrap();
    symlink("../folder", at("shared/link")).unwrap();
    let mut tried = 0;
    for text in identity_files() {
        for path in ["shared/file", "shared/link/file"] {
            fs::write(at(path), "text").unwrap();
            fs::set_permissions(at(path), Permissions::from_mode(0o600)).unwrap();
            program.write("c.toml", format!("{}\n", text.replace(PATH, path)));
            let unsafe_folder = at("shared").canonicalize().unwrap();
            let problem = format!("every user can change `{}`", unsafe_folder.display());
            // In a sticky folder others may add files, but replace none.
            for (mode, is_refused) in [(0o777, true), (0o1777, false), (0o755, false)] {
                fs::set_permissions(at("shared"), Permissions::from_mode(mode)).unwrap();
                let run = program.run(&["serve", "--http", "127.0.0.1:0", "--config", "c.toml"]);
                assert_eq!(run.code, 4, "{text}: {run:?}");
                let is_reported = run.stderr.contains(&problem);
                assert_eq!(is_reported, is_refused, "{text} {mode:o}: {run:?}");
            }
            tried += 1;
        }
    }
    assert_eq!(tried, 14);
}

#[test]
fn accepts_secrets_that_root_shares_with_group() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can change owners; CI runs as root.
    }
    const USER: u32 = 54_321;
    const GROUP: u32 = 54_322;
    let program = Program::new();
    let folder = program.folder.path();
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(program.run(&["audit", "new-key", "key"]).code, 0);
    let key = folder.join("key");
    let path = key.to_str().unwrap();
    let read = |user, group| run_as(user, group, &["audit", "public-key", path]);
    let set = |owner, mode| {
        chown(&key, Some(owner), Some(GROUP)).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
    };
    for (owner, mode, is_read) in [
        (0, 0o440, true),
        (0, 0o640, true),
        (0, 0o460, false),
        (0, 0o450, false),
        (0, 0o444, false),
        // The user owns the file, and so could deny access to the group.
        (USER, 0o440, false),
        (USER, 0o400, true),
    ] {
        set(owner, mode);
        let run = read(USER, GROUP);
        assert_eq!(run.code == 0, is_read, "{owner} {mode:o}: {run:?}");
    }
    set(0, 0o440);
    assert_ne!(read(USER, USER).code, 0, "another group");
    let as_root = read(0, GROUP);
    let is_reported = as_root.stderr.contains("its group may read it");
    assert!(is_reported, "{as_root:?}");
    if let Err(error) = allow_another_user(&key) {
        assert_eq!(error, Errno::OPNOTSUPP);
        return; // Not every file system has access control lists.
    }
    let with_list = read(USER, GROUP);
    let is_reported = with_list.stderr.contains("its group may read it");
    assert!(is_reported, "{with_list:?}");
}

/// Lets one more user read a file, by an access control list.
fn allow_another_user(path: &std::path::Path) -> rustix::io::Result<()> {
    const NOBODY_NAMED: u32 = u32::MAX;
    // The tag, bits and user of each entry: the owner, a user, the group, the mask, others.
    let entries = [
        (0x01, 4, NOBODY_NAMED),
        (0x02, 4, 54_323),
        (0x04, 4, NOBODY_NAMED),
        (0x10, 4, NOBODY_NAMED),
        (0x20, 0, NOBODY_NAMED),
    ];
    let entries = entries.map(|(tag, bits, user): (u16, u16, u32)| {
        let bytes = [tag.to_le_bytes(), bits.to_le_bytes()].concat();
        [&*bytes, &user.to_le_bytes()].concat()
    });
    let list = [&2_u32.to_le_bytes()[..], &entries.concat()].concat();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, "system.posix_acl_access", &list, flags)
}

#[test]
fn table_has_every_option_of_every_verb() {
    let program = Program::new();
    let help = |words: &[&str]| program.run(&[words, &["--help"]].concat()).stdout;
    // The lines after a heading.
    let below = |help: &str, heading: &str| -> Vec<String> {
        let lines = help.lines().skip_while(|line| *line != heading).skip(1);
        let lines = lines.take_while(|line| line.starts_with(' '));
        lines.map(str::to_owned).collect()
    };
    let verbs = |help: &str| -> Vec<String> {
        // The verbs of the program are in groups, above its options.
        let lines = match help.split_once("\nOptions:\n") {
            Some((groups, _)) if help.contains("Serve agents:\n") => groups
                .lines()
                .filter(|line| line.starts_with("  "))
                .map(str::to_owned)
                .collect(),
            _ => below(help, "Commands:"),
        };
        let words = lines.into_iter().filter(|line| !line.starts_with("   "));
        let words = words.filter_map(|line| Some(line.split_whitespace().next()?.to_owned()));
        words.filter(|word| word != "help").collect()
    };
    let mut all: Vec<Vec<String>> = Vec::new();
    for verb in verbs(&help(&[])) {
        let subverbs = verbs(&help(&[&verb]));
        if subverbs.is_empty() {
            all.push(vec![verb]);
        } else {
            all.extend(subverbs.into_iter().map(|name| vec![verb.clone(), name]));
        }
    }
    assert!(all.len() > 15, "{all:?}");
    for verb in all {
        let words: Vec<&str> = verb.iter().map(String::as_str).collect();
        let rows = || OPTIONS.iter().map(|(_, row)| *row);
        let verb_rows = || rows().filter(|row| row.starts_with(&words));
        for line in help(&words).lines().map(str::trim_start) {
            let names = ["<FILE>", "<DIR>", "<FILE.wasm>", "<PATH>"];
            let option = line.split_whitespace().next().unwrap_or_default();
            let value = line.split_whitespace().nth(1).unwrap_or_default();
            if option.starts_with("--") && names.contains(&value) {
                // Common options are tested with one verb.
                let is_common = ["--config", "--skills", "--tools", "--audit"].contains(&option);
                let has = |row: &[&str]| row.contains(&option);
                let is_tried = verb_rows().any(has) || is_common && rows().any(has);
                assert!(is_tried, "{words:?} {option}");
            }
        }
        // File and folder arguments are at the end of the usage.
        let usage = help(&words);
        let usage = usage
            .lines()
            .find(|line| line.starts_with("Usage:"))
            .unwrap()
            .to_owned();
        let argument = usage.split_whitespace().last().unwrap();
        if ["FILE", "DIR", "PATH"]
            .iter()
            .any(|name| argument.contains(name))
            && !usage.contains("--key-file <FILE>")
        {
            let is_tried = verb_rows().any(|row| row.last() == Some(&PATH));
            assert!(is_tried, "{words:?} {argument}");
        }
    }
}
