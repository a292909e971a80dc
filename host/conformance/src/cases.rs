//! The author's cases: reading them from their folder, running them, and rewriting
//! their expectations.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use serde_json::{Map, Value};
use tempfile::NamedTempFile;

use super::case::{self, Case, Expect, hint};
use super::component::TestedComponent;
use super::report::{Outcome, Recorder, Rule};
use super::trial::is_at_fault;
use super::wording::describe;
use skillhost::named_file;
use skillhost::{CallError, Failure, Line};

pub(super) const RULES: &[Rule] = &[CASE];

const CASE: Rule = Rule {
    id: "case",
    sentence: "the author's case ends as expected, the same way twice",
};

/// Most bytes of a case file. Guards against: a file that fills the memory.
const FILE_BYTES: u64 = 16 << 20;
/// Most case files in a folder. Guards against: the wrong folder.
const FILES: usize = 10_000;

/// The case files of a folder.
pub(super) struct CaseFiles(Vec<CaseFile>);

struct CaseFile {
    path: PathBuf,
    text: String,
    cases: Vec<Case>,
}

impl CaseFiles {
    /// Reads all cases of a folder. With `unfinished`, a case may lack `expect`.
    pub(super) fn read(folder: &Path, unfinished: bool) -> Result<Self> {
        let cannot = || format!("cannot read the cases in `{}`", folder.display());
        let opened = Dir::open_ambient_dir(folder, ambient_authority()).with_context(cannot)?;
        let mut names = Vec::new();
        for entry in opened.entries().with_context(cannot)? {
            let name = PathBuf::from(entry.with_context(cannot)?.file_name());
            if name
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                names.push(name);
            }
            if names.len() > FILES {
                bail!("`{}` has more than {FILES} case files", folder.display());
            }
        }
        names.sort();
        let files = names.into_iter().map(|name| {
            let path = folder.join(&name);
            let shown = path.display().to_string();
            let text = text(&opened, &name).with_context(|| format!("cannot read `{shown}`"))?;
            let stem = name.file_stem().unwrap_or_default().to_string_lossy();
            let cases = case::read(&shown, &stem, &text, unfinished)?;
            Ok(CaseFile { path, text, cases })
        });
        let files = files.collect::<Result<Vec<_>>>()?;
        if files.iter().all(|file| file.cases.is_empty()) {
            bail!(
                "`{}` has no case: write one into a file whose name ends in `.json`",
                folder.display()
            );
        }
        Ok(Self(files))
    }

    /// Refuses a case for a tool that the component does not have.
    pub(super) fn check_tools(&self, component: &TestedComponent) -> Result<()> {
        let names = || component.tools().map(|tool| &*tool.name);
        for case in self.cases() {
            if !names().any(|name| name == case.tool) {
                let names: Vec<&str> = names().collect();
                bail!(
                    "{}: the component has no tool `{}`{}",
                    case.place,
                    Line::new(&case.tool),
                    hint(&case.tool, &names)
                );
            }
        }
        Ok(())
    }

    /// Returns the arguments of a tool's cases that expect an answer.
    pub(super) fn examples<'a>(
        &'a self,
        tool: &'a str,
    ) -> impl Iterator<Item = &'a Map<String, Value>> {
        let of_tool = self.cases().filter(move |case| case.tool == tool);
        of_tool
            .filter(|case| matches!(case.expect, Some(Expect::Answer { .. })))
            .map(|case| &case.arguments)
    }

    /// Runs all cases. With `update`, rewrites the expectations that do not hold.
    /// Returns the files that it rewrote.
    pub(super) async fn run(
        &self,
        recorder: &mut Recorder,
        component: &TestedComponent,
        update: bool,
    ) -> Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        for file in &self.0 {
            let mut changes = Vec::new();
            for (index, case) in file.cases.iter().enumerate() {
                let mut change = None;
                let outcome = run(case, component, update.then_some(&mut change));
                recorder.case(&CASE, &case.tool, &case.name, outcome).await;
                changes.extend(change.map(|expect| (index, expect)));
            }
            if !changes.is_empty() {
                file.rewrite(changes)?;
                written.push(file.path.clone());
            }
        }
        Ok(written)
    }

    fn cases(&self) -> impl Iterator<Item = &Case> {
        self.0.iter().flat_map(|file| &file.cases)
    }
}

/// Runs a case. If its expectation does not hold, puts a new one into `change`.
async fn run(
    case: &Case,
    component: &TestedComponent,
    change: Option<&mut Option<Value>>,
) -> Outcome {
    let call = || {
        let arguments = Value::Object(case.arguments.clone());
        component.authors.call(&case.tool, arguments)
    };
    let (first, second) = (call().await, call().await);
    if first != second {
        return Outcome::failed(
            format!("first {}, then {}", describe(&first), describe(&second)),
            "answer from the arguments and the files alone, in a fixed order",
        );
    }
    let seen = match &case.expect {
        Some(expect) => expect.check(&first),
        None => Err("it has no `expect`".to_owned()),
    };
    match (seen, change) {
        (Ok(()), _) => Outcome::Passed,
        // Written down, an uncaught exception would pass from now on.
        (Err(why), Some(_)) if is_at_fault(&component.authors, &case.tool, &first).await => {
            Outcome::failed(
                why,
                "correct the tool; `--update` writes no failure of the kind `failed` into a case",
            )
        }
        (Err(_), Some(change)) => {
            *change = Some(Expect::of(&first, case.expect.as_ref()));
            Outcome::Passed
        }
        (Err(why), None) => {
            let fix = match &first {
                Err(CallError::Failed(Failure {
                    unknown_skill: Some(skill),
                    ..
                })) => format!(
                    "no folder of skills has `{}`: name one with `--skills`, or correct the case in {}",
                    Line::new(skill),
                    case.place
                ),
                _ => format!(
                    "correct the tool, or the case in {}; `--update` writes the present result into \
                     it",
                    case.place
                ),
            };
            Outcome::failed(why, fix)
        }
    }
}

impl CaseFile {
    /// Writes new expectations. The file is whole at any time, and an edit that was made
    /// meanwhile stays.
    fn rewrite(&self, changes: Vec<(usize, Value)>) -> Result<()> {
        let cannot = || format!("cannot write `{}`", self.path.display());
        // A symlink stays one.
        let path = fs::canonicalize(&self.path).with_context(cannot)?;
        if named_file::read_text(&path, FILE_BYTES).with_context(cannot)? != self.text {
            bail!(
                "`{}` has changed while its cases ran; run them again",
                self.path.display()
            );
        }
        let mut whole: Value = serde_json::from_str(&self.text).with_context(cannot)?;
        for (index, expect) in changes {
            let case = match &mut whole {
                Value::Array(cases) => cases.get_mut(index),
                one => Some(one),
            };
            if let Some(Value::Object(case)) = case {
                case.insert("expect".to_owned(), expect);
            }
        }
        let replace = || -> Result<()> {
            let mut file = NamedTempFile::new_in(path.parent().context("it has no folder")?)?;
            writeln!(file, "{whole:#}")?;
            fs::set_permissions(file.path(), fs::metadata(&path)?.permissions())?;
            file.persist(&path)?;
            Ok(())
        };
        replace().with_context(cannot)
    }
}

fn text(folder: &Dir, name: &Path) -> Result<String> {
    let flags = named_file::UNKNOWN_KIND.bits().cast_signed();
    let file = folder.open_with(name, OpenOptions::new().read(true).custom_flags(flags))?;
    let file = file.into_std();
    named_file::check_kind(&file.metadata()?)?;
    named_file::read_all_text(file, FILE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use serde_json::json;

    use super::*;

    const CASE: &str = r#"{"tool": "a", "arguments": {}}"#;

    fn read(folder: &Path) -> CaseFile {
        fs::write(folder.join("a.json"), CASE).unwrap();
        CaseFiles::read(folder, true).unwrap().0.remove(0)
    }

    fn expectation() -> Vec<(usize, Value)> {
        vec![(0, json!({"text": "b"}))]
    }

    #[test]
    fn an_edit_that_was_made_while_the_cases_ran_stays() {
        let folder = tempfile::tempdir().unwrap();
        let cases = read(folder.path());
        fs::write(&cases.path, "edited").unwrap();
        let error = cases.rewrite(expectation()).unwrap_err().to_string();
        assert!(error.ends_with("run them again"), "{error}");
        assert_eq!(fs::read_to_string(&cases.path).unwrap(), "edited");
    }

    #[test]
    fn a_rewritten_file_keeps_its_mode_and_the_link_that_leads_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("a.json"), folder.path().join("kept"));
        let cases = read(folder.path());
        fs::rename(&link, &file).unwrap();
        symlink("kept", &link).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        cases.rewrite(expectation()).unwrap();
        let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(written["expect"], json!({"text": "b"}));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
