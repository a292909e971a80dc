//! With `network = "ask"`, a person decides about the requests of a component. Only public
//! addresses are allowed, and a test has no server at one. So the requests that these tests allow
//! go to names that do not exist, and fail.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost_skills::text::digest::sha256_hex;

use crate::support::guests;
use crate::support::mcp::{Client, NEWEST};
use crate::support::program::Program;
use crate::support::web_server::{WebServer, answer};

/// The choices of a form.
const SESSION: &str = "allow for this session";
const ALWAYS: &str = "always allow";
const DENY: &str = "deny";

/// The error that a guest gets for a denied request.
const DENIED: &str = "ErrorCode::HttpRequestDenied";

/// A protocol revision in which a server can ask a person.
const REVISION: &str = "2025-11-25";

/// Returns a program that asks a person about its guest's requests, with `more` in its
/// configuration.
fn program(more: &str) -> Program {
    let program = Program::new();
    program.write("tools/requests.wasm", component());
    program.write("skills/a/SKILL.md", "# A\n");
    let config = format!(
        "skills = [\"skills\"]\ntools = [\"tools\"]\naudit_file = \"log.jsonl\"\n\
         [grants.\"requests.wasm\"]\nnetwork = \"ask\"\n{more}\n"
    );
    program.write("skillhost.toml", config);
    program
}

fn component() -> Vec<u8> {
    fs::read(guests().join("requests.wasm")).unwrap()
}

/// Starts a client that can ask a person.
fn start(program: &Program) -> Client {
    start_with(program, REVISION, json!({"elicitation": {}}))
}

fn start_with(program: &Program, revision: &'static str, capabilities: Value) -> Client {
    let mut client = Client::start_with(program.folder.path(), &[], revision, capabilities);
    client.wait_for_components();
    client
}

/// Returns a GET request to an origin.
fn get(origin: &str) -> Value {
    let (scheme, host) = origin.split_once("://").unwrap();
    json!({"scheme": scheme, "host": host, "path": "/v1?q=1"})
}

/// Begins a call that sends these requests.
fn send(client: &mut Client, requests: &[Value]) -> u64 {
    let arguments = json!({"requests": json!(requests).to_string()});
    let params = json!({"name": "send_requests", "arguments": arguments});
    client.send("tools/call", params)
}

/// Waits for a call's answer, and returns the error of each request, or `none`.
fn errors(client: &mut Client, call: u64) -> Vec<String> {
    let answer = client.answer(call);
    let text = answer["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{answer}"));
    let results: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{answer}"));
    let results = results["results"].as_array().unwrap().iter();
    let error = |result: &Value| result["error"].as_str().unwrap_or("none").to_owned();
    results.map(error).collect()
}

/// Waits for a question, answers it with this result, and returns the question.
fn answer_with(client: &mut Client, result: Value) -> Value {
    let question = client.message_with_method("elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    client.send_line(answer.to_string());
    question
}

/// Waits for a question, answers it with this choice, and returns the question.
fn choose(client: &mut Client, choice: &str) -> Value {
    let content = json!({"decision": choice});
    answer_with(client, json!({"action": "accept", "content": content}))
}

/// Returns the requests in the last record of the audit log.
fn recorded(program: &Program) -> Vec<Value> {
    let log = fs::read_to_string(program.folder.path().join("log.jsonl")).unwrap();
    let record: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    record["requests"].as_array().unwrap().clone()
}

#[test]
fn person_allows_an_origin_for_the_session() {
    let program = program("");
    let mut client = start(&program);
    let origin = "https://api.consent.invalid:8443";
    let call = send(&mut client, &[get(origin), get(origin)]);
    let question = choose(&mut client, SESSION);
    let found = errors(&mut client, call);
    // The host allowed the requests. They failed because the name has no address.
    assert!(!found.contains(&DENIED.to_owned()), "{found:?}");
    let text = question["params"]["message"].as_str().unwrap();
    for part in [
        "Origin: `https://api.consent.invalid:8443`\n",
        "First request: `GET`\n",
        "Tool: `send_requests`\n",
        "Component: `requests.wasm`\n",
        &format!("SHA-256: `{}`", sha256_hex(&component())),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let schema = &question["params"]["requestedSchema"];
    let choices = &schema["properties"]["decision"]["enum"];
    assert_eq!(*choices, json!([SESSION, DENY]), "{schema}");
    for request in recorded(&program) {
        assert_eq!(request["rule"], "consent for the session", "{request}");
        assert_eq!(request.get("missing_rule"), None);
        let failure = request["failure"].as_str().unwrap();
        assert!(["name", "timeout"].contains(&failure), "{request}");
    }
    // Later requests to this origin in the session need no question. A request to another origin
    // needs one.
    let call = send(
        &mut client,
        &[get(origin), get("https://b.consent.invalid")],
    );
    let question = choose(&mut client, DENY);
    assert!(question.to_string().contains("`https://b.consent.invalid`"));
    let found = errors(&mut client, call);
    assert!(found[0] != DENIED && found[1] == DENIED, "{found:?}");
    assert_eq!(client.unclaimed_count("elicitation/create"), 0);
    client.end();
    // In another session, the person is asked again.
    let mut client = start(&program);
    let call = send(&mut client, &[get(origin)]);
    choose(&mut client, DENY);
    assert_eq!(errors(&mut client, call), [DENIED]);
}

#[test]
fn denies_unless_person_clearly_allows() {
    let program = program("[network]\nconsent_questions = 6");
    let mut client = start(&program);
    let yes = json!({"decision": SESSION});
    for (number, result) in [
        json!({"action": "decline"}),
        json!({"action": "cancel", "content": yes}),
        json!({"action": "accept"}),
        // This choice is offered only with a consent file.
        json!({"action": "accept", "content": {"decision": ALWAYS}}),
        json!({"content": yes}),
    ]
    .into_iter()
    .enumerate()
    {
        let origin = format!("https://{number}.consent.invalid");
        // The host remembers the denial and does not ask again.
        let call = send(&mut client, &[get(&origin), get(&origin)]);
        answer_with(&mut client, result.clone());
        assert_eq!(errors(&mut client, call), [DENIED, DENIED], "{result}");
        let call = send(&mut client, &[get(&origin)]);
        assert_eq!(errors(&mut client, call), [DENIED], "{result}");
    }
    let call = send(&mut client, &[get("https://e.consent.invalid")]);
    let question = client.message_with_method("elicitation/create");
    let error = json!({"code": -32000, "message": "no"});
    client.send_line(json!({"jsonrpc": "2.0", "id": question["id"], "error": error}).to_string());
    assert_eq!(errors(&mut client, call), [DENIED]);
    // The session has used all its questions.
    let call = send(&mut client, &[get("https://new.consent.invalid")]);
    assert_eq!(errors(&mut client, call), [DENIED]);
    client.wait_until_logged("the session has asked all 6 questions");
    client.wait_until_logged(
        "to allow the request, write `network = [\"GET https://new.consent.invalid/*\"]`",
    );
    let requests = recorded(&program);
    assert_eq!(requests[0]["failure"], "denied");
    assert_eq!(requests[0]["rule"], Value::Null);
    assert_eq!(
        requests[0]["missing_rule"],
        "GET https://new.consent.invalid/*"
    );
    assert_eq!(client.unclaimed_count("elicitation/create"), 0);
}

#[test]
fn person_may_take_longer_than_time_limit() {
    let program = program("limits = { time = \"1s\" }");
    let mut client = start(&program);
    let start = Instant::now();
    let call = send(&mut client, &[get("http://none.consent.invalid")]);
    assert_eq!(errors(&mut client, call), [DENIED]);
    let call = send(&mut client, &[get("https://api.consent.invalid")]);
    let question = client.message_with_method("elicitation/create");
    std::thread::sleep(Duration::from_millis(2_500));
    let content = json!({"decision": DENY});
    let result = json!({"action": "accept", "content": content});
    client.send_line(json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string());
    assert_eq!(errors(&mut client, call), [DENIED]);
    assert!(start.elapsed() >= Duration::from_millis(2_500));
}

#[test]
fn withdraws_question_after_timeout_or_cancellation() {
    let program = program("[network]\nconsent_time = \"300ms\"");
    let mut client = start(&program);
    let origin = "https://late.consent.invalid";
    let call = send(&mut client, &[get(origin)]);
    let question = client.message_with_method("elicitation/create");
    // The client learns that the question is withdrawn.
    let withdrawn = client.message_with_method("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert_eq!(errors(&mut client, call), [DENIED]);
    client.wait_until_logged("nobody answered the question in 300ms");
    let content = json!({"decision": SESSION});
    let result = json!({"action": "accept", "content": content});
    client.send_line(json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string());
    let call = send(&mut client, &[get(origin)]);
    assert_eq!(errors(&mut client, call), [DENIED]);
    client.end();
    // A cancelled call withdraws its question. If the client closes the server's stdin, requests
    // with an unanswered question are denied.
    let program = self::program("");
    let mut client = start(&program);
    let call = send(&mut client, &[get(origin)]);
    let question = client.message_with_method("elicitation/create");
    client.notify("notifications/cancelled", json!({"requestId": call}));
    let withdrawn = client.message_with_method("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    let call = send(&mut client, &[get(origin)]);
    client.message_with_method("elicitation/create");
    let (messages, code) = client.end();
    let answered = messages.iter().find(|message| message["id"] == call);
    let answered = answered.unwrap_or_else(|| panic!("{messages:?}"));
    assert!(answered.to_string().contains(DENIED), "{answered}");
    assert_eq!(code, Some(0));
}

#[test]
fn asks_nothing_about_requests_that_egress_denies() {
    let server = WebServer::start(|_| answer("200 OK", "hello"));
    let program = program("");
    let mut client = start(&program);
    let plain = format!("http://{}", server.authority);
    let requests = [
        get(&plain),
        get("http://a.consent.invalid"),
        get("https://127.0.0.1"),
        get("https://[::ffff:10.0.0.1]"),
        get("https://169.254.169.254"),
        get("https://u@a.consent.invalid"),
        get("https://0x7f.1"),
        get("https://localhost:1"),
        get("https://a.localhost"),
    ];
    let call = send(&mut client, &requests);
    assert_eq!(errors(&mut client, call), [DENIED; 9]);
    assert_eq!(client.unclaimed_count("elicitation/create"), 0);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn logs_missing_grant_if_client_cannot_ask() {
    let program = program("");
    let advice = "to allow the request, write `network = [\"GET https://a.consent.invalid/*\"]`";
    for (revision, capabilities, why) in [
        (REVISION, json!({}), "does not offer elicitation by forms"),
        (
            REVISION,
            json!({"elicitation": {"url": {}}}),
            "does not offer elicitation by forms",
        ),
        (
            NEWEST,
            json!({"elicitation": {}}),
            "protocol revision does not let a server ask",
        ),
    ] {
        let mut client = start_with(&program, revision, capabilities);
        let call = send(&mut client, &[get("https://a.consent.invalid")]);
        assert_eq!(errors(&mut client, call), [DENIED], "{revision}");
        client.wait_until_logged(advice);
        assert!(client.stderr().contains(why), "{}", client.stderr());
        assert_eq!(client.unclaimed_count("elicitation/create"), 0);
    }
    let requests = json!([get("https://a.consent.invalid")]);
    let argument = format!("requests={requests}");
    let run = program.run(&[
        "--config",
        "skillhost.toml",
        "call",
        "send_requests",
        &argument,
    ]);
    assert!(run.stdout.contains(DENIED), "{run:?}");
    assert!(
        run.stderr.contains("this caller cannot ask a person"),
        "{run:?}"
    );
    assert!(run.stderr.contains(advice), "{run:?}");
}

#[test]
fn stores_always_allowed_origins_in_consent_file() {
    let program = program("[network]\nconsent_file = \"consent.txt\"");
    let file = || fs::read_to_string(program.folder.path().join("consent.txt"));
    let mut client = start(&program);
    let origin = "https://always.consent.invalid";
    let call = send(&mut client, &[get(origin)]);
    let question = choose(&mut client, ALWAYS);
    let choices = &question["params"]["requestedSchema"]["properties"]["decision"]["enum"];
    assert_eq!(*choices, json!([SESSION, ALWAYS, DENY]));
    let found = errors(&mut client, call);
    assert!(!found.contains(&DENIED.to_owned()), "{found:?}");
    let line = format!("{} {origin} # requests.wasm\n", sha256_hex(&component()));
    assert_eq!(file().unwrap(), line);
    client.end();
    // A later session needs no question, so its client need not be able to ask.
    let mut client = start_with(&program, REVISION, json!({}));
    let call = send(&mut client, &[get(origin)]);
    let found = errors(&mut client, call);
    assert!(!found.contains(&DENIED.to_owned()), "{found:?}");
    let rule = &recorded(&program)[0]["rule"];
    assert_eq!(rule, "consent in line 1 of the consent file");
    // A removed line no longer allows requests.
    program.write("consent.txt", "");
    let call = send(&mut client, &[get(origin)]);
    assert_eq!(errors(&mut client, call), [DENIED]);
    client.end();
    // An invalid consent file prevents the start.
    program.write("consent.txt", "always\n");
    let run = program.run(&["--config", "skillhost.toml", "call", "list_skills"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(
        run.stderr
            .contains("`, line 1: a line has the SHA-256 digest"),
        "{run:?}"
    );
}

#[test]
fn question_normalises_hostile_origin() {
    let program = program("");
    let mut client = start(&program);
    let mut request = get("https://XN--GOGLE-0ND.consent.invalid.");
    request["method"] = "G`*".into();
    let call = send(&mut client, &[request]);
    let question = choose(&mut client, DENY);
    let text = question["params"]["message"].as_str().unwrap();
    for part in [
        "Origin: `https://xn--gogle-0nd.consent.invalid`\n",
        "(punycode)",
        "First request: `G'*`\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(errors(&mut client, call), [DENIED]);
}

#[test]
fn refuses_wrong_settings_for_network_ask() {
    let secret = "secrets.T = { file = \"t\", header = \"x\", hosts = [\"e.org\"] }";
    for (more, expected) in [
        (
            "network_private = [\"10.0.0.1\"]",
            "remove `network_private`",
        ),
        (secret, "remove `secrets`"),
        ("[network]\nconsent_questions = 0", "`consent_questions`"),
    ] {
        let program = program(more);
        let run = program.run(&["--config", "skillhost.toml", "call", "list_skills"]);
        assert_eq!(run.code, 4, "{run:?}");
        assert!(run.stderr.contains(expected), "{run:?}");
    }
    let program = program("");
    let config = fs::read_to_string(program.folder.path().join("skillhost.toml")).unwrap();
    program.write("wrong.toml", config.replace("\"ask\"", "\"yes\""));
    let run = program.run(&["--config", "wrong.toml", "call", "list_skills"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("or \"ask\""), "{run:?}");
    // Only a configuration that the command line names can set `network`.
    let run = program.run(&["call", "list_skills"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(
        run.stderr.contains("was found and was not named"),
        "{run:?}"
    );
}

#[test]
fn grants_and_explain_show_that_person_is_asked() {
    let program = program("[network]\nconsent_file = \"consent.txt\"");
    let run = |arguments: &[&str]| {
        let config = ["--config", "skillhost.toml"];
        program.run(&[&config, arguments].concat())
    };
    let shown = run(&["grants", "send_requests"]);
    let line = "network  ask; a person decides at the first request to an origin\n";
    assert!(shown.stdout.contains(line), "{shown:?}");
    let shown = run(&["grants", "send_requests", "--output", "json"]);
    let grants: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(grants[0]["network_asks"], true, "{grants}");
    let explain = |url| run(&["grants", "explain", "send_requests", url]);
    let line = format!("{} https://b.org\n", sha256_hex(&component()));
    program.write("consent.txt", line);
    for (url, code, expected) in [
        (
            "https://a.org/v1",
            1,
            "asks: GET https://a.org/v1\n  a person decides in each session, at the first request \
             to this origin\n  only if every address of `a.org` is public; this command does not \
             look up addresses\n",
        ),
        (
            "https://b.org/v1",
            0,
            "allowed: GET https://b.org/v1\n  by line 1 of the consent file\n  only if every \
             address of `b.org` is public; this command does not look up addresses\n",
        ),
        (
            "http://a.org/",
            1,
            "denied: GET http://a.org/\n  `network = \"ask\"` is only for `https`\n",
        ),
    ] {
        let run = explain(url);
        assert_eq!((run.code, &*run.stdout), (code, expected), "{url}: {run:?}");
    }
    let run = run(&[
        "grants",
        "explain",
        "send_requests",
        "https://a.org/",
        "--output",
        "json",
    ]);
    let verdict: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        (&verdict["allowed"], &verdict["asks"]),
        (&json!(false), &json!(true))
    );
}
