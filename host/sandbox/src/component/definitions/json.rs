//! Definitions as JSON, in the cache and in files beside components. The host trusts them as
//! much as the code beside them, because the same users can write both.

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tool::{Definition, Effects, FolderRule, Form};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Definition", deny_unknown_fields)]
struct DefinitionJson {
    name: String,
    title: String,
    description: String,
    input_schema: Map<String, Value>,
    output_schema: Option<Map<String, Value>>,
    #[serde(with = "optional_rule")]
    folder: Option<FolderRule>,
    text_property: Option<String>,
    #[serde(with = "FormJson")]
    model_reads: Form,
    // The host sets the effects according to the grant.
    #[serde(skip)]
    effects: Effects,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FolderRule", deny_unknown_fields)]
struct FolderRuleJson {
    skill_property: String,
    enumerate: bool,
    path_property: Option<String>,
    skill_optional: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Form", rename_all = "snake_case")]
enum FormJson {
    Text,
    Record,
}

#[derive(Serialize, Deserialize)]
struct DefinitionEntry(#[serde(with = "DefinitionJson")] Definition);

/// Returns the definitions of a component as JSON.
pub(crate) fn write(definitions: &[Definition]) -> anyhow::Result<Vec<u8>> {
    let all: Vec<DefinitionEntry> = definitions.iter().cloned().map(DefinitionEntry).collect();
    Ok(serde_json::to_vec_pretty(&all)?)
}

/// Reads the definitions of a component from JSON.
pub(crate) fn read(json: &[u8]) -> anyhow::Result<Vec<Definition>> {
    let all: Vec<DefinitionEntry> =
        serde_json::from_slice(json).context("invalid stored definitions")?;
    let definitions = all
        .into_iter()
        .map(|DefinitionEntry(definition)| definition);
    Ok(definitions.collect())
}

/// The definitions of a component in a file beside it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsFile {
    /// SHA-256 of the component, in hex.
    component: String,
    tools: Vec<DefinitionEntry>,
}

/// Returns the content of a file of definitions for the component with this digest.
pub(crate) fn write_tools_file(
    digest: &str,
    definitions: &[Definition],
) -> serde_json::Result<String> {
    let tools = definitions.iter().cloned().map(DefinitionEntry).collect();
    let component = digest.to_owned();
    serde_json::to_string_pretty(&ToolsFile { component, tools }).map(|text| text + "\n")
}

/// Reads a file of definitions. Fails if it is for a component with another digest.
pub(crate) fn read_tools_file(json: &[u8], digest: &str) -> anyhow::Result<Vec<Definition>> {
    let file: ToolsFile = serde_json::from_slice(json)?;
    ensure!(
        file.component == digest,
        "it describes another build of the component"
    );
    Ok(file
        .tools
        .into_iter()
        .map(|DefinitionEntry(tool)| tool)
        .collect())
}

mod optional_rule {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::FolderRuleJson;
    use crate::tool::FolderRule;

    #[derive(Serialize, Deserialize)]
    struct RuleEntry(#[serde(with = "FolderRuleJson")] FolderRule);

    pub(super) fn serialize<S: Serializer>(
        rule: &Option<FolderRule>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        rule.clone().map(RuleEntry).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<FolderRule>, D::Error> {
        let rule = Option::<RuleEntry>::deserialize(deserializer)?;
        Ok(rule.map(|RuleEntry(rule)| rule))
    }
}
