//! Tests with values at the bounds of their types, and with values of other types. A tool's
//! schema would refuse some of them earlier.

use serde_json::{Value, json};
use wasmtime::Engine;
use wasmtime::component::{Component, Val};

use super::answer::FunctionAnswer;
use super::comments::TypeComments;
use super::schema::SchemaWriter;
use super::shape::{Integer, Label, Shape};
use super::{TypedFunctions, answer, exports, lift, lower};
use crate::tool::{Stop, limits};

fn fields<T: Clone>(names: &[&str], each: T) -> Vec<(Label, T)> {
    let field = |name: &&str| (Label::new(name), each.clone());
    names.iter().map(field).collect()
}

fn labels(names: &[&str]) -> Vec<Label> {
    names.iter().map(|name| Label::new(name)).collect()
}

fn option(shape: Shape) -> Shape {
    Shape::Option(shape.into())
}

/// Lowers `value` as the only argument, `v`.
fn lowered(shape: Shape, value: Value) -> Result<Val, String> {
    let arguments = json!({"v": value});
    let values = lower::arguments(&[(Label::new("v"), shape)], arguments.as_object().unwrap());
    values
        .map(|mut values| values.remove(0))
        .map_err(|mismatch| mismatch.to_string())
}

#[test]
fn names_path_and_type_of_refused_value() {
    let boolean = || Shape::Bool;
    let integer = |integer| Shape::Integer(integer);
    let variant = || {
        Shape::Variant(vec![
            (Label::new("a"), Some(Shape::Bool)),
            (Label::new("b"), None),
        ])
    };
    for (shape, value, expected) in [
        (
            Shape::Tuple(vec![boolean(); 2]),
            json!([true]),
            "'v' must be an array of 2 values",
        ),
        (
            Shape::Tuple(vec![boolean(); 2]),
            json!([true, true, true]),
            "'v' must be an array of 2 values",
        ),
        (
            Shape::Tuple(vec![boolean(); 2]),
            json!([true, 1]),
            "'v.1' must be a boolean",
        ),
        (
            Shape::Flags(labels(&["a", "b"])),
            json!(["a", "b", "a"]),
            "'v' must be an array of at most 2 names",
        ),
        (
            Shape::Flags(labels(&["a", "b"])),
            json!(["a", "c"]),
            "'v.1' must be one of \"a\", \"b\"",
        ),
        (
            integer(Integer::U32),
            json!("5"),
            "'v' must be an integer from 0 to 4294967295",
        ),
        (
            integer(Integer::U8),
            json!(-1),
            "'v' must be an integer from 0 to 255",
        ),
        (
            Shape::Char,
            json!("ab"),
            "'v' must be a string of one character",
        ),
        (
            Shape::Record(fields(&["a"], Shape::Bool)),
            json!({"a": true, "b": true}),
            "'v.b' must be left out: the property does not exist",
        ),
        (
            Shape::Record(fields(&["a"], Shape::Bool)),
            json!({}),
            "'v.a' must be given",
        ),
        (
            variant(),
            json!({"a": true, "b": true}),
            "'v' must be one of {\"a\": …}, \"b\"",
        ),
        (
            variant(),
            json!("a"),
            "'v' must be one of {\"a\": …}, \"b\"",
        ),
        (
            variant(),
            json!({"b": true}),
            "'v' must be one of {\"a\": …}, \"b\"",
        ),
        (
            option(integer(Integer::U8)),
            json!(-1),
            "'v' must be an integer from 0 to 255, or null",
        ),
        (
            option(Shape::List(boolean().into())),
            json!([1]),
            "'v.0' must be a boolean",
        ),
        (
            option(option(boolean())),
            json!(true),
            "'v' must be {\"some\": …}, or null",
        ),
        (
            option(option(boolean())),
            json!({"some": true, "more": true}),
            "'v' must be {\"some\": …}, or null",
        ),
        (
            option(option(boolean())),
            json!({"some": 1}),
            "'v.some' must be a boolean, or null",
        ),
    ] {
        let about = format!("{shape:?} {value}");
        let error = lowered(shape, value).unwrap_err();
        assert_eq!(error, format!("Argument {expected}"), "{about}");
    }
}

#[test]
fn reads_large_integers_from_exact_numbers_and_strings() {
    let read = |value: Value| lowered(Shape::Integer(Integer::S64), value).ok();
    let exact = 9_007_199_254_740_991_i64;
    for (value, expected) in [
        (json!(exact), Some(exact)),
        (json!(-exact), Some(-exact)),
        (json!(exact + 1), None),
        (json!(-exact - 1), None),
        (json!((exact + 1).to_string()), Some(exact + 1)),
        (json!("-9223372036854775808"), Some(i64::MIN)),
        (json!("9223372036854775808"), None),
        (json!("007"), Some(7)),
        (json!("+5"), None),
        (json!("-"), None),
        (json!(""), None),
        (json!("5 "), None),
        (json!("000000000000000000001"), None),
    ] {
        assert_eq!(read(value.clone()), expected.map(Val::S64), "{value}");
    }
}

#[test]
fn limits_values_of_call_including_bytes() {
    const VALUES: usize = 1 << 18;
    // The list is a value itself.
    let list = |count| lowered(Shape::List(Shape::Bool.into()), vec![true; count].into());
    // Four characters of base64 are three bytes.
    let bytes = |groups: usize| lowered(Shape::Bytes, "AAAA".repeat(groups).into());
    for (fits, more) in [
        (list(VALUES - 1), list(VALUES)),
        (bytes((VALUES - 1) / 3), bytes((VALUES - 1) / 3 + 1)),
    ] {
        assert!(matches!(fits, Ok(Val::List(_))));
        assert_eq!(
            more.unwrap_err(),
            "the arguments hold more than 262144 values"
        );
    }
}

#[test]
fn answer_may_fill_its_limit_exactly() {
    let text = Val::String("four".to_owned());
    let list = Val::List(vec![Val::Bool(true); 3]);
    let list_shape = Shape::List(Shape::Bool.into());
    let json = "[true, true, true]";
    let result_bytes = json.len() + "{\"result\": [true, true, true]}".len();
    let error_bytes = json.len() + "{\"error\": [true, true, true]}".len();
    type Convert = fn(Option<&Shape>, Option<&Val>, usize) -> Result<FunctionAnswer, Stop>;
    for (convert, list_bytes) in [
        (answer::success as Convert, result_bytes),
        (answer::failure, error_bytes),
    ] {
        for (shape, value, max) in [
            (&Shape::String, &text, "four".len()),
            (&list_shape, &list, list_bytes),
        ] {
            let convert = |limit| convert(Some(shape), Some(value), limit);
            let FunctionAnswer { text, details } = convert(max).unwrap();
            assert_eq!(text.len() + details.map_or(0, |details| details.len()), max);
            for less in [max - 1, 1] {
                assert_eq!(convert(less).err(), Some(Stop::Output(less)));
            }
        }
    }
}

#[test]
fn refuses_an_answer_of_another_type_than_declared() {
    let yes = || Val::Bool(true);
    for (shape, value) in [
        (Shape::Bool, Val::U8(1)),
        (Shape::Tuple(vec![Shape::Bool; 2]), Val::Tuple(vec![yes()])),
        (
            Shape::Tuple(vec![Shape::Bool]),
            Val::Tuple(vec![yes(), yes()]),
        ),
        (
            Shape::Record(fields(&["a", "b"], Shape::Bool)),
            Val::Record(vec![("a".to_owned(), yes())]),
        ),
        (Shape::Enum(labels(&["a"])), Val::Enum("b".to_owned())),
        (
            Shape::Flags(labels(&["a"])),
            Val::Flags(vec!["b".to_owned()]),
        ),
        (
            Shape::Variant(fields(&["a"], None)),
            Val::Variant("b".to_owned(), None),
        ),
        (
            Shape::Variant(fields(&["a"], None)),
            Val::Variant("a".to_owned(), Some(Box::new(yes()))),
        ),
    ] {
        let lifted = lift::to_json(&shape, &value, 1000);
        assert!(
            matches!(lifted, Err(Stop::Trap(_))),
            "{shape:?}: {lifted:?}"
        );
    }
}

#[test]
fn reads_numbers_infinities_and_nan() {
    let read = |value: Value| lowered(Shape::Float64, value).ok();
    for (value, expected) in [
        (json!(1.5), Some(1.5)),
        (json!(7), Some(7.0)),
        (json!("Infinity"), Some(f64::INFINITY)),
        (json!("-Infinity"), Some(f64::NEG_INFINITY)),
        (json!("infinity"), None),
        (json!("1.5"), None),
    ] {
        assert_eq!(read(value.clone()), expected.map(Val::Float64), "{value}");
    }
    assert!(matches!(read(json!("NaN")), Some(Val::Float64(value)) if value.is_nan()));
}

#[test]
fn schema_describes_each_type() {
    let variant = |with: &[&str], without: &[&str]| {
        let mut cases = fields(with, Some(Shape::Bool));
        cases.extend(fields(without, None));
        Shape::Variant(cases)
    };
    let only = |name: &str| {
        json!({
            "type": "object",
            "properties": {name: {"type": "boolean"}},
            "required": [name],
            "additionalProperties": false,
        })
    };
    let names = json!({"type": "string", "enum": ["c", "d"]});
    let optional = json!({
        "type": "object",
        "properties": {"a": {"type": ["boolean", "null"]}},
        "additionalProperties": false,
    });
    for (shape, expected) in [
        (Shape::Record(fields(&["a-b"], Shape::Bool)), only("a_b")),
        (Shape::Record(fields(&["a"], option(Shape::Bool))), optional),
        (variant(&["a"], &[]), only("a")),
        (variant(&[], &["c", "d"]), names.clone()),
        (
            variant(&["a", "b"], &["c", "d"]),
            json!({"anyOf": [only("a"), only("b"), names]}),
        ),
        (
            option(option(Shape::Bool)),
            json!({
                "type": ["object", "null"],
                "properties": {"some": {"type": ["boolean", "null"]}},
                "required": ["some"],
                "additionalProperties": false,
            }),
        ),
        (
            option(Shape::Enum(labels(&["c", "d"]))),
            json!({"anyOf": [names, {"type": "null"}]}),
        ),
        (
            option(Shape::Float32),
            json!({"anyOf": [
                {"type": "number"},
                {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]},
                {"type": "null"},
            ]}),
        ),
        (
            Shape::Integer(Integer::U64),
            json!({"anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991_u64},
                {"type": "string", "pattern": "^[0-9]{1,20}$"},
            ]}),
        ),
        (
            Shape::Integer(Integer::S64),
            json!({"anyOf": [
                {
                    "type": "integer",
                    "minimum": -9_007_199_254_740_991_i64,
                    "maximum": 9_007_199_254_740_991_i64,
                },
                {"type": "string", "pattern": "^-?[0-9]{1,19}$"},
            ]}),
        ),
    ] {
        let schema = SchemaWriter::new(&TypeComments::default()).value(&shape);
        assert_eq!(schema, expected, "{shape:?}");
    }
}

#[test]
fn schema_has_comments_on_record_and_fields() {
    let json = concat!(
        r#"{"worlds": {"w": {"types": {"#,
        r#""point": {"docs": "A place.", "items": {"x": "To the right."}}}}}}"#
    );
    let text = format!(
        r#"(component
  (type $of (record (field "x" u8)))
  (export $point "point" (type $of))
  (core module $m (func (export "f") (param i32)))
  (core instance $i (instantiate $m))
  (func (export "draw") (param "at" $point) (canon lift (core func $i "f")))
  (@custom "package-docs" "\01{}"))"#,
        json.replace('"', "\\22")
    );
    let engine = Engine::default();
    let bytes = wat::parse_str(text).unwrap();
    let component = Component::new(&engine, &bytes).unwrap();
    let functions = TypedFunctions::read(&engine, &component).unwrap().unwrap();
    let definition = functions.definitions(&engine, &component, &bytes).remove(0);
    let at = &Value::Object(definition.input_schema)["properties"]["at"];
    assert_eq!(at["description"], "A place.");
    assert_eq!(at["properties"]["x"]["description"], "To the right.");
}

/// Returns a component with a function `$f` and these exports.
fn component(engine: &Engine, exports: &str) -> Component {
    let text = format!(
        r#"(component
  (core module $m (func (export "f")))
  (core instance $i (instantiate $m))
  (func $f (canon lift (core func $i "f")))
  {exports})"#
    );
    Component::new(engine, wat::parse_str(text).unwrap()).unwrap()
}

#[test]
fn function_without_comment_is_described_by_name() {
    let engine = Engine::default();
    let exports = r#"(export "look-up" (func $f))
        (instance $i (export "count" (func $f)))
        (export "acme:glossary/terms" (instance $i))"#;
    let component = component(&engine, exports);
    let functions = TypedFunctions::read(&engine, &component).unwrap().unwrap();
    let definitions = functions.definitions(&engine, &component, b"");
    let described = definitions
        .iter()
        .map(|one| (&*one.name, &*one.description));
    assert_eq!(
        described.collect::<Vec<_>>(),
        [
            ("look_up", "The function `look-up`."),
            ("count", "The function `count` of `acme:glossary/terms`."),
        ]
    );
}

#[test]
fn refuses_component_with_too_many_exported_functions() {
    let engine = Engine::default();
    let found = |count: usize| {
        let exports: String = (0..count)
            .map(|number| format!(r#"(export "f{number}" (func $f))"#))
            .collect();
        let component = component(&engine, &exports);
        exports::exported_functions(&engine, &component).map(|found| found.len())
    };
    assert_eq!(found(limits::DEFINITIONS).unwrap(), limits::DEFINITIONS);
    let error = found(limits::DEFINITIONS + 1).unwrap_err();
    assert_eq!(error.to_string(), "it exports more than 256 functions");
}
