//! Describes a skill for a listing, from the start of its SKILL.md.

use std::io::{self, Read as _};

use rustix::io::Errno;

use super::{ReadBudget, Skill, Unlisted};
use crate::check::{MAX_DESCRIPTION_CHARS, Severity, check_frontmatter};
use crate::encoding::{self, EncodingFault};
use crate::frontmatter;
use crate::guard::Folder;
use crate::paragraph;
use crate::skill_md;

/// The number of bytes that a listing reads from the start of a SKILL.md: the limit on frontmatter
/// plus a margin.
const START_BYTES: u64 = frontmatter::MAX_FRONTMATTER_BYTES as u64 + 1024;

/// Describes the skill in a folder.
///
/// `name` is the skill's name in the catalog. It can be longer than `folder_name`: `office.pdf` for
/// a folder in a folder, or `root2.pdf` for a skill of the second root.
pub(super) fn describe(
    name: String,
    folder_name: &str,
    folder: Result<Folder, Errno>,
    budget: &mut ReadBudget,
) -> Skill {
    let mut skill = Skill {
        name,
        description: String::new(),
        file: None,
        problems: Vec::new(),
        unlisted: None,
    };
    let folder = match folder {
        Ok(folder) => folder,
        Err(error) => {
            skill.problems.push(unreadable(&error.into()));
            return skill;
        }
    };
    match read_start(&folder) {
        Ok(Some((file, Err(fault)))) => {
            skill.file = Some(file);
            skill.problems.push(fault.to_string());
            skill.unlisted = Some(Unlisted::Encoding(fault));
        }
        Ok(Some((file, Ok(text)))) => {
            let reading = frontmatter::read(&text);
            budget.count_frontmatter(reading.split.yaml.map_or(0, str::len));
            skill.file = Some(file);
            skill.unlisted = Unlisted::in_frontmatter(&reading.frontmatter);
            skill.problems = check_frontmatter(folder_name, &reading)
                .into_iter()
                .filter(|finding| finding.severity == Severity::Error)
                .map(|finding| finding.message)
                .collect();
            skill.description = match &reading.frontmatter.description {
                Some(found) if !found.value.is_empty() => {
                    found.value.chars().take(MAX_DESCRIPTION_CHARS).collect()
                }
                _ => paragraph::first(reading.split.body).unwrap_or_default(),
            };
        }
        Ok(None) => {
            let fault = skill_md::link_fault(&folder);
            let fault = fault.unwrap_or_else(|| "there is no `SKILL.md`".to_owned());
            skill.problems.push(fault);
        }
        Err(error) => {
            let fault = skill_md::link_fault(&folder);
            skill
                .problems
                .push(fault.unwrap_or_else(|| unreadable(&error)));
        }
    }
    skill
}

/// The name of a SKILL.md, and its start as text.
type Start = (String, Result<String, EncodingFault>);

/// Reads the start of a folder's SKILL.md.
pub(super) fn read_start(folder: &Folder) -> io::Result<Option<Start>> {
    let Some((name, file)) = skill_md::open(folder)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(START_BYTES).read_to_end(&mut bytes)?;
    let is_cut = bytes.len() as u64 == START_BYTES;
    Ok(Some((name, encoding::decode(bytes, is_cut))))
}

fn unreadable(error: &io::Error) -> String {
    format!("cannot read `SKILL.md`: {error}")
}
