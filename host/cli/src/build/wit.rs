//! A project's own WIT: the folder `wit`, read once for what a build needs of it: the
//! world, and the comments on its functions.

use std::path::Path;

use wit_parser::{PackageId, PackageMetadata, Resolve, WorldId, WorldKey};

use super::Fault;
use super::project::Project;

/// The package and the interface of tools that are called with JSON.
const TOOLS: (&str, &str) = ("skillhost", "tools");

/// The WIT of a project.
pub(super) struct ProjectWit {
    pub(super) resolve: Resolve,
    package: PackageId,
}

impl ProjectWit {
    /// Reads the package in the project's `wit`.
    pub(super) fn read(project: &Project) -> Result<Self, Fault> {
        Self::parse(&project.folder.join("wit")).map_err(|error| fault(&error))
    }

    /// Reads the package in a folder.
    pub(super) fn parse(folder: &Path) -> anyhow::Result<Self> {
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(folder)?;
        Ok(Self { resolve, package })
    }

    /// Returns the package's only world.
    pub(super) fn world(&self) -> Result<WorldId, Fault> {
        let world = self.resolve.select_world(&[self.package], None);
        world.map_err(|error| fault(&error))
    }

    /// Returns the world's name.
    pub(super) fn world_name(&self) -> Result<&str, Fault> {
        Ok(&self.resolve.worlds[self.world()?].name)
    }

    /// Checks whether the functions of the package's worlds are the tools, and not
    /// those that `skillhost:tool` defines.
    pub(super) fn is_typed(&self) -> bool {
        let worlds = self.resolve.packages[self.package].worlds.values();
        let mut exports = worlds.flat_map(|world| self.resolve.worlds[*world].exports.keys());
        !exports.any(|export| match export {
            WorldKey::Interface(id) => {
                let interface = &self.resolve.interfaces[*id];
                let package = interface.package.map(|id| &self.resolve.packages[id].name);
                interface.name.as_deref() == Some(TOOLS.1)
                    && package.is_some_and(|package| package.namespace == TOOLS.0)
            }
            WorldKey::Name(_) => false,
        })
    }

    /// Returns the package's comments in the form of the section `package-docs`.
    pub(super) fn docs(&self) -> anyhow::Result<Vec<u8>> {
        PackageMetadata::extract(&self.resolve, self.package).encode()
    }
}

fn fault(error: &anyhow::Error) -> Fault {
    Fault::project(format!("in `wit`: {error:#}"))
}
