//! The output of the strict and the lenient parser, which [`super::fields`] reads: keys with their
//! lines, and values with their source text.

use std::borrow::Cow;

/// A key with its line in the file and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct YamlEntry<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) line: u32,
    pub(super) value: YamlValue<'a>,
}

/// A value, as one of the notations of YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum YamlValue<'a> {
    /// Text in quotes, or in a block after `|` or `>`.
    Text(Cow<'a, str>),
    /// Unquoted text, which YAML may interpret as a number, a boolean or null.
    Plain(Cow<'a, str>),
    /// A list with its items and its source text.
    List { items: Items<'a>, source: &'a str },
    /// A map with its source text, and with its entries if it is not inside another map.
    Map {
        entries: Vec<YamlEntry<'a>>,
        source: &'a str,
    },
}

/// The items of a list, or `None` if some are not scalars.
pub(super) type Items<'a> = Option<Vec<Cow<'a, str>>>;
