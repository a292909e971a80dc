//! The verbs that list: skills, tools, prompts, findings, grants, components.

use serde_json::{Value, json};

use super::{SKILL, program};
use crate::support::guests;

#[test]
fn skills_prints_a_table_or_json_with_problems() {
    let program = program();
    program.write("skills/Bad/SKILL.md", "no frontmatter\n");
    let run = program.run(&["skills"]);
    assert_eq!(run.stdout, "Bad\ncalculator  Adds numbers.\n");
    assert!(run.stderr.contains("`Bad`: "), "{}", run.stderr);
    let run = program.run(&["skills", "--output", "json"]);
    let listed: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        listed["skills"][1],
        json!({
            "name": "calculator",
            "description": "Adds numbers.",
            "location": "calculator/SKILL.md",
            "problems": [],
        })
    );
    assert_ne!(listed["skills"][0]["problems"], json!([]));
}

#[test]
fn tools_prints_a_json_array_of_functions() {
    let run = program().run(&["tools"]);
    let tools: Value = serde_json::from_str(&run.stdout).unwrap();
    let names: Vec<&str> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "read_file_in_skill",
            "get_skill",
            "read_skill_file",
            "read_skill",
            "list_skills",
            "list_files_in_skill"
        ]
    );
}

#[test]
fn prompt_names_each_skill_in_either_style() {
    let run = program().run(&["prompt"]);
    assert!(run.stdout.contains(
        "  - calculator: Adds numbers. — call read_skill(skill_name='calculator') to load \
         instructions when relevant\n"
    ));
    let run = program().run(&["prompt", "--style", "xml"]);
    assert!(
        run.stdout
            .contains("<location>calculator/SKILL.md</location>"),
        "{}",
        run.stdout
    );
}

#[test]
fn check_prints_errors_with_lines_and_exits_with_1() {
    let program = program();
    assert_eq!(program.run(&["check"]).code, 0);
    program.write(
        "skills/Bad_Name/SKILL.md",
        "---\nname: Bad_Name\ndescription: x\n---\n[a](none.md)\n",
    );
    let run = program.run(&["check"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("Bad_Name:2: error: "), "{}", run.stdout);
    assert!(
        run.stdout.contains("Bad_Name:5: warning: "),
        "{}",
        run.stdout
    );
    let run = program.run(&[
        "check",
        "skills/calculator",
        "skills/none",
        "--output",
        "json",
    ]);
    assert_eq!(run.code, 1);
    let checked: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        checked[0],
        json!({"skill": "skills/calculator", "findings": []})
    );
    assert_eq!(checked[1]["findings"][0]["rule"], "unreadable");
}

#[test]
fn grants_shows_what_each_tool_may_and_may_not_read() {
    let program = program();
    program.write("skills/other/SKILL.md", SKILL);
    program.write(
        "skillhost.toml",
        "[grants.get_skill]\nskills = [\"calc*\"]\nlimits.time = \"2s\"\n",
    );
    let run = program.run(&["grants", "--output", "json"]);
    let grants: Value = serde_json::from_str(&run.stdout).unwrap();
    let grant = grants
        .as_array()
        .unwrap()
        .iter()
        .find(|grant| grant["tool"] == "get_skill")
        .unwrap();
    assert_eq!(
        (&grant["allows"], &grant["refuses"]),
        (&json!(["calculator"]), &json!(["other"]))
    );
    assert_eq!(grant["limits"]["time_ms"], 2000);
    let text = program.run(&["grants"]).stdout;
    assert!(
        text.contains("  skills: calc*\n    allows: calculator\n    refuses: other\n"),
        "{text}"
    );
    let tools = guests();
    let run = program.run(&["--tools", tools.to_str().unwrap(), "grants"]);
    assert!(
        run.stdout.contains("  skills: none\n    allows: none\n"),
        "{}",
        run.stdout
    );
    // Tool, component, and its digest.
    let component = tools.join("count_lines.wasm");
    let seen = program
        .run(&["inspect", component.to_str().unwrap()])
        .stdout;
    let digest = seen.lines().find_map(|line| line.strip_prefix("sha256: "));
    let shown = format!(
        "count_lines (from {})\n  sha256: {}\n",
        component.display(),
        digest.unwrap()
    );
    assert!(run.stdout.contains(&shown), "{shown}{}", run.stdout);
}

#[test]
fn inspect_prints_a_component_and_exits_with_1_if_a_host_would_refuse_it() {
    let program = program();
    let good = guests().join("count_lines.wasm");
    let run = program.run(&["inspect", good.to_str().unwrap()]);
    assert_eq!(run.code, 0);
    for line in [
        "sha256: ",
        "size: ",
        "called by: skillhost:tool/tools@0.1.0\n",
        "  granted  wasi:filesystem/types@",
        "  count_lines: reads the skill named by `skill_name`",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    program.write(
        "bad.wasm",
        wat::parse_str("(component (import \"wasi:http/types@0.2.0\" (instance)))").unwrap(),
    );
    let run = program.run(&["inspect", "bad.wasm", "--output", "json"]);
    assert_eq!(run.code, 1);
    let seen: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        seen["imports"],
        json!([{"name": "wasi:http/types@0.2.0", "granted": false}])
    );
    assert_eq!(seen["interface"], Value::Null);
    let future = "(component (instance $t) (export \"skillhost:tool/tools@0.9.0\" (instance $t)))";
    program.write("future.wasm", wat::parse_str(future).unwrap());
    let run = program.run(&["inspect", "future.wasm"]);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout
            .contains("called by: skillhost:tool/tools@0.9.0\n"),
        "{}",
        run.stdout
    );
    let typed = guests().join("typed.wasm");
    let run = program.run(&["inspect", typed.to_str().unwrap()]);
    let said = "called by: functions with types of their own\n";
    assert!(run.stdout.contains(said), "{}", run.stdout);
    program.write("no.wasm", "text");
    let run = program.run(&["inspect", "no.wasm"]);
    assert_eq!((run.code, run.stdout.as_str()), (4, ""));
    assert!(
        run.stderr.contains("`no.wasm` is not a component"),
        "{}",
        run.stderr
    );
}
