//! Each limit of a call: set for all tools and for one, reached by a guest, and named to model and
//! operator.

mod sums;

use serde_json::{Value, json};
use skillhost::limits::{Limit, LimitSet, Unit};
use skillhost::{Config, Limits, Load};

use crate::hostile_components::failing_after;
use crate::support::folders::Folders;
use crate::support::program::{Program, Run};
use crate::support::{block_on, build, builder, call as ask, guests};

/// A limit, its value, and a call that reaches it.
struct Case {
    key: &'static str,
    value: &'static str,
    tool: &'static str,
    arguments: Value,
    /// The reason that the model and the operator read.
    reason: &'static str,
}

fn case(key: &'static str, value: &'static str, tool: &'static str, reason: &'static str) -> Case {
    Case {
        key,
        value,
        tool,
        arguments: match tool {
            "list_skills" | "wide" => json!({}),
            "read_file_in_skill" => json!({"skill_name": "a", "file_path": "large.txt"}),
            _ => json!({"skill_name": "a"}),
        },
        reason,
    }
}

fn cases() -> [Case; 10] {
    [
        case(
            "time",
            "\"50ms\"",
            "hostile_compute",
            "it took longer than 50ms",
        ),
        case(
            "memory",
            "\"8MiB\"",
            "hostile_take_memory",
            "it needed more than 8388608 bytes of memory",
        ),
        case(
            "output",
            "\"100KiB\"",
            "read_file_in_skill",
            "its answer was larger than 102400 bytes",
        ),
        case(
            "hostcall_fuel",
            "\"150KiB\"",
            "read_file_in_skill",
            "it handed the host more than 153600 bytes at once",
        ),
        case(
            "handles",
            "10",
            "hostile_files",
            "it held more than 10 handles",
        ),
        case(
            "directory_entries",
            "2",
            "list_skills",
            "it listed more than 2 directory entries",
        ),
        // These limits stop a component before it can answer.
        case(
            "table_elements",
            "100",
            "wide",
            "it needed more than 100 table elements",
        ),
        case(
            "instances",
            "4",
            "wide",
            "it consists of more than 4 core instances",
        ),
        case("tables", "2", "wide", "it needed more than 2 tables"),
        case(
            "stack",
            "\"64KiB\"",
            "hostile_recur_in_registers",
            "it needed more than 65536 bytes of stack",
        ),
    ]
}

/// Makes a component of one function, `wide`, with more tables and instances than
/// built-in tools have.
fn wide() -> Vec<u8> {
    let instances: String = (0..5)
        .map(|number| format!("(core instance $i{number} (instantiate $m))\n"))
        .collect();
    let text = format!(
        r#"(component
  (core module $m (table 30 funcref) (func (export "f") (result i32) (i32.const 7)))
  {instances}
  (func (export "wide") (result u32) (canon lift (core func $i0 "f"))))"#
    );
    wat::parse_str(text).unwrap()
}

/// The tools for which the configuration sets a limit.
#[derive(Debug, Clone, Copy)]
enum SetFor {
    Tool,
    All,
}

fn call(case: &Case, set_for: SetFor) -> Run {
    let Case {
        key,
        value,
        tool,
        arguments,
        ..
    } = case;
    let program = Program::new();
    for skill in ["a", "b", "c"] {
        program.write(&format!("skills/{skill}/SKILL.md"), "# A skill\n");
    }
    program.write("skills/a/large.txt", "x".repeat(200 << 10));
    let (of_all, of_tool) = match (set_for, *key) {
        (SetFor::Tool, "stack") | (SetFor::All, "stack") => {
            (format!("stack = {value}"), String::new())
        }
        (SetFor::Tool, _) => (String::new(), format!("limits.{key} = {value}")),
        (SetFor::All, _) => (format!("limits.{key} = {value}"), String::new()),
    };
    program.write("tools/wide.wasm", wide());
    let tools = guests();
    let component = match *tool {
        "wide" => "\"wide.wasm\"",
        tool if tool.starts_with("hostile") => "\"hostile.wasm\"",
        built_in => built_in,
    };
    program.write(
        "skillhost.toml",
        format!(
            "tools = [{tools:?}, \"tools\"]
{of_all}
[grants.{component}]
skills = [\"*\"]
{of_tool}
"
        ),
    );
    let arguments = arguments.to_string();
    program.run(&["--config", "skillhost.toml", "call", tool, &arguments])
}

/// Guards against: a limit in the table that nothing enforces.
#[test]
fn each_stopping_limit_of_table_has_case() {
    let cases = cases().map(|case| case.key);
    let of_call = Limits::TABLE.iter().map(|row| (row.key, row.outcome));
    let of_host = Load::TABLE.iter().map(|row| (row.key, row.outcome));
    for (key, outcome) in of_call.chain(of_host) {
        assert_eq!(cases.contains(&key), outcome.is_some(), "{key}");
    }
}

#[test]
fn each_limit_stops_a_call_and_is_named() {
    for case in cases() {
        let Case {
            key, tool, reason, ..
        } = &case;
        for set_for in [SetFor::Tool, SetFor::All] {
            let run = call(&case, set_for);
            let about = format!("{key}, {set_for:?}: {run:?}");
            if *key == "table_elements" && matches!(set_for, SetFor::All) {
                // The component cannot even define its tools.
                let refused = format!("it was stopped when asked for its tools: {reason}");
                assert!(run.stderr.contains(&refused), "{about}");
            }
            assert_eq!(run.code, 3, "{about}");
            let model = format!("ERROR: the tool '{tool}' was stopped: {reason}");
            assert_eq!(run.stdout.trim_end(), model, "{about}");
            let line = if *key == "stack" {
                "stack".to_owned()
            } else {
                format!("limits.{key}")
            };
            let operator = format!("{reason}; to change this, set `{line}` in skillhost.toml");
            assert!(run.stderr.contains(&operator), "{about}");
        }
    }
}

/// Returns a quantity in the form of a configuration.
fn written(unit: Unit, quantity: u64) -> String {
    match unit {
        Unit::Time => format!("\"{quantity}ms\""),
        Unit::Bytes => format!("\"{quantity}B\""),
        _ => quantity.to_string(),
    }
}

fn parsed(text: &str) -> anyhow::Result<Config> {
    Config::parse(text, "skillhost.toml", std::path::Path::new("/etc"))
}

#[test]
fn refuses_limit_out_of_bounds_with_its_line() {
    for table in ["limits", "grants.get_skill.limits"] {
        for row in Limits::TABLE {
            let Limit { key, unit, .. } = *row;
            for within in [row.least, row.greatest] {
                let value = written(unit, within);
                let config = parsed(&format!("{table}.{key} = {value}"));
                assert!(config.is_ok(), "{table}.{key} = {value}: {config:?}");
            }
            let past = [(row.least - 1, "at least"), (row.greatest + 1, "at most")];
            for (past, bound) in past {
                let value = written(unit, past);
                let config = parsed(&format!("\n{table}.{key} = {value}"));
                let error = config.unwrap_err().to_string();
                let about = format!("{table}.{key} = {value}: {error}");
                let expected = format!("`skillhost.toml`, line 2: `{key}` is {bound} ");
                assert!(error.starts_with(&expected), "{about}");
            }
        }
    }
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    for (text, reason) in [
        (
            "limits.memory = 100",
            "`memory` is at least 1 MiB: with less, no built-in tool would answer",
        ),
        (
            "limits.output = 1",
            "`output` is at least 256 bytes: with less, no built-in tool would answer",
        ),
        (
            "limits.instances = 1",
            "`instances` is at least 4: with less, no built-in tool would answer",
        ),
        ("limits.memory = \"5GiB\"", "`memory` is at most 4 GiB"),
        ("limits.tables = 65", "`tables` is at most 64"),
        ("limits.time = 0", "`time` is at least 1 ms"),
        ("stack = \"63KiB\"", "`stack` is at least 64 KiB"),
        ("stack = \"65MiB\"", "`stack` is at most 64 MiB"),
        ("calls_memory = 100", "`calls_memory` is at least 1 MiB"),
        ("calls_per_tool = 0", "`calls_per_tool` is at least 1"),
        (
            "grants.get_skill.limits.stack = \"1MiB\"",
            "unknown key `grants.get_skill.limits.stack`",
        ),
    ] {
        program.write("skillhost.toml", text);
        let run = program.run(&["tools"]);
        assert_eq!(run.code, 4, "{text}: {run:?}");
        assert!(run.stderr.contains("line 1: "), "{text}: {run:?}");
        assert!(run.stderr.contains(reason), "{text}: {run:?}");
    }
}

#[test]
fn built_in_tools_answer_under_the_lowest_limits() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "---\nname: a\ndescription: A.\n---\n# A\n");
    // No tool answers in the minimum time.
    let rows = Limits::TABLE.iter().filter(|row| row.unit != Unit::Time);
    let least = rows.map(|row| format!("{} = {}\n", row.key, written(row.unit, row.least)));
    let least: Vec<String> = least.collect();
    let all = least.concat();
    for limits in least.iter().chain([&all]) {
        let config = parsed(&format!("[limits]\n{limits}")).unwrap();
        let host = build(builder().skills(&folders.root).limits(config.limits));
        for (tool, arguments) in [
            ("get_skill", json!({"skill_name": "a"})),
            ("read_skill", json!({"skill_name": "a"})),
            (
                "read_file_in_skill",
                json!({"skill_name": "a", "file_path": "SKILL.md"}),
            ),
            (
                "read_skill_file",
                json!({"skill_name": "a", "path": "SKILL.md"}),
            ),
            ("list_skills", json!({})),
            ("list_files_in_skill", json!({"skill_name": "a"})),
        ] {
            let answer = ask(&host, tool, arguments);
            assert!(answer.is_ok(), "{limits}{tool}: {answer:?}");
        }
        let resources = host.skill_resources().unwrap();
        let manifest = block_on(resources.manifest("a"));
        assert!(manifest.is_ok(), "{limits}{manifest:?}");
    }
}

/// Makes a project with a skill and the test guests.
fn with_guests(more: &str) -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let tools = guests();
    program.write("skillhost.toml", format!("tools = [{tools:?}]\n{more}"));
    program
}

#[test]
fn runs_tools_with_little_address_space() {
    let program = with_guests("[grants.\"count_lines.wasm\"]\nskills = [\"a\"]\n");
    let little = "ulimit -v 3000000";
    for (tool, arguments, answer) in [
        ("read_skill", "{\"skill_name\":\"a\"}", "# A\n"),
        (
            "count_lines",
            "{\"skill_name\":\"a\",\"path\":\"SKILL.md\"}",
            "1 lines in SKILL.md of a\n",
        ),
    ] {
        let run = program.run_after(
            little,
            &[
                "--config",
                "skillhost.toml",
                "--log",
                "warn",
                "call",
                tool,
                arguments,
            ],
        );
        assert_eq!(run.stdout.trim_end(), answer.trim_end(), "{run:?}");
        assert!(run.stderr.contains("no pooled allocation"), "{run:?}");
    }
}

#[test]
fn greedy_guest_leaves_descriptors_to_others() {
    let program = with_guests("[grants.\"hostile.wasm\"]\nskills = [\"a\"]\n");
    let few = "ulimit -n 48";
    let run = program.run_after(
        few,
        &[
            "--config",
            "skillhost.toml",
            "call",
            "hostile_files",
            "{\"skill_name\":\"a\"}",
        ],
    );
    assert_eq!((run.code, run.stdout.as_str()), (1, "busy"), "{run:?}");
    let run = program.run_after(
        few,
        &[
            "--config",
            "skillhost.toml",
            "call",
            "read_skill",
            "{\"skill_name\":\"a\"}",
        ],
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, "# A\n"), "{run:?}");
}

#[test]
fn few_descriptors_suffice_for_many_skills_and_roots() {
    let program = Program::new();
    let mut messages = concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"#,
        r#""protocolVersion":"2025-11-25","capabilities":{},"#,
        r#""clientInfo":{"name":"client","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
    )
    .to_owned();
    let mut skills = 0;
    for root in 0..8 {
        for _ in 0..8 {
            skills += 1;
            program.write(&format!("{root}/s{skills}/SKILL.md"), "The text.\n");
            let call = json!({
                "jsonrpc": "2.0", "id": skills, "method": "tools/call",
                "params": {"name": "read_skill", "arguments": {"skill_name": format!("s{skills}")}},
            });
            messages += &format!("{call}\n");
        }
    }
    let roots: Vec<String> = (0..8).map(|root| root.to_string()).collect();
    let mut arguments = vec!["serve"];
    arguments.extend(roots.iter().flat_map(|root| ["--skills", root]));
    let run = program.run_after_with("ulimit -n 64", &arguments, &messages);
    let read = run.stdout.matches("The text.").count();
    assert_eq!((run.code, read), (0, skills), "{run:?}");
}

/// The guest learns only that there is no memory left, and fails by itself. In Python, this is an
/// exception.
#[test]
fn names_the_limit_that_a_failed_tool_met() {
    let message = "it needed more than 67108864 bytes of memory; to change this, set \
                   `limits.memory` in skillhost.toml";
    for (code, met) in [
        ("(drop (memory.grow (i32.const 2000)))", Some(message)),
        ("(drop (memory.grow (i32.const 1)))", None),
    ] {
        let folders = Folders::new();
        let file = folders.outside.join("fails.wasm");
        std::fs::write(&file, failing_after(code)).unwrap();
        let host = build(builder().component(&file));
        let error = block_on(host.call("fails", json!({}))).unwrap_err();
        assert_eq!(error.met_limit().as_deref(), met);
        assert_eq!((error.model_text(), error.help()), (String::new(), None));
        let tools = folders.outside.to_str().unwrap();
        let run = Program::new().run(&["call", "fails", "{}", "--tools", tools]);
        assert_eq!(run.code, 1, "{run:?}");
        assert_eq!(run.stderr.contains(message), met.is_some(), "{run:?}");
    }
}
