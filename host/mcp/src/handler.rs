//! The handler of MCP requests. Each method of the protocol calls the module that answers
//! it. Only the description of the server is here.

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
use crate::{methods, progress, prompts, resources, skills, subscriptions, tools};

/// The instructions for a model that uses the server.
const INSTRUCTIONS: &str = "Skills are folders with instructions and files for particular kinds of \
    task. When a request matches a skill, read that skill before you start, follow it, and read \
    its further files where it refers to them. Paths are relative to the skill's folder. Nothing \
    here writes files, and only tools with `openWorldHint` reach a network.";

/// The handler of MCP requests.
#[derive(Clone)]
pub struct Handler {
    live: Arc<LiveHost>,
}

impl Handler {
    /// Returns a handler that answers from a host.
    pub fn new(live: Arc<LiveHost>) -> Self {
        Self { live }
    }

    fn serves_resources(&self) -> bool {
        self.live.builder().serves_resources()
    }

    /// Returns the host that the handler answers from.
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
        remove_unavailable(&mut result.capabilities, &context);
        Ok(result)
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let mut info = self.get_info();
        remove_unavailable(&mut info.capabilities, &context);
        Ok(DiscoverResult::from_server_info(versions, info))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        progress::run(
            &context,
            &view,
            view.host_to_list(),
            tools::list(&view, request),
        )
        .await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = view.caller(&context);
        let name = request.name.clone();
        let call = tools::call(&view, request, caller);
        let call = progress::run(&context, &view, view.host_to_call(&name), call);
        match call.await {
            // Nobody reads the error, and rmcp would log it.
            Err(_) if context.ct.is_cancelled() => Ok(CallToolResult::default().into()),
            result => Ok(result?.into()),
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        progress::run(
            &context,
            &view,
            view.host_to_list(),
            prompts::list(&view, request),
        )
        .await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let prompt = progress::run(&context, &view, view.host(), prompts::get(&view, request));
        Ok(prompt.await?.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = view.caller(&context);
        progress::run(
            &context,
            &view,
            view.host_to_list(),
            resources::list(&view, request, caller),
        )
        .await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if self.serves_resources() && client::may_read_resources(&context) {
            Ok(resources::templates())
        } else {
            Err(resources::not_served())
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = view.caller(&context);
        let read = progress::run(
            &context,
            &view,
            view.host_to_list(),
            resources::read(&view, request, caller),
        );
        Ok(read.await?.into())
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = view.caller(&context);
        progress::run(
            &context,
            &view,
            view.host_to_list(),
            resources::directory(&view, request, caller),
        )
        .await
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = view.caller(&context);
        progress::run(
            &context,
            &view,
            view.host_to_list(),
            skills::list(&view, request, caller),
        )
        .await
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let view = ClientView::new(&self.live, &context);
        let caller = view.caller(&context);
        progress::run(
            &context,
            &view,
            view.host_to_list(),
            skills::get(&view, request, caller),
        )
        .await
    }

    /// Accepts subscriptions to changes of lists, if folders are watched.
    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.live
            .is_watched()
            .then(|| subscriptions::accepted_filter(requested))
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let client = client::from_context(subscription.request_context());
        let scope = client.and_then(|client| client.scope());
        let scope = scope.map(Arc::as_ref);
        self.live.notify_subscriber(&subscription, scope).await;
        Ok(())
    }

    /// Notifies the client of all changes from now on, until its session ends.
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
        // rmcp could not parse the parameters of this `tools/call`.
        let view = ClientView::new(&self.live, &context);
        let (parameters, caller) = (request.params.as_ref(), view.caller(&context));
        let name = tools::named_tool(parameters);
        let refused = tools::refuse_unparsed_call(&view, name, caller, error);
        let refused = async { Err(refused.await) };
        progress::run(&context, &view, view.host_with(name), refused).await
    }
}

/// Removes the capabilities that the client of a request may not use.
fn remove_unavailable(capabilities: &mut ServerCapabilities, context: &RequestContext<RoleServer>) {
    if !client::may_read_resources(context) {
        capabilities.resources = None;
        capabilities.extensions = None;
    }
}
