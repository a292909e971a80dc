//! `skillhost warm`: what it compiles, and its errors.

use std::fs;

use super::program;
use crate::support::guests;
use crate::support::program::{Program, Run, finish};

const CONFIG: &str = "tools = [\"tools\"]\ngrants.\"n.wasm\".skills = [\"*\"]\n";

fn run(program: &Program, arguments: &[&str], cache: &str) -> Run {
    let mut command = program.command(arguments);
    if cache == "off" {
        command.env("SKILLHOST_CACHE", cache);
    } else {
        command.env("SKILLHOST_CACHE", program.folder.path().join(cache));
    }
    finish(command, "")
}

/// Returns the number of compiled components in the cache of confined processes.
fn compiled(program: &Program) -> usize {
    let entries = fs::read_dir(program.folder.path().join("cache/confined")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".cwasm"))
        .count()
}

#[test]
fn compiles_configuration_with_audit_log() {
    let program = program();
    let text = format!("{CONFIG}audit_file = \"audit.jsonl\"\naudit = \"best_effort\"\n");
    program.write("skillhost.toml", text);
    let component = fs::read(guests().join("count_lines.wasm")).unwrap();
    program.write("tools/n.wasm", component);
    let warm = run(&program, &["warm", "--config", "skillhost.toml"], "cache");
    assert_eq!(
        (warm.code, &*warm.stdout),
        (0, "all components are compiled\n"),
        "{warm:?}"
    );
    // No call runs, so nothing is logged.
    assert!(!program.folder.path().join("audit.jsonl").exists());
}

#[test]
fn compiles_all_served_components() {
    let program = program();
    program.write("skillhost.toml", CONFIG);
    program.write(
        "tools/n.wasm",
        fs::read(guests().join("count_lines.wasm")).unwrap(),
    );
    let warm = run(&program, &["warm"], "cache");
    assert_eq!(warm.stdout, "all components are compiled\n");
    assert_eq!(warm.code, 0, "{}", warm.stderr);
    // Eight components are built in.
    assert_eq!(compiled(&program), 9);
    let arguments = ["skill_name=calculator", "path=SKILL.md"];
    let call = ["call", "count_lines", arguments[0], arguments[1]];
    let call = run(&program, &call, "cache");
    assert!(call.stdout.starts_with("5 lines"), "{call:?}");
    assert_eq!(compiled(&program), 9);
}

#[test]
fn reports_unloadable_component_and_missing_cache() {
    let program = program();
    program.write("skillhost.toml", "tools = [\"tools\"]\n");
    program.write("tools/n.wasm", "not a component");
    let warm = run(&program, &["warm"], "cache");
    assert_eq!((warm.code, warm.stdout.as_str()), (1, ""));
    let message = "cannot load the tool component `tools/n.wasm`";
    assert!(warm.stderr.contains(message), "{}", warm.stderr);
    // The built-in components are compiled.
    assert_eq!(compiled(&program), 8);
    let warm = run(&program, &["warm"], "off");
    assert_eq!((warm.code, warm.stdout.as_str()), (4, ""));
    let message = "cannot store compiled components: there is no cache folder";
    assert!(warm.stderr.contains(message), "{}", warm.stderr);
}
