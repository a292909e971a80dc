//! `skillhost serve` over stdio, tested by the lines that it reads and writes.

mod answers;
mod bad_input;
mod calls;
mod changes;
mod cold;
mod large_answers;
mod shutdown;

use std::io::Write;

use serde_json::{Value, json};

use crate::support::mcp::{Client, REVISIONS};
use crate::support::program::Program;

/// Returns the options for the test guests. Grants every skill to these component files.
fn guest_options(granted: &[&str]) -> Vec<String> {
    let mut options = vec![
        "--tools".to_owned(),
        crate::support::guests().display().to_string(),
    ];
    for component in granted {
        options.push("--grant".to_owned());
        options.push(format!("{component}=*"));
    }
    options
}

/// Returns a folder with one skill and a `skillhost.toml`.
fn folder(config: &str) -> Program {
    let program = Program::new();
    program.write(
        "skills/a/SKILL.md",
        "---\nname: a\ndescription: The first.\n---\nSteps.\n",
    );
    program.write("skillhost.toml", config);
    program
}

/// Starts a server in a folder, and waits until the test guests are loaded.
fn with_guests(program: &Program, granted: &[&str], revision: &'static str) -> Client {
    let options = guest_options(granted);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut client = Client::start(program.folder.path(), &options, revision);
    client.wait_for_components();
    client
}

/// Opens a session over a test's own pipes, and calls an unknown tool, which waits until all tools
/// are loaded. The requests have the ids 0 and 1.
fn open_session(input: &mut impl Write, mut answer: impl FnMut() -> Value) {
    let hello = json!({
        "protocolVersion": REVISIONS[0],
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let none = json!({"name": "none", "arguments": {}});
    for (id, method, params) in [(0, "initialize", hello), (1, "tools/call", none)] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{request}").unwrap();
        assert_eq!(answer()["id"], id);
    }
}

/// Replaces text in bytes by other text of the same length, such as the names of tools.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut bytes = bytes.to_vec();
    let mut count = 0;
    for start in 0..=bytes.len() - old.len() {
        if bytes[start..].starts_with(old) {
            bytes[start..start + old.len()].copy_from_slice(new);
            count += 1;
        }
    }
    assert!(count > 0);
    bytes
}
