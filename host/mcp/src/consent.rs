//! Questions to the person behind a client, by `elicitation/create`.

use std::pin::Pin;

use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, EnumSchema, ProtocolVersion, RequestId, ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleServer};
use skillhost::{Answer, Asker, Choice, Question};
use tokio_util::sync::CancellationToken;

/// The property of the form, and its values. Not all clients show titles of values, so the values
/// say what they mean.
const PROPERTY: &str = "decision";
const SESSION: &str = "allow for this session";
const ALWAYS: &str = "always allow";
const DENY: &str = "deny";

/// An [`Asker`] that asks the person behind a client.
pub(crate) struct ClientAsker {
    peer: Peer<RoleServer>,
    /// Cancelled when the client can no longer answer.
    input_closed: CancellationToken,
}

impl ClientAsker {
    pub(crate) fn new(peer: Peer<RoleServer>, input_closed: CancellationToken) -> Self {
        Self { peer, input_closed }
    }

    /// Returns the reason why the client cannot be asked, if there is one.
    fn obstacle(&self) -> Option<&'static str> {
        let client = self.peer.peer_info();
        let is_old = |version: &ProtocolVersion| *version < ProtocolVersion::V_2026_07_28;
        let Some(client) = client.filter(|client| is_old(&client.protocol_version)) else {
            return Some("the client's protocol revision does not let a server ask questions");
        };
        // A client that names no mode supports forms.
        let elicitation = client.capabilities.elicitation.as_ref();
        let has_form = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        (!has_form).then_some("the client does not offer elicitation by forms")
    }
}

impl Asker for ClientAsker {
    fn ask<'a>(
        &'a self,
        question: &'a Question,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move {
            if let Some(obstacle) = self.obstacle() {
                return Err(obstacle.to_owned());
            }
            let request = ServerRequest::ElicitRequest(ElicitRequest::new(form(question)?));
            let sent = self
                .peer
                .send_request_with_option(request, PeerRequestOptions::no_options());
            let sent = sent.await;
            let mut sent = sent.map_err(|error| format!("the client cannot be asked: {error}"))?;
            let mut open_question = OpenQuestion {
                peer: &self.peer,
                id: Some(sent.id.clone()),
            };
            let answer = tokio::select! {
                answer = &mut sent.rx => answer,
                () = self.input_closed.cancelled() => {
                    return Err("the client has closed its input".to_owned());
                }
            };
            open_question.id = None;
            Ok(match answer {
                Ok(Ok(ClientResult::ElicitResult(result))) => choice(&result, question),
                // An error, or a response that does not answer the form.
                _ => Choice::Deny,
            })
        })
    }
}

/// Returns the form of a question.
fn form(question: &Question) -> Result<ElicitRequestParams, String> {
    let mut values = vec![SESSION, ALWAYS, DENY];
    values.retain(|value| *value != ALWAYS || question.can_remember);
    let values = values.into_iter().map(str::to_owned).collect();
    let values = EnumSchema::builder(values).untitled().build();
    let schema = ElicitationSchema::builder().required_enum_schema(PROPERTY, values);
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: question.to_string(),
        requested_schema: schema.build().map_err(str::to_owned)?,
    })
}

/// Returns the choice in an answer. Everything but a clear yes is a no.
fn choice(result: &ElicitResult, question: &Question) -> Choice {
    let value = result
        .content
        .as_ref()
        .and_then(|content| content.get(PROPERTY));
    match value.and_then(|value| value.as_str()) {
        _ if result.action != ElicitationAction::Accept => Choice::Deny,
        Some(SESSION) => Choice::Session,
        Some(ALWAYS) if question.can_remember => Choice::Always,
        _ => Choice::Deny,
    }
}

/// A question without an answer yet. On drop, tells the client to withdraw the question.
struct OpenQuestion<'a> {
    peer: &'a Peer<RoleServer>,
    id: Option<RequestId>,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            let reason = "the request no longer waits for an answer".to_owned();
            let cancelled = CancelledNotificationParam::new(Some(id), Some(reason));
            // If it cannot be sent, the client is gone.
            let _ = peer.notify_cancelled(cancelled).await;
        });
    }
}
