//! A tool as an agent sees it.

use serde_json::{Map, Value};

/// A tool as an agent sees it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Definition {
    /// The name by which agents call it: `[A-Za-z0-9_-]{1,64}`, unique in the host.
    pub name: String,
    /// The name for people; the same as `name` if the component gives none.
    pub title: String,
    /// Says to the model what the tool does and when to use it.
    pub description: String,
    /// The JSON Schema of the arguments object.
    pub input_schema: Map<String, Value>,
    /// The JSON Schema of the program's form of an answer, if described.
    pub output_schema: Option<Map<String, Value>>,
    /// The rule by which the arguments choose the folder that a call may read.
    pub folder: Option<FolderRule>,
    /// The property of the program's form that holds the text.
    pub text_property: Option<String>,
    /// The form of an answer that the model reads.
    pub model_reads: Form,
}

impl Definition {
    /// Returns the schema of the record that an answer carries as structured
    /// content, if the model reads a record and not a text.
    pub fn structured_schema(&self) -> Option<&Map<String, Value>> {
        let reads_record = self.text_property.is_none() && self.model_reads == Form::Record;
        self.output_schema.as_ref().filter(|_| reads_record)
    }
}

/// The rule by which the arguments of a call choose the folder that it may read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderRule {
    /// The property that names the skill.
    pub skill_property: String,
    /// True if the schema lists the skills' names at that property.
    pub enumerate: bool,
    /// The property that holds a path in the folder.
    pub path_property: Option<String>,
    /// True if a call may leave the skill out. Its path then names the folder.
    pub skill_optional: bool,
}

/// The two forms of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The text as it is.
    Text,
    /// The whole record, as JSON.
    Record,
}
