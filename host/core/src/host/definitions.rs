//! The tools and skills as an agent sees them at this moment: definitions, and the
//! section of a prompt. Both are bounded for any catalog.

use std::cell::LazyCell;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Host, ServedTool};
use skillhost_sandbox::component::embedded::FIND_SKILLS;
use skillhost_sandbox::tool::Definition;
use skillhost_sandbox::tool::offer::DescriptionSource;
use skillhost_skills::catalog::Freshness;
use skillhost_skills::prompt;
use skillhost_skills::search::SearchOffer;

/// The most skills that a schema lists, and the most bytes that their names take in
/// it. Guards against: a list of tools that fills a model's context.
const MAX_ENUM_NAMES: usize = 200;
const MAX_ENUM_BYTES: usize = 6 * 1024;

/// A description in the place of a component's own.
pub(super) struct Description {
    pub(super) text: String,
    pub(super) source: DescriptionSource,
}

impl Host {
    /// Returns the tools as an agent sees them at this moment, in the order in
    /// which they were loaded. A tool whose schema lists the skills is left out
    /// while there are no skills, and `find_skills` as its
    /// [offer](crate::HostBuilder::search_offer) says. A schema lists no more than
    /// 200 skills.
    pub fn definitions(&self) -> Vec<Definition> {
        let names = LazyCell::new(|| self.names(Freshness::Now));
        self.served_tools()
            .filter_map(|served| {
                let ServedTool { tool, terms, .. } = served;
                let mut definition = tool.definition.clone();
                if let Some(description) = &served.description {
                    definition.description.clone_from(&description.text);
                }
                if served.is_search() && !self.offers_search(&names) {
                    return None;
                }
                if let Some(rule) = definition.folder.as_ref().filter(|rule| rule.enumerate) {
                    // One more than a schema lists tells that there are too many.
                    let allowed = names.iter().filter(|name| terms.skills.allow(name));
                    let names: Vec<String> = allowed.take(MAX_ENUM_NAMES + 1).cloned().collect();
                    if names.is_empty() {
                        return None;
                    }
                    if is_enumerable(&names) {
                        add_enum(&mut definition.input_schema, &rule.skill_property, &names);
                    }
                }
                Some(definition)
            })
            .collect()
    }

    /// Returns whether an agent sees `find_skills`, of the skills of these names.
    fn offers_search(&self, names: &[String]) -> bool {
        match self.0.search_offer {
            SearchOffer::Always => true,
            SearchOffer::Never => false,
            SearchOffer::Auto => !prompt::fits(&self.0.catalog, names, self.0.prompt_budget),
        }
    }

    /// Returns the section of a system prompt that lists the skills, within the
    /// [budget](crate::HostBuilder::prompt_budget). Reads no more skills than fit.
    pub fn prompt(&self, style: prompt::Style) -> prompt::Section {
        let onward = prompt::Onward::of(|tool| self.tool(tool).is_ok());
        let names = self.names(Freshness::Now).to_vec();
        prompt::section_of(&self.0.catalog, names, style, self.0.prompt_budget, onward)
    }

    /// Returns the names of the skills that a caller may know of.
    fn names(&self, freshness: Freshness) -> Arc<Vec<String>> {
        let names = self.0.catalog.shared_names(freshness);
        match &self.1 {
            None => names,
            Some(scope) => {
                let seen = names.iter().filter(|name| scope.allows_skill(name));
                Arc::new(seen.cloned().collect())
            }
        }
    }

    /// Makes the index read the skills that have changed, in the background: all, at
    /// first. A server does so when it has started, and whenever skills change.
    pub fn update_index(&self) {
        if let Some(index) = &self.0.index {
            index.update(&self.0.catalog);
        }
    }
}

impl ServedTool {
    /// Checks that it is the built-in tool that asks the index.
    pub(super) fn is_search(&self) -> bool {
        self.quota.is_built_in && self.tool.definition.name == FIND_SKILLS
    }
}

/// Returns whether a schema lists these names.
fn is_enumerable(names: &[String]) -> bool {
    // With a comma, but for the first.
    let bytes = |name: &String| Value::from(name.as_str()).to_string().len() + 1;
    names.len() <= MAX_ENUM_NAMES && names.iter().map(bytes).sum::<usize>() <= MAX_ENUM_BYTES
}

fn add_enum(schema: &mut Map<String, Value>, property: &str, names: &[String]) {
    if let Some(Value::Object(property)) = schema
        .get_mut("properties")
        .and_then(|properties| properties.get_mut(property))
    {
        property.insert("enum".to_owned(), names.into());
    }
}
