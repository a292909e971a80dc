//! The definitions of tools, and the prompt section about skills, as agents currently see them.
//! Both have a bounded size, however large the catalog is.

use std::cell::LazyCell;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Host, ServedTool};
use skillhost_sandbox::component::embedded::FIND_SKILLS;
use skillhost_sandbox::tool::offer::DescriptionSource;
use skillhost_sandbox::tool::{Definition, Effects};
use skillhost_skills::catalog::{Freshness, ReadBudget};
use skillhost_skills::prompt;
use skillhost_skills::search::SearchOffer;

/// The maximum number of skills that a schema lists. Guards against: definitions that fill a
/// model's context.
const MAX_ENUM_NAMES: usize = 200;
/// The maximum number of bytes of all names of skills in a schema.
const MAX_ENUM_BYTES: usize = 6 * 1024;

/// A description that replaces the component's own.
pub(super) struct Description {
    pub(super) text: String,
    pub(super) source: DescriptionSource,
}

impl Host {
    /// Returns the definitions of the tools for agents, in the order of loading.
    ///
    /// Omits a tool that lists skills in its schema if it may use no skill, and `find_skills` if it
    /// is not [offered](crate::HostBuilder::search_offer). A schema lists no
    /// [unlisted](crate::Unlisted) skills, which calls still accept. If there are many skills, such
    /// as more than 200, it lists none.
    pub fn definitions(&self) -> Vec<Definition> {
        let names = LazyCell::new(|| self.names(Freshness::Now));
        let mut listed = ListedFilter::new(self);
        let program_tools = self.program_tools().map(|tool| {
            let mut definition = tool.definition().clone();
            definition.effects = Effects::Notes;
            definition
        });
        let served = self.served_tools().filter_map(|served| {
            let ServedTool { tool, terms, .. } = served;
            let mut definition = tool.definition.clone();
            definition.effects = Effects::of_grant(&terms.network);
            if let Some(description) = &served.description {
                definition.description.clone_from(&description.text);
            }
            if served.is_search() && !self.offers_search(&names) {
                return None;
            }
            if let Some(rule) = definition.folder.as_ref().filter(|rule| rule.enumerate) {
                // One more than the maximum shows that there are too many.
                let allowed = names.iter().filter(|name| terms.skills.allow(name));
                let names: Vec<String> = allowed.take(MAX_ENUM_NAMES + 1).cloned().collect();
                if names.is_empty() {
                    return None;
                }
                // Count the names first, so that the skills of a large catalog are not read.
                if is_enumerable(&names)
                    && let Some(names) = listed.keep_listed(names)
                {
                    add_enum(&mut definition.input_schema, &rule.skill_property, names);
                }
            }
            Some(definition)
        });
        served.chain(program_tools).collect()
    }

    /// Returns whether agents see `find_skills`, given the names of the skills.
    fn offers_search(&self, names: &[String]) -> bool {
        match self.0.search_offer {
            SearchOffer::Always => true,
            SearchOffer::Never => false,
            SearchOffer::Auto => !prompt::fits(&self.0.catalog, names, self.0.prompt_budget),
        }
    }

    /// Returns the section of a system prompt that lists the skills, within the
    /// [budget](crate::HostBuilder::prompt_budget). Reads only skills that fit into the budget.
    pub fn prompt(&self, style: prompt::Style) -> prompt::Section {
        let finder = prompt::SkillFinder::of(|tool| self.tool(tool).is_ok());
        let names = self.names(Freshness::Now).to_vec();
        prompt::section_of(&self.0.catalog, names, style, self.0.prompt_budget, finder)
    }

    /// Returns whether the [prompt](Host::prompt) lists a skill, or may list one: finding out reads
    /// no more than the prompt does.
    pub fn has_prompt(&self) -> bool {
        prompt::may_list_any(&self.0.catalog, &self.names(Freshness::Now))
    }

    /// Starts updating the index in the background: the first time with all skills, later with
    /// those that changed. A server calls this when it starts and whenever skills change.
    pub fn update_index(&self) {
        if let Some(index) = &self.0.index {
            index.update(&self.0.catalog);
        }
    }
}

impl ServedTool {
    /// Returns whether this is the built-in search tool.
    pub(super) fn is_search(&self) -> bool {
        self.quota.is_built_in && self.tool.definition.name == FIND_SKILLS
    }
}

/// A filter for the names of skills that are in lists for models. Reads each skill only once for
/// all definitions.
struct ListedFilter<'a> {
    host: &'a Host,
    /// For each skill that was read, true if lists for models contain it.
    is_listed: HashMap<String, bool>,
    budget: ReadBudget,
}

impl<'a> ListedFilter<'a> {
    fn new(host: &'a Host) -> Self {
        Self {
            host,
            is_listed: HashMap::new(),
            budget: ReadBudget::default(),
        }
    }

    /// Keeps only the names that are in lists for models. Returns `None` if reading the skills
    /// exceeds the budget.
    fn keep_listed(&mut self, names: Vec<String>) -> Option<Vec<String>> {
        let catalog = &self.host.0.catalog;
        let mut listed = Vec::new();
        for name in names {
            if !self.is_listed.contains_key(&name) {
                if self.budget.is_spent() {
                    return None;
                }
                let skill = catalog.read_within(&name, &mut self.budget);
                let is_listed = skill.is_some_and(|skill| skill.unlisted.is_none());
                if !is_listed {
                    self.budget.leave_out();
                }
                self.is_listed.insert(name.clone(), is_listed);
            }
            if self.is_listed[&name] {
                listed.push(name);
            }
        }
        Some(listed)
    }
}

/// Returns whether these names fit into a schema.
fn is_enumerable(names: &[String]) -> bool {
    // Counts a comma for each name.
    let bytes = |name: &String| Value::from(name.as_str()).to_string().len() + 1;
    names.len() <= MAX_ENUM_NAMES && names.iter().map(bytes).sum::<usize>() <= MAX_ENUM_BYTES
}

/// Adds the names of the skills to a schema. Does not add an empty list, because a model could then
/// write no name at all, not even one that a person gave it.
fn add_enum(schema: &mut Map<String, Value>, property: &str, names: Vec<String>) {
    if names.is_empty() {
        return;
    }
    if let Some(Value::Object(property)) = schema
        .get_mut("properties")
        .and_then(|properties| properties.get_mut(property))
    {
        property.insert("enum".to_owned(), names.into());
    }
}
