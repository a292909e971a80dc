//! Collects the matching lines and formats them.

use crate::query::Query;

/// The maximum number of characters to show of a line.
const MAX_LINE_CHARS: usize = 300;

skillhost_guest::record! {
    pub(crate) struct Match {
        file: String,
        line: usize,
        text: String,
        before: Vec<String>,
        after: Vec<String>,
    }
}

/// A search, and the matches that it has found.
pub(crate) struct Search {
    query: Query,
    /// The number of lines to show before and after each match.
    context: usize,
    max_matches: usize,
    pub(crate) matches: Vec<Match>,
    /// True if there are more matches than the maximum.
    pub(crate) has_more: bool,
}

impl Search {
    pub(crate) fn new(query: Query, context: usize, max_matches: usize) -> Self {
        Self {
            query,
            context,
            max_matches,
            matches: Vec::new(),
            has_more: false,
        }
    }

    /// Searches a file. Returns `false` if there are more matches than the maximum.
    pub(crate) fn search(&mut self, path: &str, text: &str) -> bool {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if !self.query.matches(line) {
                continue;
            }
            if self.matches.len() == self.max_matches {
                self.has_more = true;
                return false;
            }
            let shorten_all = |lines: &[&str]| lines.iter().map(|line| shorten(line)).collect();
            let first = index.saturating_sub(self.context);
            let end = (index + 1 + self.context).min(lines.len());
            self.matches.push(Match {
                file: path.to_owned(),
                line: index + 1,
                text: shorten(line),
                before: shorten_all(&lines[first..index]),
                after: shorten_all(&lines[index + 1..end]),
            });
        }
        true
    }

    /// Returns the text for the model: a line for each match, with the file and the line
    /// number. The lines around a match have `-` instead of `:`.
    pub(crate) fn text(&self, file_count: usize, is_truncated: bool) -> String {
        let mut text = String::new();
        for (index, matched) in self.matches.iter().enumerate() {
            if index > 0 && self.context > 0 {
                text.push_str("--\n");
            }
            let first = matched.line - matched.before.len();
            let before = (first..).zip(&matched.before);
            let after = (matched.line + 1..).zip(&matched.after);
            let matching = (matched.line, &matched.text);
            for (mark, (number, content)) in before
                .map(|line| ('-', line))
                .chain([(':', matching)])
                .chain(after.map(|line| ('-', line)))
            {
                let line = format!("{}{mark}{number}{mark} {content}", matched.file);
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        let matches = counted(self.matches.len(), "match", "matches");
        let files = counted(file_count, "file", "files");
        text.push_str(&format!("{matches}; {files} searched"));
        if is_truncated {
            text.push_str("; there is more: search a part of the skill, or use a narrower query");
        }
        text
    }
}

fn counted(count: usize, singular: &str, plural: &str) -> String {
    let noun = if count == 1 { singular } else { plural };
    format!("{count} {noun}")
}

fn shorten(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}
