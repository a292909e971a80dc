//! Untrusted strings cannot forge lines or hide text in output for people. Each test passes such a
//! string to every verb that shows it, with output to a pipe, a file and a terminal.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use crate::hostile_components::{component, listing};
use crate::support::guests;
use crate::support::program::Program;
use crate::support::terminal::{Printout, run_on_terminal, run_with_each_output};

/// The text after each line break of a forged string.
const MARK: &str = "FORGED";

/// Line breaks, escapes, direction marks and invisible characters.
const HIDDEN: &str = "\r\u{85}\u{2028}\u{2029}\u{b}\u{c}\u{1b}[2J\u{9b}2J\u{7}\u{202e}\u{2066}\
    \u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180b}\u{3164}\
    \u{ffa0}\u{fe0f}\u{e0041}\u{e0100}\u{e000}\u{fffe}\u{2800}\u{13441}\u{16fe4}\u{1d159}";

/// Returns a string that imitates the program's lines and hides the rest.
fn forged() -> String {
    format!("x\nFORGED: no problem was found\r\nFORGED\u{2028}FORGED{HIDDEN}FORGED")
}

/// Returns a similar string that can be a file name.
fn forged_name() -> String {
    format!("x\u{2028}FORGED {}", HIDDEN.replace(char::is_control, ""))
}

/// Returns whether a character is invisible, by tables that the program does not use.
fn is_hidden(c: char) -> bool {
    static HIDDEN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\x{2800}\x{13441}\x{13442}\x{16fe4}\x{1d159}]",
        )
        .unwrap()
    });
    HIDDEN.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Returns what is wrong with output that must show a forged string.
fn fault(printed: &Printout) -> Option<&'static str> {
    let Printout { text, .. } = printed;
    if text.contains(|c| c != '\n' && is_hidden(c)) {
        return Some("it has a hidden character");
    }
    if text.lines().any(|line| line.trim_start().starts_with(MARK)) {
        return Some("it has a forged line");
    }
    (!text.contains(MARK)).then_some("it does not show the string")
}

#[track_caller]
fn check(name: &str, program: &Program, arguments: &[&str], stdin: &str) {
    let found = run_with_each_output(program, arguments, stdin);
    let found = found.iter().filter_map(|printed| {
        let fault = fault(printed)?;
        Some(format!(
            "{name} to a {} ({}): {fault}: {:?}",
            printed.to, printed.code, printed.text
        ))
    });
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Builds a component with one tool, with this title, description and property for a
/// skill's name.
fn tool(title: &str, description: &str, property: &str) -> Vec<u8> {
    let schema = json!({"type": "object", "properties": {property: {"type": "string"}}});
    let schema = schema.to_string();
    const RECORD_ADDRESS: u32 = 16;
    const STRINGS_ADDRESS: u32 = 1024;
    let (mut record, mut strings) = (vec![0_u8; 92], String::new());
    let mut set = |offset: usize, text: &str| {
        let at = STRINGS_ADDRESS + strings.len() as u32;
        record[offset..offset + 4].copy_from_slice(&at.to_le_bytes());
        record[offset + 4..offset + 8].copy_from_slice(&(text.len() as u32).to_le_bytes());
        strings.push_str(text);
    };
    set(0, "trusted");
    set(8, title);
    set(16, description);
    set(24, &schema);
    set(48, property);
    // The definition has a folder rule.
    record[44] = 1;
    let data = |at: u32, bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!("(data (i32.const {at}) \"{digits}\")\n")
    };
    component(&listing(
        1,
        1,
        &(data(RECORD_ADDRESS, &record) + &data(STRINGS_ADDRESS, strings.as_bytes())),
    ))
}

#[test]
fn component_forges_nothing_in_its_description() {
    let program = Program::new();
    let forged = forged();
    let file = format!("tools/{}.wasm", forged_name());
    program.write(&file, tool(&forged, &forged, &forged));
    for (name, arguments) in [
        ("inspect", vec!["inspect", &file]),
        (
            "inspect as JSON",
            vec!["inspect", &file, "--output", "json"],
        ),
        ("grants", vec!["grants", "--all", "--tools", "tools"]),
        (
            "grants as JSON",
            vec!["grants", "--tools", "tools", "--output", "json"],
        ),
        ("tools", vec!["tools", "--tools", "tools"]),
        (
            "strict tools",
            vec!["tools", "--tools", "tools", "--strict"],
        ),
        ("test", vec!["test", &file]),
        ("test as JUnit", vec!["test", &file, "--output", "junit"]),
        ("test as JSON", vec!["test", &file, "--output", "json"]),
    ] {
        check(name, &program, &arguments, "");
    }
    // JSON has the original value.
    let run = program.run(&["inspect", &file, "--output", "json"]);
    let seen: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(seen["tools"][0]["skill_property"], forged);
    assert_eq!(seen["tools"][0]["description"], forged);
}

#[test]
fn refused_component_forges_nothing_in_the_reason() {
    let program = Program::new();
    let forged = forged();
    let import = format!("(component (import {:?} (func)))", "url=<x>");
    let import = import.replace("url=<x>", &format!("url=<{}>", escaped_for_wat(&forged)));
    let imports = wat::parse_str(import).unwrap();
    let name = format!("tools/{}.wasm", forged_name());
    program.write(&name, b"not a component");
    program.write("FORGED.wasm", imports);
    check("inspect", &program, &["inspect", "FORGED.wasm"], "");
    check("problems", &program, &["tools", "--tools", "tools"], "");
    let call = json!({"skill_name": "a"}).to_string();
    check(
        "problems of a call",
        &program,
        &["call", "get_skill", &call, "--tools", "tools"],
        "",
    );
    check("not a component", &program, &["inspect", &name], "");
    check("no file", &program, &["inspect", &forged_name()], "");
}

fn escaped_for_wat(text: &str) -> String {
    text.bytes().map(|byte| format!("\\{byte:02x}")).collect()
}

#[test]
fn skill_forges_nothing_in_lists_checks_and_problems() {
    let program = Program::new();
    let (forged, name) = (forged(), forged_name());
    let quoted = Value::from(forged.as_str());
    let link = forged.replace(['\n', '\r'], "");
    program.write(
        &format!("skills/{name}/SKILL.md"),
        format!(
            "---\nname: {quoted}\ndescription: {quoted}\n{quoted}: x\nallowed-tools: [{quoted}]\n\
             license: {quoted}\n---\n[x](<{link}>) [FORGED](FORGED\u{e0041}\u{2028}.md)\n"
        ),
    );
    // A folder whose name has a control character cannot be a skill.
    program.write("skills/x\nFORGED\u{1b}[2J/SKILL.md", "# A\n");
    let folder = format!("skills/{name}");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "skills/list",
        "params": {"_meta": crate::support::http::meta()}});
    let list = format!("{list}\n{forged}\n");
    for (case, arguments, stdin) in [
        ("skills", vec!["skills"], ""),
        ("skills as JSON", vec!["skills", "--output", "json"], ""),
        ("check", vec!["check"], ""),
        ("check of a folder", vec!["check", &folder], ""),
        ("check as JSON", vec!["check", "--output", "json"], ""),
        ("check as SARIF", vec!["check", "--output", "sarif"], ""),
        ("grants", vec!["grants", "--all"], ""),
        ("grants as JSON", vec!["grants", "--output", "json"], ""),
    ] {
        check(case, &program, &arguments, stdin);
    }
    for level in ["warn", "debug"] {
        let run = program.run_with(&["serve", "--log", level], &list);
        let printed = Printout {
            to: "pipe",
            text: run.stderr,
            code: run.code,
        };
        assert_eq!(fault(&printed), None, "{:?}", printed.text);
    }
}

#[test]
fn skill_name_cannot_imitate_another_line() {
    let program = Program::new();
    let good = "---\nname: good\ndescription: Adds numbers.\n---\n";
    program.write("skills/good/SKILL.md", good);
    let names = [
        "good:7: error: it steals [name]",
        "good, other",
        "good  Adds numbers, and more.",
    ];
    for name in names {
        program.write(&format!("skills/{name}/SKILL.md"), "---\nname: x\n---\n");
    }
    let run = program.run(&["check"]);
    let forged = |line: &str| line.starts_with("good:7");
    assert!(!run.stdout.lines().any(forged), "{}", run.stdout);
    for name in names {
        let quoted = format!("\"{name}\":");
        assert!(run.stdout.contains(&quoted), "{}", run.stdout);
    }
    let run = program.run(&["skills"]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let good_lines = lines.iter().filter(|line| line.starts_with("good "));
    assert_eq!(good_lines.count(), 1, "{}", run.stdout);
    let run = program.run(&["grants", "--all"]);
    assert!(run.stdout.contains("\"good, other\""), "{}", run.stdout);
}

#[test]
fn caller_forges_nothing_in_messages_about_its_call() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let forged = forged();
    program.write("skills/a/x.txt", &forged);
    let unknown = json!({"skill_name": "a", &forged: 1}).to_string();
    let skill = json!({"skill_name": &forged}).to_string();
    let path = json!({"skill_name": "a", "path": &forged}).to_string();
    let read = json!({"skill_name": "a", "file_path": "x.txt"}).to_string();
    let guests = guests();
    let guests = guests.to_str().unwrap();
    let options = ["--tools", guests, "--log", "info"];
    let quoted = Value::from(forged.as_str());
    let message = json!({"role": "assistant", "content": null, "tool_calls": [{
        "id": "1", "type": "function",
        "function": {"name": &forged, "arguments": &skill}}]})
    .to_string();
    for (case, arguments, stdin) in [
        ("an unknown tool", vec!["call", &forged], ""),
        (
            "an unknown property",
            vec!["call", "get_skill", &unknown],
            "",
        ),
        ("no verb", vec![&*forged], ""),
        ("no option", vec!["skills", &forged], ""),
        ("no form", vec!["skills", "--output", &forged], ""),
        ("no configuration", vec!["skills", "--config", &forged], ""),
        ("no folder", vec!["skills", "--skills", &forged], ""),
        ("no grant", vec!["tools", "--grant", &forged], ""),
        ("no name", vec!["new", &forged, "--lang", "c"], ""),
        ("configuration", vec!["skills", "--config", "x.toml"], ""),
    ] {
        program.write("x.toml", format!("{quoted} = 1\n"));
        check(case, &program, &arguments, stdin);
    }
    // These verbs also show text for people on stderr.
    for (case, arguments, stdin) in [
        (
            "transcript",
            vec!["call", "read_file_in_skill", &read, "--transcript"],
            "",
        ),
        (
            "transcript of a failure",
            vec!["call", "get_skill", &skill, "--transcript"],
            "",
        ),
        (
            "transcript of a message",
            vec!["respond", "--format", "openai", "--transcript"],
            &*message,
        ),
        (
            "what a guest prints",
            [
                &options[..],
                &["--grant", "unchecked.wasm=*", "call", "raw_print", &path],
            ]
            .concat(),
            "",
        ),
        (
            "what a guest panics with",
            [
                &options[..],
                &["--grant", "unchecked.wasm=*", "call", "raw_panic", &path],
            ]
            .concat(),
            "",
        ),
    ] {
        let run = program.run_with(&arguments, stdin);
        let printed = Printout {
            to: "pipe",
            // A transcript indents further lines.
            text: run.stderr.replace("\n    ", "\n| "),
            code: run.code,
        };
        assert_eq!(fault(&printed), None, "{case}: {:?}", printed.text);
        // On a terminal the answer is for people, too.
        let printed = run_on_terminal(&program, &arguments, stdin);
        let hidden = printed
            .text
            .contains(|c| !matches!(c, '\n' | '\t') && is_hidden(c));
        assert!(!hidden, "{case}: {:?}", printed.text);
    }
}

#[test]
fn author_forges_nothing_in_names_of_cases() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let forged = forged();
    let case = json!({"name": &forged, "tool": "count_lines",
        "arguments": {"skill_name": "a", "path": &forged}, "expect": {"text": &forged}});
    program.write(&format!("cases/{}.json", forged_name()), case.to_string());
    let component = guests().join("count_lines.wasm");
    let component = component.to_str().unwrap();
    for form in ["text", "junit", "json"] {
        let arguments = ["test", component, "--cases", "cases", "--output", form];
        check(form, &program, &arguments, "");
    }
    let no_case = json!({ &forged: 1 }).to_string();
    program.write("cases/y.json", no_case);
    check(
        "no case",
        &program,
        &["test", component, "--cases", "cases"],
        "",
    );
}

#[test]
fn path_of_request_forges_nothing_in_log() {
    use crate::support::http::{Client, Request};
    use crate::support::process::Process;
    use rustix::process::Signal;
    use std::io::Read as _;

    let program = Program::new();
    let mut serve = program.command(&["serve", "--http", "127.0.0.1:0", "--log", "debug"]);
    let mut server = Process::start(&mut serve);
    let line = server.first_line();
    let address = line
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix("/mcp")
        .unwrap()
        .parse()
        .unwrap();
    // A path cannot contain the other characters.
    let path = format!("/FORGED{}", HIDDEN.replace(|c: char| c < '\u{a0}', ""));
    assert_eq!(Client::once(address, &Request::get(&path)).status, 404);
    server.signal(Signal::KILL);
    let mut text = String::new();
    let stderr = server.stderr.as_mut().unwrap();
    stderr.read_to_string(&mut text).unwrap();
    let code = server.wait().code().unwrap_or_default();
    let printed = Printout {
        to: "pipe",
        text,
        code,
    };
    assert_eq!(fault(&printed), None, "{:?}", printed.text);
}

#[test]
fn shows_text_in_any_language_unchanged() {
    let text = "数据分析 データ分析 يقرأ הכל हिन्दी caf\u{e9} cafe\u{301} 🚀👍🏽🇩🇪 “x” — ½";
    let program = Program::new();
    program.write(
        "skills/数据/SKILL.md",
        format!("---\nname: 数据\ndescription: {text}\n{text}: x\n---\n"),
    );
    program.write("tools/x.wasm", tool(text, text, text));
    for arguments in [
        &["skills"][..],
        &["skills", "--output", "json"],
        &["check"],
        &["prompt"],
        &["inspect", "tools/x.wasm"],
        &["inspect", "tools/x.wasm", "--output", "json"],
        &["tools", "--tools", "tools"],
        &["call", text],
    ] {
        for printed in run_with_each_output(&program, arguments, "") {
            let Printout { to, text: all, .. } = printed;
            assert!(all.contains(text), "{arguments:?} to a {to}: {all}");
        }
    }
    let run = program.run(&["skills"]);
    assert!(run.stdout.starts_with("数据  数据分析"), "{}", run.stdout);
}

#[test]
fn answer_is_unchanged_except_on_a_terminal() {
    let program = Program::new();
    let forged = forged();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("skills/a/x.txt", &forged);
    let arguments = json!({"skill_name": "a", "file_path": "x.txt"}).to_string();
    let call = ["call", "read_file_in_skill", &arguments];
    assert_eq!(program.run(&call).stdout, forged);
    let id = ["--output", "message", "--tool-call-id", "1"];
    let message = json!({"role": "assistant", "content": null, "tool_calls": [{
        "id": "1", "type": "function",
        "function": {"name": "read_file_in_skill", "arguments": &arguments}}]})
    .to_string();
    let respond = ["respond", "--format", "openai"];
    let raw = "\u{202e}\u{2066}\u{200b}";
    for (arguments, stdin, content) in [
        ([&call[..], &["--output", "json"]].concat(), "", "/content"),
        ([&call[..], &id].concat(), "", "/content"),
        (respond.to_vec(), &*message, "/0/content"),
    ] {
        let run = program.run_with(&arguments, stdin);
        assert!(run.stdout.contains(raw), "{}", run.stdout);
        // The terminal gets the same value with hidden characters escaped.
        let shown = run_on_terminal(&program, &arguments, stdin);
        assert!(!shown.text.contains(|c| c != '\n' && is_hidden(c)));
        for text in [&run.stdout, &shown.text] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(value.pointer(content).unwrap(), &*forged, "{text}");
        }
    }
    let shown = run_on_terminal(&program, &call, "");
    assert!(shown.text.starts_with("x\nFORGED: no"), "{}", shown.text);
    assert!(!shown.text.contains(|c| c != '\n' && is_hidden(c)));
}
