//! Limits on a message, which every transport checks before it parses the message.
//!
//! A small message can take much memory once it is parsed. The server keeps and repeats a
//! request's id and progress token. rmcp reads `_meta` several times, and keeps a
//! `subscriptions/listen` request as long as its stream is open.

use skillhost_skills::text::raw_json::RawJson;

use crate::subscriptions::LISTEN;
use crate::values;

/// The maximum size of a label as it is sent, with its quotes and escapes, in bytes. A label is an
/// id, a progress token, a version or a method. Guards against: a label as large as a message,
/// which progress reports and errors of rmcp repeat.
pub const MAX_LABEL_BYTES: usize = 1024;

/// The maximum size of a URI or name as it is sent, with its quotes and escapes, in bytes. It is
/// more than any file's. Guards against: a URI or name as large as a message, which errors of rmcp
/// repeat.
const MAX_URI_BYTES: usize = 256 << 10;

/// The maximum number of values in a message, twice as many as the arguments of a tool may have.
/// Guards against: a small message that takes much memory.
const MAX_VALUES: usize = 20_000;

/// The maximum number of values in the `_meta` of a message. rmcp builds these values again for
/// each method that it compares the message with. Guards against: a message that keeps rmcp busy.
const MAX_META_VALUES: usize = 1000;

/// The maximum number of bytes of a `subscriptions/listen` request. Guards against: streams that
/// keep megabytes each.
const MAX_LISTEN_BYTES: usize = 64 << 10;

/// The maximum number of values in a `subscriptions/listen` request. Guards against: small values
/// that take much memory, and lists that take rmcp quadratic time.
const MAX_LISTEN_VALUES: usize = 256;

/// The maximum memory of a parsed message that waits for no turn. Parsing it takes about a
/// millisecond. Guards against: large messages that occupy all threads while small ones wait.
const MAX_MEMORY_WITHOUT_TURN: usize = 64 << 10;

/// The number of copies that a call makes of its message's text: one for its arguments, and one for
/// the guest. The body and the parsed message do not count.
const COPIES_PER_CALL: usize = 2;

/// A limit that a message exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// The message has too many values. Even its id must not be parsed.
    #[error(
        "too many values: a message may have at most {} JSON values",
        MAX_VALUES
    )]
    Values,
    /// The text with this name may have at most this number of bytes.
    #[error("{0} may have at most {1} bytes")]
    Label(&'static str, usize),
    /// The id of the message is a number that rmcp cannot hold, or that changes once it is read and
    /// written again, such as `1.0000000000000001`. The response would have the id of another
    /// request.
    #[error(
        "a request's `id` must be a string, or an integer from -2^63 to 2^63-1 without fraction \
         and exponent"
    )]
    Number,
    /// The `_meta` of the message has too many values.
    #[error("`_meta` may have at most {} JSON values", MAX_META_VALUES)]
    Meta,
    /// The message is a `subscriptions/listen` request that is too large.
    #[error(
        "a `{listen}` request may have at most {bytes} bytes and {values} JSON values: leave out \
         `resourceSubscriptions`",
        listen = LISTEN,
        bytes = MAX_LISTEN_BYTES,
        values = MAX_LISTEN_VALUES
    )]
    Listen,
}

/// Checks a message.
///
/// # Errors
///
/// If it exceeds a limit.
pub fn check(message: &[u8]) -> Result<(), Excess> {
    let values = values::count(message);
    if values > MAX_VALUES {
        return Err(Excess::Values);
    }
    // Text that is not JSON passes this check, and fails when the transport parses it.
    let json = str::from_utf8(message).map(RawJson::new);
    let Ok(Ok(json)) = json else { return Ok(()) };
    let mut members = json.members();
    if members.any(|(key, value)| key == "id" && is_unusable_number(value)) {
        return Err(Excess::Number);
    }
    // A message as small as this exceeds no other limit.
    if message.len() <= MAX_LABEL_BYTES && values <= MAX_LISTEN_VALUES {
        return Ok(());
    }
    let is_large = message.len() > MAX_LISTEN_BYTES || values > MAX_LISTEN_VALUES;
    if is_large && is_listen(json) {
        return Err(Excess::Listen);
    }
    find_excess(json, &MESSAGE).map_or(Ok(()), Err)
}

/// Returns the maximum number of bytes that a parsed message takes in memory: its values, and their
/// text.
pub fn memory_of(message: &[u8]) -> usize {
    message.len() + values::memory_for(values::count(message))
}

/// Returns whether a message must wait for a turn before it is parsed.
pub(crate) fn is_large(message: &[u8]) -> bool {
    // The values of a long message are counted only in its turn.
    message.len() > MAX_MEMORY_WITHOUT_TURN || memory_of(message) > MAX_MEMORY_WITHOUT_TURN
}

/// Returns the maximum number of bytes that answering a message takes besides its body: the parsed
/// message, and further copies of its text.
pub fn memory_to_answer(message: &[u8]) -> usize {
    memory_of(message) + COPIES_PER_CALL * message.len()
}

/// Returns whether a number is not an integer that rmcp can hold, or changes once it is read and
/// written again.
fn is_unusable_number(value: RawJson<'_>) -> bool {
    let text = value.get();
    // A longer number exceeds the limit on labels.
    text.len() <= MAX_LABEL_BYTES
        && serde_json::from_str::<serde_json::Number>(text)
            .is_ok_and(|number| number.as_i64().is_none_or(|it| it.to_string() != text))
}

/// Returns whether a message is a `subscriptions/listen` request. Checks every value of a
/// repeated `method`, because the parser may use any of them.
fn is_listen(message: RawJson<'_>) -> bool {
    message.members().any(|(key, value)| {
        key == "method" && value.read::<String>().is_ok_and(|method| method == LISTEN)
    })
}

/// Returns the first limit that is exceeded by an object, or by an object nested in it. Checks
/// every value of a repeated key, because the parser may use any of them.
fn find_excess(object: RawJson<'_>, limits: &ObjectLimits) -> Option<Excess> {
    object.members().find_map(|(key, value)| {
        let label = limits.labels.iter().find(|(name, ..)| *name == key);
        if let Some((_, title, max)) = label {
            return (value.get().len() > *max).then_some(Excess::Label(title, *max));
        }
        let (_, inner) = limits.inner.filter(|(name, _)| *name == key)?;
        let count = || values::count(value.get().as_bytes());
        if inner.max_values.is_some_and(|max| count() > max) {
            return Some(Excess::Meta);
        }
        find_excess(value, inner)
    })
}

/// The limits on one object of a message.
struct ObjectLimits {
    /// The keys of its labels and URIs, with their titles in an error message, and the maximum
    /// number of their bytes.
    labels: &'static [(&'static str, &'static str, usize)],
    /// The key of a nested object that has limits too, and these limits.
    inner: Option<(&'static str, &'static ObjectLimits)>,
    /// The maximum number of values in it, if it has a limit of its own.
    max_values: Option<usize>,
}

const MESSAGE: ObjectLimits = ObjectLimits {
    labels: &[
        ("id", "a request's `id`", MAX_LABEL_BYTES),
        ("method", "a `method`", MAX_LABEL_BYTES),
    ],
    inner: Some(("params", &PARAMS)),
    max_values: None,
};

const PARAMS: ObjectLimits = ObjectLimits {
    labels: &[
        // Those of notifications. A request has its progress token in `_meta`.
        ("requestId", "a `requestId`", MAX_LABEL_BYTES),
        ("progressToken", "a `progressToken`", MAX_LABEL_BYTES),
        ("taskId", "a `taskId`", MAX_LABEL_BYTES),
        ("protocolVersion", "a `protocolVersion`", MAX_LABEL_BYTES),
        ("name", "a `name`", MAX_URI_BYTES),
        ("uri", "a `uri`", MAX_URI_BYTES),
    ],
    inner: Some(("_meta", &META)),
    max_values: None,
};

const META: ObjectLimits = ObjectLimits {
    labels: &[
        ("progressToken", "a `progressToken`", MAX_LABEL_BYTES),
        (
            "io.modelcontextprotocol/protocolVersion",
            "a `protocolVersion`",
            MAX_LABEL_BYTES,
        ),
    ],
    inner: None,
    max_values: Some(MAX_META_VALUES),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_text_and_values_of_request() {
        assert_eq!(memory_of(b"[1, 2]"), 6 + values::memory_for(3));
        assert_eq!(memory_to_answer(b"[1, 2]"), 3 * 6 + values::memory_for(3));
    }

    #[test]
    fn messages_are_large_by_bytes_or_values() {
        for (message, large) in [
            (" ".repeat(65_000), false),
            (" ".repeat(65_537), true),
            ("[".repeat(120), false),
            ("[".repeat(140), true),
        ] {
            assert_eq!(is_large(message.as_bytes()), large, "{}", message.len());
        }
    }

    fn assert_fits(message: &str, fits: bool) {
        let checked = check(message.as_bytes());
        assert_eq!(checked.is_ok(), fits, "{message:.60}: {checked:?}");
    }

    #[test]
    fn limits_values_of_message() {
        let list = |items: usize| format!("[{}1]", "1,".repeat(items - 1));
        assert_fits(&list(MAX_VALUES - 1), true);
        assert_fits(&list(MAX_VALUES), false);
        assert_fits(&"{\"a\":".repeat(MAX_VALUES), false);
        assert_fits(&format!("[\"{}\"]", ",".repeat(MAX_VALUES)), true);
    }

    #[test]
    fn refuses_unusable_number_ids() {
        for (id, fits) in [
            ("0", true),
            ("-7", true),
            ("9007199254740993", true),
            ("-9223372036854775808", true),
            ("9223372036854775807", true),
            ("9223372036854775808", false),
            ("18446744073709551615", false),
            ("18446744073709551616", false),
            ("\"1e2\"", true),
            ("null", true),
            ("1.0", false),
            ("1.5", false),
            ("1.0000000000000001", false),
            ("0.99999999999999999", false),
            ("9007199254740993.0", false),
            ("1e2", false),
            ("-0", false),
            ("1e-400", false),
        ] {
            assert_fits(&format!(r#"{{"id":{id},"method":"ping"}}"#), fits);
            assert_fits(
                &format!(r#"{{"\u0069d":{id},"method":"ping","id":1}}"#),
                fits,
            );
        }
    }

    #[test]
    fn refuses_long_labels_only() {
        let longest = format!("\"{}\"", "x".repeat(MAX_LABEL_BYTES - 2));
        let long = format!("\"{}\"", "x".repeat(MAX_LABEL_BYTES - 1));
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
                    format!(r#" {{"params":[],"params":{{"requestId":{label}}}}}"#),
                    "`requestId`",
                ),
                (format!(r#"{{"id":1,"method":{label}}}"#), "`method`"),
                (format!(r#"{{"params":{{"taskId":{label}}}}}"#), "`taskId`"),
                (
                    format!(r#"{{"params":{{"protocolVersion":{label}}}}}"#),
                    "`protocolVersion`",
                ),
                (
                    format!(
                        r#"{{"params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":{label}}}}}}}"#
                    ),
                    "`protocolVersion`",
                ),
            ]
        };
        for (message, title) in [&long, &escaped]
            .into_iter()
            .flat_map(|label| messages(label))
        {
            let excess = check(message.as_bytes()).unwrap_err().to_string();
            assert!(
                excess.contains(title) && excess.contains("1024"),
                "{message}: {excess}"
            );
        }
        for (message, _) in messages(&longest) {
            assert_fits(&message, true);
        }
        for message in [
            format!(
                r#"{{"id":1,"method":"tools/call","params":{{"name":"a","arguments":{{"id":{long}}}}}}}"#
            ),
            format!(r#"{{"params":{{"_meta":{{"id":{long},"requestId":{long}}}}}}}"#),
            format!(r#"[{{"id":{long}}}]"#),
            format!(r#"{{"id":{}"#, &long[..1000]),
            long,
        ] {
            assert_fits(&message, true);
        }
    }

    #[test]
    fn refuses_long_uri_and_name_only() {
        for key in ["uri", "name"] {
            let message = |bytes: usize| {
                let text = "x".repeat(bytes - 2);
                format!(r#"{{"id":1,"method":"a","params":{{"{key}":"{text}"}}}}"#)
            };
            assert_fits(&message(MAX_URI_BYTES), true);
            let excess = check(message(MAX_URI_BYTES + 1).as_bytes()).unwrap_err();
            let expected = format!("a `{key}` may have at most 262144 bytes");
            assert_eq!(excess.to_string(), expected);
        }
    }

    #[test]
    fn limits_values_of_meta_in_any_position() {
        let list = |values: usize| format!("[{}1]", "1,".repeat(values));
        for (values, fits) in [(MAX_META_VALUES - 3, true), (MAX_META_VALUES - 2, false)] {
            let meta = format!(r#"{{"a":{}}}"#, list(values));
            for message in [
                format!(r#"{{"id":1,"method":"a","params":{{"_meta":{meta},"name":"a"}}}}"#),
                format!(r#"{{"params":{{"name":"a","_meta":{meta}}},"method":"a","id":1}}"#),
                format!(r#"{{"params":{{}},"params":{{"_meta":{{}},"_meta":{meta}}}}}"#),
            ] {
                assert_fits(&message, fits);
            }
        }
        let elsewhere = format!(
            r#"{{"params":{{"name":"a","arguments":{{"_meta":{}}}}}}}"#,
            list(2000)
        );
        assert_fits(&elsewhere, true);
    }

    #[test]
    fn limits_bytes_and_values_of_subscriptions() {
        let methods = [
            r#""method":"subscriptions/listen""#,
            r#""method":"subscriptions\/listen""#,
            r#""method":"a","m\u0065thod":"subscriptions/listen","method":"b""#,
        ];
        for (method, is_listen) in methods.map(|method| (method, true)).into_iter().chain([
            (r#""method":"tools/list""#, false),
            (r#""params":{"method":"subscriptions/listen"}"#, false),
        ]) {
            let message = |value: &str| format!(r#"{{{method},"a":{value}}}"#);
            let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
            let left = MAX_LISTEN_BYTES - message(&text(0)).len();
            assert_fits(&message(&text(left)), true);
            assert_fits(&message(&text(left + 1)), !is_listen);
            let list = |items: usize| format!("[{}1]", "1,".repeat(items - 1));
            let items = MAX_LISTEN_VALUES - values::count(message("[]").as_bytes()) + 1;
            // The limit on values applies even if the message is shorter than the limit on labels.
            assert_fits(&message(&list(items)), true);
            assert_fits(&message(&list(items + 1)), !is_listen);
        }
    }
}
