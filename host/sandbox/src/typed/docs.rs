//! Documentation of a component's functions and types: the comments of its WIT in a section
//! `package-docs`, as written by wit-component. Sections are untrusted. Unreadable ones are
//! ignored.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use wasmparser::{Parser, Payload};

use super::names::{FunctionPath, short_name};

/// The section's name, in the component or in one of its core modules.
const SECTION: &str = "package-docs";

/// The maximum size of a section, in bytes. Guards against: documentation that fills the memory.
const MAX_SECTION_BYTES: usize = 1 << 20;

/// The maximum number of sections. Guards against: a file full of sections.
const MAX_SECTIONS: usize = 8;

/// The supported versions of the section's format. The section's first byte is its version. In
/// the first version, a function's documentation is a string instead of an object.
const VERSIONS: [u8; 2] = [0, 1];

/// The documentation in a component.
#[derive(Default)]
pub(crate) struct Docs(Vec<PackageDocs>);

#[derive(Deserialize, Default)]
#[serde(default)]
struct PackageDocs {
    worlds: BTreeMap<String, WorldDocs>,
    interfaces: BTreeMap<String, InterfaceDocs>,
}

/// The documentation of a world. `funcs` and `interfaces` have the imports, and each export that
/// shares no name with an import.
#[derive(Deserialize, Default)]
#[serde(default)]
struct WorldDocs {
    funcs: BTreeMap<String, FunctionDocs>,
    func_exports: BTreeMap<String, FunctionDocs>,
    interfaces: BTreeMap<String, InterfaceDocs>,
    interface_exports: BTreeMap<String, InterfaceDocs>,
    types: BTreeMap<String, Arc<TypeDocs>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct InterfaceDocs {
    funcs: BTreeMap<String, FunctionDocs>,
    types: BTreeMap<String, Arc<TypeDocs>>,
}

/// The comments on a type, and on its fields, cases or flags by WIT name.
#[derive(Deserialize, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub(super) struct TypeDocs {
    pub(super) docs: Option<String>,
    pub(super) items: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FunctionDocs {
    Text(Option<String>),
    Object {
        #[serde(default)]
        docs: Option<String>,
    },
}

impl Docs {
    /// Reads the documentation in a component.
    pub(crate) fn read(component: &[u8]) -> Self {
        let sections = Parser::new(0)
            .parse_all(component)
            .map_while(Result::ok)
            .filter_map(|payload| match payload {
                Payload::CustomSection(section) if section.name() == SECTION => {
                    Some(section.data())
                }
                _ => None,
            });
        let packages = sections.take(MAX_SECTIONS).filter_map(parse_section);
        Self(packages.collect())
    }

    /// Returns the comment of a function, if it has one.
    pub(crate) fn function(&self, path: &FunctionPath) -> Option<&str> {
        self.0.iter().find_map(|package| package.function(path))
    }

    /// Returns whether any type has a comment.
    pub(super) fn has_type_comments(&self) -> bool {
        self.0.iter().any(|package| {
            let worlds = package.worlds.values();
            let inline = worlds.clone().flat_map(WorldDocs::inline_interfaces);
            let mut interfaces = inline.chain(package.interfaces.values());
            interfaces.any(|interface| !interface.types.is_empty())
                || worlds.into_iter().any(|world| !world.types.is_empty())
        })
    }

    /// Returns the comments on a type of an interface, such as `acme:glossary/terms@1.0.0`, or of
    /// the world.
    pub(super) fn type_docs(&self, interface: Option<&str>, name: &str) -> Option<&Arc<TypeDocs>> {
        let mut packages = self.0.iter();
        packages.find_map(|package| match interface {
            None => package
                .worlds
                .values()
                .find_map(|world| world.types.get(name)),
            Some(interface) => {
                let interface = package.interface(short_name(interface))?;
                interface.types.get(name)
            }
        })
    }
}

fn parse_section(section: &[u8]) -> Option<PackageDocs> {
    let (version, json) = section.split_first()?;
    if !VERSIONS.contains(version) || json.len() > MAX_SECTION_BYTES {
        tracing::warn!("ignored a section `{SECTION}`: it is too large, or of a later version");
        return None;
    }
    serde_json::from_slice(json)
        .inspect_err(|error| tracing::warn!("ignored a section `{SECTION}`: {error}"))
        .ok()
}

impl WorldDocs {
    /// Returns the interfaces that the world defines inline.
    fn inline_interfaces(&self) -> impl Iterator<Item = &InterfaceDocs> {
        let exported = self.interface_exports.values();
        exported.chain(self.interfaces.values())
    }
}

impl PackageDocs {
    /// Returns an interface of the package or of a world, by its name without package and version.
    fn interface(&self, name: &str) -> Option<&InterfaceDocs> {
        let inline = || {
            self.worlds.values().find_map(|world| {
                let exported = world.interface_exports.get(name);
                exported.or_else(|| world.interfaces.get(name))
            })
        };
        self.interfaces.get(name).or_else(inline)
    }

    fn function(&self, path: &FunctionPath) -> Option<&str> {
        let name = &path.function;
        let worlds = || self.worlds.values();
        let found = match path.interface_name() {
            None => worlds().find_map(|world| {
                let exported = world.func_exports.get(name);
                exported.or_else(|| world.funcs.get(name))
            }),
            Some(interface) => self.interface(interface)?.funcs.get(name),
        };
        let text = match found? {
            FunctionDocs::Text(text) | FunctionDocs::Object { docs: text } => {
                text.as_deref()?.trim()
            }
        };
        (!text.is_empty()).then_some(text)
    }
}

/// Joins the lines of each paragraph of a comment. Lines of lists, tables and titles stay separate.
/// A comment with a code block is returned unchanged.
pub(super) fn join_lines(comment: &str) -> String {
    if comment.contains("```") {
        return comment.to_owned();
    }
    let is_text = |line: &str| line.starts_with(|c: char| c.is_alphabetic() || "`\"'(".contains(c));
    let mut lines: Vec<String> = Vec::new();
    for line in comment.lines() {
        match lines.last_mut() {
            Some(last) if is_text(line) && !last.is_empty() && !last.starts_with(['#', '|']) => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_lines_of_paragraphs_only() {
        for (comment, expected) in [
            ("One line.", "One line."),
            (
                "Tasks in a state, for\none owner.\n\nNone if\n`all`.",
                "Tasks in a state, for one owner.\n\nNone if `all`.",
            ),
            (
                "# Title\nText\n- one\n- two\n| a | b |\nEnd",
                "# Title\nText\n- one\n- two\n| a | b |\nEnd",
            ),
            ("Code:\n```\nf()\ng()\n```", "Code:\n```\nf()\ng()\n```"),
            ("", ""),
        ] {
            assert_eq!(join_lines(comment), expected);
        }
    }

    /// Returns a component with these sections `package-docs`.
    fn component(sections: &[&[u8]]) -> Vec<u8> {
        component_with(SECTION, sections)
    }

    fn component_with(name: &str, sections: &[&[u8]]) -> Vec<u8> {
        let mut bytes = wat::parse_str("(component (core module))").unwrap();
        for section in sections {
            let mut named = vec![name.len() as u8];
            named.extend_from_slice(name.as_bytes());
            named.extend_from_slice(section);
            // A custom section, with its length as a LEB128 of five bytes.
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

    fn path(interface: Option<&str>, function: &str) -> FunctionPath {
        FunctionPath {
            interface: interface.map(str::to_owned),
            function: function.to_owned(),
        }
    }

    fn comment(sections: &[&[u8]], interface: Option<&str>, function: &str) -> Option<String> {
        let docs = Docs::read(&component(sections));
        docs.function(&path(interface, function)).map(str::to_owned)
    }

    #[test]
    fn reads_function_comments_of_both_format_versions() {
        let first = b"\0{\"worlds\": {\"w\": {\"funcs\": {\"f\": \"Of the world.\"}}}}";
        let second = b"\x01{\"worlds\": {\"w\": {\"funcs\": {\"f\": {\"docs\": \"An import's.\"}},\
            \"func_exports\": {\"f\": {\"docs\": \" Of the world.\\n\", \"stability\": \"unknown\"}},\
            \"interfaces\": {\"inline\": {\"funcs\": {\"f\": {\"docs\": \"Inline.\"}}}}}},\
            \"interfaces\": {\"terms\": {\"docs\": \"x\", \"funcs\": {\"f\": {\"docs\": \"Of terms.\"}, \"g\": {}}}}}";
        assert_eq!(comment(&[first], None, "f").unwrap(), "Of the world.");
        let comment = |interface, function| comment(&[second], interface, function);
        assert_eq!(comment(None, "f").unwrap(), "Of the world.");
        assert_eq!(comment(Some("a:b/terms@1.0.0"), "f").unwrap(), "Of terms.");
        assert_eq!(comment(Some("inline"), "f").unwrap(), "Inline.");
        assert_eq!(comment(Some("a:b/terms"), "g"), None);
        assert_eq!(comment(Some("a:b/other"), "f"), None);
        assert_eq!(comment(None, "h"), None);
    }

    #[test]
    fn skips_unreadable_section() {
        let right = b"\x01{\"worlds\": {\"w\": {\"funcs\": {\"f\": {\"docs\": \"Right.\"}}}}}";
        let deep = [&b"\x01"[..], &b"[".repeat(100_000)].concat();
        let wide = [&b"\x01"[..], &b" ".repeat(MAX_SECTION_BYTES + 1), b"{}"].concat();
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
            assert_eq!(comment(&[bad], None, "f"), None);
            assert_eq!(comment(&[bad, right], None, "f").unwrap(), "Right.");
        }
        let blanks = b" ".repeat(MAX_SECTION_BYTES - (right.len() - 1));
        let widest = [&right[..], &blanks].concat();
        assert_eq!(comment(&[&widest], None, "f").unwrap(), "Right.");
        let other = Docs::read(&component_with("package-text", &[right]));
        assert_eq!(other.function(&path(None, "f")), None);
        let many: Vec<&[u8]> = vec![b"\x01{}"; MAX_SECTIONS];
        assert_eq!(comment(&[&many[..], &[right]].concat(), None, "f"), None);
    }

    #[test]
    fn knows_whether_a_type_has_a_comment() {
        let types = r#""types": {"shade": {"docs": "Dark."}}"#;
        for (json, expected) in [
            (format!(r#"{{"worlds": {{"w": {{{types}}}}}}}"#), true),
            (format!(r#"{{"interfaces": {{"i": {{{types}}}}}}}"#), true),
            (
                format!(r#"{{"worlds": {{"w": {{"interfaces": {{"i": {{{types}}}}}}}}}}}"#),
                true,
            ),
            (
                r#"{"worlds": {"w": {"funcs": {"f": {"docs": "F."}}}}, "interfaces": {"i": {}}}"#
                    .to_owned(),
                false,
            ),
        ] {
            let docs = Docs::read(&component(&[format!("\u{1}{json}").as_bytes()]));
            assert_eq!(docs.has_type_comments(), expected, "{json}");
        }
    }

    #[test]
    fn reads_the_example_in_the_guide() {
        let page = include_str!("../../../../docs/guides/typed-tools.md");
        let json = page.split("```json\n").nth(1).unwrap();
        let json = json.split("```").next().unwrap();
        let section = format!("\u{1}{json}");
        let comment = comment(
            &[section.as_bytes()],
            Some("acme:glossary/terms"),
            "look-up",
        );
        assert_eq!(comment.unwrap(), "Looks a term of the glossary up.");
    }

    #[test]
    fn truncated_component_causes_no_panic() {
        let whole = component(&[b"\x01{}"]);
        for end in 0..whole.len() {
            assert!(
                Docs::read(&whole[..end])
                    .function(&path(None, "f"))
                    .is_none()
            );
        }
    }
}
