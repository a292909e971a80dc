//! Edits of files as people write them.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const ENTRY_PATH: EntryPath<'_> = EntryPath {
    key: "servers",
    name: "skillhost",
};

fn entry() -> Value {
    json!({"command": "/opt/skill host", "args": ["serve", "--skills", "/home/me/\"skills\""]})
}

/// Checks the text after an entry is added, and that removing the entry again keeps the lines with
/// the word `keep`.
fn check_addition(format: Format, before: &str, after: &str) {
    let added = format.set(before, ENTRY_PATH, &entry()).unwrap();
    assert_eq!(added, after, "{before}");
    assert_eq!(format.find(&added, ENTRY_PATH).unwrap(), Some(entry()));
    let removed = format.remove(&added, ENTRY_PATH).unwrap();
    assert_eq!(format.find(&removed, ENTRY_PATH).unwrap(), None);
    let again = format.set(&removed, ENTRY_PATH, &entry()).unwrap();
    assert_eq!(format.find(&again, ENTRY_PATH).unwrap(), Some(entry()));
    for line in before.lines().filter(|line| line.contains("keep")) {
        assert!(removed.contains(line), "{line}: {removed}");
    }
}

const JSON_ENTRY: &str = "\"skillhost\": {\n      \"command\": \"/opt/skill host\",\n      \
    \"args\": [\"serve\", \"--skills\", \"/home/me/\\\"skills\\\"\"]\n    }";

#[test]
fn adds_to_json_and_keeps_comments() {
    for (before, after) in [
        (
            "{}".to_owned(),
            format!("{{\n  \"servers\": {{\n    {JSON_ENTRY}\n  }}\n}}"),
        ),
        (
            "// keep\n{\n  \"b\": 1, // keep b\n  \"a\": {}, /* keep a */\n}\n".to_owned(),
            "// keep\n{\n  \"b\": 1, // keep b\n  \"a\": {}, /* keep a */\n  \"servers\": {\n    \
             \"skillhost\": {\n      \"command\": \"/opt/skill host\",\n      \
             \"args\": [\"serve\", \"--skills\", \"/home/me/\\\"skills\\\"\"]\n    }\n  },\n}\n"
                .to_owned(),
        ),
        (
            "{\n  \"servers\": {\n    // keep it\n    \"z\": {\"command\": \"keep\"} // keep z\n    \
             // keep the end\n  }\n}\n"
                .to_owned(),
            format!(
                "{{\n  \"servers\": {{\n    // keep it\n    \"z\": {{\"command\": \"keep\"}}, // \
                 keep z\n    {JSON_ENTRY}\n    // keep the end\n  }}\n}}\n"
            ),
        ),
    ] {
        check_addition(Format::JsonWithComments, &before, &after);
    }
    let marked = Format::Json
        .set("\u{feff}{}\r\n", ENTRY_PATH, &entry())
        .unwrap();
    assert!(marked.starts_with("\u{feff}{\r\n") && marked.ends_with("}\r\n"));
    assert!(!marked.replace("\r\n", "").contains('\n'), "{marked:?}");
    let new = Format::Json.set("", ENTRY_PATH, &entry()).unwrap();
    assert!(new.ends_with("}\n"), "{new:?}");
}

const TOML_ENTRY: &str = "[servers.skillhost]\ncommand = \"/opt/skill host\"\n\
    args = [\"serve\", \"--skills\", '/home/me/\"skills\"']\n";

#[test]
fn adds_to_toml_and_keeps_comments() {
    for (before, after) in [
        ("", TOML_ENTRY.to_owned()),
        (
            "# keep\nz = 1 # keep z\n\n[servers.b]\ncommand = 'keep' # keep b\n\n# keep c\n[c]\n",
            format!(
                "# keep\nz = 1 # keep z\n\n[servers.b]\ncommand = 'keep' # keep b\n\n{TOML_ENTRY}\n\
                 # keep c\n[c]\n"
            ),
        ),
        (
            "servers.b.command = 'keep'\n",
            format!("servers.b.command = 'keep'\n\n{TOML_ENTRY}"),
        ),
        (
            "servers = { b = { command = 'keep' } } # keep b\n",
            "servers = { b = { command = 'keep' } , skillhost = { command = \"/opt/skill host\", \
             args = [\"serve\", \"--skills\", '/home/me/\"skills\"'] } } # keep b\n"
                .to_owned(),
        ),
    ] {
        check_addition(Format::Toml, before, &after);
    }
    let lines = Format::Toml.set("a = 1\r\n", ENTRY_PATH, &entry()).unwrap();
    assert!(!lines.replace("\r\n", "").contains('\n'), "{lines:?}");
}

const YAML_ENTRY: &str = "  skillhost:\n    command: \"/opt/skill host\"\n    \
    args: [\"serve\",\"--skills\",\"/home/me/\\\"skills\\\"\"]\n";

#[test]
fn adds_to_yaml_and_keeps_comments() {
    for (before, after) in [
        ("", format!("servers:\n{YAML_ENTRY}")),
        ("# keep\n", format!("# keep\nservers:\n{YAML_ENTRY}")),
        (
            "a: 1 # keep a",
            format!("a: 1 # keep a\nservers:\n{YAML_ENTRY}"),
        ),
        (
            "servers: # keep s\n  # keep b\n  b:\n    cmd: keep\n    text: |\n      keep\n\n\nz: 1\n",
            format!(
                "servers: # keep s\n{YAML_ENTRY}  # keep b\n  b:\n    cmd: keep\n    text: |\n      \
                 keep\n\n\nz: 1\n"
            ),
        ),
        (
            "servers:\nz: keep\n",
            format!("servers:\n{YAML_ENTRY}z: keep\n"),
        ),
        (
            "servers: {} # keep s\nz: keep\n",
            format!("servers: # keep s\n{YAML_ENTRY}z: keep\n"),
        ),
        (
            "? [keep]\n: x\nservers:\n  b: &keep\n    c: 1\n  d: *keep\n",
            format!("? [keep]\n: x\nservers:\n{YAML_ENTRY}  b: &keep\n    c: 1\n  d: *keep\n"),
        ),
    ] {
        check_addition(Format::Yaml, before, &after);
    }
    // The last entry, and one between others.
    for (before, after) in [
        (
            "servers:\n  skillhost:\n    a: 1\n  # keep\n",
            "servers: {}\n  # keep\n",
        ),
        (
            "servers:\n  a: 1\n  skillhost:\n    b: |\n      x\n\n  # keep\n  c: 1\n",
            "servers:\n  a: 1\n\n  # keep\n  c: 1\n",
        ),
    ] {
        assert_eq!(Format::Yaml.remove(before, ENTRY_PATH).unwrap(), after);
    }
}

#[test]
fn replaces_entry_and_keeps_comments() {
    for (format, text) in [
        (
            Format::JsonWithComments,
            "{\"servers\": {\"a\": 1, /* keep */ \"skillhost\": {\"x\": 1}, \"z\": 2}}",
        ),
        (
            Format::Toml,
            "# keep\n[servers.skillhost]\nx = 1\n[servers.skillhost.env]\ny = 1\n[z]\n",
        ),
        (
            Format::Yaml,
            "servers:\n  a: 1\n  # keep\n  skillhost:\n    x: 1\n  z: 2\n",
        ),
    ] {
        let replaced = format.set(text, ENTRY_PATH, &entry()).unwrap();
        assert_eq!(format.find(&replaced, ENTRY_PATH).unwrap(), Some(entry()));
        assert!(
            replaced.contains("keep") && !replaced.contains('x'),
            "{replaced}"
        );
    }
}

#[test]
fn refuses_invalid_text_with_its_position() {
    for (format, text, why) in [
        (
            Format::Json,
            "{\n  \"a\": 1,\n  \"b\" 2\n}",
            "line 3, column 7: ",
        ),
        (
            Format::Json,
            "{\n  // no\n}",
            "comments and trailing commas are not allowed",
        ),
        (Format::Json, "{\"ä\": 1,}", "line 1, column "),
        (Format::JsonWithComments, "{a: 1}", "line 1, column 2: "),
        (
            Format::JsonWithComments,
            "{\"a\": 1 \"b\": 2}",
            "line 1, column 8: expected comma",
        ),
        (
            Format::JsonWithComments,
            "[1]",
            "its top level is not an object",
        ),
        (
            Format::JsonWithComments,
            "{\"servers\": []}",
            "its `servers` is not an object",
        ),
        (
            Format::JsonWithComments,
            "{\"servers\": {\"a\": 1, \"\\u0061\": 2}}",
            "the key `a` occurs twice",
        ),
        (Format::Toml, "a = 1\nb = \n", "line 2, column "),
        (
            Format::Toml,
            "a = 1\na = 2\n",
            "line 2, column 1: duplicate key",
        ),
        (
            Format::Toml,
            "servers = 1\n",
            "its `servers` is not an object",
        ),
        (Format::Yaml, "a: 1\nb: c: d\n", "line 2, column "),
        (Format::Yaml, "- a\n", "its top level is not an object"),
        (
            Format::Yaml,
            "a: 1\n--- b\n",
            "a second document starts here",
        ),
        (Format::Yaml, "a: 1\na: 2\n", "the key `a` occurs twice"),
        (Format::Yaml, "{a: 1}\n", "its top level is in braces"),
        (
            Format::Yaml,
            "servers: {a: 1}\n",
            "its `servers` is in braces",
        ),
        (Format::Yaml, "a: 1\n...\n", "its form is too unusual"),
    ] {
        let refused = format.set(text, ENTRY_PATH, &entry());
        let refused = refused.map_err(|error| format!("{error:#}"));
        assert!(
            refused.as_ref().is_err_and(|error| error.contains(why)),
            "{text:?}: {why}: {refused:?}"
        );
    }
}

proptest! {
    /// An edit of any text is refused, or changes only the entry.
    #[test]
    fn edits_change_one_entry(
        format in prop_oneof![
            Just(Format::JsonWithComments), Just(Format::Toml), Just(Format::Yaml)
        ],
        parts in proptest::collection::vec(
            prop_oneof![
                Just("{"), Just("}"), Just("\"servers\": "), Just("\"a\": 1"), Just(", "),
                Just("\n"), Just("\r\n"), Just("// c\n"), Just("# c\n"), Just("servers:"),
                Just("  b:"), Just("    c: 1"), Just("[servers]\n"), Just("[servers.b]\n"),
                Just("x = 1"), Just("servers.c.d = 1"), Just("  skillhost:"), Just("- 1"),
                Just("|"), Just("[servers.skillhost]\n"), Just("é: &a 1"), Just("\t"), Just(" "),
            ],
            0..14,
        ),
    ) {
        let text = parts.concat();
        if let Ok(set) = format.set(&text, ENTRY_PATH, &entry()) {
            prop_assert_eq!(format.find(&set, ENTRY_PATH).unwrap(), Some(entry()));
            for (mark, kind) in [("// c", Format::JsonWithComments), ("# c", Format::Toml)] {
                if format == kind && format.find(&text, ENTRY_PATH).unwrap().is_none() {
                    prop_assert_eq!(set.matches(mark).count(), text.matches(mark).count());
                }
            }
        }
        let _ = format.remove(&text, ENTRY_PATH);
    }
}
