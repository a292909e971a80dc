//! The built-in components. Files beside them hold the definitions of their tools, so that a
//! host lists the tools without compiling.

use crate::component::{ComponentSource, definitions};
use crate::tool::Definition;

/// The name of the component that reads skills' files as resources, to disable or grant it.
pub const SKILL_RESOURCES: &str = "skill_resources";

/// The name of the search tool. It needs an index, which not every host has.
pub const FIND_SKILLS: &str = "find_skills";

/// A built-in component.
pub struct EmbeddedComponent {
    /// Its name in messages.
    pub name: &'static str,
    bytes: &'static [u8],
    definitions: &'static str,
}

macro_rules! embedded {
    ($name:expr, $file:literal) => {
        EmbeddedComponent {
            name: $name,
            bytes: include_bytes!(concat!("../../components/", $file, ".wasm")),
            definitions: include_str!(concat!("../../components/", $file, ".json")),
        }
    };
}

/// The built-in components, in the order in which agents see their tools.
pub const EMBEDDED: [EmbeddedComponent; 8] = [
    embedded!("read_file_in_skill", "read_file_in_skill"),
    embedded!("get_skill", "get_skill"),
    embedded!("read_skill_file", "read_skill_file"),
    embedded!("read_skill", "read_skill"),
    embedded!("list_skills", "list_skills"),
    embedded!(FIND_SKILLS, "find_skills"),
    embedded!("list_files_in_skill", "list_files_in_skill"),
    embedded!(SKILL_RESOURCES, "skill_resources"),
];

/// Returns the names of the built-in components. A built-in tool has its component's name.
pub fn names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|embedded| embedded.name)
}

/// The digests of the components, written by their build.
const SUMS: &str = include_str!("../../components/SHA256SUMS");

impl EmbeddedComponent {
    /// Returns the SHA-256 of the component, in hex.
    pub fn digest(&self) -> &'static str {
        let mut lines = SUMS.lines().filter_map(|line| line.split_once("  "));
        let is_this = |file: &str| file.strip_suffix(".wasm") == Some(self.name);
        let listed = lines.find_map(|(digest, file)| is_this(file).then_some(digest));
        // A test checks that all are listed.
        listed.unwrap_or_default()
    }

    /// Returns the component for loading.
    pub fn source(&self) -> ComponentSource {
        ComponentSource::BuiltIn(self.bytes)
    }

    /// Returns the definitions of its tools.
    pub fn definitions(&self) -> anyhow::Result<Vec<Definition>> {
        definitions::json::read(self.definitions.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use skillhost_skills::text::digest::sha256_hex;

    /// The variable that makes the test rewrite the stored definitions.
    const REWRITE: &str = "SKILLHOST_REWRITE_DEFINITIONS";

    #[test]
    fn lists_the_digest_of_each_component() {
        for embedded in &EMBEDDED {
            assert_eq!(
                embedded.digest(),
                sha256_hex(embedded.bytes),
                "{}",
                embedded.name
            );
        }
    }

    #[test]
    fn stores_the_definitions_that_the_components_give() {
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("components");
        for embedded in &EMBEDDED {
            let component = dist.join(embedded.name).with_extension("wasm");
            let inspection = crate::component::inspect::inspect(&component, None);
            let inspection = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap()
                .block_on(inspection)
                .unwrap();
            let actual = inspection.tools.unwrap();
            if std::env::var_os(REWRITE).is_some() {
                let json = definitions::json::write(&actual).unwrap();
                let mut text = String::from_utf8(json).unwrap();
                text.push('\n');
                std::fs::write(component.with_extension("json"), text).unwrap();
            } else {
                assert_eq!(
                    embedded.definitions().unwrap(),
                    actual,
                    "`{}`: run this test with {REWRITE}=1, and read what has changed",
                    embedded.name
                );
            }
        }
    }
}
