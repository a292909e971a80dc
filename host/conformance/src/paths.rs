//! Checks of paths and skill names that lead out of the skill's folder, and of odd paths.

use serde_json::Value;

use super::report::{Outcome, Reason, Recorder, Rule};
use super::scratch::SKILL;
use super::trial::Trial;
use super::wording::{CallResult, answered_or_failed, describe, quoted};
use skillhost::FolderRule;
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

/// Paths that lead out of the skill's folder. The check replaces `{secret}` with the absolute path
/// of a file outside.
const OUTSIDE_PATHS: [&str; 12] = [
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

/// Paths in place of a skill's name. The check replaces `{outside}` with the absolute path of a
/// folder that is not a skill.
const PATH_NAMES: [&str; 8] = [
    "..",
    ".",
    "../outside",
    "../skills/conformance-beside",
    "conformance/../conformance-beside",
    "conformance/docs",
    "{outside}",
    "/",
];

/// The number of bytes of a long name, and of folders in a deep path: more than file systems allow.
const LONG_NAME: usize = 5000;

pub(super) async fn run(recorder: &mut Recorder, trial: &Trial<'_>) {
    let name = Some(trial.name());
    recorder.check(&CONTAINED, name, outside_paths(trial)).await;
    recorder.check(&ODD, name, odd_paths(trial)).await;
    recorder.check(&SKILL_NAMES, name, skill_names(trial)).await;
}

async fn outside_paths(trial: &Trial<'_>) -> Outcome {
    let property = match path_property(trial) {
        Ok(property) => property,
        Err(skipped) => return skipped,
    };
    let secret = trial.scratch.secret().display().to_string();
    for path in OUTSIDE_PATHS {
        let path = path.replace("{secret}", &secret);
        let result = trial.call(trial.with(&[(property, &path)])).await;
        if let Err(reason) = check_refused(trial, result, &format!("the path {}", quoted(&path))) {
            return Outcome::Failed(reason);
        }
    }
    Outcome::Passed
}

async fn odd_paths(trial: &Trial<'_>) -> Outcome {
    let property = match path_property(trial) {
        Ok(property) => property,
        Err(skipped) => return skipped,
    };
    let long = "a".repeat(LONG_NAME);
    let deep = "a/".repeat(LONG_NAME);
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
    let folder_rule = match folder_rule(trial) {
        Ok(rule) => rule,
        Err(skipped) => return skipped,
    };
    let secret = trial.scratch.secret();
    let outside = secret.parent().unwrap_or(&secret).display().to_string();
    for name in PATH_NAMES {
        let name = name.replace("{outside}", &outside);
        let arguments = trial.with(&[(&folder_rule.skill_property, &name)]);
        let result = trial.call(arguments).await;
        if let Err(reason) = check_refused(trial, result, &format!("the skill {}", quoted(&name))) {
            return Outcome::Failed(reason);
        }
    }
    Outcome::Passed
}

/// Returns an error if a call that must fail got an answer, revealed a file outside the skill's
/// folder, or was stopped.
fn check_refused(trial: &Trial<'_>, result: CallResult, what: &str) -> Result<(), Reason> {
    answered_or_failed(&result, &format!("for {what}"))?;
    let described = describe(&result);
    let answered = result.is_ok();
    let text = program_text(&result) + &model_text(result);
    let why = if trial.scratch.is_canary_in(&text) {
        format!("for {what}, which leads out of the folder, it revealed a file outside")
    } else if answered {
        format!("for {what}, which leads out of the folder, {described}")
    } else {
        return Ok(());
    };
    Err(Reason {
        why,
        fix: "before you answer, check the path and open the file; return a failure if either \
              fails"
            .to_owned(),
    })
}

/// Returns the rule for the tool's folder. If the tool has none, returns the outcome for checks
/// that need it.
fn folder_rule<'a>(trial: &'a Trial<'_>) -> Result<&'a FolderRule, Outcome> {
    trial
        .folder_rule()
        .ok_or_else(|| Outcome::skipped("it reads no skill", ""))
}

/// Returns the property that holds a path. If the definition names none, returns the outcome for
/// checks that need it.
fn path_property<'a>(trial: &'a Trial<'_>) -> Result<&'a str, Outcome> {
    let rule = folder_rule(trial)?;
    let skill = trial.sample.get(&rule.skill_property);
    if skill.and_then(Value::as_str) != Some(SKILL) {
        return Err(Outcome::skipped(
            "the valid arguments that were found do not name the skill of this test",
            "",
        ));
    }
    rule.path_property.as_deref().ok_or_else(|| {
        Outcome::skipped(
            "its definition does not say which property holds a path, and the definition of a \
             typed function cannot say so; to test paths, write a case with a path such as \
             `../../etc/passwd`",
            "",
        )
    })
}
