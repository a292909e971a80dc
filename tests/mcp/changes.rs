use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{folder, replaced};
use crate::support::guests;
use crate::support::mcp::{Client, NEWEST, REVISIONS};
use crate::support::program::Program;

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// A client that is told of changes; where it has to ask for that, by this
/// request.
fn listening(
    program: &Program,
    arguments: &[&str],
    revision: &'static str,
) -> (Client, Option<u64>) {
    let mut client = Client::start(program.folder.path(), arguments, revision);
    // What is there at the start is no change.
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
    let agreed = client.notification("notifications/subscriptions/acknowledged");
    assert_eq!(agreed["params"]["notifications"]["toolsListChanged"], true);
    (client, Some(id))
}

/// The next change of this kind, told in the way of the revision.
fn told(client: &mut Client, method: &str, subscription: Option<u64>) {
    let notification = client.notification(method);
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
fn clients_are_told_of_files_of_skills_that_come_and_change() {
    const CHANGED: &str = "notifications/resources/list_changed";
    for revision in REVISIONS {
        let program = folder("");
        let (mut client, subscription) = listening(&program, &[], revision);
        let manifest = |client: &mut Client| {
            let skill = json!({"uri": "skill://a/SKILL.md"});
            client.request("skills/get", skill)["result"]["skill"]["resources"].clone()
        };
        let before = manifest(&mut client);
        program.write("skills/a/docs/new.md", "new");
        told(&mut client, CHANGED, subscription);
        let after = manifest(&mut client);
        assert_eq!(after[0], before[0]);
        assert_eq!(after[1]["uri"], "skill://a/docs/new.md");
        // A change may be told twice: once for the folder, once for the file.
        while client.come(CHANGED) > 0 {
            told(&mut client, CHANGED, subscription);
        }
        program.write("skills/a/docs/new.md", "newer");
        told(&mut client, CHANGED, subscription);
        assert_ne!(manifest(&mut client), after);
        assert_eq!(client.come(TOOLS_CHANGED), 0);
        assert_eq!(client.end().1, Some(0));
    }
}

#[test]
fn clients_are_told_of_skills_that_come_and_go() {
    for revision in REVISIONS {
        let program = folder("");
        let (mut client, subscription) = listening(&program, &[], revision);
        program.write("skills/b/SKILL.md", "---\nname: b\ndescription: B.\n---\n");
        let start = Instant::now();
        told(&mut client, TOOLS_CHANGED, subscription);
        assert!(start.elapsed() < Duration::from_secs(3));
        let listed = client.request("tools/list", json!({}))["result"]["tools"].to_string();
        assert!(listed.contains(r#""enum":["a","b"]"#), "{listed}");
        fs::remove_dir_all(program.folder.path().join("skills/b")).unwrap();
        told(&mut client, TOOLS_CHANGED, subscription);
        // The last one goes, and with it the prompt.
        fs::remove_dir_all(program.folder.path().join("skills/a")).unwrap();
        told(&mut client, TOOLS_CHANGED, subscription);
        told(
            &mut client,
            "notifications/prompts/list_changed",
            subscription,
        );
        let prompts = client.request("prompts/list", json!({}));
        assert_eq!(prompts["result"]["prompts"], json!([]));
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
fn a_folder_of_skills_that_is_replaced_is_followed() {
    let program = folder("");
    let (mut client, subscription) = listening(&program, &[], NEWEST);
    program.write("new/c/SKILL.md", "---\nname: c\ndescription: C.\n---\n");
    let path = |name: &str| program.folder.path().join(name);
    fs::rename(path("skills"), path("old")).unwrap();
    fs::rename(path("new"), path("skills")).unwrap();
    told(&mut client, TOOLS_CHANGED, subscription);
    let result = client.call("read_skill", json!({"skill_name": "c"}));
    assert_eq!(result["isError"], false);
    let result = client.call("read_skill", json!({"skill_name": "a"}));
    assert_eq!(result["isError"], true);
    // What changes in the new one is seen, too.
    program.write("skills/d/SKILL.md", "---\nname: d\ndescription: D.\n---\n");
    told(&mut client, TOOLS_CHANGED, subscription);
}

#[test]
fn components_are_taken_up_as_they_come_change_and_go() {
    for revision in [REVISIONS[1], NEWEST] {
        let program = folder("");
        fs::create_dir(program.folder.path().join("tools")).unwrap();
        let options = ["--tools", "tools"];
        let (mut client, subscription) = listening(&program, &options, revision);
        assert_eq!(tools(&mut client).len(), 5);

        copy(&program, "count_lines.wasm", "one.wasm");
        told(&mut client, TOOLS_CHANGED, subscription);
        assert!(tools(&mut client).contains(&"count_lines".to_owned()));

        let bytes = fs::read(guests().join("count_lines.wasm")).unwrap();
        program.write(
            "tools/one.wasm",
            replaced(&bytes, b"count_lines", b"lines_count"),
        );
        told(&mut client, TOOLS_CHANGED, subscription);
        let names = tools(&mut client);
        assert!(names.contains(&"lines_count".to_owned()), "{names:?}");
        assert!(!names.contains(&"count_lines".to_owned()), "{names:?}");

        // One that is broken changes nothing but the log.
        program.write("tools/one.wasm", &bytes[..bytes.len() / 2]);
        client.logged("its earlier tools stay");
        assert!(tools(&mut client).contains(&"lines_count".to_owned()));

        fs::remove_file(program.folder.path().join("tools/one.wasm")).unwrap();
        told(&mut client, TOOLS_CHANGED, subscription);
        assert_eq!(tools(&mut client).len(), 5);
        assert_eq!(client.come(TOOLS_CHANGED), 0);
    }
}

#[test]
fn calls_in_flight_end_on_the_component_that_they_began_with() {
    let program = folder("[limits]\ntime = \"4s\"\n");
    copy(&program, "unchecked.wasm", "unchecked.wasm");
    let options = ["--tools", "tools", "--grant", "unchecked.wasm=*"];
    let (mut client, subscription) = listening(&program, &options, NEWEST);
    let params = json!({"name": "raw_sleep", "arguments": {"skill_name": "a", "path": ""}});
    let sleeping = client.send("tools/call", params.clone());
    std::thread::sleep(Duration::from_millis(200));
    fs::remove_file(program.folder.path().join("tools/unchecked.wasm")).unwrap();
    told(&mut client, TOOLS_CHANGED, subscription);
    // It is gone for new calls, and the old one sleeps on to its limit.
    let unknown = client.request("tools/call", params);
    assert_eq!(unknown["error"]["code"], -32602);
    let result = client.answer(sleeping)["result"].clone();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("took longer than"), "{text}");
}

#[test]
fn a_change_that_is_no_change_of_a_list_is_not_told() {
    let program = folder("");
    program.write("skills/a/notes.txt", "one");
    let (mut client, _) = listening(&program, &[], NEWEST);
    program.write("skills/a/notes.txt", "two");
    // Reading is no change either, or there would be no end.
    for _ in 0..10 {
        client.call("read_skill", json!({"skill_name": "a"}));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(client.come(TOOLS_CHANGED), 0);
    assert_eq!(client.come("notifications/prompts/list_changed"), 0);
}

#[test]
fn a_client_has_so_many_subscriptions_and_no_more() {
    let program = folder("");
    let mut client = Client::start(program.folder.path(), &[], NEWEST);
    client.request("tools/list", json!({}));
    let listen = || json!({"notifications": {"toolsListChanged": true}});
    let first: Vec<u64> = (0..16)
        .map(|_| client.send("subscriptions/listen", listen()))
        .collect();
    let refused = client.request("subscriptions/listen", listen());
    assert_eq!(refused["error"]["code"], -32600);
    // One that is cancelled makes room.
    client.notify("notifications/cancelled", json!({"requestId": first[3]}));
    let again = client.send("subscriptions/listen", listen());
    program.write("skills/b/SKILL.md", "---\nname: b\ndescription: B.\n---\n");
    let mut told: Vec<Value> = (0..16)
        .map(|_| client.notification(TOOLS_CHANGED))
        .map(|one| one["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone())
        .collect();
    told.sort_by_key(Value::as_u64);
    assert!(told.contains(&json!(again)) && !told.contains(&json!(first[3])));
    told.dedup();
    assert_eq!(told.len(), 16);
}
