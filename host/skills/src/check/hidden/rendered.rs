//! Finds the footnotes and link labels of a Markdown text that a rendered page shows.

use std::collections::{HashMap, HashSet};

use pulldown_cmark::{Event, LinkType, Tag, TagEnd};

use super::super::markdown::{Markdown, ODD, ODD_ESCAPE};
use super::html::{hides_rest, without_marks};

/// The maximum indentation of a footnote. Text with more belongs to the block before it.
const MAX_INDENT: usize = 3;

/// The maximum size of a label, in bytes, whose footnote is treated as shown. Pages show a number
/// instead of the label, so a long label can hide text.
const MAX_LABEL_BYTES: usize = 40;

/// The labels and footnotes that a rendered page shows.
pub(super) struct Rendered {
    /// The labels of links like `[label]`, which show their label. Each is [`folded`].
    pub(super) labels: HashSet<String>,
    /// The byte offsets at which the footnotes start.
    pub(super) footnotes: HashSet<usize>,
}

impl Rendered {
    /// Finds what the page of a text shows. It shows a footnote if the body or another
    /// shown footnote refers to it.
    ///
    /// Renderers differ about labels with unusual characters, about several footnotes with one
    /// label and about footnotes in others. None of these is treated as shown. If a comment or tag
    /// hides the rest of the page, no footnote is, because GitHub shows footnotes at the end.
    pub(super) fn from(markdown: &Markdown) -> Self {
        let text = &*markdown.text;
        let mut labels = HashSet::new();
        // The start of each label's footnote. `None` for a footnote that is not treated as shown.
        let mut starts: HashMap<String, Option<usize>> = HashMap::new();
        // The labels of the footnotes to which each footnote refers, by its start. The body has no
        // start.
        let mut references: HashMap<Option<usize>, Vec<String>> = HashMap::new();
        let mut open = Vec::new();
        let mut is_end_hidden = false;
        let mut quotes = 0;
        for (event, range) in markdown.parser().into_offset_iter() {
            match event {
                Event::Start(Tag::BlockQuote(_)) => quotes += 1,
                Event::End(TagEnd::BlockQuote(_)) => quotes -= 1,
                Event::Start(
                    Tag::Link { link_type, id, .. } | Tag::Image { link_type, id, .. },
                ) if matches!(link_type, LinkType::Shortcut | LinkType::Collapsed) => {
                    labels.insert(folded(&id));
                }
                Event::Start(Tag::FootnoteDefinition(label)) => {
                    let is_plain = open.is_empty()
                        && is_plain_label(&label)
                        && column(text, range.start) <= MAX_INDENT;
                    starts
                        .entry(folded(&label))
                        .and_modify(|start| *start = None)
                        .or_insert(is_plain.then_some(range.start));
                    open.push(range.start);
                }
                Event::End(TagEnd::FootnoteDefinition) => {
                    open.pop();
                }
                Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => {
                    is_end_hidden |= hides_rest(&without_marks(&text[range], quotes));
                }
                Event::FootnoteReference(label) => {
                    let from = open.last().copied();
                    references.entry(from).or_default().push(folded(&label));
                }
                _ => {}
            }
        }
        let mut footnotes = HashSet::new();
        if is_end_hidden {
            references.clear();
        }
        let mut shown = references.remove(&None).unwrap_or_default();
        while let Some(label) = shown.pop() {
            if let Some(&Some(start)) = starts.get(&label)
                && footnotes.insert(start)
            {
                shown.extend(references.remove(&Some(start)).unwrap_or_default());
            }
        }
        Self { labels, footnotes }
    }
}

/// Returns whether all renderers read a footnote's label in the same way.
fn is_plain_label(label: &str) -> bool {
    let is_odd = |c| " \t\n\r[]\\".contains(c) || [ODD, ODD_ESCAPE].map(char::from).contains(&c);
    label.len() <= MAX_LABEL_BYTES && !label.contains(is_odd)
}

/// Returns the number of bytes between the byte `at` of a text and the start of its line, or a number
/// over [`MAX_INDENT`].
fn column(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[at.saturating_sub(MAX_INDENT + 1)..at];
    let mut bytes = before.iter().rev();
    let end = bytes.position(|byte| matches!(byte, b'\n' | b'\r'));
    end.unwrap_or(before.len())
}

/// Returns a label in a form without upper and lower case, whose difference renderers ignore.
pub(super) fn folded(label: &str) -> String {
    label.to_lowercase().to_uppercase()
}
