//! Answers to clients before all components are compiled, with an empty cache.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use skillhost::{Grant, Host, HostBuilder};

use super::folder;
use crate::support::mcp::server;
use crate::support::process::Process;
use crate::support::program::Program;
use crate::support::session::Session;
use crate::support::{guests, watchdog};

fn names(session: &mut Session) -> Vec<String> {
    let listed = session.ask("tools/list", json!({})).unwrap();
    let tools = listed["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A folder with a component that no host can compile before [`ColdStart::allow_compilation`].
struct ColdStart(Program);

impl ColdStart {
    fn new() -> Self {
        let program = folder("");
        let this = Self(program);
        let compiler = format!(
            "while ! [ -e {} ]; do /bin/sleep 0.02; done; exec {} \"$@\"",
            this.path("allowed").display(),
            env!("CARGO_BIN_EXE_skillhost")
        );
        this.0.script("compiler", &compiler);
        fs::create_dir(this.path("tools")).unwrap();
        fs::copy(guests().join("count_lines.wasm"), this.path("tools/n.wasm")).unwrap();
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.folder.path().join(name)
    }

    fn builder(&self) -> HostBuilder {
        Host::builder()
            .skills(self.path("skills"))
            .tools(self.path("tools"))
            .grant("n.wasm", Grant::new().skills(["*"]).unwrap())
            .cache(self.path("cache"))
            .compiler(self.path("compiler"))
    }

    fn allow_compilation(&self) {
        fs::write(self.path("allowed"), "").unwrap();
    }
}

#[test]
fn serves_compiled_tools_while_others_compile() {
    let cold = ColdStart::new();
    let mut session = Session::open_while_loading(cold.builder());
    let built_in = names(&mut session);
    assert!(built_in.contains(&"read_skill".to_owned()), "{built_in:?}");
    assert!(!built_in.contains(&"count_lines".to_owned()));
    let listen = json!({"notifications": {"toolsListChanged": true}});
    session.begin("subscriptions/listen", listen);
    let arguments = json!({"skill_name": "a"});
    let read = json!({"name": "read_skill", "arguments": arguments});
    assert_eq!(session.ask("tools/call", read).unwrap()["isError"], false);
    // Calls of unknown tools wait until all components are loaded.
    let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
    let count = json!({"name": "count_lines", "arguments": arguments});
    let (count, none) = (
        session.begin("tools/call", count),
        session.begin("tools/call", json!({"name": "none", "arguments": {}})),
    );
    cold.allow_compilation();
    let (mut counted, mut unknown, mut changed) = (Value::Null, Value::Null, false);
    while counted.is_null() || unknown.is_null() || !changed {
        let message = session.next();
        changed |= message["method"] == "notifications/tools/list_changed";
        if message["id"] == count {
            counted = message;
        } else if message["id"] == none {
            unknown = message;
        }
    }
    assert_eq!(counted["result"]["isError"], false, "{counted}");
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(names(&mut session).contains(&"count_lines".to_owned()));
}

#[test]
fn lists_nothing_before_required_components() {
    let cold = ColdStart::new();
    let mut session = Session::open_while_loading(cold.builder().require_components(true));
    let listing = session.begin("tools/list", json!({}));
    // A request that needs no tool is answered.
    session.ask("server/discover", json!({})).unwrap();
    cold.allow_compilation();
    let listed = loop {
        let message = session.next();
        if message["id"] == listing {
            break message.to_string();
        }
    };
    assert!(listed.contains("count_lines"), "{listed}");
}

#[test]
fn finishes_compiling_after_client_left() {
    let program = folder("tools = [\"tools\"]\ngrants.\"n.wasm\".skills = [\"*\"]\n");
    let path = |name: &str| program.folder.path().join(name);
    fs::create_dir(path("tools")).unwrap();
    let component = fs::read(guests().join("count_lines.wasm")).unwrap();
    fs::write(path("tools/n.wasm"), component).unwrap();
    let mut command = server(program.folder.path());
    command.env("SKILLHOST_CACHE", path("cache"));
    let mut server = Process::start(command.stderr(Stdio::null()));
    let mut input = server.stdin.take().unwrap();
    let hello = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
    writeln!(input, "{hello}").unwrap();
    drop(input);
    assert_eq!(server.wait().code(), Some(0));
    // The component's definitions are written last, after its code.
    watchdog::wait_until("the component is not in the cache", || {
        let entries = fs::read_dir(path("cache/confined")).unwrap();
        let mut names = entries.map(|entry| entry.unwrap().file_name());
        names.any(|name| name.to_string_lossy().ends_with(".tools"))
    });
}
