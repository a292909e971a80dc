//! Scopes: the tools and skills that a caller may use.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Skills;
use super::pattern::{Pattern, PatternError};

/// The tools and skills that a caller may use. A host from `Host::in_scope` behaves as if no others
/// existed. A scope never extends a grant.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Lists of patterns. A name is allowed if each list has a matching pattern.
    tools: Vec<Arc<[Pattern]>>,
    skills: Vec<Skills>,
    /// Names that are not allowed, whatever the patterns say.
    excluded_tools: BTreeSet<String>,
    excluded_skills: BTreeSet<String>,
}

impl Scope {
    /// Returns the scope that allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the tools, by name: `*` matches any characters, and `?` any single character.
    /// Include `SKILL_RESOURCES` to allow skills' files as resources.
    pub fn tools<S: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<Self, PatternError> {
        let patterns = patterns.into_iter();
        let patterns = patterns.map(|text| Pattern::for_tools(text.as_ref()));
        self.tools = vec![patterns.collect::<Result<_, _>>()?];
        Ok(self)
    }

    /// Sets the skills, by patterns as in
    /// [`Grant::skills`](crate::tool::grant::Grant::skills). Unless all skills are allowed,
    /// the home folder is not allowed either, because it may contain other skills.
    pub fn skills<S: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<Self, PatternError> {
        self.skills = vec![Skills::new(patterns)?];
        Ok(self)
    }

    /// Excludes tools and skills by name.
    pub fn without(mut self, tools: BTreeSet<String>, skills: BTreeSet<String>) -> Self {
        self.excluded_tools.extend(tools);
        self.excluded_skills.extend(skills);
        self
    }

    /// Returns the intersection of two scopes.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            tools: [&*self.tools, &*other.tools].concat(),
            skills: [&*self.skills, &*other.skills].concat(),
            excluded_tools: &self.excluded_tools | &other.excluded_tools,
            excluded_skills: &self.excluded_skills | &other.excluded_skills,
        }
    }

    /// Returns whether the scope allows everything.
    pub fn is_everything(&self) -> bool {
        self.tools.is_empty()
            && self.skills.is_empty()
            && self.excluded_tools.is_empty()
            && self.excluded_skills.is_empty()
    }

    /// Returns whether the scope allows a tool.
    pub fn allows_tool(&self, name: &str) -> bool {
        let mut lists = self.tools.iter();
        !self.excluded_tools.contains(name)
            && lists.all(|tools| tools.iter().any(|pattern| pattern.matches(name)))
    }

    /// Returns whether the scope allows a skill.
    pub fn allows_skill(&self, name: &str) -> bool {
        !self.excluded_skills.contains(name) && self.skills.iter().all(|skills| skills.allow(name))
    }

    /// Returns whether the patterns allow all skills. Ignores skills that are excluded by name.
    pub fn has_all_skills(&self) -> bool {
        self.skills.iter().all(Skills::allow_all)
    }

    /// Returns whether the scope allows a skill of any name.
    pub(crate) fn allows_every_skill(&self) -> bool {
        self.has_all_skills() && self.excluded_skills.is_empty()
    }

    /// Returns the patterns that match no tool or skill in these lists, each with its kind:
    /// `tools` or `skills`.
    pub fn unmatched(&self, tools: &[&str], skills: &[String]) -> Vec<(&'static str, String)> {
        let tool_patterns = self.tools.iter().flat_map(|tools| tools.iter());
        let unmatched = tool_patterns.filter(|it| !tools.iter().any(|tool| it.matches(tool)));
        let mut unmatched: Vec<_> = unmatched.map(|it| ("tools", it.to_string())).collect();
        let skill_patterns = self.skills.iter().flat_map(|skills| skills.0.iter());
        let others = skill_patterns.filter(|it| !skills.iter().any(|skill| it.matches(skill)));
        unmatched.extend(others.map(|it| ("skills", it.to_string())));
        unmatched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_without_patterns_allows_everything() {
        let all = Scope::new();
        assert!(all.allows_tool("a") && all.allows_skill("b") && all.has_all_skills());
        let some = Scope::new().tools(["read_*", "x"]).unwrap();
        let some = some.skills(["public-*"]).unwrap();
        for (tool, allowed) in [("read_skill", true), ("x", true), ("xy", false)] {
            assert_eq!(some.allows_tool(tool), allowed, "{tool}");
        }
        assert!(some.allows_skill("public-a") && !some.allows_skill("private"));
        assert!(!some.has_all_skills());
        let none = Scope::new()
            .tools([""; 0])
            .unwrap()
            .skills([""; 0])
            .unwrap();
        assert!(!none.allows_tool("x") && !none.allows_skill("a"));
        assert!(Scope::new().skills(["a", "*"]).unwrap().has_all_skills());
    }

    #[test]
    fn is_everything_only_without_patterns() {
        assert!(Scope::new().is_everything());
        assert!(!Scope::new().tools(["a"]).unwrap().is_everything());
        assert!(!Scope::new().skills(["a"]).unwrap().is_everything());
    }

    #[test]
    fn intersection_keeps_excluded_names() {
        let names = |name: &str| BTreeSet::from([name.to_owned()]);
        let one = Scope::new().without(names("a"), names("b"));
        assert!(!one.is_everything());
        let both = one.and(&Scope::new().without(names("c"), names("d")));
        for scope in [both, Scope::new().and(&one)] {
            assert!(!scope.allows_tool("a") && scope.allows_tool("b"));
            assert!(!scope.allows_skill("b") && scope.allows_skill("a"));
            assert!(scope.has_all_skills());
        }
    }

    #[test]
    fn refuses_patterns_that_no_name_can_match() {
        for tool in ["", "a b", "ä", "a.b", "a/b", "read_skill\n"] {
            assert!(Scope::new().tools([tool]).is_err(), "{tool:?}");
        }
        for skill in ["", "../a", "a/b", ".hidden"] {
            assert!(Scope::new().skills([skill]).is_err(), "{skill:?}");
        }
    }

    #[test]
    fn names_unmatched_patterns() {
        let scope = Scope::new().tools(["read_*", "reed_*"]).unwrap();
        let scope = scope.skills(["a*", "b"]).unwrap();
        let unmatched = scope.unmatched(&["read_skill"], &["abc".to_owned()]);
        let expected = [("tools", "reed_*".to_owned()), ("skills", "b".to_owned())];
        assert_eq!(unmatched, expected);
    }
}
