//! Definitions of tools for agents.

use serde_json::{Map, Value};
use skillhost_egress::NetworkGrant;

/// The definition of a tool for agents.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Definition {
    /// The name for calls: `[A-Za-z0-9_-]{1,64}`, unique in the host.
    pub name: String,
    /// The name for people. Equals `name` if the component has no title.
    pub title: String,
    /// The text that tells the model what the tool does and when to use it.
    pub description: String,
    /// The JSON Schema of the arguments object.
    pub input_schema: Map<String, Value>,
    /// The JSON Schema of the record, if the component gives one.
    pub output_schema: Option<Map<String, Value>>,
    /// The rule that selects the folder of a call by the call's arguments.
    pub folder: Option<FolderRule>,
    /// The property of the record that has the text.
    pub text_property: Option<String>,
    /// The form of an answer for models.
    pub model_reads: Form,
    /// The effects that a call may have, according to the component's grant.
    pub effects: Effects,
}

/// The effects that a call of a tool may have, apart from reading skills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effects {
    /// No effects.
    #[default]
    None,
    /// A call notes something for the operator. Only a tool that the program answers itself does
    /// this.
    Notes,
    /// A call sends requests over the network, but only with safe methods such as GET.
    SafeRequests,
    /// A call sends requests over the network that may change something.
    Requests,
}

impl Effects {
    /// Returns the effects of a tool whose component has this grant.
    pub fn of_grant(network: &NetworkGrant) -> Self {
        if network.is_empty() {
            Self::None
        } else if network.allows_only_safe_methods() {
            Self::SafeRequests
        } else {
            Self::Requests
        }
    }

    /// Returns whether a call changes nothing, for MCP's `readOnlyHint`.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::None | Self::SafeRequests)
    }

    /// Returns whether a call may destroy something, for MCP's `destructiveHint`.
    pub fn is_destructive(self) -> bool {
        self == Self::Requests
    }

    /// Returns whether a repeated call changes nothing more, for MCP's `idempotentHint`.
    pub fn is_idempotent(self) -> bool {
        self != Self::Requests
    }

    /// Returns whether a call reaches anything but skills, for MCP's `openWorldHint`.
    pub fn reaches_network(self) -> bool {
        matches!(self, Self::SafeRequests | Self::Requests)
    }
}

impl Definition {
    /// Creates the definition of a tool that reads no folder and answers with text.
    pub fn new(
        name: &str,
        title: &str,
        description: &str,
        input_schema: Map<String, Value>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            description: description.to_owned(),
            input_schema,
            output_schema: None,
            folder: None,
            text_property: None,
            model_reads: Form::Text,
            effects: Effects::None,
        }
    }

    /// Returns the schema of an answer's structured content, if models read the record and
    /// not the text.
    pub fn structured_schema(&self) -> Option<&Map<String, Value>> {
        let reads_record = self.text_property.is_none() && self.model_reads == Form::Record;
        self.output_schema.as_ref().filter(|_| reads_record)
    }
}

/// The rule that selects the folder of a call by the call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderRule {
    /// The property that names the skill.
    pub skill_property: String,
    /// True if the schema lists the names of the skills at that property.
    pub enumerate: bool,
    /// The property that holds a path in the folder.
    pub path_property: Option<String>,
    /// True if a call may omit the skill. Then its path selects the folder.
    pub skill_optional: bool,
}

/// The two forms of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The plain text.
    Text,
    /// The whole record, as JSON.
    Record,
}
