//! `skillhost audit show`: the newest records, counts, and following a log.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::ChildStdout;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::process::Process;
use crate::support::program::Program;

/// Makes a folder with two skills and a log of five calls.
fn program() -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("skills/b/SKILL.md", "# B\n");
    for skill in ["a", "b", "a", "none"] {
        call(&program, "read_skill", skill);
    }
    call(&program, "get_skill", "a");
    program
}

fn call(program: &Program, tool: &str, skill: &str) {
    let skill = format!("skill_name={skill}");
    let run = program.run(&["--audit", "log", "call", tool, &skill]);
    assert!(run.code <= 1, "{run:?}");
}

fn show(program: &Program, more: &[&str]) -> Vec<String> {
    let run = program.run(&[&["audit", "show", "log"], more].concat());
    assert_eq!((run.code, &*run.stderr), (0, ""), "{more:?}");
    run.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn shows_the_newest_records() {
    let program = program();
    let all = show(&program, &[]);
    assert_eq!(all.len(), 6, "{all:?}");
    let newest = show(&program, &["--limit", "2"]);
    assert_eq!(newest[..], [&all[..1], &all[4..]].concat());
    assert_eq!(show(&program, &["--limit", "9"]), all);
    let json = show(&program, &["--output", "json"]);
    assert_eq!(json.len(), 5);
    assert_eq!(
        show(&program, &["--output", "json", "--limit", "1"]),
        json[4..]
    );
    // The limit applies to the records that match.
    let of_b = show(&program, &["--limit", "1", "--skill", "b"]);
    assert_eq!(of_b[1..], all[2..3]);
    let none = show(&program, &["--skill", "x", "--output", "json"]);
    assert!(none.is_empty(), "{none:?}");
    for wrong in [
        &["--limit", "0"][..],
        &["--limit", "100001"],
        &["--by", "path"],
    ] {
        let run = program.run(&[&["audit", "show", "log"], wrong].concat());
        assert_eq!((run.code, &*run.stdout), (2, ""), "{wrong:?}");
    }
}

#[test]
fn counts_calls_by_skill_and_tool() {
    let program = program();
    let words = |line: &String| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        words[..3].join(" ")
    };
    let by = |field: &str| {
        show(&program, &["--by", field])
            .iter()
            .map(words)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        by("skill"),
        ["SKILL CALLS ERRORS", "a 3 0", "b 1 0", "none 1 1"]
    );
    assert_eq!(
        by("tool"),
        ["TOOL CALLS ERRORS", "read_skill 4 1", "get_skill 1 0"]
    );
    let json = show(&program, &["--by", "tool", "--output", "json"]);
    let first: Value = serde_json::from_str(&json[0]).unwrap();
    assert_eq!(
        json!([first["tool"], first["calls"], first["errors"]]),
        json!(["read_skill", 4, 1])
    );
    assert!(first["duration_us"].as_u64().unwrap() > 0, "{first}");
    let matching = show(&program, &["--by", "skill", "--tool", "get_skill"]);
    assert_eq!(matching.len(), 2, "{matching:?}");
}

#[test]
fn counts_calls_that_name_no_tool() {
    let program = program();
    let path = program.folder.path().join("log");
    let time = r#"{"time":"2026-11-30T00:00:00.000Z","id":null"#;
    let mut text = fs::read_to_string(&path).unwrap();
    for outcome in ["refused", "refused", "torn", "continued", "checkpoint"] {
        text += &format!("{time},\"tool\":\"\",\"outcome\":\"{outcome}\"}}\n");
    }
    fs::write(&path, text).unwrap();
    for field in ["tool", "skill"] {
        let run = program.run(&["audit", "show", "log", "--by", field, "--output", "json"]);
        let lines: Vec<&str> = run.stdout.lines().collect();
        let groups = lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let without: Vec<Value> = groups.filter(|group| group[field].is_null()).collect();
        assert_eq!(without.len(), 1, "{lines:?}");
        assert_eq!(without[0]["unchained"], 2, "{lines:?}");
    }
}

#[test]
fn reports_a_changed_record_once() {
    let program = program();
    let path = program.folder.path().join("log");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replacen("\"skill\":\"a\"", "\"skill\":\"c\"", 1),
    )
    .unwrap();
    let run = program.run(&["audit", "show", "log"]);
    let [message] = run.stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("{}", run.stderr);
    };
    for words in [
        "log:2: ",
        "4 records from there on are marked `unchained`",
        "audit verify",
    ] {
        assert!(message.contains(words), "{message}");
    }
}

/// Starts to follow the log. Returns the process and the lines that it prints.
fn follow(program: &Program, more: &[&str]) -> (Process, Lines<BufReader<ChildStdout>>) {
    let arguments = [&["audit", "show", "log", "--follow"], more].concat();
    let mut process = Process::start(&mut program.command(&arguments));
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    (process, lines)
}

#[test]
fn follows_a_log_through_rotations() {
    let program = program();
    let at = |path: &str| program.folder.path().join(path);
    let (process, mut lines) = follow(&program, &["--limit", "1"]);
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("TIME "));
    assert!(next().contains(" get_skill a - output "));
    // Each record is printed at once.
    for _ in 0..3 {
        call(&program, "read_skill", "b");
        assert!(next().contains(" read_skill b - output "));
    }
    fs::rename(at("log"), at("log.1")).unwrap();
    for _ in 0..3 {
        call(&program, "read_skill", "a");
        assert!(next().contains(" read_skill a - output "));
    }
    // Truncate the file, as logrotate's `copytruncate` does.
    let log = OpenOptions::new().write(true).open(at("log")).unwrap();
    log.set_len(0).unwrap();
    call(&program, "get_skill", "b");
    assert!(next().contains(" get_skill b - output "));
    // A record is printed only once its line is complete.
    let record = fs::read_to_string(at("log")).unwrap();
    let record = record
        .lines()
        .last()
        .unwrap()
        .replace("get_skill", "half_skill");
    let (start, end) = record.split_at(40);
    let mut log = OpenOptions::new().append(true).open(at("log")).unwrap();
    log.write_all(start.as_bytes()).unwrap();
    log.write_all(end.as_bytes()).unwrap();
    log.write_all(b"\n").unwrap();
    assert!(next().starts_with("unchained "));
    process.signal(Signal::INT);
    assert_eq!(process.wait().code(), Some(0));
    assert!(lines.next().is_none());
}

#[test]
fn follows_a_log_emptied_and_refilled_at_once() {
    let program = program();
    let path = program.folder.path().join("log");
    let size = fs::metadata(&path).unwrap().len();
    let (mut process, mut printed) = follow(&program, &["--limit", "1"]);
    let mut next = || printed.next().unwrap().unwrap();
    assert!(next().starts_with("TIME "));
    assert!(next().contains(" get_skill a - output "));
    process.signal(Signal::STOP);
    let log = OpenOptions::new().write(true).open(&path).unwrap();
    log.set_len(0).unwrap();
    let mut calls = 0;
    while fs::metadata(&path).unwrap().len() <= size {
        call(&program, "read_skill", "b");
        calls += 1;
    }
    process.signal(Signal::CONT);
    for _ in 0..calls {
        let line = next();
        assert!(line.contains(" read_skill b - output "), "{line}");
        assert!(!line.starts_with("unchained"), "{line}");
    }
    process.signal(Signal::INT);
    assert_eq!(process.wait().code(), Some(0));
    assert!(printed.next().is_none());
    let notes = std::io::read_to_string(process.stderr.take().unwrap()).unwrap();
    assert!(notes.contains("records may be missing"), "{notes}");
}

#[test]
fn follows_a_log_renamed_several_times_at_once() {
    let program = program();
    let at = |path: &str| program.folder.path().join(path);
    let text = fs::read_to_string(at("log")).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (last, before) = lines.split_last().unwrap();
    let (two, start) = (&before[before.len() - 2..], &before[..before.len() - 2]);
    fs::write(at("log"), start.concat()).unwrap();
    let (process, mut printed) = follow(&program, &["--limit", "1", "--output", "json"]);
    printed.next().unwrap().unwrap();
    process.signal(Signal::STOP);
    // The disk was full at the line feed of one record.
    let texts = [two[0], two[1].trim_end(), last];
    for (number, text) in texts.into_iter().enumerate() {
        fs::rename(at("log"), at(&format!("log.{number}"))).unwrap();
        fs::write(at("log"), text).unwrap();
    }
    fs::rename(at("log"), at("log.3")).unwrap();
    fs::write(at("log"), "").unwrap();
    process.signal(Signal::CONT);
    for line in [two[0], two[1], last] {
        assert_eq!(printed.next().unwrap().unwrap(), line.trim_end());
    }
    process.signal(Signal::INT);
    assert_eq!(process.wait().code(), Some(0));
    assert!(printed.next().is_none());
}

#[test]
fn follows_in_json_and_ends_when_output_closes() {
    let program = program();
    let options = ["--output", "json", "--limit", "1", "--tool", "read_skill"];
    let (process, mut lines) = follow(&program, &options);
    for skill in ["none", "b"] {
        let line = lines.next().unwrap().unwrap();
        let record: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(record["skill"], skill, "{line}");
        call(&program, "get_skill", "a");
        call(&program, "read_skill", "b");
    }
    process.signal(Signal::TERM);
    assert_eq!(process.wait().code(), Some(0));
    // The program ends when it prints a record to the closed output.
    let (process, mut lines) = follow(&program, &["--limit", "1"]);
    lines.next().unwrap().unwrap();
    drop(lines);
    call(&program, "read_skill", "b");
    assert_eq!(process.wait().code(), Some(0));
    for (files, code) in [(&["log", "log.1"][..], 2), (&["none"], 4)] {
        let run = program.run(&[&["audit", "show", "--follow"], files].concat());
        assert_eq!((run.code, &*run.stdout), (code, ""), "{files:?}");
    }
    let run = program.run(&["audit", "show", "log", "--follow", "--by", "tool"]);
    assert_eq!(run.code, 2, "{run:?}");
}
