//! Definitions as the MCP server lists them, for programs that want to look at
//! them without a session.

use serde_json::Value;

use crate::server;
use crate::tool::Definition;

/// The definitions, as `tools/list` gives them.
pub fn mcp_tools(definitions: &[Definition]) -> Value {
    let tools = definitions.iter().cloned().map(server::tool);
    // What the protocol's types hold is JSON.
    tools
        .map(|tool| serde_json::to_value(tool).unwrap_or_default())
        .collect()
}
