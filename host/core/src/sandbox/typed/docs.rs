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

#[cfg(test)]
mod tests {
    use super::*;

    /// A component with these sections `package-docs`.
    fn component(sections: &[&[u8]]) -> Vec<u8> {
        let mut bytes = wat::parse_str("(component (core module))").unwrap();
        for section in sections {
            let mut named = vec![SECTION.len() as u8];
            named.extend_from_slice(SECTION.as_bytes());
            named.extend_from_slice(section);
            // A custom section: its length in LEB128 of five bytes, at most.
            bytes.push(0);
            let mut length = named.len();
            for last in [false, false, false, false, true] {
                bytes.push((length & 0x7f) as u8 | if last { 0 } else { 0x80 });
                length >>= 7;
            }
            bytes.extend_from_slice(&named);
        }
        bytes
    }

    fn place(interface: Option<&str>, function: &str) -> Place {
        Place {
            interface: interface.map(str::to_owned),
            function: function.to_owned(),
        }
    }

    fn said(sections: &[&[u8]], interface: Option<&str>, function: &str) -> Option<String> {
        let docs = Docs::of(&component(sections));
        docs.function(&place(interface, function))
            .map(str::to_owned)
    }

    #[test]
    fn a_function_has_the_comment_of_its_place_in_either_version_of_the_format() {
        let first = b"\0{\"worlds\": {\"w\": {\"funcs\": {\"f\": \"Of the world.\"}}}}";
        let second = b"\x01{\"worlds\": {\"w\": {\"funcs\": {\"f\": {\"docs\": \"An import's.\"}},\
            \"func_exports\": {\"f\": {\"docs\": \" Of the world.\\n\", \"stability\": \"unknown\"}},\
            \"interfaces\": {\"inline\": {\"funcs\": {\"f\": {\"docs\": \"Inline.\"}}}}}},\
            \"interfaces\": {\"terms\": {\"docs\": \"x\", \"funcs\": {\"f\": {\"docs\": \"Of terms.\"}, \"g\": {}}}}}";
        assert_eq!(said(&[first], None, "f").unwrap(), "Of the world.");
        let said = |interface, function| said(&[second], interface, function);
        assert_eq!(said(None, "f").unwrap(), "Of the world.");
        assert_eq!(said(Some("a:b/terms@1.0.0"), "f").unwrap(), "Of terms.");
        assert_eq!(said(Some("inline"), "f").unwrap(), "Inline.");
        assert_eq!(said(Some("a:b/terms"), "g"), None);
        assert_eq!(said(Some("a:b/other"), "f"), None);
        assert_eq!(said(None, "h"), None);
    }

    #[test]
    fn what_cannot_be_read_is_not_there_and_what_follows_is() {
        let right = b"\x01{\"worlds\": {\"w\": {\"funcs\": {\"f\": {\"docs\": \"Right.\"}}}}}";
        let deep = [&b"\x01"[..], &b"[".repeat(100_000)].concat();
        let wide = [&b"\x01"[..], &b" ".repeat(SECTION_BYTES + 1), b"{}"].concat();
        let later = [&b"\x02"[..], &right[1..]].concat();
        let bad: [&[u8]; 9] = [
            b"",
            b"\x01",
            b"\x01[]",
            b"\x01{\"worlds\": 1}",
            b"\x01{\"worlds\": {\"w\": {\"funcs\": {\"f\": {\"docs\": 1}}}}}",
            b"\x01\xff",
            &deep,
            &wide,
            &later,
        ];
        for bad in bad {
            assert_eq!(said(&[bad], None, "f"), None);
            assert_eq!(said(&[bad, right], None, "f").unwrap(), "Right.");
        }
        let many: Vec<&[u8]> = vec![b"\x01{}"; SECTIONS];
        assert_eq!(said(&[&many[..], &[right]].concat(), None, "f"), None);
    }

    #[test]
    fn the_least_that_the_page_shows_is_read() {
        let page = include_str!("../../../../../docs/typed-tools.md");
        let json = page.split("```json\n").nth(1).unwrap();
        let json = json.split("```").next().unwrap();
        let section = format!("\u{1}{json}");
        let said = said(
            &[section.as_bytes()],
            Some("acme:glossary/terms"),
            "look-up",
        );
        assert_eq!(said.unwrap(), "Looks a term of the glossary up.");
    }

    #[test]
    fn bytes_that_are_no_component_are_no_panic() {
        let whole = component(&[b"\x01{}"]);
        for end in 0..whole.len() {
            assert!(
                Docs::of(&whole[..end])
                    .function(&place(None, "f"))
                    .is_none()
            );
        }
    }
}
