//! What an index has left out, for the operator.

/// Most names of skills that a report has for a reason.
const MAX_NAMES: usize = 10;

/// The size of an index, and what its bounds have left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexReport {
    /// The number of skills that the index has.
    pub skills: usize,
    /// The bytes of memory that the index takes, about.
    pub bytes: usize,
    /// Skills of whose SKILL.md only the start is searched.
    pub cut: SkillNames,
    /// Skills whose body is not searched, because the index is full.
    pub without_body: SkillNames,
    /// Skills that are not found, because the index is full.
    pub left_out: SkillNames,
    /// Skills that are not found, because their SKILL.md cannot be read.
    pub unreadable: SkillNames,
}

/// A number of skills, and the names of some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillNames {
    /// The number of skills.
    pub count: usize,
    /// The names of the first ones.
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
    /// Returns whether the bounds have left out as much at another time.
    pub(crate) fn leaves_out_the_same(&self, other: &Self) -> bool {
        self.cut == other.cut
            && self.without_body == other.without_body
            && self.left_out == other.left_out
            && self.unreadable == other.unreadable
    }

    /// Writes what was left out to the log, a line for each reason. That a skill is long
    /// is its author's choice, and no fault of the moment.
    pub(crate) fn log(&self) {
        if self.cut.count > 0 {
            tracing::info!(
                skills = self.cut.count,
                first = ?self.cut.first,
                "only the start of SKILL.md is searched: it is longer than an index takes"
            );
        }
        let reasons = [
            (
                &self.without_body,
                "only name and description are searched: the index is full",
            ),
            (&self.left_out, "not found by searches: the index is full"),
            (
                &self.unreadable,
                "not found by searches: SKILL.md cannot be read",
            ),
        ];
        for (names, reason) in reasons {
            if names.count > 0 {
                tracing::warn!(skills = names.count, first = ?names.first, "{reason}");
            }
        }
    }
}
