//! Parsing of SKILL.md: its frontmatter, its body, and problems.
//!
//! [`read`] tries YAML first, and a lenient parser if the YAML is invalid. Each step has a
//! file: `split` (fences and body), `yaml` (strict), `lenient` and `text` (line by line),
//! `fields` (keys to fields, and their types). [`read_json`] is for callers that forward
//! frontmatter: it returns all keys, and refuses invalid YAML.
//!
//! `check` has the rules of the Agent Skills specification; here a frontmatter without a
//! name is fine. The input is text and may be hostile, so every step is bounded by
//! constants and takes linear time.

mod entry;
mod fields;
#[cfg(test)]
pub(crate) mod hostile;
mod lenient;
mod split;
mod text;
mod yaml;

pub use split::{Split, split};

use serde_json::{Map, Value};

use crate::text::line::Line;

/// The maximum size of frontmatter, in bytes. Guards against: a skill that makes a listing parse
/// megabytes. The specification's limits add up to less than two kilobytes. A caller that
/// does not need the body reads only this much and the two fence lines.
pub const MAX_FRONTMATTER_BYTES: usize = 64 * 1024;

/// The maximum number of characters that a message quotes from a skill. Guards against: a message
/// as long as a file.
const MAX_QUOTED_CHARS: usize = 80;

/// The keys of the format, in the specification's order.
pub const KEYS: [&str; 6] = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
];

/// The key with which an author hides a skill from models. Other hosts read it too.
pub const DISABLE_MODEL_INVOCATION: &str = "disable-model-invocation";

/// A value and the line of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<T> {
    /// The value, without surrounding blanks.
    pub value: T,
    /// The line of the key.
    pub line: u32,
}

/// A key inside `metadata`, or a key that the format does not define.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: String,
    /// The value. For a list or a map, its source text.
    pub value: String,
    /// True if the value is one scalar without quotes. YAML may read it as a boolean or a number.
    pub is_bare: bool,
    /// The line of the key.
    pub line: u32,
}

/// The fields of a frontmatter. They are untrusted: a name can be any text of at most
/// [`MAX_FRONTMATTER_BYTES`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontmatter {
    /// `name`.
    pub name: Option<Field<String>>,
    /// `description`.
    pub description: Option<Field<String>>,
    /// `license`.
    pub license: Option<Field<String>>,
    /// `compatibility`.
    pub compatibility: Option<Field<String>>,
    /// `allowed-tools`. The items of a list are joined by blanks.
    pub allowed_tools: Option<Field<String>>,
    /// The entries of `metadata`, in the order of the file.
    pub metadata: Option<Field<Vec<Pair>>>,
    /// Keys that the format does not define, in the order of the file.
    pub unknown: Vec<Pair>,
}

impl Frontmatter {
    /// Returns whether the author hides the skill from models, with the boolean `true` of YAML
    /// 1.2. The text `"true"` has no effect.
    pub fn disables_model_invocation(&self) -> bool {
        let mut pairs = self.unknown.iter();
        let pair = pairs.find(|pair| pair.key == DISABLE_MODEL_INVOCATION);
        pair.is_some_and(|pair| pair.is_bare && matches!(&*pair.value, "true" | "True" | "TRUE"))
    }
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The closing `---` is missing. Nothing was parsed.
    Unclosed,
    /// The frontmatter exceeds [`MAX_FRONTMATTER_BYTES`]. Nothing was parsed.
    TooLarge,
    /// The YAML is invalid. It was parsed line by line.
    NotYaml,
    /// A key occurs twice. The first one is used.
    DuplicateKey,
    /// A value is a number, boolean, date or null instead of text. Its source text is used, or an
    /// empty text for null.
    NotText,
    /// A value is a list or map instead of text, or text instead of a map.
    WrongType,
    /// `allowed-tools` is a list instead of one text. Its items were joined.
    ToolList,
    /// A map is in braces, which YAML allows and the reference validator refuses.
    Braces,
}

/// A problem of a frontmatter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind, for a program.
    pub kind: ProblemKind,
    /// The line of the file, from 1.
    pub line: u32,
    /// The message, for an operator.
    pub message: String,
}

/// The contents of a SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// The frontmatter and the body, as text.
    pub split: Split<'a>,
    /// The fields of the frontmatter. All are absent without frontmatter.
    pub frontmatter: Frontmatter,
    /// The problems, in the order in which they were found.
    pub problems: Vec<Problem>,
}

/// Parses the text of a SKILL.md. Never fails: an invalid part becomes a problem in the
/// result. Does not parse the body.
pub fn read(text: &str) -> Reading<'_> {
    let split = split(text);
    let mut problems = Vec::new();
    let frontmatter = match split.yaml {
        Some(yaml) if yaml.len() <= MAX_FRONTMATTER_BYTES => parse(yaml, &mut problems),
        Some(yaml) => {
            problems.push(too_large(yaml.len()));
            Frontmatter::default()
        }
        None => {
            problems.extend(split.unclosed.then(|| unclosed(&split)));
            Frontmatter::default()
        }
    };
    Reading {
        split,
        frontmatter,
        problems,
    }
}

/// Parses the frontmatter of a SKILL.md as JSON, with all keys and the types of YAML.
/// Returns `None` if there is no frontmatter.
///
/// Fails for invalid YAML, for YAML that JSON cannot express, and for frontmatter that is not
/// closed or exceeds [`MAX_FRONTMATTER_BYTES`].
pub fn read_json(text: &str) -> Result<Option<Map<String, Value>>, Problem> {
    let split = split(text);
    match split.yaml {
        Some(yaml) if yaml.len() <= MAX_FRONTMATTER_BYTES => {
            let object = yaml::object(yaml, Split::YAML_LINE);
            object.map(Some).map_err(|error| Problem {
                kind: ProblemKind::NotYaml,
                line: error.line,
                message: format!(
                    "the frontmatter is not YAML that JSON can express: {}",
                    Line::start(&error.message, MAX_QUOTED_CHARS)
                ),
            })
        }
        Some(yaml) => Err(too_large(yaml.len())),
        None if split.unclosed => Err(unclosed(&split)),
        None => Ok(None),
    }
}

/// Parses YAML that is one object, such as another program's lock file, as JSON.
///
/// Fails for invalid YAML, for YAML that JSON cannot express, and for more than
/// [`MAX_FRONTMATTER_BYTES`]. An error in the YAML names its line.
pub fn read_yaml(text: &str) -> Result<Map<String, Value>, String> {
    if text.len() > MAX_FRONTMATTER_BYTES {
        return Err(format!(
            "the YAML has more than {MAX_FRONTMATTER_BYTES} bytes"
        ));
    }
    yaml::object(text, 1).map_err(|error| {
        format!(
            "line {}: {}",
            error.line,
            Line::start(&error.message, MAX_QUOTED_CHARS)
        )
    })
}

fn parse(yaml: &str, problems: &mut Vec<Problem>) -> Frontmatter {
    let error = match yaml::entries(yaml, Split::YAML_LINE) {
        Ok(entries) => return fields::assemble(entries, problems),
        Err(error) => error,
    };
    // An author may mean a line such as `---# Title` to end the frontmatter.
    let (yaml, _) = yaml.split_once("\n---").unwrap_or((yaml, ""));
    let reading = lenient::entries(yaml, Split::YAML_LINE);
    problems.push(not_yaml(error, reading.key_to_fix));
    fields::assemble(reading.entries, problems)
}

fn not_yaml(error: yaml::YamlError, key_to_fix: Option<&str>) -> Problem {
    let advice = match key_to_fix {
        _ if error.message.starts_with("tabs") => "; indent with blanks".to_owned(),
        _ if error.message.starts_with("unexpected character") => {
            "; remove the character".to_owned()
        }
        Some(key) => format!("; put the value of {} in quotes, on one line", quoted(key)),
        None => String::new(),
    };
    Problem {
        kind: ProblemKind::NotYaml,
        line: error.line,
        message: format!(
            "not valid YAML, so it was read line by line: {}{advice}",
            // The parser's message may quote a character of the text.
            Line::start(&error.message, MAX_QUOTED_CHARS)
        ),
    }
}

fn too_large(bytes: usize) -> Problem {
    Problem {
        kind: ProblemKind::TooLarge,
        line: 1,
        message: format!(
            "the frontmatter has {bytes} bytes and was not read: at most \
             {MAX_FRONTMATTER_BYTES} are allowed"
        ),
    }
}

fn unclosed(split: &Split<'_>) -> Problem {
    // A list reads only the start of a file, so it may not see where the frontmatter ends.
    let message = if split.body.len() > MAX_FRONTMATTER_BYTES {
        format!(
            "the frontmatter was not read: a second line `---` is missing in its first \
             {MAX_FRONTMATTER_BYTES} bytes, and no more are allowed"
        )
    } else {
        "the frontmatter is not closed: a second line `---` is missing".to_owned()
    };
    Problem {
        kind: ProblemKind::Unclosed,
        line: 1,
        message,
    }
}

/// Quotes the start of a skill's text for a message, in backticks and as a [`Line`].
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", Line::start(text, MAX_QUOTED_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fields and problems of a text as one text.
    fn shown(text: &str) -> String {
        let Reading {
            frontmatter,
            problems,
            ..
        } = read(text);
        let mut shown = String::new();
        let fields = [
            ("name", frontmatter.name),
            ("description", frontmatter.description),
            ("license", frontmatter.license),
            ("compatibility", frontmatter.compatibility),
            ("allowed-tools", frontmatter.allowed_tools),
        ];
        for (key, field) in fields {
            if let Some(field) = field {
                shown.push_str(&format!("{} {key}: {}\n", field.line, field.value));
            }
        }
        for pair in frontmatter.metadata.map_or(Vec::new(), |field| field.value) {
            shown.push_str(&format!(
                "{} metadata.{}: {}\n",
                pair.line, pair.key, pair.value
            ));
        }
        for pair in frontmatter.unknown {
            shown.push_str(&format!("{} ? {}: {}\n", pair.line, pair.key, pair.value));
        }
        for problem in problems {
            shown.push_str(&format!(
                "{} ! {:?}: {}\n",
                problem.line, problem.kind, problem.message
            ));
        }
        shown
    }

    #[test]
    fn reads_frontmatter() {
        let cases = [
            (
                "the two required keys",
                "---\nname: calculator\ndescription: Adds numbers. Use for sums.\n---\n# Body\n",
                "2 name: calculator\n3 description: Adds numbers. Use for sums.\n",
            ),
            (
                "every key, byte order mark, crlf",
                "\u{feff}---\r\nname: a\r\ndescription: >-\r\n  one\r\n  two\r\nlicense: MIT\r\n\
                 compatibility: \"needs: git\"\r\nallowed-tools: Read Bash(git:*)\r\nmetadata:\r\n  \
                 author: me\r\n  version: \"1.0\"\r\nmodel: x\r\n---\r\nbody",
                "2 name: a\n3 description: one two\n6 license: MIT\n7 compatibility: needs: git\n\
                 8 allowed-tools: Read Bash(git:*)\n10 metadata.author: me\n11 metadata.version: 1.0\n\
                 12 ? model: x\n",
            ),
            ("no frontmatter", "# Title\n\nname: a\n", ""),
            ("empty frontmatter", "---\n---\nbody", ""),
            (
                "keys without values",
                "---\nname:\ndescription: ''\nlicense: ~\n---\n",
                "2 name: \n3 description: \n4 license: \n4 ! NotText: `license` is null, not text: put it in quotes, or leave it out\n",
            ),
            (
                "blanks in quotes",
                "---\nname: ' a '\nx: \" y\\n\"\n---\n",
                "2 name: a\n3 ? x: y\n",
            ),
            (
                "unclosed",
                "---\nname: a\n",
                "1 ! Unclosed: the frontmatter is not closed: a second line `---` is missing\n",
            ),
            (
                "colon in a value",
                "---\nname: a\ndescription: Use when: the user asks\n---\n",
                "2 name: a\n3 description: Use when: the user asks\n\
                 3 ! NotYaml: not valid YAML, so it was read line by line: mapping values are not allowed in \
                 this context; put the value of `description` in quotes, on one line\n",
            ),
            (
                "a line that should end the frontmatter",
                "---\nname: a\ndescription: b\n---# Title\nText: c\n---\n",
                "2 name: a\n3 description: b\n\
                 4 ! NotYaml: not valid YAML, so it was read line by line: simple key expected ':'\n",
            ),
            (
                "a control character",
                "---\nname: a\ndescription: b\u{7}c\n---\n",
                "2 name: a\n3 description: b\u{7}c\n\
                 3 ! NotYaml: not valid YAML, so it was read line by line: unexpected character: \
                 `\\u{7}'; remove the character\n",
            ),
            (
                "a quoted value whose next line is not indented",
                "---\nname: a\ndescription: \"b\nc\"\n---\n",
                "2 name: a\n3 description: b c\n\
                 4 ! NotYaml: not valid YAML, so it was read line by line: invalid indentation in \
                 multiline quoted scalar; put the value of `description` in quotes, on one line\n",
            ),
            (
                "tabs",
                "---\nname: a\nmetadata:\n\tauthor: me\n---\n",
                "2 name: a\n4 metadata.author: me\n\
                 4 ! NotYaml: not valid YAML, so it was read line by line: tabs disallowed within this context \
                 (block indentation); indent with blanks\n",
            ),
            (
                "scalars that are not text",
                "---\nname: 123\ndescription: true\nlicense: 2024-01-31\nmetadata:\n  version: 1.10\n  on: yes\n---\n",
                "2 name: 123\n3 description: true\n4 license: 2024-01-31\n6 metadata.version: 1.10\n7 metadata.on: yes\n\
                 2 ! NotText: `name` is a number, `123`, not text: put it in quotes\n\
                 3 ! NotText: `description` is a boolean, `true`, not text: put it in quotes\n\
                 4 ! NotText: `license` is a date, `2024-01-31`, not text: put it in quotes\n\
                 6 ! NotText: `metadata.version` is a number, `1.10`, not text: put it in quotes\n\
                 7 ! NotText: `metadata.on` is a boolean, `yes`, not text: put it in quotes\n",
            ),
            (
                "lists and maps where text belongs",
                "---\nname: [a, b]\ndescription:\n  use: it # now\nmetadata:\n  a:\n    b: c\n  d: [e]\n---\n",
                "2 name: [a, b]\n3 description: use: it # now\n6 metadata.a: b: c\n8 metadata.d: [e]\n\
                 2 ! WrongType: `name` is a list, not text\n\
                 3 ! WrongType: `description` is a map, not text\n\
                 6 ! WrongType: `metadata.a` is a map, not text\n\
                 8 ! WrongType: `metadata.d` is a list, not text\n",
            ),
            (
                "duplicates",
                "---\nname: a\nname: b\nx: 1\nx: 2\nmetadata:\n  c: d\n  c: e\nmetadata: {}\n---\n",
                "2 name: a\n7 metadata.c: d\n4 ? x: 1\n\
                 3 ! DuplicateKey: `name` occurs twice: the one on line 2 counts\n\
                 5 ! DuplicateKey: `x` occurs twice: the one on line 4 counts\n\
                 8 ! DuplicateKey: `metadata.c` occurs twice: the one on line 7 counts\n\
                 9 ! DuplicateKey: `metadata` occurs twice: the one on line 6 counts\n",
            ),
            (
                "tools as a list, metadata in braces",
                "---\nallowed-tools: [Read, Grep]\nmetadata: {author: me}\n---\n",
                "2 allowed-tools: Read Grep\n3 metadata.author: me\n\
                 2 ! ToolList: `allowed-tools` is a list: write one text, with blanks between the tools\n\
                 3 ! Braces: `metadata` is in braces, which the reference validator refuses: put each key on its own line\n",
            ),
            (
                "tools that are not a list of text",
                "---\nallowed-tools:\n  - Read: x\n---\n",
                "2 allowed-tools: - Read: x\n2 ! WrongType: `allowed-tools` is a list whose items are not all text\n",
            ),
            (
                "metadata that is not a map",
                "---\nmetadata: text\n---\n",
                "2 ! WrongType: `metadata` is text, not a map of keys to text\n",
            ),
            (
                "metadata without keys",
                "---\nmetadata:\nname: a\n---\n",
                "3 name: a\n",
            ),
            (
                "unknown keys keep their source",
                "---\nhooks:\n  - a: [b]\nversion: 1.0\n---\n",
                "2 ? hooks: - a: [b]\n4 ? version: 1.0\n",
            ),
        ];
        for (name, text, want) in cases {
            assert_eq!(shown(text), want, "{name}");
        }
    }

    #[test]
    fn does_not_read_frontmatter_beyond_the_limit() {
        let line = "description: x\n";
        let fits = "x: ".to_owned() + &"y".repeat(MAX_FRONTMATTER_BYTES - line.len() - 4) + "\n";
        let text = format!("---\n{line}{fits}---\nbody");
        let reading = read(&text);
        assert_eq!(reading.problems, []);
        assert!(reading.frontmatter.description.is_some());
        let object = read_json(&text).unwrap().unwrap();
        assert_eq!(object["description"], "x");

        let text = format!("---\n{line}{fits}\n---\nbody");
        let reading = read(&text);
        assert_eq!(reading.problems.len(), 1);
        assert_eq!(reading.problems[0].kind, ProblemKind::TooLarge);
        assert_eq!(reading.frontmatter, Frontmatter::default());
        assert_eq!(reading.split.body, "body");
        assert_eq!(read_json(&text).unwrap_err().kind, ProblemKind::TooLarge);
    }

    #[test]
    fn reads_frontmatter_as_json_or_says_why_not() {
        assert_eq!(read_json("# Title\n"), Ok(None));
        assert_eq!(read_json("---\n---\nbody"), Ok(Some(Map::new())));
        let object = read_json("---\na: [1, b]\n---\nbody").unwrap().unwrap();
        assert_eq!(Value::Object(object).to_string(), r#"{"a":[1,"b"]}"#);
        for (text, kind, line, message) in [
            (
                "---\na: 1\n",
                ProblemKind::Unclosed,
                1,
                "the frontmatter is not closed: a second line `---` is missing",
            ),
            (
                "---\na: 1\na: 2\n---\n",
                ProblemKind::NotYaml,
                3,
                "the frontmatter is not YAML that JSON can express: `a` occurs twice",
            ),
        ] {
            let problem = read_json(text).unwrap_err();
            let problem = (problem.kind, problem.line, &*problem.message);
            assert_eq!(problem, (kind, line, message));
        }
    }

    /// The lenient parser is only used for invalid YAML, and must read the valid parts of it like
    /// the strict parser.
    #[test]
    fn both_parsers_agree_on_valid_yaml() {
        let yaml = "name: a # b\ndescription: >-\n  c\n  d\n\nlicense: 'e'\nmetadata:\n  f: 1\n  g:\n\
                    \x20   h: i\nallowed-tools: [j, k]\nx: |\n  y: z\n";
        let strict =
            yaml::entries(yaml, 2).map(|entries| fields::assemble(entries, &mut Vec::new()));
        let lenient = fields::assemble(lenient::entries(yaml, 2).entries, &mut Vec::new());
        assert_eq!(strict, Ok(lenient));
    }

    #[test]
    fn quoted_text_is_short_and_visible() {
        assert_eq!(quoted("a\u{1b}[1m\nb"), "`a\\u{1b}[1m\\nb`");
        assert_eq!(quoted(&"é".repeat(80)).chars().count(), 82);
        assert_eq!(quoted(&"é".repeat(81)).chars().count(), 83);
    }
}
