//! Definitions as an MCP server lists them.

use serde_json::{Map, Value, json};

use super::schema::root_object;
use crate::tool::Definition;

/// The definitions, as `tools/list` gives them.
pub fn mcp_tools(definitions: &[Definition]) -> Value {
    definitions.iter().map(tool).collect()
}

fn tool(definition: &Definition) -> Value {
    let mut tool = Map::new();
    tool.insert("name".to_owned(), definition.name.as_str().into());
    tool.insert("title".to_owned(), definition.title.as_str().into());
    let description = definition.description.as_str();
    tool.insert("description".to_owned(), description.into());
    let schema = root_object(&definition.input_schema);
    tool.insert("inputSchema".to_owned(), schema.into());
    if let Some(schema) = &definition.output_schema {
        tool.insert("outputSchema".to_owned(), schema.clone().into());
    }
    // True of every tool that a sandbox runs: nothing can be written, a second
    // call does no more than the first, and no network is there.
    let annotations = json!({
        "readOnlyHint": true,
        "destructiveHint": false,
        "idempotentHint": true,
        "openWorldHint": false,
    });
    tool.insert("annotations".to_owned(), annotations);
    tool.into()
}
