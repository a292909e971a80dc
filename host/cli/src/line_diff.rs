//! The lines that differ between two texts.

/// The maximum number of pairs of lines that are compared. Guards against: long texts that differ
/// everywhere. If there are more pairs, all lines between the equal start and the equal end are
/// reported as changed.
const MAX_PAIRS: usize = 4_000_000;

/// The number of characters shown before the first difference of a long line.
const CHARS_BEFORE_DIFFERENCE: usize = 40;

/// A line that only one of the texts has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineChange<'t> {
    /// A line of the old text.
    Removed(&'t str),
    /// A line of the new text.
    Added(&'t str),
}

/// Returns the lines that differ, in the order of the texts.
pub(crate) fn line_diff<'t>(old: &'t str, new: &'t str) -> Vec<LineChange<'t>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let pairs = || old.iter().zip(&new);
    let start = pairs().take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[start..], &new[start..]);
    let pairs = old.iter().rev().zip(new.iter().rev());
    let end = pairs.take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    let mut changes = Vec::new();
    let (mut old_index, mut new_index) = (0, 0);
    if old.len().saturating_mul(new.len()) <= MAX_PAIRS {
        let common = common_counts(old, new);
        let common_from =
            |old_index: usize, new_index: usize| common[old_index * (new.len() + 1) + new_index];
        while old_index < old.len() && new_index < new.len() {
            if old[old_index] == new[new_index] {
                old_index += 1;
                new_index += 1;
            } else if common_from(old_index + 1, new_index) >= common_from(old_index, new_index + 1)
            {
                changes.push(LineChange::Removed(old[old_index]));
                old_index += 1;
            } else {
                changes.push(LineChange::Added(new[new_index]));
                new_index += 1;
            }
        }
    }
    changes.extend(
        old[old_index..]
            .iter()
            .map(|line| LineChange::Removed(line)),
    );
    changes.extend(new[new_index..].iter().map(|line| LineChange::Added(line)));
    changes
}

/// Returns whether two texts also differ in a way that `changes` does not show: in line ends, or in
/// bytes that are not UTF-8.
pub(crate) fn has_hidden_changes(texts: [&[u8]; 2], changes: &[LineChange<'_>]) -> bool {
    let [old, new] = texts.map(|text| -> String {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        lines
            .map(|line| format!("{}\n", line.escape_ascii()))
            .collect()
    });
    line_diff(&old, &new).len() > changes.len()
}

impl<'t> LineChange<'t> {
    fn text(self) -> &'t str {
        let (Self::Removed(text) | Self::Added(text)) = self;
        text
    }

    fn is_added(self) -> bool {
        matches!(self, Self::Added(_))
    }

    /// Returns the part of the line to show, and whether the start of the line is left out. Leaves
    /// out the start if the first difference would otherwise be too far right to show in `max`
    /// characters. Leaves out nothing after it. Compares the line with the one of the other text in
    /// `changes` that has the longest equal start.
    pub(crate) fn differing_part(self, changes: &[Self], max: usize) -> (&'t str, bool) {
        let text = self.text();
        let others = changes.iter().filter(|it| it.is_added() != self.is_added());
        let common = |other: &Self| {
            let pairs = text.chars().zip(other.text().chars());
            pairs.take_while(|(a, b)| a == b).count()
        };
        let common = others.map(common).max().unwrap_or_default();
        if common + CHARS_BEFORE_DIFFERENCE <= max {
            return (text, false);
        }
        let mut chars = text.char_indices();
        let start = chars
            .nth(common - CHARS_BEFORE_DIFFERENCE)
            .map_or(0, |(start, _)| start);
        (&text[start..], start > 0)
    }
}

/// Returns, for each pair of positions, the length of the longest common subsequence of the lines
/// from there to the end.
fn common_counts(old: &[&str], new: &[&str]) -> Vec<u32> {
    let width = new.len() + 1;
    let mut common = vec![0; (old.len() + 1) * width];
    for old_index in (0..old.len()).rev() {
        for new_index in (0..new.len()).rev() {
            common[old_index * width + new_index] = if old[old_index] == new[new_index] {
                common[(old_index + 1) * width + new_index + 1] + 1
            } else {
                common[(old_index + 1) * width + new_index]
                    .max(common[old_index * width + new_index + 1])
            };
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::LineChange::{Added, Removed};
    use super::*;

    #[test]
    fn shows_long_lines_where_they_differ() {
        let same = "é".repeat(200);
        let (old, new) = (format!("{same}old"), format!("{same}new"));
        let longer = format!("{old}er");
        let changes = [Removed("x"), Removed(&old), Added(&new), Added("y")];
        let part = |index: usize| changes[index].differing_part(&changes, 160);
        assert_eq!(part(0), ("x", false));
        let expected = format!("{}old", "é".repeat(CHARS_BEFORE_DIFFERENCE));
        assert_eq!(part(1), (&*expected, true));
        assert_eq!(part(2), (&*expected.replace("old", "new"), true));
        // One line is a prefix of the other.
        let changes = [Removed(&old), Added(&longer)];
        let parts = changes.map(|it| it.differing_part(&changes, 160).0.to_owned());
        assert_eq!(parts[1], format!("{}er", parts[0]));
        assert_eq!(Added(&new).differing_part(&[], 160), (&*new, false));
    }

    #[test]
    fn finds_the_lines_that_differ() {
        assert_eq!(line_diff("a\nb\nc\n", "a\nb\nc"), []);
        assert_eq!(line_diff("", "a"), [Added("a")]);
        assert_eq!(line_diff("a", ""), [Removed("a")]);
        assert_eq!(
            line_diff("a\nb\nc\nd\ne", "a\nx\nc\ne\nf"),
            [Removed("b"), Added("x"), Removed("d"), Added("f")]
        );
        assert_eq!(
            line_diff("a\nb\na\nb", "b\na\nb\na"),
            [Removed("a"), Added("a")]
        );
    }

    #[test]
    fn finds_changes_that_no_line_shows() {
        for (old, new, is_hidden) in [
            (&b"a\nb\n"[..], &b"a\nb\n"[..], false),
            (b"a\nb\n", b"a\nc\nb\n", false),
            (b"a\xff\n", b"b\xff\n", false),
            (b"", b"a", false),
            (b"a\nb\n", b"a\r\nb\r\n", true),
            (b"a\n", b"a", true),
            (b"a\xff\n", b"a\xfe\n", true),
            // The changed second line is shown, but not the new line end of the first.
            (b"a\nb\n", b"a\r\nc\n", true),
        ] {
            let [old_text, new_text] = [old, new].map(String::from_utf8_lossy);
            let changes = line_diff(&old_text, &new_text);
            let found = has_hidden_changes([old, new], &changes);
            assert_eq!(found, is_hidden, "{old_text:?} {new_text:?}");
        }
    }

    #[test]
    fn long_texts_take_bounded_work() {
        let text = |prefix: &str| -> String {
            (0..100_000)
                .map(|line| format!("{prefix}{line}\n"))
                .collect()
        };
        let (old, new) = (text("a"), text("b"));
        assert_eq!(line_diff(&old, &new).len(), 200_000);
        // Equal lines at both ends are not changes.
        let (old, new) = (format!("{old}x\n{new}"), format!("{old}y\n{new}"));
        assert_eq!(line_diff(&old, &new), [Removed("x"), Added("y")]);
    }
}
