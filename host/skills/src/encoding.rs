//! Decodes the bytes of a SKILL.md, which must be UTF-8, or says what is wrong with them.

use std::fmt;

/// The reason why the bytes of a SKILL.md are not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodingFault {
    /// The file is UTF-16, as some shells write it.
    Utf16,
    /// The file is UTF-32.
    Utf32,
    /// The file is not UTF-8, and may be Latin-1.
    NotUtf8 {
        /// The line of the first wrong byte, from 1.
        line: u32,
    },
}

impl EncodingFault {
    /// Returns a fault if the start of a file looks like UTF-16 or UTF-32.
    ///
    /// Without a byte order mark, such a file can be valid UTF-8 with NUL bytes. But no text
    /// starts with a NUL, or with one character and a NUL.
    pub fn of_start(start: &[u8]) -> Option<Self> {
        match start {
            [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some(Self::Utf32),
            [0, 0, 0, 1..=0xff, ..] | [1..=0xff, 0, 0, 0, ..] => Some(Self::Utf32),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(Self::Utf16),
            [0, 1..=0xff, ..] | [1..=0xff, 0, ..] => Some(Self::Utf16),
            _ => None,
        }
    }

    /// Returns the line of the fault, if it has one.
    pub fn line(self) -> Option<u32> {
        match self {
            Self::NotUtf8 { line } => Some(line),
            Self::Utf16 | Self::Utf32 => None,
        }
    }
}

impl fmt::Display for EncodingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf16 => f.write_str("`SKILL.md` is UTF-16; save it as UTF-8"),
            Self::Utf32 => f.write_str("`SKILL.md` is UTF-32; save it as UTF-8"),
            Self::NotUtf8 { line } => {
                write!(
                    f,
                    "`SKILL.md` is not UTF-8 on line {line}; save it as UTF-8"
                )
            }
        }
    }
}

/// Returns the bytes of a SKILL.md as text. If `is_cut`, the file is longer than these bytes, and
/// an incomplete last character is dropped.
pub fn decode(bytes: Vec<u8>, is_cut: bool) -> Result<String, EncodingFault> {
    if let Some(fault) = EncodingFault::of_start(&bytes) {
        return Err(fault);
    }
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let (valid_length, is_unfinished) = (
        error.utf8_error().valid_up_to(),
        error.utf8_error().error_len().is_none(),
    );
    let mut bytes = error.into_bytes();
    bytes.truncate(valid_length);
    match String::from_utf8(bytes) {
        Ok(text) if is_cut && is_unfinished => Ok(text),
        valid_text => {
            let lines = valid_text.unwrap_or_default().matches('\n').count() + 1;
            let line = u32::try_from(lines).unwrap_or(u32::MAX);
            Err(EncodingFault::NotUtf8 { line })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, bytes: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    fn utf32(text: &str, bytes: impl Fn(u32) -> [u8; 4]) -> Vec<u8> {
        text.chars().flat_map(|c| bytes(u32::from(c))).collect()
    }

    #[test]
    fn names_the_encoding() {
        use EncodingFault::{NotUtf8, Utf16, Utf32};
        let plain = "---\nname: é\n---\n";
        for mark in ["\u{feff}", ""] {
            let text = format!("{mark}{plain}");
            assert_eq!(decode(text.clone().into(), false), Ok(text.clone()));
            for (bytes, fault) in [
                (utf16(&text, u16::to_le_bytes), Utf16),
                (utf16(&text, u16::to_be_bytes), Utf16),
                (utf32(&text, u32::to_le_bytes), Utf32),
                (utf32(&text, u32::to_be_bytes), Utf32),
            ] {
                for is_cut in [false, true] {
                    assert_eq!(decode(bytes.clone(), is_cut), Err(fault), "{mark:?}");
                }
            }
        }
        for (bytes, expected) in [
            (&b""[..], Ok("")),
            (b"a", Ok("a")),
            (b"a b\0", Ok("a b\0")),
            (b"caf\xe9", Err(NotUtf8 { line: 1 })),
            (b"a\n\nna\xefve\n", Err(NotUtf8 { line: 3 })),
            (b"\xe9", Err(NotUtf8 { line: 1 })),
        ] {
            let text = decode(bytes.to_vec(), false);
            assert_eq!(text.as_deref(), expected.as_deref(), "{bytes:?}");
        }
    }

    #[test]
    fn drops_incomplete_last_character_of_cut_file() {
        let text = "a\né數😀";
        for length in 0..=text.len() {
            let bytes = text.as_bytes()[..length].to_vec();
            let whole = &text[..text.floor_char_boundary(length)];
            assert_eq!(decode(bytes.clone(), true).as_deref(), Ok(whole));
            let is_whole = text.is_char_boundary(length);
            assert_eq!(decode(bytes, false).is_ok(), is_whole, "{length}");
        }
        let wrong = b"a\n\xe9b\xc3".to_vec();
        assert_eq!(decode(wrong, true), Err(EncodingFault::NotUtf8 { line: 2 }));
    }
}
