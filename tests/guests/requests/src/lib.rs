//! Sends the HTTP requests that a test asks for, as they are: with any header, address and body.
//! Replaces `${NAME}` in requests with a variable of the guest. Then searches the guest's memory.

#[cfg(target_arch = "wasm32")]
use core::arch::wasm32::memory_size;

use serde_json::{Value, json};
use skillhost_guest::{Access, Failure, Output, Tool};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme, http_error_code,
};
use wasip2::io::streams::StreamError;

skillhost_guest::arguments! {
    struct Requests {
        /// A JSON list of requests: `method`, `scheme`, `host`, `path`, `headers` as pairs, `body`,
        /// `read` (`all`, `none`, or `first` for one piece), `repeat`, `first_byte_ms`, `between_ms`
        requests: String,
        /// A JSON list of texts, each from its last letter to its first, to count in the memory
        scan: Option<String>,
    }
}

/// The maximum bytes that one read of a body returns.
const PIECE: u64 = 64 << 10;

fn send(arguments: Requests, _: Access) -> Result<Output, Failure> {
    let failed = |error: serde_json::Error| Failure::failed(error.to_string());
    let requests: Vec<Value> = serde_json::from_str(&arguments.requests).map_err(failed)?;
    let scan = arguments.scan.as_deref().unwrap_or("[]");
    let scan: Vec<String> = serde_json::from_str(scan).map_err(failed)?;
    let mut held = Vec::new();
    let mut results = Vec::new();
    for request in &requests {
        let mut result = Value::Null;
        for _ in 0..request["repeat"].as_u64().unwrap_or(1) {
            result = match exchange(request, &mut held) {
                Ok(result) => result,
                Err(error) => json!({ "error": error }),
            };
        }
        results.push(result);
    }
    let variables = wasip2::cli::environment::get_environment();
    let found: Vec<usize> = scan.iter().map(|text| count_in_memory(text)).collect();
    let answer = json!({ "results": results, "variables": variables, "found": found });
    Ok(Output::text(answer.to_string()))
}

/// Counts a text in this guest's memory. The argument is the text in reverse, because the memory
/// also has the argument.
fn count_in_memory(reversed: &str) -> usize {
    let reversed = reversed.as_bytes();
    let bytes = memory_size::<0>() << 16;
    // SAFETY: the address is in the memory, and not null.
    let byte = |address: usize| unsafe { (address as *const u8).read_volatile() };
    // `end` is the address of the last letter, which is the first one in `reversed`.
    let is_end = |end: &usize| {
        let mut letters = reversed.iter().enumerate();
        letters.all(|(distance, letter)| byte(end - distance) == *letter)
    };
    (reversed.len()..bytes).filter(is_end).count()
}

/// Returns 0. Only lints compile this guest for a machine without this instruction.
#[cfg(not(target_arch = "wasm32"))]
fn memory_size<const MEMORY: u32>() -> usize {
    0
}

/// Sends one request. Adds an unread response body to `held`, so that it stays open.
fn exchange(request: &Value, held: &mut Vec<IncomingBody>) -> Result<Value, String> {
    let fields = Fields::new();
    for pair in request["headers"].as_array().into_iter().flatten() {
        let (name, value) = (text(&pair[0]), text(&pair[1]));
        fields
            .append(&name, value.as_bytes())
            .map_err(|error| format!("header: {error:?}"))?;
    }
    let outgoing = OutgoingRequest::new(fields);
    let method = match &*text(&request["method"]) {
        "" | "GET" => Method::Get,
        "POST" => Method::Post,
        other => Method::Other(other.to_owned()),
    };
    let scheme = match &*text(&request["scheme"]) {
        "" | "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    outgoing.set_method(&method).map_err(|()| "method")?;
    outgoing.set_scheme(Some(&scheme)).map_err(|()| "scheme")?;
    let host = text(&request["host"]);
    outgoing.set_authority(Some(&host)).map_err(|()| "host")?;
    let path = text(&request["path"]);
    let path = outgoing.set_path_with_query(Some(&path));
    path.map_err(|()| "path")?;
    let body = outgoing.body().map_err(|()| "body")?;
    let options = RequestOptions::new();
    if let Some(time) = request["first_byte_ms"].as_u64() {
        let time = Some(time * 1_000_000);
        options.set_first_byte_timeout(time).map_err(|()| "time")?;
    }
    if let Some(time) = request["between_ms"].as_u64() {
        let time = Some(time * 1_000_000);
        options
            .set_between_bytes_timeout(time)
            .map_err(|()| "time")?;
    }
    let future = outgoing_handler::handle(outgoing, Some(options)).map_err(|code| name(&code))?;
    write(body, &text(&request["body"]))?;
    let response = wait(&future)?;
    let headers: Vec<_> = response
        .headers()
        .entries()
        .into_iter()
        .map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()))
        .collect();
    let body = response.consume().map_err(|()| "body")?;
    let (text, bytes, error) = read(&body, request["read"].as_str().unwrap_or("all"));
    if request["read"] == "none" {
        held.push(body);
    }
    Ok(json!({
        "status": response.status(),
        "headers": headers,
        "text": text,
        "bytes": bytes,
        "error": error,
    }))
}

fn write(body: OutgoingBody, text: &str) -> Result<(), String> {
    let stream = body.write().map_err(|()| "body")?;
    for piece in text.as_bytes().chunks(4096) {
        // The response says why the write failed.
        if stream.blocking_write_and_flush(piece).is_err() {
            break;
        }
    }
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
    Ok(())
}

fn wait(future: &FutureIncomingResponse) -> Result<wasip2::http::types::IncomingResponse, String> {
    future.subscribe().block();
    let response = future.get().ok_or("no response")?;
    let response = response.map_err(|()| "taken")?;
    response.map_err(|code| name(&code))
}

/// Reads a body. Returns its first 1,000 bytes as text, its size, and the error at its end.
fn read(body: &IncomingBody, extent: &str) -> (String, usize, Option<String>) {
    let Ok(stream) = body.stream() else {
        return (String::new(), 0, Some("taken".to_owned()));
    };
    let (mut start, mut bytes) = (Vec::new(), 0);
    if extent == "none" {
        return (String::new(), 0, None);
    }
    loop {
        match stream.blocking_read(PIECE) {
            Ok(piece) => {
                bytes += piece.len();
                start.extend(piece.into_iter().take(1_000 - start.len().min(1_000)));
            }
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => {
                let code = http_error_code(&error);
                let code = code.map_or_else(|| error.to_debug_string(), |code| name(&code));
                return (lossy(&start), bytes, Some(code));
            }
        }
        if extent == "first" {
            break;
        }
    }
    (lossy(&start), bytes, None)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn name(code: &ErrorCode) -> String {
    format!("{code:?}")
}

/// Returns a text of a request. Replaces `${NAME}` with the guest's variables.
fn text(value: &Value) -> String {
    let mut text = value.as_str().unwrap_or_default().to_owned();
    for (name, value) in wasip2::cli::environment::get_environment() {
        text = text.replace(&format!("${{{name}}}"), &value);
    }
    text
}

skillhost_guest::export_tools!(Tool::new("send_requests", "Send HTTP requests.", send));
