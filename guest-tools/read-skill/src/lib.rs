//! `read_skill`: returns a skill's instructions without the frontmatter.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::format;
use alloc::string::String;

use skillhost_guest::{
    Access, Failure, Output, ReadError, Tool, check_skill_name, variable, without_frontmatter,
};

skillhost_guest::arguments! {
    struct Arguments {
        /// Skill name (directory name, e.g. test_data_factory, data_analysis).
        skill_name: String,
    }
}

skillhost_guest::record! {
    struct Success {
        skill_name: String,
        /// Serialized as null, which the host replaces with the text.
        instructions: (),
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
        "read_skill",
        "Load the full workflow instructions for a skill. Call this when the user asks for tasks \
         that match a skill (e.g. generate test data → test_data_factory, analyze data → \
         data_analysis). Returns the skill's SKILL.md content.",
        read_skill,
    )
    .title("Load a skill's instructions")
    .in_listed_skill("skill_name")
    .text_property("instructions")
    .output_schema(include_str!("output.schema.json"))
);

/// The maximum size of a SKILL.md. The host's limit on answers is always lower.
const MAX_BYTES: u64 = u32::MAX as u64;

/// The environment variable with which an operator adds a line with the skill's name above
/// its instructions. The value is `on`.
const HEADER_VARIABLE: &str = "SKILL_HEADER";

fn read_skill(arguments: Arguments, access: Access) -> Result<Output, Failure> {
    let skill_name = arguments.skill_name;
    match read(&skill_name, access) {
        Ok(text) => Ok(Output::text(text).with(&Success {
            skill_name,
            instructions: (),
        })),
        Err(failure) => Err(failure.framed("Error: ", |error| Error { error })),
    }
}

fn read(skill: &str, access: Access) -> Result<String, Failure> {
    let not_found = || Failure::not_found(format!("Skill '{skill}' not found."));
    let folder = match access {
        Access::UnknownSkill => return Err(not_found()),
        _ if !check_skill_name(skill) => return Err(not_found()),
        access => access.folder()?,
    };
    let bytes = folder
        .open_skill_md()
        .and_then(|file| file.read_all(MAX_BYTES))
        .map_err(|error| match error {
            ReadError::NotFound | ReadError::IsDirectory => not_found(),
            ReadError::Outside => error.into(),
            _ => Failure::unreadable(format!("Cannot read skill '{skill}': {error}")),
        })?;
    let text = bytes
        .into_text()
        .map_err(|error| Failure::unreadable(format!("Cannot read skill '{skill}': {error}")))?;
    if text.is_empty() {
        return Err(not_found());
    }
    let body = without_frontmatter(&text);
    if variable(HEADER_VARIABLE).is_some_and(|value| value == "on") {
        return Ok(format!("--- Skill: {skill} ---\n{body}"));
    }
    let frontmatter = text.len() - body.len();
    let mut text = text;
    text.drain(..frontmatter);
    Ok(text)
}
