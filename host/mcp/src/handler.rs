//! The handler of MCP requests: each method of the protocol calls the module
//! that answers it. Nothing is decided here but what the server says of itself.

use std::sync::Arc;

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult,
    DiscoverResult, ErrorData, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams,
    GetSkillResult, Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult,
    ReadResourceRequestParams, ReadResourceResponse, ResourcesCapability, ServerCapabilities,
    ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};

use crate::client::{self, ClientView};
use crate::live::LiveHost;
use crate::room::AnswerRoom;
use crate::{caller, methods, progress, prompts, resources, skills, subscriptions, tools};

/// The instructions of the server as a whole, for a model.
const INSTRUCTIONS: &str = "Skills are folders with instructions and files for particular kinds of \
    task. When a request matches a skill, read that skill before you start, follow it, and read \
    its further files where it refers to them. Paths are relative to the skill's folder. Nothing \
    here writes or reaches a network.";

/// The handler of MCP requests.
#[derive(Clone)]
pub struct Handler {
    live: Arc<LiveHost>,
}

impl Handler {
    /// Returns a handler that answers from this host.
    pub fn new(live: Arc<LiveHost>) -> Self {
        Self { live }
    }

    fn serves_resources(&self) -> bool {
        self.live.builder().serves_resources()
    }

    /// Returns the host that it answers from.
    pub fn live(&self) -> &Arc<LiveHost> {
        &self.live
    }
}

impl ServerHandler for Handler {
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
        if self.serves_resources() {
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

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        limit(&mut result.capabilities, &context);
        Ok(result)
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let mut info = self.get_info();
        limit(&mut info.capabilities, &context);
        Ok(DiscoverResult::from_server_info(versions, info))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let room = AnswerRoom::of(&context);
        progress::run(&context, tools::list(&view, request, room)).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = caller::of(&context);
        let room = AnswerRoom::of(&context);
        let call = progress::run(&context, tools::call(&view, request, caller, room));
        match call.await {
            // Nobody reads the answer, and rmcp would log an error.
            Err(_) if context.ct.is_cancelled() => Ok(CallToolResult::default().into()),
            called => Ok(called?.into()),
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        progress::run(&context, prompts::list(&view, request)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let prompt = progress::run(&context, prompts::get(&view, request));
        Ok(prompt.await?.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = caller::of(&context);
        progress::run(&context, resources::list(&view, request, caller)).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        match self.serves_resources() && client::has_resources(&context) {
            true => Ok(resources::templates()),
            false => Err(resources::none()),
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = caller::of(&context);
        let room = AnswerRoom::of(&context);
        let read = progress::run(&context, resources::read(&view, request, caller, room));
        Ok(read.await?.into())
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = caller::of(&context);
        progress::run(&context, resources::directory(&view, request, caller)).await
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = caller::of(&context);
        progress::run(&context, skills::list(&view, request, caller)).await
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = caller::of(&context);
        progress::run(&context, skills::get(&view, request, caller)).await
    }

    /// Accepts changes of every list, if folders are watched.
    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.live
            .is_watched()
            .then(|| subscriptions::served(requested))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let client = client::of(subscription.request_context());
        let scope = client.and_then(|client| client.scope());
        let scope = scope.map(Arc::as_ref);
        self.live.notify_subscriber(&subscription, scope).await;
        Ok(())
    }

    /// Notifies the client of a session of changes from here on.
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.live.add_session(context.peer);
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let revision = context.meta.protocol_version();
        let error = methods::error(&request.method, revision.as_ref());
        if request.method != methods::CALL {
            return Err(error);
        }
        let view = ClientView::new(&self.live, &context);
        let (parameters, caller) = (request.params.as_ref(), caller::of(&context));
        let refused = tools::refuse_unread(&view, parameters, caller, error);
        progress::run(&context, async { Err(refused.await) }).await
    }
}

/// Takes away the capabilities that the client of a request may not use.
fn limit(capabilities: &mut ServerCapabilities, context: &RequestContext<RoleServer>) {
    if !client::has_resources(context) {
        capabilities.resources = None;
        capabilities.extensions = None;
    }
}
