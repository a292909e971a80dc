//! What a client names its requests by: ids, and tokens of progress. The server
//! keeps them and repeats them, so they are bounded, for every transport alike,
//! before a message is taken apart.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Longest id, and longest token of progress, in bytes as they are sent. Meets:
/// a name that is kept, and repeated with every report, as large as a message.
pub(crate) const LABEL_BYTES: usize = 1024;

/// What of a message is longer.
pub(crate) fn too_long(message: &[u8]) -> Option<String> {
    // Most messages are shorter than one label may be.
    if message.len() <= LABEL_BYTES {
        return None;
    }
    let mut found = None;
    let mut json = serde_json::Deserializer::from_slice(message);
    // What is no JSON, or no object, is said elsewhere.
    let _ = json.deserialize_map(Object {
        level: &MESSAGE,
        found: &mut found,
    });
    found.map(|what| format!("{what} has {LABEL_BYTES} bytes at most"))
}

/// Where labels are in a message.
struct Level {
    /// Keys of labels, and what they are.
    labels: &'static [(&'static str, &'static str)],
    /// The one key below which there are more.
    below: Option<(&'static str, &'static Level)>,
}

const MESSAGE: Level = Level {
    labels: &[("id", "a request's `id`")],
    below: Some(("params", &PARAMS)),
};

const PARAMS: Level = Level {
    // Those of notifications; `_meta` has those of requests.
    labels: &[
        ("requestId", "a `requestId`"),
        ("progressToken", "a `progressToken`"),
    ],
    below: Some(("_meta", &META)),
};

const META: Level = Level {
    labels: &[("progressToken", "a `progressToken`")],
    below: None,
};

/// Reads an object as far as labels go. A key that is there twice is looked at
/// twice: which of them counts is for others to say.
struct Object<'a> {
    level: &'static Level,
    found: &'a mut Option<&'static str>,
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let label = self.level.labels.iter().find(|(name, _)| *name == key);
            let below = self.level.below.filter(|(name, _)| *name == key);
            if let Some((_, what)) = label {
                let value: &RawValue = map.next_value()?;
                if value.get().len() > LABEL_BYTES {
                    *self.found = Some(what);
                    return Err(A::Error::custom("enough was seen"));
                }
            } else if let Some((_, level)) = below {
                let value: &RawValue = map.next_value()?;
                let mut json = serde_json::Deserializer::from_str(value.get());
                let _ = json.deserialize_map(Object {
                    level,
                    found: self.found,
                });
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_bounded_wherever_they_stand_and_nothing_else_is() {
        let fits = format!("\"{}\"", "x".repeat(LABEL_BYTES - 2));
        let long = format!("\"{}\"", "x".repeat(LABEL_BYTES - 1));
        let escaped = format!("\"{}\"", "\\u0061".repeat(200));
        let messages = |label: &str| {
            [
                (
                    format!(r#"{{"jsonrpc":"2.0","id":{label},"method":"ping"}}"#),
                    "`id`",
                ),
                (format!(r#"{{"id":1,"id":{label},"id":2}}"#), "`id`"),
                (format!(r#"{{"\u0069d":{label}}}"#), "`id`"),
                (
                    format!(r#"{{"id":1,"params":{{"_meta":{{"progressToken":{label}}}}}}}"#),
                    "`progressToken`",
                ),
                (
                    format!(r#"{{"params":{{"progressToken":{label}}}}}"#),
                    "`progressToken`",
                ),
                (
                    format!(r#"{{"params":{{"requestId":{label}}}}}"#),
                    "`requestId`",
                ),
                (
                    format!(r#" {{"params":[],"params":{{"requestId":{label}}}"#),
                    "`requestId`",
                ),
            ]
        };
        for (message, what) in [&long, &escaped]
            .into_iter()
            .flat_map(|label| messages(label))
        {
            let said = too_long(message.as_bytes()).unwrap_or_default();
            assert!(
                said.contains(what) && said.contains("1024"),
                "{message}: {said}"
            );
        }
        for (message, _) in messages(&fits) {
            assert_eq!(too_long(message.as_bytes()), None, "{message}");
        }
        for other in [
            format!(
                r#"{{"id":1,"method":"tools/call","params":{{"name":"a","arguments":{{"id":{long}}}}}}}"#
            ),
            format!(r#"{{"params":{{"_meta":{{"id":{long},"requestId":{long}}}}}}}"#),
            format!(r#"[{{"id":{long}}}]"#),
            format!(r#"{{"id":{}"#, &long[..1000]),
            long,
        ] {
            assert_eq!(too_long(other.as_bytes()), None, "{other}");
        }
    }
}
