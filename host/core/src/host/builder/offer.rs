//! The builder's settings of what agents see of the tools.

use super::HostBuilder;
use crate::host::definitions::Description;
use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
use skillhost_sandbox::tool::offer::{DescriptionSource, ToolSet, Wording};

impl HostBuilder {
    /// Sets the tools that are offered together. The others cannot be called.
    /// [Resources](crate::Host::skill_resources) are none of them. Default: all.
    pub fn offer(mut self, tools: ToolSet) -> Self {
        self.offer = tools;
        self
    }

    /// Sets the words that describe the built-in tools. Default: plain English.
    pub fn wording(mut self, wording: Wording) -> Self {
        self.wording = wording;
        self
    }

    /// Replaces the description of a tool.
    pub fn describe(mut self, tool: impl Into<String>, description: impl Into<String>) -> Self {
        self.descriptions.insert(tool.into(), description.into());
        self
    }

    /// Checks that a tool is served: by its name for agents, or for resources.
    pub(super) fn has_tool(&self, tool: &str, is_built_in: bool) -> bool {
        let is_offered =
            is_built_in && tool == SKILL_RESOURCES || self.offer.has(tool, is_built_in);
        is_offered && !self.disabled.contains(tool)
    }

    /// Returns the description of a tool that stands in the place of its own.
    pub(super) fn description(&self, tool: &str, is_built_in: bool) -> Option<Description> {
        let of_operator = self.descriptions.get(tool).map(|text| Description {
            text: text.clone(),
            source: DescriptionSource::Operator,
        });
        let of_contract = || {
            let text = self.wording.description(tool).filter(|_| is_built_in)?;
            Some(Description {
                text: text.to_owned(),
                source: DescriptionSource::Contract,
            })
        };
        of_operator.or_else(of_contract)
    }
}
