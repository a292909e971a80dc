//! Tests with schemas and arguments that would take much time or memory without the bounds.

use serde_json::{Map, Value, json};

use super::super::ARGUMENT_VALUES;
use super::super::tests::{compile, schema};

#[test]
fn refuses_schemas_that_take_long_to_check() {
    let deep = |levels: usize| {
        let mut schema = json!({"type": "string"});
        for _ in 0..levels {
            schema = json!({"allOf": [schema]});
        }
        schema
    };
    let pattern = |pattern: String| json!({"properties": {"a": {"pattern": pattern}}});
    let unevaluated = |levels: usize, keyword: &str| {
        let mut schema = json!({"type": "object"});
        for _ in 0..levels {
            schema = json!({keyword: false, "anyOf": [schema]});
        }
        schema
    };
    for (hostile, reason) in [
        (json!({"$ref": "#"}), "`$ref`"),
        (
            json!({"properties": {"a": {"anyOf": [{"$dynamicRef": "#x"}]}}}),
            "`$dynamicRef`",
        ),
        (
            json!({"allOf": vec![json!({}); 3000]}),
            "more than 2000 values",
        ),
        (
            json!({"properties": {"a": {"pattern": "[ab](?:\\w\\w?){2000}"}}}),
            "not valid",
        ),
        (json!({"properties": {"a": {"pattern": "("}}}), "not valid"),
        (json!({"properties": 1}), "not valid"),
        (pattern("\\s".repeat(20_000)), "classes such as `\\d`"),
        (pattern("\\d".repeat(33)), "classes such as `\\d`"),
        (pattern("\\pL".repeat(171)), "more than 512 bytes"),
        (
            json!({"patternProperties": {"\\cA".repeat(33): {}}}),
            "classes such as `\\d`",
        ),
        (
            json!({"properties": {"n".repeat(1 << 20): {"allOf": vec![true; 1_990]}}}),
            "names that are too long",
        ),
        (
            json!({"$id": "x:".to_owned() + &"n".repeat(1 << 20), "allOf": vec![true; 1_990]}),
            "names that are too long",
        ),
        (
            json!({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}),
            "`$schema` below its root",
        ),
        (
            json!({"properties": {"a": {"$id": "x:a"}}}),
            "`$id` below its root",
        ),
        (
            unevaluated(2, "unevaluatedProperties"),
            "`unevaluatedProperties` inside another",
        ),
        (
            unevaluated(40, "unevaluatedItems"),
            "`unevaluatedItems` inside another",
        ),
    ] {
        let error = compile(hostile.clone()).err().unwrap();
        assert!(
            format!("{error:#}").contains(reason),
            "{hostile}: {error:#}"
        );
    }
    assert!(compile(json!({"properties": {"a": deep(100)}})).is_ok());
    assert!(compile(pattern("\\d".repeat(32))).is_ok());
    let root_keywords = json!({
        "$id": "x:a",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"$id": {"type": "string"}, "$schema": {"type": "string"}},
    });
    assert!(compile(root_keywords).is_ok());
    // Two `unevaluatedProperties` side by side are as fast as one.
    let one = unevaluated(1, "unevaluatedProperties");
    assert!(compile(json!({"properties": {"a": one, "b": one}})).is_ok());
}

#[test]
fn checking_large_arguments_is_bounded() {
    let schema = schema(json!({
        "properties": {"a": {"type": "array", "items": {"anyOf": vec![json!({"maxLength": 1}); 500]}}},
    }));
    let many = schema
        .check(json!({"a": vec!["x"; ARGUMENT_VALUES]}))
        .unwrap_err();
    assert!(
        many.to_string().contains("more than 10000 values"),
        "{many}"
    );
    assert!(schema.check(json!({"a": vec!["xx"; 5_000]})).is_err());
}

#[test]
fn all_patterns_of_schema_share_bound() {
    // The slowest pattern that compiles, and a text on which it is slow.
    let slow = json!({"pattern": "[ab]*a[ab]{222}c"});
    let text = |bytes: usize| {
        let bits = (0..bytes).map(|i| (i * i / 7 + i / 3) % 2 == 0);
        bits.map(|bit| if bit { 'a' } else { 'b' })
            .collect::<String>()
    };
    let all_of = |count: usize| json!({"properties": {"a": {"allOf": vec![&slow; count]}}});
    let mut nested = slow.clone();
    for _ in 0..50 {
        nested = json!({"anyOf": [nested]});
    }
    let for_names: Map<String, Value> = (0..900)
        .map(|i| (format!("[ab]*a[ab]{{200}}c{i}"), json!({})))
        .collect();
    for (hostile, arguments, max) in [
        (all_of(900), json!({"a": [text(2_400), text(2_400)]}), 4_660),
        (all_of(900), json!({"a": text(1 << 20)}), 4_660),
        (
            json!({"properties": {"a": nested}}),
            json!({"a": text(1 << 20)}),
            82_241,
        ),
        (
            json!({"patternProperties": for_names}),
            json!({text(1 << 20): 1}),
            4_660,
        ),
    ] {
        let error = compile(hostile).unwrap().check(arguments).unwrap_err();
        let message = format!("patterns of this tool's schema allow at most {max}");
        assert!(error.to_string().ends_with(&message), "{error}");
    }
    // Below `unevaluatedItems`, each level tries the levels below it once more.
    let mut nested = slow.clone();
    for _ in 0..50 {
        nested = json!({"allOf": [nested]});
    }
    let unevaluated = json!({"unevaluatedItems": false, "allOf": [{"items": nested}]});
    let error = compile(json!({"properties": {"a": unevaluated}}))
        .unwrap()
        .check(json!({"a": [text(100_000)]}));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("patterns of this tool's schema"), "{error}");
    // A text below the maximum is checked.
    let error = compile(all_of(4))
        .unwrap()
        .check(json!({"a": text(4 << 10)}));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("Argument 'a' is invalid"), "{error}");
}

#[test]
fn search_for_mismatch_takes_little_memory() {
    let short = |count: usize| json!({"anyOf": vec![json!({"maxLength": 1}); count]});
    let schema_of_a = |schema: Value| compile(json!({"properties": {"a": schema}})).unwrap();
    // Each alternative would copy the text, or all texts.
    for (schema, value) in [
        (short(900), json!("x".repeat(1 << 20))),
        (
            json!({"anyOf": [{"items": short(900)}]}),
            json!(vec!["xx"; 500]),
        ),
    ] {
        let error = schema_of_a(schema).check(json!({"a": value})).unwrap_err();
        assert!(
            error.to_string().contains("too large to say where"),
            "{error}"
        );
    }
    // Each item would copy the text of the schema, or the path to it.
    let not = json!({"not": {"title": "t".repeat(100_000)}});
    let items = json!({"anyOf": [{"items": not}]});
    let numbers = json!({"anyOf": [{"additionalProperties": {"items": {"type": "integer"}}}]});
    let name = "n".repeat(100_000);
    for (schema, value) in [
        (items, json!(vec![0; 1_000])),
        (numbers, json!({name: vec![""; 1_000]})),
    ] {
        let error = schema_of_a(schema).check(json!({"a": value})).unwrap_err();
        assert!(
            error.to_string().contains("too large to say where"),
            "{error}"
        );
    }
    let error = schema_of_a(short(20)).check(json!({"a": "x".repeat(1 << 20)}));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("Argument 'a' is invalid"), "{error}");
}

#[test]
fn refuses_many_values_for_slow_keywords() {
    let schema_of_a = |schema: Value| compile(json!({"properties": {"a": schema}})).unwrap();
    let alike: Vec<u64> = (0..9_990).map(|i| 18_000_000_000_000_000_000 + i).collect();
    for (schema, value) in [
        (
            json!({"allOf": vec![json!({"uniqueItems": true}); 150]}),
            json!(alike),
        ),
        (
            json!({"items": {"allOf": vec![json!({"multipleOf": 0.5}); 900]}}),
            json!(vec![1e308; 9_990]),
        ),
    ] {
        let error = schema_of_a(schema).check(json!({"a": value})).unwrap_err();
        assert!(
            error.to_string().contains("values: too many to check"),
            "{error}"
        );
    }
    let unique = schema_of_a(json!({"uniqueItems": true, "items": {"multipleOf": 0.5}}));
    assert!(unique.check(json!({"a": alike})).is_ok());
}
