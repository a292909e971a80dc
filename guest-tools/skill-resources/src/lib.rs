//! `skill_resources`: reads a skill's files for the host's resources. Models do not see this
//! tool. Returns one file's bytes, one folder's entries, or all files with their sizes and,
//! for a manifest, their digests.
//!
//! This module has the tool and its arguments. Each operation has its own module; `walk` and
//! `entry` decide which files belong to a skill.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::string::String;

mod directory;
mod entry;
mod file;
mod manifest;
mod reason;
mod walk;

use skillhost_guest::{Access, Failure, Folder, Output, SkillPath, Tool, check_skill_name};

use crate::reason::refused_path;

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of the skill
        skill_name: String,
        /// The kind of answer
        operation: Operation,
        /// Path in the skill's folder; absent for the folder itself
        path: Option<String>,
        /// Maximum size of a file in bytes
        max_bytes: Option<u64>,
    }
}

skillhost_guest::arguments! {
    #[serde(rename_all = "lowercase")]
    enum Operation {
        File,
        Directory,
        Files,
        Manifest,
    }
}

skillhost_guest::without_std!();

skillhost_guest::export_tools!(
    Tool::new(
        "skill_resources",
        "Read a file of a skill as bytes, list a folder of it, or list all its files.",
        skill_resources,
    )
    .title("Skill files as resources")
    .in_skill_at("skill_name", "path")
);

/// The path of the skill's own folder.
const WHOLE_SKILL: &str = ".";

fn skill_resources(arguments: Arguments, access: Access) -> Result<Output, Failure> {
    if !check_skill_name(&arguments.skill_name) {
        return Err(Failure::not_found("No skill can have this name."));
    }
    let folder: Folder = access.folder()?;
    let path = arguments.path.as_deref().unwrap_or(WHOLE_SKILL);
    let path = SkillPath::new(path).map_err(refused_path)?;
    match arguments.operation {
        Operation::File => file::answer(&folder, &path, arguments.max_bytes.unwrap_or(u64::MAX)),
        Operation::Directory => directory::answer(&folder, &path),
        Operation::Files => manifest::answer(&folder, manifest::Digests::Skip),
        Operation::Manifest => manifest::answer(&folder, manifest::Digests::Compute),
    }
}
