//! The reading that one list for models may do, whatever the skills are that it leaves out.

/// The maximum number of skills that a list reads and does not show. Guards against: thousands of
/// hidden skills, which take no place in a list.
const MAX_LEFT_OUT: usize = 256;

/// The maximum bytes of frontmatter that a list reads. Guards against: skills with 64 KiB of
/// frontmatter each, which take seconds to parse.
const MAX_FRONTMATTER_BYTES: usize = 4 << 20;

/// The skills and bytes that a list for models may still read.
#[derive(Debug)]
pub struct ReadBudget {
    left_out: usize,
    frontmatter_bytes: usize,
}

impl Default for ReadBudget {
    fn default() -> Self {
        Self {
            left_out: MAX_LEFT_OUT,
            frontmatter_bytes: MAX_FRONTMATTER_BYTES,
        }
    }
}

impl ReadBudget {
    /// Returns the budget of a list of all skills.
    pub const fn unbounded() -> Self {
        Self {
            left_out: usize::MAX,
            frontmatter_bytes: usize::MAX,
        }
    }

    /// Returns whether the list must end. It may always read one skill, so each page of a list
    /// gets further.
    pub fn is_spent(&self) -> bool {
        self.left_out == 0 || self.frontmatter_bytes == 0
    }

    /// Counts a skill that was read and is not shown.
    pub fn leave_out(&mut self) {
        self.left_out = self.left_out.saturating_sub(1);
    }

    /// Counts the frontmatter of a skill.
    pub(super) fn count_frontmatter(&mut self, bytes: usize) {
        self.frontmatter_bytes = self.frontmatter_bytes.saturating_sub(bytes);
    }
}
