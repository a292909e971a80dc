//! What a component says of its tools: that it says anything, and the same
//! each time.

use super::Rule;
use super::report::{Outcome, Recorder};
use super::subject::Subject;
use skillhost::Definition;

pub(super) const RULES: &[Rule] = &[LOADS, TOOLS, STABLE, DESCRIBED];

const LOADS: Rule = Rule {
    id: "loads",
    sentence: "the host loads the component: its imports are granted and its definitions valid",
};
const TOOLS: Rule = Rule {
    id: "has-tools",
    sentence: "it defines a tool",
};
const STABLE: Rule = Rule {
    id: "definitions-stable",
    sentence: "asked again, in a fresh sandbox each time, it defines the same",
};
const DESCRIBED: Rule = Rule {
    id: "described",
    sentence: "it says what it is for",
};

/// How often it is asked again.
const AGAIN: usize = 2;

/// Takes down that the component cannot be loaded.
pub(super) async fn not_loaded(recorder: &mut Recorder, why: String) {
    let mend = "`skillhost inspect` shows what it is, imports and defines";
    let failed = Outcome::failed(why, mend);
    recorder.check(&LOADS, None, async { failed }).await;
}

pub(super) async fn run(recorder: &mut Recorder, subject: &Subject) {
    recorder
        .check(&LOADS, None, async { Outcome::Passed })
        .await;
    let tools = async {
        match subject.tools().next() {
            Some(_) => Outcome::Passed,
            None => Outcome::failed(
                "its list of definitions is empty",
                "return the tools from `definitions`",
            ),
        }
    };
    recorder.check(&TOOLS, None, tools).await;
    recorder.check(&STABLE, None, stable(subject)).await;
}

/// What a tool says of itself.
pub(super) async fn describe(recorder: &mut Recorder, definition: &Definition) {
    let described = async {
        match definition.description.trim() {
            "" => Outcome::failed(
                "its description is empty",
                "say what the tool does and when to use it: it is all that a model knows of it",
            ),
            _ => Outcome::Passed,
        }
    };
    let name = Some(&*definition.name);
    recorder.check(&DESCRIBED, name, described).await;
}

async fn stable(subject: &Subject) -> Outcome {
    let before: Vec<&Definition> = subject.tools().collect();
    for _ in 0..AGAIN {
        let again = match subject.definitions().await {
            Ok(again) => again,
            Err(error) => {
                return Outcome::failed(
                    format!("asked again: {error:#}"),
                    "make the definitions the same way each time",
                );
            }
        };
        if let Some(why) = difference(&before, &again) {
            return Outcome::failed(
                why,
                "make the definitions of constants: no clock, no random numbers",
            );
        }
    }
    Outcome::Passed
}

fn difference(before: &[&Definition], again: &[Definition]) -> Option<String> {
    if before.len() != again.len() {
        let (before, again) = (before.len(), again.len());
        return Some(format!("it had {before} tools, and asked again {again}"));
    }
    let mut pairs = before.iter().zip(again);
    let (before, again) = pairs.find(|(before, again)| ***before != **again)?;
    let what = [
        ("name", before.name != again.name),
        ("title", before.title != again.title),
        ("description", before.description != again.description),
        ("input schema", before.input_schema != again.input_schema),
        ("output schema", before.output_schema != again.output_schema),
        ("folder rule", before.folder != again.folder),
    ];
    let what = what.iter().find(|(_, differs)| *differs);
    let what = what.map_or("form", |(what, _)| what);
    Some(format!(
        "asked again, the tool `{}` has another {what}",
        before.name
    ))
}
