//! A web service with the host inside: `POST /tools/NAME` calls a tool with a JSON
//! object of arguments, and `/mcp` serves MCP. Put the service's own
//! authentication in front: whoever reaches the address may call every tool.

use std::env;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{self, State};
use axum::http::{StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use skillhost::{CallError, Config, HostBuilder, Line, Trust};
use skillhost_mcp::{Handler, LiveHost};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let usage = "usage: web_service SKILLHOST.TOML ADDRESS";
    let file = env::args().nth(1).context(usage)?;
    let address = env::args().nth(2).context(usage)?;
    let config = Config::read(Path::new(&file), &Trust::default())?;
    let live = Arc::new(LiveHost::new(HostBuilder::from_config(&config)?));
    // Reloads components and notifies MCP clients when folders change.
    let _watch = live.watch()?;
    for problem in live.load().await?.problems() {
        eprintln!("{}", Line::new(problem));
    }
    let handler = Handler::new(live.clone());
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    let sessions = Arc::<NeverSessionManager>::default();
    let mcp = StreamableHttpService::new(move || Ok(handler.clone()), sessions, settings);
    let router = Router::new()
        .route("/tools/{name}", post(call))
        .with_state(live.clone())
        .nest_service("/mcp", mcp);
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

/// Calls a tool. Answers with a record in JSON, whether the call succeeds or fails. If the client
/// disconnects, axum drops this future, which stops the call.
async fn call(
    State(live): State<Arc<LiveHost>>,
    extract::Path(tool): extract::Path<String>,
    body: String,
) -> Response {
    let Ok(arguments) = serde_json::from_str(&body) else {
        return (StatusCode::BAD_REQUEST, "the body is not JSON\n").into_response();
    };
    let (status, record) = match live.host().await.call(&tool, arguments).await {
        Ok(output) => (StatusCode::OK, output.record_json()),
        Err(error) => (status(&error), error.record_json()),
    };
    (status, [(CONTENT_TYPE, "application/json")], record).into_response()
}

fn status(error: &CallError) -> StatusCode {
    match error {
        CallError::UnknownTool { .. } => StatusCode::NOT_FOUND,
        CallError::Arguments(_) => StatusCode::BAD_REQUEST,
        CallError::Failed(_) => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}
