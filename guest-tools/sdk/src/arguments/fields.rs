//! Finds the names of a struct's fields, in order. A derived `Deserialize`
//! passes them to its deserializer, which returns them as an error.

use core::fmt;

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};

/// Returns the JSON names of the fields of `A`. Returns an empty slice if `A` is not
/// a struct, or if serde deserializes it through another type.
pub(super) fn of<A: DeserializeOwned>() -> &'static [&'static str] {
    match A::deserialize(FieldsProbe) {
        Err(Fields(fields)) => fields,
        Ok(_) => &[],
    }
}

/// A deserializer that returns the fields of a struct as its error.
struct FieldsProbe;

/// The fields of a struct, as an error of [`FieldsProbe`].
#[derive(Debug)]
struct Fields(&'static [&'static str]);

impl<'de> Deserializer<'de> for FieldsProbe {
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
        write!(f, "a struct with the fields {:?}", self.0)
    }
}

impl core::error::Error for Fields {}
