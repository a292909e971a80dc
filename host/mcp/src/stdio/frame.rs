//! Reads lines of bounded length, and parses the messages in them.

use std::ops::Range;

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage, JsonRpcRequest, RequestId,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::stream::InputStream;
use skillhost::MAX_ARGUMENTS;

use crate::{labels, subscriptions, values};

/// The most bytes of a line. Guards against: a line without end. The largest arguments
/// fit, with every second character escaped.
pub(crate) const MAX_LINE: usize = 4 * MAX_ARGUMENTS;

/// The bytes that are read at a time, and that the buffer keeps between lines.
const BUFFER_BYTES: usize = 64 << 10;

/// A reader of a stream's lines.
pub(crate) struct LineReader {
    input: InputStream,
    read: Box<[u8]>,
    /// The part of `read` that is not looked at yet.
    left: Range<usize>,
    line: Vec<u8>,
    state: LineState,
}

/// The content of the line's buffer.
#[derive(Clone, Copy, PartialEq)]
enum LineState {
    /// The beginning of a line.
    Part,
    /// A line that was returned.
    Done,
    /// Nothing: the rest of a line that is too long is being skipped.
    Skipping,
}

/// The result of reading a line.
#[derive(Debug, PartialEq)]
pub(crate) enum NextLine {
    /// A line; see [`LineReader::text`].
    Text,
    /// A line longer than [`MAX_LINE`], which was skipped.
    TooLong,
    /// The stream ended, or broke.
    End,
}

impl LineReader {
    pub(crate) fn new(input: InputStream) -> Self {
        Self {
            input,
            read: vec![0; BUFFER_BYTES].into(),
            left: 0..0,
            line: Vec::new(),
            state: LineState::Part,
        }
    }

    /// Returns the last line.
    pub(crate) fn text(&self) -> &[u8] {
        self.line.trim_ascii()
    }

    /// Reads the next line that is not empty. If it is dropped, the next call goes on
    /// from there. The last line needs no line feed.
    pub(crate) async fn next(&mut self) -> NextLine {
        loop {
            if self.state == LineState::Done {
                self.line.clear();
                self.line.shrink_to(BUFFER_BYTES);
                self.state = LineState::Part;
            }
            if self.left.is_empty() && !self.fill().await {
                let last = self.state == LineState::Part && !self.text().is_empty();
                self.state = LineState::Done;
                return if last { NextLine::Text } else { NextLine::End };
            }
            let found = &self.read[self.left.clone()];
            let end = found.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(found.len(), |end| end + 1);
            if self.state == LineState::Part {
                self.line.extend_from_slice(&found[..taken]);
            }
            self.left.start += taken;
            if self.line.len() > MAX_LINE + usize::from(end.is_some()) {
                self.line = Vec::new();
                self.state = match end {
                    Some(_) => LineState::Done,
                    None => LineState::Skipping,
                };
                return NextLine::TooLong;
            }
            if end.is_some() {
                self.state = LineState::Done;
                if !self.text().is_empty() {
                    return NextLine::Text;
                }
            }
        }
    }

    /// Reads more bytes. Returns false at the end.
    async fn fill(&mut self) -> bool {
        let read = self.input.read(&mut self.read).await;
        let read = read.unwrap_or_else(|error| {
            tracing::error!("the input cannot be read: {error}");
            0
        });
        self.left = 0..read;
        read > 0
    }
}

/// A line that is not a message, with the answer that it gets.
#[derive(Debug)]
pub(crate) struct BadLine {
    /// False for a notification, which gets no answer.
    pub(crate) answered: bool,
    /// The request's id, if it can be read.
    pub(crate) id: Option<RequestId>,
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

/// Parses a message.
pub(crate) fn read(line: &[u8]) -> Result<ClientJsonRpcMessage, BadLine> {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    // Counted before any is built: that takes many times their size.
    if values::too_many(line) {
        return Err(BadLine {
            answered: true,
            id: None,
            code: ErrorCode::INVALID_REQUEST,
            message: "the message has too many values".to_owned(),
        });
    }
    if let Some(message) = labels::excess(line) {
        let BadLine { answered, id, .. } = why_not(line);
        let is_short = |id: &RequestId| {
            serde_json::to_string(id).is_ok_and(|id| id.len() <= labels::LABEL_BYTES)
        };
        return Err(BadLine {
            answered,
            id: id.filter(is_short),
            code: ErrorCode::INVALID_REQUEST,
            message,
        });
    }
    let message = serde_json::from_slice(line).map_err(|_| why_not(line))?;
    if let JsonRpcMessage::Request(JsonRpcRequest {
        id,
        request: ClientRequest::SubscriptionsListenRequest(_),
        ..
    }) = &message
        && let Some(message) = subscriptions::excess(line)
    {
        return Err(BadLine {
            answered: true,
            id: Some(id.clone()),
            code: ErrorCode::INVALID_REQUEST,
            message,
        });
    }
    Ok(message)
}

/// The members of a line that is not a message.
#[derive(Deserialize)]
struct Envelope {
    /// Some for an id of null, which is a bad one.
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    jsonrpc: Option<Value>,
    method: Option<Value>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn why_not(line: &[u8]) -> BadLine {
    let invalid = |id, message: &'static str| BadLine {
        answered: true,
        id,
        code: ErrorCode::INVALID_REQUEST,
        message: message.to_owned(),
    };
    let no_json = |why: &dyn std::fmt::Display| BadLine {
        answered: true,
        id: None,
        code: ErrorCode::PARSE_ERROR,
        message: format!("invalid JSON: {why}"),
    };
    let line = match str::from_utf8(line) {
        Ok(line) => line,
        Err(error) => return no_json(&error),
    };
    // A list would be read as one of an envelope's fields.
    let read = match line.starts_with('[') {
        true => serde_json::from_str(line).map(|IgnoredAny| None),
        false => serde_json::from_str::<Envelope>(line).map(Some),
    };
    match read {
        Ok(Some(envelope)) => {
            let notification = envelope.id.is_none() && envelope.method.is_some();
            let id = envelope.id.and_then(|id| serde_json::from_value(id).ok());
            let why = match envelope.jsonrpc {
                Some(Value::String(version)) if version == "2.0" => {
                    "it is JSON, but not a JSON-RPC message"
                }
                _ => "it is not a JSON-RPC message: `jsonrpc` must be \"2.0\"",
            };
            BadLine {
                answered: !notification,
                ..invalid(id, why)
            }
        }
        Err(error) if !error.is_data() => no_json(&error),
        Ok(None) => invalid(None, "batches are not taken: send each message by itself"),
        Err(_) => invalid(None, "it is JSON, but not a JSON-RPC message"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use super::*;

    /// Returns the lines of a stream that comes in parts.
    async fn lines(parts: Vec<Vec<u8>>) -> Vec<(NextLine, usize)> {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let written = thread::spawn(move || {
            for part in parts {
                writer.write_all(&part).unwrap();
            }
        });
        let mut lines = LineReader::new(InputStream::new(reader).unwrap());
        let mut found = Vec::new();
        loop {
            match lines.next().await {
                NextLine::End => break,
                line => found.push((line, lines.text().len())),
            }
        }
        written.join().unwrap();
        found
    }

    #[tokio::test]
    async fn returns_a_line_whole_or_skips_it_whole() {
        let long = vec![b'x'; MAX_LINE];
        let longer = vec![b'x'; MAX_LINE + 1];
        let parts = [
            b"a\n\n \r\nbc\r\n".as_slice(),
            &longer,
            &longer,
            b"\nd\n",
            &long[1..],
            b"\n",
            &longer,
            b"\nlast",
        ];
        assert_eq!(
            lines(parts.map(<[u8]>::to_vec).to_vec()).await,
            [
                (NextLine::Text, 1),
                (NextLine::Text, 2),
                (NextLine::TooLong, 0),
                (NextLine::Text, 1),
                (NextLine::Text, MAX_LINE - 1),
                (NextLine::TooLong, 0),
                (NextLine::Text, 4),
            ]
        );
    }

    #[test]
    fn answers_a_bad_line_with_its_fault() {
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
            let bad = read(line.as_bytes()).unwrap_err();
            assert_eq!(bad.id, id.map(RequestId::Number), "{line}");
            assert_eq!(bad.code, code, "{line}");
            assert!(bad.answered, "{line}");
        }
        let notification = br#"{"jsonrpc":"2.0","method":"notifications/initialized","params":7}"#;
        assert!(!read(notification).unwrap_err().answered);
        let not_text = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}";
        assert_eq!(read(not_text).unwrap_err().code, ErrorCode::PARSE_ERROR);
        let deep = "[".repeat(10_000);
        assert_eq!(
            read(deep.as_bytes()).unwrap_err().code,
            ErrorCode::PARSE_ERROR
        );
    }

    #[test]
    fn refuses_a_message_of_too_many_values() {
        let many = format!(
            r#"{{"jsonrpc":"2.0","id":1,"a":[{}0]}}"#,
            "0,".repeat(1 << 20)
        );
        let bad = read(many.as_bytes()).unwrap_err();
        assert_eq!(bad.code, ErrorCode::INVALID_REQUEST);
        assert!(bad.message.contains("values"));
    }

    #[test]
    fn refuses_a_long_id_or_token_and_repeats_only_a_short_id() {
        let long = "x".repeat(labels::LABEL_BYTES);
        let refused = |line: &str| {
            let bad = read(line.as_bytes()).unwrap_err();
            assert_eq!(bad.code, ErrorCode::INVALID_REQUEST, "{line}");
            assert!(bad.message.contains("1024"), "{}", bad.message);
            (bad.answered, bad.id)
        };
        let by_id = format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#);
        assert_eq!(refused(&by_id), (true, None));
        let meta = format!(r#""params":{{"name":"a","_meta":{{"progressToken":"{long}"}}}}"#);
        let by_token = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call",{meta}}}"#);
        assert_eq!(refused(&by_token), (true, Some(RequestId::Number(7))));
        let params = format!(r#""params":{{"progressToken":"{long}","progress":1}}"#);
        let by_progress =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress",{params}}}"#);
        assert_eq!(refused(&by_progress), (false, None));
        for line in [by_id, by_token, by_progress] {
            let short = line.replace(&long, &long[..1000]);
            assert!(read(short.as_bytes()).is_ok(), "{short}");
        }
    }

    #[test]
    fn reads_messages() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}",
            r#"{"jsonrpc":"2.0","id":1,"method":"unheard/of","params":{"a":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"unheard/of"}"#,
        ] {
            assert!(read(line.as_bytes()).is_ok(), "{line}");
        }
    }
}
