//! Functions with WIT types as tools, without JSON on the component's side.

mod page;
mod refused;
mod shown;

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost::{CallError, FailureKind, Form, Grant, Host, Limits, Stop};

use crate::support::folders::Folders;
use crate::support::{build, builder, call, guests, model_text, repository};

fn typed() -> Vec<u8> {
    fs::read(guests().join("typed.wasm")).unwrap()
}

/// A host with the guest `typed`, over the sample skills.
fn host() -> &'static Host {
    static HOST: OnceLock<(Folders, Host)> = OnceLock::new();
    let (_, host) = HOST.get_or_init(|| with(Limits::default()));
    host
}

fn with(limits: Limits) -> (Folders, Host) {
    let folders = Folders::new();
    fs::write(folders.outside.join("typed.wasm"), typed()).unwrap();
    let host = builder()
        .without_embedded_tools()
        .skills(repository().join("skills"))
        .tools(&folders.outside)
        .grant(
            "typed.wasm",
            Grant::new().skills(["calculator", "non?"]).unwrap(),
        )
        .limits(limits);
    (folders, build(host))
}

/// What a program reads of a call.
fn record(tool: &str, arguments: Value) -> Value {
    match call(host(), tool, arguments) {
        Ok(output) => output.record(),
        Err(error) => error.record(),
    }
}

#[test]
fn every_wit_type_comes_back_from_a_component_as_it_went_in() {
    let point = json!({"x": -1, "y": 2, "text_beside": "é"});
    let cases: [(&str, Vec<Value>); 24] = [
        ("bool", vec![json!(true), json!(false)]),
        ("s8", vec![json!(-128), json!(0), json!(127)]),
        ("u8", vec![json!(0), json!(255)]),
        ("s16", vec![json!(-32768), json!(32767)]),
        ("u16", vec![json!(0), json!(65535)]),
        ("s32", vec![json!(i32::MIN), json!(i32::MAX)]),
        ("u32", vec![json!(0), json!(u32::MAX)]),
        (
            "s64",
            vec![
                json!(-9_007_199_254_740_991_i64),
                json!("-9007199254740992"),
                json!(i64::MIN.to_string()),
                json!(i64::MAX.to_string()),
            ],
        ),
        (
            "u64",
            vec![
                json!(0),
                json!(9_007_199_254_740_991_u64),
                json!("9007199254740992"),
                json!(u64::MAX.to_string()),
            ],
        ),
        (
            "f32",
            vec![json!(0.1), json!(-1.5), json!(3.4028235e38), json!("NaN")],
        ),
        (
            "f64",
            vec![
                json!(0.1),
                json!(1e300),
                json!("Infinity"),
                json!("-Infinity"),
            ],
        ),
        ("char", vec![json!("a"), json!("\u{0}"), json!("𝄞")]),
        ("string", vec![json!(""), json!("\"\\\u{0}é𝄞\n")]),
        ("bytes", vec![json!(""), json!("AP8="), json!("aGVsbG8=")]),
        ("list", vec![json!([]), json!(["", "a"])]),
        (
            "lists",
            vec![json!([]), json!([[], [1, "-9007199254740993"]])],
        ),
        ("tuple", vec![json!([7, "a", null]), json!([7, "", true])]),
        (
            "record",
            vec![point.clone(), json!({"x": 0, "y": 0, "text_beside": null})],
        ),
        (
            "variant",
            vec![
                json!("nothing"),
                json!({"circle": 1.5}),
                json!({"many_corners": [point, {"x": 1, "y": 1, "text_beside": null}]}),
                json!({"named": null}),
                json!({"named": "a"}),
            ],
        ),
        ("enum", vec![json!("dark_red"), json!("light_blue")]),
        ("flags", vec![json!([]), json!(["may_read", "may_run"])]),
        ("option", vec![json!(null), json!(5)]),
        (
            "options",
            vec![json!(null), json!({"some": null}), json!({"some": 5})],
        ),
        ("list_of_options", vec![json!([null, point, null])]),
    ];
    for (kind, values) in cases {
        let tool = format!("echo_{kind}");
        for value in values {
            let given = json!({"value": value});
            let back = record(&tool, given.clone());
            // A record is what a program reads; anything else is in one.
            let back = back.get("result").unwrap_or(&back);
            assert_eq!(*back, value, "{tool} {given}");
        }
    }
    for value in [json!([{"ok": 1}, {"err": ""}]), json!([])] {
        assert_eq!(
            record("echo_results", json!({"value": value}))["result"],
            value
        );
    }
    let value = json!(["ok", "err"]);
    assert_eq!(
        record("echo_bare_results", json!({"value": value}))["result"],
        value
    );
}

#[test]
fn the_model_reads_a_string_as_it_is_and_anything_else_as_json() {
    for (tool, arguments, text) in [
        ("echo_string", json!({"value": "a \"b\""}), "a \"b\""),
        ("echo_enum", json!({"value": "green"}), "\"green\""),
        ("echo_list", json!({"value": ["a", "b"]}), r#"["a", "b"]"#),
        ("echo_option", json!({}), "null"),
        ("echo_f64", json!({"value": 2}), "2.0"),
        ("give_nothing", json!({}), "null"),
        (
            "echo_record",
            json!({"value": {"x": 1, "y": 2}}),
            r#"{"x": 1, "y": 2, "text_beside": null}"#,
        ),
        (
            "echo_many",
            json!({"a": "x", "c": "green"}),
            r#"["green", null, "x"]"#,
        ),
        ("answer", json!({"text": "yes", "fail": false}), "yes"),
    ] {
        assert_eq!(model_text(host(), tool, arguments), text, "{tool}");
    }
}

#[test]
fn an_err_is_a_failure_of_the_tool() {
    for (tool, arguments, message, program) in [
        (
            "answer",
            json!({"text": "no such term", "fail": true}),
            "no such term",
            json!({"error": "no such term"}),
        ),
        (
            "fail_with_a_case",
            json!({"text": "a"}),
            r#"{"not_there": "a"}"#,
            json!({"error": {"not_there": "a"}}),
        ),
        (
            "fail_with_a_case",
            json!({"text": ""}),
            "\"too_late\"",
            json!({"error": "too_late"}),
        ),
        (
            "fail_silently",
            json!({}),
            "the tool failed, and does not say why",
            json!({"error": "the tool failed, and does not say why"}),
        ),
    ] {
        let error = call(host(), tool, arguments).unwrap_err();
        assert_eq!(error.model_text(), message);
        assert_eq!(error.record(), program);
        let CallError::Failed(failure) = error else {
            panic!("{tool}: {error:?}");
        };
        assert_eq!(failure.kind, FailureKind::Failed);
        assert_eq!(failure.message, message);
    }
}

#[test]
fn the_skill_that_skill_name_names_is_the_only_preopen_and_without_one_there_is_none() {
    let entries = fs::read_dir(repository().join("skills/calculator")).unwrap();
    assert_eq!(
        record("folder", json!({"skill_name": "calculator"})),
        json!({"result": [["/skills/calculator"], entries.count()]})
    );
    assert_eq!(record("mounts", json!({})), json!({"result": []}));
    let definitions = host().definitions();
    let rules = definitions.iter().filter_map(|one| one.folder.as_ref());
    let rules: Vec<&str> = rules.map(|rule| &*rule.skill_property).collect();
    assert_eq!(rules, ["skill_name", "skill_name"]);
}

#[test]
fn a_skill_that_is_not_there_or_not_granted_is_refused_before_the_component_runs() {
    let error = call(host(), "folder", json!({"skill_name": "none"})).unwrap_err();
    let CallError::Failed(failure) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(failure.kind, FailureKind::NotFound);
    assert_eq!(failure.message, "there is no skill of that name");
    assert_eq!(failure.unknown_skill.as_deref(), Some("none"));
    for name in ["weather", "other"] {
        let error = call(host(), "folder", json!({"skill_name": name})).unwrap_err();
        let not_granted = matches!(
            &error,
            CallError::Stopped { stop: Stop::NotGranted { skill, .. }, .. } if skill == name
        );
        assert!(not_granted, "{error:?}");
    }
    for name in ["", "..", "../skills/calculator", "calculator/docs"] {
        let error = call(host(), "folder", json!({"skill_name": name})).unwrap_err();
        assert!(matches!(error, CallError::Failed(_)), "{name}: {error:?}");
    }
}

#[test]
fn limits_hold_for_functions_as_for_other_tools() {
    let mut limits = Limits::default();
    limits.time = Duration::from_millis(500);
    limits.output = 100_000;
    limits.hostcall_fuel = 4 << 20;
    let (_folders, host) = with(limits);
    let stopped = |tool: &str, arguments: Value| match call(&host, tool, arguments) {
        Err(CallError::Stopped { stop, .. }) => stop,
        other => panic!("{tool}: {other:?}"),
    };
    assert_eq!(
        stopped("long_text", json!({"bytes": 100_001})),
        Stop::Output(100_000)
    );
    assert_eq!(
        stopped("long_list", json!({"count": 10_000})),
        Stop::Output(100_000)
    );
    assert_eq!(
        stopped("long_list", json!({"count": 500_000})),
        Stop::HostcallFuel(4 << 20)
    );
    assert!(matches!(
        stopped("compute_for_ever", json!({})),
        Stop::Time(_)
    ));
    assert!(matches!(
        stopped("break_off", json!({"why": "x"})),
        Stop::Trap(_)
    ));
    let text = model_text(&host, "long_text", json!({"bytes": 100_000}));
    assert_eq!(text.len(), 100_000);
}

#[test]
fn arguments_of_another_type_are_refused_with_the_property_and_what_is_expected() {
    let number = "must be a number or one of \"NaN\", \"Infinity\", \"-Infinity\"";
    let cases = [
        ("bool", json!("true"), "must be a boolean"),
        ("s8", json!(128), "128 is greater than the maximum of 127"),
        ("s8", json!(-129), "-129 is less than the minimum of -128"),
        ("u8", json!(256), "256 is greater than the maximum of 255"),
        ("u8", json!(-1), "-1 is less than the minimum of 0"),
        ("u8", json!(1.5), "must be an integer"),
        ("u8", json!("1"), "must be an integer"),
        (
            "u16",
            json!(65536),
            "65536 is greater than the maximum of 65535",
        ),
        (
            "s16",
            json!(-32769),
            "-32769 is less than the minimum of -32768",
        ),
        ("s32", json!(2_147_483_648_i64), "the maximum of 2147483647"),
        ("u32", json!(4_294_967_296_i64), "the maximum of 4294967295"),
        ("s64", json!(1.5), "must be an integer or a string"),
        ("s64", json!(1e30), "the maximum of 9007199254740991"),
        (
            "s64",
            json!(9_007_199_254_740_992_i64),
            "the maximum of 9007199254740991, and is not a string",
        ),
        (
            "s64",
            json!("9223372036854775808"),
            "must be an integer from -9223372036854775808 to 9223372036854775807, as a string of \
             its digits if it is beyond ±9007199254740991",
        ),
        (
            "u64",
            json!("18446744073709551616"),
            "must be an integer from 0 to 18446744073709551615",
        ),
        (
            "u64",
            json!("-1"),
            "does not match \"^[0-9]{1,20}$\", and is not an integer",
        ),
        (
            "f32",
            json!(1e39),
            "must be a number from -3.4028235e38 to 3.4028235e38",
        ),
        ("f32", json!("nan"), number),
        ("f64", json!("1"), number),
        ("f64", json!(true), number),
        ("char", json!("ab"), "is longer than 1 character"),
        ("char", json!(""), "is shorter than 1 character"),
        ("char", json!(7), "must be a string"),
        ("string", json!(1), "must be a string"),
        (
            "bytes",
            json!("a"),
            "must be a string of bytes in base64, with its padding",
        ),
        ("bytes", json!([1]), "must be a string"),
        ("list", json!({}), "must be an array"),
        ("list", json!(["a", 1]), "'value.1' must be a string"),
        (
            "lists",
            json!([[], [1, true]]),
            "'value.1.1' must be an integer or a string",
        ),
        ("tuple", json!([1, "a"]), "has less than 3 items"),
        ("tuple", json!([1, "a", null, 1]), "has more than 3 items"),
        ("tuple", json!([1, 2, null]), "'value.1' must be a string"),
        ("record", json!("x"), "must be an object"),
        (
            "record",
            json!({"x": 1}),
            "Missing required argument: 'value.y'",
        ),
        (
            "record",
            json!({"x": 1, "y": 2, "z": 3}),
            "Unknown argument: 'z'",
        ),
        (
            "record",
            json!({"x": 1, "y": null}),
            "'value.y' must be an integer",
        ),
        (
            "variant",
            json!("circle"),
            "must be an object or one of \"nothing\"",
        ),
        (
            "variant",
            json!({"square": 1}),
            "must be an object with 'circle', an object with 'many_corners', an object with \
             'named' or one of \"nothing\"",
        ),
        (
            "variant",
            json!({"circle": "1"}),
            "'value.circle' must be a number or one of",
        ),
        (
            "variant",
            json!({"many_corners": [{"x": 1, "y": "1"}]}),
            "'value.many_corners.0.y' must be an integer",
        ),
        (
            "enum",
            json!("red"),
            "is not one of \"dark_red\", \"green\" or \"light_blue\"",
        ),
        ("enum", json!("dark-red"), "is not one of"),
        ("flags", json!("may_read"), "must be an array"),
        ("flags", json!(["may_fly"]), "'value.0' is invalid"),
        ("flags", json!(["may_read", "may_read"]), "non-unique"),
        ("option", json!("x"), "must be null or an integer"),
        ("options", json!(5), "must be null or an object"),
        (
            "options",
            json!({"some": "x"}),
            "'value.some' must be null or an integer",
        ),
        ("results", json!(["ok"]), "'value.0' must be an object"),
        (
            "results",
            json!([{"ok": "x"}]),
            "'value.0.ok' must be an integer",
        ),
        (
            "bare_results",
            json!(["maybe"]),
            "is not one of \"ok\" or \"err\"",
        ),
    ];
    for (kind, value, message) in cases {
        let tool = format!("echo_{kind}");
        let error = call(host(), &tool, json!({"value": value})).unwrap_err();
        assert!(matches!(error, CallError::Arguments(_)), "{error:?}");
        let said = error.to_string();
        assert!(said.contains(message), "{tool} {value}: {said}");
        assert!(
            said.contains("'value") || message.starts_with("Unknown"),
            "{said}"
        );
    }
    for (arguments, message) in [
        (json!({}), "Missing required argument: 'value'"),
        (json!({"value": null}), "Argument 'value' must be a boolean"),
        (
            json!({"value": true, "valeu": 1}),
            "Unknown argument: 'valeu'; did you mean 'value'?",
        ),
    ] {
        let error = call(host(), "echo_bool", arguments).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn definitions_say_what_the_types_are() {
    let definitions = host().definitions();
    let definition = |name: &str| {
        let found = definitions
            .iter()
            .find(|definition| definition.name == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let twice: Vec<&str> = definitions
        .iter()
        .map(|definition| &*definition.name)
        .filter(|name| name.ends_with("twice"))
        .collect();
    assert_eq!(twice, ["echo_twice", "other_twice"]);
    let many = definition("echo_many");
    assert_eq!(
        Value::from(many.input_schema.clone()),
        json!({
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "b": {
                    "type": ["object", "null"],
                    "properties": {
                        "x": {"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX},
                        "y": {"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX},
                        "text_beside": {"type": ["string", "null"]},
                    },
                    "required": ["x", "y"],
                    "additionalProperties": false,
                },
                "c": {"type": "string", "enum": ["dark_red", "green", "light_blue"]},
            },
            "required": ["a", "c"],
            "additionalProperties": false,
        })
    );
    assert_eq!(many.model_reads, Form::Text);
    assert_eq!(many.description, "All together, in another order.");
    assert_eq!(
        definition("answer").description,
        "Answers with the string, or fails with it.\n\nIt fails where `fail` says so."
    );
    assert_eq!(
        definition("echo_u8").description,
        "The function `echo-u8` of `skillhost-test:typed/echo@0.1.0`."
    );
    let other = definition("other_twice");
    assert_eq!(
        other.description,
        "Where the point lies that is twice as far away."
    );
    assert_eq!(
        Value::from(definition("echo_option").output_schema.clone().unwrap()),
        json!({
            "type": "object",
            "properties": {
                "result": {"type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX},
            },
            "required": ["result"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        other.output_schema.as_ref().unwrap()["properties"],
        other.input_schema["properties"]["value"]["properties"]
    );
    assert_eq!(definition("echo_record").model_reads, Form::Record);
}
