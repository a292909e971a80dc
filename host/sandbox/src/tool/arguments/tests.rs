//! Tests of arguments that match or do not match a schema, and of the messages.

use super::*;
use serde_json::json;

pub(super) fn schema(schema: Value) -> Schema {
    compile(schema).unwrap()
}

pub(super) fn compile(schema: Value) -> anyhow::Result<Schema> {
    let Value::Object(input_schema) = schema else {
        panic!("not an object")
    };
    Schema::new(&input_schema)
}

#[test]
fn plain_arguments_also_pass_validator() {
    let wrappers: [fn(Value) -> Value; 7] = [
        |x_schema| json!({"type": "object", "properties": {"x": x_schema}, "required": ["x"]}),
        |x_schema| json!({"properties": {"x": x_schema}, "additionalProperties": false}),
        |x_schema| json!({"properties": {"x": x_schema}, "maxProperties": 0}),
        |x_schema| json!({"properties": {"x": x_schema}, "not": {"required": ["x"]}}),
        |x_schema| json!({"properties": {"x": x_schema}, "patternProperties": {"x": false}}),
        |x_schema| json!({"properties": {"x": x_schema}, "propertyNames": {"maxLength": 0}}),
        |x_schema| json!({"properties": {"x": {"allOf": [x_schema]}}, "title": "T"}),
    ];
    let properties = [
        json!({"type": "string"}),
        json!({"type": "string", "description": "D", "default": "d", "examples": ["e"]}),
        json!({"type": "string", "maxLength": 1}),
        json!({"type": "string", "pattern": "^a"}),
        json!({"type": "string", "enum": ["a"]}),
        json!({"type": "string", "const": "a"}),
        json!({"type": "string", "unknown": 1}),
        json!({"type": "integer"}),
        json!({"type": "integer", "minimum": 5}),
        json!({"type": "number"}),
        json!({"type": "boolean"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "null"}),
        json!({}),
        json!(true),
        json!(false),
    ];
    let values = [
        json!("a"),
        json!("bb"),
        json!(""),
        json!(0),
        json!(-7),
        json!(u64::MAX),
        json!(0.5),
        json!(1e300),
        json!(true),
        json!([]),
        json!({}),
    ];
    let (mut plain, mut refused) = (0, 0);
    for (wrap, property) in wrappers
        .iter()
        .flat_map(|wrap| properties.iter().map(move |p| (wrap, p)))
    {
        let schema = schema(wrap(property.clone()));
        for value in &values {
            let arguments = json!({"x": value});
            let fits = schema
                .plain
                .as_ref()
                .is_some_and(|plain| plain.fit(arguments.as_object().unwrap()));
            let valid = schema.compiled().unwrap().check(&arguments).is_ok();
            assert!(valid || !fits, "{:?}: {arguments}", schema.source);
            plain += usize::from(fits);
            refused += usize::from(!valid);
        }
    }
    assert!(plain == 20 && refused > 200, "{plain}, {refused}");
}

#[test]
fn refuses_empty_arguments_if_the_schema_does() {
    for (refuses, schema_source) in [
        (false, json!({})),
        (false, json!({"properties": {"x": {"type": "string"}}})),
        (false, json!({"maxProperties": 1})),
        (true, json!({"minProperties": 1})),
        (true, json!({"not": {}})),
        (true, json!({"const": {"x": 1}})),
        (
            true,
            json!({
                "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
            }),
        ),
    ] {
        let checked = schema(schema_source.clone()).check(json!({}));
        assert_eq!(checked.is_err(), refuses, "{schema_source}: {checked:?}");
    }
}

#[test]
fn names_mismatched_property() {
    let schema = schema(json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "offset": {"type": "integer"},
            "mode": {"enum": ["a", "b"]},
            "either": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path"],
    }));
    for (arguments, message) in [
        (json!([]), "the arguments are not a JSON object"),
        (json!({}), "Missing required argument: 'path'"),
        (
            json!({"pth": "x"}),
            "Missing required argument: 'path'. Unknown argument: 'pth'; did you mean 'path'?",
        ),
        (json!({"path": null}), "Argument 'path' must be a string"),
        (json!({"path": 1}), "Argument 'path' must be a string"),
        (
            json!({"path": "x", "offset": "1"}),
            "Argument 'offset' must be an integer",
        ),
        (
            json!({"path": "x", "offset": 1.5}),
            "Argument 'offset' must be an integer",
        ),
        (
            json!({"path": "x", "ofset": 1}),
            "Unknown argument: 'ofset'; did you mean 'offset'?",
        ),
        (
            json!({"path": "x", "tags": ["a", 2]}),
            "Argument 'tags.1' must be a string",
        ),
    ] {
        assert_eq!(
            schema.check(arguments.clone()),
            Err(CallError::Arguments(message.to_owned())),
            "{arguments}"
        );
    }
    let error = schema.check(json!({"path": "x", "mode": "c"})).unwrap_err();
    assert!(
        error.to_string().starts_with("Argument 'mode' is invalid"),
        "{error}"
    );
}

#[test]
fn names_wrong_properties_at_any_depth() {
    let point = json!({
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": false,
    });
    for (schema_source, arguments, message) in [
        (
            json!({"properties": {"at": point}}),
            json!({"at": {}}),
            "Missing required argument: 'at.x'",
        ),
        (
            json!({"properties": {"at": point}}),
            json!({"at": {"x": 1, "y": null}}),
            "Unknown argument: 'at.y'",
        ),
        (
            json!({"properties": {"x": {}}, "anyOf": [{"required": ["x"]}]}),
            json!({}),
            "Invalid arguments: {} is not valid under any of the schemas listed in the 'anyOf' \
             keyword",
        ),
        (
            json!({"allOf": [{"type": "array"}]}),
            json!({}),
            "Invalid arguments: {} is not of type \"array\"",
        ),
        (
            json!({"additionalProperties": true, "allOf": [{"required": ["x"]}]}),
            json!({}),
            "Missing required argument: 'x'",
        ),
    ] {
        let error = schema(schema_source).check(arguments).unwrap_err();
        assert_eq!(error, CallError::Arguments(message.to_owned()));
    }
}

#[test]
fn messages_stay_short_for_schemas_with_long_names() {
    let long = "x".repeat(5000);
    let mut choices = json!({"required": [&long]});
    for _ in 0..20 {
        choices = json!({"anyOf": [{"type": "object", "required": [&long]}, choices]});
    }
    let many: Vec<Value> = (0..50).map(|n| json!({"enum": [n, &long]})).collect();
    for (schema_source, arguments) in [
        (json!({"required": [&long]}), json!({})),
        (
            json!({"properties": {"x": {"required": [&long]}}}),
            json!({"x": {}}),
        ),
        (
            json!({"properties": {(&long): {"type": "string"}}}),
            json!({(&long): 1}),
        ),
        (json!({"properties": {"x": choices}}), json!({"x": {}})),
        (
            json!({"properties": {"x": {"anyOf": many}}}),
            json!({"x": "y"}),
        ),
    ] {
        let error = schema(schema_source).check(arguments).unwrap_err();
        let length = error.to_string().chars().count();
        assert!(length <= 1000, "{length}: {error}");
    }
}

#[test]
fn reports_best_matching_schema() {
    let object = |name: &str, schema: Value| {
        json!({
            "type": "object",
            "properties": {name: schema},
            "required": [name],
            "additionalProperties": false,
        })
    };
    let number = json!({"type": "integer", "minimum": 0});
    let schema = schema(json!({
        "properties": {
            "count": {"anyOf": [number, {"type": "string", "pattern": "^[0-9]+$"}]},
            "size": {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity"]}]},
            "figure": {"anyOf": [
                object("circle", json!({"type": "number"})),
                object("corners", json!({"type": "array", "items": {"anyOf": [number, {"type": "null"}]}})),
                {"type": "string", "enum": ["nothing"]},
            ]},
            "one": {"oneOf": [{"type": "string"}, {"type": "null"}]},
        },
    }));
    let figure = "Argument 'figure' must be an object with 'circle', an object with 'corners' \
                  or \"nothing\"";
    for (arguments, message) in [
        (
            json!({"count": 1.5}),
            "Argument 'count' must be an integer or a string",
        ),
        (
            json!({"count": -1}),
            "Argument 'count' is invalid: -1 is less than the minimum of 0, and is not a string",
        ),
        (
            json!({"count": "x"}),
            "Argument 'count' is invalid: \"x\" does not match \"^[0-9]+$\", and is not an integer",
        ),
        (
            json!({"size": "x"}),
            "Argument 'size' must be a number or one of \"NaN\", \"Infinity\"",
        ),
        (
            json!({"figure": "circle"}),
            "Argument 'figure' must be an object or \"nothing\"",
        ),
        (json!({"figure": {"square": 1}}), figure),
        (json!({"figure": {}}), figure),
        (
            json!({"figure": {"circle": "1"}}),
            "Argument 'figure.circle' must be a number",
        ),
        (
            json!({"figure": {"corners": [1, "x"]}}),
            "Argument 'figure.corners.1' must be an integer or null",
        ),
        (json!({"one": 1}), "Argument 'one' must be a string or null"),
    ] {
        assert_eq!(
            schema.check(arguments.clone()),
            Err(CallError::Arguments(message.to_owned())),
            "{arguments}"
        );
    }
}

#[test]
fn whole_numbers_reach_a_guest_as_integers() {
    let schema = schema(json!({"properties": {"a": {"type": "integer"}}}));
    for (written, received) in [("5.0", "5"), ("-0.0", "0"), ("1e3", "1000"), ("7", "7")] {
        let arguments = parse_arguments(&format!("{{\"a\": {written}}}")).unwrap();
        let checked = Value::Object(schema.check(arguments).unwrap());
        assert_eq!(checked.to_string(), format!("{{\"a\":{received}}}"));
    }
    let nested = compile(json!({"properties": {"a": {}}})).unwrap();
    let checked = nested.check(json!({"a": [{"b": 5.0}]})).unwrap();
    assert_eq!(Value::Object(checked).to_string(), r#"{"a":[{"b":5}]}"#);
}

#[test]
fn null_is_absent_unless_schema_allows_it() {
    let schema = schema(json!({
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": ["integer", "null"]},
            "c": {"type": "null"},
            "d": {"type": ["integer", "string"]},
        },
    }));
    let nulls = json!({"a": null, "b": null, "c": null, "d": null});
    let checked = schema.check(nulls).unwrap();
    assert_eq!(Value::Object(checked), json!({"b": null, "c": null}));
}

#[test]
fn null_counts_as_absent_in_nested_objects() {
    let span = json!({
        "type": "object",
        "properties": {
            "from": {"type": "integer"},
            "to": {"type": "integer"},
            "note": {"type": ["string", "null"]},
        },
        "required": ["from"],
    });
    let schema = schema(json!({
        "properties": {
            "span": span,
            "spans": {"type": "array", "items": span},
            "labels": {"type": "object", "additionalProperties": true},
        },
    }));
    let sent = json!({"from": 1, "to": null, "note": null});
    let received = json!({"from": 1, "note": null});
    let labels = json!({"a": null});
    let checked = schema
        .check(json!({"span": sent, "spans": [sent, sent], "labels": labels}))
        .unwrap();
    assert_eq!(
        Value::Object(checked),
        json!({"span": received, "spans": [received, received], "labels": labels})
    );
    let error = schema.check(json!({"span": {"from": null}})).unwrap_err();
    assert_eq!(error.to_string(), "Argument 'span.from' must be an integer");
}

#[test]
fn refuses_arguments_that_are_not_json() {
    assert_eq!(parse_arguments(" ").unwrap(), json!({}));
    for text in ["{", "{'a': 1}", "{\"a\": 1} x"] {
        let error = parse_arguments(text).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the arguments are not JSON: "),
            "{error}"
        );
    }
    assert!(parse_arguments(&" ".repeat(MAX_ARGUMENTS)).is_ok());
    assert!(parse_arguments(&" ".repeat(MAX_ARGUMENTS + 1)).is_err());
}

#[test]
fn values_of_all_arguments_count_together() {
    let schema = schema(json!({"properties": {"a": {}, "b": {}}}));
    let check = |values: usize| schema.check(json!({"a": vec![1; values], "b": vec![1; values]}));
    assert!(check(4_000).is_ok());
    let many = check(6_000).unwrap_err().to_string();
    assert!(many.contains("more than 10000 values"), "{many}");
}
