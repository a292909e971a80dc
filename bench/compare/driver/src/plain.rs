//! A bare axum handler that reads the file that a call names: the least work of a server over
//! HTTP. It has no protocol, no limits and no sandbox.

use std::fs;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

#[derive(Deserialize)]
struct Request {
    id: Value,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    arguments: Arguments,
}

#[derive(Deserialize)]
struct Arguments {
    skill_name: String,
    file_path: String,
}

/// Prints the server's address, and serves the files of a folder of skills.
pub(crate) fn serve(skills: PathBuf) -> anyhow::Result<()> {
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}/mcp", listener.local_addr()?);
        let handler = async move |body: Bytes| answer(&skills, &body).into_response();
        Ok(axum::serve(listener, Router::new().route("/mcp", post(handler))).await?)
    })
}

fn answer(skills: &Path, body: &[u8]) -> impl IntoResponse + use<> {
    let read = || -> anyhow::Result<Value> {
        let Request { id, params } = serde_json::from_slice(body)?;
        let Arguments {
            skill_name,
            file_path,
        } = params.arguments;
        let text = fs::read_to_string(skills.join(skill_name).join(file_path))?;
        let result = json!({"content": [{"type": "text", "text": text}], "isError": false});
        Ok(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    };
    let answer = read().map_err(|error| error.to_string())?;
    Ok::<_, String>(([(CONTENT_TYPE, "application/json")], answer.to_string()))
}
