//! Patterns of skills' names, with two wildcards and nothing else: a pattern grants
//! what it seems to grant.

use std::fmt;

use crate::skill::catalog::Skill;

/// A name in which `*` stands for any characters and `?` for any one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(String);

/// A pattern that no skill's name fits.
#[derive(Debug, thiserror::Error)]
#[error("`{}` is no name and no pattern of skills: no skill can have such a name", pattern.escape_debug())]
pub struct PatternError {
    pattern: String,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Result<Self, PatternError> {
        match Skill::is_name(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(PatternError {
                pattern: text.to_owned(),
            }),
        }
    }

    /// Returns the pattern that every name fits.
    pub(super) fn all() -> Self {
        Self("*".to_owned())
    }

    /// Returns the one name that fits, if there are no wildcards.
    pub(super) fn name(&self) -> Option<&str> {
        (!self.0.contains(['*', '?'])).then_some(&self.0)
    }

    /// Checks that a name fits. The time is at most the product of both lengths.
    pub(super) fn matches(&self, name: &str) -> bool {
        if self.0 == "*" {
            return true;
        }
        let (mut pattern, mut rest) = (self.0.chars(), name.chars());
        // The place to go on from when the last `*` has to stand for one more character.
        let mut retry = None;
        loop {
            let before = (pattern.clone(), rest.clone());
            match (pattern.next(), rest.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    retry = Some((pattern.clone(), before.1.clone()));
                    rest = before.1;
                }
                (Some('?'), Some(_)) => {}
                (Some(expected), Some(found)) if expected == found => {}
                _ => {
                    let Some((after_star, from)) = &mut retry else {
                        return false;
                    };
                    if from.next().is_none() {
                        return false;
                    }
                    pattern = after_star.clone();
                    rest = from.clone();
                }
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_star_and_question_mark_are_wildcards() {
        for (pattern, fitting, others) in [
            ("a", &["a"][..], &["", "b", "aa", "A"][..]),
            ("*", &["", "a", "abc"], &[]),
            ("a*", &["a", "ab", "a*"], &["", "ba"]),
            ("*a", &["a", "ba", "aaa"], &["", "ab"]),
            (
                "a*b*c",
                &["abc", "aXbYc", "abbcc", "abcbc"],
                &["ab", "acb", "abcd"],
            ),
            ("a**b", &["ab", "aXb"], &["a", "b"]),
            ("?", &["a", "数"], &["", "ab"]),
            ("a?*", &["ab", "abc"], &["a"]),
            ("*?a", &["ba", "bba"], &["a"]),
            ("team[1]", &["team[1]"], &["team1", "team"]),
            ("[!a]", &["[!a]"], &["b"]),
            ("{a,b}", &["{a,b}"], &["a", "b"]),
            ("数据_*", &["数据_分析"], &["数据"]),
        ] {
            let pattern = Pattern::new(pattern).unwrap();
            for name in fitting {
                assert!(pattern.matches(name), "{pattern} {name}");
            }
            for name in others {
                assert!(!pattern.matches(name), "{pattern} {name}");
            }
        }
        let slow = Pattern::new(&"*a".repeat(100)).unwrap();
        assert!(!slow.matches(&format!("{}b", "a".repeat(200))));
    }

    #[test]
    fn refuses_a_pattern_that_no_skill_can_fit() {
        for text in ["", "../x", "a/b", ".hidden", "a\\b", "a\nb"] {
            assert!(Pattern::new(text).is_err(), "{text}");
        }
    }
}
