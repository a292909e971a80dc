//! The names of tools for typed functions: WIT's kebab case becomes snake case. Each name is
//! unique in the component.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};

use skillhost_skills::text::line::Line;

/// The maximum length of a tool's name.
const MAX_NAME: usize = 64;

/// The path of an exported function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionPath {
    /// The exported interface in the component's spelling. `None` for a function of the world.
    pub(crate) interface: Option<String>,
    /// The function in the component's spelling.
    pub(crate) function: String,
}

impl FunctionPath {
    /// Returns the interface's name without package and version.
    pub(crate) fn interface_name(&self) -> Option<&str> {
        self.interface.as_deref().map(short_name)
    }
}

impl std::fmt::Display for FunctionPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let function = Line::new(&self.function);
        match &self.interface {
            None => write!(f, "its function `{function}`"),
            Some(name) => write!(f, "the function `{function}` of its interface `{name}`"),
        }
    }
}

/// Returns an interface's name without package and version, such as `terms` for
/// `acme:glossary/terms@1.0.0`.
pub(super) fn short_name(interface: &str) -> &str {
    let name = interface
        .split_once('@')
        .map_or(interface, |(name, _)| name);
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}

/// Returns a WIT name in snake case. Different WIT names stay different: WIT requires that
/// they differ in more than case, and forbids `_`.
pub(crate) fn snake(kebab: &str) -> String {
    kebab.to_ascii_lowercase().replace('-', "_")
}

/// Returns the tools' names in the order of the functions. A tool has its function's name. If
/// several functions have that name, the interface's name is the prefix.
pub(crate) fn tool_names(paths: &[FunctionPath]) -> anyhow::Result<Vec<String>> {
    let mut counts = BTreeMap::<_, usize>::new();
    for path in paths {
        *counts.entry(snake(&path.function)).or_default() += 1;
    }
    let mut used = BTreeMap::<String, &FunctionPath>::new();
    let mut names = Vec::with_capacity(paths.len());
    for path in paths {
        let mut name = snake(&path.function);
        if counts.get(&name).is_some_and(|count| *count > 1)
            && let Some(interface) = path.interface_name()
        {
            name = format!("{}_{name}", snake(interface));
        }
        if name.len() > MAX_NAME {
            bail!(
                "{path} would be the tool `{name}`, a name of {} characters: use at most \
                 {MAX_NAME}",
                name.len()
            );
        }
        if let Some(other) = used.insert(name.clone(), path) {
            return Err(anyhow::anyhow!("give one of them another name"))
                .with_context(|| format!("{other} and {path} would both be the tool `{name}`"));
        }
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[(Option<&str>, &str)]) -> Result<Vec<String>, String> {
        let path = |(interface, function): &(Option<&str>, &str)| FunctionPath {
            interface: interface.map(str::to_owned),
            function: (*function).to_owned(),
        };
        let paths: Vec<FunctionPath> = paths.iter().map(path).collect();
        tool_names(&paths).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn adds_the_interface_to_equal_function_names() {
        let paths = [
            (None, "look-up"),
            (Some("acme:glossary/terms@1.0.0"), "look-up"),
            (Some("acme:glossary/short-forms"), "look-up"),
            (Some("inline"), "HTTP-get2"),
        ];
        assert_eq!(
            names(&paths).unwrap(),
            [
                "look_up",
                "terms_look_up",
                "short_forms_look_up",
                "http_get2"
            ]
        );
    }

    #[test]
    fn refuses_duplicate_and_long_names() {
        let error = names(&[(Some("a:b/i@1.0.0"), "f"), (Some("a:b/i@2.0.0"), "f")]);
        assert_eq!(
            error.unwrap_err(),
            "the function `f` of its interface `a:b/i@1.0.0` and the function `f` of its interface \
             `a:b/i@2.0.0` would both be the tool `i_f`: give one of them another name"
        );
        let error = names(&[(None, "i-f"), (None, "f"), (Some("a:b/i"), "f")]);
        assert!(error.unwrap_err().contains("the tool `i_f`"));
        assert!(names(&[(None, &"a".repeat(64))]).is_ok());
        let error = names(&[(None, &"a".repeat(65))]).unwrap_err();
        assert!(
            error.contains("of 65 characters: use at most 64"),
            "{error}"
        );
    }
}
