//! The WIT package of a project, in its folder `wit`: the world, and the comments on its functions.

use std::path::Path;

use wit_parser::{Function, PackageId, PackageMetadata, Resolve, WorldId, WorldItem, WorldKey};

use super::BuildError;
use super::project::Project;

/// The namespace and the interface of tools that are called with JSON.
const JSON_TOOLS: (&str, &str) = ("skillhost", "tools");
/// The package of HTTP requests.
const HTTP: (&str, &str) = ("wasi", "http");

/// The WIT of a project.
pub(super) struct ProjectWit {
    pub(super) resolve: Resolve,
    package: PackageId,
}

impl ProjectWit {
    /// Reads the package in the project's `wit`.
    pub(super) fn read(project: &Project) -> Result<Self, BuildError> {
        Self::parse(&project.folder.join("wit")).map_err(|error| wit_error(&error))
    }

    /// Reads the package in a folder.
    pub(super) fn parse(folder: &Path) -> anyhow::Result<Self> {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(folder)?;
        Ok(Self { resolve, package })
    }

    /// Returns the package's only world.
    pub(super) fn world(&self) -> Result<WorldId, BuildError> {
        let world = self.resolve.select_world(&[self.package], None);
        world.map_err(|error| wit_error(&error))
    }

    /// Returns the world's name.
    pub(super) fn world_name(&self) -> Result<&str, BuildError> {
        Ok(&self.resolve.worlds[self.world()?].name)
    }

    /// Checks whether the tools are typed: functions that the package's worlds export, instead of
    /// the interface `tools` of `skillhost:tool`.
    pub(super) fn is_typed(&self) -> bool {
        let worlds = self.resolve.packages[self.package].worlds.values();
        let mut exports = worlds.flat_map(|world| self.resolve.worlds[*world].exports.keys());
        !exports.any(|export| match export {
            WorldKey::Interface(id) => {
                let interface = &self.resolve.interfaces[*id];
                let package = interface.package.map(|id| &self.resolve.packages[id].name);
                interface.name.as_deref() == Some(JSON_TOOLS.1)
                    && package.is_some_and(|package| package.namespace == JSON_TOOLS.0)
            }
            WorldKey::Name(_) => false,
        })
    }

    /// Returns the world's name with its package, so that it is unique among several packages.
    pub(super) fn qualified_world_name(&self) -> Result<String, BuildError> {
        let name = &self.resolve.packages[self.package].name;
        Ok(name.interface_id(self.world_name()?))
    }

    /// Checks whether the package's world imports `wasi:http`.
    pub(super) fn imports_http(&self) -> Result<bool, BuildError> {
        let mut imports = self.resolve.worlds[self.world()?].imports.values();
        Ok(imports.any(|item| match item {
            WorldItem::Interface { id, .. } => {
                let package = self.resolve.interfaces[*id].package;
                package.is_some_and(|id| {
                    let name = &self.resolve.packages[id].name;
                    (&*name.namespace, &*name.name) == HTTP
                })
            }
            _ => false,
        }))
    }

    /// Returns advice on likely mistakes in typed functions that no host refuses.
    pub(super) fn advice(&self) -> Vec<String> {
        if !self.is_typed() {
            return Vec::new();
        }
        let worlds = self.resolve.packages[self.package].worlds.values();
        let exports = worlds.flat_map(|world| self.resolve.worlds[*world].exports.values());
        let functions = exports.flat_map(|item| match item {
            WorldItem::Function(function) => vec![function],
            WorldItem::Interface { id, .. } => {
                self.resolve.interfaces[*id].functions.values().collect()
            }
            WorldItem::Type { .. } => Vec::new(),
        });
        let mut advice = Vec::new();
        for Function {
            name, docs, params, ..
        } in functions
        {
            if docs
                .contents
                .as_deref()
                .unwrap_or_default()
                .trim()
                .is_empty()
            {
                advice.push(format!(
                    "`{name}` has no comment, and a model chooses a tool by its comment: write one in \
                     `wit`, on lines that begin with `///` above the function"
                ));
            }
            let has = |name: &str| params.iter().any(|param| param.name == name);
            if has("skill") && !has("skill-name") {
                advice.push(format!(
                    "`{name}` has the parameter `skill`, and gets no folder: call the parameter \
                     `skill-name` if it names the skill of a call"
                ));
            }
        }
        advice
    }

    /// Returns the package's comments in the format of the section `package-docs`.
    pub(super) fn docs(&self) -> anyhow::Result<Vec<u8>> {
        PackageMetadata::extract(&self.resolve, self.package).encode()
    }
}

fn wit_error(error: &anyhow::Error) -> BuildError {
    BuildError::project(format!("in `wit`: {error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advises_on_missing_comment_and_misnamed_parameter() {
        let folder = tempfile::tempdir().unwrap();
        let advice = |functions: &str| {
            let text =
                format!("package a:b;\ninterface i {{\n{functions}\n}}\nworld w {{ export i; }}");
            std::fs::write(folder.path().join("w.wit"), text).unwrap();
            ProjectWit::parse(folder.path())
                .unwrap()
                .advice()
                .join("\n")
        };
        for (functions, expected) in [
            ("count: func();", "`count` has no comment"),
            (
                "/// Count.\ncount: func(skill: string);",
                "`count` has the parameter `skill`, and gets no folder",
            ),
        ] {
            assert!(advice(functions).starts_with(expected), "{functions}");
        }
        for functions in [
            "/// Count.\ncount: func(skill-name: string);",
            "/// Compare.\ncompare: func(skill-name: string, skill: string);",
            "/// Add.\nadd: func(a: u8);",
        ] {
            assert_eq!(advice(functions), "", "{functions}");
        }
    }
}
