//! A guest that asks the host for scripts but runs none, and reads and changes files as the
//! steps of a call say. `tests/scripts.rs` checks the results.

use std::fs;
use std::io;

use skillhost_guest::{Access, Failure, Output, Tool, scripts, skills};

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of a skill
        skill_name: Option<String>,
        /// What to do, a step a line: a verb, a path, and for `write` a text
        steps: String,
    }
}

skillhost_guest::record! {
    struct Ended {
        ended: bool,
    }
}

skillhost_guest::arguments! {
    struct JudgeArguments {
        /// Name of a skill
        skill_name: String,
    }
}

skillhost_guest::record! {
    struct Judgement {
        scripts: Vec<JudgedScript>,
    }
}

skillhost_guest::record! {
    struct JudgedScript {
        script: String,
        verdict: String,
        description: String,
        reasons: Vec<Reason>,
    }
}

skillhost_guest::record! {
    struct Reason {
        needs: String,
    }
}

/// Returns the verdicts in the skill's file `verdicts.txt`. Each line has a script, a verdict, a
/// description and a reason, separated by `|`.
fn judge(call: JudgeArguments, access: Access) -> Result<Output, Failure> {
    let _folder = access;
    let file = format!("/skills/{}/verdicts.txt", call.skill_name);
    let verdicts = fs::read_to_string(file).unwrap_or_default();
    let scripts = verdicts.lines().map(|line| {
        let mut parts = line.split('|').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        JudgedScript {
            script: part(),
            verdict: part(),
            description: part(),
            reasons: vec![Reason { needs: part() }],
        }
    });
    Ok(Output::record(&Judgement {
        scripts: scripts.collect(),
    }))
}

/// Performs the steps, and answers with a line for each.
fn run(call: Arguments, access: Access) -> Result<Output, Failure> {
    let skill = call.skill_name.unwrap_or_default();
    let _folder = access;
    let lines: Vec<String> = call
        .steps
        .lines()
        .map(|step| {
            let mut words = step.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default().to_owned();
            let (verb, path, text) = (word(), word(), word());
            take(&skill, &verb, &path, &text)
        })
        .collect();
    let ended = Ended { ended: true };
    Ok(Output::text(lines.join("\n")).with(&ended))
}

fn take(skill: &str, verb: &str, path: &str, text: &str) -> String {
    let at = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/skills/{skill}/{path}"),
    };
    match verb {
        "start" => match scripts::start(path) {
            Ok(bytes) => format!("started: {}", String::from_utf8_lossy(&bytes).trim_end()),
            Err(refusal) => format!("refused: {}", refusal.name()),
        },
        "load" => match scripts::load_module(path) {
            Ok(bytes) => format!("loaded: {}", String::from_utf8_lossy(&bytes).trim_end()),
            Err(refusal) => format!("refused: {}", refusal.name()),
        },
        // The number of skills that each function reports.
        "skills" => format!(
            "skills: {} {} {}",
            skills::list().len(),
            skills::page(None, 100).total,
            skills::find(path, 100).hits.len()
        ),
        "finish" => {
            scripts::finished(path.parse().unwrap_or_default());
            "finished".to_owned()
        }
        "read" => match fs::read(at) {
            Ok(mut bytes) => {
                bytes.truncate(100);
                format!("read: {}", String::from_utf8_lossy(&bytes).trim_end())
            }
            Err(error) => failed(&error),
        },
        "write" => told(fs::write(at, text)),
        // The text is the number of bytes.
        "fill" => told(fs::write(at, vec![b'x'; text.parse().unwrap_or_default()])),
        "binary" => told(fs::write(at, [0xff, 0, 0xfe])),
        "mkdir" => told(fs::create_dir_all(at)),
        "remove" => told(fs::remove_file(at)),
        "rename" => told(fs::rename(at, format!("/skills/{skill}/{text}"))),
        "loop" => loop {
            std::hint::spin_loop();
        },
        verb => format!("no step: {verb}"),
    }
}

fn told(done: io::Result<()>) -> String {
    done.map_or_else(|error| failed(&error), |()| "done".to_owned())
}

fn failed(error: &io::Error) -> String {
    format!("failed: {:?}", error.kind())
}

skillhost_guest::export_tools!(
    Tool::new("take_steps", "Takes steps.", run).in_skill_or_home("skill_name", "steps"),
    Tool::new("check_skill_steps", "Judges scripts.", judge).in_skill("skill_name"),
    Tool::new("take_steps_for_record", "Takes steps.", run)
        .in_skill("skill_name")
        .model_reads_record()
);
