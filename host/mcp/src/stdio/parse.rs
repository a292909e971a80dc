//! Parses a line as a JSON-RPC message, or explains why it is not one.

use std::fmt::Display;

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, RequestId};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::line_reader::MAX_LINE;
use crate::message_limits::{self, Excess, MAX_LABEL_BYTES};

/// A line that is not a message, and the error that answers it.
#[derive(Debug)]
pub(crate) struct BadLine {
    /// True for a notification, which gets no answer.
    pub(crate) is_notification: bool,
    /// True for a header that other protocols send before a message.
    pub(crate) is_header: bool,
    /// The request's id, if it can be read.
    pub(crate) id: Option<RequestId>,
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl BadLine {
    /// Returns an error without an id.
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            is_notification: false,
            is_header: false,
            id: None,
            code,
            message: message.into(),
        }
    }

    /// Returns the error for a line with more than [`MAX_LINE`] bytes.
    pub(crate) fn too_long() -> Self {
        let message = format!("a message may have at most {MAX_LINE} bytes");
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }
}

/// Parses a message.
pub(crate) fn parse(line: &[u8]) -> Result<ClientJsonRpcMessage, BadLine> {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    if let Err(excess) = message_limits::check(line) {
        let error = BadLine::new(ErrorCode::INVALID_REQUEST, excess.to_string());
        // Do not parse a line with too many values, not even for its id. Parsing may round an id
        // that is a number, and the error would then have the id of another request.
        if matches!(excess, Excess::Values | Excess::Number) {
            return Err(error);
        }
        let explained = explain(line);
        let is_short =
            |id: &RequestId| serde_json::to_string(id).is_ok_and(|id| id.len() <= MAX_LABEL_BYTES);
        return Err(BadLine {
            is_notification: explained.is_notification,
            id: explained.id.filter(is_short),
            ..error
        });
    }
    serde_json::from_slice(line).map_err(|_| explain(line))
}

/// The members of an invalid JSON-RPC message that its error is made from.
#[derive(Deserialize)]
struct Envelope {
    /// `Some` also for an id of `null`, which is not allowed.
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    jsonrpc: Option<Value>,
    method: Option<Value>,
}

impl Envelope {
    /// Reads the members of a message. Returns `None` for JSON that is a list.
    fn read(line: &str) -> serde_json::Result<Option<Self>> {
        // serde would read the items of an array as the fields of the envelope.
        if line.starts_with('[') {
            serde_json::from_str(line).map(|IgnoredAny| None)
        } else {
            serde_json::from_str(line).map(Some)
        }
    }

    fn is_notification(&self) -> bool {
        self.id.is_none() && self.method.is_some()
    }

    fn into_id(self) -> Option<RequestId> {
        self.id.and_then(|id| serde_json::from_value(id).ok())
    }
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Returns why a line is not a message.
fn explain(line: &[u8]) -> BadLine {
    let invalid_json =
        |why: &dyn Display| BadLine::new(ErrorCode::PARSE_ERROR, format!("invalid JSON: {why}"));
    let invalid = |message: &str| BadLine::new(ErrorCode::INVALID_REQUEST, message);
    let line = match str::from_utf8(line) {
        Ok(line) => line,
        Err(error) => return invalid_json(&error),
    };
    match Envelope::read(line) {
        Ok(Some(envelope)) => {
            let version = envelope.jsonrpc.as_ref();
            let message = if version.is_some_and(|version| version == "2.0") {
                "the line is JSON, but not a JSON-RPC message"
            } else {
                "the line is not a JSON-RPC message: `jsonrpc` must be \"2.0\""
            };
            BadLine {
                is_notification: envelope.is_notification(),
                id: envelope.into_id(),
                ..invalid(message)
            }
        }
        Err(error) if !error.is_data() => {
            explain_framing(line).unwrap_or_else(|| invalid_json(&error))
        }
        Ok(None) => invalid("batches are not supported: send each message on its own line"),
        Err(_) => invalid("the line is JSON, but not a JSON-RPC message"),
    }
}

/// Explains a line with a header of another protocol, such as that of language servers. If no
/// line feed ends a message, the header of the next message is on the same line.
fn explain_framing(line: &str) -> Option<BadLine> {
    let lower_case = line.to_ascii_lowercase();
    let message = if lower_case.starts_with("content-type:") {
        ""
    } else {
        let (message, length) = lower_case.rsplit_once("content-length:")?;
        length.trim().parse::<u64>().ok()?;
        line[..message.len()].trim()
    };
    let envelope = Envelope::read(message).ok().flatten();
    Some(BadLine {
        is_header: message.is_empty(),
        is_notification: envelope.as_ref().is_some_and(Envelope::is_notification),
        id: envelope.and_then(Envelope::into_id),
        ..BadLine::new(
            ErrorCode::PARSE_ERROR,
            "send one JSON message per line, without headers such as `Content-Length`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_headers_of_other_protocols() {
        for (line, is_header, id, is_notification) in [
            ("Content-Length: 46", true, None, false),
            ("content-length:46", true, None, false),
            ("Content-Type: application/json", true, None, false),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"ping"}Content-Length: 46"#,
                false,
                Some(7),
                false,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"a"}Content-Length: 46"#,
                false,
                None,
                true,
            ),
            ("{Content-Length: 46", false, None, false),
            ("[1]Content-Length: 46", false, None, false),
        ] {
            let bad = parse(line.as_bytes()).unwrap_err();
            assert!(bad.message.starts_with("send one JSON message per line"));
            assert_eq!(bad.code, ErrorCode::PARSE_ERROR, "{line}");
            assert_eq!(bad.is_header, is_header, "{line}");
            assert_eq!(bad.id, id.map(RequestId::Number), "{line}");
            assert_eq!(bad.is_notification, is_notification, "{line}");
        }
        for line in ["Content-Length: many", "content-length", "Content: 4"] {
            let bad = parse(line.as_bytes()).unwrap_err();
            assert!(bad.message.starts_with("invalid JSON"), "{line}");
            assert!(!bad.is_header, "{line}");
        }
    }

    #[test]
    fn explains_bad_lines() {
        for (line, id, code) in [
            ("{", None, ErrorCode::PARSE_ERROR),
            ("nonsense", None, ErrorCode::PARSE_ERROR),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping""#,
                None,
                ErrorCode::PARSE_ERROR,
            ),
            ("1", None, ErrorCode::INVALID_REQUEST),
            ("[]", None, ErrorCode::INVALID_REQUEST),
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
                None,
                ErrorCode::INVALID_REQUEST,
            ),
            (
                r#"["2.0",1,"tools/call",{"name":"a"}]"#,
                None,
                ErrorCode::INVALID_REQUEST,
            ),
            ("{}", None, ErrorCode::INVALID_REQUEST),
            (
                r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#,
                Some(7),
                ErrorCode::INVALID_REQUEST,
            ),
            (
                r#"{"id":7,"method":"ping"}"#,
                Some(7),
                ErrorCode::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                None,
                ErrorCode::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
                None,
                ErrorCode::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
                None,
                ErrorCode::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":1}"#,
                Some(7),
                ErrorCode::INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#,
                Some(7),
                ErrorCode::INVALID_REQUEST,
            ),
        ] {
            let bad = parse(line.as_bytes()).unwrap_err();
            assert_eq!(bad.id, id.map(RequestId::Number), "{line}");
            assert_eq!(bad.code, code, "{line}");
            assert!(!bad.is_notification, "{line}");
        }
        let notification = br#"{"jsonrpc":"2.0","method":"notifications/initialized","params":7}"#;
        assert!(parse(notification).unwrap_err().is_notification);
        let invalid_utf8 = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}";
        assert_eq!(
            parse(invalid_utf8).unwrap_err().code,
            ErrorCode::PARSE_ERROR
        );
        let deep = "[".repeat(10_000);
        assert_eq!(
            parse(deep.as_bytes()).unwrap_err().code,
            ErrorCode::PARSE_ERROR
        );
    }

    #[test]
    fn refuses_message_with_too_many_values() {
        let many = format!(
            r#"{{"jsonrpc":"2.0","id":1,"a":[{}0]}}"#,
            "0,".repeat(1 << 20)
        );
        let bad = parse(many.as_bytes()).unwrap_err();
        assert_eq!(bad.code, ErrorCode::INVALID_REQUEST);
        assert!(bad.message.contains("values"));
    }

    #[test]
    fn omits_long_id_from_error() {
        let long = "x".repeat(MAX_LABEL_BYTES);
        let refused = |line: &str| {
            let bad = parse(line.as_bytes()).unwrap_err();
            assert_eq!(bad.code, ErrorCode::INVALID_REQUEST, "{line}");
            assert!(bad.message.contains("1024"), "{}", bad.message);
            (bad.is_notification, bad.id)
        };
        let long_id = format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#);
        assert_eq!(refused(&long_id), (false, None));
        let meta = format!(r#""params":{{"name":"a","_meta":{{"progressToken":"{long}"}}}}"#);
        let long_token = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call",{meta}}}"#);
        assert_eq!(refused(&long_token), (false, Some(RequestId::Number(7))));
        let params = format!(r#""params":{{"progressToken":"{long}","progress":1}}"#);
        let long_progress_token =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress",{params}}}"#);
        assert_eq!(refused(&long_progress_token), (true, None));
        for line in [long_id, long_token, long_progress_token] {
            let short = line.replace(&long, &long[..1000]);
            assert!(parse(short.as_bytes()).is_ok(), "{short}");
        }
    }

    #[test]
    fn parses_messages() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}",
            r#"{"jsonrpc":"2.0","id":1,"method":"unheard/of","params":{"a":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"unheard/of"}"#,
        ] {
            assert!(parse(line.as_bytes()).is_ok(), "{line}");
        }
    }
}
