//! Errors for requests that rmcp could not read: those of an unknown method, and
//! those of a known method with wrong parameters.

use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};

/// The method that calls a tool.
pub(crate) const CALL: &str = "tools/call";

/// The methods whose parameters rmcp reads. If it hands on a request of one of
/// these unread, the parameters are wrong.
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
    CALL,
    "tools/list",
];

/// The methods that the revision 2026-07-28 removed.
const REMOVED_METHODS: [&str; 4] = [
    "initialize",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
];

/// The most characters of a method's name that an error repeats.
const MOST_CHARACTERS: usize = 64;

/// Returns the error for a request that rmcp could not read. `revision` is the
/// one that the request names, if any.
pub(crate) fn error(method: &str, revision: Option<&ProtocolVersion>) -> ErrorData {
    let name: String = method.chars().take(MOST_CHARACTERS).collect();
    let removed = revision.is_some_and(|revision| *revision >= ProtocolVersion::V_2026_07_28)
        && REMOVED_METHODS.contains(&method);
    if WITH_PARAMETERS.contains(&method) && !removed {
        ErrorData::invalid_params(format!("the parameters of '{name}' are wrong"), None)
    } else {
        ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("unknown method: '{name}'"),
            None,
        )
    }
}
