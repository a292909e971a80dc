//! The tables `[prompt]` and `[search]`: how much of a catalog a model reads
//! unasked, and when it can search.

use serde::Deserialize;

use skillhost_sandbox::declare_limits;
use skillhost_skills::search::SearchOffer;

declare_limits! {
    /// The limits of the section of a system prompt that lists the skills.
    PromptLimits in "prompt", "it would hold hardly more than its own words" {
        /// Tokens of the section: a token is four bytes, or one Chinese, Japanese
        /// or Korean character. What does not fit is shortened, then left out.
        budget: usize, Count "4000" in 256, u32::MAX;
        against "a catalog that fills the model's context"
    }
}

/// The keys of `[search]`, as they are written.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "expected a table of settings")]
pub(super) struct RawSearch {
    // `offer` is its first name, and is also that of the set of tools.
    #[serde(alias = "offer")]
    find_skills: RawSearchOffer,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum RawSearchOffer {
    #[default]
    Auto,
    Always,
    Never,
}

impl RawSearch {
    pub(super) fn offer(&self) -> SearchOffer {
        match self.find_skills {
            RawSearchOffer::Auto => SearchOffer::Auto,
            RawSearchOffer::Always => SearchOffer::Always,
            RawSearchOffer::Never => SearchOffer::Never,
        }
    }
}
