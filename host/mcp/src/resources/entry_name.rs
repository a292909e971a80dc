//! The name of a skill in its entry of the skills extension. The URIs of the skill's files can have
//! this name too.

use skillhost::frontmatter::Frontmatter;

/// The maximum number of characters of a name, by the specification.
const MAX_NAME: usize = 64;

/// Returns whether the extension accepts a name. Letters other than ASCII are refused, because the
/// specification can be read to forbid them.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.split('-').all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// Returns the name in the entry of a skill: the first of its `name`, its full name and its
/// folder's name that the extension accepts.
pub(crate) fn entry_name<'a>(skill: &'a str, front: &'a Frontmatter) -> Option<&'a str> {
    let name_field = front.name.as_ref().map(|name| name.value.as_str());
    // A skill is named after its path, with dots, if another skill already has its folder's name.
    let folder = skill.rsplit('.').next();
    let names = [name_field, Some(skill), folder].into_iter().flatten();
    names.into_iter().find(|name| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost::frontmatter;

    #[test]
    fn accepts_names_of_specification_only() {
        for name in ["a", "0", "pdf-processing", "a-1-b", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "-a",
            "a-",
            "a--b",
            "A",
            "a_b",
            "ä",
            "a.b",
            "a b",
            &"a".repeat(65),
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn names_entry_by_legal_name() {
        for (skill, front, expected) in [
            ("a", "name: b", Some("b")),
            ("a", "name: 12", Some("12")),
            ("a", "name: ' b '", Some("b")),
            ("a", "name: My Skill", Some("a")),
            ("a", "name: [b]", Some("a")),
            ("a", "name:", Some("a")),
            ("zeta.refunds", "name: refunds", Some("refunds")),
            ("zeta.refunds", "", Some("refunds")),
            ("A_B", "name: a-b", Some("a-b")),
            ("A_B", "name: A_B", None),
        ] {
            let text = format!("---\n{front}\n---\n");
            let front = frontmatter::read(&text).frontmatter;
            assert_eq!(entry_name(skill, &front), expected, "{skill}: {text}");
        }
    }
}
