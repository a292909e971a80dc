//! Quotes of names in messages. Manifests, indexes and lock files are as long as their authors like.

use skillhost_skills::text::line::Line;

/// The maximum characters of a quote. Longer than a reference with a digest.
const MAX_CHARS: usize = 512;

/// Returns the start of a text, escaped.
pub fn quote(text: &str) -> Line {
    Line::start(text, MAX_CHARS)
}
