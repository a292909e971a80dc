//! Checks of a component's definitions: the component has at least one, and always the same ones.

use super::component::TestedComponent;
use super::report::{Outcome, Recorder, Rule};
use skillhost::Definition;
use skillhost_skills::text::count::count;

pub(super) const RULES: &[Rule] = &[LOADS, HAS_TOOLS, STABLE, DESCRIBED];

const LOADS: Rule = Rule {
    id: "loads",
    sentence: "the host loads the component: its imports are granted, and its definitions are valid",
};
const HAS_TOOLS: Rule = Rule {
    id: "has-tools",
    sentence: "the component defines a tool",
};
const STABLE: Rule = Rule {
    id: "definitions-stable",
    sentence: "the component gives the same definitions in each fresh sandbox",
};
const DESCRIBED: Rule = Rule {
    id: "described",
    sentence: "the tool has a description",
};

/// The number of times that the run asks the component again for its definitions.
const REPEATS: usize = 2;

/// Records that the host cannot load the component.
pub(super) async fn record_load_failure(recorder: &mut Recorder, why: String) {
    let fix = "`skillhost inspect` shows its kind, imports and definitions";
    let failed = Outcome::failed(why, fix);
    recorder.check(&LOADS, None, async { failed }).await;
}

pub(super) async fn run(recorder: &mut Recorder, component: &TestedComponent) {
    recorder
        .check(&LOADS, None, async { Outcome::Passed })
        .await;
    let has_tools = async {
        match component.tools().next() {
            Some(_) => Outcome::Passed,
            None => Outcome::failed(
                "its list of definitions is empty",
                "return the tools from `definitions`",
            ),
        }
    };
    recorder.check(&HAS_TOOLS, None, has_tools).await;
    recorder.check(&STABLE, None, stable(component)).await;
}

/// Checks that a tool has a description.
pub(super) async fn check_description(recorder: &mut Recorder, definition: &Definition) {
    let described = async {
        match definition.description.trim() {
            "" => Outcome::failed(
                "its description is empty",
                "say what the tool does and when to use it: a model knows nothing else about it",
            ),
            _ => Outcome::Passed,
        }
    };
    let name = Some(&*definition.name);
    recorder.check(&DESCRIBED, name, described).await;
}

async fn stable(component: &TestedComponent) -> Outcome {
    let before: Vec<&Definition> = component.tools().collect();
    for _ in 0..REPEATS {
        let again = match component.definitions().await {
            Ok(again) => again,
            Err(error) => {
                return Outcome::failed(
                    format!("the component gave no definitions when asked again: {error:#}"),
                    "build the definitions the same way each time",
                );
            }
        };
        if let Some(why) = difference(&before, &again) {
            return Outcome::failed(
                why,
                "build the definitions from constants: no clock, no random numbers",
            );
        }
    }
    Outcome::Passed
}

/// Describes the first difference between two lists of definitions.
fn difference(before: &[&Definition], again: &[Definition]) -> Option<String> {
    if before.len() != again.len() {
        let (before, again) = (before.len(), again.len());
        return Some(format!(
            "the component defined {} the first time, and {again} later",
            count(before, "tool")
        ));
    }
    let mut pairs = before.iter().zip(again);
    let (before, again) = pairs.find(|(before, again)| ***before != **again)?;
    let parts = [
        ("name", before.name != again.name),
        ("title", before.title != again.title),
        ("description", before.description != again.description),
        ("input schema", before.input_schema != again.input_schema),
        ("output schema", before.output_schema != again.output_schema),
        ("folder rule", before.folder != again.folder),
    ];
    let changed = parts.iter().find(|(_, differs)| *differs);
    let part = changed.map_or("form", |(part, _)| part);
    Some(format!(
        "the {part} of the tool `{}` changes from one sandbox to the next",
        before.name
    ))
}
