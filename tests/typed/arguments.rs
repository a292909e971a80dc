//! Arguments that do not fit a function's types: each error names the property and its type.

use serde_json::json;
use skillhost::CallError;

use super::host;
use crate::support::call;

#[test]
fn names_property_and_expected_type_of_wrong_argument() {
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
            "Unknown argument: 'value.z'",
        ),
        (
            "record",
            json!({"x": 1, "y": null}),
            "'value.y' must be an integer",
        ),
        (
            "variant",
            json!("circle"),
            "must be an object or \"nothing\"",
        ),
        (
            "variant",
            json!({"square": 1}),
            "must be an object with 'circle', an object with 'many_corners', an object with \
             'named' or \"nothing\"",
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
