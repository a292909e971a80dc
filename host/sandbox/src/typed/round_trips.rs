//! Tests with random values of every type. The conversion to JSON and back leaves values
//! unchanged, and the schema accepts their JSON. Values of another type are refused and never
//! cause a panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use wasmtime::component::Val;

use super::comments::TypeComments;
use super::schema::SchemaWriter;
use super::shape::{Integer, Label, Shape};
use super::{lift, lower, schema};
use crate::tool::arguments::Schema;

const INTEGERS: [Integer; 8] = [
    Integer::S8,
    Integer::U8,
    Integer::S16,
    Integer::U16,
    Integer::S32,
    Integer::U32,
    Integer::S64,
    Integer::U64,
];

fn label(index: usize) -> Label {
    Label::new(["a", "b-c", "d2-E", "some", "ok", "err"][index % 6])
}

fn labels(max: usize) -> impl Strategy<Value = Vec<Label>> {
    (1..=max).prop_map(|count| (0..count).map(label).collect())
}

/// Generates types of every kind.
fn shape() -> BoxedStrategy<Shape> {
    let leaf = prop_oneof![
        Just(Shape::Bool),
        prop::sample::select(&INTEGERS[..]).prop_map(Shape::Integer),
        Just(Shape::Float32),
        Just(Shape::Float64),
        Just(Shape::Char),
        Just(Shape::String),
        Just(Shape::Bytes),
        labels(6).prop_map(Shape::Enum),
        labels(6).prop_map(Shape::Flags),
    ];
    let nested = leaf.prop_recursive(4, 24, 4, |inner| {
        let several = || prop::collection::vec(inner.clone(), 1..4);
        let payload = || prop::option::of(inner.clone());
        prop_oneof![
            // `Shape::Bytes` is the list of bytes.
            inner
                .clone()
                .prop_filter("a list of bytes", |shape| {
                    *shape != Shape::Integer(Integer::U8)
                })
                .prop_map(|shape| Shape::List(shape.into())),
            inner.clone().prop_map(|shape| Shape::Option(shape.into())),
            several().prop_map(Shape::Tuple),
            several().prop_map(|shapes| {
                let fields = shapes.into_iter().enumerate();
                Shape::Record(fields.map(|(at, shape)| (label(at), shape)).collect())
            }),
            prop::collection::vec(payload(), 1..4).prop_map(|shapes| {
                let cases = shapes.into_iter().enumerate();
                Shape::Variant(cases.map(|(at, shape)| (label(at), shape)).collect())
            }),
            (payload(), payload()).prop_map(|(ok, err)| Shape::Result(Box::new([ok, err]))),
        ]
    });
    nested.boxed()
}

/// Generates integers of a type, often at an end of its range.
fn integer(integer: Integer) -> BoxedStrategy<Val> {
    let (min, max) = integer.range();
    let ends = [min, min + 1, -1, 0, 1, max - 1, max];
    let exact = schema::MAX_EXACT;
    let ends = ends
        .into_iter()
        .chain([-exact - 1, -exact, exact, exact + 1]);
    let ends: Vec<i128> = ends.filter(|end| (min..=max).contains(end)).collect();
    let number = prop_oneof![prop::sample::select(ends), min..=max];
    number
        .prop_map(move |number| match integer {
            Integer::S8 => Val::S8(number.try_into().unwrap()),
            Integer::U8 => Val::U8(number.try_into().unwrap()),
            Integer::S16 => Val::S16(number.try_into().unwrap()),
            Integer::U16 => Val::U16(number.try_into().unwrap()),
            Integer::S32 => Val::S32(number.try_into().unwrap()),
            Integer::U32 => Val::U32(number.try_into().unwrap()),
            Integer::S64 => Val::S64(number.try_into().unwrap()),
            Integer::U64 => Val::U64(number.try_into().unwrap()),
        })
        .boxed()
}

/// Generates values of a type.
fn value(shape: &Shape) -> BoxedStrategy<Val> {
    match shape {
        Shape::Bool => any::<bool>().prop_map(Val::Bool).boxed(),
        Shape::Integer(kind) => integer(*kind),
        Shape::Float32 => any::<u32>()
            .prop_map(|bits| Val::Float32(f32::from_bits(bits)))
            .boxed(),
        Shape::Float64 => any::<u64>()
            .prop_map(|bits| Val::Float64(f64::from_bits(bits)))
            .boxed(),
        Shape::Char => any::<char>().prop_map(Val::Char).boxed(),
        Shape::String => any::<String>().prop_map(Val::String).boxed(),
        Shape::Bytes => prop::collection::vec(any::<u8>().prop_map(Val::U8), 0..8)
            .prop_map(Val::List)
            .boxed(),
        Shape::List(shape) => prop::collection::vec(value(shape), 0..4)
            .prop_map(Val::List)
            .boxed(),
        Shape::Tuple(shapes) => {
            let values: Vec<_> = shapes.iter().map(value).collect();
            values.prop_map(Val::Tuple).boxed()
        }
        Shape::Record(fields) => {
            let names: Vec<String> = fields.iter().map(|(name, _)| name.wit.clone()).collect();
            let values: Vec<_> = fields.iter().map(|(_, shape)| value(shape)).collect();
            values
                .prop_map(move |values| Val::Record(names.iter().cloned().zip(values).collect()))
                .boxed()
        }
        Shape::Variant(cases) => {
            let case = prop::sample::select(cases.clone());
            case.prop_flat_map(|(name, shape)| {
                payload(shape.as_ref())
                    .prop_map(move |payload| Val::Variant(name.wit.clone(), payload))
            })
            .boxed()
        }
        Shape::Enum(labels) => prop::sample::select(labels.clone())
            .prop_map(|label| Val::Enum(label.wit))
            .boxed(),
        Shape::Flags(labels) => {
            let wit: Vec<String> = labels.iter().map(|label| label.wit.clone()).collect();
            let max = wit.len();
            prop::sample::subsequence(wit, 0..=max)
                .prop_map(Val::Flags)
                .boxed()
        }
        Shape::Option(shape) => prop::option::of(value(shape))
            .prop_map(|value| Val::Option(value.map(Box::new)))
            .boxed(),
        Shape::Result(cases) => prop_oneof![
            payload(cases[0].as_ref()).prop_map(|value| Val::Result(Ok(value))),
            payload(cases[1].as_ref()).prop_map(|value| Val::Result(Err(value))),
        ]
        .boxed(),
    }
}

fn payload(shape: Option<&Shape>) -> BoxedStrategy<Option<Box<Val>>> {
    match shape {
        None => Just(None).boxed(),
        Some(shape) => value(shape).prop_map(|value| Some(Box::new(value))).boxed(),
    }
}

fn shape_and_value() -> impl Strategy<Value = (Shape, Val)> {
    shape().prop_flat_map(|shape| {
        let value = value(&shape);
        (Just(shape), value)
    })
}

/// Generates JSON of every kind.
fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!("NaN")),
        Just(json!("ok")),
        Just(json!("a")),
    ];
    let nested = leaf.prop_recursive(3, 12, 3, |inner| {
        let name = prop::sample::select(vec!["a", "b_c", "some", "ok", "err", ""]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..3).prop_map(|pairs| {
                let pairs = pairs
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::Object(pairs.collect())
            }),
        ]
    });
    nested.boxed()
}

/// Counts a value and all values in it.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(object) => object.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// Replaces the value at the index `at` of a walk through all values.
fn replace(value: &mut Value, at: &mut usize, other: &Value) {
    if *at == 0 {
        *value = other.clone();
    }
    *at = at.wrapping_sub(1);
    match value {
        Value::Array(values) => {
            for value in values {
                replace(value, at, other);
            }
        }
        Value::Object(object) => {
            for value in object.values_mut() {
                replace(value, at, other);
            }
        }
        _ => {}
    }
}

fn json_of(shape: &Shape, value: &Val) -> Value {
    let json = lift::to_json(shape, value, usize::MAX).unwrap();
    serde_json::from_str(&json).unwrap()
}

fn parameter(shape: Shape) -> [(Label, Shape); 1] {
    [(Label::new("the-value"), shape)]
}

fn arguments(value: Value) -> Map<String, Value> {
    Map::from_iter([("the_value".to_owned(), value)])
}

/// Returns whether the JSON has a float that is zero. It reaches the component as an integer,
/// without its sign.
fn has_float_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64() == Some(0.0) && number.is_f64(),
        Value::Array(values) => values.iter().any(has_float_zero),
        Value::Object(object) => object.values().any(has_float_zero),
        _ => false,
    }
}

/// `docs/guides/typed-tools.md` states this size, and `lower.rs` relies on it.
#[test]
fn value_takes_at_most_40_bytes() {
    assert!(size_of::<Val>() <= 40, "{}", size_of::<Val>());
}

#[test]
fn counts_bytes_as_values_before_decoding() {
    let bytes = |count: usize| arguments("A".repeat(count / 3 * 4).into());
    let parameters = parameter(Shape::Bytes);
    assert!(lower::arguments(&parameters, &bytes(240_000)).is_ok());
    let error = lower::arguments(&parameters, &bytes(264_000)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the arguments hold more than 262144 values"
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn value_comes_back_from_json_unchanged((shape, value) in shape_and_value()) {
        let json = json_of(&shape, &value);
        let parameters = parameter(shape);
        let back = lower::arguments(&parameters, &arguments(json.clone()));
        prop_assert_eq!(back, Ok(vec![value]), "{}", json);
    }

    #[test]
    fn schema_accepts_lifted_values_unchanged(
        (shape, value) in shape_and_value()
    ) {
        let json = json_of(&shape, &value);
        let parameters = parameter(shape);
        let comments = TypeComments::default();
        let schema = SchemaWriter::new(&comments).object(&parameters);
        let schema = Schema::new(&schema).unwrap();
        let checked = schema.check(arguments(json.clone()).into());
        let checked = checked.map_err(|error| TestCaseError::fail(format!("{json}: {error}")))?;
        if !has_float_zero(&json) {
            let back = lower::arguments(&parameters, &checked);
            prop_assert_eq!(back, Ok(vec![value]), "{}", json);
        }
    }

    #[test]
    fn refuses_mismatched_value_with_its_path(
        (shape, value) in shape_and_value(),
        at in any::<prop::sample::Index>(),
        other in any_json(),
    ) {
        let mut json = json_of(&shape, &value);
        let mut at = at.index(count(&json));
        replace(&mut json, &mut at, &other);
        let parameters = parameter(shape);
        match lower::arguments(&parameters, &arguments(json.clone())) {
            // A value of the right type comes back unchanged.
            Ok(values) => {
                let again = json_of(&parameters[0].1, &values[0]);
                let again = lower::arguments(&parameters, &arguments(again));
                prop_assert_eq!(again, Ok(values), "{}", json);
            }
            Err(mismatch) => {
                let message = mismatch.to_string();
                prop_assert!(message.starts_with("Argument 'the_value"), "{}", message);
                prop_assert!(message.contains("' must be "), "{}", message);
            }
        }
    }

    #[test]
    fn value_of_another_type_causes_no_panic(
        (shape, _) in shape_and_value(),
        (_, value) in shape_and_value(),
    ) {
        if let Ok(json) = lift::to_json(&shape, &value, 1 << 20) {
            prop_assert!(serde_json::from_str::<Value>(&json).is_ok(), "{}", json);
        }
    }

    #[test]
    fn json_is_never_longer_than_its_limit((shape, value) in shape_and_value(), limit in 0..64_usize) {
        let whole = lift::to_json(&shape, &value, usize::MAX).unwrap();
        match lift::to_json(&shape, &value, limit) {
            Ok(json) => prop_assert!(json == whole && json.len() <= limit),
            Err(stop) => {
                prop_assert_eq!(stop, crate::tool::Stop::Output(limit));
                prop_assert!(whole.len() > limit);
            }
        }
    }
}
