//! Patterns for names of skills and tools, and for paths in a skill. They have few wildcards and no
//! other syntax, so that nobody grants more than intended.

use std::fmt;

use skillhost_skills::catalog::Skill;

/// A pattern for names in which `*` matches any characters, and `?` any single character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(String);

/// A pattern for paths in a skill. `**` matches any number of folders, and every other step
/// is a pattern for names: `*` and `?` do not match a `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathPattern(Vec<Pattern>);

/// The step in a pattern that matches any number of steps in a path.
const ANY_STEPS: &str = "**";

/// The error for a pattern that cannot match anything.
#[derive(Debug, thiserror::Error)]
#[error("`{}` {fault}", pattern.escape_debug())]
pub struct PatternError {
    pattern: String,
    fault: PatternFault,
}

/// The reason why a pattern cannot match anything.
#[derive(Debug, thiserror::Error)]
enum PatternFault {
    #[error("is neither a skill name nor a pattern: no skill can have such a name")]
    Skill,
    #[error("is neither a tool name nor a pattern: no tool can have such a name")]
    Tool,
    #[error(
        "is not a pattern of scripts: write a path inside the skill, such as `scripts/**/*.py`, \
         without `.`, `..` or a `/` at either end"
    )]
    Step,
    #[error(
        "is not a pattern of scripts: `**` stands for folders and must be alone between two `/`, \
         as in `scripts/**/*.py`"
    )]
    Stars,
    #[error("is not a pattern of scripts: it has a control character")]
    Control,
}

impl Pattern {
    /// Creates a pattern for names of skills.
    pub(super) fn new(text: &str) -> Result<Self, PatternError> {
        if Skill::is_name(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PatternError {
                pattern: text.to_owned(),
                fault: PatternFault::Skill,
            })
        }
    }

    /// Creates a pattern for names of tools.
    pub(super) fn for_tools(text: &str) -> Result<Self, PatternError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-*?".contains(&byte);
        if !text.is_empty() && text.bytes().all(is_allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PatternError {
                pattern: text.to_owned(),
                fault: PatternFault::Tool,
            })
        }
    }

    /// Returns the pattern that matches every name.
    pub(super) fn all() -> Self {
        Self("*".to_owned())
    }

    /// Returns the name, if there are no wildcards.
    pub(super) fn name(&self) -> Option<&str> {
        (!self.0.contains(['*', '?'])).then_some(&self.0)
    }

    /// Returns whether a name matches. The time is at most proportional to the product of both
    /// lengths.
    pub(super) fn matches(&self, name: &str) -> bool {
        if self.0 == "*" {
            return true;
        }
        fits(self.0.chars(), name.chars(), '*', |expected, found| {
            expected == '?' || expected == found
        })
    }
}

impl PathPattern {
    pub(super) fn new(text: &str) -> Result<Self, PatternError> {
        let fault = |fault| PatternError {
            pattern: text.to_owned(),
            fault,
        };
        let steps = text.split('/').map(|step| match step {
            "" | "." | ".." => Err(fault(PatternFault::Step)),
            ANY_STEPS => Ok(Pattern(step.to_owned())),
            step if step.contains(ANY_STEPS) => Err(fault(PatternFault::Stars)),
            step if step.contains(char::is_control) => Err(fault(PatternFault::Control)),
            step => Ok(Pattern(step.to_owned())),
        });
        steps.collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether a path matches. The path must not contain `.` or `..` as a step.
    pub(super) fn matches(&self, path: &str) -> bool {
        let any = Pattern(ANY_STEPS.to_owned());
        let steps = self.0.iter();
        fits(steps, path.split('/'), &any, |step, name| {
            step.matches(name)
        })
    }
}

/// Returns whether items match a pattern.
///
/// In the pattern, `any` matches any number of items, and `fits_one` compares every other part
/// with one item. The time is at most proportional to the product of both lengths.
fn fits<P: PartialEq + Copy, T: Copy>(
    mut pattern: impl Iterator<Item = P> + Clone,
    mut rest: impl Iterator<Item = T> + Clone,
    any: P,
    fits_one: impl Fn(P, T) -> bool,
) -> bool {
    // The position to retry from if the last `any` must match one more item.
    let mut retry = None;
    loop {
        let before = rest.clone();
        match (pattern.next(), rest.next()) {
            (None, None) => return true,
            (Some(step), _) if step == any => {
                retry = Some((pattern.clone(), before.clone()));
                rest = before;
            }
            (Some(step), Some(found)) if fits_one(step, found) => {}
            _ => {
                let Some((after_any, from)) = &mut retry else {
                    return false;
                };
                if from.next().is_none() {
                    return false;
                }
                pattern = after_any.clone();
                rest = from.clone();
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let slash = if index == 0 { "" } else { "/" };
            write!(f, "{slash}{step}")?;
        }
        Ok(())
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
    fn refuses_pattern_that_matches_no_skill() {
        for text in ["", "../x", "a/b", ".hidden", "a\\b", "a\nb"] {
            assert!(Pattern::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_double_star_crosses_folders() {
        for (pattern, fitting, others) in [
            (
                "scripts/**/*.py",
                &[
                    "scripts/a.py",
                    "scripts/b/a.py",
                    "scripts/b/c/d/a.py",
                    "scripts/.a.py",
                ][..],
                &[
                    "a.py",
                    "scripts",
                    "scripts/a.sh",
                    "other/a.py",
                    "my/scripts/a.py",
                ][..],
            ),
            (
                "scripts/*.py",
                &["scripts/a.py"],
                &["scripts/b/a.py", "scripts/a.pyc"],
            ),
            ("*.py", &["a.py", ".py"], &["scripts/a.py", "a.py/b"]),
            ("**/*.py", &["a.py", "b/a.py"], &["a.py/b"]),
            ("**", &["a", "a/b"], &[]),
            ("a/**", &["a/b", "a/b/c", "a"], &["b", "ab/c"]),
            ("**/x/**/y", &["x/y", "a/x/b/x/c/y"], &["y", "x", "x/z"]),
            ("run.py", &["run.py"], &["Run.py", "xrun.py", "run_py", ""]),
            (
                "s?/[a]/{b,c}",
                &["s1/[a]/{b,c}"],
                &["s/[a]/{b,c}", "s1/a/b"],
            ),
        ] {
            let pattern = PathPattern::new(pattern).unwrap();
            for path in fitting {
                assert!(pattern.matches(path), "{pattern} {path}");
            }
            for path in others {
                assert!(!pattern.matches(path), "{pattern} {path}");
            }
        }
        let slow = PathPattern::new(&format!("{}b", "**/a/".repeat(100))).unwrap();
        assert!(!slow.matches(&"a/".repeat(2000)));
    }

    #[test]
    fn refuses_pattern_that_matches_no_script() {
        for (text, reason) in [
            ("", "inside the skill"),
            ("/scripts/a.py", "inside the skill"),
            ("scripts/", "inside the skill"),
            ("a//b", "inside the skill"),
            ("./a.py", "inside the skill"),
            ("../a.py", "inside the skill"),
            ("a/../b.py", "inside the skill"),
            ("scripts/**.py", "alone between"),
            ("a***/b", "alone between"),
            ("a\nb", "control character"),
        ] {
            let error = PathPattern::new(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
