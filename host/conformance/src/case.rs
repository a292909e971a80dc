//! Parses the author's cases.
//!
//! Parsing is strict: an unknown key or a wrong type is an error, which names the file and line.
//! `docs/guides/test-tools.md` describes the format.

use anyhow::{Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use skillhost::{CallOutcome, FailureKind, Line, RefusalKind, StopKind};
use skillhost_skills::text::raw_json::RawJson;
use skillhost_skills::text::suggest::nearest;

/// A call and its expected result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) tool: String,
    /// The file and line that name the tool, for messages.
    pub(super) location: String,
    pub(super) arguments: Map<String, Value>,
    /// The expected result, or `None` if the author has not written it yet.
    pub(super) expect: Option<Expectation>,
}

/// The expected result of a call. A field that is `None` or empty is not checked.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expectation {
    Answer {
        text: Option<String>,
        contains: Vec<String>,
        record: Option<Value>,
    },
    Error {
        kind: Option<String>,
        message: Option<String>,
        contains: Vec<String>,
    },
}

const CASE_KEYS: [&str; 4] = ["name", "tool", "arguments", "expect"];
const EXPECT_KEYS: [&str; 4] = ["text", "contains", "record", "error"];
/// The expected type of `record` in a message, with a hint for authors of typed functions that
/// return another value.
const RECORD_TYPE: &str =
    "an object; if the tool answers with another value, write `{\"result\": …}`";
const ERROR_KEYS: [&str; 3] = ["kind", "message", "contains"];

/// Returns the valid values of `kind`: the tool's own failures, invalid arguments, and
/// the reasons for which the host stops a tool.
fn error_kinds() -> Vec<&'static str> {
    let failures = FailureKind::ALL.iter().map(|kind| kind.name());
    let refused = CallOutcome::Refused(RefusalKind::Arguments).reason();
    let stops = StopKind::ALL.iter().map(|kind| kind.name());
    failures.chain(refused).chain(stops).collect()
}

/// Parses the cases in the text of a file.
///
/// A case without a name gets the name `stem`, with its number in the file if it is not the first.
/// With `allow_missing_expect`, a case needs no `expect`.
pub(super) fn parse(
    file: &str,
    stem: &str,
    text: &str,
    allow_missing_expect: bool,
) -> Result<Vec<Case>> {
    let parser = CaseParser {
        file,
        text,
        allow_missing_expect,
    };
    let whole = RawJson::new(text).map_err(|error| {
        // The message repeats the location at its end.
        let message = error.to_string();
        let cause = message.split(" at line ").next().unwrap_or_default();
        anyhow!(
            "`{file}`, line {}, column {}: invalid JSON: {cause}",
            error.line(),
            error.column()
        )
    })?;
    let parts: Vec<&str> = if whole.is_array() {
        whole.items().map(RawJson::get).collect()
    } else {
        vec![whole.get()]
    };
    let cases = parts.into_iter().enumerate().map(|(index, part)| {
        let default_name = match index {
            0 => stem.to_owned(),
            index => format!("{stem}#{}", index + 1),
        };
        parser.parse_case(part, default_name)
    });
    cases.collect()
}

/// A parser of the values in a file's text.
///
/// Each value is passed as a slice of `text` (`part`), so that messages can name its line.
struct CaseParser<'a> {
    file: &'a str,
    text: &'a str,
    allow_missing_expect: bool,
}

impl<'a> CaseParser<'a> {
    fn parse_case(&self, part: &'a str, default_name: String) -> Result<Case> {
        let members = self.parse_object(part, "a case", &CASE_KEYS)?;
        let (mut case_name, mut tool) = (default_name, None);
        let (mut arguments, mut expect) = (Map::new(), None);
        for (key, value) in members {
            match &*key {
                "name" => case_name = self.parse_value(value, "`name`", "a string")?,
                "tool" => {
                    let name = self.parse_value(value, "`tool`", "a string")?;
                    tool = Some((name, self.location(value)));
                }
                "arguments" => arguments = self.parse_value(value, "`arguments`", "an object")?,
                _ => expect = Some(self.parse_expect(value)?),
            }
        }
        let Some((tool, location)) = tool else {
            bail!("{}: the case has no `tool`", self.location(part));
        };
        if expect.is_none() && !self.allow_missing_expect {
            bail!(
                "{}: the case has no `expect`: write one, or pass `--update`",
                self.location(part)
            );
        }
        Ok(Case {
            name: case_name,
            tool,
            location,
            arguments,
            expect,
        })
    }

    fn parse_expect(&self, part: &'a str) -> Result<Expectation> {
        let members = self.parse_object(part, "`expect`", &EXPECT_KEYS)?;
        let (mut text, mut contains, mut record, mut error) = (None, Vec::new(), None, None);
        for (key, value) in &members {
            match &**key {
                "text" => text = Some(self.parse_value(value, "`text`", "a string")?),
                "contains" => contains = self.parse_strings(value)?,
                "record" => {
                    let object: Map<String, Value> =
                        self.parse_value(value, "`record`", RECORD_TYPE)?;
                    record = Some(object.into());
                }
                _ => error = Some(self.parse_error(value)?),
            }
        }
        match (error, members.len()) {
            (Some(error), 1) => Ok(error),
            (Some(_), _) => bail!(
                "{}: `expect` with `error` cannot have other keys",
                self.location(part)
            ),
            (None, 0) => bail!("{}: `expect` is empty", self.location(part)),
            (None, _) => Ok(Expectation::Answer {
                text,
                contains,
                record,
            }),
        }
    }

    fn parse_error(&self, part: &'a str) -> Result<Expectation> {
        let members = self.parse_object(part, "`error`", &ERROR_KEYS)?;
        if members.is_empty() {
            bail!("{}: `error` is empty", self.location(part));
        }
        let (mut kind, mut message, mut contains) = (None, None, Vec::new());
        for (key, value) in members {
            match &*key {
                "kind" => {
                    let word: String = self.parse_value(value, "`kind`", "a string")?;
                    let kinds = error_kinds();
                    if !kinds.contains(&&*word) {
                        bail!(
                            "{}: unknown kind `{}`{}",
                            self.location(value),
                            Line::new(&word),
                            hint(&word, &kinds)
                        );
                    }
                    kind = Some(word);
                }
                "message" => message = Some(self.parse_value(value, "`message`", "a string")?),
                _ => contains = self.parse_strings(value)?,
            }
        }
        Ok(Expectation::Error {
            kind,
            message,
            contains,
        })
    }

    /// Returns the members of an object. A key that is not in `keys` is an error.
    fn parse_object(
        &self,
        part: &'a str,
        what: &str,
        keys: &[&str],
    ) -> Result<Vec<(String, &'a str)>> {
        let object = RawJson::new(part).ok().filter(|part| part.is_object());
        let Some(object) = object else {
            bail!("{}: {what} is not an object", self.location(part));
        };
        let members = object.members();
        let members: Vec<_> = members
            .map(|(key, value)| (key.into_owned(), value.get()))
            .collect();
        for (index, (key, value)) in members.iter().enumerate() {
            if !keys.contains(&&**key) {
                bail!(
                    "{}: unknown key `{}` in {what}{}",
                    self.location(value),
                    Line::new(key),
                    hint(key, keys)
                );
            }
            if members[..index].iter().any(|(before, _)| before == key) {
                bail!("{}: `{key}` occurs twice", self.location(value));
            }
        }
        Ok(members)
    }

    /// Parses the value of `contains`: a string, or an array of strings.
    fn parse_strings(&self, part: &'a str) -> Result<Vec<String>> {
        let expected = "a string or an array of strings";
        let strings = if part.starts_with('[') {
            self.parse_value(part, "`contains`", expected)?
        } else {
            vec![self.parse_value(part, "`contains`", expected)?]
        };
        if strings.is_empty() {
            bail!("{}: `contains` is empty", self.location(part));
        }
        Ok(strings)
    }

    fn parse_value<T: Deserialize<'a>>(
        &self,
        part: &'a str,
        what: &str,
        expected: &str,
    ) -> Result<T> {
        serde_json::from_str(part)
            .map_err(|_| anyhow!("{}: {what} is not {expected}", self.location(part)))
    }

    /// Returns the file and line of a part of the text.
    fn location(&self, part: &str) -> String {
        let start = (part.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize);
        let before = start
            .and_then(|start| self.text.get(..start))
            .unwrap_or_default();
        format!("`{}`, line {}", self.file, 1 + before.matches('\n').count())
    }
}

/// Returns a hint for an unknown word: the most similar known word, or all of them.
pub(super) fn hint(word: &str, words: &[&str]) -> String {
    match nearest(word, words.iter().copied()).first() {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => format!("; the known ones are `{}`", words.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(text: &str) -> Result<Vec<Case>> {
        parse("c.json", "c", text, false)
    }

    #[test]
    fn reads_a_case_or_an_array_of_cases() {
        let one = r#"{"tool": "t", "expect": {"text": "x"}}"#;
        let cases = parsed(one).unwrap();
        assert_eq!(cases.len(), 1);
        assert_eq!((&*cases[0].name, &*cases[0].tool), ("c", "t"));
        let array = format!(
            "\n[{one},\n {{\"name\": \"n\", \"tool\": \"u\", \"arguments\": {{\"a\": [1]}}, \
             \"expect\": {{\"error\": {{\"kind\": \"not-found\", \"contains\": [\"a\", \"b\"]}}}}}}, {one}]"
        );
        let cases = parsed(&array).unwrap();
        let names: Vec<&str> = cases.iter().map(|case| &*case.name).collect();
        assert_eq!(names, ["c", "n", "c#3"]);
        assert_eq!(cases[1].location, "`c.json`, line 3");
        assert_eq!(Value::from(cases[1].arguments.clone()), json!({"a": [1]}));
        assert_eq!(
            cases[1].expect,
            Some(Expectation::Error {
                kind: Some("not-found".to_owned()),
                message: None,
                contains: vec!["a".to_owned(), "b".to_owned()],
            })
        );
        assert_eq!(parsed("[]").unwrap(), []);
        assert_eq!(
            parse("c", "c", r#"{"tool": "t"}"#, true).unwrap()[0].expect,
            None
        );
    }

    #[test]
    fn errors_name_the_line_and_give_hints() {
        for (text, message) in [
            (
                "",
                "line 1, column 0: invalid JSON: EOF while parsing a value",
            ),
            (
                "{\n \"tool\": \"t\"\n \"expect\": 1}",
                "line 3, column 2: invalid JSON: expected `,` or `}`",
            ),
            ("7", "line 1: a case is not an object"),
            ("[\n7]", "line 2: a case is not an object"),
            ("{}", "line 1: the case has no `tool`"),
            (
                "{\"tool\": \"t\"}",
                "line 1: the case has no `expect`: write one, or pass `--update`",
            ),
            ("{\"tool\":\n 1}", "line 2: `tool` is not a string"),
            (
                "{\"tool\": \"t\",\n\"argumnets\": {}}",
                "line 2: unknown key `argumnets` in a case; did you mean `arguments`?",
            ),
            (
                "{\"tool\": \"t\",\n\"\\u001b\": {}}",
                "line 2: unknown key `\\u{1b}` in a case; the known ones are `name`, `tool`, `arguments`, `expect`",
            ),
            (
                "{\"tool\": \"t\",\n\"tool\": \"t\"}",
                "line 2: `tool` occurs twice",
            ),
            (
                "{\"tool\": \"t\", \"arguments\": []}",
                "line 1: `arguments` is not an object",
            ),
            (
                "{\"tool\": \"t\", \"expect\": \"x\"}",
                "line 1: `expect` is not an object",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {}}",
                "line 1: `expect` is empty",
            ),
            (
                "{\"tool\": \"t\",\n\n\"expect\": {\n\"txt\": \"x\"}}",
                "line 4: unknown key `txt` in `expect`; did you mean `text`?",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"contains\": []}}",
                "line 1: `contains` is empty",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"contains\": [1]}}",
                "line 1: `contains` is not a string or an array of strings",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"record\": 1}}",
                "line 1: `record` is not an object; if the tool answers with another value, write \
                 `{\"result\": …}`",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"text\": \"x\", \"error\": {\"kind\": \"time\"}}}",
                "line 1: `expect` with `error` cannot have other keys",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"error\": {}}}",
                "line 1: `error` is empty",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"error\": {\"kind\":\n\"notfound\"}}}",
                "line 2: unknown kind `notfound`; did you mean `not-found`?",
            ),
            (
                "{\"tool\": \"\\ud800\", \"expect\": {\"text\": \"\"}}",
                "line 1: `tool` is not a string",
            ),
        ] {
            let error = parsed(text).map_err(|error| error.to_string());
            assert_eq!(error, Err(format!("`c.json`, {message}")), "{text}");
        }
    }

    #[test]
    fn refuses_deeply_nested_json() {
        for text in [
            "[".repeat(100_000),
            "{\"tool\":".repeat(50_000),
            format!(
                "{{\"tool\": \"t\", \"arguments\": {{\"a\": {}",
                "[".repeat(100_000)
            ),
            format!(
                "{{\"tool\": \"t\", \"arguments\": {{\"a\": {}{}}}}}",
                "[".repeat(100_000),
                "]".repeat(100_000)
            ),
        ] {
            assert!(parsed(&text).is_err());
        }
    }
}
