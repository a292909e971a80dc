//! Components that attack while they are loaded. Each is refused with a reason, and other
//! components still work.

use std::fs;
use std::time::Duration;

use serde_json::json;
use skillhost::{Grant, Limits};

use crate::support::folders::Folders;
use crate::support::{block_on, builder, guests, model_text};

/// A core function for the export `call`. The tests never call it.
const CALL: &str = r#"(func (export "call")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) unreachable)"#;

/// Makes a component that exports the tools interface, with `core` in its core module. The
/// function `definitions` of `core` returns the address of the list of definitions.
pub(crate) fn component(core: &str) -> Vec<u8> {
    wat::parse_str(component_text(core)).unwrap()
}

/// Makes a component like [`component`] that also imports an interface.
pub(crate) fn component_with_import(import: &str, core: &str) -> Vec<u8> {
    let import = format!("(component (import \"{import}\" (instance))");
    wat::parse_str(component_text(core).replacen("(component", &import, 1)).unwrap()
}

fn component_text(core: &str) -> String {
    format!(
        r#"(component
  (core module $m
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
    {core})
  (core instance $i (instantiate $m))
  (type $rule (record (field "skill-property" string) (field "enumerate" bool)
    (field "path-property" (option string)) (field "skill-optional" bool)))
  (type $form (enum "text" "details"))
  (export $rule' "folder-rule" (type $rule))
  (export $form' "form" (type $form))
  (type $definition (record (field "name" string) (field "title" string)
    (field "description" string) (field "input-schema" string)
    (field "output-schema" (option string)) (field "folder" (option $rule'))
    (field "text-property" (option string)) (field "model-reads" $form')))
  (export $definition' "definition" (type $definition))
  (func $definitions (result (list $definition'))
    (canon lift (core func $i "definitions") (memory (core memory $i "memory"))))
  (type $open (record (field "skill" (option string)) (field "mount" string)
    (field "path" (option string))))
  (export $open' "open-folder" (type $open))
  (type $folder (variant (case "none") (case "open" $open') (case "unknown-skill")
    (case "unreadable") (case "no-home") (case "outside")))
  (export $folder' "folder" (type $folder))
  (type $output (record (field "text" string) (field "details" (option string))))
  (export $output' "output" (type $output))
  (type $kind (enum "invalid-arguments" "not-found" "refused" "unreadable" "failed"))
  (export $kind' "failure-kind" (type $kind))
  (type $failure (record (field "kind" $kind') (field "message" string)
    (field "details" (option string))))
  (export $failure' "failure" (type $failure))
  (func $call (param "name" string) (param "arguments" string) (param "folder" $folder')
    (result (result $output' (error $failure')))
    (canon lift (core func $i "call") (memory (core memory $i "memory"))
      (realloc (core func $i "realloc"))))
  (instance $tools
    (export "folder-rule" (type $rule'))
    (export "form" (type $form'))
    (export "definition" (type $definition'))
    (export "open-folder" (type $open'))
    (export "folder" (type $folder'))
    (export "output" (type $output'))
    (export "failure-kind" (type $kind'))
    (export "failure" (type $failure'))
    (export "definitions" (func $definitions))
    (export "call" (func $call)))
  (export "skillhost:tool/tools@0.1.0" (instance $tools)))"#
    )
}

/// Makes a component whose tool `fails` runs some code, and then returns a failure without
/// a message.
pub(crate) fn failing_after(code: &str) -> Vec<u8> {
    // The result is an error of the kind `failed`.
    let call = format!(
        "{code} (i32.store8 (i32.const 4096) (i32.const 1))
        (i32.store8 (i32.const 4100) (i32.const 4)) (i32.const 4096))"
    );
    let text = component_text(&listing_of(&[("fails", "{}")]));
    let text = text.replace(
        "(param i32 i32 i32 i32) (result i32) unreachable)",
        "(param i32 i32 i32 i32) (result i32) i32.const 8192)",
    );
    let failing_call = CALL.replace("unreachable)", &call);
    wat::parse_str(text.replace(CALL, &failing_call)).unwrap()
}

/// Makes a component whose `call` does not have the type of the interface.
fn untyped_call() -> Vec<u8> {
    let valid = component_text(&harmless(""));
    let from = valid.find("(func $call").unwrap();
    let to = valid[from..].find("(instance $tools").unwrap() + from;
    let core = "(core module $n (func (export \"f\"))) (core instance $j (instantiate $n))
        (func $call (canon lift (core func $j \"f\")))";
    wat::parse_str(format!("{}{core}{}", &valid[..from], &valid[to..])).unwrap()
}

/// Returns a core module whose `definitions` returns `count` records, in a memory of
/// `pages` pages.
pub(crate) fn listing(pages: u32, count: u32, data: &str) -> String {
    let [a, b, c, d] = count.to_le_bytes();
    format!(
        r#"(memory (export "memory") {pages})
    (data (i32.const 0) "\10\00\00\00\{a:02x}\{b:02x}\{c:02x}\{d:02x}")
    {data}
    (func (export "definitions") (result i32) i32.const 0)
    {CALL}"#
    )
}

/// Returns the record of a definition at this address, as data: a name, an input schema,
/// and a description of `description` bytes.
pub(crate) fn definition(at: u32, name: &str, schema: &str, description: u32) -> String {
    const SIZE: u32 = 92;
    let mut record = vec![0_u8; SIZE as usize];
    let mut set = |offset: usize, value: u32| {
        record[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    };
    let strings = 32_768 + at;
    set(0, strings);
    set(4, name.len() as u32);
    // The second page has zeroes, which are valid text.
    set(16, 65_536);
    set(20, description);
    set(24, strings + name.len() as u32);
    set(28, schema.len() as u32);
    let data = |at: u32, bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!("(data (i32.const {at}) \"{digits}\")\n")
    };
    let strings = data(strings, format!("{name}{schema}").as_bytes());
    data(at, &record) + &strings
}

/// Returns a core module that defines tools of these names and input schemas.
pub(crate) fn listing_of(tools: &[(&str, &str)]) -> String {
    let tools_count = tools.len();
    let tools = tools.iter().enumerate();
    let definitions = tools.map(|(at, (name, schema))| {
        // Each definition has as many bytes for its texts as for its record.
        assert!(at + 1 == tools_count || name.len() + schema.len() <= 92);
        definition(16 + 92 * at as u32, name, schema, 0)
    });
    let definitions: String = definitions.collect();
    listing(1, tools_count as u32, &definitions)
}

/// Returns a valid core module without tools, with `extra` in it.
fn harmless(extra: &str) -> String {
    listing(1, 0, extra)
}

#[test]
fn refuses_components_that_attack_while_loading() {
    let one_tool =
        |name: &str, schema: &str| component(&listing(1, 1, &definition(16, name, schema, 0)));
    let twice = definition(16, "twice", "{}", 0) + &definition(16 + 92, "twice", "{}", 0);
    let all_of_memory: String = (0..250)
        .map(|number| definition(16 + 92 * number, "x", "{}", 60 << 20))
        .collect();
    let text = |text: String| wat::parse_str(text).unwrap();
    let many = |part: &str| {
        let parts = part.repeat(1000);
        text(format!("(component (core module $m (memory 1)) {parts})"))
    };
    let imports: String = (0..900)
        .map(|number| format!("(import \"attack:a{number}/b\" (instance (export \"f\" (func))))"))
        .collect();
    let start = |code: &str| component(&harmless(&format!("(func $s {code}) (start $s)")));
    let on_definitions = |code: &str| {
        component(&format!(
            r#"(memory (export "memory") 1) (table $t 1 funcref)
            (func (export "definitions") (result i32) {code}) {CALL}"#
        ))
    };
    let grow_table = "(loop (br_if 0 (i32.ge_s
        (table.grow $t (ref.null func) (i32.const 1000)) (i32.const 0)))) unreachable";
    let grow_memory = "(loop (br_if 0 (i32.ge_s
        (memory.grow (i32.const 10)) (i32.const 0)))) unreachable";
    let cases = [
        ("start-trap", start("unreachable"), "executed in `s`"),
        (
            "start-loop",
            start("(loop (br 0))"),
            "it was stopped when asked for its tools: it took longer than 200ms",
        ),
        ("asked-trap", on_definitions("unreachable"), "unreachable"),
        (
            "asked-loop",
            on_definitions("(loop (br 0)) unreachable"),
            "it was stopped when asked for its tools: it took longer than 200ms",
        ),
        (
            "asked-table",
            on_definitions(grow_table),
            "more than 20000 table elements",
        ),
        (
            "asked-memory",
            on_definitions(grow_memory),
            "more than 67108864 bytes of memory",
        ),
        (
            "asked-nowhere",
            on_definitions("i32.const 65532"),
            "out of bounds",
        ),
        ("asked-askew", on_definitions("i32.const 3"), "not aligned"),
        (
            "large",
            component(&listing(40, 1, &definition(16, "large", "{}", 2 << 20))),
            "larger than 1048576 bytes",
        ),
        (
            "many",
            component(&listing(20, 10_000, "")),
            "it defines 10000 tools, more than 256",
        ),
        (
            "many-beyond-memory",
            component(&listing(1, u32::MAX, "")),
            "out of bounds",
        ),
        (
            "all-of-memory",
            component(&listing(1000, 250, &all_of_memory)),
            "it handed the host more than 134217728 bytes at once",
        ),
        (
            "twice",
            component(&listing(1, 2, &twice)),
            "it defines the tool `twice` twice",
        ),
        (
            "name",
            one_tool("../x", "{}"),
            "a tool's name is 1 to 64 letters",
        ),
        (
            "name-escapes",
            one_tool("\u{1b}[2J", "{}"),
            "in its tool `\\u{1b}[2J`",
        ),
        (
            "name-none",
            one_tool("", "{}"),
            "a tool's name is 1 to 64 letters",
        ),
        (
            "schema",
            one_tool("x", "no JSON"),
            "its input schema: it is not JSON",
        ),
        (
            "schema-list",
            one_tool("x", "[]"),
            "it is not a JSON object",
        ),
        (
            "schema-deep",
            one_tool("x", &"{\"a\":".repeat(5000)),
            "its input schema: it is not JSON",
        ),
        (
            "schema-remote",
            one_tool("x", r#"{"$ref":"http://127.0.0.1/x"}"#),
            "its input schema has `$ref`",
        ),
        (
            "schema-file",
            one_tool("x", r#"{"$ref":"file:///etc/passwd"}"#),
            "its input schema has `$ref`",
        ),
        (
            "schema-wrong",
            one_tool("x", r#"{"properties":{"a":{"pattern":"("}}}"#),
            "its input schema is not valid",
        ),
        ("memory", component(&listing(2000, 0, "")), "memory"),
        (
            "table",
            component(&harmless("(table 100000 funcref)")),
            "table",
        ),
        (
            "tables",
            component(&harmless(&"(table 10 funcref)".repeat(100))),
            "table",
        ),
        (
            "instances",
            many("(core instance (instantiate $m))"),
            "instances",
        ),
        (
            "imports",
            text(format!("(component {imports})")),
            "attack:a0/b",
        ),
        (
            "callable",
            untyped_call(),
            "failed to convert function to given type",
        ),
        (
            "types",
            text(
                r#"(component (instance $i) (export "skillhost:tool/tools@0.1.0" (instance $i)))"#
                    .to_owned(),
            ),
            "does not export",
        ),
    ];
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    for (name, bytes, _) in &cases {
        fs::write(folders.outside.join(format!("{name}.wasm")), bytes).unwrap();
    }
    let good = guests().join("unchecked.wasm");
    fs::copy(good, folders.outside.join("zzz.wasm")).unwrap();
    let mut limits = Limits::default();
    limits.time = Duration::from_millis(200);
    let host = builder().skills(&folders.root).tools(&folders.outside);
    let grant = Grant::new().skills(["a"]).unwrap();
    let host = host.limits(limits).grant("zzz.wasm", grant);
    let host = block_on(host.build()).unwrap();
    let mut wrong = Vec::new();
    for (name, _, reason) in &cases {
        let file = format!("/{name}.wasm`");
        let about: Vec<&String> = host
            .problems()
            .iter()
            .filter(|p| p.contains(&file))
            .collect();
        match about[..] {
            [problem] if problem.contains(reason) => {}
            _ => wrong.push(format!("{name}: {about:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(host.problems().len(), cases.len());
    let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
    assert_eq!(model_text(&host, "raw_read", arguments), "# A\n");
    let arguments = json!({"skill_name": "a", "file_path": "SKILL.md"});
    assert_eq!(model_text(&host, "read_file_in_skill", arguments), "# A\n");
}
