//! Lists the entries of one folder, but not those of its subfolders. For the skill's own folder,
//! the answer also has the start of SKILL.md.

use alloc::string::String;
use alloc::vec::Vec;

use skillhost_guest::{Entry, Failure, Folder, ListError, Output, ReadError, SkillPath};

use crate::entry;
use crate::{WHOLE_SKILL, manifest, reason};

/// The maximum number of entries to open in a folder. Guards against: a folder that takes
/// seconds to list.
const MAX_ENTRIES: usize = 10_000;

skillhost_guest::record! {
    struct Directory {
        entries: Vec<Child>,
        /// True if the text is the start of SKILL.md.
        skill_md: bool,
        left_out: u64,
    }
}

skillhost_guest::record! {
    struct Child {
        name: String,
        /// The size of a file in bytes. `None` for a folder.
        size: Option<u64>,
    }
}

pub(crate) fn answer(folder: &Folder, path: &SkillPath<'_>) -> Result<Output, Failure> {
    let opened = folder.open(path).map_err(reason::failure)?;
    match opened.size() {
        Err(ReadError::IsDirectory) => {}
        Ok(_) => return Err(reason::not_a_directory()),
        Err(error) => return Err(reason::failure(error)),
    }
    let listed = opened
        .sorted_names(MAX_ENTRIES)
        .map_err(|error| match error {
            ListError::TooMany => reason::too_many(MAX_ENTRIES),
            ListError::Read(error) => reason::failure(error),
        })?;
    let parent = match path.as_str() {
        WHOLE_SKILL => "",
        path => path,
    };
    let start = parent
        .is_empty()
        .then(|| manifest::start_of_skill_md(folder))
        .flatten();
    let mut directory = Directory {
        entries: Vec::new(),
        skill_md: start.is_some(),
        left_out: listed.not_utf8,
    };
    let mut entries = Vec::new();
    for name in listed.names {
        let opened = entry::join(parent, &name).and_then(|path| entry::open(folder, &path));
        match opened {
            Ok(Entry::File(_, size)) => entries.push((name, Some(size))),
            Ok(Entry::Folder(_)) => entries.push((name, None)),
            Err(_) => directory.left_out += 1,
        }
    }
    if start.is_some() {
        manifest::rename_skill_md(&mut entries);
    }
    let children = entries.into_iter();
    directory.entries = children.map(|(name, size)| Child { name, size }).collect();
    Ok(Output::text(start.unwrap_or_default()).with(&directory))
}
