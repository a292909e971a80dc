//! Keys that other hosts add to the format. skillhost honours one of them, and ignores the rest.

use super::{Finding, Rule};
use crate::frontmatter::{DISABLE_MODEL_INVOCATION, Frontmatter, Pair, quoted};

/// The rule of a key that other hosts use and skillhost ignores.
const IGNORED_KEY: &str = "key-ignored";

/// The keys that other hosts use and skillhost ignores.
const IGNORED: [&str; 7] = [
    "model",
    "context",
    "agent",
    "hooks",
    "paths",
    "user-invocable",
    "argument-hint",
];

/// The note on a key that the reference validator refuses.
const REFUSED: &str = "the reference validator refuses the key";

/// The rules for keys of other hosts.
pub(super) const RULES: &[Rule] = &[
    Rule::warning(
        IGNORED_KEY,
        "A key of other hosts is ignored.",
        "Keep it for those hosts. The reference validator refuses it.",
    ),
    Rule::warning(
        "key-extension",
        "`disable-model-invocation` is an extension of the format.",
        "Keep it to leave the skill out of lists for models. The reference validator refuses it.",
    ),
    Rule::warning(
        "extension-value",
        "`disable-model-invocation` is not a plain `true`.",
        "Write `true` without quotes, or remove the key.",
    ),
];

/// Returns the known keys of other hosts.
pub(super) fn keys() -> impl Iterator<Item = &'static str> {
    IGNORED.into_iter().chain([DISABLE_MODEL_INVOCATION])
}

/// Returns the ignored key that a finding is about, if it is about one. A report on many skills
/// joins these findings in one line.
pub fn ignored_key(finding: &Finding) -> Option<&'static str> {
    let mut keys = IGNORED.into_iter();
    let key = keys.find(|key| finding.message.starts_with(&format!("`{key}` ")));
    key.filter(|_| finding.rule == IGNORED_KEY)
}

/// Returns the finding for a key of other hosts. Returns `None` if the key is unknown.
pub(super) fn finding(pair: &Pair) -> Option<Finding> {
    let line = Some(pair.line);
    if IGNORED.contains(&&*pair.key) {
        let message = format!(
            "{} is a key of other hosts, which skillhost ignores; {REFUSED}",
            quoted(&pair.key)
        );
        return Some(Finding::warning(IGNORED_KEY, line, message));
    }
    if pair.key != DISABLE_MODEL_INVOCATION {
        return None;
    }
    let is_true = Frontmatter {
        unknown: vec![pair.clone()],
        ..Frontmatter::default()
    }
    .disables_model_invocation();
    let is_false = pair.is_bare && matches!(&*pair.value, "false" | "False" | "FALSE");
    let (rule, message) = match () {
        () if is_true => (
            "key-extension",
            "is a known extension: lists for models leave the skill out, and a call by its exact \
             name still works"
                .to_owned(),
        ),
        () if is_false => (
            "key-extension",
            "is a known extension, and false is its default".to_owned(),
        ),
        () => (
            "extension-value",
            format!(
                "is {}, not `true` without quotes: lists for models show the skill",
                quoted(&pair.value)
            ),
        ),
    };
    let message = format!("`{DISABLE_MODEL_INVOCATION}` {message}; {REFUSED}");
    Some(Finding::warning(rule, line, message))
}

#[cfg(test)]
mod tests {
    use crate::check::check;
    use crate::frontmatter;

    /// Returns each finding's rule, whether the keys hide the skill, and the message.
    fn shown(yaml: &str) -> Vec<(&'static str, bool, String)> {
        let text = format!("---\nname: a\ndescription: b\n{yaml}\n---\nBody.\n");
        let disables = frontmatter::read(&text).frontmatter;
        let disables = disables.disables_model_invocation();
        let findings = check("a", "SKILL.md", &text).into_iter();
        findings
            .map(|finding| (finding.rule, disables, finding.message))
            .collect()
    }

    #[test]
    fn only_a_yaml_true_hides_a_skill() {
        for (value, rule, disables) in [
            ("true", "key-extension", true),
            ("True", "key-extension", true),
            ("TRUE # for people", "key-extension", true),
            ("false", "key-extension", false),
            ("\"true\"", "extension-value", false),
            ("'true'", "extension-value", false),
            ("yes", "extension-value", false),
            ("on", "extension-value", false),
            ("1", "extension-value", false),
            ("tRUE", "extension-value", false),
            ("", "extension-value", false),
            ("[true]", "extension-value", false),
            ("|\n  true", "extension-value", false),
        ] {
            let found = shown(&format!("disable-model-invocation: {value}"));
            assert_eq!(found.len(), 1, "{value}: {found:?}");
            assert_eq!((found[0].0, found[0].1), (rule, disables), "{value}");
            assert!(!found[0].2.contains("is not a key of the format"));
        }
        for yaml in [
            "Disable-Model-Invocation: true",
            "metadata:\n  disable-model-invocation: x",
        ] {
            let found = shown(yaml);
            assert!(found.iter().all(|(_, disables, _)| !disables), "{yaml}");
        }
    }

    #[test]
    fn uses_first_of_duplicate_keys_that_hide_skill() {
        for (first, second, disables) in [("true", "false", true), ("false", "true", false)] {
            let key = "disable-model-invocation";
            let found = shown(&format!("{key}: {first}\n{key}: {second}"));
            assert!(found.iter().all(|(_, found, _)| *found == disables));
            assert!(found.iter().any(|(rule, _, _)| *rule == "key-duplicate"));
        }
    }

    #[test]
    fn reads_key_that_hides_skill_in_invalid_yaml() {
        for (yaml, disables) in [
            ("license: see: there\ndisable-model-invocation: true", true),
            (
                "license: see: there\ndisable-model-invocation: 'true'",
                false,
            ),
        ] {
            let found = shown(yaml);
            assert!(found.iter().any(|(rule, _, _)| *rule == "yaml-invalid"));
            assert!(
                found.iter().all(|(_, found, _)| *found == disables),
                "{yaml}"
            );
        }
    }

    #[test]
    fn keys_of_other_hosts_are_known() {
        let yaml = "model: x\ncontext: fork\nagent: x\nhooks:\n  - a: b\npaths: [a]\n\
                    user-invocable: false\nargument-hint: \"[x]\"\nallowed-tools: Read";
        let found = shown(yaml);
        assert_eq!(found.len(), 7);
        assert!(found.iter().all(|(rule, _, _)| *rule == "key-ignored"));
        let found = shown("modell: x");
        assert_eq!((found.len(), found[0].0), (1, "key-unknown"));
    }
}
