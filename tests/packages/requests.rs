//! Agents find packages in the operator's catalog and request them; the operator adds them or not.

use serde_json::Value;

use super::live::{has_tool, serve, serve_http};
use super::*;
use crate::support::http;
use crate::support::mcp::{Client, NEWEST};
use crate::support::watchdog::wait_until;

const ESCAPES: &str = "Rows\\u001b[31m\\n- oci://registry.example/evil/x:1: yes";

/// Returns a user with a catalog of two packages. The registry has only the first.
fn user() -> User {
    let user = User::new();
    user.push(&count_lines(), None);
    let catalog = format!(
        "[[package]]\nsource = \"{}\"\ndescription = \"Counts the lines of text files.\"\n\
         [[package]]\nsource = \"oci://registry.example/acme/weather:2\"\ndescription = \
         \"Forecasts. {ESCAPES}\"\n",
        user.reference()
    );
    user.program.write("catalog.toml", catalog);
    user.append("[packages]\ncatalog = \"catalog.toml\"\n");
    user.registry.take_request_heads();
    user
}

/// Calls `find_packages`. Returns whether the call failed, and the text.
fn ask(client: &mut Client, arguments: Value) -> (bool, String) {
    let result = client.call("find_packages", arguments);
    let text = result["content"][0]["text"].as_str().unwrap().to_owned();
    (result["isError"] == true, text)
}

#[test]
fn operator_adds_package_that_agent_requested() {
    let user = user();
    let mut client = serve(&user, NEWEST);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let tools = listed.as_array().unwrap().iter();
    let found: Vec<_> = tools.filter(|it| it["name"] == "find_packages").collect();
    assert_eq!(found.len(), 1, "{listed}");
    assert_eq!(found[0]["annotations"]["readOnlyHint"], false);
    // The query is plain words. `find_packages` ranks packages as `find_skills` ranks skills.
    let (failed, text) = ask(&mut client, json!({"query": "how many lines has a text"}));
    assert!(!failed && text.starts_with("1 of the 2 packages"), "{text}");
    assert!(
        text.contains(&format!("- {}: Counts", user.reference())),
        "{text}"
    );
    let (_, text) = ask(&mut client, json!({}));
    assert!(text.starts_with("2 of the 2 packages"), "{text}");
    // A description cannot start another line.
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(text.matches("\n- oci://").count(), 2, "{text}");
    let (_, text) = ask(&mut client, json!({"query": "zzzz"}));
    assert!(text.starts_with("None of the 2"), "{text}");
    let why = "to count\u{1b}[31m\nREMOVED \u{202e}x";
    for (arguments, expected) in [
        (json!({"request": user.reference()}), "`why` is missing"),
        (
            json!({"request": "oci://registry.example/evil/x:1", "why": why}),
            "the catalog has no such package",
        ),
        (json!({"query": "x".repeat(1001)}), "query"),
        (json!({"more": 1}), "more"),
    ] {
        let (failed, text) = ask(&mut client, arguments);
        assert!(failed && text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(user.run_ok(&["requests"]), "");
    // Repeated requests count once, and install nothing.
    let before = user.files();
    for _ in 0..3 {
        let request = json!({"request": user.reference(), "why": why});
        let (failed, text) = ask(&mut client, request);
        assert!(!failed && text.contains("Nothing is installed"), "{text}");
    }
    assert_eq!(user.files(), before);
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
    assert!(!has_tool(&mut client, "count_lines"));
    let shown = user.run_ok(&["requests"]);
    let [first, asked, description] = shown.lines().collect::<Vec<_>>()[..] else {
        panic!("{shown}");
    };
    assert_eq!(first, format!("1  {}", user.reference()));
    assert!(asked.starts_with("   asked by stdio at 20"), "{asked}");
    assert!(
        asked.contains("REMOVED") && !asked.contains(['\u{1b}', '\u{202e}']),
        "{asked}"
    );
    assert_eq!(description, "   Counts the lines of text files.");
    let error = user.run_err(4, &["add", "--request", "2"]);
    assert!(error.contains("there is no request 2"), "{error}");
    user.run_err(2, &["add", "--request", "1", &user.reference()]);
    user.run_err(2, &["add"]);
    user.run_ok(&["add", "--request", "1"]);
    assert_eq!(user.run_ok(&["requests"]), "");
    wait_until("the component is not loaded", || {
        has_tool(&mut client, "count_lines")
    });
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn offers_no_find_packages_without_catalog() {
    let user = User::new();
    let mut client = serve(&user, NEWEST);
    assert!(!has_tool(&mut client, "find_packages"));
    let params = json!({"name": "find_packages", "arguments": {}});
    let answer = client.request("tools/call", params);
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(client.end().1, Some(0));
    let error = user.run_err(4, &["requests"]);
    assert!(error.contains("set `catalog` in `[packages]`"), "{error}");
    assert!(!user.path("data/skillhost/requests").exists());
}

#[test]
fn shows_only_requests_for_packages_of_catalog() {
    let user = user();
    let mut client = serve(&user, NEWEST);
    let request = json!({"request": user.reference(), "why": "a"});
    assert!(!ask(&mut client, request.clone()).0);
    let file = user.path("data/skillhost/requests/requests.jsonl");
    let line = fs::read_to_string(&file).unwrap();
    let forged = line.replace(&user.reference(), "oci://registry.example/evil/x:1");
    fs::write(&file, format!("{forged}garbage\n{line}")).unwrap();
    let run = user.run(&["requests"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.stdout
            .starts_with(&format!("3  {}\n", user.reference())),
        "{run:?}"
    );
    assert!(
        run.stderr.contains("has 2 lines without a valid request"),
        "{run:?}"
    );
    let error = user.run_err(4, &["add", "--request", "1"]);
    assert!(error.contains("there is no request 1"), "{error}");
    user.run_ok(&["requests", "--clear"]);
    assert_eq!(user.run_ok(&["requests"]), "");
    // The catalog is read at each call. Agents learn no path.
    user.program.write("catalog.toml", "[[package]]\n");
    let (failed, text) = ask(&mut client, request);
    assert!(failed && !text.contains("catalog.toml"), "{text}");
    client.wait_until_logged("find_packages: cannot use the catalog `");
    assert_eq!(client.end().1, Some(0));
    let run = user.run(&["serve", "--config", "skillhost.toml"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("cannot use the catalog"), "{run:?}");
}

#[test]
fn checks_and_shortens_fields_of_forged_requests() {
    let user = user();
    let mut client = serve(&user, NEWEST);
    let arguments = json!({"request": user.reference(), "why": "a"});
    assert!(!ask(&mut client, arguments).0);
    assert_eq!(client.end().1, Some(0));
    let file = user.path("data/skillhost/requests/requests.jsonl");
    let request: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let (long, shown) = ("9".repeat(1_000), "9".repeat(512));
    let zeros = "0".repeat(1_000);
    for (field, value, expected) in [
        ("time", "soon", None),
        ("time", &long, None),
        (
            "time",
            &format!("2026-11-28T18:00:00.{zeros}Z"),
            Some(" at 2026-11-28T18:00:00.000Z: a\n"),
        ),
        ("client", &long, Some(&*format!("asked by {shown}… at "))),
        ("why", &long, Some(&*format!(": {shown}…\n"))),
    ] {
        let mut forged = request.clone();
        forged[field] = value.into();
        fs::write(&file, format!("{forged}\n")).unwrap();
        let run = user.run(&["requests"]);
        assert_eq!(run.code, 0, "{run:?}");
        let is_ignored = run.stderr.contains("has 1 line without a valid request");
        assert_eq!(is_ignored, expected.is_none(), "{run:?}");
        assert_eq!(run.stdout.is_empty(), expected.is_none(), "{run:?}");
        assert!(run.stdout.contains(expected.unwrap_or_default()), "{run:?}");
    }
}

#[test]
fn records_client_of_request_and_applies_scope() {
    let user = user();
    let digest = |token: &str| skillhost_skills::text::digest::sha256_hex(token.as_bytes());
    let [one, two] = ["token-of-the-client-one", "token-of-the-client-two"];
    user.append(&format!(
        "[clients.one]\ntoken_sha256 = \"{}\"\ntools = [\"find_packages\"]\n[clients.two]\n\
         token_sha256 = \"{}\"\ntools = [\"read_skill\"]\n",
        digest(one),
        digest(two)
    ));
    let config = user.files()[0].clone().unwrap();
    user.program.write(
        "skillhost.toml",
        format!("audit_file = \"audit.jsonl\"\n{config}"),
    );
    let (_server, address) = serve_http(&user);
    let call = |token: &str| {
        let arguments = json!({"request": user.reference(), "why": "to count"});
        let request = http::Request::call_2026(1, "find_packages", arguments);
        let request = request.with("Authorization", &format!("Bearer {token}"));
        http::Client::once(address, &request).body
    };
    let answer = call(two);
    assert!(answer.contains("unknown tool"), "{answer}");
    let answer = call(one);
    assert!(answer.contains("is noted"), "{answer}");
    let shown = user.run_ok(&["requests", "--config", "./skillhost.toml"]);
    assert!(shown.contains("asked by one at 20"), "{shown}");
    let audit = fs::read_to_string(user.path("audit.jsonl")).unwrap();
    let record = audit
        .lines()
        .find(|line| line.contains("\"client\":\"one\""));
    let record = record.unwrap_or_else(|| panic!("{audit}"));
    assert!(record.contains("\"tool\":\"find_packages\""), "{record}");
}

#[test]
fn repeated_add_closes_request_that_stayed_open() {
    let user = user();
    let mut client = serve(&user, NEWEST);
    let request = json!({"request": user.reference(), "why": "a"});
    assert!(!ask(&mut client, request).0);
    let file = user.path("data/skillhost/requests/requests.jsonl");
    let line = fs::read_to_string(&file).unwrap();
    // The file is full, so the program cannot note the end of the request.
    fs::write(
        &file,
        format!("{line}{}\n", "x".repeat((1 << 20) - line.len() - 1)),
    )
    .unwrap();
    let run = user.run(&["add", "--request", "1"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stdout.contains("csv from oci://"), "{run:?}");
    assert!(
        run.stderr
            .contains("`csv` is added, but its request stays open; run the same command"),
        "{run:?}"
    );
    fs::write(&file, line).unwrap();
    assert_eq!(
        user.run_ok(&["add", "--request", "1"]),
        "`csv` is already configured\n"
    );
    assert_eq!(user.run_ok(&["requests"]), "");
    assert_eq!(client.end().1, Some(0));
}
