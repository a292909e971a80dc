//! Calls a tool with any arguments, on a folder full of hostile files with a canary beside it.
//!
//! The first letter selects a tool. The arguments follow as JSON or, after a line feed, one a
//! line: skill, path, offset, limit. After `r`, the next letter selects a tool of the guest that
//! checks nothing; after `f`, a function of the guest that echoes. `l` selects the tool that lists
//! files. `{ROOT}`, `{OUTSIDE}` and `{HOME}` stand for the paths of these folders.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Map, Value};
use skillhost::line::is_hidden;
use skillhost::{AuditMode, CallError, Grant, Host, Output, message, parse_arguments};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The text of the file outside every skill.
const CANARY: &str = "CANARY-7f3a";

/// The first bytes of host files that symlinks lead to.
const HOST_FILES: [&str; 2] = ["root:x:0", "PATH=/"];

/// The tools of the contracts, with the names of their skill, path, offset and limit.
const TOOLS: [(&str, [&str; 4]); 5] = [
    ("read_file_in_skill", ["skill_name", "file_path", "-", "-"]),
    ("get_skill", ["skill_name", "-", "-", "-"]),
    ("read_skill_file", ["skill_name", "path", "offset", "limit"]),
    ("read_skill", ["skill_name", "-", "-", "-"]),
    ("list_skills", ["query", "cursor", "-", "limit"]),
];

/// The tool that lists a skill's files.
const LISTING: (&str, [&str; 4]) = (
    "list_files_in_skill",
    ["skill_name", "path", "depth", "after"],
);

/// Tools that pass the path to the host unchanged.
const RAW: [&str; 5] = [
    "raw_read",
    "raw_answer",
    "raw_stat",
    "raw_list",
    "raw_readlink",
];

/// Functions with WIT types that echo their argument.
const ECHOES: [&str; 26] = [
    "echo_bool",
    "echo_s8",
    "echo_u8",
    "echo_s16",
    "echo_u16",
    "echo_s32",
    "echo_u32",
    "echo_s64",
    "echo_u64",
    "echo_f32",
    "echo_f64",
    "echo_char",
    "echo_string",
    "echo_bytes",
    "echo_list",
    "echo_lists",
    "echo_tuple",
    "echo_record",
    "echo_variant",
    "echo_enum",
    "echo_flags",
    "echo_option",
    "echo_options",
    "echo_list_of_options",
    "echo_results",
    "echo_bare_results",
];

/// Third-party components: one that checks nothing, and one with functions of every type.
const THIRD_PARTY: [(&str, &[u8]); 2] = [
    (
        "unchecked.wasm",
        include_bytes!("../../guests/dist/unchecked.wasm"),
    ),
    ("typed.wasm", include_bytes!("../../guests/dist/typed.wasm")),
];

type Outcome = Result<Output, CallError>;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut letters = text.chars();
    let mut next = || letters.next().unwrap_or('0');
    let (tool, names) = match next() {
        'r' => (
            RAW[u32::from(next()) as usize % 5],
            ["skill_name", "path", "-", "-"],
        ),
        'f' => (
            ECHOES[u32::from(next()) as usize % 26],
            ["value", "-", "-", "-"],
        ),
        'l' => LISTING,
        first => match u32::from(first) as usize % 6 {
            5 => ("", TOOLS[0].1),
            number => TOOLS[number],
        },
    };
    let given = letters.as_str();
    let tool = if tool.is_empty() { given } else { tool };
    let filled = fill_in(given, &setup().base);
    let arguments = match filled.strip_prefix('\n') {
        Some(lines) => named(names, lines),
        None => match parse_arguments(&filled) {
            Ok(arguments) => arguments,
            Err(CallError::Arguments(why)) if !why.is_empty() => return,
            Err(other) => panic!("{other:?}: {text:?}"),
        },
    };
    let outcome = call(tool, arguments.clone(), &text);
    if tool == "raw_answer" {
        let read = call("raw_read", arguments, &text);
        check_same_file(&outcome, &read, &text);
    } else if ECHOES.contains(&tool) {
        check_echo(tool, &outcome, &text);
    }
}

/// Makes one call and checks that it reveals no secret.
fn call(tool: &str, arguments: Value, text: &str) -> Outcome {
    let Setup {
        runtime,
        host,
        audit,
        base,
        ..
    } = setup();
    // The unescaped input, to tell an echo from a leak.
    let given = format!("{tool} {arguments}");
    let line = message::call_line(tool, &arguments);
    assert!(!line.as_str().contains(is_hidden), "{line:?}: {text:?}");

    let outcome = runtime.block_on(host.call(tool, arguments));
    check_outcome(tool, &outcome, text);
    let record = record(audit, text);
    let shown = message::result_lines(&message::model_text(outcome.clone()));
    let mut below = shown.iter().skip(1);
    assert!(
        below.all(|line| line.as_str().starts_with("    ")),
        "{shown:?}"
    );

    let program = message::program_text(&outcome);
    let object: Value = serde_json::from_str(&program).unwrap();
    assert!(object.is_object(), "{program}: {text:?}");
    let revealed = format!("{shown:?}\n{program}\n{outcome:?}\n{record}");
    for secret in HOST_FILES.into_iter().chain([CANARY]) {
        let echoed = given.contains(secret);
        assert!(
            echoed || !revealed.contains(secret),
            "{revealed:?}: {text:?}"
        );
    }
    // A caller that did not spell the folder's random name does not know the path, and must not
    // learn it. The path before the name can be spelled in many ways.
    let name = base.file_name().and_then(OsStr::to_str).unwrap();
    let base = base.to_str().unwrap();
    let knew = given.contains(name);
    assert!(knew || !revealed.contains(base), "{revealed:?}: {text:?}");
    outcome
}

/// Checks that the outcome is one that these tools can have: they never trap, and reach no limit.
fn check_outcome(tool: &str, outcome: &Outcome, text: &str) {
    let mut built_in = TOOLS.iter().chain([&LISTING]);
    let fails = RAW.contains(&tool) || built_in.any(|(name, _)| *name == tool);
    let known = fails || ECHOES.contains(&tool);
    let right = match outcome {
        Ok(_) => known,
        Err(CallError::UnknownTool { name, .. }) => !known && name.chars().count() <= 64,
        Err(CallError::Arguments(why)) => known && !why.is_empty(),
        Err(CallError::Failed(failure)) => fails && !failure.message.is_empty(),
        Err(_) => false,
    };
    assert!(right, "{outcome:?}: {text:?}");
}

/// Checks that a file that the host can return can also be read, with the same text.
fn check_same_file(answer: &Outcome, read: &Outcome, text: &str) {
    let right = match (answer, read) {
        (Ok(answer), Ok(read)) => {
            let read = read.text();
            answer.text() == read.strip_prefix('\u{feff}').unwrap_or(read)
        }
        (Err(CallError::Failed(why)), Ok(_)) => why.message == "not-utf8",
        (answer, read) => answer.is_err() && read.is_err(),
    };
    assert!(right, "{answer:?}, {read:?}: {text:?}");
}

/// Checks that echoing an echo changes nothing.
fn check_echo(tool: &str, outcome: &Outcome, text: &str) {
    let Ok(output) = outcome else { return };
    let mut record = output.record();
    // A value that is not an object is the property `result` of the record.
    let value = match record.get_mut("result") {
        Some(result) => result.take(),
        None => record,
    };
    let again = call(
        tool,
        Map::from_iter([("value".to_owned(), value)]).into(),
        text,
    );
    let again = again.map(|again| again.record_json());
    assert_eq!(again, Ok(output.record_json()), "{text:?}");
}

/// Removes the last call's record from the log, and returns it. Another record before it may say
/// that the chain continues in a new file.
fn record(mut audit: &File, text: &str) -> String {
    let mut record = String::new();
    audit.rewind().unwrap();
    audit.read_to_string(&mut record).unwrap();
    audit.set_len(0).unwrap();
    assert!(
        record.ends_with('\n') && record.lines().count() <= 2,
        "{record:?}: {text:?}"
    );
    for line in record.lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        assert!(object.is_object(), "{record:?}: {text:?}");
        assert!(!line.contains(char::is_control), "{record:?}: {text:?}");
    }
    record
}

/// Returns arguments with these names from lines. A line of digits becomes a number.
fn named(names: [&str; 4], lines: &str) -> Value {
    let mut arguments = Map::new();
    for (name, line) in names.into_iter().zip(lines.split('\n')) {
        let number: Option<i64> = line.parse().ok();
        let value = match (name, number) {
            ("-", _) => continue,
            ("offset" | "limit" | "depth", Some(number)) => number.into(),
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

struct Setup {
    runtime: Runtime,
    host: Host,
    audit: File,
    base: PathBuf,
    /// Keeps the folders until the process ends.
    _folder: TempDir,
}

/// Returns the process's only setup, because compiling takes longer than calls.
fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        fs::create_dir(base.join("outside")).unwrap();
        fs::write(base.join("outside/canary.txt"), CANARY).unwrap();
        fs::write(base.join("outside/SKILL.md"), CANARY).unwrap();
        fs::create_dir(base.join("tools")).unwrap();
        for (name, bytes) in THIRD_PARTY {
            fs::write(base.join("tools").join(name), bytes).unwrap();
        }
        make(&base, "skills/a");
        make(&base, "skills/b");
        make(&base, "home");
        symlink("../outside", base.join("skills/linked")).unwrap();
        fs::write(base.join("skills/plain.txt"), CANARY).unwrap();
        let log = base.join("audit.jsonl");
        let host = Host::builder()
            .skills(base.join("skills"))
            .home(base.join("home"))
            .tools(base.join("tools"))
            .audit(&log, AuditMode::Required);
        // The tests' cache: compiling takes longer than all the calls.
        let host = match option_env!("CARGO_TARGET_TMPDIR") {
            Some(folder) => host.cache(Path::new(folder).join("cache")),
            None => host,
        };
        let all = || Grant::new().skills(["*"]).unwrap();
        let host = host.grant("unchecked.wasm", all());
        let host = runtime.block_on(host.build()).unwrap();
        assert_eq!(host.problems(), [] as [String; 0]);
        let audit = OpenOptions::new().read(true).write(true).open(&log);
        Setup {
            runtime,
            host,
            audit: audit.unwrap(),
            base,
            _folder: folder,
        }
    })
}

/// Makes a skill, or the home folder.
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
        ("mark.txt", b"\xef\xbb\xbf\xef\xbb\xbftext\n"),
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
