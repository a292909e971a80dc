//! The output of both readers, strict and lenient, for [`super::fields`]: keys with
//! their lines, and values with their source text.
//!
//! Not here: the meaning of keys, and the types of their values.

use std::borrow::Cow;

/// A key, its line in the file, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlEntry<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) line: u32,
    pub(super) value: YamlValue<'a>,
}

/// A value, by its notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum YamlValue<'a> {
    /// Text: quoted, or a block.
    Text(Cow<'a, str>),
    /// Unquoted: YAML may read it as a number, a boolean or null.
    Plain(Cow<'a, str>),
    /// A list: its items and its source text.
    List { items: Items<'a>, written: &'a str },
    /// A map: its entries if it is not inside another map, and its source text.
    Map {
        entries: Vec<YamlEntry<'a>>,
        written: &'a str,
    },
}

/// The items of a list, if all are scalars.
pub(super) type Items<'a> = Option<Vec<Cow<'a, str>>>;
