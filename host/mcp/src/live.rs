//! The current host. It is loaded once, and replaced when folders change. Clients are
//! notified of each change.
//!
//! The first host serves without the components that must be compiled. It is replaced
//! when they are ready.
//!
//! A request uses the host that is current when it arrives, until the request ends. A replaced host
//! lives until the last of its calls ends.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use rmcp::model::ErrorData;
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::calls::{Calls, GuestKind, RunningCall};
use super::faults::FaultLog;
use super::page::PAGE_BYTES;
use super::watched_file::WatchedFile;
use skillhost::prompt;
use skillhost::{Definition, Host, HostBuilder, Line, SKILL_RESOURCES, Scope};
use skillhost_skills::blocking;

/// The longest time that a session's client may take to read a notification. Guards
/// against: a client that does not read.
const MAX_NOTIFY_TIME: Duration = Duration::from_secs(5);

/// Settings that are read again while a host serves.
pub struct LiveSettings {
    /// The files and folders that they come from. A change there is noticed within a second.
    pub files: Vec<WatchedFile>,
    /// The function that adds the current settings to a builder.
    pub read: Box<dyn Fn(HostBuilder) -> anyhow::Result<ReadSettings> + Send + Sync>,
    /// The function that finds what the operator denies. It works even if other settings are
    /// invalid.
    pub denied: Box<FindDenied>,
}

/// A function that returns what the operator denies: packages of a builder, and components of a
/// host.
type FindDenied = dyn Fn(&HostBuilder, &Host) -> anyhow::Result<DeniedPackages> + Send + Sync;

/// Settings that were read again.
pub struct ReadSettings {
    /// The builder with the settings.
    pub builder: HostBuilder,
    /// The messages for the operator. They are logged once a host serves with the settings.
    pub messages: Vec<String>,
}

/// Packages that the operator denies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeniedPackages {
    /// The components, by the names that grants use.
    pub components: BTreeSet<String>,
    /// The skills, by name.
    pub skills: BTreeSet<String>,
    /// The messages for the operator, to log once the packages are not served any more.
    pub messages: Vec<String>,
}

/// A host that can be replaced while it answers.
pub struct LiveHost {
    builder: HostBuilder,
    settings: Option<Arc<LiveSettings>>,
    /// The builder with the last good settings.
    current: Mutex<HostBuilder>,
    /// Settings that were read after those of `current`, until a reload uses them.
    next: Mutex<Option<ReadSettings>>,
    /// The packages that the host has, but does not serve.
    denied: Mutex<DeniedPackages>,
    /// Locked while the host is replaced, so that no host serves what the operator denies.
    replacing: tokio::sync::Mutex<()>,
    /// The messages for the operator that were logged last.
    logged: Mutex<Vec<String>>,
    calls: OnceLock<Calls>,
    is_watched: OnceLock<()>,
    /// The maximum number of bytes of a message, if its transport has a limit.
    max_message: OnceLock<usize>,
    host: watch::Sender<Option<Host>>,
    folders: Mutex<FolderCounts>,
    loading: watch::Sender<Loading>,
    /// The offer after the last change.
    offer: Mutex<Option<Offer>>,
    changes: watch::Sender<Changes>,
    /// The clients that speak a protocol revision with sessions. They need not subscribe.
    sessions: Mutex<Vec<Peer<RoleServer>>>,
    closing: CancellationToken,
    faults: FaultLog,
    prompt_warning: Once,
}

/// The progress of [`LiveHost::load`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Loading {
    /// The offer is not known yet, so a change of it cannot be noticed.
    Started,
    /// The offer is known. It may lack components that are being compiled.
    Offered,
    /// All components are loaded.
    Complete,
}

/// The number of changes of each listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changes of tools or their definitions.
    pub tools: u64,
    /// Changes of prompts.
    pub prompts: u64,
    /// Changes of skills or their files.
    pub resources: u64,
}

/// The listings that have changed, as a client sees them.
pub struct ChangedLists {
    /// The list of tools.
    pub tools: bool,
    /// The list of prompts.
    pub prompts: bool,
    /// The list of resources.
    pub resources: bool,
}

impl Changes {
    /// Returns the lists that have changed since an earlier time.
    ///
    /// In a scope, every change of skills may change the tools and prompts. They are not compared,
    /// but reported as changed.
    pub fn since(&self, earlier: &Self, scope: Option<&Scope>) -> ChangedLists {
        let resources = self.resources != earlier.resources;
        let by_skills = resources && scope.is_some();
        ChangedLists {
            tools: by_skills || self.tools != earlier.tools,
            prompts: by_skills || self.prompts != earlier.prompts,
            resources: resources && scope.is_none_or(|scope| scope.allows_tool(SKILL_RESOURCES)),
        }
    }
}

/// The number of folders that are checked for changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FolderCounts {
    /// Folders that the kernel watches. A change there shows within a second.
    pub watched: usize,
    /// Folders beyond the limit on watches, which are polled.
    pub polled: usize,
}

/// The content of `tools/list` and `prompts/list`.
#[derive(PartialEq)]
struct Offer {
    tools: Vec<Definition>,
    has_prompt: bool,
}

impl DeniedPackages {
    fn leave_out(&self, host: &Host) -> Host {
        host.without(&self.components, &self.skills)
    }
}

impl LiveHost {
    /// Returns a host that is not loaded yet. Requests wait until it is [loaded](Self::load).
    pub fn new(builder: HostBuilder) -> Self {
        Self {
            current: Mutex::new(builder.clone()),
            next: Mutex::default(),
            denied: Mutex::default(),
            replacing: tokio::sync::Mutex::default(),
            logged: Mutex::default(),
            builder,
            settings: None,
            calls: OnceLock::new(),
            is_watched: OnceLock::new(),
            max_message: OnceLock::new(),
            host: watch::Sender::new(None),
            folders: Mutex::default(),
            loading: watch::Sender::new(Loading::Started),
            offer: Mutex::default(),
            changes: watch::Sender::default(),
            sessions: Mutex::default(),
            closing: CancellationToken::new(),
            faults: FaultLog::default(),
            prompt_warning: Once::new(),
        }
    }

    /// Reads settings again when their files change, once the host is [watched](Self::watch).
    #[must_use]
    pub fn with_settings(mut self, settings: LiveSettings) -> Self {
        self.settings = Some(Arc::new(settings));
        self
    }

    /// Returns the files of settings that are read again.
    pub(crate) fn settings_files(&self) -> &[WatchedFile] {
        self.settings
            .as_ref()
            .map_or(&[], |settings| &settings.files)
    }

    /// Returns the builder of the host.
    pub(crate) fn builder(&self) -> &HostBuilder {
        &self.builder
    }

    /// Returns the log of skills' faults, which all requests share.
    pub(crate) fn faults(&self) -> &FaultLog {
        &self.faults
    }

    /// Logs, only once, that the skills do not fit into the prompt.
    pub(crate) fn warn_of_cut_prompt(&self, section: &prompt::Section) {
        if let Some(warning) = section.warning() {
            self.prompt_warning
                .call_once(|| tracing::warn!("{}", Line::new(warning)));
        }
    }

    /// Returns whether folders are [watched](Self::watch), and clients notified of changes.
    pub fn is_watched(&self) -> bool {
        self.is_watched.get().is_some()
    }

    pub(crate) fn set_watched(&self) {
        self.is_watched.get_or_init(|| ());
    }

    /// Sets the maximum number of bytes of a message.
    pub(crate) fn limit_messages(&self, max: usize) {
        self.max_message.get_or_init(|| max);
    }

    /// Returns the maximum number of bytes of a page's entries. A page is at most half a message.
    pub(crate) fn page_bytes(&self) -> usize {
        let max = self.max_message.get();
        max.map_or(PAGE_BYTES, |max| PAGE_BYTES.min(max / 2))
    }

    /// Returns the number of watched and of polled folders.
    pub fn folder_counts(&self) -> FolderCounts {
        *lock(&self.folders)
    }

    pub(crate) fn set_folder_counts(&self, counts: FolderCounts) {
        *lock(&self.folders) = counts;
    }

    /// Loads the host, which takes as long as components take to compile.
    ///
    /// First serves the tools that need no compiler. The others follow, and clients are
    /// notified. If all components are [required](HostBuilder::require_components), no tool
    /// is served before all are compiled.
    ///
    /// # Errors
    ///
    /// The errors of the builder. Requests that need more than is loaded then wait forever.
    pub async fn load(&self) -> anyhow::Result<Host> {
        self.start_calls()?;
        let builder = self.builder.clone();
        let build = move |runtime: tokio::runtime::Handle| {
            runtime.block_on(async {
                if builder.requires_components() {
                    builder.build().await
                } else {
                    builder.build_compiled().await
                }
            })
        };
        let compiled = run_on_thread(build).await??;
        // From here on, calls of these tools run: they need neither the offer nor other
        // components.
        self.host.send_replace(Some(compiled.clone()));
        let preparing = prepare(&compiled);
        let offer = offer(&compiled).await;
        compiled.update_index();
        self.update_offer(offer).await;
        self.loading.send_replace(Loading::Offered);
        if compiled.is_complete() {
            self.loading.send_replace(Loading::Complete);
            return Ok(compiled);
        }
        // Tools that clients can already call are compiled before the other components.
        let _ = preparing.await;
        let builder = self.builder.clone();
        let complete =
            move |runtime: tokio::runtime::Handle| runtime.block_on(builder.complete(&compiled));
        let host = run_on_thread(complete).await??;
        drop(prepare(&host));
        self.publish(host.clone(), &self.builder).await;
        self.loading.send_replace(Loading::Complete);
        Ok(host)
    }

    /// Reads the settings again for the next [reload](Self::reload). If they cannot be used, logs
    /// why and returns false. The earlier settings then stay, but nothing that the operator denies
    /// is served.
    pub(crate) async fn read_settings(&self) -> bool {
        let Some(settings) = self.settings.clone() else {
            return false;
        };
        let builder = self.builder.clone();
        let read = run_on_thread(move |_| (settings.read)(builder)).await;
        match read.and_then(|read| read) {
            Ok(read) => {
                *lock(&self.next) = Some(read);
                true
            }
            Err(error) => {
                let error = Line::new(format_args!("{error:#}"));
                let others = self.withhold_denied().await;
                tracing::error!("all {others}tools stay as they were: {error}");
                false
            }
        }
    }

    /// Loads the components that have changed, and replaces the host. Logs what cannot be
    /// loaded, and keeps its earlier version.
    pub async fn reload(&self) {
        let Some(earlier) = self.loaded() else { return };
        let (builder, messages) = match lock(&self.next).take() {
            Some(ReadSettings { builder, messages }) => (builder, Some(messages)),
            None => (lock(&self.current).clone(), None),
        };
        let used = builder.clone();
        let known_problems = earlier.problems().to_vec();
        let built = run_on_thread(move |runtime| runtime.block_on(builder.rebuild(&earlier))).await;
        match built.and_then(|built| built) {
            Ok(host) => {
                let before = std::mem::replace(&mut *lock(&self.current), used.clone());
                let problems = host.problems().iter();
                for new in problems.filter(|problem| !known_problems.contains(problem)) {
                    tracing::warn!("{}", Line::new(new));
                }
                let was_denied = lock(&self.denied).clone();
                self.publish(host, &used).await;
                if !before.skills_roots().eq(used.skills_roots())
                    || before.withheld_skills() != used.withheld_skills()
                    || (messages.is_some() && !was_denied.skills.is_empty())
                {
                    self.add_changes(|changes| changes.resources += 1).await;
                }
                if let Some(messages) = messages {
                    self.log(messages);
                }
            }
            Err(error) => {
                let error = Line::new(format_args!("{error:#}"));
                let others = self.withhold_denied().await;
                tracing::error!(
                    "cannot reload, so all {others}tools and skills stay as they were: {error}"
                );
            }
        }
    }

    /// Stops serving what the operator denies, even while components are being compiled or the
    /// settings as a whole cannot be used. Returns `"other "` if the operator denies anything: the
    /// word in messages about the tools that are still served. Otherwise returns an empty text.
    pub(crate) async fn withhold_denied(&self) -> &'static str {
        let _replacing = self.replacing.lock().await;
        let Some(host) = self.loaded() else { return "" };
        let current = lock(&self.current).clone();
        let Some(denied) = self.find_denied(&host, &current).await else {
            return "";
        };
        if denied == DeniedPackages::default() {
            return "";
        }
        let before = std::mem::replace(&mut *lock(&self.denied), denied.clone());
        if denied != before {
            self.replace(denied.leave_out(&host)).await;
            self.add_changes(|changes| changes.resources += 1).await;
            self.log(denied.messages);
        }
        "other "
    }

    /// Serves a host that a builder has built, without what the operator denies by now.
    async fn publish(&self, host: Host, builder: &HostBuilder) {
        let _replacing = self.replacing.lock().await;
        if let Some(denied) = self.find_denied(&host, builder).await {
            *lock(&self.denied) = denied;
        }
        let denied = lock(&self.denied).clone();
        self.replace(denied.leave_out(&host)).await;
    }

    /// Returns what the operator denies, or `None` if the settings cannot be read. Logs no error,
    /// because reading all settings logs it.
    async fn find_denied(&self, host: &Host, builder: &HostBuilder) -> Option<DeniedPackages> {
        let settings = self.settings.clone()?;
        let (host, builder) = (host.clone(), builder.clone());
        let found = run_on_thread(move |_| (settings.denied)(&builder, &host)).await;
        found.ok()?.ok()
    }

    /// Logs those messages that were not logged the last time.
    fn log(&self, messages: Vec<String>) {
        let mut logged = lock(&self.logged);
        for message in messages.iter().filter(|message| !logged.contains(message)) {
            tracing::error!("{}", Line::new(message));
        }
        *logged = messages;
    }

    /// Returns the host, once it is loaded.
    pub async fn host(&self) -> Host {
        let mut host = self.host.subscribe();
        loop {
            if let Some(host) = host.borrow_and_update().clone() {
                return host;
            }
            if host.changed().await.is_err() {
                // The sender lives as long as `self`.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the host, once its offer is known. Without the offer, a change after a client's
    /// listing would not be noticed. If clients are not notified of changes, waits for all
    /// components.
    pub(crate) async fn host_to_list(&self) -> Host {
        self.wait_for(if self.is_watched() {
            Loading::Offered
        } else {
            Loading::Complete
        })
        .await;
        self.host().await
    }

    /// Waits until the first tools are served.
    pub async fn serving(&self) {
        self.wait_for(Loading::Offered).await;
    }

    /// Returns the host, once it has all components.
    pub(crate) async fn complete_host(&self) -> Host {
        self.wait_for(Loading::Complete).await;
        self.host().await
    }

    /// Waits until loading has reached a stage.
    async fn wait_for(&self, stage: Loading) {
        let mut loading = self.loading.subscribe();
        if loading.wait_for(|reached| *reached >= stage).await.is_err() {
            // The sender lives as long as `self`.
            std::future::pending::<()>().await;
        }
    }

    /// Runs a call of a guest on a thread where it delays no message. If the future is
    /// dropped, the guest is stopped.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        guest: GuestKind,
        call: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T, ErrorData>> + Send {
        // Boxed at once: it is large and would be moved several times.
        let call = Box::pin(call);
        async move {
            match self.calls.get() {
                Some(calls) => calls.run(guest, call).await,
                None => Err(not_loaded()),
            }
        }
    }

    /// Begins a call of built-in tools, which runs even while nobody waits for its end. If the
    /// returned value is dropped, the call stops at its next turn, within 10 ms.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<RunningCall<T>, ErrorData> {
        match self.calls.get() {
            Some(calls) => calls.begin(call),
            None => Err(not_loaded()),
        }
    }

    /// Starts the threads for calls, unless they run.
    pub(crate) fn start_calls(&self) -> anyhow::Result<()> {
        if self.calls.get().is_none() {
            let calls = Calls::start().context("cannot start the threads for calls")?;
            self.calls.get_or_init(|| calls);
        }
        Ok(())
    }

    /// Stops the running calls, waits until they are recorded, and ends the audit log. Must be called
    /// at the end of a server. Without this, a task that still has a host would keep the log open.
    pub async fn stop(&self) {
        if let Some(calls) = self.calls.get() {
            calls.stop().await;
        }
        if let Some(host) = self.loaded() {
            let ended = tokio::task::spawn_blocking(move || host.finish_audit_log());
            // It does not panic, and the runtime still runs.
            let _ = ended.await;
        }
    }

    /// Returns the host, which may lack components that are being compiled. Returns `None`
    /// before the first host is loaded.
    pub fn loaded(&self) -> Option<Host> {
        self.host.borrow().clone()
    }

    /// Returns a receiver of the number of changes.
    pub fn changes(&self) -> watch::Receiver<Changes> {
        self.changes.subscribe()
    }

    /// Notifies the index and clients that files of skills have changed.
    pub(crate) async fn notify_skills_changed(&self) {
        if let Some(host) = self.loaded() {
            host.update_index();
        }
        self.add_changes(|changes| changes.resources += 1).await;
    }

    /// Returns the advice for the operator about roots without skills, with their paths.
    pub(crate) async fn advice(&self) -> Vec<(PathBuf, String)> {
        let Some(host) = self.loaded() else {
            return Vec::new();
        };
        let advice = blocking::run((), move || host.catalog().advice_by_root());
        advice.await.unwrap_or_default()
    }

    /// Ends subscriptions, so that their requests are answered before the server ends.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Returns whether subscriptions have [ended](Self::close).
    pub fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Notifies a subscriber of changes in its scope, until one side ends the subscription.
    pub(crate) async fn notify_subscriber(
        &self,
        subscription: &SubscriptionContext,
        scope: Option<&Scope>,
    ) {
        let mut changes = self.changes();
        let mut sent = *changes.borrow_and_update();
        let accepted = subscription.accepted();
        let (tools, prompts, resources) = (
            accepted.tools_list_changed == Some(true),
            accepted.prompts_list_changed == Some(true),
            accepted.resources_list_changed == Some(true),
        );
        let notify = async {
            while changes.changed().await.is_ok() {
                let now = *changes.borrow_and_update();
                let changed = now.since(&sent, scope);
                let sink = subscription.sink();
                if tools && changed.tools {
                    sink.notify_tool_list_changed().await?;
                }
                if prompts && changed.prompts {
                    sink.notify_prompt_list_changed().await?;
                }
                if resources && changed.resources {
                    sink.notify_resource_list_changed().await?;
                }
                sent = now;
            }
            Ok::<_, rmcp::service::SubscriptionSendError>(())
        };
        tokio::select! {
            () = subscription.cancelled() => {}
            () = self.closing.cancelled() => {}
            notified = notify => if let Err(error) = notified {
                tracing::debug!("a subscription failed: {error}");
            }
        }
    }

    /// Adds a client that is notified of all changes until its session ends.
    pub(crate) fn add_session(&self, peer: Peer<RoleServer>) {
        if self.is_watched() {
            let mut sessions = lock(&self.sessions);
            sessions.retain(|session| !session.is_transport_closed());
            sessions.push(peer);
        }
    }

    /// Replaces the host.
    async fn replace(&self, host: Host) {
        // The offer must be known before a client can list the host's tools. Otherwise a
        // change after that listing would not be noticed.
        let offer = offer(&host).await;
        host.update_index();
        self.host.send_replace(Some(host));
        self.update_offer(offer).await;
    }

    /// Compares the current offer with the last one, and notifies clients of changes.
    pub(crate) async fn notify_if_offer_changed(&self) {
        if let Some(host) = self.loaded() {
            self.update_offer(offer(&host).await).await;
        }
    }

    /// Stores the current offer. Notifies clients if it differs from the last one.
    async fn update_offer(&self, offer: Option<Offer>) {
        let Some(offer) = offer else { return };
        let (tools_changed, prompts_changed) = {
            let mut last = lock(&self.offer);
            let changed = match &*last {
                // No client has listed anything yet.
                None => (false, false),
                Some(last) => (
                    last.tools != offer.tools,
                    last.has_prompt != offer.has_prompt,
                ),
            };
            *last = Some(offer);
            changed
        };
        self.add_changes(|changes| {
            changes.tools += u64::from(tools_changed);
            changes.prompts += u64::from(prompts_changed);
        })
        .await;
    }

    /// Adds to the number of changes, and notifies clients if it has grown.
    async fn add_changes(&self, add: impl FnOnce(&mut Changes)) {
        let before = *self.changes.borrow();
        let mut now = before;
        add(&mut now);
        if now == before {
            return;
        }
        self.changes.send_replace(now);
        let sessions = {
            let mut sessions = lock(&self.sessions);
            sessions.retain(|session| !session.is_transport_closed());
            sessions.clone()
        };
        let mut notifications = tokio::task::JoinSet::new();
        for session in sessions {
            notifications.spawn(tokio::time::timeout(MAX_NOTIFY_TIME, async move {
                // The transport of a session has one client, which has no scope.
                let changed = now.since(&before, None);
                if changed.tools {
                    session.notify_tool_list_changed().await?;
                }
                if changed.prompts {
                    session.notify_prompt_list_changed().await?;
                }
                if changed.resources {
                    session.notify_resource_list_changed().await?;
                }
                Ok::<_, rmcp::ServiceError>(())
            }));
        }
        while let Some(notified) = notifications.join_next().await {
            if !matches!(notified, Ok(Ok(Ok(())))) {
                tracing::debug!("cannot notify a client of a change: {notified:?}");
            }
        }
    }
}

/// Starts to compile the components that a first call would wait for.
fn prepare(host: &Host) -> tokio::task::JoinHandle<()> {
    let host = host.clone();
    tokio::spawn(async move { host.prepare().await })
}

/// Returns the offer of a host, or `None` if the process is shutting down.
async fn offer(host: &Host) -> Option<Offer> {
    let host = host.clone();
    let offer = blocking::run((), move || Offer {
        tools: host.definitions(),
        has_prompt: host.has_prompt(),
    });
    offer.await.ok()
}

/// Runs long work on a thread for blocking work.
async fn run_on_thread<T: Send + 'static>(
    work: impl FnOnce(tokio::runtime::Handle) -> T + Send + 'static,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Handle::current();
    Ok(tokio::task::spawn_blocking(move || work(runtime)).await?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn not_loaded() -> ErrorData {
    ErrorData::internal_error("the tools are not loaded yet: try again", None)
}
