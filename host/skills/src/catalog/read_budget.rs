//! The limits on what one list for models reads, so that unlisted skills cost little.

/// The maximum number of skills that a list reads but does not show. Guards against: thousands of
/// unlisted skills, which do not fill a list.
const MAX_UNSHOWN: usize = 256;

/// The maximum total size of the frontmatter that a list reads, in bytes. Guards against: skills
/// with 64 KiB of frontmatter each, which take seconds to parse.
const MAX_FRONTMATTER_BYTES: usize = 4 << 20;

/// The skills and bytes that a list for models can still read.
#[derive(Debug)]
pub struct ReadBudget {
    /// The number of skills that the list can still read without showing them.
    unshown: usize,
    /// The bytes of frontmatter that the list can still read.
    frontmatter_bytes: usize,
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self {
            unshown: MAX_UNSHOWN,
            frontmatter_bytes: MAX_FRONTMATTER_BYTES,
        }
    }
}

impl ReadBudget {
    /// Returns the budget of a list of all skills.
    pub const fn unbounded() -> Self {
        Self {
            unshown: usize::MAX,
            frontmatter_bytes: usize::MAX,
        }
    }

    /// Returns whether the list must end. A new budget is never spent, so each page of a list gets
    /// further.
    pub fn is_spent(&self) -> bool {
        self.unshown == 0 || self.frontmatter_bytes == 0
    }

    /// Counts a skill that was read and is not shown.
    pub fn leave_out(&mut self) {
        self.unshown = self.unshown.saturating_sub(1);
    }

    /// Counts the frontmatter of a skill.
    pub(super) fn count_frontmatter(&mut self, bytes: usize) {
        self.frontmatter_bytes = self.frontmatter_bytes.saturating_sub(bytes);
    }
}
