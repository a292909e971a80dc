//! Exports that a compiler adds are not tools; similar functions of an author are.

use std::fs;

use super::refused::{component, function};
use crate::support::block_on;
use crate::support::folders::Folders;

/// Returns the tools of a component, sorted, or the reason for which it is refused.
fn tools(text: &str) -> Result<Vec<String>, String> {
    let folders = Folders::new();
    let file = folders.outside.join("exports.wasm");
    fs::write(&file, component(text)).unwrap();
    let seen = block_on(skillhost::inspect(&file, None)).unwrap();
    let mut names: Vec<String> = seen.tools?.into_iter().map(|tool| tool.name).collect();
    names.sort();
    Ok(names)
}

#[test]
fn ignores_only_the_export_of_componentize_py() {
    let count = function("count", "", "none") + r#"(export "count" (func $count))"#;
    // Returns an interface of this name with a function `init`. componentize-py exports one that
    // prepares Python.
    let init = |interface: &str, parameters: &str, more: &str| {
        let parameters = parameters.split(", ").filter(|text| !text.is_empty());
        let parameters: String = parameters.map(|text| format!("(param {text})")).collect();
        let core = match parameters.matches("param").count() {
            0 => "none",
            1 => "two",
            _ => "spilled",
        };
        format!(
            r#"(type $symbols (record (field "exports" (list string))))
               (export $s "symbols" (type $symbols))
               (core module $more (func (export "spilled") (param i32 i32 i32 i32 i32)))
               (core instance $j (instantiate $more))
               (func $init {parameters} (canon lift (core func {} "{core}")
                 (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
               (instance $exports (export "symbols" (type $s)) (export "init" (func $init)) {more})
               (export "{interface}" (instance $exports))"#,
            if core == "spilled" { "$j" } else { "$i" }
        )
    };
    let compiler_parameters = r#""app-name" string, "symbols" $s, "stub-wasi" bool"#;
    let other_parameters = r#""app-name" string, "symbols" $s, "stub-wasm" bool"#;
    for (text, expected) in [
        (
            init("exports", compiler_parameters, "") + &count,
            vec!["count"],
        ),
        (
            init("exports", other_parameters, "") + &count,
            vec!["count", "init"],
        ),
        (
            init("exports", r#""name" string"#, "") + &count,
            vec!["count", "init"],
        ),
        (init("exports", "", "") + &count, vec!["count", "init"]),
        (
            init("acme:a/exports", compiler_parameters, "") + &count,
            vec!["count", "init"],
        ),
        (
            init("starts", compiler_parameters, "") + &count,
            vec!["count", "init"],
        ),
        (
            count.clone()
                + &init(
                    "exports",
                    compiler_parameters,
                    r#"(export "more" (func $count))"#,
                ),
            vec!["count", "init", "more"],
        ),
        (
            function("init", "", "none") + r#"(export "init" (func $init))"#,
            vec!["init"],
        ),
    ] {
        assert_eq!(tools(&text).unwrap(), expected, "{text}");
    }
    let why = tools(&init("exports", compiler_parameters, "")).unwrap_err();
    assert!(why.contains("nor a function that could be a tool"), "{why}");
}
