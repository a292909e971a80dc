//! Paths and skills' names that lead out of the one folder, and such as are
//! merely odd.

use serde_json::Value;

use super::Rule;
use super::report::{Outcome, Reason, Recorder};
use super::scratch::SKILL;
use super::trial::{Ended, Trial, in_words, quoted, settled};
use skillhost::message::{model_text, program_text};

pub(super) const RULES: &[Rule] = &[CONTAINED, ODD, SKILL_NAMES];

const CONTAINED: Rule = Rule {
    id: "paths-contained",
    sentence: "a path that leads out of the skill's folder ends in a failure and shows nothing",
};
const ODD: Rule = Rule {
    id: "odd-paths",
    sentence: "an empty, long or strange path ends in an answer or a failure of its own",
};
const SKILL_NAMES: Rule = Rule {
    id: "skill-names-contained",
    sentence: "a skill's name that is a path ends in a failure and shows nothing",
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

/// Names of skills that are paths.
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

/// A part of a path that is longer than any file system takes, and more.
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
        let ended = trial.call(trial.with(&[(property, &path)])).await;
        if let Err(reason) = refused(trial, ended, &format!("the path {}", quoted(&path))) {
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
        let ended = trial.call(trial.with(&[(property, path)])).await;
        if let Err(reason) = settled(&ended, &format!("for the path {}", quoted(path))) {
            return Outcome::Failed(reason);
        }
    }
    Outcome::Passed
}

async fn skill_names(trial: &Trial<'_>) -> Outcome {
    let Some(rule) = trial.rule() else {
        return Outcome::skipped("it reads no skill", "");
    };
    let outside = trial.scratch.secret();
    let outside = outside.parent().unwrap_or(&outside).display().to_string();
    for name in NAMES {
        let name = name.replace("{outside}", &outside);
        let arguments = trial.with(&[(&rule.skill_property, &name)]);
        let ended = trial.call(arguments).await;
        if let Err(reason) = refused(trial, ended, &format!("the skill {}", quoted(&name))) {
            return Outcome::Failed(reason);
        }
    }
    Outcome::Passed
}

fn refused(trial: &Trial<'_>, ended: Ended, what: &str) -> Result<(), Reason> {
    settled(&ended, &format!("for {what}"))?;
    let words = in_words(&ended);
    let answered = ended.is_ok();
    let seen = program_text(&ended) + &model_text(ended);
    let why = match (trial.scratch.is_seen_in(&seen), answered) {
        (true, _) => format!("for {what}, which leads out, it showed what lies there"),
        (false, true) => format!("for {what}, which leads out, {words}"),
        (false, false) => return Ok(()),
    };
    Err(Reason {
        why,
        mend: "check the path and open what it names before anything is answered; fail where \
               that fails"
            .to_owned(),
    })
}

/// The property that holds a path, of a tool whose sample names a skill.
fn path_property<'a>(trial: &'a Trial<'_>) -> Option<&'a str> {
    let rule = trial.rule()?;
    let skill = trial
        .sample
        .get(&rule.skill_property)
        .and_then(Value::as_str);
    (skill == Some(SKILL)).then_some(rule.path_property.as_deref()?)
}

fn no_path() -> Outcome {
    Outcome::skipped("its definition names no property that holds a path", "")
}
