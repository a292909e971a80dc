//! The first paragraph of a skill's body, which replaces a missing description. This is not
//! a Markdown parser: it skips lines that do not look like prose.

/// The maximum number of characters of a paragraph.
const MAX_CHARS: usize = 300;

/// The maximum number of lines to read. Guards against: a body of 60,000 headings.
const MAX_LINES: usize = 200;

/// Returns the first paragraph as one line, cut at a word, or the first heading if there is no
/// paragraph.
pub fn first(body: &str) -> Option<String> {
    let (mut paragraph, mut heading) = (String::new(), None);
    let mut fence = None;
    for line in body.lines().take(MAX_LINES) {
        let line = line.trim();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.starts_with(mark));
        if fence.is_some() || mark.is_some() {
            if !paragraph.is_empty() {
                break;
            }
            fence = match fence {
                None => mark,
                open if open == mark => None,
                open => open,
            };
            continue;
        }
        if let Some(title) = line.strip_prefix('#') {
            if !paragraph.is_empty() {
                break;
            }
            let title = title.trim_start_matches('#').trim();
            heading = heading.or_else(|| (!title.is_empty()).then_some(title));
            continue;
        }
        if paragraph.is_empty() && !is_prose(line) {
            continue;
        }
        if line.is_empty() || is_rule(line) {
            break;
        }
        if !paragraph.is_empty() {
            paragraph.push(' ');
        }
        paragraph.push_str(line);
        if paragraph.len() > MAX_CHARS * 4 {
            break;
        }
    }
    let found = if paragraph.is_empty() {
        heading?
    } else {
        &paragraph
    };
    Some(cut(found))
}

/// Returns whether a line can start a paragraph. Markup, tables and images cannot.
fn is_prose(line: &str) -> bool {
    let starts = ["<", "|", "![", "[![", "[]("];
    line.contains(char::is_alphanumeric) && !starts.iter().any(|start| line.starts_with(start))
}

/// Returns whether a line is only a separator or the underline of a heading.
fn is_rule(line: &str) -> bool {
    line.chars()
        .all(|c| matches!(c, '-' | '=' | '*' | '_' | ' '))
}

/// Cuts a text at a word, or inside a word that is too long.
fn cut(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(MAX_CHARS) else {
        return text.to_owned();
    };
    let start = &text[..end];
    let words = start.rsplit_once(' ').map(|(words, _)| words);
    let words = words.filter(|words| words.len() > end / 2);
    format!("{}…", words.unwrap_or(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_paragraph_describes_a_skill() {
        for (body, expected) in [
            ("", None),
            ("\n\n---\n", None),
            (
                "# Title\n\nReads PDF\nfiles.\n\nMore.\n",
                Some("Reads PDF files."),
            ),
            ("Text\n# Next\n", Some("Text")),
            ("# Title only\n", Some("Title only")),
            ("Title\n=====\n\nText", Some("Title")),
            (
                "<!-- note -->\n![x](y.png)\n| a | b |\n\nText.\r\n\r\nMore",
                Some("Text."),
            ),
            ("```sh\nrun me\n```\nText", Some("Text")),
            ("~~~\n```\nrun me\n~~~\nText\n```\nx\n```", Some("Text")),
            ("```\nnever closed\n\nText", None),
            ("- one\n- two\n", Some("- one - two")),
            ("**数据**分析\n", Some("**数据**分析")),
        ] {
            assert_eq!(first(body).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn long_paragraph_is_cut_at_a_word() {
        let cut = first(&"word ".repeat(10_000)).unwrap();
        assert!(
            cut.ends_with("word…") && cut.chars().count() <= MAX_CHARS,
            "{cut}"
        );
        let cut = first(&"数".repeat(10_000)).unwrap();
        assert_eq!(cut.chars().count(), MAX_CHARS + 1);
    }
}
