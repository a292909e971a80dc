//! The client that sent a request, and the host as that client sees it.
//!
//! A transport that tells clients apart puts the client into the request's extensions. A
//! request without a client sees everything.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use http::request::Parts;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;
use skillhost::{Caller, Host, SKILL_RESOURCES};
use skillhost_identity::{BudgetError, Client, RequestLease};
use skillhost_skills::blocking;

use crate::answer_lease::LeaseHandle;
use crate::caller;
use crate::calls::shutting_down;
use crate::live::LiveHost;

/// The JSON-RPC error code of a request that the client may send again later. It is in the range
/// for errors that servers define.
pub const TRY_LATER: ErrorCode = ErrorCode(-32029);

/// Returns the error for a request of a client that has used up its budget.
pub fn over_budget(error: &BudgetError) -> ErrorData {
    let data = json!({"retryAfter": error.retry_after()});
    ErrorData::new(TRY_LATER, error.to_string(), Some(data))
}

/// Returns the client of a request, if it has one.
pub(crate) fn from_context(context: &RequestContext<RoleServer>) -> Option<&Arc<Client>> {
    let parts = context.extensions.get::<Parts>();
    parts.and_then(|parts| parts.extensions.get::<Arc<Client>>())
}

/// Returns whether the scope of a request's client includes skills' files as resources.
pub(crate) fn may_read_resources(context: &RequestContext<RoleServer>) -> bool {
    let scope = from_context(context).and_then(|client| client.scope());
    scope.is_none_or(|scope| scope.allows_tool(SKILL_RESOURCES))
}

/// The current host, as the client of a request sees it, with the leases of the request.
pub(crate) struct ClientView<'a> {
    live: &'a LiveHost,
    client: Option<&'a Arc<Client>>,
    /// The memory for the answer.
    answer: LeaseHandle,
    /// The request's lease of its client's budget, once its turn has come.
    turn: Arc<OnceLock<RequestLease>>,
}

impl<'a> ClientView<'a> {
    pub(crate) fn new(live: &'a LiveHost, context: &'a RequestContext<RoleServer>) -> Self {
        Self {
            live,
            client: from_context(context),
            answer: LeaseHandle::from_context(context),
            turn: Arc::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn without_client(live: &'a LiveHost) -> Self {
        Self {
            live,
            client: None,
            answer: LeaseHandle(None),
            turn: Arc::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn with_answer_lease(self, answer: LeaseHandle) -> Self {
        Self { answer, ..self }
    }

    /// Returns the caller of the request. Its calls keep the turn of the request until all work
    /// for them has ended.
    pub(crate) fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        caller::from_context(context).lease(self.turn.clone())
    }

    /// Returns the lease of the memory for the answer.
    pub(crate) fn answer_lease(&self) -> &LeaseHandle {
        &self.answer
    }

    /// Waits for a host, and then for the request's turn. The turn is not taken while components
    /// are being compiled, because other requests of the client may need none of them.
    pub(crate) async fn wait_for_turn_after(
        &self,
        host: impl Future<Output = Host>,
    ) -> Result<(), ErrorData> {
        host.await;
        self.wait_for_turn().await
    }

    /// Waits for the request's turn. The turn ends with the view, its [blocking
    /// work](Self::run_blocking) and the calls of its [caller](Self::caller).
    pub(crate) async fn wait_for_turn(&self) -> Result<(), ErrorData> {
        if let Some(client) = self.client {
            let turn = client.acquire().await;
            let turn = turn.map_err(|error| over_budget(&error))?;
            self.turn.get_or_init(|| turn);
        }
        Ok(())
    }

    /// Runs work on another thread, where waiting for the file system delays no call. The work
    /// keeps the turn of the request until it ends. If the client leaves, the work ends soon.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let done = blocking::run(self.turn.clone(), work).await;
        done.map_err(|_| shutting_down())
    }

    /// Returns the host, once it is loaded.
    pub(crate) async fn host(&self) -> Host {
        self.in_scope(self.live.host().await)
    }

    /// Returns the host, once it has this tool or all components. A tool outside of the scope is
    /// like one that does not exist.
    pub(crate) async fn host_with(&self, tool: &str) -> Host {
        let host = self.host().await;
        if host.is_complete() || host.definition(tool).is_some() {
            return host;
        }
        self.in_scope(self.live.complete_host().await)
    }

    /// Returns the host, once it has this tool, compiled, or all components.
    pub(crate) async fn host_to_call(&self, tool: &str) -> Host {
        let host = self.host_with(tool).await;
        host.compile_tool(tool).await;
        host
    }

    /// Returns the host, once its offered tools are known.
    pub(crate) async fn host_to_list(&self) -> Host {
        self.in_scope(self.live.host_to_list().await)
    }

    fn in_scope(&self, host: Host) -> Host {
        match self.client.and_then(|client| client.scope()) {
            Some(scope) => host.in_scope(scope),
            None => host,
        }
    }
}

impl Deref for ClientView<'_> {
    type Target = LiveHost;

    fn deref(&self) -> &LiveHost {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::future::{pending, poll_fn};
    use std::path::Path;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::Poll;

    use skillhost::{HostBuilder, Trust, config};
    use skillhost_identity::{Clients, IdentitySettings};
    use skillhost_skills::text::digest::sha256_hex;

    use super::*;

    /// Returns a client of one tool that may have one request at a time, and 1 KiB in a minute.
    fn client() -> Arc<Client> {
        let digest = sha256_hex(b"token-of-the-client-one");
        let text = format!(
            "[clients.one]\ntoken_sha256 = \"{digest}\"\ncalls = 1\nbytes_per_minute = 1024\n\
             tools = [\"read_skill\"]\n"
        );
        let settings: IdentitySettings =
            config::parse(&text, "skillhost.toml", Path::new("/")).unwrap();
        let clients = Clients::read(&settings.clients, &Trust::new()).unwrap();
        let header: &[u8] = b"Bearer token-of-the-client-one";
        clients.identify([header].into_iter()).unwrap().client
    }

    fn view<'a>(live: &'a LiveHost, client: &'a Arc<Client>) -> ClientView<'a> {
        ClientView {
            live,
            client: Some(client),
            answer: LeaseHandle(None),
            turn: Arc::default(),
        }
    }

    #[tokio::test]
    async fn work_of_client_that_left_keeps_its_turn() {
        let (live, client) = (LiveHost::new(HostBuilder::default()), client());
        let view = || view(&live, &client);
        let (end, ended) = mpsc::channel::<()>();
        let (start, started) = mpsc::channel();
        {
            let view = view();
            view.wait_for_turn().await.unwrap();
            let mut work = pin!(view.run_blocking(move || {
                start.send(()).unwrap();
                ended.recv().unwrap_err();
            }));
            assert!(poll_fn(|task| Poll::Ready(work.as_mut().poll(task).is_pending())).await);
            started.recv().unwrap();
        }
        let next = view();
        let mut turn = pin!(next.wait_for_turn());
        assert!(poll_fn(|task| Poll::Ready(turn.as_mut().poll(task).is_pending())).await);
        drop(end);
        turn.await.unwrap();
    }

    #[tokio::test]
    async fn takes_no_turn_while_host_is_awaited() {
        let (live, client) = (LiveHost::new(HostBuilder::default()), client());
        let (waiting, other) = (view(&live, &client), view(&live, &client));
        let mut turn = pin!(waiting.wait_for_turn_after(pending()));
        assert!(poll_fn(|task| Poll::Ready(turn.as_mut().poll(task).is_pending())).await);
        let mut turn = pin!(other.wait_for_turn());
        assert!(poll_fn(|task| Poll::Ready(turn.as_mut().poll(task).is_ready())).await);
    }

    #[tokio::test]
    async fn tools_outside_scope_wait_like_unknown_ones() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["skills", "tools"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        // It is compiled after the built-in tools are served.
        let empty_component = b"\0asm\x0d\0\x01\0";
        fs::write(folder.path().join("tools/x.wasm"), empty_component).unwrap();
        let builder = HostBuilder::default()
            .skills(folder.path().join("skills"))
            .tools(folder.path().join("tools"))
            .cache(folder.path().join("cache"));
        let live = LiveHost::new(builder);
        let mut loading = pin!(live.load());
        let first = tokio::select! {
            host = live.host() => host,
            _ = &mut loading => panic!("all components are loaded"),
        };
        assert!(!first.is_complete());
        let client = client();
        let view = view(&live, &client);
        for (tool, is_found) in [
            ("read_skill", true),
            ("list_skills", false),
            ("none", false),
        ] {
            let mut host = pin!(view.host_with(tool));
            let is_ready = poll_fn(|task| Poll::Ready(host.as_mut().poll(task).is_ready())).await;
            assert_eq!(is_ready, is_found, "{tool}");
        }
    }

    #[tokio::test]
    async fn refuses_waiting_request_without_byte_budget() {
        let (live, client) = (LiveHost::new(HostBuilder::default()), client());
        let view = || view(&live, &client);
        let (first, second, third) = (view(), view(), view());
        first.wait_for_turn().await.unwrap();
        let mut turn = pin!(second.wait_for_turn());
        assert!(poll_fn(|task| Poll::Ready(turn.as_mut().poll(task).is_pending())).await);
        client.count_bytes(2048);
        drop(first);
        let error = turn.await.unwrap_err();
        assert_eq!(error.code, TRY_LATER);
        assert!(error.message.contains("its bytes"), "{error}");
        // The refused request has given its turn back.
        assert!(third.wait_for_turn().await.is_err());
    }
}
