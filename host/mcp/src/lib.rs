//! The MCP server: a handler that answers every request from the [`Live`]
//! host. Nothing of the protocol is decided here; each method hands over to the
//! module of what it is about, and a transport hands messages in:
//!
//! | module | what |
//! |---|---|
//! | `tools` | `tools/list`, `tools/call` |
//! | `prompts` | `prompts/list`, `prompts/get` |
//! | `resources` | `resources/…`, `resources/directory/read` |
//! | `skills` | `skills/list`, `skills/get` |
//! | [`live`], `calls` | the host of the moment, who is told when it changes, and where its guests run |
//! | `watch` | folders that change |
//! | [`stdio`], [`http`] | messages on standard input and output, and over HTTP |
//! | `labels`, `page`, `progress`, `room`, `values` | what several of them need |
//!
//! A further kind of request is a module beside these, with functions that take
//! the [`Live`] host, the request and its context; the handler's method calls
//! them, and [`Server::get_info`] says that they are there. Whatever runs a
//! guest goes through `Live::run`. A further transport is a module
//! that hands [`Server`]s, or any other handler, to rmcp: a [`Server`] is cheap
//! to clone, and all clones answer from one host.

mod calls;
pub mod http;
mod labels;
pub mod live;
mod methods;
pub mod page;
mod progress;
mod prompts;
mod resources;
mod room;
mod skills;
pub mod stdio;
mod tools;
mod values;
mod watch;

use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult,
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams, GetSkillResult,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListSkillsResult, ListToolsResult, PaginatedRequestParams, ReadResourceDirectoryRequestParams,
    ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse,
    ResourcesCapability, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};

pub use live::Live;
use room::AnswerRoom;

/// What a model is told of the server as a whole.
const INSTRUCTIONS: &str = "Skills are folders with instructions and files for particular kinds of \
    task. When a request matches a skill, read that skill before you start, follow it, and read \
    its further files where it refers to them. Paths are relative to the skill's folder. Nothing \
    here writes or reaches a network.";

/// The handler of MCP requests.
#[derive(Clone)]
pub struct Server {
    live: Arc<Live>,
}

impl Server {
    /// A handler that answers from this host.
    pub fn new(live: Arc<Live>) -> Self {
        Self { live }
    }

    /// The host that it answers from.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts();
        if self.live.is_watched() {
            capabilities = capabilities
                .enable_tool_list_changed()
                .enable_prompts_list_changed();
        }
        let mut capabilities = capabilities.build();
        if self.live.builder().serves_resources() {
            let mut resources = ResourcesCapability::default();
            resources.list_changed = self.live.is_watched().then_some(true);
            capabilities.resources = Some(resources);
            capabilities.extensions = skills::extension();
        }
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new("skillhost", env!("CARGO_PKG_VERSION"))
                    .with_title("skillhost")
                    .with_description("A sandboxed WebAssembly plugin host for agent skills"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        progress::during(&context, tools::list(&self.live, request)).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let id = context.id.to_string();
        let room = AnswerRoom::of(&context);
        let call = progress::during(&context, tools::call(&self.live, request, &id, room));
        match call.await {
            // Nobody is answered, and rmcp would log an error as one.
            Err(_) if context.ct.is_cancelled() => Ok(CallToolResult::default().into()),
            called => Ok(called?.into()),
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        progress::during(&context, prompts::list(&self.live, request)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompt = progress::during(&context, prompts::get(&self.live, request));
        Ok(prompt.await?.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let id = context.id.to_string();
        progress::during(&context, resources::list(&self.live, request, &id)).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let id = context.id.to_string();
        let room = AnswerRoom::of(&context);
        let read = progress::during(&context, resources::read(&self.live, request, &id, room));
        Ok(read.await?.into())
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        let id = context.id.to_string();
        progress::during(&context, resources::directory(&self.live, request, &id)).await
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let id = context.id.to_string();
        progress::during(&context, skills::list(&self.live, request, &id)).await
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let id = context.id.to_string();
        progress::during(&context, skills::get(&self.live, request, &id)).await
    }

    /// Every kind of change that the capabilities name may be subscribed to.
    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.live.is_watched().then(|| requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        self.live.tell_subscriber(&subscription).await;
        Ok(())
    }

    /// From here on the client of a session is told of changes.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.live.add_session(context.peer);
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let revision = context.meta.protocol_version();
        Err(methods::not_served(&request.method, revision.as_ref()))
    }
}
