//! The example `web_service`: a web service that uses the crate `skillhost`.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::http::{Answer, Client, Request};
use crate::support::process::Process;
use crate::support::program::{Program, command, example};

/// The running example. Dropping this kills it.
struct WebService {
    _child: Process,
    address: SocketAddr,
}

impl WebService {
    fn start(program: &Program) -> Self {
        let mut command = command(&example("web_service"));
        command
            .args(["skillhost.toml", "127.0.0.1:0"])
            .current_dir(program.folder.path());
        let mut child = Process::start(&mut command);
        let address = child.first_line();
        Self {
            address: address.strip_prefix("http://").unwrap().parse().unwrap(),
            _child: child,
        }
    }

    fn call(&self, tool: &str, body: &str) -> Answer {
        let request = Request {
            line: format!("POST /tools/{tool} HTTP/1.1"),
            ..Request::post(body)
        };
        Client::once(self.address, &request)
    }
}

#[test]
fn web_service_example_serves_tools_and_mcp() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("private/b/SKILL.md", "# B\n");
    program.write(
        "skillhost.toml",
        "skills = [\"skills\"]\ndisabled_tools = [\"get_skill\"]\n",
    );
    let service = WebService::start(&program);
    let read = |skill: &str| json!({"skill_name": skill}).to_string();
    let answer = service.call("read_skill", &read("a"));
    let record = json!({"skill_name": "a", "instructions": "# A\n"});
    assert_eq!((answer.status, answer.json()), (200, record));
    for (tool, body, status) in [
        ("read_skill", &*read("b"), 422),
        ("read_skill", "{\"skill\": \"a\"}", 400),
        ("read_skill", "{", 400),
        ("get_skill", &read("a"), 404),
        ("none", "{}", 404),
    ] {
        let answer = service.call(tool, body);
        assert_eq!(answer.status, status, "{tool} {body}: {answer:?}");
        assert!(!answer.body.contains("# B"), "{answer:?}");
    }
    let call = Request::call(1, "read_skill", json!({"skill_name": "a"}));
    assert_eq!(Client::once(service.address, &call).text(), "# A\n");
    let with_host = |host: &str| Client::once(service.address, &call.clone().with("Host", host));
    assert_eq!(with_host("evil.example").status, 403);
    let denied = Request::call(2, "get_skill", json!({"skill_name": "a"}));
    let denied = Client::once(service.address, &denied).json();
    assert_eq!(denied["error"]["code"], -32602);
    assert_eq!(denied["result"], Value::Null);
}
