//! Returns parts of JSON verbatim.
//!
//! serde_json's `RawValue` does the same. But its feature makes every parser of a `Value`
//! replace an object with one magic key by the JSON in its string, even in untrusted text.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// The verbatim text of a JSON value, without surrounding white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawJson<'j>(&'j str);

impl<'j> RawJson<'j> {
    /// Creates a value from its text.
    ///
    /// # Errors
    ///
    /// If the text is not one JSON value.
    pub fn new(text: &'j str) -> serde_json::Result<Self> {
        serde_json::from_str::<IgnoredAny>(text)?;
        Ok(Self(text.trim_matches(WHITE_SPACE)))
    }

    /// Returns the text.
    pub fn get(self) -> &'j str {
        self.0
    }

    /// Returns whether the value is an object.
    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    /// Returns whether the value is an array.
    pub fn is_array(self) -> bool {
        self.0.starts_with('[')
    }

    /// Deserialises the value.
    ///
    /// # Errors
    ///
    /// If the value has another type.
    pub fn read<T: Deserialize<'j>>(self) -> serde_json::Result<T> {
        serde_json::from_str(self.0)
    }

    /// Returns the members of an object in order, including repeated names. Returns no
    /// members for any other value.
    pub fn members(self) -> impl Iterator<Item = (Cow<'j, str>, Self)> {
        let mut parts = Parts::of(self, self.is_object());
        std::iter::from_fn(move || Some((parts.next()?.name(), parts.next()?)))
    }

    /// Returns the items of an array. Returns no items for any other value.
    pub fn items(self) -> impl Iterator<Item = Self> {
        Parts::of(self, self.is_array())
    }

    /// Returns a member of an object. `null` counts as missing, as in an `Option`. If a
    /// name is repeated, the last member counts, as in a `Value`.
    pub fn member(self, name: &str) -> Option<Self> {
        let members = self.members().filter(|(key, _)| key == name);
        let (_, value) = members.last()?;
        (value.0 != "null").then_some(value)
    }

    /// Returns the text of a string. Returns `\u{fffd}` if it has half a surrogate pair.
    fn name(self) -> Cow<'j, str> {
        let plain = self.0.trim_matches('"');
        if plain.contains('\\') {
            self.read().unwrap_or_else(|_| "\u{fffd}".to_owned()).into()
        } else {
            plain.into()
        }
    }
}

/// The white space characters of JSON.
const WHITE_SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// The keys and values of an object, or the items of an array.
struct Parts<'j>(&'j str);

impl<'j> Parts<'j> {
    fn of(value: RawJson<'j>, has_parts: bool) -> Self {
        Self(if has_parts { &value.0[1..] } else { "" })
    }
}

impl<'j> Iterator for Parts<'j> {
    type Item = RawJson<'j>;

    fn next(&mut self) -> Option<Self::Item> {
        let is_separator = |c| WHITE_SPACE.contains(&c) || c == ',' || c == ':';
        let rest = self.0.trim_start_matches(is_separator);
        let length = length(rest.as_bytes())?;
        let (part, rest) = rest.split_at(length);
        self.0 = rest;
        Some(RawJson(part))
    }
}

/// Returns the length of the value at the start of the text. Returns `None` at the end of
/// the enclosing value.
fn length(json: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for (at, byte) in json.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' if in_string => {
                in_string = false;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            b'"' => in_string = true,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' if depth > 1 => depth -= 1,
            b']' | b'}' if depth == 1 => return Some(at + 1),
            b']' | b'}' | b',' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => {
                return (at > 0).then_some(at);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    #[test]
    fn returns_parts_verbatim() {
        let json = RawJson::new(
            " {\"a\" : 1.0e2 ,\"b\":[ {\"c\":\"]}\\\\\"} , \"x,\\\"\"],\"\\u0061\":null}\n",
        );
        let json = json.unwrap();
        let members: Vec<_> = json
            .members()
            .map(|(name, value)| (name.into_owned(), value.get()))
            .collect();
        let list = "[ {\"c\":\"]}\\\\\"} , \"x,\\\"\"]";
        let expected = [("a", "1.0e2"), ("b", list), ("a", "null")];
        assert_eq!(
            members,
            expected.map(|(name, value)| (name.to_owned(), value))
        );
        let list = json.member("b").unwrap();
        let items: Vec<_> = list.items().map(RawJson::get).collect();
        assert_eq!(items, ["{\"c\":\"]}\\\\\"}", "\"x,\\\"\""]);
        // The last member is null.
        assert_eq!(json.member("a"), None);
        assert_eq!(list.member("a"), None);
        assert_eq!((list.members().count(), json.items().count()), (0, 0));
        for empty in ["{}", "[ ]", "{ }", "1", "\"[1]\"", "null"] {
            let empty = RawJson::new(empty).unwrap();
            assert_eq!((empty.members().count(), empty.items().count()), (0, 0));
        }
        for wrong in ["", "{", "[1,]", "{\"a\" 1}", "1 2", "[\"]"] {
            assert!(RawJson::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_magic_key_parses_a_string_as_json() {
        let json = r#"{"$serde_json::private::RawValue": "[1]"}"#;
        let value: Value = serde_json::from_str(json).unwrap();
        // If this fails, a crate has enabled the feature `raw_value` of serde_json.
        assert_eq!(value["$serde_json::private::RawValue"], "[1]");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ -~\n\"\\\\\\PC]{0,9}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("[a-c\"\\\\ ]{0,3}", inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn parts_of_any_json_match_serde_json(json in any_json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&json).unwrap() } else { json.to_string() };
            let raw = RawJson::new(&text).unwrap();
            let members: Map<String, Value> = raw
                .members()
                .map(|(name, value)| (name.into_owned(), value.read().unwrap()))
                .collect();
            let items: Vec<Value> = raw.items().map(|item| item.read().unwrap()).collect();
            match json {
                Value::Object(object) => prop_assert_eq!(members, object),
                Value::Array(array) => prop_assert_eq!(items, array),
                _ => prop_assert_eq!((json!(members), json!(items)), (json!({}), json!([]))),
            }
        }
    }
}
