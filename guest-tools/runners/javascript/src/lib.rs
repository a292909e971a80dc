//! The tool `run_skill_javascript`, which runs a script of a skill as `node` would. This module
//! reads the arguments and builds the answer; `engine` runs the script.

mod data;
mod engine;
mod files;
mod http;
mod output;
mod sources;

use std::fs;
use std::path::Path;

use skillhost_guest::scripts::{self, Refusal};
use skillhost_guest::{Access, Failure, Output, SkillPath, Tool};

/// The maximum number of scripts to list when a script is not found.
const MAX_LISTED_SCRIPTS: usize = 30;
/// The maximum number of folders to search for scripts. Guards against: a deep tree.
const MAX_FOLDERS: usize = 100;
const OUTSIDE_MESSAGE: &str = "Path traversal detected: cannot access files outside skill folder";

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
        files: Option<Vec<InputFile>>,
    }
}

skillhost_guest::arguments! {
    #[serde(deny_unknown_fields)]
    struct InputFile {
        /// Path in the skill's folder
        path: String,
        /// The file's text
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The file's bytes in base64, instead of `text`
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<String>,
    }
}

skillhost_guest::record! {
    struct RunRecord<'a> {
        exit_code: i32,
        stdout: String,
        stderr: String,
        left_out: usize,
        notes: &'a [String],
    }
}

const OUTPUT_SCHEMA: &str = r#"{"type":"object","properties":{"exit_code":{"type":"integer"},"stdout":{"type":"string"},"stderr":{"type":"string"},"left_out":{"type":"integer","description":"Bytes of stdout and stderr that are left out"},"notes":{"type":"array","items":{"type":"string"},"description":"Unsupported features that the script used"}},"required":["exit_code","stdout","stderr","left_out","notes"]}"#;

skillhost_guest::export_tools!(
    Tool::new(
        "run_skill_javascript",
        "Run a JavaScript file of a skill in a sandbox, and get what it prints. The script sees the \
         skill's folder, which is its current folder, and has Node's modules for files, paths, \
         text and hashes. It has no processes and no threads, and of the network only what the \
         operator grants.",
        run,
    )
    .title("Run a skill's JavaScript")
    .in_skill("skill_name")
    .output_schema(OUTPUT_SCHEMA)
);

fn run(arguments: Run, access: Access) -> Result<Output, Failure> {
    let folder = access.folder()?;
    let folder = format!(
        "/skills/{}",
        folder.skill().unwrap_or(&arguments.skill_name)
    );
    let script = normalized(&arguments.script)?;
    let source = start_script(&folder, &script)?;
    for file in arguments.files.unwrap_or_default() {
        write_input(&folder, &file)?;
    }
    let result = engine::run(engine::Script {
        path: format!("{folder}/{script}"),
        folder,
        source,
        args: arguments.args.unwrap_or_default(),
        stdin: arguments.stdin.unwrap_or_default(),
    });
    let exit_code = result.map_err(Failure::failed)?;
    scripts::finished(exit_code);
    let notes = engine::take_notes();
    Ok(
        Output::text(answer_text(exit_code, &notes)).with(&RunRecord {
            exit_code,
            stdout: output::text(Some(output::STDOUT)),
            stderr: output::text(Some(output::STDERR)),
            left_out: output::left_out(),
            notes: &notes,
        }),
    )
}

/// Returns the answer for the model: the output, then the notes and the exit code of a failed
/// script.
fn answer_text(exit_code: i32, notes: &[String]) -> String {
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

/// Checks the path of a file in the skill, and normalizes it.
fn normalized(path: &str) -> Result<String, Failure> {
    Ok(SkillPath::new(path)?.normalized())
}

/// Reports the start of a script to the host, and returns its bytes. Fails if the call may not
/// run it.
fn start_script(folder: &str, script: &str) -> Result<Vec<u8>, Failure> {
    let extension = Path::new(script).extension().and_then(|it| it.to_str());
    if !matches!(extension, Some("js" | "mjs" | "cjs") | None) {
        return Err(Failure::invalid_arguments(format!(
            "{script}: not a JavaScript file; this tool runs `.js`, `.mjs` and `.cjs` files"
        )));
    }
    scripts::start(script).map_err(|refusal| match refusal {
        Refusal::NotGranted => Failure::refused(format!(
            "{script}: the operator's grant for this tool does not allow this script"
        )),
        Refusal::Outside => Failure::refused(format!("{script}: {OUTSIDE_MESSAGE}")),
        Refusal::NotFound => not_found(folder, script),
        refusal => Failure::unreadable(format!("{script}: {}", reason(refusal))),
    })
}

/// Returns the reason why the host cannot read a file.
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

/// Returns a not-found failure that lists the skill's scripts.
fn not_found(folder: &str, script: &str) -> Failure {
    let mut folders = vec![String::new()];
    let mut scripts = Vec::new();
    let mut folder_count = 0;
    while let Some(subfolder) = folders.pop() {
        folder_count += 1;
        let Ok(entries) = fs::read_dir(format!("{folder}/{subfolder}")) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if subfolder.is_empty() {
                name
            } else {
                format!("{subfolder}/{name}")
            };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if folder_count + folders.len() < MAX_FOLDERS && !path.ends_with("node_modules") {
                    folders.push(path);
                }
            } else if [".js", ".mjs", ".cjs"]
                .iter()
                .any(|extension| path.ends_with(extension))
            {
                scripts.push(path);
            }
        }
    }
    scripts.sort();
    scripts.truncate(MAX_LISTED_SCRIPTS);
    let hint = if scripts.is_empty() {
        "The skill has no JavaScript files.".to_owned()
    } else {
        let names: Vec<String> = scripts.iter().map(|path| quoted(path)).collect();
        format!("The skill has: {}.", names.join(", "))
    };
    Failure::not_found(format!("{script}: not found. {hint}"))
}

/// Returns a path, as a JSON string in ASCII if it could be read as other text.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if path.chars().all(is_plain) {
        return path.to_owned();
    }
    let mut quoted = String::from('"');
    for c in path.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    quoted.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Writes a file from the arguments into the call's view of the skill's folder.
fn write_input(folder: &str, file: &InputFile) -> Result<(), Failure> {
    let path = normalized(&file.path)?;
    let bytes = match (&file.text, &file.base64) {
        (Some(text), None) => text.clone().into_bytes(),
        (None, Some(base64)) => data::from_base64(base64).ok_or_else(|| {
            Failure::invalid_arguments(format!("{path}: `base64` is not valid base64"))
        })?,
        _ => {
            return Err(Failure::invalid_arguments(format!(
                "{path}: give either text or base64"
            )));
        }
    };
    let target = format!("{folder}/{path}");
    let parent = Path::new(&target).parent().unwrap_or(Path::new(folder));
    let result = fs::create_dir_all(parent).and_then(|()| fs::write(&target, bytes));
    result.map_err(|error| {
        let cause = match files::node_error_code(&error) {
            "EROFS" | "EACCES" => {
                "the skill's folder is read-only in this call; an operator can let scripts change \
                 a copy of it, which ends with the call: `view = \"copy-on-write\"` in the grant"
                    .to_owned()
            }
            _ => error.to_string(),
        };
        Failure::refused(format!("cannot write `{path}`: {cause}"))
    })
}
