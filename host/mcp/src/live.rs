//! The host of the moment: loaded once, replaced when folders change, and
//! those who are told of that.
//!
//! A request takes the host as it is when it comes and keeps it: what is
//! replaced lives until the last of its calls has ended.

use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use rmcp::model::ErrorData;
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::calls::{Calls, Guest};
use super::prompts;
use super::skills::Told;
use skillhost::Definition;
use skillhost::Line;
use skillhost::{Host, HostBuilder};

/// Longest that a session's client may take to be told of a change, before the
/// others' turn is not waited for any more. Meets: a client that does not read.
const TELLING: Duration = Duration::from_secs(5);

/// A host that can be replaced while it answers.
pub struct Live {
    builder: HostBuilder,
    calls: OnceLock<Calls>,
    watched: OnceLock<()>,
    host: watch::Sender<Option<Host>>,
    /// Whether folders are still to be watched.
    following: watch::Sender<bool>,
    /// Whether there is something to compare later offers with.
    looked: watch::Sender<bool>,
    /// What was offered when it was last looked at.
    offer: Mutex<Option<Offer>>,
    changes: watch::Sender<Changes>,
    /// Clients of protocol revisions with sessions, which are told unasked.
    sessions: Mutex<Vec<Peer<RoleServer>>>,
    closing: CancellationToken,
    /// What the operator was told of skills.
    told: Told,
}

/// How often each listing has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Tools: which there are, and their definitions.
    pub tools: u64,
    /// Prompts.
    pub prompts: u64,
    /// Skills and their files.
    pub resources: u64,
}

/// What lists show.
#[derive(PartialEq)]
struct Offer {
    tools: Vec<Definition>,
    prompts: bool,
}

impl Live {
    /// A host that is not loaded yet. Requests wait until it [is](Self::load).
    pub fn new(builder: HostBuilder) -> Self {
        Self {
            builder,
            calls: OnceLock::new(),
            watched: OnceLock::new(),
            host: watch::Sender::new(None),
            following: watch::Sender::new(false),
            looked: watch::Sender::new(false),
            offer: Mutex::default(),
            changes: watch::Sender::default(),
            sessions: Mutex::default(),
            closing: CancellationToken::new(),
            told: Told::default(),
        }
    }

    /// What the host is built from.
    pub(crate) fn builder(&self) -> &HostBuilder {
        &self.builder
    }

    /// What the operator was told of skills, by whichever request.
    pub(crate) fn told(&self) -> &Told {
        &self.told
    }

    /// Whether folders are [watched](Self::watch), and so clients told of
    /// changes.
    pub fn is_watched(&self) -> bool {
        self.watched.get().is_some()
    }

    pub(crate) fn set_watched(&self) {
        self.watched.get_or_init(|| ());
    }

    pub(crate) fn set_following(&self, following: bool) {
        self.following.send_replace(following);
    }

    /// Loads the host, which takes as long as components take to compile. The
    /// error is the builder's; there is no host then.
    pub async fn load(&self) -> anyhow::Result<Host> {
        if self.calls.get().is_none() {
            let calls = Calls::start().context("cannot start the threads of calls")?;
            self.calls.get_or_init(|| calls);
        }
        let builder = self.builder.clone();
        let host = on_a_thread(move |runtime| runtime.block_on(builder.build())).await??;
        // A call waits neither for what lists show nor for other components.
        self.host.send_replace(Some(host.clone()));
        let preparing = host.clone();
        tokio::spawn(async move { preparing.prepare().await });
        // What is looked at before it is watched could change unseen.
        let mut following = self.following.subscribe();
        // An error says that this is gone, which it is not.
        let _ = following.wait_for(|following| !following).await;
        let offer = offer(&host).await;
        self.compare(offer).await;
        self.looked.send_replace(true);
        Ok(host)
    }

    /// Loads what has changed and puts it in the host's place. What cannot be
    /// loaded is logged, and stays as it was.
    pub async fn reload(&self) {
        let Some(earlier) = self.loaded() else { return };
        let builder = self.builder.clone();
        let known = earlier.problems().to_vec();
        let built = on_a_thread(move |runtime| runtime.block_on(builder.rebuild(&earlier))).await;
        match built.and_then(|built| built) {
            Ok(host) => {
                for problem in host.problems().iter().filter(|new| !known.contains(new)) {
                    tracing::warn!("{}", Line::new(problem));
                }
                self.put(host).await;
            }
            Err(error) => {
                let error = Line::new(format_args!("{error:#}"));
                tracing::error!("nothing is reloaded, all stays as it was: {error}");
            }
        }
    }

    /// The host, once it is loaded.
    pub async fn host(&self) -> Host {
        let mut host = self.host.subscribe();
        loop {
            if let Some(host) = host.borrow_and_update().clone() {
                return host;
            }
            if host.changed().await.is_err() {
                // The sender lives as long as this does.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The host, once it was looked at what it offers: what changes after a
    /// client has listed must show as a change.
    pub(crate) async fn host_to_list(&self) -> Host {
        let mut looked = self.looked.subscribe();
        if looked.wait_for(|looked| *looked).await.is_err() {
            std::future::pending::<()>().await;
        }
        self.host().await
    }

    /// Runs what a guest answers where it keeps nothing of the protocol waiting.
    /// Dropping the future stops the guest.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        guest: Guest,
        call: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T, ErrorData>> + Send {
        // Moved this once: it is large.
        let call = Box::pin(call);
        async move {
            match self.calls.get() {
                Some(calls) => calls.run(guest, call).await,
                None => Err(ErrorData::internal_error("nothing is loaded", None)),
            }
        }
    }

    /// Stops the calls that still run, at the end of a server, and waits until
    /// they are recorded.
    pub async fn stop(&self) {
        if let Some(calls) = self.calls.get() {
            calls.stop().await;
        }
    }

    /// The host, if it is loaded.
    pub fn loaded(&self) -> Option<Host> {
        self.host.borrow().clone()
    }

    /// Counts of changes, to wait on.
    pub fn changes(&self) -> watch::Receiver<Changes> {
        self.changes.subscribe()
    }

    /// Says that files of skills have changed.
    pub async fn skills_changed(&self) {
        self.changed(|changes| changes.resources += 1).await;
    }

    /// Ends what waits for changes: subscriptions, so that their requests can
    /// be answered before the server ends.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Whether it is [closed](Self::close).
    pub fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Tells a subscriber of what it asked for, until one side ends that.
    pub(crate) async fn tell_subscriber(&self, subscription: &SubscriptionContext) {
        let mut changes = self.changes();
        let mut told = *changes.borrow_and_update();
        let accepted = subscription.accepted();
        let (tools, prompts, resources) = (
            accepted.tools_list_changed == Some(true),
            accepted.prompts_list_changed == Some(true),
            accepted.resources_list_changed == Some(true),
        );
        let tell = async {
            while changes.changed().await.is_ok() {
                let now = *changes.borrow_and_update();
                let sink = subscription.sink();
                if tools && now.tools != told.tools {
                    sink.notify_tool_list_changed().await?;
                }
                if prompts && now.prompts != told.prompts {
                    sink.notify_prompt_list_changed().await?;
                }
                if resources && now.resources != told.resources {
                    sink.notify_resource_list_changed().await?;
                }
                told = now;
            }
            Ok::<_, rmcp::service::SubscriptionSendError>(())
        };
        tokio::select! {
            () = subscription.cancelled() => {}
            () = self.closing.cancelled() => {}
            told = tell => if let Err(error) = told {
                tracing::debug!("a subscription ended: {error}");
            }
        }
    }

    /// Tells a client of all changes, for as long as its session lasts.
    pub(crate) fn add_session(&self, peer: Peer<RoleServer>) {
        if self.is_watched() {
            let mut sessions = lock(&self.sessions);
            sessions.retain(|session| !session.is_transport_closed());
            sessions.push(peer);
        }
    }

    /// Puts a host in the place of the one before.
    async fn put(&self, host: Host) {
        // Looked at before anybody can list it: what changes after a client has
        // listed must show as a change.
        let offer = offer(&host).await;
        self.host.send_replace(Some(host));
        self.compare(offer).await;
    }

    /// Looks at what is offered, and tells of what has changed.
    pub(crate) async fn look(&self) {
        if let Some(host) = self.loaded() {
            self.compare(offer(&host).await).await;
        }
    }

    async fn compare(&self, offer: Option<Offer>) {
        let Some(offer) = offer else { return };
        let (tools, prompts) = {
            let mut last = lock(&self.offer);
            let changed = match &*last {
                // Nobody has listed anything yet.
                None => (false, false),
                Some(last) => (last.tools != offer.tools, last.prompts != offer.prompts),
            };
            *last = Some(offer);
            changed
        };
        self.changed(|changes| {
            changes.tools += u64::from(tools);
            changes.prompts += u64::from(prompts);
        })
        .await;
    }

    async fn changed(&self, change: impl FnOnce(&mut Changes)) {
        let before = *self.changes.borrow();
        let mut now = before;
        change(&mut now);
        if now == before {
            return;
        }
        self.changes.send_replace(now);
        let sessions = {
            let mut sessions = lock(&self.sessions);
            sessions.retain(|session| !session.is_transport_closed());
            sessions.clone()
        };
        let mut told = tokio::task::JoinSet::new();
        for session in sessions {
            told.spawn(tokio::time::timeout(TELLING, async move {
                if now.tools != before.tools {
                    session.notify_tool_list_changed().await?;
                }
                if now.prompts != before.prompts {
                    session.notify_prompt_list_changed().await?;
                }
                if now.resources != before.resources {
                    session.notify_resource_list_changed().await?;
                }
                Ok::<_, rmcp::ServiceError>(())
            }));
        }
        while let Some(told) = told.join_next().await {
            if !matches!(told, Ok(Ok(Ok(())))) {
                tracing::debug!("a client could not be told of a change: {told:?}");
            }
        }
    }
}

/// What lists show now; nothing when the process is ending.
async fn offer(host: &Host) -> Option<Offer> {
    let host = host.clone();
    let offer = blocking(move || Offer {
        tools: host.definitions(),
        prompts: prompts::offered(&host),
    });
    offer.await.ok()
}

/// Runs what waits for the file system where that holds up no call.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ErrorData> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| ErrorData::internal_error("the server is ending", None))
}

/// Runs a future that computes for long on a thread of its own.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce(tokio::runtime::Handle) -> T + Send + 'static,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Handle::current();
    Ok(tokio::task::spawn_blocking(move || work(runtime)).await?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|broken| broken.into_inner())
}
