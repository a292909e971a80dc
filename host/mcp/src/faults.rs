//! The faults of skills that `skills/list` leaves out. The log gets one warning about all of them,
//! and another only when its text changes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard};

use skillhost::Line;
use skillhost_skills::text::count::count;

/// The maximum number of skills whose faults are remembered. Guards against: a root that gets new
/// names again and again.
const MAX_SKILLS: usize = 65_536;

/// The maximum number of characters of a fault in the log. Guards against: a path of thousands of
/// characters.
const MAX_DETAIL_CHARACTERS: usize = 512;

/// The maximum number of skills that the warning names for each fault.
const MAX_NAMED: usize = 3;

/// A reason why the skills extension does not list a skill, or not all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SkillFault {
    FolderName,
    NoSkillMd,
    NoFrontmatter,
    /// Its folder has a file or folder named like the skill's `name`.
    NameCollision,
    Description,
    OverLimit,
    /// Its entry is larger than a page.
    LongEntry,
    Unreadable,
    /// The skill is listed, but its manifest lacks some files.
    Incomplete,
}

/// The faults of skills that listings have found.
#[derive(Debug, Default)]
pub(crate) struct FaultLog(Mutex<Faults>);

#[derive(Debug, Default)]
struct Faults {
    skills: BTreeMap<String, SkillFault>,
    /// The line that was logged last.
    last_line: String,
}

impl SkillFault {
    /// Returns the words that follow a number of skills.
    fn words(self) -> &'static str {
        match self {
            Self::FolderName => "without a name that the specification allows",
            Self::NoSkillMd => "without a `SKILL.md` in UTF-8",
            Self::NoFrontmatter => "with frontmatter that has no end or is too large",
            Self::NameCollision => "with a file or folder named like the skill's `name`",
            Self::Description => "with neither a `description` nor a paragraph",
            Self::OverLimit => "with more files or bytes than the extension allows",
            Self::LongEntry => "with names or frontmatter too long for a page",
            Self::Unreadable => "that cannot be read",
            Self::Incomplete => {
                "listed without files that lead outside of the skill or cannot be read"
            }
        }
    }
}

impl FaultLog {
    /// Remembers a skill's fault. Logs a new fault at level `info`.
    pub(crate) fn set(&self, skill: &str, fault: SkillFault, detail: &str) {
        let mut faults = self.faults();
        if faults.skills.get(skill) == Some(&fault) || faults.skills.len() >= MAX_SKILLS {
            return;
        }
        faults.skills.insert(skill.to_owned(), fault);
        drop(faults);
        let detail: String = detail.chars().take(MAX_DETAIL_CHARACTERS).collect();
        let (skill, detail) = (Line::new(skill), Line::new(detail));
        match fault {
            SkillFault::Incomplete => {
                tracing::info!("the manifest of `{skill}` lacks {detail}");
            }
            _ => tracing::info!("`skills/list` leaves out `{skill}`: {detail}"),
        }
    }

    /// Forgets the fault of a skill, if it had one.
    pub(crate) fn clear(&self, skill: &str) {
        self.faults().skills.remove(skill);
    }

    /// Logs one line about all faults at the end of a listing, if it differs from the last
    /// one. Forgets the faults of removed skills: `skills` has the sorted names of all skills.
    pub(crate) fn summarize(&self, skills: &[String]) {
        let mut faults = self.faults();
        faults
            .skills
            .retain(|name, _| skills.binary_search(name).is_ok());
        let line = summary(&faults.skills, skills.len());
        if faults.last_line == line {
            return;
        }
        faults.last_line.clone_from(&line);
        drop(faults);
        if !line.is_empty() {
            tracing::warn!("{line}");
        }
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Returns the line about the faults of skills. It is empty if there are none.
fn summary(faults: &BTreeMap<String, SkillFault>, skills: usize) -> String {
    let mut by_fault: BTreeMap<SkillFault, Vec<&str>> = BTreeMap::new();
    for (name, fault) in faults {
        by_fault.entry(*fault).or_default().push(name);
    }
    if by_fault.is_empty() {
        return String::new();
    }
    let listed = by_fault.get(&SkillFault::Incomplete).map_or(0, Vec::len);
    let mut line = format!(
        "`skills/list` leaves out {} of {}",
        faults.len() - listed,
        count(skills, "skill")
    );
    let mut separator = ':';
    for (fault, names) in by_fault {
        let first = names.iter().take(MAX_NAMED);
        let first: Vec<String> = first.map(|name| format!("`{}`", Line::new(name))).collect();
        let more = if names.len() > MAX_NAMED { ", …" } else { "" };
        // Writing to a `String` does not fail.
        let _ = write!(
            line,
            "{separator} {} {} ({}{more})",
            names.len(),
            fault.words(),
            first.join(", ")
        );
        separator = ';';
    }
    line.push_str("; `--log info` says why for each");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_skills_by_fault() {
        let log = FaultLog::default();
        for name in ["a_1", "a_2", "a_3", "a_4\u{1b}"] {
            log.set(name, SkillFault::FolderName, "x");
        }
        log.set("b", SkillFault::NameCollision, "x");
        log.set("c", SkillFault::Incomplete, "x");
        log.set("gone", SkillFault::Unreadable, "x");
        let skills = ["a_1", "a_2", "a_3", "a_4\u{1b}", "b", "c", "d"].map(str::to_owned);
        log.summarize(&skills);
        assert_eq!(
            log.faults().last_line,
            "`skills/list` leaves out 5 of 7 skills: 4 without a name that the specification \
             allows (`a_1`, `a_2`, `a_3`, …); 1 with a file or folder named like the skill's \
             `name` (`b`); 1 listed without files that lead outside of the skill or cannot be \
             read (`c`); `--log info` says why for each"
        );
        for name in &skills {
            log.clear(name);
        }
        log.summarize(&skills);
        assert_eq!(log.faults().last_line, "");
    }

    #[test]
    fn remembers_limited_number_of_skills() {
        let log = FaultLog::default();
        for number in 0..MAX_SKILLS + 10 {
            log.set(&number.to_string(), SkillFault::NameCollision, "x");
        }
        assert_eq!(log.faults().skills.len(), MAX_SKILLS);
    }
}
