//! What a component says of its functions: the comments of its WIT, where the
//! component carries them in a section `package-docs`, as wit-component writes
//! it. Nobody vouches for it: what cannot be read is not there.

use std::collections::BTreeMap;

use serde::Deserialize;
use wasmparser::{Parser, Payload};

use super::names::Place;

/// The section's name, in the component or in a core module of it.
const SECTION: &str = "package-docs";

/// Most bytes of a section that are read. Meets: documentation that fills the
/// memory before its length is known.
const SECTION_BYTES: usize = 1 << 20;

/// Most sections that are read. Meets: as many as fit into a file.
const SECTIONS: usize = 8;

/// Versions of the section's format, its first byte. In the first one, a
/// function's documentation is a string and not an object.
const VERSIONS: [u8; 2] = [0, 1];

/// The documentation that a component carries.
#[derive(Default)]
pub(crate) struct Docs(Vec<Package>);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Package {
    worlds: BTreeMap<String, World>,
    interfaces: BTreeMap<String, Interface>,
}

/// Exports are among the imports unless an import has the same name.
#[derive(Deserialize, Default)]
#[serde(default)]
struct World {
    funcs: BTreeMap<String, Function>,
    func_exports: BTreeMap<String, Function>,
    interfaces: BTreeMap<String, Interface>,
    interface_exports: BTreeMap<String, Interface>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Interface {
    funcs: BTreeMap<String, Function>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Function {
    Text(Option<String>),
    Object {
        #[serde(default)]
        docs: Option<String>,
    },
}

impl Docs {
    /// Reads what a component carries.
    pub(crate) fn of(component: &[u8]) -> Self {
        let sections = Parser::new(0)
            .parse_all(component)
            .map_while(Result::ok)
            .filter_map(|payload| match payload {
                Payload::CustomSection(section) if section.name() == SECTION => {
                    Some(section.data())
                }
                _ => None,
            });
        Self(sections.take(SECTIONS).filter_map(package).collect())
    }

    /// What is said of a function, if anything is.
    pub(crate) fn function(&self, place: &Place) -> Option<&str> {
        self.0.iter().find_map(|package| package.function(place))
    }
}

fn package(section: &[u8]) -> Option<Package> {
    let (version, json) = section.split_first()?;
    if !VERSIONS.contains(version) || json.len() > SECTION_BYTES {
        tracing::warn!("a section `{SECTION}` is not read: it is too large, or of a later version");
        return None;
    }
    serde_json::from_slice(json)
        .inspect_err(|error| tracing::warn!("a section `{SECTION}` is not read: {error}"))
        .ok()
}

impl Package {
    fn function(&self, place: &Place) -> Option<&str> {
        let name = &place.function;
        let worlds = || self.worlds.values();
        let found = match place.interface_name() {
            None => worlds().find_map(|world| {
                let exported = world.func_exports.get(name);
                exported.or_else(|| world.funcs.get(name))
            }),
            Some(interface) => {
                let inline = worlds().find_map(|world| {
                    let exported = world.interface_exports.get(interface);
                    exported.or_else(|| world.interfaces.get(interface))
                });
                let interface = self.interfaces.get(interface).or(inline)?;
                interface.funcs.get(name)
            }
        };
        let text = match found? {
            Function::Text(text) | Function::Object { docs: text } => text.as_deref()?.trim(),
        };
        (!text.is_empty()).then_some(text)
    }
}
