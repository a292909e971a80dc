//! `skillhost serve`: runs an MCP server on stdin and stdout, or over HTTP.

mod http;
mod memory;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use skillhost::{EgressSettings, HostBuilder, StartingEgress};
use skillhost_mcp::stdio::{self, StdioLimits};
use skillhost_mcp::{Handler, LiveHost, LiveSettings, WatchedFile};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::find_packages::{FindPackages, PackageRequests};
use crate::packages;
use crate::packages::live::LivePackages;
use crate::process_sandbox::{self, SandboxArguments, VerbNeeds};
use crate::settings::Settings;
use crate::warm::{Successor, WarmCommand};
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, Starter, report_problems};
use skillhost_program::terminal;

/// The maximum time that a host may take to start after its client has left. Guards against: a
/// server that outlives its client while components compile.
const MAX_START_TIME: Duration = Duration::from_secs(5);

/// Serve agents over the Model Context Protocol, on stdin and stdout or over
/// HTTP
#[derive(Args, Default)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    http: http::HttpArguments,
    #[command(flatten)]
    sandbox: SandboxArguments,
    #[command(flatten)]
    options: CommonOptions,
}

/// A server that is ready to run, in a confined process.
pub(crate) struct ReadyServer {
    builder: HostBuilder,
    /// The settings that the server reads again when they change.
    settings: LiveSettings,
    stdio: StdioLimits,
    http: Option<http::ReadyHttp>,
    /// Finishes compiling if the client ends the server early.
    successor: Option<Successor>,
}

impl ServeCommand {
    /// Checks whether the server listens for HTTP.
    pub(crate) fn is_http(&self) -> bool {
        self.http.address.is_some()
    }

    /// Opens, binds and starts what the server needs, then confines the process.
    pub(crate) fn prepare(mut self, global_options: CommonOptions) -> anyhow::Result<ReadyServer> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let options = options.started_by(Starter::Client);
        let (settings, mut watched) = packages::load_watched(&options)?;
        if self.http.address.is_none() && !settings.identity.clients.is_empty() {
            terminal::complain(
                "`[clients]` applies only to `--http`: over stdio there is one client, which may use \
                 everything",
            );
        }
        options.report_replaceable_folders(&settings.host);
        let builder = options.builder(&settings.host)?;
        let mut egress = settings.host.egress()?;
        if self.http.address.is_some() {
            let addresses = http::key_addresses(&settings.identity);
            egress = addresses.fold(egress, EgressSettings::issuer);
        }
        let egress = options.start_egress(egress)?;
        let mut http = match self.http.address.take() {
            Some(address) => Some(self.http.prepare(
                address,
                &settings,
                &options.trust_settings(),
            )?),
            None => None,
        };
        let reread_files = packages::files_to_read_again(&options, &settings);
        let blobs = packages::blobs_folder().filter(|_| !reread_files.is_empty());
        let skills = packages::skills_folder().filter(|_| !reread_files.is_empty());
        let folders = blobs.clone().into_iter().chain(skills.clone());
        watched.extend(folders.map(WatchedFile::new));
        let requests = PackageRequests::from_settings(&settings, &options.trust_settings())?;
        if let Some(requests) = &requests {
            requests.packages()?;
            requests.file.create()?;
        }
        let request_files = requests.iter().flat_map(PackageRequests::files);
        let request_files: Vec<_> = request_files.map(Path::to_owned).collect();
        let files = http.iter().flat_map(|http| http.files());
        let needs = VerbNeeds {
            is_server: true,
            output: None,
            files: files.chain(reread_files).chain(request_files).collect(),
            blobs,
            skills,
            requests: requests.as_ref().map(|it| it.file.path().to_owned()),
            socket: http.as_ref().and_then(|http| http.socket()),
        };
        let successor = if http.is_none() && settings.host.has_third_party_components() {
            Successor::start_for_client()
        } else {
            None
        };
        let (builder, _) =
            process_sandbox::confine(&self.sandbox, &options, &settings, needs, builder)?;
        let egress = egress.map(StartingEgress::wait).transpose()?;
        if let (Some(http), Some(egress)) = (&mut http, &egress) {
            http.fetch_keys_with(egress.clone());
        }
        let trust = options.trust_settings().with_opener(builder.opener());
        let builder = match PackageRequests::from_settings(&settings, &trust)? {
            Some(requests) => builder.program_tool(Arc::new(FindPackages::new(requests))),
            None => builder,
        };
        Ok(ReadyServer {
            builder: egress.into_iter().fold(builder, HostBuilder::egress),
            settings: live_settings(options, &settings, watched),
            stdio: settings.stdio,
            http,
            successor,
        })
    }

    /// Returns the command that compiles the components that this one would serve.
    pub(crate) fn into_warm(self) -> WarmCommand {
        WarmCommand {
            sandbox: self.sandbox,
            options: self.options,
            starter: Starter::Client,
        }
    }
}

impl ReadyServer {
    pub(crate) async fn execute(self) -> anyhow::Result<Exit> {
        ignore_hangup()?;
        if let Some(http) = self.http {
            return http.execute(self.builder, self.settings).await;
        }
        let end = cancel_on_signals()?;
        let interrupted = end.clone();
        let live = Arc::new(LiveHost::new(self.builder).with_settings(self.settings));
        terminal::explain_wait(
            "an MCP client's messages on stdin (`--http localhost:8080` serves clients over HTTP)",
            "Ctrl-D",
        );
        let _watching = live
            .watch()
            .inspect_err(|error| tracing::warn!("{error:#}"));
        let served = stdio::serve_process(Handler::new(Arc::clone(&live)), self.stdio, end);
        tokio::pin!(served);
        let load = live.load();
        tokio::pin!(load);
        // The server answers while components compile. Only calls of their tools wait.
        let served = tokio::select! {
            served = &mut served => {
                // A start that fails is an error, even if the client did not wait for it.
                let started = async {
                    tokio::select! {
                        host = &mut load => host.map(drop),
                        _ = live.host() => Ok(()),
                    }
                };
                let started = tokio::select! {
                    started = timeout(MAX_START_TIME, started) => started.unwrap_or(Ok(())),
                    () = interrupted.cancelled() => Ok(()),
                };
                // The session may end before the other branch reports problems.
                live.loaded().iter().for_each(report_problems);
                started.and(served)
            }
            host = &mut load => {
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

/// Returns the settings that a server reads again: grants, pins and packages.
fn live_settings(
    options: CommonOptions,
    settings: &Settings,
    files: Vec<WatchedFile>,
) -> LiveSettings {
    let packages = Arc::new(LivePackages::new(options, settings));
    let denying = Arc::clone(&packages);
    LiveSettings {
        files,
        read: Box::new(move |builder| packages.read(builder)),
        denied: Box::new(move |builder, host| denying.denied(builder, host)),
    }
}

/// Ignores SIGHUP, so that it does not end the server: operators send it to make a server reload
/// its configuration, and a closed terminal sends it too.
fn ignore_hangup() -> anyhow::Result<()> {
    // Listening once replaces the default action permanently.
    drop(signal(SignalKind::hangup())?);
    Ok(())
}

/// Returns a token that SIGINT and SIGTERM cancel.
fn cancel_on_signals() -> anyhow::Result<CancellationToken> {
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
