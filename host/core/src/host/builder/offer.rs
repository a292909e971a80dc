//! The builder's settings for offered tools and their descriptions.

use super::HostBuilder;
use crate::host::definitions::Description;
use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
use skillhost_sandbox::tool::offer::{DescriptionSource, ToolSet, Wording};

impl HostBuilder {
    /// Sets the offered tools. Other tools cannot be called.
    /// [Resources](crate::Host::skill_resources) are not affected. Default: all.
    pub fn offer(mut self, tools: ToolSet) -> Self {
        self.config.offer = tools;
        self
    }

    /// Sets the wording of the built-in tools' descriptions. Default: plain English.
    pub fn wording(mut self, wording: Wording) -> Self {
        self.config.wording = wording;
        self
    }

    /// Replaces the description of a tool.
    pub fn describe(mut self, tool: impl Into<String>, description: impl Into<String>) -> Self {
        let descriptions = &mut self.config.descriptions;
        descriptions.insert(tool.into(), description.into());
        self
    }

    /// Returns whether the settings allow a component's tool to be served, to agents or for
    /// resources.
    pub(super) fn has_tool(&self, tool: &str, is_built_in: bool) -> bool {
        let is_offered =
            is_built_in && tool == SKILL_RESOURCES || self.config.offer.has(tool, is_built_in);
        let mut program_tools = self.program_tools.iter();
        is_offered
            && !self.config.disabled_tools.contains(tool)
            && program_tools.all(|other| other.definition().name != tool)
    }

    /// Returns the description that replaces the tool's own: the operator's, or the contract's.
    pub(super) fn description(&self, tool: &str, is_built_in: bool) -> Option<Description> {
        let from_operator = self.config.descriptions.get(tool).map(|text| Description {
            text: text.clone(),
            source: DescriptionSource::Operator,
        });
        let from_contract = || {
            let wording = self.config.wording;
            let text = wording.description(tool).filter(|_| is_built_in)?;
            Some(Description {
                text: text.to_owned(),
                source: DescriptionSource::Contract,
            })
        };
        from_operator.or_else(from_contract)
    }
}
