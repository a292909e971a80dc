//! The lines that differ between two texts.

/// The maximum number of pairs of lines that are compared. Guards against: long texts that differ
/// everywhere. Beyond it, all their lines count as changed.
const MAX_PAIRS: usize = 4_000_000;

/// A line of one of the texts only.
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
    let (mut at, mut to) = (0, 0);
    if old.len().saturating_mul(new.len()) <= MAX_PAIRS {
        let common = common_lines(old, new);
        let left = |at: usize, to: usize| common[at * (new.len() + 1) + to];
        while at < old.len() && to < new.len() {
            if old[at] == new[to] {
                (at, to) = (at + 1, to + 1);
            } else if left(at + 1, to) >= left(at, to + 1) {
                changes.push(LineChange::Removed(old[at]));
                at += 1;
            } else {
                changes.push(LineChange::Added(new[to]));
                to += 1;
            }
        }
    }
    changes.extend(old[at..].iter().map(|line| LineChange::Removed(line)));
    changes.extend(new[to..].iter().map(|line| LineChange::Added(line)));
    changes
}

/// Returns the length of the longest common sequence of the lines from each pair of positions on.
fn common_lines(old: &[&str], new: &[&str]) -> Vec<u32> {
    let width = new.len() + 1;
    let mut common = vec![0; (old.len() + 1) * width];
    for at in (0..old.len()).rev() {
        for to in (0..new.len()).rev() {
            common[at * width + to] = if old[at] == new[to] {
                common[(at + 1) * width + to + 1] + 1
            } else {
                common[(at + 1) * width + to].max(common[at * width + to + 1])
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
