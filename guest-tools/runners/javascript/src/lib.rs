//! The tool run_skill_javascript: a script of a skill, run in the sandbox as `node` would.
//! Arguments and the answer are here; the run is in `engine`.

mod data;
mod engine;
mod files;
mod output;
mod sources;

use std::fs;
use std::path::Path;

use skillhost_guest::scripts::{self, Refusal};
use skillhost_guest::{Access, Failure, Output, SkillPath, Tool};

/// Scripts that are named where one is not found.
const LISTED: usize = 30;
/// Folders that are looked through for them. Guards against: a deep tree.
const FOLDERS: usize = 100;
const OUTSIDE: &str = "Path traversal detected: cannot access files outside skill folder";

skillhost_guest::arguments! {
    struct Run {
        /// Name of the skill
        skill_name: String,
        /// Path of the script in the skill's folder, such as scripts/report.js
        script: String,
        /// Arguments of the script, one each
        #[schemars(length(max = 1000))]
        args: Option<Vec<String>>,
        /// Text that the script reads from stdin
        stdin: Option<String>,
        /// Files that the script finds in the skill's folder; they are gone after the call
        #[schemars(length(max = 1000))]
        files: Option<Vec<GivenFile>>,
    }
}

skillhost_guest::arguments! {
    #[serde(deny_unknown_fields)]
    struct GivenFile {
        /// Path in the skill's folder
        path: String,
        /// The file's text
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Or its bytes
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<String>,
    }
}

skillhost_guest::record! {
    struct Ended<'a> {
        exit_code: i32,
        stdout: String,
        stderr: String,
        left_out: usize,
        notes: &'a [String],
    }
}

const OUTPUT: &str = r#"{"type":"object","properties":{"exit_code":{"type":"integer"},"stdout":{"type":"string"},"stderr":{"type":"string"},"left_out":{"type":"integer","description":"Bytes of both that are left out"},"notes":{"type":"array","items":{"type":"string"},"description":"What the script asked for and the sandbox does not have"}},"required":["exit_code","stdout","stderr","left_out","notes"]}"#;

skillhost_guest::export_tools!(
    Tool::new(
        "run_skill_javascript",
        "Run a JavaScript file of a skill in a sandbox, and get what it prints. The script sees the \
         skill's folder, which is its current folder, and has Node's modules for files, paths, \
         text and hashes. It has no network, no processes and no threads.",
        run,
    )
    .title("Run a skill's JavaScript")
    .in_skill("skill_name")
    .output_schema(OUTPUT)
);

fn run(arguments: Run, access: Access) -> Result<Output, Failure> {
    let folder = access.folder()?;
    let folder = format!(
        "/skills/{}",
        folder.skill().unwrap_or(&arguments.skill_name)
    );
    let script = inside(&arguments.script)?;
    let source = start(&folder, &script)?;
    for file in arguments.files.unwrap_or_default() {
        put(&folder, &file)?;
    }
    let ended = engine::run(engine::Script {
        path: format!("{folder}/{script}"),
        folder,
        source,
        args: arguments.args.unwrap_or_default(),
        stdin: arguments.stdin.unwrap_or_default(),
    });
    let exit_code = ended.map_err(Failure::failed)?;
    scripts::finished(exit_code);
    let notes = engine::notes();
    Ok(Output::text(text(exit_code, &notes)).with(&Ended {
        exit_code,
        stdout: output::text(Some(output::STDOUT)),
        stderr: output::text(Some(output::STDERR)),
        left_out: output::left_out(),
        notes: &notes,
    }))
}

/// Returns what a model reads.
fn text(exit_code: i32, notes: &[String]) -> String {
    let mut text = output::text(None);
    let is_new = |line: &&String| exit_code != 0 && !text.contains(line.as_str());
    let mut lines: Vec<String> = notes.iter().filter(is_new).cloned().collect();
    match (exit_code, text.is_empty()) {
        (_, true) => lines.push(format!("exit code {exit_code}, no output")),
        (0, false) => {}
        (_, false) => lines.push(format!("exit code {exit_code}")),
    }
    if !lines.is_empty() && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("[{line}]")).collect();
    text + &lines.join("\n")
}

/// Returns a path in the skill, without steps that lead nowhere.
fn inside(path: &str) -> Result<String, Failure> {
    Ok(SkillPath::new(path)?.normalized())
}

/// Returns the bytes of a script that may be run.
fn start(folder: &str, script: &str) -> Result<Vec<u8>, Failure> {
    let extension = Path::new(script).extension().and_then(|it| it.to_str());
    if !matches!(extension, Some("js" | "mjs" | "cjs") | None) {
        return Err(Failure::invalid_arguments(format!(
            "{script}: not a JavaScript file; this tool runs `.js`, `.mjs` and `.cjs` files"
        )));
    }
    scripts::start(script).map_err(|refusal| match refusal {
        Refusal::NotGranted => Failure::refused(format!(
            "{script}: the operator's grant of this tool allows no script of this path"
        )),
        Refusal::Outside => Failure::refused(format!("{script}: {OUTSIDE}")),
        Refusal::NotFound => not_found(folder, script),
        refusal => Failure::unreadable(format!("{script}: {}", reason(refusal))),
    })
}

/// Returns the reason for which the host cannot read a file.
fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotAFile => "is not a file",
        Refusal::HardLinked => "has several hard links",
        Refusal::OtherMount => "lies on another mount",
        Refusal::PermissionDenied => "permission denied",
        Refusal::SymlinkLoop => "too many levels of symbolic links",
        Refusal::NameTooLong => "name too long",
        Refusal::TooLarge => "larger than the 4 MiB that a script may have",
        _ => "cannot be read",
    }
}

/// Names the scripts that there are.
fn not_found(folder: &str, script: &str) -> Failure {
    let mut folders = vec![String::new()];
    let mut found = Vec::new();
    let mut seen = 0;
    while let Some(below) = folders.pop() {
        seen += 1;
        let Ok(entries) = fs::read_dir(format!("{folder}/{below}")) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if below.is_empty() {
                name
            } else {
                format!("{below}/{name}")
            };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if seen + folders.len() < FOLDERS && !path.ends_with("node_modules") {
                    folders.push(path);
                }
            } else if [".js", ".mjs", ".cjs"]
                .iter()
                .any(|end| path.ends_with(end))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found.truncate(LISTED);
    let there = match found.is_empty() {
        true => "The skill has no JavaScript files.".to_owned(),
        false => format!("The skill has: {}.", found.join(", ")),
    };
    Failure::not_found(format!("{script}: not found. {there}"))
}

/// Writes a file of the call into the skill's folder, as the call sees it.
fn put(folder: &str, file: &GivenFile) -> Result<(), Failure> {
    let path = inside(&file.path)?;
    let bytes = match (&file.text, &file.base64) {
        (Some(text), None) => text.clone().into_bytes(),
        (None, Some(base64)) => data::from_base64(base64).ok_or_else(|| {
            Failure::invalid_arguments(format!("{path}: `base64` is no text in base64"))
        })?,
        _ => {
            return Err(Failure::invalid_arguments(format!(
                "{path}: give either text or base64"
            )));
        }
    };
    let target = format!("{folder}/{path}");
    let parent = Path::new(&target).parent().unwrap_or(Path::new(folder));
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(&target, bytes));
    written.map_err(|error| {
        let why = match files::code(&error) {
            "EROFS" | "EACCES" => {
                "the skill's folder is read-only in this call; an operator can let scripts change \
                 a copy of it, which ends with the call: `view = \"copy-on-write\"` in the grant"
                    .to_owned()
            }
            _ => error.to_string(),
        };
        Failure::refused(format!("{path}: cannot be written: {why}"))
    })
}
