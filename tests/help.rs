//! Help for wrong calls: the cases of `vectors/help.json`, through the host and over MCP, and the
//! bounds of help.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::{Value, json};
use skillhost::exchange::{self, Format};
use skillhost::{CallError, Config, Grant, Host, HostBuilder, Limits, Scope, SkillsRoot};

use crate::support::folders::{CANARY, Folders};
use crate::support::program::Program;
use crate::support::session::Session;
use crate::support::watchdog::wait_until;
use crate::support::{block_on, build, builder, cache, call, repository};

#[derive(Deserialize)]
struct Vectors {
    skills: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// True if grants limit the tools to the skills other than [`SECRET`].
    #[serde(default)]
    granted: bool,
    tool: String,
    arguments: Value,
    text: String,
    help: Vec<String>,
}

/// The cases and their skills.
struct Setup {
    folders: Folders,
    cases: Vec<Case>,
}

/// The maximum size of help, in bytes.
const MOST_BYTES: usize = 1024;

/// The skill that some cases' grants do not name.
const SECRET: &str = "secret";

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let path = repository().join("tests/vectors/help.json");
        let vectors: Vectors = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        Setup {
            folders: Folders::from_skills(&vectors.skills),
            cases: vectors.cases,
        }
    })
}

/// The limits of the cases. A file over 1 MiB is too large for an answer.
fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.output = 1 << 20;
    limits
}

fn host(change: impl Fn(HostBuilder) -> HostBuilder) -> Host {
    build(change(
        builder().skills(&setup().folders.root).limits(limits()),
    ))
}

/// Grants four built-in tools all skills except [`SECRET`].
fn without_secret(host: HostBuilder) -> HostBuilder {
    let skills = std::fs::read_dir(&setup().folders.root).unwrap();
    let skills = skills.map(|skill| skill.unwrap().file_name().into_string().unwrap());
    let skills: Vec<String> = skills.filter(|skill| skill != SECRET).collect();
    let grant = Grant::new().skills(skills).unwrap().limits(limits());
    [
        "read_file_in_skill",
        "get_skill",
        "read_skill_file",
        "read_skill",
    ]
    .into_iter()
    .fold(host, |host, tool| host.grant(tool, grant.clone()))
}

fn arguments(case: &Case) -> Value {
    let text = setup().folders.fill_in(&case.arguments.to_string());
    serde_json::from_str(&text).unwrap()
}

/// Returns the error of a call. Repeats the call until its help is `help`, because a search for
/// similar paths ends after 10 ms.
fn failed(host: &Host, tool: &str, arguments: Value, help: &str) -> CallError {
    let ask = || call(host, tool, arguments.clone()).unwrap_err();
    (0..20)
        .map(|_| ask())
        .find(|error| error.help().unwrap_or_default() == help)
        .unwrap_or_else(ask)
}

#[test]
fn wrong_call_has_help_of_vectors() {
    let (all, granted) = (host(|host| host), host(without_secret));
    assert!(setup().cases.len() >= 40);
    let mut wrong = Vec::new();
    for case in &setup().cases {
        let host = if case.granted { &granted } else { &all };
        let error = failed(host, &case.tool, arguments(case), &case.help.join("\n"));
        let help = error.help().unwrap_or_default();
        assert!(help.len() <= MOST_BYTES, "{}", case.name);
        assert!(!help.contains(CANARY), "{}: {help}", case.name);
        assert!(
            !case.granted || !help.contains(SECRET),
            "{}: {help}",
            case.name
        );
        let is_plain = |c: char| c == '\n' || !skillhost::line::is_hidden(c);
        assert!(help.chars().all(is_plain), "{}: {help:?}", case.name);
        let lines: Vec<&str> = help.lines().collect();
        let seen = error.model_text();
        let text = setup().folders.fill_in(&case.text);
        if seen != text || lines != case.help {
            let seen = json!({"name": case.name, "text": seen, "help": lines});
            wrong.push(format!("SEEN {seen}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn mcp_help_is_a_second_block() {
    let mut session = Session::open(builder().skills(&setup().folders.root).limits(limits()));
    let mut with_help = 0;
    for case in setup().cases.iter().filter(|case| !case.granted) {
        let params = json!({"name": case.tool, "arguments": arguments(case)});
        let text = setup().folders.fill_in(&case.text);
        let mut content = vec![json!({"type": "text", "text": text})];
        // The model reads this tool's record as JSON, without help.
        if case.tool != "get_skill" && !case.help.is_empty() {
            with_help += 1;
            content.push(json!({"type": "text", "text": case.help.join("\n")}));
        }
        let content = json!(content);
        let mut ask = || session.ask("tools/call", params.clone()).unwrap();
        // Repeats the call until its help is right, as `failed` does.
        let found = (0..20)
            .map(|_| ask())
            .find(|result| result["content"] == content);
        let result = found.unwrap_or_else(ask);
        assert_eq!(result["isError"], true, "{}", case.name);
        assert_eq!(result["content"], content, "{}", case.name);
    }
    assert!(with_help >= 35, "{with_help}");
}

/// Returns the arguments of a call that gets help, and the help.
fn wrong_path() -> (Value, &'static str) {
    (
        json!({"skill_name": "weather", "file_path": "setup.md"}),
        "Nearest paths: \"docs/setup.md\"",
    )
}

#[test]
fn operator_can_switch_help_off() {
    let (arguments, help) = wrong_path();
    let root = &setup().folders.root;
    for (line, expected) in [
        ("", Some(help)),
        ("help = true", Some(help)),
        ("help = false", None),
    ] {
        let toml = format!("skills = [{:?}]\n{line}\n", root.display().to_string());
        let config = Config::parse(&toml, "skillhost.toml", Path::new("/")).unwrap();
        let host = HostBuilder::from_config(&config).unwrap().cache(cache());
        let mut session = Session::open(host.clone());
        let wanted = expected.unwrap_or_default();
        let error = failed(
            &build(host),
            "read_file_in_skill",
            arguments.clone(),
            wanted,
        );
        assert_eq!(error.help(), expected, "{line}");
        let params = json!({"name": "read_file_in_skill", "arguments": arguments});
        let result = session.ask("tools/call", params).unwrap();
        let blocks = result["content"].as_array().unwrap().len();
        assert_eq!(blocks, 1 + usize::from(expected.is_some()), "{line}");
    }
    let error = Config::parse("help = 1", "skillhost.toml", Path::new("/")).unwrap_err();
    assert!(format!("{error:#}").contains("line 1"), "{error:#}");
}

#[test]
fn every_format_has_help_beside_each_answer() {
    let host = host(|host| host);
    let (arguments, help) = wrong_path();
    let text = "ERROR: File 'setup.md' not found in skill 'weather'";
    let call = json!([
        {"type": "tool_use", "id": "t", "name": "read_file_in_skill", "input": arguments},
        {"type": "tool_use", "id": "u", "name": "get_skill", "input": {"skill_name": "wether"}},
    ]);
    let calls = Format::Anthropic.calls(&call.to_string()).unwrap();
    let answers = block_on(exchange::run(&host, calls));
    assert_eq!(
        (&*answers[0].text, answers[0].help.as_deref()),
        (text, Some(help))
    );
    // Models read the record of `get_skill` as JSON, which has no help.
    assert_eq!(answers[1].help, None);
    for format in Format::ALL {
        let messages = Value::from(format.messages(answers.clone())).to_string();
        assert!(
            messages.contains(text) && !messages.contains("Nearest"),
            "{messages}"
        );
    }
}

#[test]
fn program_prints_help_beside_the_answer() {
    let root = setup().folders.root.display().to_string();
    let tools = [
        "read_file_in_skill",
        "get_skill",
        "read_skill_file",
        "read_skill",
    ];
    let program = |granted: bool| {
        let program = Program::new();
        let mut config = format!("skills = [{root:?}]\nlimits.output = \"1MiB\"\n");
        let skills = std::fs::read_dir(&root).unwrap();
        let skills = skills.map(|skill| skill.unwrap().file_name().into_string().unwrap());
        let skills: Vec<String> = skills.filter(|skill| skill != SECRET).collect();
        for tool in tools.iter().filter(|_| granted) {
            config += &format!("grants.{tool}.skills = {skills:?}\n");
        }
        program.write("skillhost.toml", config);
        program
    };
    let (all, granted) = (program(false), program(true));
    for case in &setup().cases {
        let program = if case.granted { &granted } else { &all };
        let arguments = arguments(case).to_string();
        let ask = || {
            let words = ["--config", "skillhost.toml", "call", &case.tool, &arguments];
            let run = program.run(&words);
            assert_eq!(
                run.stdout,
                setup().folders.fill_in(&case.text),
                "{}",
                case.name
            );
            let lines = run.stderr.lines();
            let help = lines.filter_map(|line| line.strip_prefix("help: "));
            help.map(str::to_owned).collect::<Vec<_>>()
        };
        // Repeats the call until its help is right, as `failed` does.
        let found = (0..20).map(|_| ask()).find(|help| *help == case.help);
        assert_eq!(found.unwrap_or_else(ask), case.help, "{}", case.name);
    }
    // A program reads a record, which has no help in it.
    let (arguments, help) = wrong_path();
    let arguments = arguments.to_string();
    let words = ["call", "read_file_in_skill", &arguments, "--output", "json"];
    let run = all.run(&[&["--config", "skillhost.toml"], &words[..]].concat());
    let record: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        record,
        json!({
            "success": false,
            "skill_name": "weather",
            "file_path": "setup.md",
            "error": "File 'setup.md' not found in skill 'weather'",
        })
    );
    assert_eq!(run.stderr, format!("help: {help}\n"));
}

#[test]
fn names_of_any_length_stay_within_bound() {
    let folders = Folders::new();
    for number in 0..40 {
        // Each hidden character takes six bytes in help.
        let hidden = "\u{200b}".repeat(30);
        folders.write(&format!("a/d/{number:02}{hidden}"), "x");
        folders.write(&format!("a/e/{number:02}{}", "n".repeat(250)), "x");
    }
    let host = build(builder().skills(&folders.root));
    for path in ["d", "e", "d/zzz.q", "e/zzz.q", "nnnn", "."] {
        let arguments = json!({"skill_name": "a", "file_path": path});
        let error = call(&host, "read_file_in_skill", arguments).unwrap_err();
        let help = error.help().unwrap_or_else(|| panic!("{path}"));
        assert!(help.len() <= MOST_BYTES, "{path}: {}", help.len());
        assert!(!help.contains('\u{200b}'), "{path}: {help:?}");
    }
}

#[test]
fn third_party_tools_get_help_within_their_grant() {
    let grant = Grant::new().skills(["calculator"]).unwrap();
    let component = crate::support::guests().join("count_lines.wasm");
    let host = host(|host| {
        host.component(&component)
            .grant("count_lines.wasm", grant.clone())
    });
    for (skill, path, help) in [
        (
            "calculator",
            "basic.py",
            Some("Nearest paths: \"examples/basic.py\""),
        ),
        (
            "calculators",
            "basic.py",
            Some("Skills with a similar name: \"calculator\""),
        ),
        ("calculator", "../weather/SKILL.md", None),
        // This is no skill's name, but similar to one that is not granted.
        ("wether", "basic.py", None),
    ] {
        let arguments = json!({"skill_name": skill, "path": path});
        let error = call(&host, "count_lines", arguments).unwrap_err();
        let seen = error.help().unwrap_or_default();
        assert!(!seen.contains("weather"), "{seen}");
        if let Some(help) = help {
            assert_eq!(seen, help, "{}", error.model_text());
        }
    }
}

#[test]
fn long_path_or_name_gets_no_help() {
    let host = host(|host| host);
    for asked in [
        "a/".repeat(100_000),
        "x".repeat(1_000_000),
        "weather/".repeat(100_000),
    ] {
        for (skill, path) in [("weather", &*asked), (&*asked, "docs")] {
            let arguments = json!({"skill_name": skill, "path": path});
            let error = call(&host, "read_skill_file", arguments).unwrap_err();
            assert_eq!(error.help(), None);
        }
    }
}

#[test]
fn help_names_no_tool_outside_scope() {
    let all = host(|host| host);
    let names_another = |case: &Case, help: &str| {
        [
            "find_skills",
            "list_skills",
            "read_skill_file",
            "list_files_in_skill",
        ]
        .iter()
        .any(|tool| *tool != case.tool && help.contains(tool))
    };
    let mut named = 0;
    for case in setup().cases.iter().filter(|case| !case.granted) {
        let help = |host: &Host| {
            let error = call(host, &case.tool, arguments(case)).unwrap_err();
            error.help().unwrap_or_default().to_owned()
        };
        named += usize::from(names_another(case, &help(&all)));
        let scope = Scope::new().tools([&case.tool]).unwrap();
        let help = help(&all.in_scope(&Arc::new(scope)));
        assert!(!names_another(case, &help), "{}: {help}", case.name);
    }
    assert!(named >= 2, "{named}");
}

#[test]
fn help_compares_name_with_1000_skills_at_most() {
    let folders = Folders::new();
    let name = |number: usize| format!("s-{number:04}");
    for number in 0..1000 {
        std::fs::create_dir(folders.root.join(name(number))).unwrap();
    }
    std::fs::create_dir(folders.root.join("sunflowers")).unwrap();
    let host = build(builder().skills(&folders.root));
    for (wrong, meant, named) in [
        ("s-0000x", "s-0000", true),
        ("s-0999x", "s-0999", true),
        ("sunflower", "sunflowers", false),
    ] {
        let arguments = json!({"skill_name": wrong});
        let error = call(&host, "read_skill", arguments).unwrap_err();
        let help = error.help().unwrap_or_default();
        assert_eq!(help.contains(meant), named, "{wrong}: {help}");
    }
}

#[test]
fn help_uses_names_of_last_scan() {
    for depth in [1, 2] {
        let folders = Folders::new();
        folders.write("brewing/SKILL.md", "Brews.\n");
        let root = SkillsRoot {
            depth,
            ..SkillsRoot::new(&folders.root)
        };
        let host = build(builder().skills_root(root));
        let ask = || call(&host, "read_skill", json!({"skill_name": "brew"})).unwrap_err();
        for error in [ask(), ask()] {
            // The host makes the help only below, when this skill exists.
            folders.write("brewer/SKILL.md", "Brews.\n");
            let help = error.help().unwrap();
            assert!(help.contains("\"brewing\""), "{depth}: {help}");
            assert!(!help.contains("\"brewer\""), "{depth}: {help}");
        }
        // Calls spend at most a tenth of the time on searching skills, so a new one is found later.
        wait_until("help does not name a new skill", || {
            ask().help().unwrap().contains("\"brewer\"")
        });
    }
}

#[test]
fn help_ignores_hidden_skills() {
    let (all, seen) = (Folders::new(), Folders::new());
    for name in ["sunflowers", "tea"] {
        for folders in [&all, &seen] {
            std::fs::create_dir(folders.root.join(name)).unwrap();
        }
    }
    for number in 0..1000 {
        std::fs::create_dir(all.root.join(format!("hidden-{number:04}"))).unwrap();
    }
    let scope = Scope::new().skills(["sunflowers", "tea"]).unwrap();
    let hosts = [&all, &seen].map(|folders| build(builder().skills(&folders.root)));
    let hosts = hosts.map(|host| host.in_scope(&Arc::new(scope.clone())));
    for wrong in ["unflowers", "sunflower", "tee", "hidden-0001", "x"] {
        let [found, expected] = hosts.each_ref().map(|host| {
            let arguments = json!({"skill_name": wrong});
            let error = call(host, "read_skill", arguments).unwrap_err();
            error.help().map(str::to_owned)
        });
        assert!(expected.is_some());
        assert_eq!(found, expected, "{wrong}");
    }
}
