//! `read_file_in_skill`: reads any text file in a skill's folder.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use skillhost_guest::{
    Access, Failure, Output, PathError, ReadError, SkillPath, Tool, check_skill_name, text,
};

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of the skill (folder name containing the file)
        skill_name: String,
        /// Relative path to file within skill folder (e.g., 'examples/usage.py', 'docs/api.md')
        file_path: String,
    }
}

skillhost_guest::record! {
    struct Success {
        success: bool,
        skill_name: String,
        file_path: String,
        /// Serialized as null, which the host replaces with the text.
        content: (),
        size_bytes: u64,
        encoding: &'static str,
    }
}

skillhost_guest::record! {
    struct Error {
        success: bool,
        skill_name: String,
        file_path: String,
        error: String,
    }
}

skillhost_guest::without_std!();

skillhost_guest::export_tools!(
    Tool::new(
        "read_file_in_skill",
        "Read any file within a skill's folder. Use this when SKILL.MD references additional \
         documentation, examples, or configuration files. Path must be relative to skill folder.",
        read_file_in_skill,
    )
    .title("Read a file in a skill")
    .in_skill_at("skill_name", "file_path")
    .text_property("content")
    .output_schema(include_str!("output.schema.json"))
);

/// The maximum size of a file. The host's limit on answers is always lower.
const MAX_BYTES: u64 = u32::MAX as u64;

fn read_file_in_skill(arguments: Arguments, access: Access) -> Result<Output, Failure> {
    match read(&arguments, access) {
        Ok((output, size_bytes, encoding)) => Ok(output.with(&Success {
            success: true,
            skill_name: arguments.skill_name,
            file_path: arguments.file_path,
            content: (),
            size_bytes,
            encoding,
        })),
        Err(failure) => Err(failure.framed("ERROR: ", |error| Error {
            success: false,
            skill_name: arguments.skill_name,
            file_path: arguments.file_path,
            error,
        })),
    }
}

fn read(call: &Arguments, access: Access) -> Result<(Output, u64, &'static str), Failure> {
    let Arguments {
        skill_name,
        file_path,
    } = call;
    if !check_skill_name(skill_name) {
        return Err(Failure::invalid_arguments(
            "Invalid skill name: must not contain special characters",
        ));
    }
    let path = SkillPath::new(file_path).map_err(|error| match error {
        PathError::Outside => error.into(),
        _ => Failure::invalid_arguments(format!("Cannot read file '{file_path}': {error}")),
    })?;
    let folder = match access {
        Access::UnknownSkill => {
            return Err(Failure::not_found(format!(
                "Skill '{skill_name}' not found in skills folder"
            )));
        }
        Access::Unreadable => {
            return Err(Failure::unreadable(format!(
                "Cannot read file '{file_path}': permission denied"
            )));
        }
        access => access.folder()?,
    };
    let failure = |error| match error {
        ReadError::NotFound => Failure::not_found(format!(
            "File '{file_path}' not found in skill '{skill_name}'"
        )),
        ReadError::Outside => error.into(),
        _ => Failure::unreadable(format!("Cannot read file '{file_path}': {error}")),
    };
    match folder.find(&path, |path| folder.answer(path, MAX_BYTES)) {
        Ok((output, size)) => return Ok((output, size, "utf-8")),
        // Read the bytes to detect another encoding, or to report the right error.
        Err(ReadError::NotUtf8 | ReadError::TooLarge(_)) => {}
        Err(error) => return Err(failure(error)),
    }
    let bytes = folder.find(&path, |path| folder.read(path, MAX_BYTES));
    let bytes = bytes.map_err(failure)?;
    let size = bytes.0.len() as u64;
    let (text, encoding) = text::decode(bytes.0)
        .map_err(|error| Failure::unreadable(format!("Cannot read file '{file_path}': {error}")))?;
    Ok((Output::text(text), size, encoding))
}
