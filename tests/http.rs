//! The server over HTTP. Each test server listens on a free port of a loopback address.

mod access;
mod answers;
mod clients;
mod hostile_requests;
mod limits;
mod load;
mod metrics;
mod oauth;
mod program;
mod protocol;
mod requests;
mod sessions;
mod shutdown;
mod slots;
mod tls;
mod unix_socket;
mod web_service;

use serde_json::json;
use skillhost_server::{HttpLimits, HttpOptions};

use crate::support::folders::Folders;
use crate::support::http::{Request, TestServer};
use crate::support::{UNREACHED, builder, builder_with_guests, limits, repository};

const TOKEN: &str = "correct-horse-battery";

/// Starts a server over the sample skills.
fn serve(options: HttpOptions) -> TestServer {
    TestServer::start(builder().skills(repository().join("skills")), options)
}

/// Starts a server with the test guests, over one skill. No call reaches its time limit.
fn serve_guests(options: HttpOptions) -> (TestServer, Folders) {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let builder = builder_with_guests().skills(&folders.root);
    let builder = builder.limits(limits(UNREACHED));
    (TestServer::start(builder, options), folders)
}

/// Returns the default options after `set` has changed them.
fn options(set: impl FnOnce(&mut HttpOptions)) -> HttpOptions {
    let mut options = HttpOptions::default();
    set(&mut options);
    options
}

/// Returns the default options after `set` has changed their limits.
fn with_limits(set: impl FnOnce(&mut HttpLimits)) -> HttpOptions {
    options(|options| set(&mut options.limits))
}

/// Returns the request of a call with a short answer.
fn short_call(id: u64) -> Request {
    let arguments = json!({"skill_name": "calculator", "file_path": "examples/basic.py"});
    Request::call(id, "read_file_in_skill", arguments)
}

/// Returns the request of a call that does not end.
fn endless_call(id: u64) -> Request {
    Request::call(id, "raw_sleep", json!({"skill_name": "a", "path": "p"}))
}
