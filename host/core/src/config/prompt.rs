//! The tables `[prompt]` and `[search]`: the maximum size of the prompt section about skills, and
//! when agents see `find_skills`.

use serde::Deserialize;

use skillhost_sandbox::declare_limits;
use skillhost_skills::search::SearchOffer;

declare_limits! {
    /// The limits of the section of a system prompt that lists the skills.
    PromptLimits in "prompt", "no skill would fit into it" {
        /// Tokens of the section: a token is four bytes, or one Chinese, Japanese
        /// or Korean character. What does not fit is shortened, then left out.
        budget: usize, Count "4000" in 256, u32::MAX;
        against "a catalog that fills the model's context"
    }
}

/// The raw keys of `[search]`.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "a table of settings")]
pub(super) struct RawSearch {
    // `offer` is the key's former name. At the top level, `offer` is the set of tools.
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
