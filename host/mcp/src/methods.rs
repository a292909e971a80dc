//! Errors for requests that rmcp cannot parse: their method is unknown, or their parameters
//! are invalid.

use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};

/// The method that calls a tool.
pub(crate) const CALL: &str = "tools/call";

/// The methods for which rmcp parses the parameters. If rmcp cannot parse a request for one of
/// them, the parameters are invalid.
const METHODS_WITH_PARAMETERS: [&str; 16] = [
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

/// The methods that revision 2026-07-28 removed.
const REMOVED_METHODS: [&str; 4] = [
    "initialize",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
];

/// The maximum number of characters of a method's name that an error repeats.
const MAX_NAME_CHARACTERS: usize = 64;

/// Returns the error for a request that rmcp cannot parse. `revision` is the protocol revision that
/// the request names, if it names one.
pub(crate) fn error(method: &str, revision: Option<&ProtocolVersion>) -> ErrorData {
    let name: String = method.chars().take(MAX_NAME_CHARACTERS).collect();
    let is_removed = revision.is_some_and(|revision| *revision >= ProtocolVersion::V_2026_07_28)
        && REMOVED_METHODS.contains(&method);
    if METHODS_WITH_PARAMETERS.contains(&method) && !is_removed {
        ErrorData::invalid_params(format!("invalid parameters for `{name}`"), None)
    } else {
        ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("unknown method: `{name}`"),
            None,
        )
    }
}
