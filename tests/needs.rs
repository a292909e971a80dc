//! The requests and secrets that a component asks for, and what an operator sees of them.

use std::fs;

use serde_json::{Value, json};

use crate::builds::Machine;
use crate::hostile_components::{component_with_import, listing_of};
use crate::support::guests;
use crate::support::program::{Program, Run};

/// The import of a component that sends requests.
const OUTGOING: &str = "wasi:http/outgoing-handler@0.2.0";

const NEEDS: &str = r#"
[[network]]
rule = "GET https://api.example.org/v1/*"
why = "reads forecasts"

[secrets.WEATHER_TOKEN]
header = "Authorization"
hosts = ["api.example.org"]
why = "the service counts requests by key"
"#;

fn needs() -> Value {
    json!({
        "network": [{"rule": "GET https://api.example.org/v1/*", "why": "reads forecasts"}],
        "secrets": {"WEATHER_TOKEN": {
            "header": "authorization",
            "hosts": ["api.example.org"],
            "why": "the service counts requests by key",
        }},
    })
}

/// Adds the section `skillhost:needs`.
pub(crate) fn with_section(component: Vec<u8>, content: &str) -> Vec<u8> {
    with_custom_section(component, "skillhost:needs", content)
}

/// Adds a custom section. The name must be shorter than 128 bytes.
pub(crate) fn with_custom_section(mut component: Vec<u8>, name: &str, content: &str) -> Vec<u8> {
    let length = char::from(name.len() as u8).to_string();
    let content = [&length, name, content].concat();
    component.push(0);
    let mut length = content.len();
    while length >= 0x80 {
        component.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    component.push(length as u8);
    component.extend(content.as_bytes());
    component
}

pub(crate) fn count_lines() -> Vec<u8> {
    fs::read(guests().join("count_lines.wasm")).unwrap()
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

#[test]
fn build_writes_needs_that_inspect_shows() {
    for language in ["python", "javascript"] {
        let machine = Machine::with_project(language);
        machine.program.write("project/needs.toml", NEEDS);
        let run = machine.build();
        assert_eq!(run.code, 0, "{language}: {run:?}");
        let asked = "asks for (unverified, and grants nothing):\n  \
            requests GET https://api.example.org/v1/*: reads forecasts\n  \
            secret WEATHER_TOKEN in the header authorization to api.example.org: \
            the service counts requests by key\n";
        assert!(run.stdout.contains(asked), "{language}: {run:?}");
        let built = "project/dist/count_lines.wasm";
        let run = machine.program.run(&["inspect", built, "--output", "json"]);
        let seen = json(&run);
        assert_eq!(seen["needs"], needs(), "{language}");
        assert_eq!(seen["needs_ignored_for"], Value::Null, "{language}");
        // Without the file, the component asks for nothing.
        fs::remove_file(machine.project.join("needs.toml")).unwrap();
        let run = machine.build();
        assert_eq!(run.code, 0, "{language}: {run:?}");
        assert!(!run.stdout.contains("asks for"), "{language}: {run:?}");
    }
}

#[test]
fn build_refuses_wrong_needs_before_it_compiles() {
    for language in ["python", "javascript", "c", "rust"] {
        let machine = Machine::with_project(language);
        let wrong = NEEDS.replace("GET https", "ftp");
        machine.program.write("project/needs.toml", wrong);
        let run = machine.build();
        assert_eq!(run.code, 1, "{language}: {run:?}");
        let said = "`needs.toml`, line 3: `ftp://api.example.org/v1/*`: an address begins with";
        assert!(run.stderr.contains(said), "{language}: {run:?}");
        assert_eq!(machine.install_count(), 0, "{language}");
    }
}

#[test]
fn inspect_escapes_needs_and_ignores_invalid_ones() {
    let program = Program::new();
    let hidden = json!({"network": [
        {"rule": "https://api.example.org/\u{202e}", "why": "a\u{1b}[2J\nsha256: 0"},
    ]});
    let inspect = |section: &str, output: &str| {
        program.write("a.wasm", with_section(count_lines(), section));
        program.run(&["inspect", "a.wasm", "--output", output])
    };
    let run = inspect(&hidden.to_string(), "text");
    assert_eq!(run.code, 0, "{run:?}");
    let shown = "  requests https://api.example.org/\\u{202e}: a\\u{1b}[2J\\nsha256: 0\n";
    assert!(run.stdout.contains(shown), "{run:?}");
    assert_eq!(
        json(&inspect(&hidden.to_string(), "json"))["needs"]["network"],
        hidden["network"]
    );
    for (section, why) in [
        ("{", "EOF while parsing"),
        ("{\"powers\": 1}", "unknown field `powers`"),
        (
            "{\"network\": [{\"rule\": \"\\n*\", \"why\": \"a\"}]}",
            "`\\n*`: an address begins",
        ),
    ] {
        // The component still loads, and asks for nothing.
        let run = inspect(section, "text");
        assert_eq!(run.code, 0, "{run:?}");
        let note =
            format!("asks for: unknown, because the section `skillhost:needs` is ignored: {why}");
        assert!(run.stdout.contains(&note), "{note}: {run:?}");
        let seen = json(&inspect(section, "json"));
        assert_eq!(seen["needs"], Value::Null);
        let shown = seen["needs_ignored_for"].as_str().unwrap();
        assert!(shown.contains(why), "{shown}");
    }
}

#[test]
fn inspect_says_that_requests_need_a_grant() {
    let program = Program::new();
    let note = "sends HTTP requests: each is denied unless a grant's `network` allows it, or is \
                \"ask\" and a person allows it\n";
    program.write("silent.wasm", count_lines());
    program.write(
        "sends.wasm",
        component_with_import(OUTGOING, &listing_of(&[("fetch", "{}")])),
    );
    for (file, sends) in [("silent.wasm", false), ("sends.wasm", true)] {
        let run = program.run(&["inspect", file]);
        assert_eq!((run.code, run.stdout.contains(note)), (0, sends), "{run:?}");
        let run = program.run(&["inspect", file, "--output", "json"]);
        assert_eq!(json(&run)["sends_requests"], sends, "{run:?}");
    }
}

/// Makes a project with the tool `fetch`, which sends requests and asks for them.
fn project(grant: &str) -> Program {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let component = component_with_import(OUTGOING, &listing_of(&[("fetch", "{}")]));
    let mut asked = needs();
    let rules = asked["network"].as_array_mut().unwrap();
    rules.push(json!({"rule": "https://other.example.org", "why": "reads more"}));
    program.write(
        "tools/fetch.wasm",
        with_section(component, &asked.to_string()),
    );
    let config = format!("skills = [\"skills\"]\ntools = [\"tools\"]\n{grant}");
    program.write("skillhost.toml", config);
    program
}

/// Runs a verb with the project's configuration.
fn run(program: &Program, arguments: &[&str]) -> Run {
    program.run(&[&["--config", "skillhost.toml"], arguments].concat())
}

const GRANT: &str = r#"
[grants."fetch.wasm"]
network = ["https://api.example.org/v1/*", "GET https://other.example.org/data/*",
    "http://localhost:8080", "http://intern.example.org:8080", "http://plain.example.org",
    "https://10.0.0.1", "https://10.0.0.2", "GET https://[fd00::1]"]
network_private = ["10.0.0.1", "10.1.2.3:8080"]
[grants."fetch.wasm".secrets.WEATHER_TOKEN]
file = "token"
header = "Authorization"
hosts = ["api.example.org", "api.example.org:8443"]
"#;

#[test]
fn grants_compares_asked_and_granted() {
    let program = project(GRANT);
    program.write("token", "the-value");
    let text = run(&program, &["grants", "--all", "fetch"]).stdout;
    for line in [
        "  network: https://api.example.org/v1/*; GET https://other.example.org/data/*; http://",
        "  private addresses: 10.0.0.1, 10.1.2.3:8080\n",
        "  secret WEATHER_TOKEN in the header authorization to api.example.org, \
         api.example.org:8443\n",
        "  asks for (unverified):\n    \
         granted: requests GET https://api.example.org/v1/*: reads forecasts\n    \
         GRANTED IN PART: requests https://other.example.org: reads more\n    \
         granted: secret WEATHER_TOKEN in the header authorization to api.example.org: the serv",
        ", 20 requests, ",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let run_json = run(&program, &["grants", "fetch", "--output", "json"]);
    let seen = &json(&run_json)[0];
    assert_eq!(seen["network"].as_array().unwrap().len(), 8);
    assert_eq!(
        seen["network_private"],
        json!(["10.0.0.1", "10.1.2.3:8080"])
    );
    let hosts = json!(["api.example.org", "api.example.org:8443"]);
    assert_eq!(
        seen["secrets"],
        json!([{"name": "WEATHER_TOKEN", "header": "authorization", "hosts": hosts}])
    );
    assert_eq!(seen["sends_requests"], true);
    assert_eq!(
        seen["asks"]["network"],
        json!([
            {"rule": "GET https://api.example.org/v1/*", "why": "reads forecasts", "granted": "yes"},
            {"rule": "https://other.example.org", "why": "reads more", "granted": "part"},
        ])
    );
    let secret = &seen["asks"]["secrets"][0];
    assert_eq!(
        (&secret["name"], &secret["granted"]),
        (&json!("WEATHER_TOKEN"), &json!("yes"))
    );
    assert!(!(text + &run_json.stdout).contains("the-value"));
}

#[test]
fn asking_grants_nothing() {
    for grant in ["", "[grants.\"fetch.wasm\"]\nskills = [\"a\"]\n"] {
        let program = project(grant);
        let text = run(&program, &["grants", "--all", "fetch"]).stdout;
        for line in [
            "  network: none; its requests are denied\n",
            "    NOT GRANTED: requests GET https://api.example.org/v1/*: reads forecasts\n",
            "    NOT GRANTED: secret WEATHER_TOKEN in the header",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let explained = run(
            &program,
            &["grants", "explain", "fetch", "https://api.example.org/v1/a"],
        );
        assert_eq!(explained.code, 1, "{explained:?}");
        let json = json(&run(&program, &["grants", "fetch", "--output", "json"]));
        assert_eq!(json[0]["asks"]["network"][0]["granted"], "no");
        assert_eq!(json[0]["network"], json!([]));
    }
    // This component sends no requests, and asks for none.
    let program = project("");
    program.write("tools/count_lines.wasm", count_lines());
    let text = run(&program, &["grants", "--all", "count_lines"]).stdout;
    assert!(
        text.contains("  network: none\n") && !text.contains("asks for"),
        "{text}"
    );
    // An invalid section is ignored, and the output says so.
    program.write(
        "tools/count_lines.wasm",
        with_section(count_lines(), "{\"a\": 1}"),
    );
    let text = run(&program, &["grants", "--all", "count_lines"]).stdout;
    let note = "  asks for: unknown, because the section `skillhost:needs` is ignored: unknown \
                field `a`";
    assert!(text.contains(note), "{text}");
}

#[test]
fn explain_names_rule_or_reason() {
    let program = project(GRANT);
    let no_rule = "no rule in `network` allows it";
    for (request, code, lines) in [
        (
            &["https://API.example.org:443/v1/%61/../b?q=1"][..],
            0,
            &[
                "allowed: GET https://api.example.org/v1/b?q=1\n  by the rule \
                 `https://api.example.org/v1/*`\n  only if every address of `api.example.org` is \
                 public or in `network_private`; this command does not look up addresses\n",
                "  the secret WEATHER_TOKEN may be sent in the header authorization\n",
            ][..],
        ),
        (
            &["POST", "https://other.example.org/data/a"],
            1,
            &[
                no_rule,
                "  the rule `https://api.example.org/v1/*` is for another host\n",
                "  the rule `GET https://other.example.org/data/*` is for another method\n",
            ],
        ),
        (
            &["https://api.example.org/v1/../v2"],
            1,
            &[
                "denied: GET https://api.example.org/v2\n",
                no_rule,
                "  the rule `https://api.example.org/v1/*` is for another path\n",
            ],
        ),
        (
            &["https://api.example.org/v1/..%2fa"],
            1,
            &["a disguised `..`"],
        ),
        (
            &["https://a@api.example.org/v1/"],
            1,
            &["a user name or password"],
        ),
        (
            &["CONNECT", "https://api.example.org/v1/"],
            1,
            &["CONNECT and TRACE"],
        ),
        (
            &["http://localhost:8080/a"],
            0,
            &["only if every address of `localhost` is of this machine or in `network_private`"],
        ),
        (
            &["http://intern.example.org:8080/"],
            0,
            &["only if every address of `intern.example.org` is in `network_private`"],
        ),
        // `10.0.0.1` in `network_private` grants all its ports, including port 80.
        (
            &["http://plain.example.org/"],
            0,
            &["is in `network_private`"],
        ),
        (
            &["https://10.0.0.1/"],
            0,
            &["by the rule `https://10.0.0.1`\n"],
        ),
        (
            &["https://10.0.0.2/"],
            1,
            &["the host has the address 10.0.0.2, which is not public"],
        ),
        (
            &["https://[fd00::1]/"],
            1,
            &["fd00::1, which is not public"],
        ),
    ] {
        let arguments = [&["grants", "explain", "fetch"], request].concat();
        let explained = run(&program, &arguments);
        assert_eq!(explained.code, code, "{request:?}: {explained:?}");
        for line in lines {
            assert!(explained.stdout.contains(line), "{line}: {explained:?}");
        }
        let sends_secret = explained.stdout.contains("WEATHER_TOKEN");
        assert_eq!(sends_secret, request[0].contains("%61"), "{explained:?}");
        let explained = run(&program, &[&arguments[..], &["--output", "json"]].concat());
        assert_eq!(explained.code, code, "{request:?}: {explained:?}");
        let seen = json(&explained);
        assert_eq!(seen["allowed"], code == 0, "{seen}");
        assert_eq!(seen["denied_for"].is_null(), code == 0, "{seen}");
        assert_eq!(seen["rule"].is_null(), code == 1, "{seen}");
        let names_a_host = code == 0 && !request[0].contains("10.0.0.1");
        assert_eq!(seen["unresolved_host"].is_null(), !names_a_host, "{seen}");
    }
    for (request, why) in [
        (&["fetch", "example.org"][..], "`example.org` is not a URL"),
        (&["fetch", "/v1/a"], "`/v1/a` is not a URL"),
        (&["fetch", "G T", "https://e.org"], "`G T` is not a method"),
        (&["none", "https://e.org"], "there is no tool `none`"),
        (&["fetch"], "required arguments"),
    ] {
        let explained = run(&program, &[&["grants", "explain"], request].concat());
        assert_eq!(explained.code, 2, "{request:?}: {explained:?}");
        assert!(explained.stderr.contains(why), "{why}: {explained:?}");
    }
    // Without an address in `network_private` for port 80, plain `http` is denied.
    let program = project(&GRANT.replace("\"10.0.0.1\", ", ""));
    let explained = run(
        &program,
        &["grants", "explain", "fetch", "http://plain.example.org/"],
    );
    assert_eq!(explained.code, 1, "{explained:?}");
    assert!(
        explained.stdout.contains("  plain `http` is only for"),
        "{explained:?}"
    );
}
