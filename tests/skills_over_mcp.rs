//! Skills over MCP: resources at `skill://<skill>/<path>`, and the skills extension with its
//! manifests and folders.

mod extension;
mod pages;
mod reading;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::builder;
use crate::support::folders::Folders;
use crate::support::session::Session;

const INVALID_PARAMS: i64 = -32602;

fn open(folders: &Folders) -> Session {
    Session::open(builder().skills(&folders.root))
}

fn skill_md(name: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}.\n---\n# {name}\n")
}

/// Returns a root with one valid skill of this name.
fn folders(name: &str) -> Folders {
    let folders = Folders::new();
    folders.write(&format!("{name}/SKILL.md"), skill_md(name));
    folders
}

fn uris(entries: &[Value]) -> Vec<&str> {
    entries
        .iter()
        .map(|entry| entry["uri"].as_str().unwrap())
        .collect()
}

fn resources(session: &mut Session) -> Vec<Value> {
    session.list_all("resources/list", json!({}), "resources").0
}

fn skills(session: &mut Session) -> Vec<Value> {
    session.list_all("skills/list", json!({}), "skills").0
}

fn children(session: &mut Session, uri: &str) -> Vec<Value> {
    session
        .list_all("resources/directory/read", json!({"uri": uri}), "resources")
        .0
}

/// Reads a resource, and checks that it has one content.
fn read(session: &mut Session, uri: &str) -> Value {
    let mut result = session.ask("resources/read", json!({"uri": uri})).unwrap();
    assert_eq!(result["contents"].as_array().unwrap().len(), 1);
    let content = result["contents"][0].take();
    assert_eq!(content["uri"], uri);
    content
}

fn bytes(content: &Value) -> Vec<u8> {
    match (content["text"].as_str(), content["blob"].as_str()) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(blob)) => BASE64_STANDARD.decode(blob).unwrap(),
        _ => panic!("{content}"),
    }
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digest}")
}
