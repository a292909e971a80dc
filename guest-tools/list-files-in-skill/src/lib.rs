//! `list_files_in_skill`: lists the files of a skill, or of a folder in it.
//!
//! The tool, its arguments and the two forms of its answer. `listing` walks the
//! folder, `description` finds a file's title, and `shown` writes names and sizes
//! for the model.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

mod description;
#[path = "../../../host/skills/src/text/hidden.rs"]
#[allow(unreachable_pub, reason = "public in the host, which exports it")]
mod hidden;
mod listing;
mod shown;

use skillhost_guest::{
    Access, Failure, Folder, Output, PathError, ReadError, SkillPath, Tool, check_skill_name,
};

use listing::{Found, Kind, Listing, Start};

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of the skill
        skill_name: String,
        /// Folder in the skill. Default: the whole skill
        path: Option<String>,
        /// Most levels of folders to open. Default: as many as fit into an answer
        depth: Option<u32>,
        /// To go on with a long list: the `after` that its last line gives
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
        /// The number of names that no call can give.
        left_out: u64,
    }
}

skillhost_guest::record! {
    /// An entry of the folder. Programs must ignore unknown keys: a later version
    /// may add some, such as how to run a script.
    struct Entry {
        path: String,
        kind: &'static str,
        /// The bytes of a file.
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

/// The skill's own folder, as a path in it.
const WHOLE_SKILL: &str = ".";

fn list_files_in_skill(arguments: Arguments, access: Access) -> Result<Output, Failure> {
    match list(&arguments, access) {
        Ok((path, listing)) => {
            let text = shown::text(&path, &listing);
            let record = Success {
                skill_name: arguments.skill_name,
                path,
                entries: listing.found.into_iter().map(Entry::from).collect(),
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

/// Lists the folder that a call names. Returns its path too.
fn list(call: &Arguments, access: Access) -> Result<(String, Listing), Failure> {
    let skill = &call.skill_name;
    if !check_skill_name(skill) {
        return Err(Failure::invalid_arguments(
            "Invalid skill name: must not contain special characters",
        ));
    }
    let asked = call.path.as_deref().filter(|path| !path.is_empty());
    let asked = asked.unwrap_or(WHOLE_SKILL);
    let path = checked(asked)?.normalized();
    let folder: Folder = match access {
        Access::UnknownSkill => {
            return Err(Failure::not_found(format!(
                "Skill '{skill}' not found in skills folder"
            )));
        }
        access => access.folder()?,
    };
    let start = Start {
        path: &path,
        depth: call.depth.map_or(usize::MAX, |depth| depth.max(1) as usize),
        after: call.after.as_deref().filter(|after| !after.is_empty()),
    };
    let listing = listing::of(&folder, &start).map_err(|unlisted| match unlisted {
        listing::Unlisted::Error(ReadError::NotFound) => {
            Failure::not_found(format!("Folder '{asked}' not found in skill '{skill}'"))
        }
        listing::Unlisted::Error(ReadError::Outside) => ReadError::Outside.into(),
        listing::Unlisted::Error(error) => {
            Failure::unreadable(format!("Cannot list '{asked}': {error}"))
        }
        listing::Unlisted::TooMany(most) => Failure::unreadable(format!(
            "Cannot list '{asked}': it has more than {most} entries"
        )),
    })?;
    Ok((path, listing))
}

fn checked(path: &str) -> Result<SkillPath<'_>, Failure> {
    SkillPath::new(path).map_err(|error| match error {
        PathError::Outside => error.into(),
        _ => Failure::invalid_arguments(format!("Cannot list '{path}': {error}")),
    })
}

impl From<Found> for Entry {
    fn from(found: Found) -> Self {
        let mut entry = Self {
            path: found.path,
            kind: "folder",
            size: None,
            entries: None,
            description: None,
            reason: None,
        };
        match found.kind {
            Kind::File { size, description } => {
                entry.kind = "file";
                entry.size = Some(size);
                entry.description = description;
            }
            Kind::Folder { entries, .. } => entry.entries = entries,
            Kind::Unreadable(error) => {
                entry.kind = "unreadable";
                entry.reason = Some(shown::reason(error).map_or(error.to_string(), str::to_owned));
            }
        }
        entry
    }
}
