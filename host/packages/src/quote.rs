//! Quotes of foreign text in messages. They are short, because others decide how long the text is.

use std::fmt;

use anyhow::anyhow;
use skillhost_skills::text::line::Line;

/// The maximum number of characters of a quote. A reference with a digest is shorter.
const MAX_CHARS: usize = 512;

/// Returns the start of a parser's error, which can quote the parsed text.
pub(crate) fn quote_error(error: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::msg(quote(&error.to_string()))
}

/// Returns the start of an error about a TOML file, with its line number.
pub(crate) fn quote_toml_error(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let message = quote(error.message());
    let before = error.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => anyhow!("line {}: {message}", before.matches('\n').count() + 1),
        None => anyhow!("{message}"),
    }
}

/// Returns the start of a text, escaped.
pub fn quote(text: &str) -> Line {
    Line::start(text, MAX_CHARS)
}
