//! The path suite. It tries every path and skill name of `vectors/paths.json` with the string
//! check alone, with the sandbox alone (through the unchecked guest), and with each tool. It runs
//! with `openat2` available, missing and forbidden. No call may read anything outside the skill
//! or learn about the host.
//!
//! `SKILLHOST_REWRITE_PATHS=1 cargo test paths::` writes the results into the file. Review the
//! difference.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, ResolveFlags};
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use skillhost::{CallError, FailureKind, Grant, Host, Output, Stop};
use skillhost_guest::{PathError, SkillPath, check_skill_name};

use crate::support::filter::{Answer, answer_openat2_with};
use crate::support::folders::{CANARY, Folders};
use crate::support::{
    build, builder_with_guests, call, own_process_argument, repository, run_in_own_process,
};

/// The text of every file inside the skill.
const INSIDE: &str = "INSIDE-91c2\n";

/// The text of another skill, which only the host for names may read.
const ANOTHER: &str = "ANOTHER-55d0\n";

/// A file of the host.
const HOST_FILE: &str = "/etc/passwd";

/// The tools that take a path. Each is a column of the table.
const PATH_TOOLS: [&str; 9] = [
    "raw_read",
    "raw_answer",
    "raw_stat",
    "raw_list",
    "raw_readlink",
    "read_file_in_skill",
    "read_skill_file",
    "list_files_in_skill",
    // This is `read_skill_file` without a skill's name.
    "home",
];

/// The tools that take a skill's name.
const NAME_TOOLS: [&str; 8] = [
    "raw_read",
    "raw_answer",
    "raw_mounts",
    "read_file_in_skill",
    "get_skill",
    "read_skill_file",
    "read_skill",
    "list_files_in_skill",
];

/// Makes a skill with all kinds of files and links that could lead a path outside.
fn make_skill(folder: &Path, outside: &Path) {
    let file = |path: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, INSIDE).unwrap();
    };
    let link = |name: &str, target: &str| symlink(target, folder.join(name)).unwrap();
    let absolute = |path: &Path, inside: &str| path.join(inside).display().to_string();
    for inside in [
        "SKILL.md",
        "config.json",
        "docs/inside.txt",
        "docs/deep/er/inside.txt",
        "..dots",
        "dots..",
        "...",
        "trailing.",
        "trailing ",
        "back\\slash.txt",
        "gr\u{f6}\u{df}e.txt",
        "NUL",
        "file:stream",
        "~/home.txt",
        ".hidden",
    ] {
        file(inside);
    }
    link("link", "docs/inside.txt");
    link("link-up-and-down", "docs/../docs/inside.txt");
    link("link-here", ".");
    link("link-up", "..");
    link("link-docs", "docs");
    link("docs/link-up-inside", "../config.json");
    link("docs/link-up-outside", "../../ab/secret.txt");
    link("link-out-and-back", "../a/docs/inside.txt");
    link("link-slash-file", "docs/inside.txt/");
    link("link-slash-folder", "docs/");
    link("link-slash-chain", "link-slash-file");
    link("link-slash-link", "link/");
    link("link-slash-here", "./");
    link("out-slash-file", "../../outside/canary.txt/");
    link("out-slash-folder", "../../outside/");
    link("out-slash-absolute", &format!("{}/", absolute(outside, "")));
    link("out-slash-up", "../");
    link("out-relative", "../../outside/canary.txt");
    link("out-absolute", &absolute(outside, "canary.txt"));
    link("in-absolute", &absolute(folder, "docs/inside.txt"));
    link("out-folder", "../../outside");
    link("out-folder-absolute", &absolute(outside, ""));
    link("sibling", "../ab");
    link("root", "/");
    link("etc", "/etc");
    link("proc-root", "/proc/self/root");
    link("proc-fd", "/proc/self/fd");
    link("proc-fd-0", "/proc/self/fd/0");
    link("proc-cwd", "/proc/self/cwd");
    link("environ", "/proc/self/environ");
    link("loop", "loop");
    link("loop-a", "loop-b");
    link("loop-b", "loop-a");
    link("dangling", "nowhere.txt");
    link("dangling-out", "../../nowhere.txt");
    link("dangling-absolute", "/nowhere.txt");
    // `chain-40` reaches the file through 40 links.
    link("chain-1", "docs/inside.txt");
    for length in 2..=41 {
        let target = format!("chain-{}", length - 1);
        link(&format!("chain-{length}"), &target);
    }
    link("chain-out-1", "out-relative");
    link("chain-out-2", "chain-out-1");
    fs::hard_link(outside.join("canary.txt"), folder.join("hard-link")).unwrap();
    rustix::fs::mknodat(CWD, folder.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    UnixListener::bind(folder.join("socket")).unwrap();
}

struct Suite {
    folders: Folders,
    /// The host for paths: the tools may read `a` and the home folder.
    granted_a: Host,
    /// The host for names: the tools may read every skill.
    granted_all: Host,
    /// True if `openat2` is unavailable.
    without_openat2: bool,
}

impl Suite {
    fn new() -> Self {
        let folders = Folders::new();
        make_skill(&folders.root.join("a"), &folders.outside);
        let home = folders.root.parent().unwrap().join("home");
        make_skill(&home, &folders.outside);
        let named = "---\nname: a\ndescription: says it is another\n---\n";
        folders.write("ab/SKILL.md", format!("{named}{ANOTHER}"));
        folders.write("ab/secret.txt", CANARY);
        folders.write("a.bak/SKILL.md", ANOTHER);
        folders.write(".hidden/SKILL.md", CANARY);
        symlink(&folders.outside, folders.root.join("linked")).unwrap();
        symlink("a", folders.root.join("linked-inside")).unwrap();
        symlink("linked", folders.root.join("linked-twice")).unwrap();
        fs::write(folders.outside.join("SKILL.md"), CANARY).unwrap();
        fs::write(folders.root.join("plain-file"), CANARY).unwrap();
        let host = || builder_with_guests().skills(&folders.root).home(&home);
        let components = [
            "unchecked.wasm",
            "hostile.wasm",
            "read_file_in_skill",
            "read_skill_file",
            "list_files_in_skill",
        ];
        let only_a = components.into_iter().fold(host(), |host, component| {
            host.grant(component, Grant::new().skills(["a"]).unwrap())
        });
        Self {
            granted_a: build(only_a),
            granted_all: build(host()),
            folders,
            without_openat2: false,
        }
    }

    /// Runs every row. Fails at the end if a result differs from the file.
    fn run(&self) {
        let file = repository().join("tests/vectors/paths.json");
        let mut table: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let mut differences = Vec::new();
        for (rows, input, tools) in [
            ("paths", "path", &PATH_TOOLS[..]),
            ("names", "name", &NAME_TOOLS),
        ] {
            for row in table[rows].as_array_mut().unwrap() {
                let row = row.as_object_mut().unwrap();
                let value = self.text(&row[input]);
                let checked = if rows == "paths" {
                    check(&value)
                } else {
                    check_name(&value)
                };
                self.compare(row, "check", checked, &mut differences);
                for tool in tools {
                    let seen = if rows == "paths" {
                        self.call_with_path(tool, &value)
                    } else {
                        self.call_with_name(tool, &value)
                    };
                    self.assert_reveals_nothing(&value, tool, &seen);
                    let ended = outcome(tool, seen);
                    assert!(
                        !matches!(&*ended, "read" | "seen")
                            || checked != "outside"
                            || tool.starts_with("raw")
                            // The host turns an absolute path into a relative one.
                            || *tool == "home",
                        "{tool} reads what the string check refuses: {value:?}"
                    );
                    self.compare(row, tool, &ended, &mut differences);
                }
            }
        }
        self.assert_follows_no_link_unasked();
        if std::env::var_os("SKILLHOST_REWRITE_PATHS").is_some() {
            fs::write(file, format_table(&table)).unwrap();
        } else {
            assert!(differences.is_empty(), "{}", differences.join("\n"));
        }
    }

    /// Checks that a guest that does not follow links enters only real folders.
    fn assert_follows_no_link_unasked(&self) {
        for (name, depth) in [
            ("docs", 1),
            ("link-here", 0),
            ("link-docs", 0),
            ("out-folder", 0),
        ] {
            let arguments = json!({"skill_name": "a", "path": name});
            let went = call(&self.granted_a, "hostile_descend", arguments).unwrap();
            assert_eq!(went.text(), format!("went down {depth}"), "{name}");
        }
    }

    /// Compares an outcome with a cell of the table, and updates the row.
    fn compare(
        &self,
        row: &mut Map<String, Value>,
        column: &str,
        seen: &str,
        differences: &mut Vec<String>,
    ) {
        let key = format!("{column}, without openat2");
        let usual = row.get(column).and_then(Value::as_str).map(str::to_owned);
        let expected = match row.get(&key).and_then(Value::as_str) {
            Some(other) if self.without_openat2 => Some(other.to_owned()),
            _ => usual.clone(),
        };
        if expected.as_deref() == Some(seen) {
            return;
        }
        differences.push(format!(
            "{}: {column}: {seen:?}, not {expected:?}",
            row["what"]
        ));
        if !self.without_openat2 {
            row.insert(column.to_owned(), seen.into());
        } else if usual.as_deref() == Some(seen) {
            row.remove(&key);
        } else {
            row.insert(key, seen.into());
        }
    }

    /// Returns a string of the table: a text, or a repeated part and the text after it.
    fn text(&self, value: &Value) -> String {
        let text = match value {
            Value::String(text) => text.clone(),
            parts => {
                let part = |name: &str| parts[name].as_str().unwrap_or_default();
                let times = usize::try_from(parts["times"].as_u64().unwrap()).unwrap();
                part("repeat").repeat(times) + part("then")
            }
        };
        self.folders.fill_in(&text)
    }

    fn call_with_path(&self, tool: &str, path: &str) -> Result<Output, CallError> {
        match tool {
            "home" => call(&self.granted_a, "read_skill_file", json!({"path": path})),
            "read_file_in_skill" => call(
                &self.granted_a,
                tool,
                json!({"skill_name": "a", "file_path": path}),
            ),
            _ => call(
                &self.granted_a,
                tool,
                json!({"skill_name": "a", "path": path}),
            ),
        }
    }

    fn call_with_name(&self, tool: &str, name: &str) -> Result<Output, CallError> {
        let mut arguments = json!({"skill_name": name});
        match tool {
            "get_skill" | "read_skill" | "list_files_in_skill" => {}
            "read_file_in_skill" => arguments["file_path"] = "SKILL.md".into(),
            _ => arguments["path"] = "SKILL.md".into(),
        }
        call(&self.granted_all, tool, arguments)
    }

    /// Checks that a result has no byte from outside and no host path, except what the caller
    /// wrote.
    fn assert_reveals_nothing(&self, given: &str, tool: &str, seen: &Result<Output, CallError>) {
        let record = match seen {
            Ok(output) => output.record(),
            Err(error) => error.record(),
        };
        let text = skillhost::message::model_text(seen.clone());
        let mut text = format!("{text}\n{record}\n{seen:?}");
        if !given.is_empty() {
            let in_json = Value::from(given).to_string();
            for echo in [
                given,
                in_json.trim_matches('"'),
                in_json.replace('\\', "\\\\").trim_matches('"'),
                format!("{given:?}").trim_matches('"'),
            ] {
                text = text.replace(echo, "");
            }
        }
        let base = self.folders.root.parent().unwrap().to_str().unwrap();
        for secret in [CANARY, base, "root:x:0", HOST_FILE] {
            // The result may show the caller's path in another form.
            let echoed = given.contains(secret) && secret != CANARY;
            assert!(
                echoed || !text.contains(secret),
                "{tool} {given:?} reveals {secret}: {text}"
            );
        }
    }
}

/// Returns the result of the string check alone.
fn check(path: &str) -> &'static str {
    match SkillPath::new(path) {
        Ok(_) => "inside",
        Err(PathError::Outside) => "outside",
        Err(PathError::ControlCharacter) => "control",
        Err(PathError::Empty) => "empty",
    }
}

fn check_name(name: &str) -> &'static str {
    if check_skill_name(name) {
        "a name"
    } else {
        "no name"
    }
}

/// Returns the result of a call in a word.
fn outcome(tool: &str, seen: Result<Output, CallError>) -> String {
    match seen {
        Ok(output) => {
            let text = output.text();
            let record = output.record().to_string();
            match tool {
                "raw_stat" | "raw_list" | "raw_readlink" | "list_files_in_skill" => {
                    "seen".to_owned()
                }
                "raw_mounts" if text.is_empty() => "nothing".to_owned(),
                "raw_mounts" => text.to_owned(),
                _ if text == INSIDE || record.contains(INSIDE.trim_end()) => "read".to_owned(),
                _ if record.contains(ANOTHER.trim_end()) => "another".to_owned(),
                _ => format!("answered {text:?}"),
            }
        }
        Err(CallError::Failed(failure)) if tool.starts_with("raw") => failure.message,
        Err(CallError::Failed(failure)) => match failure.kind {
            FailureKind::InvalidArguments => "invalid-arguments",
            FailureKind::NotFound => "not-found",
            FailureKind::Refused => "refused",
            FailureKind::Unreadable => "unreadable",
            _ => "failed",
        }
        .to_owned(),
        Err(CallError::Stopped {
            stop: Stop::NotGranted { .. },
            ..
        }) => "not-granted".to_owned(),
        Err(CallError::Stopped { stop, .. }) => format!("stopped: {stop}"),
        Err(other) => other.to_string().chars().take(60).collect(),
    }
}

/// Formats the table with one row per line, in ASCII, because some characters change how a line is
/// displayed.
fn format_table(table: &Value) -> String {
    let mut text = String::from("{\n");
    for (number, (name, rows)) in table.as_object().unwrap().iter().enumerate() {
        let rows: Vec<String> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| format!("  {row}"))
            .collect();
        if number > 0 {
            text.push_str(",\n");
        }
        text.push_str(&format!("{:?}: [\n{}\n]", name, rows.join(",\n")));
    }
    text.push_str("\n}\n");
    let mut ascii = String::new();
    for c in text.chars() {
        if c.is_ascii() && c != '\u{7f}' {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    ascii
}

#[test]
fn no_path_leads_out_of_a_skill() {
    Suite::new().run();
}

#[test]
fn listing_shows_only_folders_of_the_root() {
    let suite = Suite::new();
    let listed = call(&suite.granted_all, "list_skills", json!({}));
    suite.assert_reveals_nothing("", "list_skills", &listed);
    let record = listed.unwrap().record();
    let names: Vec<&str> = record["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| skill["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "a.bak", "ab"]);
}

/// Runs the suite in a process where every `openat2` gets this answer.
fn without_openat2(test: &str, answer: Answer, errno: Errno) {
    if own_process_argument().is_none() {
        run_in_own_process(test, "without openat2");
        return;
    }
    answer_openat2_with(answer);
    let opened = rustix::fs::openat2(
        CWD,
        "/",
        rustix::fs::OFlags::PATH,
        Mode::empty(),
        ResolveFlags::empty(),
    );
    assert_eq!(opened.err(), Some(errno));
    let mut suite = Suite::new();
    suite.without_openat2 = true;
    suite.run();
}

#[test]
fn no_path_leads_out_with_openat2_unknown() {
    without_openat2(
        "paths::no_path_leads_out_with_openat2_unknown",
        Answer::Unknown,
        Errno::NOSYS,
    );
}

#[test]
fn no_path_leads_out_with_openat2_forbidden() {
    without_openat2(
        "paths::no_path_leads_out_with_openat2_forbidden",
        Answer::Forbidden,
        Errno::PERM,
    );
}
