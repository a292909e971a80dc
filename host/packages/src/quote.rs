//! Quotes of names and of parsers in messages. Manifests, indexes and lock files are as long as their authors like.

use std::fmt;

use anyhow::anyhow;
use skillhost_skills::text::line::Line;

/// The maximum characters of a quote. Longer than a reference with a digest.
const MAX_CHARS: usize = 512;

/// Returns the start of an error of a parser, which may quote what it parses.
pub(crate) fn quote_error(error: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::msg(quote(&error.to_string()))
}

/// Returns the start of an error about a TOML file, with the line.
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
