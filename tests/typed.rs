//! Functions with WIT types as tools: the component needs no JSON.

mod arguments;
mod definitions;
mod exports;
mod page;
mod refused;
mod shown;

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost::{CallError, FailureKind, Grant, Host, Limits, Stop};

use crate::support::folders::Folders;
use crate::support::{build, builder, call, guests, model_text, repository};

fn guest_bytes() -> Vec<u8> {
    fs::read(guests().join("typed.wasm")).unwrap()
}

/// Returns a host with the guest `typed` and the sample skills.
fn host() -> &'static Host {
    static HOST: OnceLock<(Folders, Host)> = OnceLock::new();
    let (_, host) = HOST.get_or_init(|| host_with_limits(Limits::default()));
    host
}

fn host_with_limits(limits: Limits) -> (Folders, Host) {
    let folders = Folders::new();
    fs::write(folders.outside.join("typed.wasm"), guest_bytes()).unwrap();
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

/// Returns the record of a call.
fn record(tool: &str, arguments: Value) -> Value {
    match call(host(), tool, arguments) {
        Ok(output) => output.record(),
        Err(error) => error.record(),
    }
}

#[test]
fn values_of_every_wit_type_come_back_unchanged() {
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
            // The answer's record is the WIT record itself, or has any other value as `result`.
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
fn model_reads_string_unchanged_and_others_as_json() {
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
fn err_is_a_failure_of_the_tool() {
    for (tool, arguments, message, expected_record) in [
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
            "the tool failed without saying why",
            json!({"error": "the tool failed without saying why"}),
        ),
    ] {
        let error = call(host(), tool, arguments).unwrap_err();
        assert_eq!(error.model_text(), message);
        assert_eq!(error.record(), expected_record);
        let CallError::Failed(failure) = error else {
            panic!("{tool}: {error:?}");
        };
        assert_eq!(failure.kind, FailureKind::Failed);
        assert_eq!(failure.message, message);
    }
}

#[test]
fn preopens_only_skill_in_argument_skill_name() {
    let entries = fs::read_dir(repository().join("skills/calculator")).unwrap();
    assert_eq!(
        record("folder", json!({"skill_name": "calculator"})),
        json!({"result": [["/skills/calculator"], entries.count()]})
    );
    assert_eq!(record("mounts", json!({})), json!({"result": []}));
    let definitions = host().definitions();
    let rules = definitions.iter().filter_map(|tool| tool.folder.as_ref());
    let rules: Vec<&str> = rules.map(|rule| &*rule.skill_property).collect();
    assert_eq!(rules, ["skill_name", "skill_name"]);
}

#[test]
fn refuses_missing_or_ungranted_skill_before_running() {
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
fn functions_have_the_limits_of_other_tools() {
    let mut limits = Limits::default();
    limits.time = Duration::from_millis(500);
    limits.output = 100_000;
    limits.hostcall_fuel = 4 << 20;
    let (_folders, host) = host_with_limits(limits);
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
