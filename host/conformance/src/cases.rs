//! Reads the author's cases from their folder, runs them, and rewrites their
//! expectations.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use serde_json::{Map, Value};

use super::case::{self, Case, Expectation, hint};
use super::component::TestedComponent;
use super::report::{Outcome, Recorder, Rule};
use super::trial::is_tool_fault;
use super::wording::describe;
use skillhost::{CallError, Failure, Line};
use skillhost_skills::{atomic_file, named_file};

pub(super) const RULES: &[Rule] = &[CASE];

const CASE: Rule = Rule {
    id: "case",
    sentence: "the author's case ends as expected, the same way twice",
};

/// The maximum size of a case file, in bytes. Guards against: a file that fills the memory.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The maximum number of case files in a folder. Guards against: a huge folder named by mistake.
const MAX_FILES: usize = 10_000;

/// The case files of a folder.
pub(super) struct CaseFiles(Vec<CaseFile>);

struct CaseFile {
    path: PathBuf,
    text: String,
    cases: Vec<Case>,
}

impl CaseFiles {
    /// Reads all cases of a folder. With `allow_missing_expect`, a case needs no `expect`.
    pub(super) fn read(folder: &Path, allow_missing_expect: bool) -> Result<Self> {
        let context = || format!("cannot read the cases in `{}`", folder.display());
        let dir = Dir::open_ambient_dir(folder, ambient_authority()).with_context(context)?;
        let mut names = Vec::new();
        for entry in dir.entries().with_context(context)? {
            let name = PathBuf::from(entry.with_context(context)?.file_name());
            let bytes = name.as_os_str().as_encoded_bytes();
            // A kill can leave an unfinished file.
            let is_unfinished = bytes.starts_with(atomic_file::UNFINISHED.as_bytes());
            let is_json = name
                .extension()
                .is_some_and(|extension| extension == "json");
            if is_json && !is_unfinished {
                names.push(name);
            }
            if names.len() > MAX_FILES {
                bail!(
                    "`{}` has more than {MAX_FILES} case files",
                    folder.display()
                );
            }
        }
        names.sort();
        let files = names.into_iter().map(|name| {
            let path = folder.join(&name);
            let file = path.display().to_string();
            let text = read_text(&dir, &name).with_context(|| format!("cannot read `{file}`"))?;
            let stem = name.file_stem().unwrap_or_default().to_string_lossy();
            let cases = case::parse(&file, &stem, &text, allow_missing_expect)?;
            Ok(CaseFile { path, text, cases })
        });
        let files = files.collect::<Result<Vec<_>>>()?;
        if files.iter().all(|file| file.cases.is_empty()) {
            bail!(
                "`{}` has no cases: write one in a `.json` file",
                folder.display()
            );
        }
        Ok(Self(files))
    }

    /// Returns an error if a case is for a tool that the component does not have.
    pub(super) fn check_tools(&self, component: &TestedComponent) -> Result<()> {
        let names = || component.tools().map(|tool| &*tool.name);
        for case in self.cases() {
            if !names().any(|name| name == case.tool) {
                let names: Vec<&str> = names().collect();
                bail!(
                    "{}: the component has no tool `{}`{}",
                    case.location,
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
        let tool_cases = self.cases().filter(move |case| case.tool == tool);
        tool_cases
            .filter(|case| matches!(case.expect, Some(Expectation::Answer { .. })))
            .map(|case| &case.arguments)
    }

    /// Runs all cases. With `update`, replaces each expectation that the result does not meet.
    ///
    /// Returns the paths of the files that were rewritten.
    pub(super) async fn run(
        &self,
        recorder: &mut Recorder,
        component: &TestedComponent,
        update: bool,
    ) -> Result<Vec<PathBuf>> {
        let mut rewritten = Vec::new();
        for file in &self.0 {
            let mut changes = Vec::new();
            for (index, case) in file.cases.iter().enumerate() {
                let mut change = None;
                let outcome = run_case(case, component, update.then_some(&mut change));
                recorder.case(&CASE, &case.tool, &case.name, outcome).await;
                changes.extend(change.map(|expect| (index, expect)));
            }
            if !changes.is_empty() {
                file.rewrite(changes)?;
                rewritten.push(file.path.clone());
            }
        }
        Ok(rewritten)
    }

    fn cases(&self) -> impl Iterator<Item = &Case> {
        self.0.iter().flat_map(|file| &file.cases)
    }
}

/// Runs a case twice. If the result does not meet the case's expectation and `change` is given,
/// stores a new expectation in `change`.
async fn run_case(
    case: &Case,
    component: &TestedComponent,
    change: Option<&mut Option<Value>>,
) -> Outcome {
    let call = || {
        let arguments = Value::Object(case.arguments.clone());
        component.case_host.call(&case.tool, arguments)
    };
    let (first, second) = (call().await, call().await);
    if first != second {
        return Outcome::failed(
            format!("first {}, then {}", describe(&first), describe(&second)),
            "let the answer depend only on the arguments and the files, in a fixed order",
        );
    }
    let comparison = match &case.expect {
        Some(expect) => expect.check(&first),
        None => Err("the case has no `expect`".to_owned()),
    };
    match (comparison, change) {
        (Ok(()), _) => Outcome::Passed,
        // If `--update` wrote this failure, an uncaught exception would pass from now on.
        (Err(why), Some(_)) if is_tool_fault(&component.case_host, &case.tool, &first).await => {
            Outcome::failed(
                why,
                "correct the tool: `--update` never writes the kind `failed` into a case",
            )
        }
        (Err(_), Some(change)) => {
            *change = Some(Expectation::from_result(&first, case.expect.as_ref()));
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
                    case.location
                ),
                _ => format!(
                    "correct the tool, or the case in {}; `--update` writes this result into the case",
                    case.location
                ),
            };
            Outcome::failed(why, fix)
        }
    }
}

impl CaseFile {
    /// Writes new expectations into the file.
    ///
    /// Replaces the file atomically. Fails if the file was edited after it was read.
    fn rewrite(&self, changes: Vec<(usize, Value)>) -> Result<()> {
        let context = || format!("cannot write `{}`", self.path.display());
        // If the file is a symlink, replace its target, not the symlink.
        let path = fs::canonicalize(&self.path).with_context(context)?;
        if named_file::read_text(&path, MAX_FILE_BYTES).with_context(context)? != self.text {
            bail!(
                "`{}` has changed while its cases ran; run them again",
                self.path.display()
            );
        }
        let mut content: Value = serde_json::from_str(&self.text).with_context(context)?;
        for (index, expect) in changes {
            let case = match &mut content {
                Value::Array(cases) => cases.get_mut(index),
                single => Some(single),
            };
            if let Some(Value::Object(case)) = case {
                case.insert("expect".to_owned(), expect);
            }
        }
        atomic_file::replace(&path, format!("{content:#}\n").as_bytes(), 0o644)
            .with_context(context)
    }
}

fn read_text(folder: &Dir, name: &Path) -> Result<String> {
    let flags = named_file::UNKNOWN_KIND.bits().cast_signed();
    let file = folder.open_with(name, OpenOptions::new().read(true).custom_flags(flags))?;
    let file = file.into_std();
    named_file::check_kind(&file.metadata()?)?;
    named_file::read_all_text(file, MAX_FILE_BYTES)
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
    fn keeps_an_edit_made_while_cases_ran() {
        let folder = tempfile::tempdir().unwrap();
        let cases = read(folder.path());
        fs::write(&cases.path, "edited").unwrap();
        let error = cases.rewrite(expectation()).unwrap_err().to_string();
        assert!(error.ends_with("run them again"), "{error}");
        assert_eq!(fs::read_to_string(&cases.path).unwrap(), "edited");
    }

    #[test]
    fn rewriting_keeps_the_mode_and_the_symlink() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("a.json"), folder.path().join("target"));
        let cases = read(folder.path());
        fs::rename(&link, &file).unwrap();
        symlink("target", &link).unwrap();
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
