//! Help, tables, progress and colours, on wide and narrow terminals and in pipes.

use crate::support::program::Program;
use crate::support::terminal::run_on_terminal_of_width;

const ESCAPE: char = '\u{1b}';

/// The columns of a narrow terminal.
const NARROW: u16 = 40;

fn program() -> Program {
    let program = Program::new();
    for name in [
        "calculator",
        "a-skill-with-a-name-that-is-longer-than-a-narrow-terminal-has",
    ] {
        let text = format!("---\nname: {name}\ndescription: Adds numbers.\n---\n");
        program.write(&format!("skills/{name}/SKILL.md"), text);
    }
    program
}

/// Returns the lines that are wider than a narrow terminal.
fn wide_lines(text: &str) -> Vec<&str> {
    let is_wide = |line: &&str| line.chars().count() > NARROW.into();
    text.lines().filter(is_wide).collect()
}

#[test]
fn help_groups_verbs_by_task() {
    let program = program();
    let help = program.run(&["--help"]).stdout;
    for title in [
        "Find and check skills",
        "Call tools",
        "Serve agents",
        "Write tools",
    ] {
        assert!(help.contains(&format!("\n\n{title}:\n  ")), "{help}");
    }
    assert!(
        help.contains("\n  clients         Add this server to"),
        "{help}"
    );
    assert!(!help.contains(ESCAPE), "{help}");
    // Without arguments, the program prints the same groups.
    let run = program.run::<&str>(&[]);
    assert!(run.stderr.contains("Serve agents:"), "{run:?}");
    let narrow = run_on_terminal_of_width(&program, NARROW, &[], &["--help"], "").text;
    let (groups, _) = narrow.split_once("\nOptions:").unwrap();
    assert_eq!(wide_lines(groups), [""; 0], "{groups}");
}

#[test]
fn colours_output_only_on_terminals_that_allow_it() {
    let program = program();
    for (arguments, code) in [(&["--help"][..], 0), (&["no-such-verb"], 2)] {
        for (variables, is_coloured) in [
            (&["TERM=xterm"][..], true),
            (&["TERM=xterm", "NO_COLOR=1"], false),
            (&["TERM=dumb"], false),
        ] {
            let shown = run_on_terminal_of_width(&program, 80, variables, arguments, "");
            assert_eq!(shown.code, code, "{}", shown.text);
            assert_eq!(
                shown.text.contains(ESCAPE),
                is_coloured,
                "{variables:?} {}",
                shown.text
            );
        }
        let run = program.run(arguments);
        assert!(!(run.stdout + &run.stderr).contains(ESCAPE));
    }
}

#[test]
fn grants_show_only_differences() {
    let program = program();
    let run = program.run(&["grants"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.stdout
            .starts_with("8 tools have the defaults (built-in"),
        "{run:?}"
    );
    program.write(
        "skillhost.toml",
        "[grants.get_skill]\nskills = [\"calc*\"]\nlimits.time = \"2s\"\n\
         [grants.read_skill]\nskills = [\"*\"]\nlimits.memory = \"128 MiB\"\n",
    );
    let run = program.run(&["grants"]);
    assert!(
        run.stdout.starts_with(
            "TOOL        SETTING  VALUE\n\
             get_skill   skills   calc*\n\
             get_skill   limits   2s of time\n\
             read_skill  limits   128 MiB of memory\n\n\
             6 tools have the defaults"
        ) || run.stdout.starts_with(
            "TOOL        SETTING  VALUE\n\
             read_skill  limits   128 MiB of memory\n\
             get_skill   skills   calc*\n\
             get_skill   limits   2s of time\n\n\
             6 tools have the defaults"
        ),
        "{run:?}"
    );
    let one = program.run(&["grants", "read_file_in_skill"]);
    assert!(one.stdout.starts_with("1 tool has the defaults"), "{one:?}");
    let json = program.run(&["grants", "--json"]);
    assert_eq!(
        json.stdout,
        program.run(&["grants", "--output", "json"]).stdout
    );
    let all = program.run(&["grants", "--all"]).stdout;
    assert_eq!(all.matches("\n  sha256: ").count(), 8, "{all}");
    let narrow = run_on_terminal_of_width(&program, NARROW, &[], &["grants"], "").text;
    assert!(narrow.contains("get_skill"), "{narrow}");
    assert_eq!(wide_lines(&narrow), [""; 0], "{narrow}");
    // A component without a grant has the defaults, and one with a power does not.
    program.write(
        "tools/count_lines.wasm",
        std::fs::read(crate::support::guests().join("count_lines.wasm")).unwrap(),
    );
    program.write("skillhost.toml", "tools = [\"tools\"]\n");
    let run = program.run(&["grants", "count_lines"]);
    assert!(run.stdout.starts_with("1 tool has the defaults"), "{run:?}");
    program.write(
        "skillhost.toml",
        "tools = [\"tools\"]\n[grants.\"count_lines.wasm\"]\nview = \"copy-on-write\"\n\
         scripts = [\"scripts/*\"]\nhard_links = true\n",
    );
    let run = program.run(&["--config", "skillhost.toml", "grants", "count_lines"]);
    for row in [
        "hard links  allowed",
        "scripts     scripts/*",
        "view        copy-on-write",
    ] {
        assert!(
            run.stdout.contains(&format!("count_lines  {row}\n")),
            "{row}: {run:?}"
        );
    }
}

#[test]
fn progress_is_only_on_terminals() {
    let program = program();
    for (arguments, work) in [
        (&["find", "numbers"][..], "indexing skills"),
        (&["call", "find_skills", "query=numbers"], "indexing skills"),
    ] {
        let shown = run_on_terminal_of_width(&program, NARROW, &["NO_COLOR=1"], arguments, "").text;
        assert!(shown.contains(work), "{arguments:?}: {shown}");
        let run = program.run(arguments);
        assert!(
            !run.stderr.contains(work) && !run.stderr.contains(ESCAPE),
            "{run:?}"
        );
    }
}
