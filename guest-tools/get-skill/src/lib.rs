//! `get_skill`: returns a skill's documentation file as JSON.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use skillhost_guest::{Access, Failure, Output, ReadError, Tool, check_skill_name};

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of the skill (folder name)
        skill_name: String,
    }
}

skillhost_guest::record! {
    struct Success {
        skill_name: String,
        /// Serialized as null, which the host replaces with the text.
        documentation: (),
    }
}

skillhost_guest::record! {
    struct Error {
        error: String,
    }
}

skillhost_guest::without_std!();

skillhost_guest::export_tools!(
    Tool::new(
        "get_skill",
        "Read the SKILL.MD documentation for a specific skill. Returns the full text content of \
         the documentation file.",
        get_skill,
    )
    .title("Get a skill's documentation")
    .in_skill("skill_name")
    .text_property("documentation")
    .model_reads_record()
    .output_schema(include_str!("output.schema.json"))
);

/// The maximum size of a SKILL.md, from the contract: 1 MB.
const MAX_BYTES: u64 = 1 << 20;

fn get_skill(arguments: Arguments, access: Access) -> Result<Output, Failure> {
    let skill_name = arguments.skill_name;
    match read(&skill_name, access) {
        Ok(output) => Ok(output.with(&Success {
            skill_name,
            documentation: (),
        })),
        Err(failure) => Err(failure.framed("", |error| Error { error })),
    }
}

fn read(skill: &str, access: Access) -> Result<Output, Failure> {
    if !check_skill_name(skill) {
        return Err(Failure::invalid_arguments(format!(
            "Invalid skill name: '{skill}'. Skill names must not contain '/', '\\', or '..'"
        )));
    }
    let permission_denied = || {
        Failure::unreadable(format!(
            "Permission denied reading SKILL.MD for skill '{skill}'"
        ))
    };
    let folder = match access {
        Access::UnknownSkill => {
            return Err(Failure::not_found(format!(
                "Skill '{skill}' not found in skills folder"
            )));
        }
        Access::Unreadable => return Err(permission_denied()),
        access => access.folder()?,
    };
    let answer = match folder.answer_skill_md(MAX_BYTES) {
        Ok((output, _)) => Ok(output),
        // The file exceeds the contract's limit or the host's limit on answers. Read the file
        // to find out which limit: the host fails the call if the answer is too large.
        Err(ReadError::TooLarge(_)) => folder
            .open_skill_md()
            .and_then(|file| file.read_all(MAX_BYTES))
            .and_then(|bytes| bytes.into_text().map_err(|_| ReadError::NotUtf8))
            .map(Output::text),
        Err(error) => Err(error),
    };
    answer.map_err(|error| match error {
        ReadError::NotFound | ReadError::IsDirectory => {
            Failure::not_found(format!("SKILL.MD not found for skill '{skill}'"))
        }
        ReadError::PermissionDenied => permission_denied(),
        ReadError::TooLarge(_) => {
            Failure::unreadable(format!("SKILL.MD too large (>1MB) for skill '{skill}'"))
        }
        ReadError::Outside => error.into(),
        ReadError::NotUtf8 => Failure::unreadable(format!(
            "SKILL.MD contains invalid UTF-8 for skill '{skill}'"
        )),
        _ => Failure::unreadable(format!("Error reading SKILL.MD: {error}")),
    })
}
