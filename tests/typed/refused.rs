//! Functions that cannot be tools: the host refuses to load the component, and names the function
//! and the reason.

use std::fs;

use serde_json::json;
use skillhost::Grant;

use crate::support::folders::Folders;
use crate::support::{block_on, builder, model_text, repository};

/// Makes a component with this text, and core functions of several types to lift.
pub(super) fn component(text: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
    (func (export "none"))
    (func (export "one") (param i32))
    (func (export "two") (param i32 i32))
    (func (export "three") (param i32 i32 i32))
    (func (export "gives") (result i32) unreachable))
  (core instance $i (instantiate $m))
  {text})"#
    );
    wat::parse_str(text).unwrap()
}

/// Returns the text that lifts a core function as a function of type `ty`.
pub(super) fn function(id: &str, ty: &str, core: &str) -> String {
    format!(
        r#"(func ${id} {ty} (canon lift (core func $i "{core}") (memory (core memory $i "memory"))
            (realloc (core func $i "realloc"))))"#
    )
}

/// Returns the reason why a component is refused. Checks that the rest of the host
/// works.
fn refused(name: &str, bytes: &[u8]) -> String {
    let folders = Folders::new();
    fs::write(folders.outside.join(name), bytes).unwrap();
    let host = builder()
        .skills(repository().join("skills"))
        .tools(&folders.outside)
        .grant("get_skill", Grant::new().skills(["*"]).unwrap());
    let host = block_on(host.build()).unwrap();
    let [problem] = host.problems() else {
        panic!("{name}: {:?}", host.problems());
    };
    let text = model_text(&host, "get_skill", json!({"skill_name": "calculator"}));
    assert!(text.contains("calculator"), "{text}");
    // An inspection gives the same reason.
    if let Ok(seen) = block_on(skillhost::inspect(&folders.outside.join(name), None)) {
        let why = seen.tools.unwrap_err();
        assert!(problem.ends_with(&why), "{problem}\n{why}");
    }
    problem.clone()
}

#[test]
fn explains_both_kinds_of_tool_component() {
    let run = function("f", "", "none")
        + r#"(instance $run (export "run" (func $f)))
             (export "wasi:cli/run@0.2.0" (instance $run))"#;
    let types = r#"(type $t (record (field "a" u8))) (export "t" (type $t))"#;
    for (name, text) in [
        ("empty.wasm", ""),
        ("run.wasm", &*run),
        ("types.wasm", types),
    ] {
        let problem = refused(name, &component(text));
        let why = "it is not a tool component: it does not export `skillhost:tool/tools@0.1.1`, nor \
                   a function that could be a tool";
        assert!(problem.ends_with(why), "{problem}");
    }
}

#[test]
fn names_function_and_type_that_have_no_json() {
    let counter = r#"(type $o (resource (rep i32))) (export "another" (type $o))
        (type $r (resource (rep i32))) (export $counter "counter" (type $r))"#;
    let streams = r#"(import "wasi:io/streams@0.2.0" (instance $s
          (export "output-stream" (type (sub resource)))
          (export "input-stream" (type (sub resource)))))
        (alias export $s "input-stream" (type $stream))"#;
    let inner_component = r#"(component (core module $m (func (export "f")))
          (core instance $i (instantiate $m))
          (func (export "next") (canon lift (core func $i "f"))))
        (type $s (stream u8))"#;
    let export = |name: &str| format!(r#"(export "{name}" (func $f))"#);
    let with_function = |before: &str, ty: &str, core: &str| {
        format!(
            "{before} {} {}",
            function("f", ty, core),
            export("count-it")
        )
    };
    let in_interface = format!(
        r#"{counter} {} (instance $it (export "counter" (type $counter))
             (export "next-of" (func $f)))
           (export "acme:counting/counters@1.0.0" (instance $it))"#,
        function("f", r#"(param "self" (borrow $counter))"#, "one")
    );
    let streams_of_interface = format!(
        r#"(type $s (stream u8)) {} (instance $it (export "next-of" (func $f)))
           (export "acme:counting/counters@1.0.0" (instance $it))"#,
        function("f", r#"(param "from" $s)"#, "one")
    );
    let mut doubled_types = r#"(type $t0 (tuple u16 u16))"#.to_owned();
    let mut nested_types = r#"(type $t0 (list u16))"#.to_owned();
    for level in 1..=40 {
        let before = level - 1;
        if level <= 12 {
            doubled_types += &format!("(type $t{level} (option (tuple $t{before} $t{before})))");
        }
        nested_types += &format!("(type $t{level} (list $t{before}))");
    }
    let large_enum: Vec<String> = (0..2100).map(|n| format!("\"name-{n}\"")).collect();
    let large_enum = format!(
        r#"(type $e (enum {})) (export $t "names" (type $e))"#,
        large_enum.join(" ")
    );
    let large_variant: String = (0..2100).map(|n| format!("(case \"c{n}\")")).collect();
    let large_variant =
        format!(r#"(type $v (variant {large_variant})) (export $t "cases" (type $v))"#);
    let long_names = format!(
        r#"(type $r (record (field "{}" u8))) (export $long "long" (type $r))
           (type $t (list (tuple {})))"#,
        "a".repeat(99_000),
        "$long ".repeat(11)
    );
    let many_functions: String = (0..26).map(|n| export(&format!("f{n}"))).collect();
    let names: String = (0..1990).map(|n| format!("\"n{n}\" ")).collect();
    let many_functions = format!(
        r#"(type $e (enum {names})) (export $t "names" (type $e)) {} {many_functions}"#,
        function("f", r#"(param "it" $t)"#, "one")
    );
    let cases = [
        (
            with_function(counter, r#"(param "it" (borrow $counter))"#, "one"),
            "its function `count-it` cannot be a tool: its parameter `it` has `borrow<counter>`, a \
             handle to a resource, which has no form in JSON",
        ),
        (
            with_function(counter, r#"(result (own $counter))"#, "gives"),
            "its function `count-it` cannot be a tool: its result has `own<counter>`",
        ),
        (
            with_function(counter, r#"(param "all" (list (own $counter)))"#, "two"),
            "its parameter `all` has `own<counter>`",
        ),
        (
            with_function(streams, r#"(param "from" (own $stream))"#, "one"),
            "its function `count-it` cannot be a tool: its parameter `from` has \
             `own<input-stream>`",
        ),
        (
            in_interface,
            "the function `next-of` of its interface `acme:counting/counters@1.0.0` \
             cannot be a tool: its parameter `self` has `borrow<counter>`",
        ),
        (
            with_function("(type $s (stream u8))", r#"(param "from" $s)"#, "one"),
            "its function `count-it` cannot be a tool: its parameter `from` has a `stream`, which \
             has no form in JSON",
        ),
        (
            with_function(
                "(type $s (future u8)) (type $l (list $s))",
                r#"(param "from" $l)"#,
                "two",
            ),
            "its parameter `from` has a `future`",
        ),
        (
            streams_of_interface,
            "the function `next-of` of its interface `acme:counting/counters@1.0.0` cannot be a \
             tool: its parameter `from` has a `stream`",
        ),
        // The functions of a nested component do not count.
        (
            with_function(inner_component, r#"(param "from" $s)"#, "one") + &export("next"),
            "its function `count-it` cannot be a tool: its parameter `from` has a `stream`",
        ),
        (
            with_function("", r#"(param "why" error-context)"#, "one"),
            "its parameter `why` has an `error-context`",
        ),
        (
            with_function("(type $s (map string u8))", r#"(param "all" $s)"#, "two"),
            "its parameter `all` has a `map`",
        ),
        (
            with_function("(type $s (list u8 2))", r#"(param "two" $s)"#, "two"),
            "its parameter `two` has a `list` of fixed length",
        ),
        (
            with_function("", "async", "none"),
            "its function `count-it` cannot be a tool: it is `async`",
        ),
        (
            with_function("", r#"(param "skill-name" (option string))"#, "three"),
            "its parameter `skill-name` is not a `string`: that name is reserved for the skill that a \
             call reads",
        ),
        (
            with_function(&doubled_types, r#"(param "it" (list $t12))"#, "two"),
            "its parameter `it` has types of more than 2000 parts",
        ),
        (
            with_function(&nested_types, r#"(param "it" $t40)"#, "two"),
            "its parameter `it` has types nested more than 32 deep",
        ),
        (
            with_function(&large_enum, r#"(param "it" $t)"#, "one"),
            "types of more than 2000 parts",
        ),
        (
            with_function(&large_variant, r#"(param "it" $t)"#, "one"),
            "types of more than 2000 parts",
        ),
        (
            with_function(&long_names, r#"(param "it" $t)"#, "two"),
            "names of more than 1048576 bytes, counting those of other functions",
        ),
        (
            many_functions,
            "its function `f25` cannot be a tool: its parameter `it` has types of more than 50000 \
             parts, counting those of other functions",
        ),
    ];
    for (text, why) in cases {
        let problem = refused("refused.wasm", &component(&text));
        assert!(problem.contains("refused.wasm`: "), "{problem}");
        assert!(problem.contains(why), "{problem}\n{why}");
    }
}

#[test]
fn names_the_function_with_invalid_tool_name() {
    let f = function("f", "", "none");
    let exports = |names: &[&str]| {
        let exports = names
            .iter()
            .map(|name| format!(r#"(export "{name}" (func $f))"#));
        exports.collect::<String>()
    };
    let instance = |name: &str, functions: &[&str]| {
        let id = name.replace([':', '/', '@', '.'], "-");
        format!(
            r#"(instance ${id} {}) (export "{name}" (instance ${id}))"#,
            exports(functions)
        )
    };
    let long = "a".repeat(65);
    let many: Vec<String> = (0..257).map(|n| format!("f{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (text, why) in [
        (
            exports(&[&long]),
            format!("would be the tool `{long}`, a name of 65 characters: use at most 64"),
        ),
        (
            instance("acme:a/terms@1.0.0", &["look-up"])
                + &instance("acme:a/terms@2.0.0", &["look-up"]),
            "the function `look-up` of its interface `acme:a/terms@1.0.0` and the function \
             `look-up` of its interface `acme:a/terms@2.0.0` would both be the tool \
             `terms_look_up`: give one of them another name"
                .to_owned(),
        ),
        (
            exports(&["terms-look-up", "look-up"]) + &instance("acme:a/terms", &["look-up"]),
            "would both be the tool `terms_look_up`".to_owned(),
        ),
        (
            exports(&many),
            "it exports more than 256 functions".to_owned(),
        ),
    ] {
        let problem = refused("names.wasm", &component(&(f.clone() + &text)));
        assert!(problem.contains(&why), "{problem}\n{why}");
    }
}

#[test]
fn allows_only_imports_of_types() {
    let import = |exports: &str| {
        format!(r#"(import "acme:a/types" (instance $t {exports}))"#)
            + &function("f", "", "none")
            + r#"(export "do-nothing" (func $f))"#
    };
    let kind = r#"(type $p (record (field "x" u8))) (export "point" (type (eq $p)))"#;
    let folders = Folders::new();
    let file = folders.outside.join("types.wasm");
    fs::write(&file, component(&import(kind))).unwrap();
    let seen = block_on(skillhost::inspect(&file, None)).unwrap();
    assert!(seen.imports.iter().all(|import| import.granted));
    assert_eq!(seen.tools.unwrap()[0].name, "do_nothing");
    let resource = r#"(export "r" (type (sub resource)))"#;
    let function = r#"(export "f" (func))"#;
    for more in [resource, function] {
        let problem = refused("more.wasm", &component(&import(&(kind.to_owned() + more))));
        assert!(
            problem.contains("it imports `acme:a/types`, which the host does not offer to tools"),
            "{problem}"
        );
    }
}
