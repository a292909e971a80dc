//! `skillhost serve`, by the lines that go in and out.

// Tools and prompts: lists, calls, answers and failures.
mod answers;
// Lines that are no messages, and requests that are no good.
mod bad_input;
// Calls beside each other: cancelled, reported, many at once.
mod calls;
// Skills and components that come, change and go.
mod changes;
// How the server ends.
mod endings;

use crate::support::mcp::Client;
use crate::support::program::Program;

/// The options for the test guests, of which these component files are granted every skill.
fn guests(granted: &[&str]) -> Vec<String> {
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

/// A folder with one skill, and what the server is told in `skillhost.toml`.
fn folder(config: &str) -> Program {
    let program = Program::new();
    program.write(
        "skills/a/SKILL.md",
        "---\nname: a\ndescription: The first.\n---\nSteps.\n",
    );
    program.write("skillhost.toml", config);
    program
}

/// A server in such a folder, with the test guests, which are loaded.
fn with_guests(program: &Program, granted: &[&str], revision: &'static str) -> Client {
    let options = guests(granted);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut client = Client::start(program.folder.path(), &options, revision);
    client.request("tools/list", serde_json::json!({}));
    client
}

/// Bytes with a text in them replaced by one of the same length: a component
/// whose tools have other names, say.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut bytes = bytes.to_vec();
    let mut found = 0;
    for start in 0..=bytes.len() - old.len() {
        if bytes[start..].starts_with(old) {
            bytes[start..start + old.len()].copy_from_slice(new);
            found += 1;
        }
    }
    assert!(found > 0);
    bytes
}
