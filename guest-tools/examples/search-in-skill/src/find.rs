//! The lines that are found, and how they are shown.

use crate::query::Query;

/// Characters of a line that are shown.
const LINE: usize = 300;

skillhost_guest::record! {
    pub(crate) struct Match {
        file: String,
        line: usize,
        text: String,
        before: Vec<String>,
        after: Vec<String>,
    }
}

/// The matches so far.
pub(crate) struct Found {
    query: Query,
    context: usize,
    most: usize,
    pub(crate) matches: Vec<Match>,
    /// There are more matches than may be given.
    pub(crate) more: bool,
}

impl Found {
    pub(crate) fn new(query: Query, context: usize, most: usize) -> Self {
        Self {
            query,
            context,
            most,
            matches: Vec::new(),
            more: false,
        }
    }

    /// Searches a file. `false`: nothing more needs to be searched.
    pub(crate) fn search(&mut self, path: &str, text: &str) -> bool {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if !self.query.matches(line) {
                continue;
            }
            if self.matches.len() == self.most {
                self.more = true;
                return false;
            }
            let shown = |lines: &[&str]| lines.iter().map(|line| shown(line)).collect();
            let after = (index + 1 + self.context).min(lines.len());
            self.matches.push(Match {
                file: path.to_owned(),
                line: index + 1,
                text: self::shown(line),
                before: shown(&lines[index.saturating_sub(self.context)..index]),
                after: shown(&lines[index + 1..after]),
            });
        }
        true
    }

    /// Returns the text for the model: a line for each match, with the file
    /// and line number. Lines around it have `-` in place of `:`.
    pub(crate) fn text(&self, files: usize, truncated: bool) -> String {
        let mut text = String::new();
        for (index, found) in self.matches.iter().enumerate() {
            if index > 0 && self.context > 0 {
                text.push_str("--\n");
            }
            let first = found.line - found.before.len();
            let before = (first..).zip(&found.before);
            let after = (found.line + 1..).zip(&found.after);
            let here = (found.line, &found.text);
            for (mark, (line, shown)) in before
                .map(|line| ('-', line))
                .chain([(':', here)])
                .chain(after.map(|line| ('-', line)))
            {
                let line = format!("{}{mark}{line}{mark} {shown}", found.file);
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        let matches = counted(self.matches.len(), "match", "matches");
        let files = counted(files, "file", "files");
        text.push_str(&format!("{matches}; {files} searched"));
        if truncated {
            text.push_str("; there is more: search in a part of the skill, or more closely");
        }
        text
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{count} {word}")
}

fn shown(line: &str) -> String {
    match line.char_indices().nth(LINE) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}
