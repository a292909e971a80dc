//! Lowering: converts JSON to a component's values. Errors name the path of a value and the
//! expected type.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Number, Value};
use wasmtime::component::Val;

use super::schema::{MAX_EXACT, NOT_FINITE};
use super::shape::{Integer, Label, Shape};

/// The maximum number of values in the arguments of a call. Each byte of a `list<u8>` counts as
/// one. Guards against: base64, which needs 30 bytes of the host's memory per character.
const MAX_VALUES: usize = 1 << 18;

/// The reason why arguments are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueMismatch {
    /// A value does not have the expected type.
    Wrong {
        /// The path, innermost step first.
        path: Vec<String>,
        /// The expected type, with its article.
        expected: String,
    },
    /// There are too many values.
    TooMany,
}

impl std::fmt::Display for ValueMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wrong { path, expected } => {
                let steps: Vec<&str> = path.iter().rev().map(String::as_str).collect();
                write!(f, "Argument '{}' must be {expected}", steps.join("."))
            }
            Self::TooMany => write!(f, "the arguments hold more than {MAX_VALUES} values"),
        }
    }
}

impl ValueMismatch {
    fn new(expected: impl Into<String>) -> Self {
        Self::Wrong {
            path: Vec::new(),
            expected: expected.into(),
        }
    }

    /// Adds an outer step to the path.
    fn at(mut self, step: impl ToString) -> Self {
        if let Self::Wrong { path, .. } = &mut self {
            path.push(step.to_string());
        }
        self
    }
}

/// Converts the arguments of a call to the values of its parameters.
pub(crate) fn arguments(
    parameters: &[(Label, Shape)],
    arguments: &Map<String, Value>,
) -> Result<Vec<Val>, ValueMismatch> {
    let mut values_left = MAX_VALUES;
    parameters
        .iter()
        .map(|(label, shape)| field(label, shape, arguments, &mut values_left))
        .collect()
}

/// Lowers a property of an object. An option may be missing.
fn field(
    label: &Label,
    shape: &Shape,
    object: &Map<String, Value>,
    values_left: &mut usize,
) -> Result<Val, ValueMismatch> {
    let value = object.get(&label.json);
    let value = match (value, shape) {
        (Some(value), _) => value,
        (None, Shape::Option(_)) => &Value::Null,
        (None, _) => return Err(ValueMismatch::new("given").at(&label.json)),
    };
    lower(shape, value, values_left).map_err(|mismatch| mismatch.at(&label.json))
}

fn lower(shape: &Shape, value: &Value, values_left: &mut usize) -> Result<Val, ValueMismatch> {
    *values_left = values_left.checked_sub(1).ok_or(ValueMismatch::TooMany)?;
    match (shape, value) {
        (Shape::Bool, Value::Bool(value)) => Ok(Val::Bool(*value)),
        (Shape::Bool, _) => Err(ValueMismatch::new("a boolean")),
        (Shape::Integer(integer), value) => lower_integer(*integer, value),
        (Shape::Float32, value) => lower_float32(value).map(Val::Float32),
        (Shape::Float64, value) => lower_float(value).map(Val::Float64),
        (Shape::Char, value) => {
            let mut characters = value.as_str().into_iter().flat_map(str::chars);
            match (characters.next(), characters.next()) {
                (Some(one), None) => Ok(Val::Char(one)),
                _ => Err(ValueMismatch::new("a string of one character")),
            }
        }
        (Shape::String, Value::String(text)) => Ok(Val::String(text.clone())),
        (Shape::String, _) => Err(ValueMismatch::new("a string")),
        (Shape::Bytes, value) => lower_bytes(value, values_left),
        (Shape::List(shape), Value::Array(values)) => {
            let values = values.iter().enumerate();
            let element = |(index, value)| {
                lower(shape, value, values_left)
                    .map_err(|mismatch: ValueMismatch| mismatch.at(index))
            };
            Ok(Val::List(values.map(element).collect::<Result<_, _>>()?))
        }
        (Shape::List(_), _) => Err(ValueMismatch::new("an array")),
        (Shape::Tuple(shapes), Value::Array(values)) if values.len() == shapes.len() => {
            let values = shapes.iter().zip(values).enumerate();
            let element = |(index, (shape, value))| {
                lower(shape, value, values_left)
                    .map_err(|mismatch: ValueMismatch| mismatch.at(index))
            };
            Ok(Val::Tuple(values.map(element).collect::<Result<_, _>>()?))
        }
        (Shape::Tuple(shapes), _) => Err(ValueMismatch::new(format!(
            "an array of {} values",
            shapes.len()
        ))),
        (Shape::Record(fields), Value::Object(object)) => lower_record(fields, object, values_left),
        (Shape::Record(_), _) => Err(ValueMismatch::new("an object")),
        (Shape::Variant(cases), value) => {
            let cases = cases
                .iter()
                .map(|(label, shape)| (&*label.json, shape.as_ref()));
            let (index, payload) = lower_case(cases, value, values_left)?;
            Ok(Val::Variant(wit_name(shape, index), payload))
        }
        (Shape::Result(cases), value) => {
            let [ok, err] = &**cases;
            let cases = [("ok", ok.as_ref()), ("err", err.as_ref())];
            let (index, payload) = lower_case(cases.into_iter(), value, values_left)?;
            Ok(Val::Result(if index == 0 {
                Ok(payload)
            } else {
                Err(payload)
            }))
        }
        (Shape::Enum(labels), value) => lower_name(labels, value).map(Val::Enum),
        (Shape::Flags(labels), Value::Array(values)) if values.len() <= labels.len() => {
            let flag = |(index, value)| {
                lower_name(labels, value).map_err(|mismatch: ValueMismatch| mismatch.at(index))
            };
            let values = values.iter().enumerate();
            Ok(Val::Flags(values.map(flag).collect::<Result<_, _>>()?))
        }
        (Shape::Flags(labels), _) => Err(ValueMismatch::new(format!(
            "an array of at most {} names",
            labels.len()
        ))),
        (Shape::Option(_), Value::Null) => Ok(Val::Option(None)),
        (Shape::Option(shape), value) => lower_some(shape, value, values_left)
            .map(|value| Val::Option(Some(Box::new(value))))
            .map_err(or_null),
    }
}

fn lower_integer(integer: Integer, value: &Value) -> Result<Val, ValueMismatch> {
    let (min, max) = integer.range();
    let allows_digits = max > MAX_EXACT;
    let number = match value {
        Value::Number(number) => whole(number).filter(|whole| whole.abs() <= MAX_EXACT),
        Value::String(text) if allows_digits => parse_digits(text),
        _ => None,
    };
    let number = number.filter(|number| (min..=max).contains(number));
    let refused = || {
        let digits = if allows_digits {
            format!(", as a string of its digits if it is beyond ±{MAX_EXACT}")
        } else {
            String::new()
        };
        ValueMismatch::new(format!("an integer from {min} to {max}{digits}"))
    };
    let number = number.ok_or_else(refused)?;
    match integer {
        Integer::S8 => i8::try_from(number).map(Val::S8),
        Integer::U8 => u8::try_from(number).map(Val::U8),
        Integer::S16 => i16::try_from(number).map(Val::S16),
        Integer::U16 => u16::try_from(number).map(Val::U16),
        Integer::S32 => i32::try_from(number).map(Val::S32),
        Integer::U32 => u32::try_from(number).map(Val::U32),
        Integer::S64 => i64::try_from(number).map(Val::S64),
        Integer::U64 => u64::try_from(number).map(Val::U64),
    }
    .map_err(|_| refused())
}

fn whole(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

/// Parses an integer in decimal digits. Unlike `str::parse`, refuses a `+`.
fn parse_digits(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = (1..=20).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

fn lower_float(value: &Value) -> Result<f64, ValueMismatch> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => parse_not_finite(text),
        _ => None,
    };
    number.ok_or_else(|| {
        let [nan, infinity, minus] = NOT_FINITE;
        ValueMismatch::new(format!(
            "a number, or \"{nan}\", \"{infinity}\" or \"{minus}\""
        ))
    })
}

/// Parses the string for a float that is not finite.
fn parse_not_finite(text: &str) -> Option<f64> {
    let [nan, infinity, minus] = NOT_FINITE;
    match text {
        _ if text == nan => Some(f64::NAN),
        _ if text == infinity => Some(f64::INFINITY),
        _ if text == minus => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

fn lower_float32(value: &Value) -> Result<f32, ValueMismatch> {
    let number = lower_float(value)?;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the nearest value of that type is correct"
    )]
    let nearest = number as f32;
    if nearest.is_infinite() && number.is_finite() {
        return Err(ValueMismatch::new(format!(
            "a number from {:e} to {:e}",
            f32::MIN,
            f32::MAX
        )));
    }
    Ok(nearest)
}

fn lower_bytes(value: &Value, values_left: &mut usize) -> Result<Val, ValueMismatch> {
    let refused = || ValueMismatch::new("a string of bytes in base64, with its padding");
    let text = value.as_str().ok_or_else(refused)?;
    *values_left = values_left
        .checked_sub(text.len() / 4 * 3)
        .ok_or(ValueMismatch::TooMany)?;
    let bytes = BASE64.decode(text).map_err(|_| refused())?;
    Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
}

fn lower_record(
    fields: &[(Label, Shape)],
    object: &Map<String, Value>,
    values_left: &mut usize,
) -> Result<Val, ValueMismatch> {
    let known = |name: &String| fields.iter().any(|(label, _)| label.json == *name);
    if let Some(unknown) = object.keys().find(|name| !known(name)) {
        return Err(ValueMismatch::new("left out: the property does not exist").at(unknown));
    }
    let value = |(label, shape): &(Label, Shape)| {
        Ok((label.wit.clone(), field(label, shape, object, values_left)?))
    };
    let values = fields.iter().map(value);
    Ok(Val::Record(values.collect::<Result<_, _>>()?))
}

/// Returns the index of a value's case, and its payload.
fn lower_case<'a>(
    cases: impl Iterator<Item = (&'a str, Option<&'a Shape>)> + Clone,
    value: &Value,
    values_left: &mut usize,
) -> Result<(usize, Option<Box<Val>>), ValueMismatch> {
    let refused = || {
        let described = cases.clone().map(|(name, shape)| match shape {
            None => format!("\"{name}\""),
            Some(_) => format!("{{\"{name}\": …}}"),
        });
        ValueMismatch::new(format!(
            "one of {}",
            described.collect::<Vec<_>>().join(", ")
        ))
    };
    let (given, payload) = match value {
        Value::String(name) => (name, None),
        Value::Object(object) if object.len() == 1 => match object.iter().next() {
            Some((name, payload)) => (name, Some(payload)),
            None => return Err(refused()),
        },
        _ => return Err(refused()),
    };
    let found = cases
        .clone()
        .enumerate()
        .find(|(_, (name, _))| name == given);
    match (found, payload) {
        (Some((index, (_, None))), None) => Ok((index, None)),
        (Some((index, (name, Some(shape)))), Some(payload)) => {
            let payload =
                lower(shape, payload, values_left).map_err(|mismatch| mismatch.at(name))?;
            Ok((index, Some(Box::new(payload))))
        }
        _ => Err(refused()),
    }
}

fn lower_name(labels: &[Label], value: &Value) -> Result<String, ValueMismatch> {
    let found = labels.iter().find(|label| value == label.json.as_str());
    found.map(|label| label.wit.clone()).ok_or_else(|| {
        let names: Vec<String> = labels
            .iter()
            .map(|label| format!("\"{}\"", label.json))
            .collect();
        ValueMismatch::new(format!("one of {}", names.join(", ")))
    })
}

fn lower_some(shape: &Shape, value: &Value, values_left: &mut usize) -> Result<Val, ValueMismatch> {
    if !matches!(shape, Shape::Option(_)) {
        return lower(shape, value, values_left);
    }
    match value
        .as_object()
        .map(|object| (object.len(), object.get("some")))
    {
        Some((1, Some(inner))) => {
            lower(shape, inner, values_left).map_err(|mismatch| mismatch.at("some"))
        }
        _ => Err(ValueMismatch::new("{\"some\": …}")),
    }
}

/// Adds null to the expected types.
fn or_null(mismatch: ValueMismatch) -> ValueMismatch {
    match mismatch {
        ValueMismatch::Wrong { path, expected } if path.is_empty() => ValueMismatch::Wrong {
            path,
            expected: format!("{expected}, or null"),
        },
        other => other,
    }
}

/// Returns the WIT name of a variant's case.
fn wit_name(shape: &Shape, index: usize) -> String {
    match shape {
        Shape::Variant(cases) => cases.get(index).map(|(label, _)| label.wit.clone()),
        _ => None,
    }
    .unwrap_or_default()
}
