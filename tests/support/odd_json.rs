//! Requests with an odd JSON text in one place, for every transport.

use serde_json::Value;

/// Places for a value in a request. The value replaces `@`.
const PLACES: [&str; 14] = [
    r#"{"jsonrpc":"2.0","id":@,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":@,"method":"subscriptions/listen","params":{"notifications":{}}}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":@}"#,
    r#"{"jsonrpc":@,"id":"odd","method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"tools/list","extra":@}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"tools/list","params":@}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"tools/list","params":{"cursor":@}}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"tools/list","params":{"_meta":@}}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"tools/list","params":{"_meta":{"progressToken":@}}}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{"name":@}}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{"name":"list_skills","arguments":@}}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{"name":"list_skills","arguments":{"a":@}}}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"no/such","params":{"a":@}}"#,
    r#"{"jsonrpc":"2.0","id":"odd","method":"initialize","params":{"protocolVersion":@,"capabilities":{},"clientInfo":{"name":"a","version":@}}}"#,
];

/// Returns valid JSON texts that no `Value` can hold.
fn without_value() -> Vec<String> {
    let texts = [
        "1e400",
        "-1e400",
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\u0061""#,
        r#"{"\ud800":1}"#,
        "[1e999]",
    ];
    let mut texts: Vec<String> = texts.map(str::to_owned).into();
    texts.push("9".repeat(400));
    texts.push(format!("-{}", "9".repeat(400)));
    texts.push(format!("{}{}", "[".repeat(200), "]".repeat(200)));
    texts
}

/// Values that a reader may not expect.
const UNUSUAL: [&str; 12] = [
    "null",
    "-0",
    "1.5",
    "1.0000000000000001",
    "1e308",
    "1E+2",
    "18446744073709551616",
    "-9223372036854775809",
    r#""""#,
    r#""\u0000\u001b[2J""#,
    r#"{"a":1,"a":2}"#,
    "[]",
];

/// A request with an odd text in one place.
pub(crate) struct OddRequest {
    pub(crate) text: String,
    /// True if a `Value` can hold the text.
    has_value: bool,
}

impl OddRequest {
    /// Checks that an answer is valid, has the request's id or none, and is an error if no `Value`
    /// can hold the request.
    pub(crate) fn check(&self, answer: &Value) {
        let about = || format!("{:.300}: {answer:.300}", self.text);
        let id = &answer["id"];
        let after_key = self.text.split_once(r#""id":"#).unwrap().1;
        let request_id = after_key.split_once(r#","method":"#).unwrap().0;
        assert!(id.is_null() || is_same(request_id, id), "{}", about());
        let is_error = answer["error"]["code"].is_i64();
        let is_result = self.has_value && answer["result"].is_object();
        assert!(is_error || is_result, "{}", about());
    }
}

/// Returns whether a text is this value. A number must also have the same digits.
fn is_same(text: &str, value: &Value) -> bool {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    parsed.is_some_and(|parsed| parsed == *value)
        && (!value.is_number() || format!("{value}") == text)
}

/// Returns requests with an odd text in each place.
pub(crate) fn requests() -> Vec<OddRequest> {
    let texts = without_value().into_iter().map(|text| (text, false));
    let unusual = UNUSUAL.map(|text| (text.to_owned(), true));
    let requests = texts.chain(unusual).flat_map(|(text, has_value)| {
        PLACES.map(|place| OddRequest {
            text: place.replace('@', &text),
            has_value,
        })
    });
    requests.collect()
}

/// Returns requests with ids that no `Value` can hold.
pub(crate) fn requests_with_odd_ids() -> Vec<String> {
    let texts = without_value();
    texts
        .iter()
        .map(|text| PLACES[0].replace('@', text))
        .collect()
}
