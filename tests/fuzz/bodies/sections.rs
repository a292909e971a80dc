//! A component as a tree of sections. After an edit, the lengths of all sections are still right.
//! Almost every component with random edits to its bytes would be refused for a wrong length.

/// A section: its kind and its content.
#[derive(Clone)]
struct Section {
    kind: u8,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Bytes(Vec<u8>),
    /// A core module or a component, which has sections of its own.
    Nested(Binary),
}

/// A core module or a component.
#[derive(Clone)]
pub(crate) struct Binary {
    header: [u8; 8],
    sections: Vec<Section>,
}

impl Binary {
    /// Parses a well-formed component.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let (header, mut rest) = bytes.split_first_chunk::<8>()?;
        // Kinds 1 and 4 are nested in a component; in a core module they are types and tables.
        let is_component = header[6] == 1;
        let mut sections = Vec::new();
        while let Some((kind, after)) = rest.split_first() {
            let (length, after) = number(after)?;
            let (content, after) = after.split_at_checked(length)?;
            let nested = is_component && matches!(kind, 1 | 4);
            sections.push(Section {
                kind: *kind,
                content: if nested {
                    Content::Nested(Self::new(content)?)
                } else {
                    Content::Bytes(content.to_vec())
                },
            });
            rest = after;
        }
        Some(Self {
            header: *header,
            sections,
        })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.to_vec();
        for section in &self.sections {
            let content = match &section.content {
                Content::Bytes(content) => content.clone(),
                Content::Nested(binary) => binary.bytes(),
            };
            bytes.push(section.kind);
            put_number(content.len(), &mut bytes);
            bytes.extend(content);
        }
        bytes
    }

    /// Makes the edit that the next bytes of `edits` select.
    pub(crate) fn edit(&mut self, edits: &mut impl Iterator<Item = u8>) {
        let mut next = || usize::from(edits.next().unwrap_or(0));
        let (operation, which, at) = (next(), next(), next() << 8 | next());
        let value = u8::try_from(next()).unwrap_or(0);
        let Some(index) = which.checked_rem(self.sections.len()) else {
            return;
        };
        if let Content::Nested(binary) = &mut self.sections[index].content
            && operation & 0x80 == 0
        {
            return binary.edit(edits);
        }
        let other = at % self.sections.len();
        match (operation % 8, &mut self.sections[index].content) {
            (0, _) => drop(self.sections.remove(index)),
            (1, _) => {
                let copy = self.sections[index].clone();
                self.sections.insert(other, copy);
            }
            (2, _) => self.sections.swap(index, other),
            (3, _) => self.sections[index].kind = value % 16,
            (4, Content::Bytes(bytes)) => bytes.insert(at % (bytes.len() + 1), value),
            (5, Content::Bytes(bytes)) if !bytes.is_empty() => {
                bytes.remove(at % bytes.len());
            }
            (_, Content::Bytes(bytes)) if !bytes.is_empty() => {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            _ => {}
        }
    }
}

/// Reads an unsigned LEB128 number. Returns it and the rest.
fn number(mut bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        number |= usize::from(byte & 0x7f) << shift;
        bytes = rest;
        if byte & 0x80 == 0 {
            return Some((number, bytes));
        }
    }
    None
}

fn put_number(mut number: usize, bytes: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}
