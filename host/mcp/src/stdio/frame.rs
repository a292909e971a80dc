//! Lines of input, each of bounded length, and the messages that they hold.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read};
use std::marker::PhantomData;

use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientJsonRpcMessage,
    ConstString as _, ErrorCode, JsonObject, JsonRpcMessage, RequestId, RequestMetaObject,
};
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{labels, values};
use skillhost::MAX_ARGUMENTS;

/// Longest line that is read. Meets: a line without end. It holds the largest
/// arguments, with every second character escaped.
pub(crate) const MAX_LINE: usize = 4 * MAX_ARGUMENTS;

/// Bytes that the buffer keeps between lines.
const KEPT: usize = 64 << 10;

/// Lines of a stream.
pub(crate) struct Lines<R> {
    stream: BufReader<R>,
    line: Vec<u8>,
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

impl<R: Read> Lines<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream: BufReader::new(stream),
            line: Vec::new(),
        }
    }

    /// The line that came last.
    pub(crate) fn text(&self) -> &[u8] {
        self.line.trim_ascii()
    }

    /// Reads the next line that is not empty. The last one counts without a
    /// line feed, too.
    pub(crate) fn next(&mut self) -> Line {
        loop {
            self.line.clear();
            self.line.shrink_to(KEPT);
            match self.read() {
                Ok(Line::Text) if self.text().is_empty() => {}
                Ok(Line::End) if !self.text().is_empty() => return Line::Text,
                Ok(line) => return line,
                Err(error) => {
                    tracing::error!("the input cannot be read: {error}");
                    return Line::End;
                }
            }
        }
    }

    /// Reads up to the next line feed or the end.
    fn read(&mut self) -> io::Result<Line> {
        let limit = MAX_LINE as u64 + 1;
        let stream = &mut self.stream;
        stream.take(limit).read_until(b'\n', &mut self.line)?;
        if self.line.ends_with(b"\n") {
            return Ok(Line::Text);
        }
        if self.line.len() <= MAX_LINE {
            return Ok(Line::End);
        }
        self.line = Vec::new();
        self.stream.skip_until(b'\n')?;
        Ok(Line::TooLong)
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
    match call(line) {
        Some(call) => Ok(call),
        None => serde_json::from_slice(line).map_err(|_| why_not(line)),
    }
}

/// A call as most are. rmcp tries a message as each of the protocol's in turn,
/// and keeps it in between in a form that takes longer to make than the rest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    jsonrpc: &'a str,
    id: RequestId,
    method: &'a str,
    #[serde(deserialize_with = "object")]
    params: CallParams,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallParams {
    name: String,
    arguments: Option<JsonObject>,
    _meta: Option<JsonObject>,
}

/// Reads a message that is a call with nothing unusual in it.
fn call(line: &[u8]) -> Option<ClientJsonRpcMessage> {
    let mut json = serde_json::Deserializer::from_slice(line);
    let call: Call<'_> = object(&mut json).ok()?;
    json.end().ok()?;
    if (call.jsonrpc, call.method) != ("2.0", CallToolRequestMethod::VALUE) {
        return None;
    }
    let mut params = CallToolRequestParams::new(call.params.name);
    params.arguments = call.params.arguments;
    let mut request = CallToolRequest::new(params);
    if let Some(meta) = call.params._meta {
        request.extensions.insert(RequestMetaObject::from(meta));
    }
    Some(JsonRpcMessage::request(request.into(), call.id))
}

/// Reads what is an object. A derived reader takes a list of its fields, too.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(json: D) -> Result<T, D::Error> {
    struct Object<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
    json.deserialize_map(Object(PhantomData))
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
    fn lines(parts: &[&[u8]]) -> Vec<(Line, usize)> {
        let (reader, mut writer) = io::pipe().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                for part in parts {
                    writer.write_all(part).unwrap();
                }
            });
            let mut lines = Lines::new(reader);
            let next = || match lines.next() {
                Line::End => None,
                line => Some((line, lines.text().len())),
            };
            std::iter::from_fn(next).collect()
        })
    }

    #[test]
    fn a_line_is_given_whole_or_skipped_whole() {
        let long = vec![b'x'; MAX_LINE];
        let longer = vec![b'x'; MAX_LINE + 1];
        assert_eq!(
            lines(&[
                b"a\n\n \r\nbc\r\n",
                &longer,
                &longer,
                b"\nd\n",
                &long[1..],
                b"\n",
                &longer,
                b"\nlast"
            ]),
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
    fn a_call_is_read_as_rmcp_reads_it() {
        let cases = [
            (r#""params":{"name":"a"}"#, true),
            (r#""params":{"name":"a","arguments":{}}"#, true),
            (
                r#""params":{"name":"a","arguments":null,"_meta":null}"#,
                true,
            ),
            (
                r#""params":{"_meta":{"progressToken":"t","x":{"y":[1]}},"arguments":{
                    "text":"\u00e9\ud83d\ude00","list":[1,-1,1.5,1e300,18446744073709551615,
                    18446744073709551616,-0],"map":{"a":null,"a":true}},"name":"\u0061\"b"}"#,
                true,
            ),
            // What is left to rmcp, one way or the other.
            (
                r#""params":{"name":"a","arguments":{},"requestState":"s"}"#,
                false,
            ),
            (r#""params":{"name":"a","unheard":1}"#, false),
            (r#""params":{"name":"a"},"unheard":1"#, false),
            (r#""params":{"name":"a","arguments":[]}"#, false),
            (r#""params":{"name":"a","arguments":{"n":1e999}}"#, false),
            (r#""params":{"name":"a","name":"b"}"#, false),
            (r#""params":{"name":1}"#, false),
            (r#""params":{}"#, false),
            (r#""params":null"#, false),
            (r#""params":["a",{},null]"#, false),
            (r#""result":{},"params":{"name":"a"}"#, false),
        ];
        let heads = [
            (r#""jsonrpc":"2.0","id":1,"method":"tools/call""#, true),
            (
                r#""method":"tools/call","id":"\u0061","jsonrpc":"2.0""#,
                true,
            ),
            (r#""jsonrpc":"2.0","id":null,"method":"tools/call""#, false),
            (r#""jsonrpc":"2.0","id":1.5,"method":"tools/call""#, false),
            (r#""jsonrpc":"1.0","id":1,"method":"tools/call""#, false),
            (r#""jsonrpc":"2.0","id":1,"method":"tools/list""#, false),
            (r#""jsonrpc":"2.0","method":"tools/call""#, false),
        ];
        for (head, usual) in heads {
            for (rest, also) in cases {
                let line = format!("{{{head},{rest}}}");
                let read = call(line.as_bytes());
                assert_eq!(read.is_some(), usual && also, "{line}");
                if let Some(read) = read {
                    let theirs: ClientJsonRpcMessage = serde_json::from_str(&line).unwrap();
                    assert_eq!(format!("{read:?}"), format!("{theirs:?}"), "{line}");
                    let [read, theirs] = [read, theirs].map(|it| serde_json::to_string(&it));
                    assert_eq!(read.unwrap(), theirs.unwrap(), "{line}");
                }
            }
        }
        for line in [
            r#"["2.0",1,"tools/call",{"name":"a"}]"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}} {}"#,
        ] {
            assert!(call(line.as_bytes()).is_none(), "{line}");
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
