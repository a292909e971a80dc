//! The limit of the answers that a model reads.

use skillhost_sandbox::declare_limits;

declare_limits! {
    /// The limits of the answers that a model reads. A program always gets the whole answer.
    AnswerLimits in "", "a model would read little but the note beside an answer" {
        /// Bytes of an answer's text. A longer text ends at the end of a line, and a note
        /// says what is left out.
        model_output: Option<usize>, Bytes "no bound" in 1 << 10, u64::MAX;
        against "clients that cut an answer silently"
    }
}
