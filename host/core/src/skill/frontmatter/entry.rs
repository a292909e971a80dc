//! What both readers, the strict and the lenient, hand to [`super::fields`]:
//! keys with their lines and with values that keep the text as it was written.
//!
//! Not here: which keys mean something, and what type a value should have.

use std::borrow::Cow;

/// A key, the line of the file it stands on, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) line: u32,
    pub(super) value: Value<'a>,
}

/// A value, by how much of its meaning the notation settles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// Text beyond doubt: quoted, or a block.
    Text(Cow<'a, str>),
    /// Unquoted: YAML may take it for a number, a boolean or nothing at all.
    Plain(Cow<'a, str>),
    /// A list: its items and its source text.
    List { items: Items<'a>, written: &'a str },
    /// A map: its entries where it is not itself inside another, and its source
    /// text.
    Map {
        entries: Vec<Entry<'a>>,
        written: &'a str,
    },
}

/// The items of a list, where all of them are scalars.
pub(super) type Items<'a> = Option<Vec<Cow<'a, str>>>;
