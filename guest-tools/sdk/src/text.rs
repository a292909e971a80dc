//! Decodes bytes to text and detects their encoding.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use crate::Failure;

/// The reason why bytes are not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotText {
    /// Not valid UTF-8.
    InvalidUtf8,
    /// Not valid UTF-16, although they start with its byte order mark.
    InvalidUtf16,
    /// Control characters that text does not have.
    Binary,
    /// No encoding could be detected.
    UnknownEncoding,
}

const UTF8_BOM: &[u8] = b"\xEF\xBB\xBF";

/// Returns UTF-8 text without its byte order mark. Reuses the allocation of `bytes`.
pub fn utf8(mut bytes: Vec<u8>) -> Result<String, NotText> {
    if bytes.starts_with(UTF8_BOM) {
        bytes.drain(..UTF8_BOM.len());
    }
    String::from_utf8(bytes).map_err(|_| NotText::InvalidUtf8)
}

/// Decodes UTF-8, UTF-16 with a byte order mark and, with the feature
/// `legacy-encodings`, older encodings. Returns the text and the WHATWG label of its
/// encoding.
pub fn decode(bytes: Vec<u8>) -> Result<(String, &'static str), NotText> {
    match bytes.as_slice() {
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes).map(|text| (text, "utf-16le")),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes).map(|text| (text, "utf-16be")),
        _ if core::str::from_utf8(&bytes).is_ok() => utf8(bytes).map(|text| (text, "utf-8")),
        _ => legacy(&bytes),
    }
}

fn utf16(bytes: &[u8], to_unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let units = bytes.chunks_exact(2);
    if !units.remainder().is_empty() {
        return Err(NotText::InvalidUtf16);
    }
    char::decode_utf16(units.map(|pair| to_unit([pair[0], pair[1]])))
        .collect::<Result<String, _>>()
        .map_err(|_| NotText::InvalidUtf16)
}

#[cfg(not(feature = "legacy-encodings"))]
fn legacy(_: &[u8]) -> Result<(String, &'static str), NotText> {
    Err(NotText::InvalidUtf8)
}

#[cfg(feature = "legacy-encodings")]
fn legacy(bytes: &[u8]) -> Result<(String, &'static str), NotText> {
    /// The maximum number of bytes from which to detect the encoding. Guards against: a
    /// large file that takes long.
    const MAX_DETECTION_BYTES: usize = 64 * 1024;

    // Every byte is valid in windows-1252, so only control characters show that a file
    // is binary.
    if bytes.iter().any(|byte| is_binary(*byte)) {
        return Err(NotText::Binary);
    }
    let head = &bytes[..bytes.len().min(MAX_DETECTION_BYTES)];
    let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Deny);
    detector.feed(head, head.len() == bytes.len());
    let encoding = detector.guess(None, chardetng::Utf8Detection::Deny);
    let (text, had_errors) = encoding.decode_without_bom_handling(bytes);
    if had_errors {
        return Err(NotText::UnknownEncoding);
    }
    Ok((text.into_owned(), label(encoding)))
}

#[cfg(feature = "legacy-encodings")]
fn is_binary(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0B | 0x0C | 0x1B)
}

/// Returns the WHATWG label of an encoding: its name in lower case.
#[cfg(feature = "legacy-encodings")]
fn label(encoding: &'static encoding_rs::Encoding) -> &'static str {
    match encoding.name() {
        "Big5" => "big5",
        "EUC-JP" => "euc-jp",
        "EUC-KR" => "euc-kr",
        "GBK" => "gbk",
        "gb18030" => "gb18030",
        "IBM866" => "ibm866",
        "ISO-8859-2" => "iso-8859-2",
        "ISO-8859-4" => "iso-8859-4",
        "ISO-8859-5" => "iso-8859-5",
        "ISO-8859-6" => "iso-8859-6",
        "ISO-8859-7" => "iso-8859-7",
        "ISO-8859-8" => "iso-8859-8",
        "ISO-8859-13" => "iso-8859-13",
        "KOI8-U" => "koi8-u",
        "Shift_JIS" => "shift_jis",
        other => other,
    }
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidUtf8 => "not valid UTF-8 text",
            Self::InvalidUtf16 => "not valid UTF-16 text",
            Self::Binary => "binary file, not text",
            Self::UnknownEncoding => "not text in any known encoding",
        })
    }
}

impl core::error::Error for NotText {}

impl From<NotText> for Failure {
    fn from(error: NotText) -> Self {
        Self::unreadable(error.to_string())
    }
}
