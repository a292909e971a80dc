//! `/metrics`, and the page that lists the metrics.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use skillhost::{EgressSettings, Grant, NetworkGrant};
use skillhost_server::HttpOptions;

use super::program::ServerProcess;
use super::{serve, serve_guests};
use crate::support::http::{Client, Request, TestServer};
use crate::support::program::Program;
use crate::support::watchdog::wait_until;
use crate::support::{builder_with_guests, repository};

#[test]
fn metrics_have_no_names_from_peers() {
    let (server, _folders) = serve_guests(HttpOptions::default());
    let mut client = Client::connect(server.address);
    let read = |path: &str| json!({"skill_name": "a", "file_path": path});
    let calls = [
        ("read_file_in_skill", read("SKILL.md")),
        ("read_file_in_skill", read("SKILL.md")),
        ("read_file_in_skill", read("none")),
        ("made_up_1", json!({})),
        ("made\"up\n2", json!({})),
        ("raw_panic", json!({"skill_name": "a", "path": "p"})),
    ];
    for (id, (tool, arguments)) in (1..).zip(calls) {
        assert_eq!(client.ask(&Request::call(id, tool, arguments)).status, 200);
    }
    for id in 0..20 {
        assert_eq!(
            client.ask(&Request::get(&format!("/made-up-{id}"))).status,
            404
        );
    }
    let answer = client.ask(&Request::get("/metrics"));
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some(media_type))
    );
    let shown = answer.body;
    for line in [
        r#"skillhost_calls_total{tool="read_file_in_skill",outcome="output",reason=""} 2"#,
        r#"skillhost_calls_total{tool="read_file_in_skill",outcome="failed",reason="not-found"} 1"#,
        r#"skillhost_calls_total{tool="(none)",outcome="refused",reason="unknown-tool"} 2"#,
        r#"skillhost_calls_total{tool="raw_panic",outcome="stopped",reason="trap"} 1"#,
        r#"skillhost_call_duration_seconds_count{tool="read_file_in_skill"} 3"#,
        "skillhost_call_memory_bytes_count 4",
        "skillhost_calls_running 0",
        "skillhost_calls_waiting 0",
        "skillhost_sandbox_memory_bytes 0",
        r#"skillhost_http_requests_total{endpoint="mcp",status="200"} 6"#,
        r#"skillhost_http_requests_total{endpoint="other",status="404"} 20"#,
        "skillhost_http_connections 1",
        "# EOF",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(!shown.contains("made"), "{shown}");
}

#[test]
fn answers_are_counted_by_their_endpoint() {
    let server = serve(HttpOptions::default());
    let ask = |path: &str| Client::once(server.address, &Request::get(path));
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(ask(path).status, 200, "{path}");
        let name = &path[1..];
        let line = format!("skillhost_http_requests_total{{endpoint=\"{name}\",status=\"200\"}} 1");
        let shown = ask("/metrics").body;
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
}

#[test]
fn component_that_is_not_served_is_counted() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("tools/bad.wasm", "text");
    program.write("skillhost.toml", "tools = [\"tools\"]\n");
    let server = ServerProcess::new(&program, &["--config", "skillhost.toml"], None);
    wait_until("the server is not ready", || {
        Client::once(server.address, &Request::get("/readyz")).status == 200
    });
    let shown = Client::once(server.address, &Request::get("/metrics")).body;
    assert!(
        shown.contains("\nskillhost_components_refused 1\n"),
        "{shown}"
    );
}

#[test]
fn docs_list_every_metric() {
    let network = NetworkGrant::new().rule("https://localhost".parse().unwrap());
    let egress = EgressSettings::new();
    let egress = egress.component("requests.wasm", network.clone(), BTreeMap::new());
    let egress = egress.start(Path::new(env!("CARGO_BIN_EXE_skillhost")));
    let builder = builder_with_guests()
        .grant("requests.wasm", Grant::new().network(network))
        .egress(egress.unwrap().wait().unwrap());
    let server = TestServer::start(builder, HttpOptions::default());
    let mut client = Client::connect(server.address);
    let denied = json!([{"host": "localhost", "path": "/"}]).to_string();
    client.ask(&Request::call(
        1,
        "send_requests",
        json!({"requests": denied}),
    ));
    let served = client.ask(&Request::get("/metrics")).body;
    let page = page();
    let table = page.split("\n### Metrics\n").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let listed = table.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(listed.collect::<Vec<_>>(), rows(&served));
}

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/reference/mcp.md")).unwrap()
}

/// Returns the rows of the page's table for these metrics.
fn rows(served: &str) -> Vec<String> {
    let described = |what: &str, name: &str| {
        let start = format!("# {what} {name} ");
        let line = served.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("no {start}")).to_owned()
    };
    let names = served
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let row = |line: &str| {
        let (name, kind) = line.split_once(' ').unwrap();
        let mut samples = served.lines().filter(|line| line.starts_with(name));
        let labels = samples.find_map(|line| Some(line.split_once('{')?.1.rsplit_once('}')?.0));
        let labels: Vec<_> = labels
            .into_iter()
            .flat_map(|labels| labels.split(','))
            .map(|label| label.split_once('=').unwrap().0)
            .filter(|label| *label != "le")
            .map(|label| format!("`{label}`"))
            .collect();
        let help = described("HELP", name);
        let help = help.trim_end_matches('.');
        let total = if kind == "counter" { "_total" } else { "" };
        let labels = labels.join(", ");
        format!("| `{name}{total}` | {kind} | {labels} | {help} |").replace("|  |", "| |")
    };
    names.map(row).collect()
}
