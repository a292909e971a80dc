//! Lines that are not messages, and invalid requests.

use std::thread;

use serde_json::{Value, json};

use super::folder;
use crate::support::http::large_subscriptions;
use crate::support::mcp::{Client, NEWEST, REVISIONS};
use crate::support::odd_json;

/// A line, and the id and error code of its answer, if it gets one.
type Case = (String, Option<(Value, i64)>);

fn malformed_lines() -> Vec<Case> {
    let case = |line: &str, id: Value, code: i64| (line.to_owned(), Some((id, code)));
    let silent = |line: &str| (line.to_owned(), None);
    let null = Value::Null;
    vec![
        silent(""),
        silent("  \r"),
        case("{", null.clone(), -32700),
        case("nonsense", null.clone(), -32700),
        case("\u{1b}[2J\u{0}", null.clone(), -32700),
        case("{\"jsonrpc\":\"2.0\",\"id\":1", null.clone(), -32700),
        case(&"[".repeat(10_000), null.clone(), -32700),
        case("7", null.clone(), -32600),
        case("[]", null.clone(), -32600),
        case("{}", null.clone(), -32600),
        case(
            r#"[{"jsonrpc":"2.0","id":"batch","method":"ping"}]"#,
            null.clone(),
            -32600,
        ),
        case(
            r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#,
            json!("x"),
            -32600,
        ),
        case(r#"{"id":"x","method":"ping"}"#, json!("x"), -32600),
        case(
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            null.clone(),
            -32600,
        ),
        case(
            r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#,
            null.clone(),
            -32600,
        ),
        case(
            r#"{"jsonrpc":"2.0","id":"x","method":7}"#,
            json!("x"),
            -32600,
        ),
        // Ids and progress tokens have at most 1 KiB. An error never repeats a longer id.
        case(
            &format!(
                r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#,
                "x".repeat(1023)
            ),
            null.clone(),
            -32600,
        ),
        case(
            &format!(
                r#"{{"jsonrpc":"2.0","id":"y","method":"ping","params":{{"_meta":{{"progressToken":"{}"}}}}}}"#,
                "x".repeat(1023)
            ),
            json!("y"),
            -32600,
        ),
        case(&"x".repeat(5 << 20), null.clone(), -32600),
        case(
            &format!(
                r#"{{"jsonrpc":"2.0","id":"x","method":"ping","a":"{}"}}"#,
                "x".repeat(5 << 20)
            ),
            null,
            -32600,
        ),
        // Unexpected responses and unknown notifications.
        silent(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#),
        silent(r#"{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}"#),
        silent(r#"{"jsonrpc":"2.0","method":"unheard/of"}"#),
        silent(r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":7}"#),
        silent(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#),
        silent(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#),
        silent(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#),
        silent(
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        ),
    ]
}

/// Sends lines. Checks the answer to each, and that the next request is answered.
fn check(client: &mut Client, cases: Vec<Case>) {
    for (line, expected) in cases {
        let shown: String = line.chars().take(100).collect();
        client.send_line(&line);
        if let Some((id, code)) = expected {
            let answer = client.message();
            assert_eq!(answer["id"], id, "{shown}: {answer}");
            assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        }
        let id = client.send("tools/list", json!({}));
        // An answer to the line would come first.
        let next = client.message();
        assert_eq!(next["id"], id, "{shown}: {next}");
        assert!(next["result"]["tools"].is_array(), "{shown}: {next}");
    }
}

#[test]
fn malformed_line_does_not_affect_next_request() {
    let program = folder("");
    for revision in REVISIONS {
        let mut client = Client::start(program.folder.path(), &[], revision);
        check(&mut client, malformed_lines());
        client.wait_until_logged("skipped a line that is not a message: invalid JSON");
        client
            .wait_until_logged("skipped a line that is not a message: a message may have at most");
        assert_eq!(client.end().1, Some(0));
    }
}

#[test]
fn headers_of_other_protocols_get_one_error() {
    let program = folder("");
    for revision in REVISIONS {
        let mut client = Client::start(program.folder.path(), &[], revision);
        let framed = |id: &Value| {
            let message = client.request_line(id, "tools/list", json!({}));
            format!(
                "Content-Length: {}\r\nContent-Type: x\r\n\r\n{message}",
                message.len()
            )
        };
        // As language servers send it: without a line feed after a message.
        let framed: String = [json!("a"), json!("b"), json!("c")]
            .iter()
            .map(framed)
            .collect();
        client.send_line(framed);
        let first = client.message();
        assert_eq!(first["id"], Value::Null);
        for id in ["a", "b"] {
            let refused = client.message();
            assert_eq!(refused["id"], id, "{refused}");
            assert_eq!(refused["error"], first["error"]);
        }
        let message = first["error"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("send one JSON message per line"),
            "{first}"
        );
        assert_eq!(first["error"]["code"], -32700);
        // `line` adds a line feed, which ends the last message. The server answers that message.
        let last = client.message();
        assert_eq!(last["id"], "c");
        assert!(last["result"]["tools"].is_array(), "{last}");
        client.send_line("Content-Length: 7");
        let id = client.send("tools/list", json!({}));
        assert_eq!(client.message()["id"], id);
        assert_eq!(client.end(), (vec![], Some(0)));
    }
}

#[test]
fn answers_every_odd_json_text() {
    let program = folder("");
    for revision in REVISIONS {
        let mut client = Client::start(program.folder.path(), &[], revision);
        for odd in odd_json::requests() {
            client.send_line(&odd.text);
            odd.check(&client.message());
        }
        assert!(client.request("tools/list", json!({}))["result"]["tools"].is_array());
        assert_eq!(client.end().1, Some(0));
    }
}

#[test]
fn refuses_oversized_subscriptions() {
    let program = folder("");
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    for params in large_subscriptions() {
        let answer = client.request("subscriptions/listen", params);
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("subscriptions/listen"), "{answer}");
    }
    // The refused requests do not count as subscriptions.
    for _ in 0..16 {
        let params = json!({"notifications": {"resourceSubscriptions": ["skill://a/SKILL.md"]}});
        client.send("subscriptions/listen", params);
        let accepted = client.message_with_method("notifications/subscriptions/acknowledged");
        assert_eq!(accepted["params"]["notifications"], json!({}), "{accepted}");
    }
}

#[test]
fn server_survives_bad_lines_before_session() {
    let program = folder("");
    let mut client = Client::start_unopened(program.folder.path(), &[], "2025-11-25");
    for (line, expected) in malformed_lines() {
        client.send_line(&line);
        if let Some((id, code)) = expected {
            let answer = client.message();
            assert_eq!(
                (&answer["id"], &answer["error"]["code"]),
                (&id, &json!(code))
            );
        }
    }
    // A request that needs a session.
    let early = client.request("tools/list", json!({}));
    assert_eq!(early["error"]["code"], -32602);
    let initialize = json!({"protocolVersion": 7});
    assert_eq!(
        client.request("initialize", initialize)["error"]["code"],
        -32602
    );
    assert!(client.request("ping", json!({}))["result"].is_object());
    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    assert!(client.request("initialize", initialize)["result"].is_object());
    assert!(client.request("tools/list", json!({}))["result"].is_object());
}

#[test]
fn bad_request_is_protocol_error_with_reason() {
    let program = folder("");
    let cases = [
        (
            "tools/call",
            json!({"name": "none"}),
            -32602,
            "unknown tool: 'none'",
        ),
        (
            "tools/call",
            json!({"name": "read_file_in_skil", "arguments": {}}),
            -32602,
            "did you mean 'read_file_in_skill'",
        ),
        ("tools/call", json!({}), -32602, "parameters"),
        ("tools/call", json!({"name": 7}), -32602, "parameters"),
        (
            "tools/call",
            json!({"name": "list_skills", "arguments": [1]}),
            -32602,
            "parameters",
        ),
        ("tools/list", json!({"cursor": "x"}), -32602, "cursor"),
        ("tools/list", json!({"cursor": ""}), -32602, "cursor"),
        ("prompts/list", json!({"cursor": "x"}), -32602, "cursor"),
        ("prompts/get", json!({"name": "none"}), -32602, "prompt"),
        ("prompts/get", json!({}), -32602, "parameters"),
        ("unheard/of", json!({}), -32601, "unheard/of"),
        ("tasks/get", json!({"taskId": "x"}), -32601, ""),
        ("logging/setLevel", json!({"level": "debug"}), -32601, ""),
        ("", json!({}), -32601, "``"),
    ];
    for revision in REVISIONS {
        let mut client = Client::start(program.folder.path(), &[], revision);
        for (method, params, code, says) in &cases {
            let answer = client.request(method, params.clone());
            let message = answer["error"]["message"].as_str();
            let message = message.unwrap_or_else(|| panic!("{method} {params}: {answer}"));
            assert_eq!(
                answer["error"]["code"], *code,
                "{method} {params}: {answer}"
            );
            assert!(message.contains(says), "{method} {params}: {answer}");
            assert!(message.len() < 300);
        }
    }
}

#[test]
fn answers_unknown_revision_with_known_ones() {
    let program = folder("");
    let mut client = Client::start_unopened(program.folder.path(), &[], "none");
    let meta = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2031-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let refused = client.request("tools/list", meta.clone());
    assert_eq!(refused["error"]["code"], -32022);
    let supported = refused["error"]["data"]["supported"].as_array().unwrap();
    assert!(supported.contains(&NEWEST.into()));
    let initialize = json!({
        "protocolVersion": "2031-01-01",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let initialized = client.request("initialize", initialize);
    assert_eq!(initialized["result"]["protocolVersion"], "2025-11-25");
    let refused = client.request("tools/list", meta);
    assert_eq!(refused["error"]["code"], -32022);
}

#[test]
fn refuses_id_of_request_in_flight() {
    let program = folder("[limits]\ntime = \"700ms\"\n");
    let refuses = |revision| {
        let mut client = super::with_guests(&program, &["unchecked.wasm"], revision);
        let params = json!({"name": "raw_sleep", "arguments": {"skill_name": "a", "path": ""}});
        let sleeping = client.request_line(&json!("twice"), "tools/call", params.clone());
        client.send_line(&sleeping);
        client.send_line(&sleeping);
        let refused = client.message();
        assert_eq!(
            (&refused["id"], &refused["error"]["code"]),
            (&Value::Null, &json!(-32600))
        );
        // The error for an invalid line with that id has no id either.
        client.send_line(r#"{"jsonrpc":"2.0","id":"twice","method":1}"#);
        assert_eq!(client.message()["id"], Value::Null);
        // The first request is answered once; then the id is free.
        let answered = client.message();
        assert_eq!(
            (&answered["id"], &answered["result"]["isError"]),
            (&json!("twice"), &json!(true))
        );
        let list = client.request_line(&json!("twice"), "tools/list", json!({}));
        client.send_line(list);
        assert!(client.message()["result"]["tools"].is_array());
        client.wait_until_logged("refused a request with the id of a request in flight");
    };
    thread::scope(|scope| {
        for revision in REVISIONS {
            scope.spawn(move || refuses(revision));
        }
    });
}

#[test]
fn accepts_id_of_cancelled_request() {
    let program = folder("");
    let mut client = Client::start(program.folder.path(), &[], REVISIONS[0]);
    client.request("tools/list", json!({}));
    for round in 0..100 {
        let id = json!(format!("again {round}"));
        let cancelled = json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": id},
        });
        // All three lines in one write, so that the first request is cancelled while it runs.
        client.send_line(format!(
            "{}\n{cancelled}\n{}",
            client.request_line(&id, "tools/list", json!({})),
            client.request_line(&id, "prompts/list", json!({})),
        ));
        let mut answer = client.message();
        if answer["result"]["tools"].is_array() {
            // The server answered the first request before the cancellation arrived.
            answer = client.message();
        }
        assert_eq!(answer["id"], id);
        assert!(answer["result"]["prompts"].is_array(), "{answer}");
    }
    assert_eq!(client.end(), (vec![], Some(0)));
}

#[test]
fn logs_errors_of_clients_at_level_info() {
    for (options, is_logged) in [(&[][..], false), (&["--log", "info"], true)] {
        let program = folder("");
        let mut client = Client::start(program.folder.path(), options, NEWEST);
        let answer = client.request("tools/call", json!({"name": "none"}));
        assert!(answer["error"].is_object(), "{answer}");
        if is_logged {
            client.wait_until_logged("response error");
        }
        client.request("tools/list", json!({}));
        assert_eq!(
            client.stderr().contains("response error"),
            is_logged,
            "{options:?}"
        );
    }
}
