//! Sets of offered tools, and their descriptions.

use serde_json::Value;

use super::program;
use crate::support::program::{Program, Run};
use crate::support::{guests, repository};

fn run(program: &Program, config: &str, words: &[&str]) -> Run {
    program.write("skillhost.toml", config);
    program.run(&[&["--config", "skillhost.toml"], words].concat())
}

/// Returns the offered tools with their descriptions.
fn offered(program: &Program, config: &str) -> Vec<(String, String)> {
    let run = run(program, config, &["tools", "--format", "mcp"]);
    assert_eq!(run.code, 0, "{config}: {}", run.stderr);
    let tools: Vec<Value> = serde_json::from_str(&run.stdout).unwrap();
    let text = |tool: &Value, key: &str| tool[key].as_str().unwrap().to_owned();
    let tools = tools.iter();
    tools
        .map(|tool| (text(tool, "name"), text(tool, "description")))
        .collect()
}

fn names(program: &Program, config: &str) -> Vec<String> {
    let offered = offered(program, config).into_iter();
    offered.map(|(name, _)| name).collect()
}

#[test]
fn offers_a_set_and_refuses_other_tools() {
    let program = program();
    let all = names(&program, "");
    assert_eq!(names(&program, "offer = \"all\""), all);
    let compact = names(&program, "offer = \"compact\"");
    for (tool, is_offered) in [
        ("read_skill", true),
        ("read_skill_file", true),
        ("list_skills", true),
        ("get_skill", false),
        ("read_file_in_skill", false),
    ] {
        assert_eq!(
            compact.iter().any(|name| name == tool),
            is_offered,
            "{tool}"
        );
    }
    let config = "offer = [\"get_skill\", \"read_skill\"]\ndisabled_tools = [\"read_skill\"]";
    assert_eq!(names(&program, config), ["get_skill"]);
    assert_eq!(names(&program, "offer = []"), [] as [&str; 0]);
    for (tool, code) in [("read_skill", 0), ("get_skill", 2)] {
        let words = ["call", tool, "skill_name=calculator"];
        let run = run(&program, "offer = \"compact\"", &words);
        assert_eq!(run.code, code, "{tool}: {}", run.stderr);
        let left_out = "`offer` or `disabled_tools` in `skillhost.toml` leaves it out\n";
        assert_eq!(run.stderr.ends_with(left_out), code == 2, "{}", run.stderr);
    }
}

#[test]
fn offers_component_tools_unless_list_omits_them() {
    let program = program();
    let offered_with = |offer: &str| {
        let config = format!("tools = [{:?}]\noffer = {offer}\n", guests());
        names(&program, &config)
    };
    let has = |offered: Vec<String>, tool: &str| offered.iter().any(|name| name == tool);
    assert!(has(offered_with("\"all\""), "count_lines"));
    assert!(has(offered_with("\"compact\""), "count_lines"));
    assert!(!has(offered_with("\"compact\""), "get_skill"));
    assert!(!has(offered_with("[\"get_skill\"]"), "count_lines"));
    assert_eq!(offered_with("[\"count_lines\"]"), ["count_lines"]);
}

#[test]
fn offer_does_not_affect_resources() {
    let shown = |offer: &str| run(&program(), offer, &["grants", "--all"]).stdout;
    assert!(shown("offer = []").contains("skill_resources (from "));
    assert!(!shown("disabled_tools = [\"skill_resources\"]").contains("skill_resources (from "));
}

#[test]
fn operator_replaces_descriptions() {
    let program = program();
    let config = "wording = \"contract\"\n[descriptions]\nread_skill = \"Loads\\na skill. 技能\"\n";
    let original = offered(&program, "");
    let replaced = offered(&program, config);
    let grants = run(&program, config, &["grants", "--output", "json"]).stdout;
    let grants: Vec<Value> = serde_json::from_str(&grants).unwrap();
    for ((tool, original), (_, shown)) in original.iter().zip(&replaced) {
        let grant = grants.iter().find(|grant| grant["tool"] == **tool).unwrap();
        let source = match &**tool {
            "read_skill" => {
                assert_eq!(shown, "Loads\na skill. 技能");
                "operator"
            }
            "read_skill_file" => {
                assert!(original.starts_with("Read a file of a skill"), "{original}");
                assert!(shown.starts_with("从技能目录读取文件"), "{shown}");
                "contract"
            }
            _ => {
                assert_eq!(original, shown);
                "component"
            }
        };
        assert_eq!(grant["description"], source, "{tool}");
    }
    let text = run(&program, config, &["grants", "--all"]).stdout;
    assert_eq!(
        text.matches("  description: replaced by the operator's\n")
            .count(),
        1,
        "{text}"
    );
    // The operator's description takes precedence over the contract's.
    let both = "wording = \"contract\"\n[descriptions]\nread_skill_file = \"Mine.\"\n";
    assert!(offered(&program, both).contains(&("read_skill_file".into(), "Mine.".into())));
}

#[test]
fn wrong_offer_or_description_exits_with_4() {
    let long = format!("descriptions.get_skill = \"{}\"", "x".repeat(8193));
    for (config, message) in [
        (
            "offer = \"compct\"",
            "line 1: expected \"all\", \"compact\" or a list of tools",
        ),
        (
            "offer = \"get_skill\"",
            "line 1: expected \"all\", \"compact\" or a list of tools",
        ),
        (
            "\noffer = [1]",
            "line 2: expected \"all\", \"compact\" or a list of tools",
        ),
        (
            "offer = [\"get_skil\"]",
            "`skillhost.toml` offers the tool `get_skil`, which does not exist; did you mean `get_skill`?",
        ),
        (
            "offer = [\"skill_resources\"]",
            "offers the tool `skill_resources`, which does not exist",
        ),
        (
            "offer = [\"a\\u001b\"]",
            "offers the tool `a\\u{1b}`, which does not exist",
        ),
        (
            "wording = \"x\"",
            "line 1: unknown variant `x`, expected `plain` or `contract`",
        ),
        (
            "descriptions.get_skil = \"x\"",
            "describes the tool `get_skil`, which does not exist; did you mean `get_skill`?",
        ),
        (
            "descriptions.get_skill = \" \\n\"",
            "the tool `get_skill`: the description is empty",
        ),
        (
            &long,
            "the tool `get_skill`: the description has 8193 bytes, more than 8192",
        ),
        (
            "descriptions.get_skill = \"a\\u001b[2J\"",
            "the tool `get_skill`: the description has the control character `\\u{1b}`",
        ),
        (
            "descriptions = []",
            "line 1: `descriptions` is a table, not a list",
        ),
    ] {
        let run = run(&program(), config, &["tools"]);
        assert_eq!((run.code, run.stdout.as_str()), (4, ""), "{config:.80}");
        assert!(run.stderr.contains(message), "{config:.80}: {}", run.stderr);
    }
}

#[test]
fn guide_states_tokens_of_each_set() {
    let guide = std::fs::read_to_string(repository().join("docs/guides/use.md")).unwrap();
    for set in ["all", "compact"] {
        let row = guide
            .lines()
            .find(|line| line.starts_with(&format!("| `\"{set}\"`")));
        let row: Vec<&str> = row.unwrap().split('|').map(str::trim).collect();
        let stated: usize = row[4].parse().unwrap();
        let skills = repository().join("skills");
        let config = format!("skills = [{skills:?}]\noffer = \"{set}\"\n");
        let run = run(&Program::new(), &config, &["tools", "--format", "openai"]);
        let tools: Value = serde_json::from_str(&run.stdout).unwrap();
        let tokens = tools.to_string().len() / 4;
        assert!(
            tokens.abs_diff(stated) * 20 <= tokens,
            "{set}: {tokens} tokens, and docs/guides/use.md states {stated}"
        );
        for tool in tools.as_array().unwrap() {
            let name = tool["function"]["name"].as_str().unwrap();
            assert!(set == "all" || row[2].contains(name), "{name}");
        }
    }
}
