//! Checks of a skill against the Agent Skills specification.
//!
//! This file has the type of a finding, and the rules for SKILL.md that are not in a file of
//! `check/`. Those files have:
//!
//! - `name.rs`: names
//! - `disputes.rs`: rules on which the specification and its reference validator disagree
//! - `hidden.rs`: hidden text
//! - `before.rs`: text before the frontmatter
//! - `extensions.rs`: keys of other hosts
//! - `placeholders.rs`: text that other hosts replace
//! - `links.rs`, `code_paths.rs`: references to files, which `markdown.rs` finds
//! - `folder.rs`: the folder and its SKILL.md, and whether the files of the references exist
//! - `linked.rs`: the text of linked files
//! - `contents.rs`: the files of a skill beside its SKILL.md
//! - `rules.rs`: the table of all rules
//!
//! `frontmatter` parses the frontmatter.
//!
//! A violation of the specification or of its reference validator (`skills-ref`) is an
//! error. Violated recommendations and misleading text are warnings. If the specification
//! and the validator disagree, the message says which one decides, and the finding may be a
//! warning.

mod before;
mod code_paths;
pub(crate) mod contents;
mod disputes;
mod extensions;
mod folder;
mod hidden;
mod linked;
mod links;
mod markdown;
mod name;
mod placeholders;
mod rule;
mod rules;

use crate::frontmatter::{self, Field, Frontmatter, Problem, ProblemKind, Reading, Split, quoted};

use disputes::{BY_SPECIFICATION, BY_VALIDATOR};
pub use extensions::ignored_key;
pub use folder::check_folder;
pub(crate) use folder::check_open_folder;
pub use links::{Reference, references};
pub use placeholders::{Placeholder, PlaceholderKind, placeholders};
pub use rule::Rule;
pub use rules::rules;

/// The maximum number of characters in a `description`, from the specification.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;

/// The maximum number of characters in `compatibility`, from the specification.
pub const MAX_COMPATIBILITY_CHARS: usize = 500;

/// The number of lines that a SKILL.md should stay below, from the specification: an agent loads
/// the whole file into its context.
pub const RECOMMENDED_LINES: usize = 500;

/// The number of tokens that a body should stay below, from the specification.
pub const RECOMMENDED_TOKENS: usize = 5000;

/// The number of characters per token, to estimate the tokens of a body. It is about right for
/// English prose, and too high for code and most other languages.
const CHARS_PER_TOKEN: usize = 4;

/// The rules of this file.
const RULES: &[Rule] = &[
    Rule::error(
        "frontmatter-required",
        "SKILL.md has no frontmatter.",
        "The first line must be `---`, followed by `name`, `description` and a second line `---`.",
    ),
    Rule::error(
        "frontmatter-unclosed",
        "The frontmatter has no end.",
        "Write a line `---` after its last key.",
    ),
    Rule::error(
        "frontmatter-too-large",
        "The frontmatter is too large to be read.",
        "Move text to the body. A host shows only `name` and `description` before it reads the \
         body.",
    ),
    Rule::error(
        "yaml-invalid",
        "The frontmatter is not valid YAML.",
        "Fix the line. A value that has a colon and a blank, or starts with a special character, \
         needs quotes.",
    ),
    Rule::error(
        "key-duplicate",
        "A key occurs twice.",
        "Remove one of them. Programs disagree about which one counts.",
    ),
    Rule::error(
        "key-unknown",
        "A key is not part of the format.",
        "Correct its spelling, or put it under `metadata`, as text. Some hosts refuse a skill with an \
         unknown key.",
    ),
    Rule::error(
        "value-type",
        "A value has the wrong type.",
        "Write text, and for `metadata` a map of texts.",
    ),
    Rule::warning(
        "value-not-text",
        "A value is a number or a boolean instead of text.",
        "Put it in quotes. Programs write such values differently: `1.10` may become `1.1`.",
    ),
    Rule::warning(
        "yaml-braces",
        "The frontmatter or a value in it is in braces.",
        "Put each key on its own line. The reference validator refuses braces.",
    ),
    Rule::warning(
        "allowed-tools-list",
        "`allowed-tools` is a list.",
        "Write one text, with blanks between the tools.",
    ),
    Rule::warning(
        "allowed-tools-commas",
        "`allowed-tools` has commas between the tools.",
        "Use blanks. A program that splits at blanks reads the comma as part of a tool's name.",
    ),
    Rule::error(
        "description-required",
        "`description` is missing or empty.",
        "Say what the skill does and when to use it. Agents choose a skill by its description.",
    ),
    Rule::error(
        "description-length",
        "`description` is too long.",
        "Write at most 1024 characters, and move details to the body.",
    ),
    Rule::error(
        "compatibility-length",
        "`compatibility` is empty or too long.",
        "Name what the skill needs in at most 500 characters, or leave the key out.",
    ),
    Rule::error(
        "file-name",
        "The file with the skill's instructions is not named `SKILL.md`.",
        "Rename it. Most programs open exactly `SKILL.md`.",
    ),
    Rule::warning(
        "file-lines",
        "SKILL.md has many lines.",
        "Keep it below 500 lines, and move details to other files. An agent loads the whole file.",
    ),
    Rule::warning(
        "body-empty",
        "The body is empty.",
        "Write the instructions after the frontmatter.",
    ),
    Rule::warning(
        "body-tokens",
        "The body is long.",
        "Keep it below 5000 tokens, and move details to other files. An agent loads the whole \
         body.",
    ),
    Rule::warning(
        "reference-missing",
        "The body refers to a file that the skill does not have.",
        "Add the file or fix the path. An agent that tries to read it wastes a call.",
    ),
];

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A violated recommendation.
    Warning,
    /// A violated requirement.
    Error,
}

/// A fault of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The path of the file in the skill's folder, or `None` if it is SKILL.md.
    pub file: Option<String>,
    /// The line in the file, from 1, if the fault has one.
    pub line: Option<u32>,
    /// The rule's id, which is stable across releases.
    pub rule: &'static str,
    /// The fault and how to fix it.
    pub message: String,
}

impl Finding {
    /// Creates an error in SKILL.md. `rule` is the id of one of the [`rules`].
    pub fn error(rule: &'static str, line: Option<u32>, message: String) -> Self {
        Self::new(Severity::Error, rule, line, message)
    }

    /// Creates a warning about SKILL.md. `rule` is the id of one of the [`rules`].
    pub fn warning(rule: &'static str, line: Option<u32>, message: String) -> Self {
        Self::new(Severity::Warning, rule, line, message)
    }

    fn new(severity: Severity, rule: &'static str, line: Option<u32>, message: String) -> Self {
        debug_assert!(
            rules().any(|known| known.id == rule),
            "the rule `{rule}` is not in the table"
        );
        Self {
            severity,
            file: None,
            line,
            rule,
            message,
        }
    }
}

/// Checks a skill, given its folder's name, and the name and text of its SKILL.md.
/// Returns the findings sorted by line; those about the whole file come first.
pub fn check(folder_name: &str, file_name: &str, text: &str) -> Vec<Finding> {
    let reading = frontmatter::read(text);
    let mut findings = Vec::new();
    findings.extend(file_name_finding(file_name));
    findings.extend(check_frontmatter(folder_name, &reading));
    hidden::findings(&reading, &mut findings);
    let is_frontmatter_reported = findings.iter().any(|found| found.rule == "text-hidden");
    findings.extend(hidden::document::skill_findings(
        text,
        &reading.split,
        is_frontmatter_reported,
    ));
    findings.extend(disputes::findings(text, &reading));
    findings.extend(lines_finding(text));
    findings.extend(body_finding(&reading.split));
    findings.extend(links::findings(&reading.split));
    findings.extend(placeholders::findings(&reading.split));
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// Checks only the frontmatter. Listings of many skills use this, because it is much faster than a
/// full check.
pub fn check_frontmatter(folder_name: &str, reading: &Reading<'_>) -> Vec<Finding> {
    let mut findings: Vec<_> = reading.problems.iter().map(from_problem).collect();
    if reading.split.yaml.is_none() {
        // The problems already include unclosed frontmatter.
        let body = reading.split.body;
        findings.extend((!reading.split.unclosed).then(|| before::finding(body)));
        return findings;
    }
    let is_too_large = |problem: &Problem| problem.kind == ProblemKind::TooLarge;
    if reading.problems.iter().any(is_too_large) {
        return findings;
    }
    let frontmatter = &reading.frontmatter;
    name::findings(folder_name, frontmatter.name.as_ref(), &mut findings);
    findings.extend(description_finding(frontmatter.description.as_ref()));
    findings.extend(compatibility_finding(frontmatter.compatibility.as_ref()));
    findings.extend(tools_finding(frontmatter.allowed_tools.as_ref()));
    findings.extend(unknown_findings(frontmatter));
    findings
}

/// Returns the finding for a [`Reference`] to a missing file.
pub fn missing_reference(line: u32, path: &str) -> Finding {
    let message = format!(
        "the body refers to {}, but the skill has no such file",
        quoted(path)
    );
    Finding::warning("reference-missing", Some(line), message)
}

fn from_problem(problem: &Problem) -> Finding {
    let (severity, rule) = match problem.kind {
        ProblemKind::Unclosed => (Severity::Error, "frontmatter-unclosed"),
        ProblemKind::TooLarge => (Severity::Error, "frontmatter-too-large"),
        ProblemKind::NotYaml => (Severity::Error, "yaml-invalid"),
        ProblemKind::DuplicateKey => (Severity::Error, "key-duplicate"),
        ProblemKind::WrongType => (Severity::Error, "value-type"),
        // The reference validator reads every scalar as text.
        ProblemKind::NotText => (Severity::Warning, "value-not-text"),
        // The specification requires one text; its validator does not check it.
        ProblemKind::ToolList => (Severity::Warning, "allowed-tools-list"),
        // The validator refuses braces; the specification does not mention them.
        ProblemKind::Braces => (Severity::Warning, "yaml-braces"),
    };
    let note = disputes::deciding_note(problem);
    let message = format!("{} {note}", problem.message);
    Finding::new(
        severity,
        rule,
        Some(problem.line),
        message.trim_end().to_owned(),
    )
}

fn file_name_finding(file_name: &str) -> Option<Finding> {
    let rule = "file-name";
    let message = || {
        format!(
            "the file is named {}: `SKILL.md` is expected",
            quoted(file_name)
        )
    };
    match file_name {
        "SKILL.md" => None,
        // The reference validator also accepts this spelling.
        "skill.md" => Some(Finding::warning(
            rule,
            None,
            format!("{} {BY_SPECIFICATION}", message()),
        )),
        _ => Some(Finding::error(rule, None, message())),
    }
}

fn description_finding(field: Option<&Field<String>>) -> Option<Finding> {
    let rule = "description-required";
    let Some(field) = field else {
        let message = "`description` is missing: say what the skill does and when to use it";
        return Some(Finding::error(rule, None, message.to_owned()));
    };
    if field.value.is_empty() {
        let message = "`description` is empty: say what the skill does and when to use it";
        return Some(Finding::error(rule, Some(field.line), message.to_owned()));
    }
    length_finding(
        "description",
        field,
        MAX_DESCRIPTION_CHARS,
        "description-length",
    )
}

fn compatibility_finding(field: Option<&Field<String>>) -> Option<Finding> {
    let field = field?;
    let rule = "compatibility-length";
    if field.value.is_empty() {
        let message = "`compatibility` is empty: name what the skill needs, or leave it out";
        let message = format!("{message} {BY_SPECIFICATION}");
        return Some(Finding::error(rule, Some(field.line), message));
    }
    length_finding("compatibility", field, MAX_COMPATIBILITY_CHARS, rule)
}

fn length_finding(
    key: &str,
    field: &Field<String>,
    max: usize,
    rule: &'static str,
) -> Option<Finding> {
    let chars = field.value.chars().count();
    (chars > max).then(|| {
        let message = format!("`{key}` has {chars} characters: at most {max} are allowed");
        Finding::error(rule, Some(field.line), message)
    })
}

/// Returns a finding if commas separate the tools, as in older skills. Commas in parentheses
/// belong to a tool.
fn tools_finding(field: Option<&Field<String>>) -> Option<Finding> {
    let field = field?;
    let mut depth: usize = 0;
    let separates = |char| {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        char == ',' && depth == 0
    };
    field.value.chars().any(separates).then(|| {
        let message =
            format!("`allowed-tools` has commas between the tools: use blanks {BY_SPECIFICATION}");
        Finding::warning("allowed-tools-commas", Some(field.line), message)
    })
}

fn unknown_findings(frontmatter: &Frontmatter) -> impl Iterator<Item = Finding> {
    frontmatter.unknown.iter().map(|pair| {
        if let Some(finding) = extensions::finding(pair) {
            return finding;
        }
        let allowed = frontmatter::KEYS.map(|key| format!("`{key}`")).join(", ");
        let letters = |key: &str| key.replace(['-', '_'], "").to_lowercase();
        let mut known = frontmatter::KEYS.into_iter().chain(extensions::keys());
        let meant = known.find(|key| letters(key) == letters(&pair.key));
        let advice = match meant {
            Some(key) => format!("write `{key}`"),
            None => "put it under `metadata`".to_owned(),
        };
        let message = format!(
            "{} is not a key of the format, which has {allowed}: {advice} {BY_VALIDATOR}",
            quoted(&pair.key)
        );
        Finding::error("key-unknown", Some(pair.line), message)
    })
}

fn lines_finding(text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    (lines >= RECOMMENDED_LINES).then(|| {
        let message = format!(
            "the file has {lines} lines: keep it below {RECOMMENDED_LINES}, and move details to \
             other files"
        );
        Finding::warning("file-lines", None, message)
    })
}

fn body_finding(split: &Split<'_>) -> Option<Finding> {
    let line = Some(split.body_line);
    if split.body.trim().is_empty() {
        let message = "the body is empty: write the instructions after the frontmatter";
        return Some(Finding::warning("body-empty", line, message.to_owned()));
    }
    let tokens = split.body.chars().count() / CHARS_PER_TOKEN;
    (tokens >= RECOMMENDED_TOKENS).then(|| {
        let message = format!(
            "the body has about {tokens} tokens (an estimate: characters divided by \
             {CHARS_PER_TOKEN}): keep it below {RECOMMENDED_TOKENS}"
        );
        Finding::warning("body-tokens", line, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns findings as text, one per line.
    fn shown(findings: &[Finding]) -> String {
        let shown = findings.iter().map(|finding| {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            let line = finding.line.map_or("-".to_owned(), |line| line.to_string());
            format!("{line} {severity} {}: {}\n", finding.rule, finding.message)
        });
        shown.collect()
    }

    #[test]
    fn checks_a_skill() {
        let good = "---\nname: a\ndescription: Adds.\n---\n# A\n";
        let cases = [
            ("good", "SKILL.md", good.to_owned(), ""),
            (
                "all keys",
                "SKILL.md",
                "---\nname: a\ndescription: Adds.\nlicense: MIT\ncompatibility: git\nmetadata:\n  \
                 version: \"1\"\nallowed-tools: Read Bash(a, b)\n---\nSee [x](docs/x.md).\n"
                    .to_owned(),
                "",
            ),
            (
                "file in lower case",
                "skill.md",
                good.to_owned(),
                "- warning file-name: the file is named `skill.md`: `SKILL.md` is expected (by \
                 the specification; its reference validator accepts it)\n",
            ),
            (
                "file in upper case",
                "SKILL.MD",
                good.to_owned(),
                "- error file-name: the file is named `SKILL.MD`: `SKILL.md` is expected\n",
            ),
            (
                "no frontmatter",
                "SKILL.md",
                "# A\n".to_owned(),
                "1 error frontmatter-required: there is no frontmatter: the first line must be \
                 `---`, with `name` and `description` below it\n",
            ),
            (
                "unclosed frontmatter",
                "SKILL.md",
                "---\nname: a\n".to_owned(),
                "1 error frontmatter-unclosed: the frontmatter is not closed: a second line `---` \
                 is missing\n",
            ),
            (
                "nothing in it",
                "SKILL.md",
                "---\n---\n".to_owned(),
                "- error name-required: `name` is missing: `a`, the folder's name, is expected\n\
                 - error description-required: `description` is missing: say what the skill does and when to use it\n\
                 3 warning body-empty: the body is empty: write the instructions after the frontmatter\n",
            ),
            (
                "empty values",
                "SKILL.md",
                "---\nname: \"\"\ndescription:\ncompatibility: ' '\nmetadata:\n---\nx".to_owned(),
                "2 error name-required: `name` is empty: `a`, the folder's name, is expected\n\
                 3 error description-required: `description` is empty: say what the skill does and when to use it\n\
                 4 error compatibility-length: `compatibility` is empty: name what the skill needs, or leave it out (by the specification; its reference validator accepts it)\n",
            ),
            (
                "too long",
                "SKILL.md",
                format!(
                    "---\nname: a\ndescription: {}\ncompatibility: {}\n---\nx",
                    "é".repeat(1025),
                    "é".repeat(501)
                ),
                "3 error description-length: `description` has 1025 characters: at most 1024 are allowed\n\
                 4 error compatibility-length: `compatibility` has 501 characters: at most 500 are allowed\n",
            ),
            (
                "just short enough",
                "SKILL.md",
                format!(
                    "---\nname: a\ndescription: {}\ncompatibility: {}\n---\nx",
                    "é".repeat(1024),
                    "é".repeat(500)
                ),
                "",
            ),
            (
                "problems of reading, in the order of the lines",
                "SKILL.md",
                "---\nname: a\nallowed-tools: [Read]\nmetadata: {v: 1}\nversion: 1\nname: \
                 a\ndescription: b\n---\nx"
                    .to_owned(),
                "3 warning allowed-tools-list: `allowed-tools` is a list: write one text, with blanks between the tools (by the specification; its reference validator accepts a list on several lines)\n\
                 4 warning yaml-braces: `metadata` is in braces, which the reference validator refuses: put each key on its own line (by the reference validator; the specification does not say)\n\
                 4 warning value-not-text: `metadata.v` is a number, `1`, not text: put it in quotes (by the specification; its reference validator accepts it)\n\
                 5 error key-unknown: `version` is not a key of the format, which has `name`, `description`, `license`, `compatibility`, `metadata`, `allowed-tools`: put it under `metadata` (by the reference validator; the specification does not say)\n\
                 6 error key-duplicate: `name` occurs twice: the one on line 2 counts (by the reference validator; the specification does not say)\n",
            ),
            (
                "keys in another spelling, and tools whose names have blanks",
                "SKILL.md",
                "---\nname: a\ndescription: b\nallowed-tools:\n  - Cloud Tools/read\n  - Bash(git \
                 log)\ndisableModelInvocation: true\nallowed_tools: x\n---\nx"
                    .to_owned(),
                "4 warning allowed-tools-list: `allowed-tools` is a list, not text with blanks between the tools: some names of tools contain blanks (by the specification; its reference validator accepts a list on several lines)\n\
                 7 error key-unknown: `disableModelInvocation` is not a key of the format, which has `name`, `description`, `license`, `compatibility`, `metadata`, `allowed-tools`: write `disable-model-invocation` (by the reference validator; the specification does not say)\n\
                 8 error key-unknown: `allowed_tools` is not a key of the format, which has `name`, `description`, `license`, `compatibility`, `metadata`, `allowed-tools`: write `allowed-tools` (by the reference validator; the specification does not say)\n",
            ),
            (
                "rule of the specification alone",
                "SKILL.md",
                "---\nname: a\ndescription: b\nlicense: [MIT]\n---\nx".to_owned(),
                "4 error value-type: `license` is a list, not text (by the specification; its \
                 reference validator does not check it)\n",
            ),
            (
                "quotes over lines that are not indented",
                "SKILL.md",
                "---\nname: a\ndescription: \"b\nc\"\n---\nx".to_owned(),
                "4 error yaml-invalid: not valid YAML, so it was read line by line: invalid \
                 indentation in multiline quoted scalar; put the value of `description` in \
                 quotes, on one line (by YAML; the reference validator accepts it)\n",
            ),
            (
                "tools with commas",
                "SKILL.md",
                "---\nname: a\ndescription: b\nallowed-tools: Read, Grep\n---\nx".to_owned(),
                "4 warning allowed-tools-commas: `allowed-tools` has commas between the tools: \
                 use blanks (by the specification; its reference validator accepts it)\n",
            ),
            (
                "many lines",
                "SKILL.md",
                good.to_owned() + &"x\n".repeat(495),
                "- warning file-lines: the file has 500 lines: keep it below 500, and move \
                 details to other files\n",
            ),
            (
                "not quite many lines",
                "SKILL.md",
                good.to_owned() + &"x\n".repeat(494),
                "",
            ),
            (
                "many tokens",
                "SKILL.md",
                good.to_owned() + &"x".repeat(20_000),
                "5 warning body-tokens: the body has about 5001 tokens (an estimate: characters \
                 divided by 4): keep it below 5000\n",
            ),
            (
                "references in folders and outside",
                "SKILL.md",
                good.to_owned() + "[a](b/c/d.md)\n[e](../f.md)\n",
                "7 warning reference-outside: the body refers to `../f.md`, which is outside the skill's folder\n",
            ),
        ];
        for (name, file_name, text, want) in cases {
            assert_eq!(shown(&check("a", file_name, &text)), want, "{name}");
        }
    }

    #[test]
    fn reports_only_the_size_of_oversized_frontmatter() {
        let text = format!(
            "---\nx: {}\n---\nx",
            "y".repeat(frontmatter::MAX_FRONTMATTER_BYTES)
        );
        let findings = check("a", "SKILL.md", &text);
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, ["frontmatter-too-large"]);
    }

    #[test]
    fn hostile_texts_do_not_break_the_check() {
        for text in frontmatter::hostile::texts(4_000) {
            let last_line = 1 + text.bytes().filter(|&byte| byte == b'\n').count();
            let in_file = |line: u32| (1..=last_line).contains(&(line as usize));
            for finding in check("a", "SKILL.md", &text) {
                assert!(finding.line.is_none_or(in_file), "{finding:?}: {text:?}");
                assert!(finding.message.len() < 1000, "{finding:?}");
                assert!(!finding.message.contains(char::is_control), "{finding:?}");
            }
            let split = frontmatter::split(&text);
            for reference in references(split.body, split.body_line) {
                assert!(in_file(reference.line), "{reference:?}: {text:?}");
                assert!(!reference.path.is_empty(), "{reference:?}: {text:?}");
                assert!(
                    !reference.path.starts_with(['/', '\\']),
                    "{reference:?}: {text:?}"
                );
            }
        }
    }

    /// Checks bodies of `SIZE` bytes, each the slowest of its kind. `frontmatter` has a similar
    /// test.
    #[test]
    fn hostile_bodies_take_little_time() {
        // Quadratic work takes a quarter of a minute for this size.
        const SIZE: usize = 128 * 1024;
        let runs: String = (1..150).map(|length| "`".repeat(length) + " ").collect();
        let worst = "](¦](a ¦](<¦](<a>¦(¦)¦`¦` ¦\\¦[a]: ¦[a]:\n¦```\n¦~~~~¦%¦](%¦](a/¦](../¦\n¦a¦\
        [a](b)\n¦[¦]:¦<!--¦a <!--¦\n<!--¦a <!--\n¦<!-- -->¦[a]:x\u{a0}[b]:<¦\u{200b}¦\
        \u{1f3f4}\u{e0061}¦> a\n<b>\n<a b=\"c\n\n¦# [^a]: b\n¦[^¦[^a[b]: c\n\n¦\
        > a\n<b>\n~~~\n\n¦- a\n<b>\n¦- [^a\\]: ¦[a](b(¦[a](b \"c\\\"";
        let cells = format!(
            "<b>\n\n> {}\n> {}\n",
            "|a".repeat(16 * 1024),
            "|-".repeat(16 * 1024)
        );
        let items = format!("<b>\n\n{}{}", "- ".repeat(67), "a".repeat(SIZE - 200));
        for piece in worst.split('¦').chain([&*runs, &cells, &items]) {
            for length in [16 * 1024, SIZE] {
                let line = piece.repeat((length - 1) / piece.len()) + "\n";
                let body = line.repeat(SIZE / line.len());
                let start = frontmatter::hostile::processor_time();
                check("a", "SKILL.md", &body);
                let took = frontmatter::hostile::processor_time() - start;
                assert!(took.as_secs() < 2, "{piece:?} took {took:?}");
            }
        }
    }

    #[test]
    fn missing_reference_is_a_warning() {
        let want = "7 warning reference-missing: the body refers to `docs/a.md`, but the skill \
                    has no such file\n";
        assert_eq!(shown(&[missing_reference(7, "docs/a.md")]), want);
    }
}
