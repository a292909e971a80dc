//! A server on stdin and stdout that answers with recorded results, or with those of a function. It
//! shows how much of a call's time the client and the pipes take.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Write as _};

use serde::Deserialize;
use serde_json::Value;

/// A recorded answer and its request.
#[derive(Deserialize)]
struct Recorded {
    method: String,
    /// The arguments, if the request calls a tool.
    arguments: Option<Value>,
    result: Value,
}

#[derive(Deserialize)]
struct Request {
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Params,
}

#[derive(Default, Deserialize)]
struct Params {
    name: Option<String>,
    arguments: Option<Value>,
}

/// Answers each request as recorded, except calls of tools for which `call` returns a result.
pub(crate) fn serve(
    recorded: &str,
    call: impl Fn(&str, &Value) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<()> {
    let recorded: Vec<Recorded> = serde_json::from_str(recorded)?;
    let key =
        |method: String, arguments: Option<Value>| (method, arguments.map(|it| it.to_string()));
    let results: HashMap<_, _> = recorded
        .into_iter()
        .map(|answer| {
            (
                key(answer.method, answer.arguments),
                answer.result.to_string(),
            )
        })
        .collect();
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let (mut line, mut message) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        let Request { id, method, params } = serde_json::from_slice(&line)?;
        if let Some(id) = id {
            write!(message, "{{\"jsonrpc\":\"2.0\",\"id\":{id},")?;
            let called = match &params {
                Params {
                    name: Some(name),
                    arguments: Some(arguments),
                } => call(name, arguments)?,
                _ => None,
            };
            let result = match &called {
                Some(result) => Some(&**result),
                None => results
                    .get(&key(method, params.arguments))
                    .map(String::as_str),
            };
            match result {
                Some(result) => writeln!(message, "\"result\":{result}}}")?,
                None => writeln!(message, "\"error\":{{\"code\":-32601,\"message\":\"?\"}}}}")?,
            }
            output.write_all(&message)?;
            output.flush()?;
        }
        line.clear();
        message.clear();
    }
    Ok(())
}
