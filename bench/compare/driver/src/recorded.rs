//! A server that has its answers ready, on stdin and stdout: what is left of the
//! time of a call where the server takes none.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Write as _};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// An answer, and what it answers.
#[derive(Deserialize)]
struct Recorded {
    method: String,
    /// Of a tool's call.
    arguments: Option<Value>,
    result: Box<RawValue>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: String,
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    arguments: Option<Value>,
}

/// Answers each request as it was recorded, after it has computed for so long.
pub(crate) fn serve(recorded: &str, computing: Duration) -> anyhow::Result<()> {
    let recorded: Vec<Recorded> = serde_json::from_str(recorded)?;
    let key =
        |method: String, arguments: Option<Value>| (method, arguments.map(|it| it.to_string()));
    let results: HashMap<_, _> = recorded
        .into_iter()
        .map(|one| (key(one.method, one.arguments), one.result))
        .collect();
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let (mut line, mut message) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        let start = Instant::now();
        let Request { id, method, params } = serde_json::from_slice(&line)?;
        if let Some(id) = id {
            let arguments = params.and_then(|params| params.arguments);
            write!(message, "{{\"jsonrpc\":\"2.0\",\"id\":{id},")?;
            match results.get(&key(method, arguments)) {
                Some(result) => writeln!(message, "\"result\":{result}}}")?,
                None => writeln!(message, "\"error\":{{\"code\":-32601,\"message\":\"?\"}}}}")?,
            }
            while start.elapsed() < computing {}
            output.write_all(&message)?;
            output.flush()?;
        }
        line.clear();
        message.clear();
    }
    Ok(())
}
