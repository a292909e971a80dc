//! Checks the table and the code of `docs/guides/typed-tools.md`.

use std::fs;

use serde_json::{Value, json};
use skillhost::Grant;

use super::{guest_bytes, host, record};
use crate::support::folders::Folders;
use crate::support::{build, builder, call, repository};

/// The types of the table, and the tool that echoes each.
const TYPES: [(&str, &str); 23] = [
    ("bool", "echo_bool"),
    ("s8", "echo_s8"),
    ("u8", "echo_u8"),
    ("s16", "echo_s16"),
    ("u16", "echo_u16"),
    ("s32", "echo_s32"),
    ("u32", "echo_u32"),
    ("s64", "echo_s64"),
    ("u64", "echo_u64"),
    ("f32", "echo_f32"),
    ("f64", "echo_f64"),
    ("char", "echo_char"),
    ("string", "echo_string"),
    ("list<u8>", "echo_bytes"),
    ("list<string>", "echo_list"),
    ("tuple<u8, string, option<bool>>", "echo_tuple"),
    (
        "record { x: s32, y: s32, text-beside: option<string> }",
        "echo_record",
    ),
    ("enum { dark-red, green, light-blue }", "echo_enum"),
    ("flags { may-read, may-write, may-run }", "echo_flags"),
    ("option<u32>", "echo_option"),
    ("option<option<u32>>", "echo_options"),
    ("list<result>", "echo_bare_results"),
    ("list<result<u32, string>>", "echo_results"),
];

fn page() -> String {
    fs::read_to_string(repository().join("docs/guides/typed-tools.md")).unwrap()
}

/// Returns the texts between backquotes.
fn code_spans(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn remove_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            entries.remove("description");
            entries.values_mut().for_each(remove_descriptions);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_descriptions),
        _ => {}
    }
}

#[test]
fn host_follows_each_row_of_table() {
    let page = page();
    let table = page.lines().skip_while(|line| !line.starts_with("| WIT |"));
    let mut rows = table.filter(|line| line.starts_with("| `"));
    let definitions = host().definitions();
    for (wit, tool) in TYPES {
        let row = rows.next().unwrap_or_else(|| panic!("no row for {wit}"));
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [kind, schema, examples] = cells.as_slice() else {
            panic!("{row}");
        };
        assert_eq!(code_spans(kind), [wit]);
        let schema: Value = serde_json::from_str(code_spans(schema)[0]).unwrap();
        let mut definition = definitions.iter();
        let definition = definition.find(|known| known.name == tool).unwrap();
        let mut found = definition.input_schema["properties"]["value"].clone();
        // The table has no descriptions, which come from the guest's comments on its types.
        remove_descriptions(&mut found);
        assert_eq!(found, schema);
        let examples = code_spans(examples);
        assert!(!examples.is_empty(), "{row}");
        for example in examples {
            let value: Value = serde_json::from_str(example).unwrap();
            let answer = record(tool, json!({"value": value}));
            let answer = answer.get("result").unwrap_or(&answer);
            assert_eq!(*answer, value, "{wit}");
        }
    }
    assert_eq!(rows.next(), None);
}

#[test]
fn code_on_page_is_in_guest_or_kit() {
    let page = page();
    let blocks = |language: &str| -> Vec<String> {
        let start = format!("```{language}\n");
        let blocks = page.split(&start).skip(1);
        let blocks: Vec<_> = blocks
            .map(|block| block.split("```").next().unwrap().to_owned())
            .collect();
        assert!(!blocks.is_empty(), "{language}");
        blocks
    };
    let read = |file: &str| fs::read_to_string(repository().join(file)).unwrap();
    let wit = &blocks("wit")[0];
    let interface = &wit[wit.find("/// Looks").unwrap()..wit.find("world").unwrap()];
    assert!(
        read("tests/guests/typed/wit/typed.wit").contains(interface),
        "{interface}"
    );
    for (language, files) in [
        (
            "rust",
            &[
                "tests/guests/typed/build.rs",
                "tests/guests/typed/src/lib.rs",
                "guest-tools/kits/typed/rust/src/lib.rs",
            ][..],
        ),
        ("python", &["guest-tools/kits/typed/python/tool.py"]),
        (
            "javascript",
            &["guest-tools/kits/typed/javascript/src/tool.js"],
        ),
        ("c", &["guest-tools/kits/typed/c/src/tool.c"]),
    ] {
        for block in blocks(language) {
            let is_in = |file: &&str| read(file).contains(&block);
            assert!(files.iter().any(is_in), "{language}: {block}");
        }
    }
}

#[test]
fn tool_on_page_looks_up_term() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    folders.write(
        "a/glossary.md",
        "tool: what a model calls\nskill: what it reads\n",
    );
    fs::write(folders.outside.join("typed.wasm"), guest_bytes()).unwrap();
    let all = Grant::new().skills(["*"]).unwrap();
    let host = builder().skills(&folders.root).tools(&folders.outside);
    let host = build(host.grant("typed.wasm", all));
    let arguments = |term: &str| json!({"skill_name": "a", "term": term});
    let output = call(&host, "look_up", arguments("skill")).unwrap();
    assert_eq!(
        output.record(),
        json!({"meaning": "what it reads", "see_also": []})
    );
    let failure = call(&host, "look_up", arguments("host")).unwrap_err();
    assert_eq!(failure.to_string(), "there is no term 'host'");
    assert_eq!(
        failure.record(),
        json!({"error": "there is no term 'host'"})
    );
}
