//! Definitions as they are kept, as JSON: beside compiled code in the cache,
//! and beside the components that come with the host. They were checked before
//! they were written, and come from a place that is trusted with code.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tool::{Definition, FolderRule, Form};

/// A definition, as JSON has it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Definition", deny_unknown_fields)]
struct Kept {
    name: String,
    title: String,
    description: String,
    input_schema: Map<String, Value>,
    output_schema: Option<Map<String, Value>>,
    #[serde(with = "optional_rule")]
    folder: Option<FolderRule>,
    text_property: Option<String>,
    #[serde(with = "KeptForm")]
    model_reads: Form,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FolderRule", deny_unknown_fields)]
struct KeptRule {
    skill_property: String,
    enumerate: bool,
    path_property: Option<String>,
    skill_optional: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Form", rename_all = "snake_case")]
enum KeptForm {
    Text,
    Record,
}

#[derive(Serialize, Deserialize)]
struct One(#[serde(with = "Kept")] Definition);

/// Writes the definitions of a component.
pub(crate) fn write(definitions: &[Definition]) -> anyhow::Result<Vec<u8>> {
    let all: Vec<One> = definitions.iter().cloned().map(One).collect();
    Ok(serde_json::to_vec_pretty(&all)?)
}

/// Reads the definitions of a component.
pub(crate) fn read(json: &[u8]) -> anyhow::Result<Vec<Definition>> {
    let all: Vec<One> = serde_json::from_slice(json).context("kept definitions")?;
    Ok(all.into_iter().map(|One(definition)| definition).collect())
}

mod optional_rule {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::KeptRule;
    use crate::tool::FolderRule;

    #[derive(Serialize, Deserialize)]
    struct Rule(#[serde(with = "KeptRule")] FolderRule);

    pub(super) fn serialize<S: Serializer>(
        rule: &Option<FolderRule>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        rule.clone().map(Rule).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<FolderRule>, D::Error> {
        let rule = Option::<Rule>::deserialize(deserializer)?;
        Ok(rule.map(|Rule(rule)| rule))
    }
}
