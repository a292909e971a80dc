//! Definitions as an MCP server lists them, for programs that read definitions without a session.

use serde_json::{Map, Value, json};

use skillhost_sandbox::tool::Definition;

/// The `_meta` of each tool: the maximum number of characters of a result that Claude Code shows to
/// a model. 500,000 is the highest value that Claude Code accepts. Without this key, Claude Code
/// writes a result of more than 25,000 tokens to a file, and the model gets the file's name.
pub const LARGEST_RESULT: [(&str, u32); 1] = [("anthropic/maxResultSizeChars", 500_000)];

/// Returns the definitions in the form of `tools/list`.
pub fn mcp_tools(definitions: &[Definition]) -> Value {
    definitions.iter().map(tool).collect()
}

fn tool(definition: &Definition) -> Value {
    let mut tool = json!({
        "name": definition.name,
        "title": definition.title,
        "description": definition.description,
        "inputSchema": with_object_type(&definition.input_schema),
    });
    if let Some(schema) = definition.structured_schema() {
        tool["outputSchema"] = with_object_type(schema).into();
    }
    let effects = definition.effects;
    tool["annotations"] = json!({
        "readOnlyHint": effects.is_read_only(),
        "destructiveHint": effects.is_destructive(),
        "idempotentHint": effects.is_idempotent(),
        "openWorldHint": effects.reaches_network(),
    });
    tool["_meta"] = LARGEST_RESULT.into_iter().collect();
    tool
}

/// Returns a schema with the type `object`. Arguments and records are always objects, and a
/// client refuses the whole list without the type.
fn with_object_type(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut schema = schema.clone();
    schema.insert("type".to_owned(), "object".into());
    schema
}
