//! A whole call of each of the five tools, with any arguments, over a folder
//! with everything in it that leads astray, and a canary beside it. The first
//! letter says which tool. What follows is the arguments as JSON, or, after a
//! line end, one to a line: the skill, the path, the offset, the limit.
//! `{ROOT}`, `{OUTSIDE}` and `{HOME}` stand for where these folders are.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Map, Value};
use skillhost::{AuditMode, CallError, Host, Output, message, parse_arguments};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// What stands outside every skill.
const CANARY: &str = "CANARY-7f3a";

/// How files of the host begin that symlinks lead to.
const HOST_FILES: [&str; 2] = ["root:x:0", "PATH=/"];

/// The five tools, with the names of their skill, path, offset and limit.
const TOOLS: [(&str, [&str; 4]); 5] = [
    ("read_file_in_skill", ["skill_name", "file_path", "-", "-"]),
    ("get_skill", ["skill_name", "-", "-", "-"]),
    ("read_skill_file", ["skill_name", "path", "offset", "limit"]),
    ("read_skill", ["skill_name", "-", "-", "-"]),
    ("list_skills", ["-", "-", "-", "-"]),
];

pub(crate) fn run(data: &[u8]) {
    let World {
        runtime,
        host,
        audit,
        base,
        ..
    } = world();
    let text = String::from_utf8_lossy(data);
    let mut letters = text.chars();
    let first = letters.next().unwrap_or('0');
    let given = letters.as_str();
    let filled = fill_in(given, base);
    let (tool, names) = match u32::from(first) as usize % 6 {
        5 => (given, TOOLS[0].1),
        number => TOOLS[number],
    };
    let arguments = match filled.strip_prefix('\n') {
        Some(lines) => named(names, lines),
        None => match parse_arguments(&filled) {
            Ok(arguments) => arguments,
            Err(CallError::Arguments(why)) if !why.is_empty() => return,
            Err(other) => panic!("{other:?}: {text:?}"),
        },
    };
    let line = message::call_line(tool, &arguments);
    assert!(!line.contains('\n'), "{line:?}: {text:?}");

    let outcome = runtime.block_on(host.call(tool, arguments));
    typed(tool, &outcome, &text);
    let record = record(audit, &text);
    let shown = message::result_line(&message::model_text(outcome.clone()));
    let mut below = shown.split('\n').skip(1);
    assert!(below.all(|line| line.starts_with("    ")), "{shown:?}");

    let program = message::program_text(&outcome);
    let object: Value = serde_json::from_str(&program).unwrap();
    assert!(object.is_object(), "{program}: {text:?}");
    let told = format!("{shown}\n{program}\n{outcome:?}\n{record}");
    for secret in HOST_FILES.into_iter().chain([CANARY]) {
        let echoed = given.contains(secret);
        assert!(echoed || !told.contains(secret), "{told:?}: {text:?}");
    }
    // Who was not told where the folders are is not told now.
    let base = base.to_str().unwrap();
    let knew = filled.contains(base);
    assert!(knew || !told.contains(base), "{told:?}: {text:?}");
}

/// The outcome is one of those that the host's own tools can have. They never
/// break off, and run into no limit.
fn typed(tool: &str, outcome: &Result<Output, CallError>, text: &str) {
    let known = TOOLS.iter().any(|(name, _)| *name == tool);
    let right = match outcome {
        Ok(_) => known,
        Err(CallError::UnknownTool { name, .. }) => !known && name.chars().count() <= 64,
        Err(CallError::Arguments(why)) => known && !why.is_empty(),
        Err(CallError::Failed(failure)) => known && !failure.message.is_empty(),
        Err(_) => false,
    };
    assert!(right, "{outcome:?}: {text:?}");
}

/// The record of the one call since the last time, taken out of the log.
fn record(mut audit: &File, text: &str) -> String {
    let mut record = String::new();
    audit.rewind().unwrap();
    audit.read_to_string(&mut record).unwrap();
    audit.set_len(0).unwrap();
    let line = record.strip_suffix('\n').unwrap();
    let object: Value = serde_json::from_str(line).unwrap();
    assert!(object.is_object(), "{record:?}: {text:?}");
    assert!(!line.contains(char::is_control), "{record:?}: {text:?}");
    record
}

/// Arguments of these names, from lines. Numbers are numbers.
fn named(names: [&str; 4], lines: &str) -> Value {
    let mut arguments = Map::new();
    for (name, line) in names.into_iter().zip(lines.split('\n')) {
        let number: Option<i64> = line.parse().ok();
        let value = match (name, number) {
            ("-", _) => continue,
            ("offset" | "limit", Some(number)) => number.into(),
            _ => line.into(),
        };
        arguments.insert(name.to_owned(), value);
    }
    arguments.into()
}

fn fill_in(text: &str, base: &Path) -> String {
    let place = |name: &str| base.join(name).display().to_string();
    text.replace("{ROOT}", &place("skills"))
        .replace("{OUTSIDE}", &place("outside"))
        .replace("{HOME}", &place("home"))
}

struct World {
    runtime: Runtime,
    host: Host,
    audit: File,
    base: PathBuf,
    /// Kept, so that the folders are.
    _folder: TempDir,
}

/// One for the process: compiling the tools takes longer than calling them.
fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        fs::create_dir(base.join("outside")).unwrap();
        fs::write(base.join("outside/canary.txt"), CANARY).unwrap();
        fs::write(base.join("outside/SKILL.md"), CANARY).unwrap();
        make(&base, "skills/a");
        make(&base, "skills/b");
        make(&base, "home");
        symlink("../outside", base.join("skills/linked")).unwrap();
        fs::write(base.join("skills/plain.txt"), CANARY).unwrap();
        let log = base.join("audit.jsonl");
        let host = Host::builder()
            .skills(base.join("skills"))
            .home(base.join("home"))
            .audit(&log, AuditMode::Required)
            .build();
        let host = runtime.block_on(host).unwrap();
        let audit = OpenOptions::new().read(true).write(true).open(&log);
        World {
            runtime,
            host,
            audit: audit.unwrap(),
            base,
            _folder: folder,
        }
    })
}

/// A skill, or the home folder.
fn make(base: &Path, folder: &str) {
    let outside = base.join("outside");
    let folder = base.join(folder);
    fs::create_dir_all(folder.join("docs/deep")).unwrap();
    for (file, content) in [
        (
            "SKILL.md",
            &b"---\nname: a\ndescription: Says so.\n---\n# A\n"[..],
        ),
        ("lines.txt", b"one\ntwo\r\n\nfour"),
        ("docs/inside.txt", b"inside\n"),
        ("docs/deep/utf16.txt", b"\xff\xfea\0b\0"),
        ("docs/latin1.txt", b"gr\xfc\xdfe\n"),
        ("binary.bin", b"\0\xff\x01"),
        ("empty", b""),
        ("back\\slash", b"one name\n"),
        ("gr\u{f6}\u{df}e.txt", b"inside\n"),
    ] {
        fs::write(folder.join(file), content).unwrap();
    }
    for (link, target) in [
        ("in", "docs/inside.txt"),
        ("out", "../../outside/canary.txt"),
        ("up", ".."),
        ("here", "."),
        ("root", "/"),
        ("passwd", "/etc/passwd"),
        ("environ", "/proc/self/environ"),
        ("self", "/proc/self/root"),
        ("loop", "loop"),
        ("nowhere", "missing"),
        ("docs/up", "../../.."),
    ] {
        symlink(target, folder.join(link)).unwrap();
    }
    symlink(&outside, folder.join("outside")).unwrap();
    fs::hard_link(outside.join("canary.txt"), folder.join("hard")).unwrap();
    mknodat(CWD, folder.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
}
