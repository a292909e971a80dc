//! `read_skill_file`: reads a file of a skill or of the home folder, or some of its lines.
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

/// The maximum size of a file to read as a whole, from the contract: 10 MB. Calls can read a
/// larger file by lines.
const MAX_WHOLE_FILE_BYTES: u64 = 10 * 1024 * 1024;

/// The parts of an answer, for success and failure.
struct Answer {
    result: Result<String, Failure>,
    meta: Meta,
}

fn read_skill_file(call: Arguments, access: Access) -> Result<Output, Failure> {
    let Answer { result, meta } = answer(&call, access);
    match result {
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
    let is_unknown_skill = matches!(access, Access::UnknownSkill);
    let folder = match folder(call, access) {
        Ok(folder) => folder,
        // The path is in the folder of a skill that does not exist.
        Err(_) if call.skill().is_none() && is_unknown_skill => {
            return not_found(call, call.path.clone());
        }
        Err(failure) => {
            return Answer {
                result: Err(failure),
                meta: Meta::Unresolved {
                    path: call.path.clone(),
                    skill_name: call.skill().map(str::to_owned),
                },
            };
        }
    };
    // If the call names no skill, the host gives the path relative to the folder.
    let relative_path = folder.path().unwrap_or(&call.path);
    let path = match SkillPath::new(relative_path) {
        Ok(path) => path,
        Err(PathError::Empty) => return not_a_file(display_path(&folder, None)),
        Err(error) => return unreadable(display_path(&folder, None), error.into()),
    };
    let display_path = display_path(&folder, Some(&path));
    let opened = folder
        .find(&path, |path| folder.open(path))
        .and_then(|file| file.size().map(|size| (file, size)));
    match opened {
        Ok((file, size)) => read(call, &file, size, display_path),
        Err(ReadError::IsDirectory | ReadError::NotRegular) => not_a_file(display_path),
        Err(ReadError::NotFound) => not_found(call, display_path),
        Err(error) => unreadable(display_path, error.into()),
    }
}

impl Arguments {
    /// Returns the skill that the call names, or `None` if the name is missing or empty.
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
fn display_path(folder: &Folder, path: Option<&SkillPath<'_>>) -> String {
    let root = folder.skill().unwrap_or("~");
    match path.map(SkillPath::normalized) {
        Some(path) if path != "." => format!("{root}/{path}"),
        _ => root.to_owned(),
    }
}

fn not_found(call: &Arguments, path: String) -> Answer {
    Answer {
        result: Err(Failure::not_found(format!(
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
        result: Err(Failure::unreadable(format!("Path is not a file: {path}"))),
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
        result: Err(failure),
        meta: Meta::Error { path, error },
    }
}

fn read(call: &Arguments, file: &File, size: u64, path: String) -> Answer {
    let range = Range::of(call.offset, call.limit);
    if size > MAX_WHOLE_FILE_BYTES && range.is_none() {
        return Answer {
            result: Ok(format!(
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
        // Check the whole file: a binary file has no lines to select.
        Some(range) if size <= MAX_WHOLE_FILE_BYTES => {
            file.read_all(MAX_WHOLE_FILE_BYTES)
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
                result: Ok(String::new()),
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
            result: Ok(text),
            meta: Meta::Read {
                path,
                file_size: size,
                start_line: call.offset,
                end_line: lines::last_line(call.offset, call.limit),
            },
        },
        Err(_) => Answer {
            result: Ok(format!(
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
