//! Help for new users: tips for wrong words, hints while the program waits for input on a
//! terminal, and readable addresses and sizes.

use super::program;
use crate::support::terminal::type_on_terminal;

#[test]
fn suggests_verbs_by_meaning() {
    for (word, tip) in [
        ("version", "`skillhost --version` prints the version"),
        (
            "list",
            "`skillhost skills` lists the skills, and `skillhost tools` the tools",
        ),
        (
            "LS",
            "`skillhost skills` lists the skills, and `skillhost tools` the tools",
        ),
        (
            "run",
            "`skillhost call TOOL` calls a tool, and `skillhost serve` starts the MCP server",
        ),
        ("init", "`skillhost new NAME` makes a project for a tool"),
        (
            "validate",
            "`skillhost check` checks skills, and `skillhost test` a component",
        ),
        (
            "read_skill",
            "`skillhost call read_skill` calls a tool of that name",
        ),
        // Misspellings.
        ("cal", "a similar subcommand exists: 'call'"),
        ("prompts", "a similar subcommand exists: 'prompt'"),
    ] {
        let run = program().run(&[word]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{word}");
        let tips: Vec<&str> = run
            .stderr
            .lines()
            .filter(|line| line.contains("tip:"))
            .collect();
        assert_eq!(tips, [format!("  tip: {tip}")], "{word}: {}", run.stderr);
    }
    for word in ["xyz", "x_\n  tip: forged", ""] {
        let run = program().run(&[word]);
        assert_eq!(run.code, 2, "{word}");
        assert!(!run.stderr.contains("\n  tip:"), "{word}: {}", run.stderr);
    }
    assert_eq!(program().run(&["help"]).code, 0);
    let run = program().run(&["call"]);
    assert_eq!(run.code, 2);
    let tip = "\n  tip: `skillhost tools` prints the tools with their arguments\n";
    assert!(run.stderr.contains(tip), "{}", run.stderr);
}

#[test]
fn explains_waiting_on_a_terminal() {
    let arguments = "{\"skill_name\": \"calculator\"}\n";
    for (words, input, message, code) in [
        (
            &["serve"][..],
            "",
            "waiting for an MCP client's messages on stdin",
            0,
        ),
        (
            &["respond", "--format", "openai"],
            "",
            "waiting for a message of the format `openai` on stdin; Ctrl-D ends it",
            0,
        ),
        (
            &["call", "get_skill", "-"],
            arguments,
            "waiting for the arguments, one JSON object, on stdin; Ctrl-D ends it",
            0,
        ),
    ] {
        let shown = type_on_terminal(&program(), words, input);
        assert!(
            shown.text.contains(&format!("skillhost: {message}")),
            "{words:?}: {}",
            shown.text
        );
        assert_eq!(shown.code, code, "{words:?}: {}", shown.text);
        let run = program().run_with(words, input);
        assert!(!run.stderr.contains("waiting"), "{words:?}: {}", run.stderr);
    }
}

#[test]
fn refuses_http_address_without_port() {
    for address in [
        "8080",
        "localhost",
        "localhost:",
        "localhost:99999",
        "example.com:80",
        "",
    ] {
        let run = program().run(&["serve", "--http", address]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{address}");
        assert!(
            run.stderr.contains("localhost:8080"),
            "{address}: {}",
            run.stderr
        );
    }
}

#[test]
fn grants_formats_sizes_for_people_only() {
    let program = program();
    let shown = program.run(&["grants", "--all"]).stdout;
    assert!(
        shown.contains("10s of time, 64 MiB of memory, 16 MiB of output,"),
        "{shown}"
    );
    let json = program.run(&["grants", "--output", "json"]).stdout;
    assert!(json.contains("\"memory\": 67108864"), "{json}");
}
