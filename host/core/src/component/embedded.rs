//! The components that come with the host. What their tools are is kept beside
//! them, so that nothing has to be compiled or run to know it.

use crate::component::{Source, read_definitions};
use crate::host::SKILL_RESOURCES;
use crate::tool::Definition;

/// A component that comes with the host.
pub(crate) struct Embedded {
    /// What messages call it.
    pub(crate) name: &'static str,
    bytes: &'static [u8],
    definitions: &'static str,
}

macro_rules! embedded {
    ($name:expr, $file:literal) => {
        Embedded {
            name: $name,
            bytes: include_bytes!(concat!("../../components/", $file, ".wasm")),
            definitions: include_str!(concat!("../../components/", $file, ".json")),
        }
    };
}

/// In the order in which agents see their tools.
pub(crate) const EMBEDDED: [Embedded; 6] = [
    embedded!("read_file_in_skill", "read_file_in_skill"),
    embedded!("get_skill", "get_skill"),
    embedded!("read_skill_file", "read_skill_file"),
    embedded!("read_skill", "read_skill"),
    embedded!("list_skills", "list_skills"),
    embedded!(SKILL_RESOURCES, "skill_resources"),
];

/// The names of the tools that come with the host.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|embedded| embedded.name)
}

/// The digests of the components, as the tool that builds them writes them.
const SUMS: &str = include_str!("../../components/SHA256SUMS");

impl Embedded {
    /// SHA-256 of the component, in hex.
    pub(crate) fn digest(&self) -> &'static str {
        let mut lines = SUMS.lines().filter_map(|line| line.split_once("  "));
        let file = |file: &str| file.strip_suffix(".wasm") == Some(self.name);
        let listed = lines.find_map(|(digest, name)| file(name).then_some(digest));
        // The tests see to it that all are listed.
        listed.unwrap_or_default()
    }

    pub(crate) fn source(&self) -> Source {
        Source::Own(self.bytes)
    }

    /// The tools that it defines.
    pub(crate) fn definitions(&self) -> anyhow::Result<Vec<Definition>> {
        read_definitions(self.definitions.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::component::{digest, write_definitions};

    /// With this set, the kept definitions become what the components say.
    const REWRITE: &str = "SKILLHOST_REWRITE_DEFINITIONS";

    #[test]
    fn the_digests_that_are_listed_are_the_components() {
        for embedded in &EMBEDDED {
            assert_eq!(
                embedded.digest(),
                digest(embedded.bytes),
                "{}",
                embedded.name
            );
        }
    }

    #[test]
    fn the_definitions_that_are_kept_are_what_the_components_say() {
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
            let said = inspection.tools.unwrap();
            if std::env::var_os(REWRITE).is_some() {
                let mut text = String::from_utf8(write_definitions(&said).unwrap()).unwrap();
                text.push('\n');
                std::fs::write(component.with_extension("json"), text).unwrap();
            } else {
                assert_eq!(
                    embedded.definitions().unwrap(),
                    said,
                    "`{}`: run this test with {REWRITE}=1, and read what has changed",
                    embedded.name
                );
            }
        }
    }
}
