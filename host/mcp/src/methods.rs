//! Requests that rmcp could not read as one of the protocol's: of another
//! method, or of a known one with the wrong parameters.

use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};

/// Methods with parameters that rmcp reads. A request of one of these that it
/// hands on unread has parameters that do not fit.
const WITH_PARAMETERS: [&str; 16] = [
    "initialize",
    "completion/complete",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/directory/read",
    "skills/list",
    "skills/get",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];

/// Those of them that the revision 2026-07-28 has no more.
const OF_OLDER_REVISIONS: [&str; 4] = [
    "initialize",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
];

/// Longest part of a method's name that an answer repeats.
const LONGEST: usize = 64;

/// The error that answers such a request, which may say its protocol revision.
pub(crate) fn not_served(method: &str, revision: Option<&ProtocolVersion>) -> ErrorData {
    let name: String = method.chars().take(LONGEST).collect();
    let removed = revision.is_some_and(|revision| *revision >= ProtocolVersion::V_2026_07_28)
        && OF_OLDER_REVISIONS.contains(&method);
    if WITH_PARAMETERS.contains(&method) && !removed {
        ErrorData::invalid_params(format!("the parameters of '{name}' do not fit it"), None)
    } else {
        ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("there is no method '{name}'"),
            None,
        )
    }
}
