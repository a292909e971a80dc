//! Scopes: to a caller with a scope, tools and skills outside of it do not exist. All modules of
//! the host use this module to check scopes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Host, ResourceReader, ServedTool};
use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
use skillhost_sandbox::tool::grant::{Scope, Terms};
use skillhost_skills::catalog::{Freshness, Skill};

impl Host {
    /// Returns a view of this host that is restricted to a scope. Tools and skills outside of the
    /// scope do not exist for its calls, definitions, prompt and resources.
    ///
    /// The view and this host share all limits. If this host already has a scope, the view has only
    /// what both scopes allow.
    #[must_use]
    pub fn in_scope(&self, scope: &Arc<Scope>) -> Self {
        let scope = match &self.1 {
            None => Arc::clone(scope),
            Some(own) => Arc::new(own.and(scope)),
        };
        Self(Arc::clone(&self.0), Some(scope))
    }

    /// Returns a view of this host without these skills, and without the tools of these
    /// components. `components` has the components' names as grants use them.
    #[must_use]
    pub fn without(&self, components: &BTreeSet<String>, skills: &BTreeSet<String>) -> Self {
        if components.is_empty() && skills.is_empty() {
            return self.clone();
        }
        let tools = self.0.tools.iter().map(|served| &served.tool);
        let tools = tools.filter(|tool| components.contains(tool.component.grant_name()));
        let tools = tools.map(|tool| tool.definition.name.clone()).collect();
        self.in_scope(&Arc::new(Scope::new().without(tools, skills.clone())))
    }

    /// Returns the skills in the caller's scope, sorted by name.
    ///
    /// Reads each skill lazily, and none outside of the scope. Includes
    /// [unlisted](crate::Unlisted) skills, which a list for models must leave out.
    pub fn skills(&self) -> impl Iterator<Item = Skill> {
        let names = self.names(Freshness::Now);
        (0..names.len()).filter_map(move |index| self.0.catalog.read(&names[index]))
    }

    /// Returns the names of the skills in the caller's scope, sorted.
    pub(super) fn names(&self, freshness: Freshness) -> Arc<Vec<String>> {
        let names = self.0.catalog.shared_names(freshness);
        match &self.1 {
            None => names,
            Some(scope) => {
                let visible = names.iter().filter(|name| scope.allows_skill(name));
                Arc::new(visible.cloned().collect())
            }
        }
    }

    /// Returns the patterns of a scope that match nothing, for the operator. Each comes
    /// with its kind, `tools` or `skills`.
    pub fn unmatched(&self, scope: &Scope) -> Vec<(&'static str, String)> {
        let tools = self.0.tools.iter();
        let tools = tools.map(|served| served.tool.definition.name.as_str());
        let resources = self.0.resources.iter().map(|_| SKILL_RESOURCES);
        let program_tools = self.0.program_tools.iter();
        let program_tools = program_tools.map(|tool| tool.definition().name.as_str());
        let tools: Vec<&str> = tools.chain(resources).chain(program_tools).collect();
        scope.unmatched(&tools, &self.0.catalog.names())
    }

    /// Returns the tools in the scope.
    pub(super) fn served_tools(&self) -> impl Iterator<Item = &ServedTool> {
        let tools = self.0.tools.iter();
        tools.filter(|served| match &self.1 {
            None => true,
            Some(scope) => scope.allows_tool(&served.tool.definition.name),
        })
    }

    /// Returns the reader of resources, if it is in the scope.
    pub(super) fn resource_reader(&self) -> Option<&ResourceReader> {
        let scope = self.1.as_ref();
        let is_in_scope = scope.is_none_or(|scope| scope.allows_tool(SKILL_RESOURCES));
        self.0.resources.as_ref().filter(|_| is_in_scope)
    }

    /// Returns whether a skill is in the scope. Skills outside of it appear not to exist.
    pub(super) fn sees_skill(&self, skill: &str) -> bool {
        let scope = self.1.as_ref();
        scope.is_none_or(|scope| scope.allows_skill(skill))
    }

    /// Returns whether the home folder is in the scope. A scope without all skills excludes the
    /// home folder, because this folder can contain any skill.
    pub(super) fn sees_home(&self) -> bool {
        self.1.as_ref().is_none_or(|scope| scope.has_all_skills())
    }

    /// Returns whether a tool with this grant may read a skill for this caller.
    pub(super) fn may_read(&self, terms: &Terms, skill: &str) -> bool {
        self.sees_skill(skill) && terms.skills.allow(skill)
    }
}
