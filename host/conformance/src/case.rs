//! The format of an author's cases, read strictly: an unknown key or a wrong type is
//! an error with its file and line. `docs/guides/test-tools.md` describes the format.

use anyhow::{Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use skillhost::internal::{RawJson, nearest};
use skillhost::{CallOutcome, FailureKind, Line, RefusalKind, StopKind};

/// A call, and the result that the author expects.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) tool: String,
    /// The file and line that name the tool, for messages.
    pub(super) place: String,
    pub(super) arguments: Map<String, Value>,
    /// `None` if the author has not written it yet.
    pub(super) expect: Option<Expect>,
}

/// The expected result. The run ignores a part that is `None` or empty.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expect {
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

const CASE: [&str; 4] = ["name", "tool", "arguments", "expect"];
const EXPECT: [&str; 4] = ["text", "contains", "record", "error"];
/// What `record` is, for authors of functions whose answers are no objects.
const RECORD: &str = "an object; that of an answer which is no object is `{\"result\": …}`";
const ERROR: [&str; 3] = ["kind", "message", "contains"];

/// Returns the kinds of calls without an answer: the tool's own failures, invalid
/// arguments, and the reasons for which the host stops a tool.
fn kinds() -> Vec<&'static str> {
    let failures = FailureKind::ALL.iter().map(|kind| kind.name());
    let refused = CallOutcome::Refused(RefusalKind::Arguments).reason();
    let stops = StopKind::ALL.iter().map(|kind| kind.name());
    failures.chain(refused).chain(stops).collect()
}

/// Reads the cases of a file. `stem` names those without a name. With `unfinished`,
/// a case may lack `expect`.
pub(super) fn read(file: &str, stem: &str, text: &str, unfinished: bool) -> Result<Vec<Case>> {
    let case_text = CaseText { file, text };
    let whole = RawJson::new(text).map_err(|error| {
        // The message repeats the place at its end.
        let message = error.to_string();
        let what = message.split(" at line ").next().unwrap_or_default();
        anyhow!(
            "`{file}`, line {}, column {}: not JSON: {what}",
            error.line(),
            error.column()
        )
    })?;
    let parts: Vec<&str> = match whole.is_array() {
        true => whole.items().map(RawJson::get).collect(),
        false => vec![whole.get()],
    };
    let cases = parts.into_iter().enumerate();
    let case = |(index, part)| {
        let name = match index {
            0 => stem.to_owned(),
            index => format!("{stem}#{}", index + 1),
        };
        case_text.case(part, name, unfinished)
    };
    cases.map(case).collect()
}

/// A file's text. The parts of it are slices, so that their lines are known.
struct CaseText<'a> {
    file: &'a str,
    text: &'a str,
}

impl<'a> CaseText<'a> {
    fn case(&self, part: &'a str, name: String, unfinished: bool) -> Result<Case> {
        let members = self.object(part, "a case", &CASE)?;
        let (mut case_name, mut tool) = (name, None);
        let (mut arguments, mut expect) = (Map::new(), None);
        for (key, value) in members {
            match &*key {
                "name" => case_name = self.value(value, "`name`", "a text")?,
                "tool" => {
                    tool = Some((self.value(value, "`tool`", "a text")?, self.place(value)));
                }
                "arguments" => arguments = self.value(value, "`arguments`", "an object")?,
                _ => expect = Some(self.expect(value)?),
            }
        }
        let Some((tool, place)) = tool else {
            bail!("{}: the case has no `tool`", self.place(part));
        };
        if expect.is_none() && !unfinished {
            bail!(
                "{}: the case has no `expect`: write one, or pass `--update`",
                self.place(part)
            );
        }
        Ok(Case {
            name: case_name,
            tool,
            place,
            arguments,
            expect,
        })
    }

    fn expect(&self, part: &'a str) -> Result<Expect> {
        let members = self.object(part, "`expect`", &EXPECT)?;
        let (mut text, mut contains, mut record, mut error) = (None, Vec::new(), None, None);
        for (key, value) in &members {
            match &**key {
                "text" => text = Some(self.value(value, "`text`", "a text")?),
                "contains" => contains = self.texts(value)?,
                "record" => {
                    let object: Map<String, Value> = self.value(value, "`record`", RECORD)?;
                    record = Some(object.into());
                }
                _ => error = Some(self.error(value)?),
            }
        }
        match (error, members.len()) {
            (Some(error), 1) => Ok(error),
            (Some(_), _) => bail!(
                "{}: `error` excludes the other keys of `expect`",
                self.place(part)
            ),
            (None, 0) => bail!("{}: `expect` is empty", self.place(part)),
            (None, _) => Ok(Expect::Answer {
                text,
                contains,
                record,
            }),
        }
    }

    fn error(&self, part: &'a str) -> Result<Expect> {
        let members = self.object(part, "`error`", &ERROR)?;
        if members.is_empty() {
            bail!("{}: `error` is empty", self.place(part));
        }
        let (mut kind, mut message, mut contains) = (None, None, Vec::new());
        for (key, value) in members {
            match &*key {
                "kind" => {
                    let word: String = self.value(value, "`kind`", "a text")?;
                    let kinds = kinds();
                    if !kinds.contains(&&*word) {
                        bail!(
                            "{}: unknown kind `{}`{}",
                            self.place(value),
                            Line::new(&word),
                            hint(&word, &kinds)
                        );
                    }
                    kind = Some(word);
                }
                "message" => message = Some(self.value(value, "`message`", "a text")?),
                _ => contains = self.texts(value)?,
            }
        }
        Ok(Expect::Error {
            kind,
            message,
            contains,
        })
    }

    /// Returns the members of an object, which may have these keys only.
    fn object(&self, part: &'a str, what: &str, keys: &[&str]) -> Result<Vec<(String, &'a str)>> {
        let object = RawJson::new(part).ok().filter(|part| part.is_object());
        let Some(object) = object else {
            bail!("{}: {what} is not an object", self.place(part));
        };
        let members = object.members();
        let members: Vec<_> = members
            .map(|(key, value)| (key.into_owned(), value.get()))
            .collect();
        for (index, (key, value)) in members.iter().enumerate() {
            if !keys.contains(&&**key) {
                bail!(
                    "{}: {what} has no key `{}`{}",
                    self.place(value),
                    Line::new(key),
                    hint(key, keys)
                );
            }
            if members[..index].iter().any(|(before, _)| before == key) {
                bail!("{}: `{key}` occurs twice", self.place(value));
            }
        }
        Ok(members)
    }

    fn texts(&self, part: &'a str) -> Result<Vec<String>> {
        let what = "`contains`";
        let texts = match part.starts_with('[') {
            true => self.value(part, what, "a text or an array of texts")?,
            false => vec![self.value(part, what, "a text or an array of texts")?],
        };
        if texts.is_empty() {
            bail!("{}: {what} is empty", self.place(part));
        }
        Ok(texts)
    }

    fn value<T: Deserialize<'a>>(&self, part: &'a str, what: &str, kind: &str) -> Result<T> {
        serde_json::from_str(part)
            .map_err(|_| anyhow!("{}: {what} is not {kind}", self.place(part)))
    }

    /// Returns the file and line of a part of the text.
    fn place(&self, part: &str) -> String {
        let at = (part.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize);
        let before = at.and_then(|at| self.text.get(..at)).unwrap_or_default();
        format!("`{}`, line {}", self.file, 1 + before.matches('\n').count())
    }
}

/// Offers the known word that is nearest to an unknown one, or else all of them.
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
        read("c.json", "c", text, false)
    }

    #[test]
    fn reads_a_case_or_an_array_of_cases() {
        let one = r#"{"tool": "t", "expect": {"text": "x"}}"#;
        let cases = parsed(one).unwrap();
        assert_eq!(cases.len(), 1);
        assert_eq!((&*cases[0].name, &*cases[0].tool), ("c", "t"));
        let both = format!(
            "\n[{one},\n {{\"name\": \"n\", \"tool\": \"u\", \"arguments\": {{\"a\": [1]}}, \
             \"expect\": {{\"error\": {{\"kind\": \"not-found\", \"contains\": [\"a\", \"b\"]}}}}}}, {one}]"
        );
        let cases = parsed(&both).unwrap();
        let names: Vec<&str> = cases.iter().map(|case| &*case.name).collect();
        assert_eq!(names, ["c", "n", "c#3"]);
        assert_eq!(cases[1].place, "`c.json`, line 3");
        assert_eq!(Value::from(cases[1].arguments.clone()), json!({"a": [1]}));
        assert_eq!(
            cases[1].expect,
            Some(Expect::Error {
                kind: Some("not-found".to_owned()),
                message: None,
                contains: vec!["a".to_owned(), "b".to_owned()],
            })
        );
        assert_eq!(parsed("[]").unwrap(), []);
        assert_eq!(
            read("c", "c", r#"{"tool": "t"}"#, true).unwrap()[0].expect,
            None
        );
    }

    #[test]
    fn an_error_has_its_line_and_the_nearest_known_word() {
        for (text, message) in [
            ("", "line 1, column 0: not JSON: EOF while parsing a value"),
            (
                "{\n \"tool\": \"t\"\n \"expect\": 1}",
                "line 3, column 2: not JSON: expected `,` or `}`",
            ),
            ("7", "line 1: a case is not an object"),
            ("[\n7]", "line 2: a case is not an object"),
            ("{}", "line 1: the case has no `tool`"),
            (
                "{\"tool\": \"t\"}",
                "line 1: the case has no `expect`: write one, or pass `--update`",
            ),
            ("{\"tool\":\n 1}", "line 2: `tool` is not a text"),
            (
                "{\"tool\": \"t\",\n\"argumnets\": {}}",
                "line 2: a case has no key `argumnets`; did you mean `arguments`?",
            ),
            (
                "{\"tool\": \"t\",\n\"\\u001b\": {}}",
                "line 2: a case has no key `\\u{1b}`; the known ones are `name`, `tool`, `arguments`, `expect`",
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
                "line 4: `expect` has no key `txt`; did you mean `text`?",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"contains\": []}}",
                "line 1: `contains` is empty",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"contains\": [1]}}",
                "line 1: `contains` is not a text or an array of texts",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"record\": 1}}",
                "line 1: `record` is not an object; that of an answer which is no object is \
                 `{\"result\": …}`",
            ),
            (
                "{\"tool\": \"t\", \"expect\": {\"text\": \"x\", \"error\": {\"kind\": \"time\"}}}",
                "line 1: `error` excludes the other keys of `expect`",
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
                "line 1: `tool` is not a text",
            ),
        ] {
            let error = parsed(text).map_err(|error| error.to_string());
            assert_eq!(error, Err(format!("`c.json`, {message}")), "{text}");
        }
    }

    #[test]
    fn refuses_hostile_files() {
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
