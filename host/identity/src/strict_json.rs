//! Parses JSON without duplicate keys. Guards against: a token with a repeated claim, in which
//! two parsers find different clients.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses a JSON object. Returns `None` if the JSON is not an object or any object in it repeats
/// a key.
pub(crate) fn parse_object(json: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice::<StrictValue>(json).ok()?.0 {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// A value without duplicate keys.
struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(StrictValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, StrictValue(value))) = entries.next_entry::<String, _>()? {
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate key"));
            }
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_objects_without_duplicate_keys() {
        for right in [
            r#"{}"#,
            r#"{"a": [1, -2, 0.5, null, true, "x", {"a": {}}]}"#,
        ] {
            let expected: Value = serde_json::from_str(right).unwrap();
            assert_eq!(
                Value::Object(parse_object(right.as_bytes()).unwrap()),
                expected
            );
        }
        let too_deep = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
        for wrong in [
            "",
            "[]",
            "1",
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": 1, "\u0061": 2}"#,
            r#"{"a": {"b": 1, "b": 2}}"#,
            r#"{"a": [{"b": 1, "b": 2}]}"#,
            r#"{"a": 1} {"a": 2}"#,
            &too_deep,
        ] {
            assert!(parse_object(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(parse_object(b"{\"a\": \"\xff\"}").is_none());
    }
}
