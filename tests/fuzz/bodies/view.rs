//! Runs a script of file operations in a copy-on-write view and in a folder on disk, and compares
//! the result of every line. The input selects operations and operands. The skill's own folder
//! must not change.

#[path = "../../guests/scripted/src/script.rs"]
mod script;

#[path = "view/disk.rs"]
pub(crate) mod disk;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Map, Value};
use skillhost::{FolderAccess, Grant, Host};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use disk::Disk;

/// The maximum number of operations in a script.
const MAX_OPERATIONS: usize = 300;

/// Paths that operations use.
const PATHS: [&str; 40] = [
    "f",
    "g",
    "a",
    "b",
    "l",
    "a/f",
    "a/b",
    "a/b/g",
    "b/f",
    "a/l",
    "c",
    "c/f",
    "dl",
    "dl/f",
    "b/a",
    "new",
    "a/new",
    "a/b/new",
    "l2",
    "a/..",
    "a/../f",
    "./f",
    "a/b/../f",
    ".",
    "..",
    "../f",
    "\"\"",
    "a/",
    "f/",
    "l/",
    "dl/",
    "new/",
    "f/x",
    "missing/x",
    "/f",
    "out",
    "out/x",
    "abs",
    "loop",
    "a/b/..",
];

/// Targets of symlinks.
const TARGETS: [&str; 14] = [
    "f", "a", "a/f", "../f", "../a/b", "b", "missing", "new", "..", ".", "/f", "\"\"", "a/", "l",
];

/// Flags to open with.
const FLAGS: [&str; 20] = [
    "fr", "fw", "frw", "r", "rw", "frwc", "fwc", "rwc", "frwcx", "wcx", "frwt", "fwct", "rwct",
    "frd", "rd", "frt", "frc", "frcd", "fwd", "frwctx",
];

/// The first operations of every script, which open handles.
const START: &str = "open 2 0 f frw\nopen 3 0 a rd\nopen 4 0 a/b/g frw\nopen 5 0 new frwc\n";

pub(crate) fn run(data: &[u8]) {
    compare(&script_of(data));
}

/// Returns the number of operations of a script.
#[allow(dead_code, reason = "the fuzz target does not count")]
pub(crate) fn operations(data: &[u8]) -> usize {
    script_of(data).lines().count()
}

/// Checks that a script has the same results in a view and on disk.
pub(crate) fn compare(script: &str) {
    let Fixture {
        host,
        runtime,
        skill,
        ..
    } = Fixture::shared();
    let mut arguments = Map::new();
    arguments.insert("skill_name".to_owned(), Value::from("s"));
    arguments.insert("script".to_owned(), Value::from(script));
    let answer = runtime.block_on(host.call("scripted_run", Value::Object(arguments)));
    let actual = answer
        .map(|output| output.text().to_owned())
        .unwrap_or_else(|error| format!("{error:?}"));

    let folders = TempDir::new().unwrap();
    let on_disk = folders.path().join("s");
    make_skill(&on_disk);
    fs::create_dir(folders.path().join("tmp")).unwrap();
    let mut disk = Disk::new(&on_disk, &folders.path().join("tmp"));
    let expected = script::run(script, &mut disk);

    if actual != expected {
        let mut before = String::new();
        for ((line, actual), expected) in script.lines().zip(actual.lines()).zip(expected.lines()) {
            if actual != expected {
                panic!("{before}{line}\n  is  {actual}\n  not {expected}");
            }
            let _ = writeln!(before, "{line} -> {actual}");
        }
        panic!("{script}: {actual}");
    }
    assert_eq!(
        disk::listing(skill),
        Fixture::shared().original,
        "the disk has changed"
    );
}

/// The parts that all runs share: a host over a skill.
struct Fixture {
    host: Host,
    runtime: Runtime,
    skill: std::path::PathBuf,
    /// The listing of the skill before all runs.
    original: String,
    _folders: TempDir,
}

impl Fixture {
    fn shared() -> &'static Self {
        static FIXTURE: OnceLock<Fixture> = OnceLock::new();
        FIXTURE.get_or_init(|| {
            let folders = TempDir::new().unwrap();
            let skill = folders.path().join("skills/s");
            fs::create_dir(folders.path().join("skills")).unwrap();
            make_skill(&skill);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            let tools = folders.path().join("tools");
            fs::create_dir(&tools).unwrap();
            let bytes = include_bytes!("../../guests/dist/scripted.wasm");
            fs::write(tools.join("scripted.wasm"), bytes).unwrap();
            let grant = Grant::new()
                .skills(["*"])
                .unwrap()
                .view(FolderAccess::CopyOnWrite);
            let host = Host::builder()
                .skills(folders.path().join("skills"))
                .tools(tools)
                .grant("scripted.wasm", grant);
            // Use the tests' cache, because compiling takes longer than all the calls.
            let host = match option_env!("CARGO_TARGET_TMPDIR") {
                Some(folder) => host.cache(Path::new(folder).join("cache")),
                None => host,
            };
            let host = runtime.block_on(host.build()).unwrap();
            assert_eq!(host.problems(), [] as [String; 0]);
            Self {
                host,
                original: disk::listing(&skill),
                runtime,
                skill,
                _folders: folders,
            }
        })
    }
}

/// Makes the folder in which scripts start.
fn make_skill(at: &Path) {
    fs::create_dir_all(at.join("a/b")).unwrap();
    fs::create_dir(at.join("c")).unwrap();
    fs::write(at.join("SKILL.md"), "---\nname: s\ndescription: S.\n---\n").unwrap();
    fs::write(at.join("f"), "hello").unwrap();
    fs::write(at.join("a/f"), "deep").unwrap();
    fs::write(at.join("a/b/g"), [b'x'; 5000]).unwrap();
    for (link, target) in [
        ("l", "f"),
        ("dl", "a"),
        ("a/l", "../f"),
        ("out", "../outside"),
        ("abs", "/etc/passwd"),
        ("loop", "loop"),
    ] {
        symlink(target, at.join(link)).unwrap();
    }
}

/// Reads choices from an input. Past the input's end, each choice is the first.
struct Choice<'a>(std::slice::Iter<'a, u8>);

impl<'a> Choice<'a> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or_default()
    }

    fn pick(&mut self, choices: &[&'static str]) -> &'static str {
        choices[usize::from(self.byte()) % choices.len()]
    }

    fn path(&mut self) -> &'static str {
        self.pick(&PATHS)
    }

    /// Selects a handle, mostly of the skill's folder.
    fn base(&mut self) -> usize {
        match self.byte() % 16 {
            0..9 => 0,
            9..11 => 1,
            11..14 => 3,
            slot => usize::from(slot) - 9,
        }
    }

    fn slot(&mut self) -> usize {
        usize::from(self.byte() % 4) + 2
    }

    fn size(&mut self) -> u32 {
        const SIZES: [u32; 8] = [0, 1, 4, 7, 100, 4096, 5000, 70_000];
        SIZES[usize::from(self.byte()) % SIZES.len()]
    }
}

/// Makes the script of an input.
fn script_of(data: &[u8]) -> String {
    let mut choice = Choice(data.iter());
    let mut script = START.to_owned();
    for _ in 0..MAX_OPERATIONS {
        if choice.0.as_slice().is_empty() {
            break;
        }
        let c = &mut choice;
        let line = match c.byte() % 36 {
            0..6 => format!(
                "open {} {} {} {}",
                c.slot(),
                c.base(),
                c.path(),
                c.pick(&FLAGS)
            ),
            6 => format!("close {}", c.slot()),
            7 | 8 => format!("read {} {} {}", c.slot(), c.size(), c.size()),
            9 => format!("stream {} {} {}", c.slot(), c.size(), c.size()),
            10 | 11 => format!("write {} {} 65 {}", c.slot(), c.size(), c.size() % 5001),
            12 => format!("pour {} {} 66 {}", c.slot(), c.size(), c.size() % 5001),
            13 => format!("append {} 67 {}", c.slot(), c.size() % 5001),
            14 => format!("size {} {}", c.slot(), c.size()),
            15 => format!("stat {}", c.slot()),
            16 => format!("stat-at {} {} f", c.base(), c.path()),
            17 => format!("stat-at {} {} -", c.base(), c.path()),
            18 | 19 => format!("list {}", c.base()),
            20 => format!("mkdir {} {}", c.base(), c.path()),
            21 => format!("rmdir {} {}", c.base(), c.path()),
            22 | 23 => format!("unlink {} {}", c.base(), c.path()),
            24..28 => format!("rename {} {} {} {}", c.base(), c.path(), c.base(), c.path()),
            28 => format!("symlink {} {} {}", c.base(), c.path(), c.pick(&TARGETS)),
            29 => format!(
                "link {} {} {} {} {}",
                c.base(),
                c.path(),
                c.pick(&["f", "-"]),
                c.base(),
                c.path()
            ),
            30 => format!("readlink {} {}", c.base(), c.path()),
            31 => format!(
                "times {} {} {}",
                c.slot(),
                c.pick(&["5", "-"]),
                c.pick(&["7", "9", "-"])
            ),
            32 => format!(
                "times-at {} {} {} 6 {}",
                c.base(),
                c.path(),
                c.pick(&["f", "-"]),
                c.pick(&["8", "-"])
            ),
            33 => format!("same {} {}", c.slot(), c.slot()),
            34 => format!(
                "lies-at {} {} {} {}",
                c.slot(),
                c.base(),
                c.path(),
                c.pick(&["f", "-"])
            ),
            _ => format!("tree {}", c.byte() % 2),
        };
        script.push_str(&line);
        script.push('\n');
    }
    script + "tree 0\ntree 1\n"
}
