//! Skills that `skills/list` leaves out, so that the operator reads one line about
//! all of them, and again only when that changes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard};

use skillhost::Line;

/// The most skills whose faults are remembered. Guards against: a root of ever
/// new names.
const MOST_SKILLS: usize = 65_536;

/// The most characters of a fault. Guards against: a path as long as a page.
const MOST_CHARACTERS: usize = 512;

/// The most skills that the line names for a fault.
const MOST_NAMED: usize = 3;

/// A fault of a skill, as the extension sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SkillFault {
    FolderName,
    NoSkillMd,
    NoFrontmatter,
    OtherName,
    Description,
    ValueType,
    OverLimit,
    Unreadable,
    /// The skill is listed, and its manifest is without some files.
    Incomplete,
}

/// The faults of skills that listings met.
#[derive(Debug, Default)]
pub(crate) struct FaultLog(Mutex<Faults>);

#[derive(Debug, Default)]
struct Faults {
    skills: BTreeMap<String, SkillFault>,
    /// The line that was logged last.
    logged: String,
}

impl SkillFault {
    fn words(self) -> &'static str {
        match self {
            Self::FolderName => "have a folder whose name the specification refuses",
            Self::NoSkillMd => "have no `SKILL.md` that is UTF-8",
            Self::NoFrontmatter => "have no frontmatter that is YAML",
            Self::OtherName => "have a `name` that is not their folder's",
            Self::Description => "have no `description` of 1 to 1024 characters",
            Self::ValueType => "have a value of another type or length than specified",
            Self::OverLimit => "have more files or bytes than the extension allows",
            Self::Unreadable => "cannot be read",
            Self::Incomplete => "are listed without files that lead outside or cannot be read",
        }
    }
}

impl FaultLog {
    /// Remembers a skill's fault, and logs it for those who want to know each.
    pub(crate) fn set(&self, skill: &str, fault: SkillFault, detail: &str) {
        let mut faults = self.faults();
        if faults.skills.get(skill) == Some(&fault) || faults.skills.len() >= MOST_SKILLS {
            return;
        }
        faults.skills.insert(skill.to_owned(), fault);
        drop(faults);
        let detail: String = detail.chars().take(MOST_CHARACTERS).collect();
        let (skill, detail) = (Line::new(skill), Line::new(detail));
        match fault {
            SkillFault::Incomplete => {
                tracing::info!("the manifest of `{skill}` is without {detail}");
            }
            _ => tracing::info!("`skills/list` leaves out `{skill}`: {detail}"),
        }
    }

    /// Forgets the fault of a skill that has none any more.
    pub(crate) fn clear(&self, skill: &str) {
        self.faults().skills.remove(skill);
    }

    /// Logs one line about all faults, if it is another than before: at the end of a
    /// listing, which has these skills.
    pub(crate) fn summarize(&self, skills: &[String]) {
        let mut faults = self.faults();
        faults
            .skills
            .retain(|name, _| skills.binary_search(name).is_ok());
        let line = summary(&faults.skills, skills.len());
        if faults.logged == line {
            return;
        }
        faults.logged.clone_from(&line);
        drop(faults);
        if !line.is_empty() {
            tracing::warn!("{line}");
        }
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

/// Returns the line about the faults of these skills. Empty if there are none.
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
        "`skills/list` leaves out {} of {skills} skills; `--log info` says why for each",
        faults.len() - listed
    );
    let mut separator = ':';
    for (fault, names) in by_fault {
        let named = names.iter().take(MOST_NAMED);
        let named: Vec<String> = named.map(|name| format!("`{}`", Line::new(name))).collect();
        let more = match names.len() > MOST_NAMED {
            true => ", …",
            false => "",
        };
        // Writing to a `String` does not fail.
        let _ = write!(
            line,
            "{separator} {} {} ({}{more})",
            names.len(),
            fault.words(),
            named.join(", ")
        );
        separator = ';';
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_skills_by_fault_in_one_line() {
        let log = FaultLog::default();
        for name in ["a_1", "a_2", "a_3", "a_4\u{1b}"] {
            log.set(name, SkillFault::FolderName, "x");
        }
        log.set("b", SkillFault::OtherName, "x");
        log.set("c", SkillFault::Incomplete, "x");
        log.set("gone", SkillFault::Unreadable, "x");
        let skills = ["a_1", "a_2", "a_3", "a_4\u{1b}", "b", "c", "d"].map(str::to_owned);
        log.summarize(&skills);
        assert_eq!(
            log.faults().logged,
            "`skills/list` leaves out 5 of 7 skills; `--log info` says why for each: 4 have a \
             folder whose name the specification refuses (`a_1`, `a_2`, `a_3`, …); 1 have a \
             `name` that is not their folder's (`b`); 1 are listed without files that lead \
             outside or cannot be read (`c`)"
        );
        for name in &skills {
            log.clear(name);
        }
        log.summarize(&skills);
        assert_eq!(log.faults().logged, "");
    }

    #[test]
    fn remembers_a_bounded_number_of_skills() {
        let log = FaultLog::default();
        for number in 0..MOST_SKILLS + 10 {
            log.set(&number.to_string(), SkillFault::OtherName, "x");
        }
        assert_eq!(log.faults().skills.len(), MOST_SKILLS);
    }
}
