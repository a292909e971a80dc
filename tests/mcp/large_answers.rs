//! Large answers: complete with a note, or cut if the operator sets `model_output`.

use serde_json::{Value, json};

use super::{folder, with_guests};
use crate::support::mcp::{Client, NEWEST, REVISIONS};

/// The words of a note that names a tool for parts of a file.
const READS_PARTS: &str = "read_skill_file reads";

/// Returns the texts of an answer's blocks.
fn texts(result: &Value) -> Vec<&str> {
    let blocks = result["content"].as_array().unwrap().iter();
    blocks
        .map(|block| block["text"].as_str().unwrap())
        .collect()
}

fn read(client: &mut Client, path: &str) -> Value {
    let arguments = json!({"skill_name": "a", "file_path": path});
    client.call("read_file_in_skill", arguments)
}

#[test]
fn large_answer_has_a_note() {
    let program = folder("");
    let (small, large) = ("x\n".repeat(50_000), "x\n".repeat(50_000) + "y");
    program.write("skills/a/small.txt", &small);
    program.write("skills/a/large.txt", &large);
    for revision in REVISIONS {
        let mut client = with_guests(&program, &["unchecked.wasm"], revision);
        assert_eq!(texts(&read(&mut client, "small.txt")), [&small]);
        let result = read(&mut client, "large.txt");
        let [text, note] = texts(&result)[..] else {
            panic!("{:.500}", result.to_string());
        };
        assert_eq!(text, large);
        assert!(
            note.contains("100001 bytes") && note.contains(READS_PARTS),
            "{note}"
        );
        assert_eq!(
            (&result["isError"], note.len() < 300),
            (&json!(false), true)
        );
        // A third-party tool may have made the text itself, so the note names no tool.
        let arguments = json!({"skill_name": "a", "path": "large.txt"});
        let result = client.call("raw_read", arguments);
        let [text, note] = texts(&result)[..] else {
            panic!("{:.500}", result.to_string());
        };
        assert_eq!(text, large);
        assert!(
            note.contains("100001 bytes") && !note.contains(READS_PARTS),
            "{note}"
        );
    }
}

#[test]
fn note_names_only_tools_that_can_read_file() {
    for (config, notes) in [
        ("help = false\n", 0),
        ("disabled_tools = [\"read_skill_file\"]\n", 1),
        ("[grants.read_skill_file]\nskills = [\"b\"]\n", 1),
    ] {
        for limit in ["", "model_output = \"8KiB\"\n"] {
            let program = folder(&format!("{limit}{config}"));
            program.write("skills/a/large.txt", "x".repeat(100_001));
            let mut client = Client::start(program.folder.path(), &[], NEWEST);
            let result = read(&mut client, "large.txt");
            let notes = if limit.is_empty() { notes } else { 1 };
            assert_eq!(texts(&result).len(), 1 + notes, "{config}{limit}");
            if config.starts_with("help") {
                continue;
            }
            assert!(!texts(&result)[1].contains("read_skill_file"), "{result}");
        }
    }
}

#[test]
fn model_output_cuts_answers() {
    let program = folder("model_output = 1024\n");
    let line = "0123456789abcde\n";
    for (name, text) in [
        ("fits.txt", line.repeat(64)),
        ("lines.txt", line.repeat(64) + "z"),
        ("long.txt", "x".repeat(1025)),
        ("wide.txt", "漢".repeat(400)),
        ("mixed.txt", line.repeat(3) + &"漢".repeat(400)),
    ] {
        program.write(&format!("skills/a/{name}"), text);
    }
    for revision in REVISIONS {
        let mut client = with_guests(&program, &["unchecked.wasm"], revision);
        assert_eq!(texts(&read(&mut client, "fits.txt")), [line.repeat(64)]);
        for (name, kept, omitted) in [
            ("lines.txt", line.repeat(64), 1),
            ("long.txt", "x".repeat(1024), 1),
            ("wide.txt", "漢".repeat(341), 1200 - 1023),
            ("mixed.txt", line.repeat(3), 1200),
        ] {
            let answers = [
                read(&mut client, name),
                client.call("raw_read", json!({"skill_name": "a", "path": name})),
            ];
            // No tool returns a line that is longer than the limit.
            let rest_is_readable = name == "lines.txt";
            for (result, reads_parts) in answers.iter().zip([rest_is_readable, false]) {
                let [text, note] = texts(result)[..] else {
                    panic!("{name}: {result}");
                };
                assert_eq!(text, kept, "{name}");
                assert!(
                    note.contains(&format!("{omitted} bytes are left out")),
                    "{note}"
                );
                assert_eq!(note.contains(READS_PARTS), reads_parts, "{note}");
                assert_eq!(result["isError"], false);
            }
        }
        // The tool that the note names reads the rest.
        let rest = json!({"skill_name": "a", "path": "lines.txt", "offset": 65});
        let rest = client.call("read_skill_file", rest);
        assert!(texts(&rest)[0].contains('z'), "{rest}");
    }
    // A program gets the whole answer.
    let run = program.run(&[
        "call",
        "read_file_in_skill",
        "skill_name=a",
        "file_path=long.txt",
    ]);
    assert_eq!(
        (run.code, run.stdout.trim_end()),
        (0, &*"x".repeat(1025)),
        "{run:?}"
    );
}

#[test]
fn cut_text_leaves_structured_content_whole() {
    let program = folder("model_output = 1024\n");
    for number in 0..40 {
        let skill = format!("---\nname: s{number}\ndescription: Another skill.\n---\n");
        program.write(&format!("skills/s{number}/SKILL.md"), skill);
    }
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    let result = client.call("list_skills", json!({}));
    let [text, note] = texts(&result)[..] else {
        panic!("{result}");
    };
    assert_eq!(text.len(), 1024);
    assert!(note.contains("ask for less"), "{note}");
    let skills = result["structuredContent"]["skills"].as_array().unwrap();
    assert_eq!(skills.len(), 41);
}

#[test]
fn cut_answer_fits_into_a_message() {
    for (limit, is_sent) in [("1MiB", true), ("9MiB", false)] {
        let program = folder(&format!("model_output = \"{limit}\"\n"));
        program.write("skills/a/large.txt", "x".repeat(10 << 20));
        let mut client = Client::start(program.folder.path(), &[], NEWEST);
        let result = read(&mut client, "large.txt");
        assert_eq!(result["isError"] == false, is_sent, "{limit}");
        let texts = texts(&result);
        assert_eq!(texts[0].len() == 1 << 20, is_sent, "{limit}");
        assert_eq!(texts.len(), 1 + usize::from(is_sent), "{limit}");
    }
}
