//! Notifications of changed skills and components.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::{folder, replaced};
use crate::support::guests;
use crate::support::mcp::{Client, NEWEST, REVISIONS};
use crate::support::program::Program;
use crate::support::watchdog::wait_until;

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// Starts a client that is notified of changes. Returns the client, and the id of its subscription
/// if the revision needs one.
fn start_listening(
    program: &Program,
    arguments: &[&str],
    revision: &'static str,
) -> (Client, Option<u64>) {
    let mut client = Client::start(program.folder.path(), arguments, revision);
    // Wait for the components and the first listing, so that neither causes a notification later.
    client.wait_for_components();
    client.request("tools/list", json!({}));
    if revision != NEWEST {
        return (client, None);
    }
    let everything = json!({"notifications": {
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
    }});
    let id = client.send("subscriptions/listen", everything);
    let agreed = client.message_with_method("notifications/subscriptions/acknowledged");
    assert_eq!(agreed["params"]["notifications"]["toolsListChanged"], true);
    (client, Some(id))
}

/// Waits for a notification, in the form of the revision.
fn expect_notification(client: &mut Client, method: &str, subscription: Option<u64>) {
    let notification = client.message_with_method(method);
    let id = &notification["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    match subscription {
        Some(subscription) => assert_eq!(*id, subscription),
        None => assert!(id.is_null()),
    }
}

fn tools(client: &mut Client) -> Vec<String> {
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let names = tools.as_array().unwrap().iter();
    names
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

fn copy(program: &Program, guest: &str, name: &str) {
    let tools = program.folder.path().join("tools");
    fs::create_dir_all(&tools).unwrap();
    fs::copy(guests().join(guest), tools.join(name)).unwrap();
}

#[test]
fn notifies_of_changed_files() {
    const CHANGED: &str = "notifications/resources/list_changed";
    for revision in REVISIONS {
        let program = folder("");
        let (mut client, subscription) = start_listening(&program, &[], revision);
        let manifest = |client: &mut Client| {
            let skill = json!({"uri": "skill://a/SKILL.md"});
            client.request("skills/get", skill)["result"]["skill"]["resources"].clone()
        };
        let before = manifest(&mut client);
        program.write("skills/a/docs/new.md", "new");
        expect_notification(&mut client, CHANGED, subscription);
        let after = manifest(&mut client);
        assert_eq!(after[0], before[0]);
        assert_eq!(after[1]["uri"], "skill://a/docs/new.md");
        // There may be two notifications, for the folder and for the file.
        while client.unclaimed_count(CHANGED) > 0 {
            expect_notification(&mut client, CHANGED, subscription);
        }
        program.write("skills/a/docs/new.md", "newer");
        expect_notification(&mut client, CHANGED, subscription);
        assert_ne!(manifest(&mut client), after);
        assert_eq!(client.unclaimed_count(TOOLS_CHANGED), 0);
        assert_eq!(client.end().1, Some(0));
    }
}

#[test]
fn notifies_of_added_and_removed_skills() {
    for revision in REVISIONS {
        let program = folder("");
        let (mut client, subscription) = start_listening(&program, &[], revision);
        if revision != NEWEST {
            // A second `initialized` notification must change nothing.
            client.notify("notifications/initialized", json!({}));
        }
        program.write("skills/b/SKILL.md", "---\nname: b\ndescription: B.\n---\n");
        expect_notification(&mut client, TOOLS_CHANGED, subscription);
        let listed = client.request("tools/list", json!({}))["result"]["tools"].to_string();
        assert!(listed.contains(r#""enum":["a","b"]"#), "{listed}");
        assert_eq!(client.unclaimed_count(TOOLS_CHANGED), 0);
        fs::remove_dir_all(program.folder.path().join("skills/b")).unwrap();
        expect_notification(&mut client, TOOLS_CHANGED, subscription);
        // Without skills there is no prompt.
        fs::remove_dir_all(program.folder.path().join("skills/a")).unwrap();
        expect_notification(&mut client, TOOLS_CHANGED, subscription);
        expect_notification(
            &mut client,
            "notifications/prompts/list_changed",
            subscription,
        );
        let prompts = client.request("prompts/list", json!({}));
        assert_eq!(prompts["result"]["prompts"], json!([]));
        client.wait_until_logged("no folder in it has a SKILL.md");
        // A subscription is answered when the server ends.
        let (rest, code) = client.end();
        assert_eq!(code, Some(0));
        let answered = rest.iter().filter(|message| message["id"].is_u64());
        let answered: Vec<u64> = answered
            .map(|message| message["id"].as_u64().unwrap())
            .collect();
        assert_eq!(answered, Vec::from_iter(subscription));
    }
}

#[test]
fn watches_replaced_skills_folder() {
    let program = folder("");
    let (mut client, subscription) = start_listening(&program, &[], NEWEST);
    program.write("new/c/SKILL.md", "---\nname: c\ndescription: C.\n---\n");
    let path = |name: &str| program.folder.path().join(name);
    fs::rename(path("skills"), path("old")).unwrap();
    fs::rename(path("new"), path("skills")).unwrap();
    expect_notification(&mut client, TOOLS_CHANGED, subscription);
    let result = client.call("read_skill", json!({"skill_name": "c"}));
    assert_eq!(result["isError"], false);
    let result = client.call("read_skill", json!({"skill_name": "a"}));
    assert_eq!(result["isError"], true);
    // Changes in the new folder are noticed too.
    program.write("skills/d/SKILL.md", "---\nname: d\ndescription: D.\n---\n");
    expect_notification(&mut client, TOOLS_CHANGED, subscription);
}

#[test]
fn finds_new_skills_and_limits_prompt() {
    let program = Program::new();
    for number in 0..300 {
        let text = format!(
            "---\nname: s\ndescription: {}\n---\n",
            "Adds numbers. ".repeat(9)
        );
        program.write(&format!("skills/skill-{number:03}/SKILL.md"), text);
    }
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    assert!(tools(&mut client).contains(&"find_skills".to_owned()));
    for _ in 0..2 {
        let prompt = client.request("prompts/get", json!({"name": "skills"}));
        let text = prompt["result"]["messages"][0]["content"]["text"]
            .as_str()
            .unwrap();
        assert!(skillhost::prompt::tokens(text) <= 4000);
        assert!(text.contains("call find_skills("), "{text}");
    }
    client.wait_until_logged("the 300 skills do not fit the 4000 tokens of a prompt");
    let find = |client: &mut Client, query: &str| {
        let arguments = json!({"name": "find_skills", "arguments": {"query": query}});
        let result = client.request("tools/call", arguments)["result"].clone();
        result["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let expect = |client: &mut Client, query: &str, expected: &str| {
        wait_until(&format!("`{query}` does not find `{expected}`"), || {
            find(client, query).contains(expected)
        });
    };
    let knots = |body: &str| format!("---\nname: knots\ndescription: Ropes.\n---\n{body}\n");
    program.write("skills/knots/SKILL.md", knots("Tie a bowline."));
    expect(&mut client, "bowline", "knots: Ropes.");
    program.write("skills/knots/SKILL.md", knots("Tie a sheepshank."));
    expect(&mut client, "sheepshank", "knots: Ropes.");
    fs::remove_dir_all(program.folder.path().join("skills/knots")).unwrap();
    // The removed skill is gone at once, because the host checks each result.
    assert!(!find(&mut client, "sheepshank").contains("knots"));
    assert_eq!(
        client
            .stderr()
            .matches("do not fit the 4000 tokens")
            .count(),
        1
    );
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn reloads_added_changed_and_removed_components() {
    for revision in [REVISIONS[1], NEWEST] {
        let program = folder("");
        fs::create_dir(program.folder.path().join("tools")).unwrap();
        let options = ["--tools", "tools"];
        let (mut client, subscription) = start_listening(&program, &options, revision);
        assert_eq!(tools(&mut client).len(), 6);

        copy(&program, "count_lines.wasm", "one.wasm");
        expect_notification(&mut client, TOOLS_CHANGED, subscription);
        assert!(tools(&mut client).contains(&"count_lines".to_owned()));

        let bytes = fs::read(guests().join("count_lines.wasm")).unwrap();
        program.write(
            "tools/one.wasm",
            replaced(&bytes, b"count_lines", b"lines_count"),
        );
        expect_notification(&mut client, TOOLS_CHANGED, subscription);
        let names = tools(&mut client);
        assert!(names.contains(&"lines_count".to_owned()), "{names:?}");
        assert!(!names.contains(&"count_lines".to_owned()), "{names:?}");

        // An invalid component changes nothing but the log.
        program.write("tools/one.wasm", &bytes[..bytes.len() / 2]);
        client.wait_until_logged("its earlier tools remain");
        assert!(tools(&mut client).contains(&"lines_count".to_owned()));

        fs::remove_file(program.folder.path().join("tools/one.wasm")).unwrap();
        expect_notification(&mut client, TOOLS_CHANGED, subscription);
        assert_eq!(tools(&mut client).len(), 6);
        assert_eq!(client.unclaimed_count(TOOLS_CHANGED), 0);
    }
}

#[test]
fn calls_in_flight_keep_their_component() {
    let program = folder("[limits]\ntime = \"4s\"\n");
    copy(&program, "unchecked.wasm", "unchecked.wasm");
    let options = ["--tools", "tools", "--grant", "unchecked.wasm=*"];
    let (mut client, subscription) = start_listening(&program, &options, NEWEST);
    let arguments = json!({"skill_name": "a", "path": ""});
    let sleeping = client.start_calls("raw_sleep", &arguments, 1)[0];
    fs::remove_file(program.folder.path().join("tools/unchecked.wasm")).unwrap();
    expect_notification(&mut client, TOOLS_CHANGED, subscription);
    // New calls do not find the tool. The call in flight sleeps until its time limit.
    let params = json!({"name": "raw_sleep", "arguments": arguments});
    let unknown = client.request("tools/call", params);
    assert_eq!(unknown["error"]["code"], -32602);
    let result = client.answer(sleeping)["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("took longer than"), "{text}");
}

#[test]
fn change_outside_of_listings_sends_no_notification() {
    let program = folder("");
    program.write("skills/a/notes.txt", "one");
    let (mut client, _) = start_listening(&program, &[], NEWEST);
    program.write("skills/a/notes.txt", "two");
    // Reading must not count as a change. Otherwise each notification would cause another one.
    for _ in 0..10 {
        client.call("read_skill", json!({"skill_name": "a"}));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(client.unclaimed_count(TOOLS_CHANGED), 0);
    assert_eq!(
        client.unclaimed_count("notifications/prompts/list_changed"),
        0
    );
}

#[test]
fn limits_subscriptions_of_client() {
    let program = folder("");
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    client.request("tools/list", json!({}));
    let listen = || json!({"notifications": {"toolsListChanged": true}});
    let first: Vec<u64> = (0..16)
        .map(|_| client.send("subscriptions/listen", listen()))
        .collect();
    let refused = client.request("subscriptions/listen", listen());
    assert_eq!(refused["error"]["code"], -32600);
    // A cancelled subscription frees its slot for another one.
    client.notify("notifications/cancelled", json!({"requestId": first[3]}));
    let again = client.send("subscriptions/listen", listen());
    program.write("skills/b/SKILL.md", "---\nname: b\ndescription: B.\n---\n");
    let mut notified: Vec<Value> = (0..16)
        .map(|_| client.message_with_method(TOOLS_CHANGED))
        .map(|message| message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone())
        .collect();
    notified.sort_by_key(Value::as_u64);
    assert!(notified.contains(&json!(again)) && !notified.contains(&json!(first[3])));
    notified.dedup();
    assert_eq!(notified.len(), 16);
}

#[test]
fn subscription_continues_after_other_changes() {
    let program = folder("");
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    client.request("tools/list", json!({}));
    let mut listen = |kind: &str| {
        let id = client.send(
            "subscriptions/listen",
            json!({"notifications": {kind: true}}),
        );
        client.message_with_method("notifications/subscriptions/acknowledged");
        id
    };
    let tools_id = listen("toolsListChanged");
    let resources_id = listen("resourcesListChanged");
    program.write("skills/a/new.md", "new");
    let changed = "notifications/resources/list_changed";
    expect_notification(&mut client, changed, Some(resources_id));
    program.write("skills/b/SKILL.md", "---\nname: b\ndescription: B.\n---\n");
    expect_notification(&mut client, TOOLS_CHANGED, Some(tools_id));
    // Both subscriptions end only with the server.
    let (rest, code) = client.end();
    assert_eq!(code, Some(0));
    let answered = rest.iter().filter_map(|message| message["id"].as_u64());
    let mut answered: Vec<u64> = answered.collect();
    answered.sort_unstable();
    assert_eq!(answered, [tools_id, resources_id]);
}
