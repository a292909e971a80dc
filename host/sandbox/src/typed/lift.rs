//! Lifting: converts a component's values to JSON. Writes each value as it reads it, so that an
//! answer is in memory once and never exceeds its limit.

use std::io;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::ser::{Error, SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use wasmtime::component::Val;

use super::schema::{MAX_EXACT, NOT_FINITE};
use super::shape::{Label, Shape};
use crate::tool::Stop;
use crate::tool::record;

/// Returns a value as JSON with at most `limit` bytes.
pub(crate) fn to_json(shape: &Shape, value: &Val, limit: usize) -> Result<String, Stop> {
    let mut buffer = BoundedBuffer {
        bytes: Vec::new(),
        limit,
        full: false,
    };
    match record::write(&mut buffer, &ShapedValue(shape, value)) {
        Ok(()) => Ok(String::from_utf8(buffer.bytes).unwrap_or_default()),
        Err(_) if buffer.full => Err(Stop::Output(limit)),
        Err(error) => Err(Stop::Trap(format!(
            "its answer has no form in JSON: {error}"
        ))),
    }
}

struct BoundedBuffer {
    bytes: Vec<u8>,
    limit: usize,
    full: bool,
}

impl io::Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value with its type. The type has the names for JSON.
struct ShapedValue<'a>(&'a Shape, &'a Val);

impl Serialize for ShapedValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (self.0, self.1) {
            (Shape::Bool, Val::Bool(value)) => to.serialize_bool(*value),
            (Shape::Integer(_), value) => {
                let value = integer(value).ok_or_else(wrong_type)?;
                match i64::try_from(value) {
                    Ok(exact) if value.abs() <= MAX_EXACT => to.serialize_i64(exact),
                    _ => to.collect_str(&value),
                }
            }
            (Shape::Float32, Val::Float32(value)) => {
                if value.is_finite() {
                    to.serialize_f32(*value)
                } else {
                    to.serialize_str(not_finite((*value).into()))
                }
            }
            (Shape::Float64, Val::Float64(value)) => {
                if value.is_finite() {
                    to.serialize_f64(*value)
                } else {
                    to.serialize_str(not_finite(*value))
                }
            }
            (Shape::Char, Val::Char(value)) => to.serialize_char(*value),
            (Shape::String, Val::String(value)) => to.serialize_str(value),
            (Shape::Bytes, Val::List(values)) => {
                let byte = |value: &Val| match value {
                    Val::U8(byte) => Ok(*byte),
                    _ => Err(S::Error::custom("a byte has another type")),
                };
                let bytes: Vec<u8> = values.iter().map(byte).collect::<Result<_, _>>()?;
                to.collect_str(&Base64Display::new(&bytes, &BASE64))
            }
            (Shape::List(shape), Val::List(values)) => {
                to.collect_seq(values.iter().map(|value| ShapedValue(shape, value)))
            }
            (Shape::Tuple(shapes), Val::Tuple(values)) if shapes.len() == values.len() => {
                let pairs = shapes.iter().zip(values);
                to.collect_seq(pairs.map(|(shape, value)| ShapedValue(shape, value)))
            }
            (Shape::Record(fields), Val::Record(values)) if fields.len() == values.len() => {
                let mut object = to.serialize_map(Some(fields.len()))?;
                for ((label, shape), (_, value)) in fields.iter().zip(values) {
                    object.serialize_entry(&label.json, &ShapedValue(shape, value))?;
                }
                object.end()
            }
            (Shape::Variant(cases), Val::Variant(name, payload)) => {
                let case = cases.iter().find(|(label, _)| label.wit == *name);
                let (label, shape) =
                    case.ok_or_else(|| S::Error::custom("a variant has an undeclared case"))?;
                serialize_case(to, &label.json, shape.as_ref(), payload.as_deref())
            }
            (Shape::Result(cases), Val::Result(result)) => {
                let [ok, err] = &**cases;
                match result {
                    Ok(value) => serialize_case(to, "ok", ok.as_ref(), value.as_deref()),
                    Err(value) => serialize_case(to, "err", err.as_ref(), value.as_deref()),
                }
            }
            (Shape::Enum(labels), Val::Enum(name)) => to.serialize_str(json_name(labels, name)?),
            (Shape::Flags(labels), Val::Flags(names)) => {
                let mut flags = to.serialize_seq(Some(names.len()))?;
                for name in names {
                    flags.serialize_element(json_name(labels, name)?)?;
                }
                flags.end()
            }
            (Shape::Option(_), Val::Option(None)) => to.serialize_unit(),
            (Shape::Option(shape), Val::Option(Some(value))) => match **shape {
                Shape::Option(_) => serialize_case(to, "some", Some(shape), Some(value)),
                _ => ShapedValue(shape, value).serialize(to),
            },
            _ => Err(wrong_type()),
        }
    }
}

/// Returns an integer of any type as `i128`, or `None` for other values.
fn integer(value: &Val) -> Option<i128> {
    Some(match value {
        Val::S8(value) => (*value).into(),
        Val::U8(value) => (*value).into(),
        Val::S16(value) => (*value).into(),
        Val::U16(value) => (*value).into(),
        Val::S32(value) => (*value).into(),
        Val::U32(value) => (*value).into(),
        Val::S64(value) => (*value).into(),
        Val::U64(value) => (*value).into(),
        _ => return None,
    })
}

fn wrong_type<E: Error>() -> E {
    E::custom("a value does not have the type that its function declares")
}

/// Writes a case as its name, or as an object with one property.
fn serialize_case<S: Serializer>(
    to: S,
    name: &str,
    shape: Option<&Shape>,
    payload: Option<&Val>,
) -> Result<S::Ok, S::Error> {
    match (shape, payload) {
        (None, None) => to.serialize_str(name),
        (Some(shape), Some(payload)) => to.collect_map([(name, ShapedValue(shape, payload))]),
        _ => Err(S::Error::custom(
            "a case has an unexpected or a missing payload",
        )),
    }
}

fn json_name<'a, E: serde::ser::Error>(labels: &'a [Label], name: &str) -> Result<&'a str, E> {
    let found = labels.iter().find(|label| label.wit == name);
    found
        .map(|label| &*label.json)
        .ok_or_else(|| E::custom("an enum case or a flag is undeclared"))
}

/// Returns the string for a float that is not finite.
fn not_finite(value: f64) -> &'static str {
    let [nan, infinity, minus] = NOT_FINITE;
    match value {
        _ if value.is_nan() => nan,
        _ if value.is_sign_positive() => infinity,
        _ => minus,
    }
}
