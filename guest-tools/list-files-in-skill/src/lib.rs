//! `list_files_in_skill`: lists the files of a skill, or of a folder in it.
//!
//! This module has the tool, its arguments, and the record for programs. `listing` walks
//! through the folder, `description` finds a file's title, and `format` writes the text for
//! the model.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

mod description;
mod format;
#[path = "../../../host/skills/src/text/hidden.rs"]
#[allow(unreachable_pub, reason = "public in the host, which exports it")]
mod hidden;
mod listing;

use skillhost_guest::{
    Access, Failure, Folder, Output, PathError, ReadError, SkillPath, Tool, check_skill_name,
};

use listing::{EntryKind, ListedEntry, Listing, Request};

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of the skill
        skill_name: String,
        /// Folder in the skill. Default: the whole skill
        path: Option<String>,
        /// Maximum depth of folders to open. Default: as deep as fits into an answer
        depth: Option<u32>,
        /// Where to continue a long list: the `after` in its last line
        after: Option<String>,
    }
}

skillhost_guest::record! {
    struct Success {
        skill_name: String,
        path: String,
        entries: Vec<Entry>,
        /// The `after` of the call that continues the list. `None` at its end.
        after: Option<String>,
        /// The number of entries left out because no call can name them.
        left_out: u64,
    }
}

skillhost_guest::record! {
    /// An entry of the folder. Programs must ignore unknown keys: a later version
    /// may add some, such as how to run a script.
    struct Entry {
        path: String,
        kind: &'static str,
        /// The size of a file in bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// The number of names in a folder, if they were counted.
        #[serde(skip_serializing_if = "Option::is_none")]
        entries: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The reason why the entry cannot be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
}

skillhost_guest::record! {
    struct Error {
        skill_name: String,
        path: String,
        error: String,
    }
}

skillhost_guest::without_std!();

skillhost_guest::export_tools!(
    Tool::new(
        "list_files_in_skill",
        "List the files of a skill, or of a folder in it: path, size and, if it has one, title. \
         Use this to see what a skill holds before you read a file of it.",
        list_files_in_skill,
    )
    .title("List the files of a skill")
    .in_skill_at("skill_name", "path")
    .output_schema(include_str!("output.schema.json"))
);

/// The path of the skill's own folder.
const WHOLE_SKILL: &str = ".";

fn list_files_in_skill(arguments: Arguments, access: Access) -> Result<Output, Failure> {
    match list(&arguments, access) {
        Ok((path, listing)) => {
            let text = format::listing_text(&path, &listing);
            let record = Success {
                skill_name: arguments.skill_name,
                path,
                entries: listing.entries.into_iter().map(Entry::from).collect(),
                after: listing.after,
                left_out: listing.left_out,
            };
            Ok(Output::text(text).with(&record))
        }
        Err(failure) => Err(failure.framed("ERROR: ", |error| Error {
            skill_name: arguments.skill_name,
            path: arguments.path.unwrap_or_default(),
            error,
        })),
    }
}

/// Lists the folder that a call names. Returns its normalized path and the listing.
fn list(call: &Arguments, access: Access) -> Result<(String, Listing), Failure> {
    let skill = &call.skill_name;
    if !check_skill_name(skill) {
        return Err(Failure::invalid_arguments(
            "Invalid skill name: must not contain special characters",
        ));
    }
    let call_path = call.path.as_deref().filter(|path| !path.is_empty());
    let call_path = call_path.unwrap_or(WHOLE_SKILL);
    let path = parse_path(call_path)?.normalized();
    let folder: Folder = match access {
        Access::UnknownSkill => {
            return Err(Failure::not_found(format!(
                "Skill '{skill}' not found in skills folder"
            )));
        }
        access => access.folder()?,
    };
    let request = Request {
        path: &path,
        depth: call.depth.map_or(usize::MAX, |depth| depth.max(1) as usize),
        after: call.after.as_deref().filter(|after| !after.is_empty()),
    };
    let listing = listing::list(&folder, &request).map_err(|error| match error {
        listing::Error::Read(ReadError::NotFound) => {
            Failure::not_found(format!("Folder '{call_path}' not found in skill '{skill}'"))
        }
        listing::Error::Read(ReadError::Outside) => ReadError::Outside.into(),
        listing::Error::Read(error) => {
            Failure::unreadable(format!("Cannot list '{call_path}': {error}"))
        }
        listing::Error::TooMany(max) => Failure::unreadable(format!(
            "Cannot list '{call_path}': it has more than {max} entries"
        )),
    })?;
    Ok((path, listing))
}

fn parse_path(path: &str) -> Result<SkillPath<'_>, Failure> {
    SkillPath::new(path).map_err(|error| match error {
        PathError::Outside => error.into(),
        _ => Failure::invalid_arguments(format!("Cannot list '{path}': {error}")),
    })
}

impl From<ListedEntry> for Entry {
    fn from(listed: ListedEntry) -> Self {
        let mut entry = Self {
            path: listed.path,
            kind: "folder",
            size: None,
            entries: None,
            description: None,
            reason: None,
        };
        match listed.kind {
            EntryKind::File { size, description } => {
                entry.kind = "file";
                entry.size = Some(size);
                entry.description = description;
            }
            EntryKind::Folder { entries, .. } => entry.entries = entries,
            EntryKind::Unreadable(error) => {
                entry.kind = "unreadable";
                entry.reason = Some(format::reason(error).map_or(error.to_string(), str::to_owned));
            }
        }
        entry
    }
}
