//! Embedders: they set up a host from a configuration, and compile components, as the program does.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use skillhost::limits::{LimitSet as _, Unit};
use skillhost::{CallError, Config, HostBuilder, Limits};
use skillhost_helper::{Kind, write_message};
use skillhost_index::MemoryIndex;

use crate::support::folders::Folders;
use crate::support::process::Process;
use crate::support::program::Program;
use crate::support::{
    block_on, build, cache, call, guests, own_process_command, runs_in_own_process,
};

/// Returns a program with a configuration that sets everything, and the configuration's text.
fn configured() -> (Program, String) {
    let program = Program::new();
    for skill in ["a", "b"] {
        program.write(&format!("skills/{skill}/SKILL.md"), "# A skill\n");
    }
    program.write("home/note.txt", "A note.\n");
    let tools = guests();
    let text = format!(
        "skills = [\"skills\"]
tools = [{tools:?}]
home = \"home\"
disabled_tools = [\"list_skills\"]
offer = \"compact\"
wording = \"contract\"
descriptions.get_skill = \"Reads a skill.\"
hard_links = true
audit_file = \"audit.jsonl\"
audit = \"best_effort\"
calls = 3
queue = 5
calls_per_tool = 2
calls_memory = \"256MiB\"
stack = \"1MiB\"
compile_time = \"90s\"
limits.handles = 99
[grants.\"count_lines.wasm\"]
skills = [\"b\"]
limits.memory = \"32MiB\"
"
    );
    program.write("skillhost.toml", &text);
    (program, text)
}

#[test]
fn configured_host_equals_host_of_the_program() {
    let (program, text) = configured();
    let folder = program.folder.path();
    let config = Config::parse(&text, "skillhost.toml", folder).unwrap();
    let builder = HostBuilder::from_config(&config).unwrap().cache(cache());
    // The program has an index, too.
    let host = build(builder.index(Arc::new(MemoryIndex::new())));
    let run = program.run(&["--config", "skillhost.toml", "grants", "--output", "json"]);
    let shown: Vec<Value> = serde_json::from_str(&run.stdout).unwrap();
    let grants = host.grants().into_iter().map(|grant| {
        let limits = Limits::TABLE.iter().map(|row| {
            let unit = if row.unit == Unit::Time { "_ms" } else { "" };
            (format!("{}{unit}", row.key), row.get(&grant.limits).into())
        });
        json!({
            "tool": grant.tool,
            "component": grant.origin,
            "sha256": grant.digest,
            "skills": grant.skills,
            "allows": grant.allowed,
            "refuses": grant.refused,
            "home": grant.home,
            "hard_links": grant.hard_links,
            "view": grant.view.name(),
            "scripts": grant.scripts,
            "network": grant.network.rules().map(ToString::to_string).collect::<Vec<_>>(),
            "network_asks": grant.network.asks(),
            "network_private": [],
            "secrets": [],
            "sends_requests": host.needs(&grant.tool).unwrap().sends_requests,
            "asks": {"network": [], "secrets": []},
            "asks_ignored_for": null,
            "limits": limits.collect::<Map<_, _>>(),
            "description": grant.description.name(),
        })
    });
    assert_eq!(grants.collect::<Vec<_>>(), shown);
    let count_lines = host.grants().into_iter();
    let count_lines: Vec<_> = count_lines
        .filter(|grant| grant.tool == "count_lines")
        .collect();
    assert_eq!(
        (count_lines[0].limits.memory, count_lines[0].limits.handles),
        (32 << 20, 99)
    );
    assert_eq!(count_lines[0].allowed, ["b"]);

    assert_eq!(host.capacity(), 3);
    for tool in ["list_skills", "get_skill"] {
        assert!(host.leaves_out(tool), "{tool}");
        let unknown = call(&host, tool, json!({})).unwrap_err();
        assert!(
            matches!(unknown, CallError::UnknownTool { .. }),
            "{unknown:?}"
        );
    }
    assert!(!host.leaves_out("no_such_tool") && !host.leaves_out("skill_resources"));
    let described = host.definitions().into_iter();
    let described: Vec<_> = described
        .filter(|definition| definition.name == "read_skill_file")
        .collect();
    assert!(described[0].description.starts_with("从技能目录"));
    let note = call(&host, "read_skill_file", json!({"path": "note.txt"})).unwrap();
    assert_eq!(note.text(), "A note.\n");
    let log = std::fs::read_to_string(folder.join("audit.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 3, "{log}");
}

#[test]
fn clamps_calls_to_the_maximum() {
    for (calls, capacity) in [(5000, 1024), (1024, 1024), (1023, 1023)] {
        let text = format!("calls = {calls}\ncalls_per_tool = 2000");
        let config = Config::parse(&text, "skillhost.toml", Path::new("/nowhere")).unwrap();
        let host = build(HostBuilder::from_config(&config).unwrap().cache(cache()));
        assert_eq!(host.capacity(), capacity);
    }
}

#[test]
fn reports_the_line_that_names_a_missing_folder() {
    for (text, place) in [
        ("skills = [\"none\"]", "`skillhost.toml`, line 1: "),
        ("\ntools = [\"none\"]", "`skillhost.toml`, line 2: "),
        ("\n\nhome = \"none\"", "`skillhost.toml`, line 3: "),
    ] {
        let config = Config::parse(text, "skillhost.toml", Path::new("/nowhere")).unwrap();
        let error = HostBuilder::from_config(&config).err().unwrap();
        let expected = format!("{place}cannot use the folder `/nowhere/none`");
        assert!(format!("{error:#}").starts_with(&expected), "{error:#}");
    }
}

#[test]
fn embedder_can_require_pins_and_components() {
    let (program, text) = configured();
    let problems_with = |first: &str, last: &str| {
        let text = format!("{first}\n{text}\n{last}");
        let config = Config::parse(&text, "skillhost.toml", program.folder.path()).unwrap();
        let builder = HostBuilder::from_config(&config).unwrap().cache(cache());
        let host = block_on(builder.build());
        host.map(|host| host.problems().join("\n"))
    };
    let problems = problems_with("require_pins = true", "").unwrap();
    assert!(
        problems.contains("it has no pin, and pins are required"),
        "{problems}"
    );
    let pin = format!("[pins]\n\"count_lines.wasm\" = \"{}\"", "0".repeat(64));
    let problems = problems_with("", &pin).unwrap();
    assert!(
        problems.contains("and the pin `count_lines.wasm` is"),
        "{problems}"
    );
    let error = problems_with("require_components = true", &pin).unwrap_err();
    assert!(error.to_string().contains(&problems), "{error:#}");
}

#[test]
fn embedder_is_its_own_compiler_process() {
    if runs_in_own_process() {
        skillhost::compile_component().unwrap();
        return;
    }
    let folders = Folders::new();
    let file = folders.outside.join("request");
    let component = wat::parse_str("(component (core module))").unwrap();
    write_message(File::create(&file).unwrap(), Kind::Request, &component).unwrap();
    let test = "embedding::embedder_is_its_own_compiler_process";
    let mut command = own_process_command(test, "compiles");
    command.stdin(File::open(&file).unwrap());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = Process::start(&mut command).output();
    assert!(output.status.success(), "{output:?}");
    // Compiled components are ELF files. The output also has the test runner's lines.
    let is_elf = output.stdout.windows(4).any(|bytes| bytes == b"\x7fELF");
    assert!(is_elf, "{output:?}");
}
