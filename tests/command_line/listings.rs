//! The verbs that list: skills, tools, prompts, findings, grants, components.

use std::fs;

use serde_json::{Value, json};
use skillhost::prompt::tokens;

use super::{SKILL, program};
use crate::support::guests;
use crate::support::program::{Program, Run};

#[test]
fn skills_shows_at_most_twenty_problems() {
    let program = Program::new();
    for number in 0..25 {
        program.write(
            &format!("skills/bad-{number:02}/SKILL.md"),
            "no frontmatter\n",
        );
    }
    let run = program.run(&["skills"]);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 25));
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(lines.len(), 21, "{}", run.stderr);
    assert!(lines[19].starts_with("skillhost: `bad-19`: there is no frontmatter"));
    assert_eq!(
        lines[20],
        "skillhost: 5 more problems of skills; `skillhost check --all` lists them all"
    );
}

#[test]
fn skills_prints_table_or_json() {
    let program = program();
    program.write("skills/Bad/SKILL.md", "no frontmatter\n");
    let run = program.run(&["skills"]);
    assert_eq!(
        run.stdout,
        "Bad         no frontmatter\ncalculator  Adds numbers.\n"
    );
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
fn tools_prints_json_array() {
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
fn prompt_lists_skills_in_both_styles() {
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
fn prompt_stays_within_budget_and_warns() {
    let program = Program::new();
    for number in 0..300 {
        let text = format!(
            "---\nname: s\ndescription: {}\n---\n",
            "Adds numbers. ".repeat(9)
        );
        program.write(&format!("skills/skill-{number:03}/SKILL.md"), text);
    }
    let run = program.run(&["prompt"]);
    assert!(tokens(&run.stdout) <= 4000);
    let warning =
        "the 300 skills do not fit the 4000 tokens of a prompt: the prompt cuts descriptions to ";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
    assert!(
        run.stdout.contains("call find_skills(query="),
        "{}",
        run.stdout
    );
    let small = program.run(&["prompt", "--budget", "1000"]);
    assert!(tokens(&small.stdout) <= 1000);
    assert!(small.stderr.contains("the 1000 tokens"), "{}", small.stderr);
    let whole = program.run(&["prompt", "--budget", "100000"]);
    assert_eq!((whole.stdout.lines().count(), &*whole.stderr), (305, ""));
    for wrong in ["0", "255", "-1", "many", "99999999999"] {
        let run = program.run(&["prompt", &format!("--budget={wrong}")]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{wrong}");
        assert!(run.stderr.contains("--budget"), "{wrong}: {}", run.stderr);
    }
    // The configuration can set the budget.
    let offers = |run: &Run| run.stdout.contains("find_skills");
    assert!(offers(&program.run(&["tools"])));
    program.write(
        "skillhost.toml",
        "[prompt]\nbudget = 1000\n[search]\nfind_skills = \"never\"\n",
    );
    let run = program.run(&["prompt"]);
    assert_eq!(run.stderr, small.stderr);
    assert!(
        run.stdout.contains("call list_skills(cursor='skill-"),
        "{}",
        run.stdout
    );
    assert!(!offers(&program.run(&["tools"])));
    let run = program.run(&["call", "find_skills", r#"{"query":"x"}"#]);
    assert_eq!(run.code, 2, "{run:?}");
    program.write(
        "skillhost.toml",
        "disabled_tools = [\"find_skills\", \"list_skills\"]\n",
    );
    let run = program.run(&["prompt"]);
    assert!(
        run.stdout.ends_with("last by name, did not fit.\n"),
        "{}",
        run.stdout
    );
}

#[test]
fn single_calls_search_all_skills() {
    let program = program();
    let body = "---\nname: x\ndescription: Something.\n---\n# Knots\n\nTie a bowline.\n";
    program.write("skills/knots/SKILL.md", body);
    let run = program.run(&["call", "find_skills", r#"{"query":"bowline"}"#]);
    assert_eq!((run.code, &*run.stderr), (0, ""));
    assert!(
        run.stdout
            .starts_with("knots: Something. [matches: bowline"),
        "{}",
        run.stdout
    );
    assert!(!run.stdout.contains("so far"), "{}", run.stdout);
    let run = program.run(&["call", "list_skills", r#"{"query":"bowline"}"#]);
    assert!(run.stdout.contains("\"knots\""), "{}", run.stdout);
    let message = json!({"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
        "function": {"name": "find_skills", "arguments": "{\"query\": \"bowline\"}"}}]});
    let options = ["--skills", "skills", "respond", "--format", "openai"];
    let run = program.run_with(&options, &message.to_string());
    assert!(run.stdout.contains("knots: Something."), "{run:?}");
    assert!(!run.stdout.contains("so far"), "{run:?}");
}

#[test]
fn check_prints_errors_and_exits_with_1() {
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
fn check_abbreviates_and_filters_findings() {
    let program = program();
    let links: String = (0..60).map(|n| format!("[x]({n}.md)\n")).collect();
    program.write(
        "skills/Bad_Name/SKILL.md",
        format!("---\nname: Bad_Name\ndescription: x\n---\n[y](b.md)\n{links}"),
    );
    program.write("skills/Bad_Name/b.md", "a\n\u{e0041}\n");
    let run = program.run(&["check"]);
    assert_eq!((run.code, run.stdout.lines().count()), (1, 6), "{run:?}");
    for line in [
        "Bad_Name: and 57 more [reference-missing]",
        "Bad_Name/b.md:2: warning: the file has 1 tag character: ",
    ] {
        assert!(run.stdout.contains(line), "{}", run.stdout);
    }
    assert_eq!(
        run.stderr,
        "rule               severity  findings  skills\n\
         name-characters    error            1       1\n\
         reference-missing  warning         60       1\n\
         hidden-tags        warning          1       1\n\
         skillhost: checked 2 skills: 1 error, 61 warnings; `--all` prints 57 more findings\n"
    );
    let run = program.run(&["check", "--all"]);
    assert_eq!(run.stdout.lines().count(), 62);
    let run = program.run(&["check", "--errors"]);
    assert_eq!((run.code, run.stdout.lines().count()), (1, 1), "{run:?}");
    let ignored = [
        "check",
        "--ignore",
        "name-characters",
        "--ignore",
        "hidden-tags",
    ];
    let run = program.run(&ignored);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 4), "{run:?}");
    let run = program.run(&["check", "--ignore", "name-character"]);
    assert_eq!((run.code, &*run.stdout), (2, ""));
    assert!(run.stderr.contains("name-characters"), "{}", run.stderr);
    let run = program.run(&["check", "--output", "json"]);
    let checked: Value = serde_json::from_str(&run.stdout).unwrap();
    let findings = checked[0]["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 62);
    assert_eq!(findings[61]["file"], "b.md");
    let run = program.run(&["check", "--output", "sarif"]);
    assert_eq!(run.code, 1);
    let log: Value = serde_json::from_str(&run.stdout).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 62);
    let location = |result: &Value| {
        let location = &result["locations"][0]["physicalLocation"];
        let line = &location["region"]["startLine"];
        (location["artifactLocation"]["uri"].clone(), line.clone())
    };
    assert_eq!(
        location(&results[0]),
        (json!("skills/Bad_Name/SKILL.md"), json!(2))
    );
    assert_eq!(
        location(&results[61]),
        (json!("skills/Bad_Name/b.md"), json!(2))
    );
}

#[test]
fn grants_shows_allowed_and_refused_skills() {
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
    assert_eq!(grant["view"], "read-only");
    let text = program.run(&["grants", "--all"]).stdout;
    assert!(
        text.contains("  scripts: none\n  view: read-only\n"),
        "{text}"
    );
    assert!(
        text.contains("  skills: calc*\n    allows: calculator\n    refuses: other\n"),
        "{text}"
    );
    let tools = guests();
    let run = program.run(&["--tools", tools.to_str().unwrap(), "grants", "--all"]);
    assert!(
        run.stdout.contains("  skills: none\n    allows: none\n"),
        "{}",
        run.stdout
    );
    // Each tool is shown with its component and the component's digest.
    let component = tools.join("count_lines.wasm");
    let inspected = program
        .run(&["inspect", component.to_str().unwrap()])
        .stdout;
    let digest = inspected
        .lines()
        .find_map(|line| line.strip_prefix("sha256: "));
    let shown = format!(
        "count_lines (from {})\n  sha256: {}\n",
        component.display(),
        digest.unwrap()
    );
    assert!(run.stdout.contains(&shown), "{shown}{}", run.stdout);
}

#[test]
fn inspect_exits_with_1_for_refused_components() {
    let program = program();
    let good = guests().join("count_lines.wasm");
    let run = program.run(&["inspect", good.to_str().unwrap()]);
    assert_eq!(run.code, 0);
    let tools = "tools:\n  count_lines: reads the skill named by `skill_name`\n";
    assert!(run.stdout.starts_with(tools), "{}", run.stdout);
    for line in [
        "sha256: ",
        "size: ",
        "interface: skillhost:tool/tools@0.1.1\n",
        " interfaces of WASI, which every component gets (`--all` lists them)\n",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    assert!(!run.stdout.contains("wasi:"), "{}", run.stdout);
    let run = program.run(&["inspect", "--all", good.to_str().unwrap()]);
    let import = "  granted  wasi:filesystem/types@";
    assert!(run.stdout.contains(import), "{}", run.stdout);
    program.write(
        "bad.wasm",
        wat::parse_str("(component (import \"wasi:keyvalue/store@0.2.0\" (instance)))").unwrap(),
    );
    let run = program.run(&["inspect", "bad.wasm", "--output", "json"]);
    assert_eq!(run.code, 1);
    let inspected: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        inspected["imports"],
        json!([{"name": "wasi:keyvalue/store@0.2.0", "granted": false}])
    );
    assert_eq!(inspected["interface"], Value::Null);
    let run = program.run(&["inspect", "bad.wasm"]);
    let refused = "  REFUSED  wasi:keyvalue/store@0.2.0\n";
    assert!(run.stdout.contains(refused), "{}", run.stdout);
    let future = "(component (instance $t) (export \"skillhost:tool/tools@0.9.0\" (instance $t)))";
    program.write("future.wasm", wat::parse_str(future).unwrap());
    let run = program.run(&["inspect", "future.wasm"]);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout
            .contains("interface: skillhost:tool/tools@0.9.0\n"),
        "{}",
        run.stdout
    );
    let typed = guests().join("typed.wasm");
    let run = program.run(&["inspect", typed.to_str().unwrap()]);
    let interface = "interface: functions with their own WIT types\n";
    assert!(run.stdout.contains(interface), "{}", run.stdout);
    program.write("no.wasm", "text");
    let run = program.run(&["inspect", "no.wasm"]);
    assert_eq!((run.code, run.stdout.as_str()), (4, ""));
    assert!(
        run.stderr.contains("`no.wasm` is not a component"),
        "{}",
        run.stderr
    );
}

#[test]
fn grants_shows_home_and_hard_links() {
    let program = program();
    let component = fs::read(guests().join("count_lines.wasm")).unwrap();
    program.write("tools/count_lines.wasm", component);
    for (granted, [home, hard_links]) in [
        ("", [false, false]),
        ("home = true", [true, false]),
        ("hard_links = true", [false, true]),
    ] {
        let grant = format!("tools = [\"tools\"]\n[grants.\"count_lines.wasm\"]\n{granted}\n");
        program.write("c.toml", grant);
        let grants = ["--config", "c.toml", "grants", "count_lines"];
        let text = program.run(&[&grants[..], &["--all"]].concat()).stdout;
        let word = |allowed| if allowed { "allowed" } else { "refused" };
        let (home_word, links_word) = (word(home), word(hard_links));
        let lines = format!("  home folder: {home_word}\n  hard links: {links_word}\n");
        assert!(text.contains(&lines), "{granted}: {text}");
        let run = program.run(&[&grants[..], &["--output", "json"]].concat());
        let shown: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(
            (&shown[0]["home"], &shown[0]["hard_links"]),
            (&json!(home), &json!(hard_links)),
            "{granted}"
        );
    }
}
