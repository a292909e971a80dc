//! A host as a caller with a scope sees it: without the tools and skills that the scope
//! does not name, as if they did not exist. Every other module of the host asks here.

use std::sync::Arc;

use super::{Host, ResourceReader, ServedTool};
use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
use skillhost_sandbox::tool::grant::{Scope, Terms};
use skillhost_skills::catalog::Skill;

impl Host {
    /// Returns the host as a caller with this scope sees it. Its calls, definitions,
    /// prompt and resources know no other tools and skills; those of this one stay as
    /// they are. Both share all limits. If this one has a scope already, the other has only
    /// what both scopes have.
    #[must_use]
    pub fn in_scope(&self, scope: &Arc<Scope>) -> Self {
        let scope = match &self.1 {
            None => Arc::clone(scope),
            Some(own) => Arc::new(own.and(scope)),
        };
        Self(Arc::clone(&self.0), Some(scope))
    }

    /// Returns the skills that a caller may know of, as they are now.
    pub fn skills(&self) -> impl Iterator<Item = Skill> {
        let skills = self.0.catalog.skills();
        skills.filter(|skill| self.sees_skill(&skill.name))
    }

    /// Returns the patterns of a scope that fit no tool and no skill, for the operator:
    /// each with the kind that it is for, `tools` or `skills`.
    pub fn unmatched(&self, scope: &Scope) -> Vec<(&'static str, String)> {
        let tools = self.0.tools.iter();
        let tools = tools.map(|served| served.tool.definition.name.as_str());
        let resources = self.0.resources.iter().map(|_| SKILL_RESOURCES);
        let tools: Vec<&str> = tools.chain(resources).collect();
        scope.unmatched(&tools, &self.0.catalog.names())
    }

    /// Returns the tools that the scope has.
    pub(super) fn served_tools(&self) -> impl Iterator<Item = &ServedTool> {
        let tools = self.0.tools.iter();
        tools.filter(|served| match &self.1 {
            None => true,
            Some(scope) => scope.allows_tool(&served.tool.definition.name),
        })
    }

    /// Returns the reader of resources, if the scope has it.
    pub(super) fn resource_reader(&self) -> Option<&ResourceReader> {
        let scope = self.1.as_ref();
        let is_seen = scope.is_none_or(|scope| scope.allows_tool(SKILL_RESOURCES));
        self.0.resources.as_ref().filter(|_| is_seen)
    }

    /// Checks that the scope has a skill. Every other skill looks as if there were none
    /// of its name.
    pub(super) fn sees_skill(&self, skill: &str) -> bool {
        let scope = self.1.as_ref();
        scope.is_none_or(|scope| scope.allows_skill(skill))
    }

    /// Checks that the scope has the home folder, which may hold any skill.
    pub(super) fn sees_home(&self) -> bool {
        self.1.as_ref().is_none_or(|scope| scope.has_all_skills())
    }

    /// Checks that a tool with these terms may read a skill for this caller.
    pub(super) fn may_read(&self, terms: &Terms, skill: &str) -> bool {
        self.sees_skill(skill) && terms.skills.allow(skill)
    }
}
