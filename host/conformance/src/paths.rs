//! Paths and skill names that lead out of the one folder, and odd paths.

use serde_json::Value;

use super::report::{Outcome, Reason, Recorder, Rule};
use super::scratch::SKILL;
use super::trial::Trial;
use super::wording::{TrialResult, answered_or_failed, describe, quoted};
use skillhost::message::{model_text, program_text};

pub(super) const RULES: &[Rule] = &[CONTAINED, ODD, SKILL_NAMES];

const CONTAINED: Rule = Rule {
    id: "paths-contained",
    sentence: "a path that leads out of the skill's folder fails and reveals nothing",
};
const ODD: Rule = Rule {
    id: "odd-paths",
    sentence: "an empty, long or odd path ends in an answer or in the tool's own failure",
};
const SKILL_NAMES: Rule = Rule {
    id: "skill-names-contained",
    sentence: "a skill name that is a path fails and reveals nothing",
};

/// Paths that lead out; `{secret}` is the absolute path of a file outside.
const OUT: [&str; 12] = [
    "../../outside/secret.txt",
    "../conformance-beside/SKILL.md",
    "docs/../../conformance-beside/SKILL.md",
    "docs/../../../outside/secret.txt",
    "./.././conformance-beside/SKILL.md",
    "..",
    "{secret}",
    "/etc/passwd",
    "link-out",
    "relative-link-out",
    "folder-out/secret.txt",
    "..\\conformance-beside\\SKILL.md",
];

/// Paths in the place of a skill's name; `{outside}` is the absolute path of a folder.
const NAMES: [&str; 8] = [
    "..",
    ".",
    "../outside",
    "../skills/conformance-beside",
    "conformance/../conformance-beside",
    "conformance/docs",
    "{outside}",
    "/",
];

/// Longer than any file system allows for one part of a path.
const LONG: usize = 5000;

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    let name = Some(trial.name());
    recorder.check(&CONTAINED, name, contained(trial)).await;
    recorder.check(&ODD, name, odd(trial)).await;
    recorder.check(&SKILL_NAMES, name, skill_names(trial)).await;
}

async fn contained(trial: &Trial<'_>) -> Outcome {
    let Some(property) = path_property(trial) else {
        return no_path();
    };
    let secret = trial.scratch.secret().display().to_string();
    for path in OUT {
        let path = path.replace("{secret}", &secret);
        let result = trial.call(trial.with(&[(property, &path)])).await;
        if let Err(reason) = refused(trial, result, &format!("the path {}", quoted(&path))) {
            return Outcome::Failed(reason);
        }
    }
    Outcome::Passed
}

async fn odd(trial: &Trial<'_>) -> Outcome {
    let Some(property) = path_property(trial) else {
        return no_path();
    };
    let long = "a".repeat(LONG);
    let deep = "a/".repeat(LONG);
    for path in [
        "",
        " ",
        ".",
        "./",
        "/",
        "docs",
        "docs/",
        "nothing.md",
        "SKILL.md/",
        "SKILL.md/x",
        "a\0b",
        "a\nb",
        "\u{1b}[2J",
        "C:\\x",
        "C:x",
        "*",
        "fifo",
        "loop",
        "ä/ö",
        "%2e%2e/",
        "~",
        &long,
        &deep,
    ] {
        let result = trial.call(trial.with(&[(property, path)])).await;
        if let Err(reason) = answered_or_failed(&result, &format!("for the path {}", quoted(path)))
        {
            return Outcome::Failed(reason);
        }
    }
    Outcome::Passed
}

async fn skill_names(trial: &Trial<'_>) -> Outcome {
    let Some(rule) = trial.folder_rule() else {
        return Outcome::skipped("it reads no skill", "");
    };
    let outside = trial.scratch.secret();
    let outside = outside.parent().unwrap_or(&outside).display().to_string();
    for name in NAMES {
        let name = name.replace("{outside}", &outside);
        let arguments = trial.with(&[(&rule.skill_property, &name)]);
        let result = trial.call(arguments).await;
        if let Err(reason) = refused(trial, result, &format!("the skill {}", quoted(&name))) {
            return Outcome::Failed(reason);
        }
    }
    Outcome::Passed
}

fn refused(trial: &Trial<'_>, result: TrialResult, what: &str) -> Result<(), Reason> {
    answered_or_failed(&result, &format!("for {what}"))?;
    let described = describe(&result);
    let answered = result.is_ok();
    let text = program_text(&result) + &model_text(result);
    let why = match (trial.scratch.is_revealed_in(&text), answered) {
        (true, _) => format!("for {what}, which leads out, it revealed a file there"),
        (false, true) => format!("for {what}, which leads out, {described}"),
        (false, false) => return Ok(()),
    };
    Err(Reason {
        why,
        fix: "check the path and open the file before you answer; return a failure if either \
              fails"
            .to_owned(),
    })
}

/// Returns the property that holds a path, if the sample names the scratch skill.
fn path_property<'a>(trial: &'a Trial<'_>) -> Option<&'a str> {
    let rule = trial.folder_rule()?;
    let skill = trial
        .sample
        .get(&rule.skill_property)
        .and_then(Value::as_str);
    (skill == Some(SKILL)).then_some(rule.path_property.as_deref()?)
}

fn no_path() -> Outcome {
    Outcome::skipped(
        "its definition names no property for a path, which a function with types of its own \
         cannot do; a case with a path such as `../../etc/passwd` tries it",
        "",
    )
}
