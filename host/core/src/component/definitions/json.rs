//! Definitions as JSON, beside compiled code in the cache and beside the
//! components that come with the host. They were checked before they were
//! written, and come from a place that is trusted with code.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tool::{Definition, FolderRule, Form};

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

/// Writes the definitions of a component.
pub(crate) fn write(definitions: &[Definition]) -> anyhow::Result<Vec<u8>> {
    let all: Vec<DefinitionEntry> = definitions.iter().cloned().map(DefinitionEntry).collect();
    Ok(serde_json::to_vec_pretty(&all)?)
}

/// Reads the definitions of a component.
pub(crate) fn read(json: &[u8]) -> anyhow::Result<Vec<Definition>> {
    let all: Vec<DefinitionEntry> = serde_json::from_slice(json).context("stored definitions")?;
    let definitions = all
        .into_iter()
        .map(|DefinitionEntry(definition)| definition);
    Ok(definitions.collect())
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
