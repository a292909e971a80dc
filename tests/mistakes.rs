//! Mistakes of tool authors, and the message for each, from the table
//! `tests/vectors/mistakes.json`. `tests/kits/run` makes the mistakes that need a WebAssembly
//! compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Deserialize;

use crate::builds::Machine;
use crate::hostile_components::{component, listing_of};
use crate::support::program::{Program, Run, finish};
use crate::support::{guests, repository};

/// The table. `tests/kits/lanes.py` makes the mistakes of `at the build` and `at a call`.
#[derive(Deserialize)]
struct Table {
    #[serde(rename = "without a compiler")]
    mistakes: Vec<Mistake>,
    #[serde(rename = "at the build")]
    builds: Vec<Named>,
    #[serde(rename = "at a call")]
    calls: Vec<ProjectCalls>,
}

#[derive(Deserialize)]
struct Named {
    mistake: String,
}

#[derive(Deserialize)]
struct ProjectCalls {
    calls: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    /// The mistake, in words.
    mistake: String,
    /// The files in the folder.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// The command's arguments. `GUESTS` is the folder of the test guests.
    #[serde(default)]
    run: Vec<String>,
    /// The language of a new project, which is then built.
    project: Option<String>,
    /// Changes to the project's files.
    #[serde(default)]
    edits: Vec<Edit>,
    /// Scripts that replace compilers.
    #[serde(default)]
    programs: BTreeMap<String, String>,
    /// The tools that the built component defines.
    defines: Option<Vec<Tool>>,
    exit: i32,
    /// Parts of the message.
    says: Vec<String>,
}

#[derive(Deserialize)]
struct Edit {
    file: String,
    /// Empty for a new file.
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    schema: String,
}

fn table() -> Table {
    let path = repository().join("tests/vectors/mistakes.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

impl Mistake {
    /// Makes the mistake in a new folder, and runs the command that reports it.
    fn run_command(&self) -> Run {
        if let Some(tools) = &self.defines {
            let tools: Vec<(&str, &str)> = tools.iter().map(|t| (&*t.name, &*t.schema)).collect();
            let machine = Machine::with_project("javascript");
            let component = component(&listing_of(&tools));
            machine.program.write("component.wasm", component);
            return machine.build_with(&[("COMPONENT", &machine.path("component.wasm"))]);
        }
        let program = Program::new();
        for (path, content) in &self.files {
            program.write(path, content);
        }
        let run = match &self.project {
            None => {
                let guests = guests().display().to_string();
                let words = self.run.iter().map(|word| word.replace("GUESTS", &guests));
                program.run(&words.collect::<Vec<_>>())
            }
            Some(language) => {
                program.run(&["new", "find-word", "--lang", language]);
                for edit in &self.edits {
                    edit.apply(&program);
                }
                for (name, script) in &self.programs {
                    program.script(&format!("bin/{name}"), script);
                }
                let mut command = program.command(&["build", "find-word"]);
                command.env("PATH", program.folder.path().join("bin"));
                finish(command, "")
            }
        };
        for (path, content) in &self.files {
            let path = program.folder.path().join(path);
            assert_eq!(
                fs::read(path).unwrap(),
                content.as_bytes(),
                "{}",
                self.mistake
            );
        }
        run
    }
}

impl Edit {
    fn apply(&self, program: &Program) {
        let path = format!("find-word/{}", self.file);
        if self.from.is_empty() {
            return program.write(&path, &self.to);
        }
        let text = fs::read_to_string(program.folder.path().join(&path)).unwrap();
        assert!(text.contains(&self.from), "{path} has no {}", self.from);
        program.write(&path, text.replacen(&self.from, &self.to, 1));
    }
}

#[test]
fn message_names_the_mistake_and_its_fix() {
    let mut wrong = Vec::new();
    for mistake in table().mistakes {
        let run = mistake.run_command();
        let says = mistake.says.iter().all(|text| run.stderr.contains(text));
        if run.code != mistake.exit || !says || run.stderr.contains("panicked") {
            wrong.push(format!("{}: {run:#?}", mistake.mistake));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn table_has_forty_mistakes_and_none_twice() {
    let table = table();
    let names = table.mistakes.iter().map(|mistake| &mistake.mistake);
    let builds = table.builds.iter().map(|build| &build.mistake);
    let calls = table.calls.iter().flat_map(|project| &project.calls);
    let names: Vec<&String> = names
        .chain(builds)
        .chain(calls.map(|call| &call.mistake))
        .collect();
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    assert!(names.len() >= 40, "{}", names.len());
}
