//! A component's metadata: name, version, authors, licence, source and description, in the
//! standard custom sections. Nothing depends on these unverified texts. `skillhost build`
//! writes them.

use wasmparser::{Chunk, ComponentName, KnownCustom, Parser, Payload};

/// A component's metadata. The texts are untrusted: escape them before a person reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentMetadata {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its authors.
    pub authors: Option<String>,
    /// Its licences, as an SPDX expression.
    pub licenses: Option<String>,
    /// The URL of its source.
    pub source: Option<String>,
}

impl ComponentMetadata {
    /// The maximum size of a text, in bytes. Longer texts are omitted. Guards against: a section
    /// that fills the operator's terminal.
    pub const MAX_BYTES: usize = 4 << 10;

    /// Returns each section's name with its text.
    pub fn sections(&self) -> [(&'static str, &Option<String>); 5] {
        [
            ("version", &self.version),
            ("description", &self.description),
            ("authors", &self.authors),
            ("licenses", &self.licenses),
            ("source", &self.source),
        ]
    }

    /// Returns the field for a section's text.
    fn field_mut(&mut self, section: &str) -> Option<&mut Option<String>> {
        match section {
            "version" => Some(&mut self.version),
            "description" => Some(&mut self.description),
            "authors" => Some(&mut self.authors),
            "licenses" => Some(&mut self.licenses),
            "source" => Some(&mut self.source),
            _ => None,
        }
    }

    /// Reads the sections of the outermost component. Ignores texts that are empty, too long or
    /// not UTF-8. If several sections have the same name, uses the last of the others.
    pub(crate) fn read(component: &[u8]) -> Self {
        let mut metadata = Self::default();
        for section in sections(component) {
            let Payload::CustomSection(section) = section else {
                continue;
            };
            match section.as_known() {
                KnownCustom::ComponentName(names) => {
                    let names = names.into_iter().map_while(Result::ok);
                    for name in names {
                        if let ComponentName::Component { name, .. } = name {
                            metadata.name = bounded(name.as_bytes()).or(metadata.name);
                        }
                    }
                }
                _ => {
                    if let Some(text) = metadata.field_mut(section.name()) {
                        *text = bounded(section.data()).or(text.take());
                    }
                }
            }
        }
        metadata
    }
}

/// Returns the sections of the outermost component, up to the first that cannot be read.
pub(super) fn sections(component: &[u8]) -> impl Iterator<Item = Payload<'_>> {
    let (mut parser, mut rest) = (Parser::new(0), component);
    std::iter::from_fn(move || {
        let Ok(Chunk::Parsed { consumed, payload }) = parser.parse(rest, true) else {
            return None;
        };
        rest = rest.get(consumed..).unwrap_or_default();
        match &payload {
            Payload::ModuleSection {
                unchecked_range, ..
            }
            | Payload::ComponentSection {
                unchecked_range, ..
            } => rest = rest.get(unchecked_range.len()..).unwrap_or_default(),
            Payload::End(_) => return None,
            _ => {}
        }
        Some(payload)
    })
}

/// Returns a trimmed text, or `None` if it is empty, too long or not UTF-8.
fn bounded(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?.trim();
    (!text.is_empty() && text.len() <= ComponentMetadata::MAX_BYTES).then(|| text.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a component with these custom sections. The module in it has a section `version`.
    pub(in crate::component) fn component(sections: &[(&str, &[u8])]) -> Vec<u8> {
        let section = |id: u8, content: &[u8], bytes: &mut Vec<u8>| {
            bytes.push(id);
            let mut length = content.len();
            for last in [false, false, false, false, true] {
                bytes.push((length & 0x7f) as u8 | if last { 0 } else { 0x80 });
                length >>= 7;
            }
            bytes.extend_from_slice(content);
        };
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        section(0, b"\x07version9.9.9", &mut module);
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        section(1, &module, &mut bytes);
        for (name, data) in sections {
            let named = [&[name.len() as u8], name.as_bytes(), data].concat();
            section(0, &named, &mut bytes);
        }
        bytes
    }

    fn name(text: &[u8]) -> Vec<u8> {
        [&[0, text.len() as u8 + 1, text.len() as u8], text].concat()
    }

    #[test]
    fn uses_last_of_repeated_sections() {
        let bytes = component(&[
            ("component-name", &name(b"look-up")),
            ("version", b"1.0.0"),
            ("version", b" 1.2.3\n"),
            ("authors", b"A <a@example.org>"),
            ("licenses", b"MIT"),
            ("source", b"https://example.org"),
            ("description", "Ä\n\u{1b}[31m".as_bytes()),
        ]);
        let text = |text: &str| Some(text.to_owned());
        let expected = ComponentMetadata {
            name: text("look-up"),
            version: text("1.2.3"),
            description: text("Ä\n\u{1b}[31m"),
            authors: text("A <a@example.org>"),
            licenses: text("MIT"),
            source: text("https://example.org"),
        };
        assert_eq!(ComponentMetadata::read(&bytes), expected);
        for end in 0..bytes.len() {
            // A truncated component is parsed up to its end.
            ComponentMetadata::read(&bytes[..end]);
        }
    }

    #[test]
    fn omits_unreadable_sections() {
        let long = vec![b'a'; ComponentMetadata::MAX_BYTES + 1];
        let cases: [(&str, &[u8]); 6] = [
            ("version", b""),
            ("version", b" \n"),
            ("version", b"\xff"),
            ("version", &long),
            ("component-name", b"\0\xff\xff\xff\xff\x0f"),
            ("component-name", &[0, 2, 1, 0xff]),
        ];
        for case in cases {
            assert_eq!(
                ComponentMetadata::read(&component(&[case])),
                ComponentMetadata::default(),
                "{case:?}"
            );
        }
    }
}
