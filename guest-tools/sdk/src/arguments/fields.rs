//! The names of a struct's fields, in their order. Deriving `Deserialize` writes
//! them down: they are read by deserialising from nothing.

use core::fmt;

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};

/// The fields of `A`, by the names that they have in JSON. Empty where that is
/// not said: for what is no struct, or one that has another in its place.
pub(super) fn of<A: DeserializeOwned>() -> &'static [&'static str] {
    match A::deserialize(Nothing) {
        Err(Fields(fields)) => fields,
        Ok(_) => &[],
    }
}

struct Nothing;

/// What deserialising from nothing ends in.
#[derive(Debug)]
struct Fields(&'static [&'static str]);

impl<'de> Deserializer<'de> for Nothing {
    type Error = Fields;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fields> {
        Err(Fields(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fields> {
        Err(Fields(fields))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
        ignored_any
    }
}

impl de::Error for Fields {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is nothing to read")
    }
}

impl core::error::Error for Fields {}
