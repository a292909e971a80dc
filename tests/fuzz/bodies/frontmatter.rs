//! Reads and checks a SKILL.md.
//!
//! For every text, line numbers are in the file, messages are short and have no control character,
//! no reference leads out of the skill, and the guest's own reader finds the same body.

use skillhost::check::{Finding, check, references};
use skillhost::frontmatter::{self, Frontmatter, KEYS, MAX_FRONTMATTER_BYTES, Reading};

/// The maximum length of a message, in characters.
const LONGEST_MESSAGE: usize = 1000;

pub(crate) fn run(data: &[u8]) {
    // `peek_skill_md` replaces invalid UTF-8 like this.
    let text = &*String::from_utf8_lossy(data);
    let reading = frontmatter::read(text);
    let last_line = 1 + text.matches('\n').count();
    let in_file = |line: u32| (1..=last_line).contains(&(line as usize));

    let split = &reading.split;
    assert!(text.ends_with(split.body), "{text:?}");
    let before = &text[..text.len() - split.body.len()];
    assert_eq!(
        split.body_line as usize,
        1 + before.matches('\n').count(),
        "{text:?}"
    );
    assert!(
        split.yaml.is_none_or(|yaml| before.contains(yaml)),
        "{text:?}"
    );
    assert!(!split.unclosed || split.yaml.is_none(), "{text:?}");
    assert_eq!(
        skillhost_guest::without_frontmatter(text),
        split.body,
        "{text:?}"
    );

    for line in lines(&reading) {
        assert!(in_file(line), "line {line} of {last_line}: {text:?}");
    }
    match split.yaml {
        Some(yaml) if yaml.len() <= MAX_FRONTMATTER_BYTES => check_values(&reading, yaml),
        _ => assert_eq!(reading.frontmatter, Frontmatter::default(), "{text:?}"),
    }
    for problem in &reading.problems {
        check_message(&problem.message, text);
    }

    let findings = check("calculator", "SKILL.md", text);
    for Finding { line, message, .. } in &findings {
        assert!(line.is_none_or(in_file), "{line:?}: {text:?}");
        check_message(message, text);
    }
    assert!(
        findings.is_sorted_by_key(|finding| finding.line),
        "{text:?}"
    );
    for reference in references(split.body, split.body_line) {
        assert!(in_file(reference.line), "{reference:?}: {text:?}");
        assert!(stays_inside(&reference.path), "{reference:?}: {text:?}");
    }
}

fn check_message(message: &str, text: &str) {
    assert!(
        !message.is_empty() && message.chars().count() <= LONGEST_MESSAGE,
        "{message:?}: {text:?}"
    );
    assert!(!message.contains(char::is_control), "{message:?}: {text:?}");
}

/// Checks that no unknown key occurs twice or belongs to the format, and that values are
/// trimmed and at most three times as long as the frontmatter. A decoded escape can be longer than
/// its source.
fn check_values(reading: &Reading<'_>, yaml: &str) {
    let found = &reading.frontmatter;
    for (index, pair) in found.unknown.iter().enumerate() {
        assert!(!KEYS.contains(&&*pair.key), "{pair:?}: {yaml:?}");
        let mut earlier = found.unknown[..index].iter();
        assert!(earlier.all(|other| other.key != pair.key), "{yaml:?}");
    }
    for (key, value) in [
        ("name", &found.name),
        ("description", &found.description),
        ("license", &found.license),
        ("compatibility", &found.compatibility),
    ] {
        let value = value.as_ref().map_or("", |field| &field.value);
        assert!(value.len() <= yaml.len() * 3, "{key} {value:?}: {yaml:?}");
        assert_eq!(value.trim(), value, "{key}: {yaml:?}");
    }
}

/// Returns every line number in a reading.
fn lines(reading: &Reading<'_>) -> Vec<u32> {
    let found = &reading.frontmatter;
    let texts = [
        &found.name,
        &found.description,
        &found.license,
        &found.compatibility,
        &found.allowed_tools,
    ];
    let mut lines = vec![reading.split.body_line];
    lines.extend(texts.into_iter().flatten().map(|field| field.line));
    if let Some(field) = &found.metadata {
        lines.push(field.line);
        lines.extend(field.value.iter().map(|pair| pair.line));
    }
    lines.extend(found.unknown.iter().map(|pair| pair.line));
    lines.extend(reading.problems.iter().map(|problem| problem.line));
    lines
}

/// Returns whether a path never leads above its start.
fn stays_inside(path: &str) -> bool {
    let mut below = 0_i64;
    let inside = path.split('/').all(|name| {
        below += match name {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        below >= 0
    });
    inside && !path.starts_with(['/', '~']) && !path.contains(['\0', '\\'])
}
