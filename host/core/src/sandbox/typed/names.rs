//! The names of tools that are functions: from WIT's kebab case to the snake
//! case that agents know, unique in the component.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};

use crate::text::line::Line;

/// Longest name of a tool.
const LONGEST: usize = 64;

/// Where a function is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The exported interface, as the component has it. None: the world.
    pub(crate) interface: Option<String>,
    /// The function, as the component has it.
    pub(crate) function: String,
}

impl Place {
    /// The interface's own name: `terms` of `acme:glossary/terms@1.0.0`.
    pub(crate) fn interface_name(&self) -> Option<&str> {
        let name = self.interface.as_deref()?;
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        Some(name.rsplit_once('/').map_or(name, |(_, name)| name))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let function = Line::new(&self.function);
        match &self.interface {
            None => write!(f, "its function `{function}`"),
            Some(name) => write!(f, "the function `{function}` of its interface `{name}`"),
        }
    }
}

/// A name of WIT in snake case. Names that differ in WIT differ here, too:
/// there they must differ in more than upper and lower case, and have no `_`.
pub(crate) fn snake(kebab: &str) -> String {
    kebab.to_ascii_lowercase().replace('-', "_")
}

/// The tools' names, in the order of the functions: a function's own, and where
/// several have the same, those in interfaces with the interface's in front.
pub(crate) fn of(places: &[Place]) -> anyhow::Result<Vec<String>> {
    let mut own = BTreeMap::<_, usize>::new();
    for place in places {
        *own.entry(snake(&place.function)).or_default() += 1;
    }
    let mut taken = BTreeMap::<String, &Place>::new();
    let mut names = Vec::with_capacity(places.len());
    for place in places {
        let mut name = snake(&place.function);
        if own.get(&name).is_some_and(|many| *many > 1)
            && let Some(interface) = place.interface_name()
        {
            name = format!("{}_{name}", snake(interface));
        }
        if name.len() > LONGEST {
            bail!(
                "{place} would be the tool `{name}`, a name of {} characters: {LONGEST} is the \
                 most, give it a shorter one",
                name.len()
            );
        }
        if let Some(other) = taken.insert(name.clone(), place) {
            return Err(anyhow::anyhow!("give one of them another name"))
                .with_context(|| format!("{other} and {place} would both be the tool `{name}`"));
        }
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(places: &[(Option<&str>, &str)]) -> Result<Vec<String>, String> {
        let place = |(interface, function): &(Option<&str>, &str)| Place {
            interface: interface.map(str::to_owned),
            function: (*function).to_owned(),
        };
        let places: Vec<Place> = places.iter().map(place).collect();
        of(&places).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_tool_has_its_functions_name_and_its_interfaces_where_several_have_it() {
        let places = [
            (None, "look-up"),
            (Some("acme:glossary/terms@1.0.0"), "look-up"),
            (Some("acme:glossary/short-forms"), "look-up"),
            (Some("inline"), "HTTP-get2"),
        ];
        assert_eq!(
            named(&places).unwrap(),
            [
                "look_up",
                "terms_look_up",
                "short_forms_look_up",
                "http_get2"
            ]
        );
    }

    #[test]
    fn names_that_are_the_same_all_the_same_or_too_long_are_refused() {
        let error = named(&[(Some("a:b/i@1.0.0"), "f"), (Some("a:b/i@2.0.0"), "f")]);
        assert_eq!(
            error.unwrap_err(),
            "the function `f` of its interface `a:b/i@1.0.0` and the function `f` of its interface \
             `a:b/i@2.0.0` would both be the tool `i_f`: give one of them another name"
        );
        let error = named(&[(None, "i-f"), (None, "f"), (Some("a:b/i"), "f")]);
        assert!(error.unwrap_err().contains("the tool `i_f`"));
        assert!(named(&[(None, &"a".repeat(64))]).is_ok());
        let error = named(&[(None, &"a".repeat(65))]).unwrap_err();
        assert!(
            error.contains("of 65 characters: 64 is the most"),
            "{error}"
        );
    }
}
