//! Each limit of a call: set for all tools and for one, met by a guest, and
//! named to the model and to the operator.

use serde_json::{Value, json};

use crate::support::guests;
use crate::support::program::{Program, Run};

/// A limit, the value that it is set to, and a call that meets it.
struct Case {
    key: &'static str,
    value: &'static str,
    tool: &'static str,
    arguments: Value,
    /// What the model is told that the tool did.
    told: &'static str,
}

fn case(key: &'static str, value: &'static str, tool: &'static str, told: &'static str) -> Case {
    Case {
        key,
        value,
        tool,
        arguments: match tool {
            "list_skills" => json!({}),
            "read_file_in_skill" => json!({"skill_name": "a", "file_path": "large.txt"}),
            _ => json!({"skill_name": "a"}),
        },
        told,
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
        // These are met before a component can answer anything.
        case(
            "table_elements",
            "10",
            "get_skill",
            "it needed more than 10 table elements",
        ),
        case(
            "instances",
            "1",
            "get_skill",
            "it consists of more than 1 core instances",
        ),
        case("tables", "1", "get_skill", "it needed more than 1 tables"),
        case(
            "stack",
            "\"64KiB\"",
            "hostile_recur_in_registers",
            "it needed more than 65536 bytes of stack",
        ),
    ]
}

/// Where a limit is set.
#[derive(Debug, Clone, Copy)]
enum Scope {
    Tool,
    All,
}

fn call(case: &Case, scope: Scope) -> Run {
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
    let (of_all, of_tool) = match (scope, *key) {
        (Scope::Tool, "stack") | (Scope::All, "stack") => {
            (format!("stack = {value}"), String::new())
        }
        (Scope::Tool, _) => (String::new(), format!("limits.{key} = {value}")),
        (Scope::All, _) => (format!("limits.{key} = {value}"), String::new()),
    };
    let tools = guests();
    let component = match tool.starts_with("hostile") {
        true => "\"hostile.wasm\"",
        false => tool,
    };
    program.write(
        "skillhost.toml",
        format!(
            "tools = [{tools:?}]\n{of_all}\n[grants.{component}]\nskills = [\"*\"]\n{of_tool}\n"
        ),
    );
    let arguments = arguments.to_string();
    program.run(&["--config", "skillhost.toml", "call", tool, &arguments])
}

#[test]
fn each_limit_ends_a_call_that_meets_it_and_is_named_to_model_and_operator() {
    for case in cases() {
        let Case {
            key, tool, told, ..
        } = &case;
        for scope in [Scope::Tool, Scope::All] {
            let before_any_answer = matches!(*key, "table_elements" | "instances" | "tables");
            let run = call(&case, scope);
            let about = format!("{key}, {scope:?}: {run:?}");
            if before_any_answer && matches!(scope, Scope::All) {
                // No stranger's component can even say which tools it has.
                let refused = format!("asked for its tools, it was stopped: {told}");
                assert!(run.stderr.contains(&refused), "{about}");
            }
            assert_eq!(run.code, 3, "{about}");
            let model = format!("ERROR: the tool '{tool}' was stopped: {told}");
            assert_eq!(run.stdout.trim_end(), model, "{about}");
            let line = if *key == "stack" {
                "stack".to_owned()
            } else {
                format!("limits.{key}")
            };
            let operator = format!("{told}; `{line}` in skillhost.toml would change it");
            assert!(run.stderr.contains(&operator), "{about}");
        }
    }
}

#[test]
fn a_limit_that_the_engine_has_no_room_for_is_refused_with_its_line() {
    for (text, reason) in [
        ("limits.instances = 201", "this limit is at most 200"),
        ("limits.tables = 65", "this limit is at most 64"),
        (
            "limits.table_elements = 20001",
            "this limit is at most 20000",
        ),
        ("stack = \"63KiB\"", "a stack is between 64 KiB and 64 MiB"),
        ("stack = \"65MiB\"", "a stack is between 64 KiB and 64 MiB"),
        (
            "grants.get_skill.limits.stack = \"1MiB\"",
            "unknown key `grants.get_skill.limits.stack`",
        ),
        ("limits.handles = 0", "a limit is at least 1"),
    ] {
        let program = Program::new();
        program.write("skills/a/SKILL.md", "# A\n");
        program.write("skillhost.toml", text);
        let run = program.run(&["tools"]);
        assert_eq!(run.code, 4, "{text}: {run:?}");
        assert!(run.stderr.contains("line 1: "), "{text}: {run:?}");
        assert!(run.stderr.contains(reason), "{text}: {run:?}");
    }
}

/// A program with a skill, and the hostile guest.
fn with_guests(more: &str) -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let tools = guests();
    program.write("skillhost.toml", format!("tools = [{tools:?}]\n{more}"));
    program
}

#[test]
fn a_process_that_may_reserve_little_runs_its_own_tools_and_those_of_strangers() {
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
fn a_process_with_few_descriptors_keeps_some_from_a_guest_that_takes_all() {
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
fn a_process_with_few_descriptors_does_not_spend_them_on_folders_that_stay_open() {
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
