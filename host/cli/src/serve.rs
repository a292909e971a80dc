//! `skillhost serve`: runs an MCP server, on stdin and stdout or over HTTP.

mod http;
mod memory;

use std::sync::Arc;

use clap::Args;
use skillhost::HostBuilder;
use skillhost::config::StdioLimits;
use skillhost_mcp::{Handler, LiveHost, stdio};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::wall::{self, Needs, WallArguments};
use crate::warm::{Successor, WarmCommand};
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, Starter, report_problems};
use skillhost_program::terminal;

/// Serve agents over the Model Context Protocol, on stdin and stdout or over
/// HTTP
#[derive(Args, Default)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    http: http::HttpArguments,
    #[command(flatten)]
    wall: WallArguments,
    #[command(flatten)]
    options: CommonOptions,
}

/// A server whose process is confined.
pub(crate) struct ReadyServer {
    builder: HostBuilder,
    stdio: StdioLimits,
    http: Option<http::ReadyHttp>,
    /// Compiles what is left when a client ends the server early.
    successor: Option<Successor>,
}

impl ServeCommand {
    /// Reads, binds and starts what the server needs, and confines the process.
    pub(crate) fn prepare(mut self, before: CommonOptions) -> anyhow::Result<ReadyServer> {
        let options = before.and(std::mem::take(&mut self.options));
        let options = options.started_by(Starter::Client);
        let config = options.configured()?;
        if self.http.address.is_none() && !config.clients.is_empty() {
            terminal::complain(
                "`[clients]` counts for `--http` alone: over stdio there is one client, who may \
                 use everything",
            );
        }
        let builder = options.builder(&config)?;
        let http = match self.http.address.take() {
            Some(address) => Some(self.http.prepare(address, &config, &options.trusted())?),
            None => None,
        };
        let needs = Needs {
            is_server: true,
            output: None,
            files: http.iter().flat_map(|http| http.files()).collect(),
            socket: http.as_ref().and_then(|http| http.socket()),
        };
        let successor = match http.is_none() && !config.tools.is_empty() {
            true => Successor::of_client_server(),
            false => None,
        };
        let (builder, _) = wall::raise(&self.wall, &options, &config, needs, builder)?;
        Ok(ReadyServer {
            builder,
            stdio: config.stdio,
            http,
            successor,
        })
    }

    /// Returns the command that compiles what this one would serve.
    pub(crate) fn into_warm(self) -> WarmCommand {
        WarmCommand {
            wall: self.wall,
            options: self.options,
            starter: Starter::Client,
        }
    }
}

impl ReadyServer {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        ignore_hang_up()?;
        if let Some(http) = self.http {
            return http.execute(self.builder).await;
        }
        let end = end_by_signal()?;
        let live = Arc::new(LiveHost::new(self.builder));
        terminal::explain_wait(
            "an MCP client's messages on stdin (`--http localhost:8080` serves clients over HTTP)",
            "Ctrl-D",
        );
        let _watching = live
            .watch()
            .inspect_err(|error| tracing::warn!("{error:#}"));
        let served = stdio::serve_process(Handler::new(Arc::clone(&live)), self.stdio, end);
        tokio::pin!(served);
        // The server answers while components are still compiled. Only calls of their
        // tools wait for them.
        let served = tokio::select! {
            served = &mut served => {
                // The session may end before the other branch reports the problems.
                live.loaded().iter().for_each(report_problems);
                served
            }
            host = live.load() => {
                if let Some(successor) = self.successor {
                    successor.dismiss();
                }
                match host {
                    Ok(host) => {
                        report_problems(&host);
                        served.await
                    }
                    Err(error) => Err(error),
                }
            }
        };
        live.stop().await;
        served.map(|()| Exit::Ok)
    }
}

/// Makes SIGHUP end nothing. Operators and their tools send it to make a server
/// read its configuration again. A server does not end with its terminal either.
fn ignore_hang_up() -> anyhow::Result<()> {
    // Listening once replaces the default action for good.
    drop(signal(SignalKind::hangup())?);
    Ok(())
}

/// Returns a token that SIGINT and SIGTERM cancel.
fn end_by_signal() -> anyhow::Result<CancellationToken> {
    let end = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)?;
        let end = end.clone();
        tokio::spawn(async move {
            signals.recv().await;
            end.cancel();
        });
    }
    Ok(end)
}
