//! Finds the hidden characters of a text, except those that emoji and some languages need.

use std::ops::RangeInclusive;

use crate::text::line::is_hidden;

/// Letters of the writing systems that use joiners: Arabic to N'Ko, Devanagari to Sinhala, Myanmar,
/// Khmer, Mongolian, and the Arabic presentation forms.
const JOINING: [RangeInclusive<char>; 7] = [
    '\u{600}'..='\u{8ff}',
    '\u{900}'..='\u{dff}',
    '\u{1000}'..='\u{109f}',
    '\u{1780}'..='\u{17ff}',
    '\u{1800}'..='\u{18af}',
    '\u{fb50}'..='\u{fdff}',
    '\u{fe70}'..='\u{fefc}',
];

/// Symbols that can be emoji, and the modifiers of skin colour.
const SYMBOLS: [RangeInclusive<char>; 5] = [
    '\u{a9}'..='\u{ae}',
    '\u{203c}'..='\u{2049}',
    '\u{2100}'..='\u{2bff}',
    '\u{3030}'..='\u{303d}',
    '\u{1f000}'..='\u{1faff}',
];

/// The emoji that starts a regional flag. Tags follow it.
const BLACK_FLAG: char = '\u{1f3f4}';

/// The character that ends the tags of a regional flag.
const CANCEL_TAG: char = '\u{e007f}';

/// The maximum number of tags in a regional flag: a country of two letters and a region of three
/// characters. Guards against: a flag with a whole text in its tags.
const MAX_FLAG_TAGS: usize = 5;

/// The kinds of hidden characters that [`kind`] distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A tag character, an invisible copy of an ASCII character.
    Tag,
    /// A control or mark for the direction of text.
    Direction,
    /// A character without width: a space, joiner, selector or filler.
    ZeroWidth,
    /// Another hidden character, such as a control character.
    Other,
}

/// Returns the kind of a hidden character.
pub(super) fn kind(c: char) -> Kind {
    match c {
        '\u{e0000}'..='\u{e007f}' => Kind::Tag,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Kind::Direction
        }
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{e0080}'..='\u{e0fff}' => Kind::ZeroWidth,
        _ => Kind::Other,
    }
}

/// Returns the hidden characters of a text, each with its position in characters.
///
/// Leaves out legitimate ones: line breaks, the selector after an emoji, the tags of a regional
/// flag, and a joiner between two emoji or two letters of a writing system that uses joiners.
pub(super) fn hidden_characters(text: &str) -> Vec<(usize, char)> {
    let is_in = |ranges: &[RangeInclusive<char>], c: Option<char>| {
        c.is_some_and(|c| !is_hidden(c) && ranges.iter().any(|range| range.contains(&c)))
    };
    let mut found = Vec::new();
    let mut before = None;
    // The position of the last tag of a flag.
    let mut flag_end = None;
    let mut chars = text.chars().enumerate();
    while let Some((number, c)) = chars.next() {
        let mut rest = chars.clone().map(|(_, c)| c);
        if c == BLACK_FLAG {
            flag_end = flag_tags(rest.clone()).map(|tags| number + tags);
        }
        let after = rest.next();
        let is_needed = match c {
            '\n' | '\t' => true,
            // A terminal writes the text after a single CR over the text before it.
            '\r' => after.is_none_or(|c| c == '\n'),
            '\u{fe0e}' | '\u{fe0f}' => {
                is_in(&SYMBOLS, before)
                    || before.is_some_and(|c| c.is_ascii_digit() || "#*".contains(c))
            }
            '\u{200c}' | '\u{200d}' if is_in(&JOINING, before) => is_in(&JOINING, after),
            // A selector may come between an emoji and its joiner.
            '\u{200d}' => {
                (is_in(&SYMBOLS, before) || before == Some('\u{fe0f}')) && is_in(&SYMBOLS, after)
            }
            _ => flag_end.is_some_and(|end| number <= end),
        };
        if is_hidden(c) && !is_needed {
            found.push((number, c));
        }
        before = Some(c);
    }
    found
}

/// Returns the number of tags after a black flag, including the one that ends them. Returns `None`
/// if they do not make a regional flag.
fn flag_tags(after: impl Iterator<Item = char>) -> Option<usize> {
    let is_region = |c: char| matches!(c, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}');
    for (tags, c) in after.take(MAX_FLAG_TAGS + 1).enumerate() {
        match c {
            CANCEL_TAG if tags > 0 => return Some(tags + 1),
            c if !is_region(c) => return None,
            _ => {}
        }
    }
    None
}
