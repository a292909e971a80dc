//! The report on an index for the operator: its size, and the skills that it omits in whole or in
//! part.

/// The maximum number of names that a report lists for one reason.
const MAX_NAMES: usize = 10;

/// The size of an index, and the skills that it omits in whole or in part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexReport {
    /// The number of indexed skills.
    pub skills: usize,
    /// The approximate memory of the index in bytes.
    pub bytes: usize,
    /// Skills whose SKILL.md is too long: only its start is searched.
    pub truncated: SkillNames,
    /// Skills whose body is not searched because the index is full.
    pub without_body: SkillNames,
    /// Skills that are not found because the index is full.
    pub left_out: SkillNames,
    /// Skills that are not found because their SKILL.md cannot be read.
    pub unreadable: SkillNames,
}

/// A number of skills, and the first of their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillNames {
    /// The number of skills.
    pub count: usize,
    /// The first names, at most ten.
    pub first: Vec<String>,
}

impl SkillNames {
    pub(crate) fn add(&mut self, name: &str) {
        self.count += 1;
        if self.first.len() < MAX_NAMES {
            self.first.push(name.to_owned());
        }
    }
}

impl IndexReport {
    /// Returns whether both reports list the same omitted skills, for the same reasons.
    pub(crate) fn has_same_omissions(&self, other: &Self) -> bool {
        self.truncated == other.truncated
            && self.without_body == other.without_body
            && self.left_out == other.left_out
            && self.unreadable == other.unreadable
    }

    /// Logs the omitted skills, one line for each reason.
    ///
    /// A long skill is only worth an `info` line, because its author chose the length.
    pub(crate) fn log(&self) {
        if self.truncated.count > 0 {
            tracing::info!(
                skills = self.truncated.count,
                first = ?self.truncated.first,
                "searching only the start of SKILL.md: it is too long"
            );
        }
        let reasons = [
            (
                &self.without_body,
                "searching only name and description: the index is full",
            ),
            (
                &self.left_out,
                "searches do not find these skills: the index is full",
            ),
            (
                &self.unreadable,
                "searches do not find these skills: SKILL.md cannot be read",
            ),
        ];
        for (names, reason) in reasons {
            if names.count > 0 {
                tracing::warn!(skills = names.count, first = ?names.first, "{reason}");
            }
        }
    }
}
