//! Names of projects. A project's name becomes a tool's, a package's and a
//! function's.

use anyhow::ensure;
use skillhost::internal::built_in_names;

/// The most characters of a name, as of a tool's.
const LONGEST: usize = 64;

/// The name of a crate in a project in Rust.
const CRATE: &str = "skillhost_guest";

/// Words that cannot name a function in some of the languages, or that name
/// something else in a project.
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

pub(super) fn check(name: &str) -> anyhow::Result<()> {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    ensure!(
        name.len() <= LONGEST
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.split(['-', '_']).all(is_part),
        "`{name}` cannot name a tool; use up to {LONGEST} lower-case letters and digits, in words \
         with `-` between, such as `{}`",
        nearest(name)
    );
    ensure!(
        !built_in_names().any(|built_in| built_in == tool(name)),
        "`{name}` is the name of a built-in tool; choose another"
    );
    ensure!(
        tool(name) != CRATE,
        "`{name}` is the crate that tools in Rust are written with; choose another name"
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

/// Refuses a name that no function in WIT can have.
pub(super) fn check_wit(name: &str) -> anyhow::Result<()> {
    let function = tool(name).replace('_', "-");
    // Beside the type that a project has.
    let wit = format!(
        "package local:names; interface names {{ record entry {{ term: string }} {function}: func(); }}"
    );
    let parsed = wit_parser::UnresolvedPackageGroup::parse("names.wit", &wit);
    // The parsers of some compilers are older.
    let starts_with_letter = |word: &str| word.starts_with(|c: char| c.is_ascii_lowercase());
    ensure!(
        parsed.is_ok() && function.split('-').all(starts_with_letter),
        "`{name}` cannot name a function in WIT: each of its words starts with a letter, and the \
         whole is no word of the language, such as `record`, and not `entry`, a type of the project"
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

/// Returns the most similar valid name.
fn nearest(name: &str) -> String {
    const SENSIBLE: usize = 40;
    let mut made = String::new();
    let mut before = ' ';
    for c in name.chars().take(SENSIBLE) {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            made.push('-');
        }
        before = c;
        if c.is_ascii_alphanumeric() {
            made.push(c.to_ascii_lowercase());
        } else if !made.is_empty() && !made.ends_with('-') {
            made.push('-');
        }
    }
    let made = made.trim_matches(|c: char| c == '-' || c.is_ascii_digit());
    if made.is_empty() || RESERVED.contains(&made) {
        "look-up-term".to_owned()
    } else {
        made.to_owned()
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
        ] {
            assert_eq!(nearest(name), suggested);
            assert!(check(&nearest(name)).is_ok());
        }
    }

    #[test]
    fn refuses_a_name_with_another_meaning() {
        for name in [
            "read-skill",
            "read_skill",
            "import",
            "tool",
            "match",
            // Words of one language each: of Rust, Python and C.
            "type",
            "with",
            "union",
            // Functions and macros of C.
            "index",
            "true",
            "skillhost-guest",
        ] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn accepts_for_a_typed_project_only_names_of_functions_in_wit() {
        for name in ["look-up-term", "outline", "a1", "count_lines"] {
            assert!(check_wit(name).is_ok(), "{name}");
        }
        for name in ["x-2", "record", "list", "u8", "entry"] {
            assert!(check(name).is_ok(), "{name}");
            assert!(check_wit(name).is_err(), "{name}");
        }
    }

    #[test]
    fn makes_names_for_javascript() {
        for (tool, expected) in [("look_up_term", "lookUpTerm"), ("a1_b", "a1B"), ("x", "x")] {
            assert_eq!(camel(tool), expected);
        }
    }
}
