//! `read_skill_file`: any file of a skill's folder or of the home folder, as
//! a whole or by lines.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;

mod lines;
mod record;

use lines::{Range, Selected};
use record::{Error, Meta, Success};
use skillhost_guest::{
    Access, Failure, FailureKind, File, Folder, Output, PathError, ReadError, SkillPath, Tool,
    check_skill_name, text,
};

skillhost_guest::arguments! {
    struct Arguments {
        /// File path. With skill_name: relative to the skill's directory. Without: relative to the home folder, `~/…`, or an absolute path inside the home folder or a skill.
        path: String,
        /// Skill name. If provided, path is resolved relative to the skill's directory. Use this when a skill mentions other files to reference.
        skill_name: Option<String>,
        /// Start line number (1-indexed). Default: 1. Use for reading large files in chunks.
        offset: Option<i64>,
        /// Number of lines to read. If not specified, reads from offset to end of file.
        limit: Option<i64>,
    }
}

skillhost_guest::without_std!();

skillhost_guest::export_tools!(
    Tool::new(
        "read_skill_file",
        "Read a file of a skill: one that its instructions mention, a guide, a template or an \
         example. Skill files are stored on the local machine, not in a remote sandbox or \
         workspace, so this tool must be used to read them. With skill_name, which is usual, path \
         is relative to the skill's directory. offset and limit read a large file in parts.",
        read_skill_file,
    )
    .title("Read a skill's file, or lines of it")
    .in_skill_or_home("skill_name", "path")
    .text_property("stdout")
    .output_schema(include_str!("output.schema.json"))
);

/// A larger file is only read in parts (the contract's 10 MB).
const MAX_WHOLE_FILE: u64 = 10 * 1024 * 1024;

/// The parts of an answer, for success and failure.
struct Answer {
    said: Result<String, Failure>,
    meta: Meta,
}

fn read_skill_file(call: Arguments, access: Access) -> Result<Output, Failure> {
    let Answer { said, meta } = answer(&call, access);
    match said {
        Ok(text) => Ok(Output::text(text).with(&Success {
            ok: true,
            stdout: (),
            stderr: "",
            meta,
        })),
        Err(failure) => Err(failure.framed("", |stderr| Error {
            ok: false,
            stdout: "",
            stderr,
            meta,
        })),
    }
}

fn answer(call: &Arguments, access: Access) -> Answer {
    let access = match call.skill() {
        Some(skill) if !check_skill_name(skill) => Access::UnknownSkill,
        _ => access,
    };
    let unknown = matches!(access, Access::UnknownSkill);
    let folder = match folder(call, access) {
        Ok(folder) => folder,
        // A path that lies in a skill, and there is no such skill.
        Err(_) if call.skill().is_none() && unknown => {
            return not_found(call, call.path.clone());
        }
        Err(failure) => {
            return Answer {
                said: Err(failure),
                meta: Meta::Unresolved {
                    path: call.path.clone(),
                    skill_name: call.skill().map(str::to_owned),
                },
            };
        }
    };
    // A path that the host found in a folder is relative to that folder.
    let asked = folder.path().unwrap_or(&call.path);
    let path = match SkillPath::new(asked) {
        Ok(path) => path,
        Err(PathError::Empty) => return not_a_file(shown(&folder, None)),
        Err(error) => return unreadable(shown(&folder, None), error.into()),
    };
    let shown = shown(&folder, Some(&path));
    let found = folder
        .find(&path, |path| folder.open(path))
        .and_then(|file| file.size().map(|size| (file, size)));
    match found {
        Ok((file, size)) => read(call, &file, size, shown),
        Err(ReadError::IsDirectory | ReadError::NotRegular) => not_a_file(shown),
        Err(ReadError::NotFound) => not_found(call, shown),
        Err(error) => unreadable(shown, error.into()),
    }
}

impl Arguments {
    /// The skill that the call names. An empty name counts as none.
    fn skill(&self) -> Option<&str> {
        self.skill_name.as_deref().filter(|name| !name.is_empty())
    }
}

fn folder(call: &Arguments, access: Access) -> Result<Folder, Failure> {
    match access {
        Access::UnknownSkill => Err(Failure::not_found(format!(
            "Skill '{}' not found. Cannot resolve path relative to skill.",
            call.skill().unwrap_or_default()
        ))),
        Access::NoHome => Err(Failure::invalid_arguments(format!(
            "Cannot resolve '{}': no skill_name was given and no home folder is configured",
            call.path
        ))),
        access => access.folder(),
    }
}

/// Returns a path for display: the skill's name and the path inside it, or `~` and the path in the
/// home folder. Reveals no path of the host.
fn shown(folder: &Folder, path: Option<&SkillPath<'_>>) -> String {
    let root = folder.skill().unwrap_or("~");
    match path.map(SkillPath::normalized) {
        Some(path) if path != "." => format!("{root}/{path}"),
        _ => root.to_owned(),
    }
}

fn not_found(call: &Arguments, path: String) -> Answer {
    Answer {
        said: Err(Failure::not_found(format!(
            "File not found: {path}. (Resolved from: {}, skill: {})",
            call.path,
            call.skill().unwrap_or("none"),
        ))),
        meta: Meta::Missing {
            path,
            original_path: call.path.clone(),
            skill_name: call.skill().map(str::to_owned),
        },
    }
}

fn not_a_file(path: String) -> Answer {
    Answer {
        said: Err(Failure::unreadable(format!("Path is not a file: {path}"))),
        meta: Meta::Path { path },
    }
}

fn unreadable(path: String, failure: Failure) -> Answer {
    let error = failure.message().to_owned();
    let failure = match failure.kind() {
        FailureKind::Refused => failure,
        _ => Failure::unreadable(format!("Error reading file: {error}")),
    };
    Answer {
        said: Err(failure),
        meta: Meta::Error { path, error },
    }
}

fn read(call: &Arguments, file: &File, size: u64, path: String) -> Answer {
    let range = Range::of(call.offset, call.limit);
    if size > MAX_WHOLE_FILE && range.is_none() {
        return Answer {
            said: Ok(format!(
                "[File: {path}]\nSize: {size} bytes\n\nFile is too large to display (>10MB). Use \
                 offset and limit to read specific lines."
            )),
            meta: Meta::Size {
                path,
                file_size: size,
            },
        };
    }
    let selected = match range {
        // A file that is not text has no lines, whichever are asked for.
        Some(range) if size <= MAX_WHOLE_FILE => {
            file.read_all(MAX_WHOLE_FILE)
                .map(|bytes| match core::str::from_utf8(&bytes.0) {
                    Ok(_) => lines::select(&bytes.0, range),
                    Err(_) => Selected::Lines(bytes.0),
                })
        }
        Some(range) => lines::read(file, range),
        None => file
            .read_all(u64::from(u32::MAX))
            .map(|bytes| Selected::Lines(bytes.0)),
    };
    let text = match selected {
        Ok(Selected::Lines(bytes)) => text::utf8(bytes),
        Ok(Selected::PastEnd { total_lines }) => {
            return Answer {
                said: Ok(String::new()),
                meta: Meta::PastEnd {
                    path,
                    start_line: call.offset,
                    end_line: total_lines,
                    total_lines,
                },
            };
        }
        Err(error) => return unreadable(path, error.into()),
    };
    match text {
        Ok(text) => Answer {
            said: Ok(text),
            meta: Meta::Read {
                path,
                file_size: size,
                start_line: call.offset,
                end_line: lines::last_line(call.offset, call.limit),
            },
        },
        Err(_) => Answer {
            said: Ok(format!(
                "[File: {path}]\nType: binary\nSize: {size} bytes\n\nThis file is binary and \
                 cannot be displayed as text."
            )),
            meta: Meta::Binary {
                path,
                file_type: "binary",
                file_size: size,
            },
        },
    }
}
