//! The guest SDK's string checks alone, without a folder or the sandbox.

use skillhost_guest::{FailureKind, PathError, SkillPath, check_skill_name};

#[test]
fn refuses_paths_that_leave_folder_at_any_step() {
    for path in [
        "..",
        "../x",
        "a/../../x",
        "a/../..",
        "../../../etc/passwd",
        "..\\..\\..\\Windows\\System32",
        "a\\..\\..\\x",
        "a/..\\../x",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "\\",
        "\\\\server\\share",
        "C:",
        "C:\\Windows",
        "c:/x",
        "z:x",
        "./../x",
        "a/b/../../../c",
        // Two folders on Windows, one name on Unix.
        "a\\b/../..",
        "a\\b\\c/../../d",
        "a/b\\c/../../../d",
    ] {
        assert_eq!(SkillPath::new(path), Err(PathError::Outside), "{path:?}");
    }
}

#[test]
fn accepts_paths_that_stay_inside() {
    for (path, normalized) in [
        ("a", "a"),
        ("a/b.txt", "a/b.txt"),
        ("./a", "a"),
        ("a//b", "a/b"),
        ("a/", "a"),
        ("a/../b", "b"),
        ("docs/../config.json", "config.json"),
        (".", "."),
        ("..a", "..a"),
        ("a..", "a.."),
        ("...", "..."),
        ("~/x", "~/x"),
        (".hidden", ".hidden"),
        ("%2e%2e/x", "%2e%2e/x"),
        ("größe/表.txt", "größe/表.txt"),
        ("ab:c", "ab:c"),
    ] {
        let checked = SkillPath::new(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        assert_eq!(checked.as_str(), path);
        assert_eq!(checked.normalized(), normalized);
    }
}

#[test]
fn refuses_empty_paths_and_control_characters() {
    assert_eq!(SkillPath::new(""), Err(PathError::Empty));
    for path in ["a\0b", "a\n", "\u{7f}", "a\u{85}b", "\u{1b}[2J"] {
        assert_eq!(
            SkillPath::new(path),
            Err(PathError::ControlCharacter),
            "{path:?}"
        );
    }
}

#[test]
fn refusals_have_kind_and_wording_of_contract() {
    let outside = "Path traversal detected: cannot access files outside skill folder";
    for (path, kind, words) in [
        ("", FailureKind::InvalidArguments, "path is empty"),
        (
            "a\0",
            FailureKind::InvalidArguments,
            "path contains control characters",
        ),
        ("../a", FailureKind::Refused, outside),
    ] {
        let error = SkillPath::new(path).unwrap_err();
        assert_eq!(error.to_string(), words, "{path:?}");
        assert!(error.kind() == kind, "{path:?}");
    }
}

#[test]
fn accepts_skill_names_that_are_one_plain_entry() {
    for name in [
        "a",
        "calculator",
        "data_analysis",
        "größe",
        "a b",
        "a.b",
        ".a",
    ] {
        assert!(check_skill_name(name), "{name:?}");
    }
    for name in [
        "", ".", "..", "a/b", "/a", "a\\b", "a..b", "../a", "a\0", "a\nb",
    ] {
        assert!(!check_skill_name(name), "{name:?}");
    }
}

#[test]
fn guest_and_host_remove_the_same_frontmatter() {
    for text in [
        "no frontmatter\n",
        "---\nname: a\n---\nbody\n",
        "---\r\nname: a\r\n---\r\n\r\nbody\r\n",
        "\u{feff}---\nname: a\n---\n\n\nbody",
        "---\nname: a\nnever closed\n",
        "---  \nname: a\n---\t\nbody",
        "---\nname: a\n...\nbody",
        " ---\nname: a\n---\nbody",
        "----\nname: a\n---\nbody",
        "---\n---\nbody",
        "---\nname: a\n---",
        "---",
        "---\u{a0}\nname: a\n---\nbody",
        "---\u{c}\nname: a\n---\nbody",
        "---\nname: a\n---\n \t",
        "---\nname: a\n---\n\n  \n body\n",
        "",
    ] {
        let host = skillhost::frontmatter::split(text).body;
        assert_eq!(skillhost_guest::without_frontmatter(text), host, "{text:?}");
    }
}
