//! Lines of input, each of bounded length, and the messages that they hold.

use std::ops::Range;

use rmcp::model::{ClientJsonRpcMessage, ErrorCode, RequestId};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::stream::Input;
use skillhost::MAX_ARGUMENTS;

use crate::{labels, values};

/// Longest line that is read. Guards against: a line without end. It holds the largest
/// arguments, with every second character escaped.
pub(crate) const MAX_LINE: usize = 4 * MAX_ARGUMENTS;

/// Bytes that are read at a time, and that the buffer keeps between lines.
const KEPT: usize = 64 << 10;

/// Lines of a stream.
pub(crate) struct Lines {
    input: Input,
    read: Box<[u8]>,
    /// What was read and has not been looked at.
    left: Range<usize>,
    line: Vec<u8>,
    state: State,
}

/// What stands in the buffer of the line.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// The beginning of a line.
    Part,
    /// A line that was given out.
    Done,
    /// Nothing: what is left of a line that is too long is being skipped.
    Skipping,
}

/// What came next.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    /// A line; see [`Lines::text`].
    Text,
    /// A line longer than [`MAX_LINE`], which is not kept.
    TooLong,
    /// The stream ended, or broke.
    End,
}

impl Lines {
    pub(crate) fn new(input: Input) -> Self {
        Self {
            input,
            read: vec![0; KEPT].into(),
            left: 0..0,
            line: Vec::new(),
            state: State::Part,
        }
    }

    /// The line that came last.
    pub(crate) fn text(&self) -> &[u8] {
        self.line.trim_ascii()
    }

    /// Reads the next line that is not empty. Dropped in the middle, it goes on
    /// from there when it is called again. The last line counts without a line
    /// feed, too.
    pub(crate) async fn next(&mut self) -> Line {
        loop {
            if self.state == State::Done {
                self.line.clear();
                self.line.shrink_to(KEPT);
                self.state = State::Part;
            }
            if self.left.is_empty() && !self.fill().await {
                let last = self.state == State::Part && !self.text().is_empty();
                self.state = State::Done;
                return if last { Line::Text } else { Line::End };
            }
            let found = &self.read[self.left.clone()];
            let end = found.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(found.len(), |end| end + 1);
            if self.state == State::Part {
                self.line.extend_from_slice(&found[..taken]);
            }
            self.left.start += taken;
            if self.line.len() > MAX_LINE + usize::from(end.is_some()) {
                self.line = Vec::new();
                self.state = match end {
                    Some(_) => State::Done,
                    None => State::Skipping,
                };
                return Line::TooLong;
            }
            if end.is_some() {
                self.state = State::Done;
                if !self.text().is_empty() {
                    return Line::Text;
                }
            }
        }
    }

    /// Reads more; false where there is none.
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

/// A line that holds no message, with the answer that it gets.
#[derive(Debug)]
pub(crate) struct NoMessage {
    /// Whether it gets one: a notification gets none, whatever is wrong with it.
    pub(crate) answered: bool,
    /// The id that it would have, where that can be told.
    pub(crate) id: Option<RequestId>,
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

/// Reads a message.
pub(crate) fn read(line: &[u8]) -> Result<ClientJsonRpcMessage, NoMessage> {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    // Counted before any is built, which takes many times their size.
    if values::too_many(line) {
        return Err(NoMessage {
            answered: true,
            id: None,
            code: ErrorCode::INVALID_REQUEST,
            message: "the message has too many values".to_owned(),
        });
    }
    if let Some(message) = labels::too_long(line) {
        let NoMessage { answered, id, .. } = why_not(line);
        let is_short = |id: &RequestId| {
            serde_json::to_string(id).is_ok_and(|id| id.len() <= labels::LABEL_BYTES)
        };
        return Err(NoMessage {
            answered,
            id: id.filter(is_short),
            code: ErrorCode::INVALID_REQUEST,
            message,
        });
    }
    serde_json::from_slice(line).map_err(|_| why_not(line))
}

/// What is read of a line that is no message.
#[derive(Deserialize)]
struct Envelope {
    /// A null is an id, too, though not a good one.
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    jsonrpc: Option<Value>,
    method: Option<Value>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn why_not(line: &[u8]) -> NoMessage {
    let invalid = |id, message: &'static str| NoMessage {
        answered: true,
        id,
        code: ErrorCode::INVALID_REQUEST,
        message: message.to_owned(),
    };
    let no_json = |why: &dyn std::fmt::Display| NoMessage {
        answered: true,
        id: None,
        code: ErrorCode::PARSE_ERROR,
        message: format!("it is no JSON: {why}"),
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
                    "it is JSON, and no JSON-RPC message"
                }
                _ => "it is no JSON-RPC message: `jsonrpc` must be \"2.0\"",
            };
            NoMessage {
                answered: !notification,
                ..invalid(id, why)
            }
        }
        Err(error) if !error.is_data() => no_json(&error),
        Ok(None) => invalid(None, "batches are not taken: send each message by itself"),
        Err(_) => invalid(None, "it is JSON, and no JSON-RPC message"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use super::*;

    /// A stream that gives what it has in parts.
    async fn lines(parts: Vec<Vec<u8>>) -> Vec<(Line, usize)> {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let written = thread::spawn(move || {
            for part in parts {
                writer.write_all(&part).unwrap();
            }
        });
        let mut lines = Lines::new(Input::new(reader).unwrap());
        let mut found = Vec::new();
        loop {
            match lines.next().await {
                Line::End => break,
                line => found.push((line, lines.text().len())),
            }
        }
        written.join().unwrap();
        found
    }

    #[tokio::test]
    async fn a_line_is_given_whole_or_skipped_whole() {
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
                (Line::Text, 1),
                (Line::Text, 2),
                (Line::TooLong, 0),
                (Line::Text, 1),
                (Line::Text, MAX_LINE - 1),
                (Line::TooLong, 0),
                (Line::Text, 4),
            ]
        );
    }

    #[test]
    fn what_is_no_message_is_told_what_it_is_not() {
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
            let told = read(line.as_bytes()).unwrap_err();
            assert_eq!(told.id, id.map(RequestId::Number), "{line}");
            assert_eq!(told.code, code, "{line}");
            assert!(told.answered, "{line}");
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
    fn a_message_of_too_many_values_is_not_taken_apart() {
        let many = format!(
            r#"{{"jsonrpc":"2.0","id":1,"a":[{}0]}}"#,
            "0,".repeat(1 << 20)
        );
        let told = read(many.as_bytes()).unwrap_err();
        assert_eq!(told.code, ErrorCode::INVALID_REQUEST);
        assert!(told.message.contains("values"));
    }

    #[test]
    fn a_long_id_or_token_is_refused_and_only_a_short_id_is_repeated() {
        let long = "x".repeat(labels::LABEL_BYTES);
        let refused = |line: &str| {
            let told = read(line.as_bytes()).unwrap_err();
            assert_eq!(told.code, ErrorCode::INVALID_REQUEST, "{line}");
            assert!(told.message.contains("1024"), "{}", told.message);
            (told.answered, told.id)
        };
        let by_id = format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#);
        assert_eq!(refused(&by_id), (true, None));
        let meta = format!(r#""params":{{"name":"a","_meta":{{"progressToken":"{long}"}}}}"#);
        let by_token = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call",{meta}}}"#);
        assert_eq!(refused(&by_token), (true, Some(RequestId::Number(7))));
        let params = format!(r#""params":{{"progressToken":"{long}","progress":1}}"#);
        let told = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress",{params}}}"#);
        assert_eq!(refused(&told), (false, None));
        for line in [by_id, by_token, told] {
            let short = line.replace(&long, &long[..1000]);
            assert!(read(short.as_bytes()).is_ok(), "{short}");
        }
    }

    #[test]
    fn messages_are_read() {
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
