//! `skillhost serve`: an MCP server, on stdin and stdout or over HTTP.

mod http;
mod memory;

use std::sync::Arc;

use clap::Args;
use skillhost_mcp::{Handler, LiveHost, stdio};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::options::{Options, Starter, complain_of};

/// Serve agents over the Model Context Protocol, on stdin and stdout or over
/// HTTP
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    http: http::Http,
    #[command(flatten)]
    options: Options,
}

impl Serve {
    pub(crate) async fn execute(mut self, before: Options) -> anyhow::Result<Exit> {
        let options = before.and(std::mem::take(&mut self.options));
        let options = options.started_by(Starter::Client);
        ignore_hang_up()?;
        if let Some(address) = self.http.address {
            return self.http.execute(address, &options).await;
        }
        let end = end_by_signal()?;
        let live = Arc::new(LiveHost::new(options.builder(options.configured()?)?));
        let _watching = live
            .watch()
            .inspect_err(|error| tracing::warn!("{error:#}"));
        let served = stdio::serve_process(Handler::new(Arc::clone(&live)), end);
        tokio::pin!(served);
        // A client need not wait for components to be compiled before it is
        // answered at all; what needs the tools waits for them.
        let served = tokio::select! {
            served = &mut served => {
                // Loaded, and asked, before this could say what is wrong.
                live.loaded().iter().for_each(complain_of);
                served
            }
            host = live.load() => match host {
                Ok(host) => {
                    complain_of(&host);
                    served.await
                }
                Err(error) => Err(error),
            },
        };
        live.stop().await;
        served.map(|()| Exit::Ok)
    }
}

/// Has SIGHUP end nothing. Operators and their tools send it to a server to have
/// it read its configuration again, which does not end with the terminal either.
fn ignore_hang_up() -> anyhow::Result<()> {
    // Once one is listened to, the system's own answer to it is gone for good.
    drop(signal(SignalKind::hangup())?);
    Ok(())
}

/// Is cancelled when the process is told to end.
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
