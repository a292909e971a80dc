//! Checks and converts the names of projects. A project's name becomes the name of its tool, its
//! package and its function.

use anyhow::ensure;
use skillhost_sandbox::component::embedded;

/// The maximum number of characters of a name, as for tools.
const MAX_CHARS: usize = 64;

/// The crate that Rust projects depend on.
const SDK_CRATE: &str = "skillhost_guest";

/// Words that cannot name a function in one of the languages, or that the code of a new project
/// already uses.
const RESERVED: [&str; 104] = [
    "abstract", "and", "as", "asm", "assert", "async", "auto", "await", "become", "bool", "box",
    "break", "case", "char", "class", "const", "continue", "core", "crate", "def", "default",
    "del", "do", "double", "dyn", "elif", "else", "enum", "except", "export", "extern", "failure",
    "false", "final", "finally", "float", "fn", "folder", "for", "from", "gen", "global", "goto",
    "if", "impl", "import", "in", "index", "inline", "int", "is", "lambda", "let", "long", "loop",
    "macro", "main", "match", "mod", "move", "mut", "nonlocal", "not", "or", "override", "pass",
    "priv", "pub", "raise", "ref", "register", "restrict", "return", "same", "self", "short",
    "signed", "sizeof", "static", "std", "struct", "super", "switch", "test", "tool", "trait",
    "trim", "true", "try", "type", "typedef", "typeof", "union", "unsafe", "unsigned", "unsized",
    "use", "virtual", "void", "volatile", "where", "while", "with", "yield",
];

/// Checks the name of a project.
pub(super) fn check(name: &str) -> anyhow::Result<()> {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    ensure!(
        name.len() <= MAX_CHARS
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.split(['-', '_']).all(is_part),
        "`{name}` cannot name a tool; use lower-case words of letters and digits, joined by `-`, \
         with at most {MAX_CHARS} characters, such as `{}`",
        suggest(name)
    );
    check_meaning(name)
}

/// Checks that a name means nothing else to skillhost or to a tool's language.
fn check_meaning(name: &str) -> anyhow::Result<()> {
    ensure!(
        !embedded::names().any(|built_in| built_in == tool(name)),
        "`{name}` is the name of a built-in tool; choose another"
    );
    ensure!(
        tool(name) != SDK_CRATE,
        "`{name}` is the name of the SDK for Rust; choose another"
    );
    ensure!(
        !RESERVED.contains(&name),
        "`{name}` is a reserved word in a tool's language; use two words, such as `{name}-text`"
    );
    Ok(())
}

/// Returns the name of the project's tool.
pub(super) fn tool(name: &str) -> String {
    name.replace('-', "_")
}

/// Checks a name that becomes a function in WIT.
pub(super) fn check_wit(name: &str) -> anyhow::Result<()> {
    let function = tool(name).replace('_', "-");
    // Every typed project has the record `entry`.
    let wit = format!(
        "package local:names; interface names {{ record entry {{ term: string }} {function}: func(); }}"
    );
    let parsed = wit_parser::UnresolvedPackageGroup::parse("names.wit", &wit);
    // Older parsers, which some compilers use, refuse words that start with a digit.
    let starts_with_letter = |word: &str| word.starts_with(|c: char| c.is_ascii_lowercase());
    ensure!(
        parsed.is_ok() && function.split('-').all(starts_with_letter),
        "`{name}` cannot name a function in WIT: each word must start with a letter, and the name \
         must be neither a keyword such as `record` nor `entry`, which is a type in the project"
    );
    Ok(())
}

/// Returns a tool's name in camel case.
pub(super) fn camel(tool: &str) -> String {
    let mut words = tool.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        camel + &initial.to_ascii_uppercase() + rest
    })
}

/// Returns a valid name that is similar.
fn suggest(name: &str) -> String {
    const MAX_SUGGESTED_CHARS: usize = 40;
    let mut suggestion = String::new();
    let mut previous = ' ';
    for c in name.chars().take(MAX_SUGGESTED_CHARS) {
        if c.is_ascii_uppercase() && previous.is_ascii_lowercase() {
            suggestion.push('-');
        }
        previous = c;
        if c.is_ascii_alphanumeric() {
            suggestion.push(c.to_ascii_lowercase());
        } else if !suggestion.is_empty() && !suggestion.ends_with('-') {
            suggestion.push('-');
        }
    }
    let suggestion = suggestion.trim_matches(|c: char| c == '-' || c.is_ascii_digit());
    if suggestion.is_empty() || check_meaning(suggestion).is_err() {
        "look-up-term".to_owned()
    } else {
        suggestion.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_lower_case_words() {
        for name in ["look-up-term", "outline", "a1", "count_lines", "x-2"] {
            assert!(check(name).is_ok(), "{name}");
        }
        let long = "a".repeat(65);
        for name in [
            "", "-a", "a-", "a--b", "2a", "Äpfel", "a b", "../a", "a/b", "a.b", "a\nb", &long,
        ] {
            assert!(check(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn suggests_a_valid_name() {
        for (name, suggested) in [
            ("LookUp", "look-up"),
            ("CSV", "csv"),
            ("readCSV", "read-csv"),
            ("my tool!", "my-tool"),
            ("../../etc", "etc"),
            ("2nd", "nd"),
            ("", "look-up-term"),
            ("Ü", "look-up-term"),
            ("Match", "look-up-term"),
            ("ReadSkill", "look-up-term"),
            ("Skillhost Guest", "look-up-term"),
        ] {
            assert_eq!(suggest(name), suggested);
            assert!(check(&suggest(name)).is_ok());
        }
    }

    #[test]
    fn refuses_names_with_another_meaning() {
        for name in [
            "read-skill",
            "read_skill",
            "import",
            "tool",
            "match",
            // Keywords of Rust, Python and C.
            "type",
            "with",
            "union",
            // A function and a macro of C.
            "index",
            "true",
            "skillhost-guest",
        ] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn accepts_only_wit_names_for_typed_projects() {
        for name in ["look-up-term", "outline", "a1", "count_lines"] {
            assert!(check_wit(name).is_ok(), "{name}");
        }
        for name in ["x-2", "record", "list", "u8", "entry"] {
            assert!(check(name).is_ok(), "{name}");
            assert!(check_wit(name).is_err(), "{name}");
        }
    }

    #[test]
    fn converts_names_to_camel_case() {
        for (tool, expected) in [("look_up_term", "lookUpTerm"), ("a1_b", "a1B"), ("x", "x")] {
            assert_eq!(camel(tool), expected);
        }
    }
}
