//! Clients with names: their scopes, sessions and limits.

mod program;
mod shares;
mod tools;

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use skillhost::config;
use skillhost::{AuditMode, Catalog, HostBuilder, SearchOffer, SearchResult, SkillIndex};
use skillhost_identity::{Clients, IdentitySettings, Token};
use skillhost_index::MemoryIndex;
use skillhost_server::HttpOptions;
use skillhost_skills::blocking;

use super::{TOKEN, options};
use crate::support::folders::Folders;
use crate::support::http::{Answer, Client, Request, TestServer};
use crate::support::watchdog::{patience, wait_until};
use crate::support::{UNREACHED, builder, builder_with_guests, limits};

/// Returns the token of a client in these tests.
fn token_of(client: &str) -> String {
    format!("token-of-the-client-{client}")
}

/// Returns options for clients with these tables and [tokens](token_of), and for the client
/// without a name.
fn clients(tables: &[(&str, &str)]) -> HttpOptions {
    clients_with(tables, |_| {})
}

fn clients_with(
    tables: &[(&str, &str)],
    change: impl FnOnce(&mut IdentitySettings),
) -> HttpOptions {
    let table = |(name, keys): &(&str, &str)| {
        let digest = skillhost_skills::text::digest::sha256_hex(token_of(name).as_bytes());
        format!("[clients.{name}]\ntoken_sha256 = \"{digest}\"\n{keys}\n")
    };
    let text: String = tables.iter().map(table).collect();
    let settings = config::parse(&text, "skillhost.toml", Path::new("/"));
    let mut settings: IdentitySettings = settings.unwrap();
    change(&mut settings);
    options(|options| {
        options.clients = Clients::read(&settings.clients, &skillhost::Trust::new()).unwrap();
        options.token = Token::new(TOKEN).ok();
    })
}

/// Makes the skills of two teams.
fn teams() -> Folders {
    let folders = Folders::new();
    for (skill, word) in [("public-notes", "meadow"), ("secret-plans", "volcano")] {
        let text = format!("---\nname: {skill}\ndescription: Of the {word}.\n---\n# {word}\n");
        folders.write(&format!("{skill}/SKILL.md"), &text);
        folders.write(&format!("{skill}/more/{word}.md"), "more\n");
    }
    folders
}

fn serve_teams(
    options: HttpOptions,
    change: impl FnOnce(HostBuilder) -> HostBuilder,
) -> (TestServer, Folders) {
    let folders = teams();
    let builder = builder_with_guests()
        .skills(&folders.root)
        .limits(limits(UNREACHED))
        .search_offer(SearchOffer::Always)
        .index(Arc::new(MemoryIndex::new()));
    (TestServer::start(change(builder), options), folders)
}

fn as_client(request: Request, client: &str) -> Request {
    request.with("Authorization", &format!("Bearer {}", token_of(client)))
}

/// Returns a request of a client, or of the client without a name.
fn message(client: Option<&str>, method: &str, params: Value) -> Request {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = Request::post(body.to_string()).with("MCP-Protocol-Version", "2025-11-25");
    match client {
        Some(client) => as_client(request, client),
        None => request.with("Authorization", &format!("Bearer {TOKEN}")),
    }
}

/// Sends a request of a client.
fn ask(server: &TestServer, client: Option<&str>, method: &str, params: Value) -> Answer {
    Client::once(server.address, &message(client, method, params))
}

fn call(server: &TestServer, client: Option<&str>, tool: &str, arguments: Value) -> Answer {
    let params = json!({"name": tool, "arguments": arguments});
    ask(server, client, "tools/call", params)
}

#[test]
fn client_sees_only_its_skills() {
    let scope = "skills = [\"public-*\"]";
    let (server, _folders) = serve_teams(clients(&[("guest", scope)]), |builder| builder);
    let secret = ["secret", "volcano"];
    let asked: [(&str, Value); 12] = [
        ("tools/list", json!({})),
        ("prompts/get", json!({"name": "skills"})),
        ("resources/list", json!({})),
        ("skills/list", json!({})),
        (
            "tools/call",
            json!({"name": "list_skills", "arguments": {}}),
        ),
        (
            "tools/call",
            json!({"name": "list_skills", "arguments": {"limit": 100}}),
        ),
        (
            "tools/call",
            json!({"name": "list_skills", "arguments": {"query": "plans"}}),
        ),
        (
            "tools/call",
            json!({"name": "find_skills", "arguments": {"query": "the plans"}}),
        ),
        // Help for wrong names has only the client's skills.
        (
            "tools/call",
            json!({"name": "read_skill", "arguments": {"skill_name": "secre-plans"}}),
        ),
        (
            "tools/call",
            json!({"name": "read_skill", "arguments": {"skill_name": "x"}}),
        ),
        (
            "tools/call",
            json!({"name": "read_skill_file", "arguments":
                {"skill_name": "public-notes", "path": "../secre-plans/more/x.md"}}),
        ),
        (
            "tools/call",
            json!({"name": "count_lines", "arguments": {"skill_name": "secre-plans", "path": "x"}}),
        ),
    ];
    for (method, params) in asked {
        let about = format!("{method} {params}");
        wait_until("the index is behind", || {
            let all = ask(&server, None, method, params.clone()).body;
            let is_search = about.contains("quer");
            !is_search || all.contains("secret-plans")
        });
        let all = ask(&server, None, method, params.clone());
        let own = ask(&server, Some("guest"), method, params.clone());
        assert_eq!((all.status, own.status), (200, 200), "{about}");
        let echoed = params.to_string();
        let shows = |body: &str, word: &str| body.contains(word) && !echoed.contains(word);
        for word in secret {
            assert!(!shows(&own.body, word), "{about}: {}", own.body);
        }
        if method != "tools/call" {
            assert!(all.body.contains("secret-plans"), "{about}: {}", all.body);
            assert!(own.body.contains("public-notes"), "{about}: {}", own.body);
        }
    }
}

#[test]
fn skill_out_of_scope_is_unknown() {
    let scope = "skills = [\"public-*\"]";
    let (server, folders) = serve_teams(clients(&[("guest", scope)]), |builder| builder);
    let root = folders.root.display().to_string();
    let asked: [(&str, Value); 11] = [
        (
            "tools/call",
            json!({"name": "read_skill", "arguments": {"skill_name": "NAME"}}),
        ),
        (
            "tools/call",
            json!({"name": "get_skill", "arguments": {"skill_name": "NAME"}}),
        ),
        (
            "tools/call",
            json!({"name": "read_file_in_skill", "arguments":
                {"skill_name": "NAME", "file_path": "SKILL.md"}}),
        ),
        (
            "tools/call",
            json!({"name": "read_skill_file", "arguments": {"skill_name": "NAME", "path": "SKILL.md"}}),
        ),
        (
            "tools/call",
            json!({"name": "read_skill_file", "arguments": {"path": format!("{root}/NAME/SKILL.md")}}),
        ),
        (
            "tools/call",
            json!({"name": "list_files_in_skill", "arguments": {"skill_name": "NAME"}}),
        ),
        (
            "tools/call",
            json!({"name": "count_lines", "arguments": {"skill_name": "NAME", "path": "SKILL.md"}}),
        ),
        ("resources/read", json!({"uri": "skill://NAME/SKILL.md"})),
        ("resources/read", json!({"uri": "skill://NAME/none"})),
        ("resources/directory/read", json!({"uri": "skill://NAME"})),
        ("skills/get", json!({"uri": "skill://NAME/SKILL.md"})),
    ];
    for (method, params) in asked {
        let answer_for = |name: &str| {
            let params = params.to_string().replace("NAME", name);
            let params = serde_json::from_str(&params).unwrap();
            let answer = ask(&server, Some("guest"), method, params);
            (answer.status, answer.body.replace(name, "NAME"))
        };
        assert_eq!(
            answer_for("secret-plans"),
            answer_for("secret-plant"),
            "{method} {params}"
        );
        let (_, own) = answer_for("public-notes");
        assert!(
            own != answer_for("secret-plans").1,
            "{method} {params}: {own}"
        );
    }
}

#[test]
fn client_sees_its_tools_and_no_others() {
    let reader = "tools = [\"read_skill\", \"count_*\"]";
    let tables = [("reader", reader), ("nothing", "tools = []\nskills = []")];
    let (server, _folders) = serve_teams(clients(&tables), |builder| builder);
    let tools = |client: &str| {
        let listed = ask(&server, Some(client), "tools/list", json!({})).json();
        let tools = listed["result"]["tools"].as_array().unwrap().clone();
        let name = |tool: Value| tool["name"].as_str().unwrap().to_owned();
        tools.into_iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(tools("reader"), ["read_skill", "count_lines"]);
    assert_eq!(tools("nothing"), [""; 0]);
    for (client, tool) in [
        ("reader", "list_skills"),
        ("reader", "read_skill_fil"),
        ("reader", "skill-resources"),
        ("nothing", "read_skill"),
    ] {
        let answer = call(
            &server,
            Some(client),
            tool,
            json!({"skill_name": "public-notes"}),
        );
        let unknown = call(&server, Some(client), "no_such", json!({}));
        let code = |answer: &Answer| answer.json()["error"]["code"].clone();
        assert_eq!(code(&answer), code(&unknown), "{client} {tool}: {answer:?}");
        assert!(!answer.body.contains("list_files"), "{answer:?}");
    }
    let read = call(
        &server,
        Some("reader"),
        "read_skill",
        json!({"skill_name": "secret-plans"}),
    );
    assert_eq!(read.text(), "# volcano\n");
    // Reading resources needs the tool `skill_resources` in the scope.
    let uri = json!({"uri": "skill://public-notes/SKILL.md"});
    for method in ["resources/read", "skills/get"] {
        let refused = ask(&server, Some("reader"), method, uri.clone()).json();
        assert_eq!(
            refused["error"]["message"],
            "this server serves no resources"
        );
        assert!(ask(&server, None, method, uri.clone()).json()["error"].is_null());
    }
    let prompts = ask(&server, Some("nothing"), "prompts/list", json!({})).json();
    assert_eq!(prompts["result"]["prompts"], json!([]));
}

#[test]
fn client_with_scope_has_no_home_folder() {
    let tables = [
        ("guest", "skills = [\"public-*\"]"),
        ("all", "tools = [\"read_*\"]"),
    ];
    let (server, _folders) = {
        let folders = teams();
        let builder = builder().skills(&folders.root).home(&folders.root);
        (TestServer::start(builder, clients(&tables)), folders)
    };
    let path = json!({"path": "secret-plans/SKILL.md"});
    let read = |client| call(&server, Some(client), "read_skill_file", path.clone()).body;
    assert!(read("all").contains("volcano"), "{}", read("all"));
    assert!(!read("guest").contains("volcano"), "{}", read("guest"));
}

#[test]
fn note_on_large_answer_names_no_hidden_tool() {
    let folders = teams();
    folders.write("public-notes/large.txt", "x".repeat(100_001));
    let tables = [
        ("narrow", "tools = [\"read_file_in_skill\"]"),
        ("wide", "tools = [\"read_*\"]"),
    ];
    let builder = builder().skills(&folders.root);
    let server = TestServer::start(builder, clients(&tables));
    let path = json!({"skill_name": "public-notes", "file_path": "large.txt"});
    for (client, is_named) in [("narrow", false), ("wide", true)] {
        let answer = call(&server, Some(client), "read_file_in_skill", path.clone());
        let content = answer.json()["result"]["content"].take();
        assert_eq!(content[0]["text"].as_str().unwrap().len(), 100_001);
        let note = content[1]["text"].as_str().unwrap();
        assert!(note.contains("100001 bytes"), "{note}");
        assert_eq!(
            note.contains("read_skill_file"),
            is_named,
            "{client}: {note}"
        );
    }
}

#[test]
fn session_belongs_to_its_client() {
    let (server, _folders) = serve_teams(clients(&[("one", ""), ("other", "")]), |builder| builder);
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let open = |client: Option<&str>| {
        let answer = ask(&server, client, "initialize", params.clone());
        answer.header("mcp-session-id").unwrap().to_owned()
    };
    let (of_one, of_other, of_nobody) = (open(Some("one")), open(Some("other")), open(None));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let status = |client: Option<&str>, id: &str| {
        let token = client.map_or(TOKEN.to_owned(), token_of);
        let list = Request::post(list.clone()).with("Mcp-Session-Id", id);
        let listen = Request::get("/mcp").with("Accept", "text/event-stream");
        let listen = listen.with("Mcp-Session-Id", id);
        let status = |request: Request| {
            let request = request.with("Authorization", &format!("Bearer {token}"));
            let mut connection = Client::connect(server.address);
            connection.send(&request.bytes());
            let head = connection.head().unwrap();
            head[9..12].parse::<u16>().unwrap()
        };
        let answered = status(list);
        assert_eq!(status(listen), answered, "{client:?} {id}");
        answered
    };
    let mut changed = of_one.clone().into_bytes();
    changed[0] ^= 1;
    let changed = String::from_utf8(changed).unwrap();
    for (client, id, known) in [
        (Some("one"), &of_one, true),
        (Some("other"), &of_other, true),
        (None, &of_nobody, true),
        (Some("other"), &of_one, false),
        (Some("one"), &of_other, false),
        (Some("one"), &of_nobody, false),
        (None, &of_one, false),
        (Some("one"), &changed, false),
        (Some("one"), &String::new(), false),
    ] {
        let expected = if known { 200 } else { 404 };
        assert_eq!(status(client, id), expected, "{client:?} {id}");
        // A handshake begins a new session, which belongs to its client.
        let token = client.map_or(TOKEN.to_owned(), token_of);
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let hello = Request::post(hello.to_string()).with("Mcp-Session-Id", id);
        let hello = hello.with("Authorization", &format!("Bearer {token}"));
        let answer = Client::once(server.address, &hello);
        let session = answer.header("mcp-session-id");
        let session = session.unwrap_or_else(|| panic!("{client:?} {id}: {answer:?}"));
        assert_eq!(status(client, session), 200, "{client:?} {id}");
    }
}

#[test]
fn audit_log_names_client_of_each_call() {
    let folders = teams();
    let log = folders.outside.join("audit.jsonl");
    let builder = builder().skills(&folders.root);
    let builder = builder.audit(&log, AuditMode::Required);
    let server = TestServer::start(builder, clients(&[("one", ""), ("other", "skills = []")]));
    for client in [Some("one"), Some("other"), None] {
        let read = json!({"skill_name": "public-notes"});
        assert_eq!(call(&server, client, "read_skill", read).status, 200);
    }
    let records = std::fs::read_to_string(log).unwrap();
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let named = |record: Value| {
        record
            .get("tool")
            .is_some()
            .then(|| record["client"].clone())
    };
    let named: Vec<Value> = records.filter_map(named).collect();
    assert_eq!(named, [json!("one"), json!("other"), Value::Null]);
}

#[test]
fn only_permitted_client_reads_metrics() {
    let tables = [("scraper", "metrics = true\ntools = []"), ("other", "")];
    let (server, _folders) = serve_teams(clients(&tables), |builder| builder);
    let metrics = Request::get("/metrics");
    for (client, status) in [("scraper", 200), ("other", 403)] {
        let answer = Client::once(server.address, &as_client(metrics.clone(), client));
        assert_eq!(answer.status, status, "{client}");
    }
    let unnamed = metrics.with("Authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(Client::once(server.address, &unnamed).status, 200);
}

#[test]
fn client_over_budget_learns_when_to_retry() {
    let tables = [
        ("few", "calls_per_minute = 3"),
        ("small", "bytes_per_minute = \"2KiB\""),
        ("free", ""),
    ];
    let (server, folders) = serve_teams(clients(&tables), |builder| builder);
    folders.write("public-notes/large.md", "x".repeat(10_000));
    let read = |client: &str| {
        let arguments = json!({"skill_name": "public-notes", "file_path": "large.md"});
        call(&server, Some(client), "read_file_in_skill", arguments)
    };
    for (client, answered, word) in [("few", 3, "requests"), ("small", 1, "bytes")] {
        for _ in 0..answered {
            assert_eq!(read(client).text().len(), 10_000, "{client}");
        }
        let refused = read(client).json();
        let error = &refused["error"];
        assert_eq!(error["code"], -32029, "{refused}");
        assert!(
            error["message"].as_str().unwrap().contains(word),
            "{refused}"
        );
        assert!(
            error["data"]["retryAfter"].as_u64().unwrap() >= 1,
            "{refused}"
        );
    }
    assert_eq!(read("free").text().len(), 10_000);
}

#[test]
fn waiting_requests_can_be_cancelled() {
    let tables = [("narrow", "calls = 1"), ("other", "")];
    let (server, _folders) = serve_teams(clients(&tables), |builder| builder);
    let endless = |id| {
        let arguments = json!({"skill_name": "public-notes", "path": "p"});
        as_client(Request::call(id, "raw_sleep", arguments), "narrow")
    };
    let mut first = Client::connect(server.address);
    first.send(&endless(1).bytes());
    wait_until("no call runs", || server.host.occupancy().running == 1);
    let mut second = Client::connect(server.address);
    second.send(&endless(2).bytes());
    let read = json!({"skill_name": "public-notes"});
    let answered = call(&server, Some("other"), "read_skill", read.clone());
    assert_eq!(answered.text(), "# meadow\n");
    assert_eq!(server.host.occupancy().running, 1);
    // A waiting client that leaves gives its turn to others.
    drop(second);
    drop(first);
    let answered = call(&server, Some("narrow"), "read_skill", read);
    assert_eq!(answered.text(), "# meadow\n");
}

/// An index whose searches run until their client has left and the test ends them.
struct EndlessIndex {
    begun: Sender<()>,
    abandoned: Sender<()>,
    end: Mutex<Receiver<()>>,
}

impl SkillIndex for EndlessIndex {
    fn update(&self, _: &Arc<Catalog>) {}

    fn search(&self, _: &str, _: usize, _: &dyn Fn(&str) -> bool) -> SearchResult {
        self.begun.send(()).unwrap();
        while !blocking::is_abandoned() {
            thread::park();
        }
        self.abandoned.send(()).unwrap();
        let _ = self.end.lock().unwrap().recv_timeout(patience());
        SearchResult::default()
    }
}

#[test]
fn search_of_client_that_left_keeps_its_turn() {
    let (begun, has_begun) = mpsc::channel();
    let (abandoned, is_abandoned) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let index = EndlessIndex {
        begun,
        abandoned,
        end: Mutex::new(ended),
    };
    let (server, _folders) = serve_teams(clients(&[("narrow", "calls = 1")]), |builder| {
        builder.index(Arc::new(index))
    });
    let search = || {
        let params = json!({"name": "find_skills", "arguments": {"query": "meadow"}});
        let mut connection = Client::connect(server.address);
        connection.send(&message(Some("narrow"), "tools/call", params).bytes());
        connection
    };
    let first = search();
    has_begun.recv_timeout(patience()).unwrap();
    let second = search();
    drop(first);
    is_abandoned.recv_timeout(patience()).unwrap();
    let next = has_begun.recv_timeout(Duration::from_millis(300));
    assert_eq!(next, Err(RecvTimeoutError::Timeout));
    end.send(()).unwrap();
    has_begun.recv_timeout(patience()).unwrap();
    drop(second);
    is_abandoned.recv_timeout(patience()).unwrap();
    drop(end);
}

#[test]
fn greedy_client_leaves_requests_to_others() {
    let mut options = clients(&[("greedy", ""), ("other", "")]);
    options.token = None;
    options.limits.requests = 8;
    options.limits.connections = 32;
    let (server, _folders) = serve_teams(options, |builder| builder);
    let arguments = json!({"skill_name": "public-notes", "path": "p"});
    let endless = as_client(Request::call(1, "raw_sleep", arguments), "greedy");
    let mut greedy = Vec::new();
    for _ in 0..40 {
        let mut connection = Client::connect(server.address);
        if connection.try_send(&endless.bytes()).is_ok() {
            greedy.push(connection);
        }
    }
    wait_until("not all calls of the greedy client run", || {
        server.host.occupancy().running == 4
    });
    for _ in 0..20 {
        let read = json!({"skill_name": "public-notes"});
        let answer = call(&server, Some("other"), "read_skill", read);
        assert_eq!(
            (answer.status, answer.text()),
            (200, "# meadow\n".to_owned())
        );
    }
    drop(greedy);
}

#[test]
fn skill_requests_wait_for_client_budget() {
    let tables = [("narrow", "calls = 1"), ("other", "")];
    let (server, _folders) = serve_teams(clients(&tables), |builder| builder);
    let endless = json!({"name": "raw_sleep", "arguments":
        {"skill_name": "public-notes", "path": "p"}});
    let mut first = Client::connect(server.address);
    first.send(&message(Some("narrow"), "tools/call", endless).bytes());
    wait_until("no call runs", || server.host.occupancy().running == 1);
    let read = json!({"name": "read_skill", "arguments": {"skill_name": "public-notes"}});
    let file = json!({"uri": "skill://public-notes/SKILL.md"});
    let mut asked = [
        ("tools/list", json!({})),
        ("tools/call", read),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "skills"})),
        ("resources/list", json!({})),
        ("resources/read", file.clone()),
        (
            "resources/directory/read",
            json!({"uri": "skill://public-notes"}),
        ),
        ("skills/list", json!({})),
        ("skills/get", file),
    ]
    .map(|(method, params)| {
        let mut connection = Client::connect(server.address);
        connection.send(&message(Some("narrow"), method, params.clone()).bytes());
        // Another client's request comes later, and is answered.
        for _ in 0..2 {
            let answer = ask(&server, Some("other"), method, params.clone()).json();
            assert!(answer["result"].is_object(), "{method}: {answer}");
        }
        (method, connection)
    });
    for (method, connection) in &mut asked {
        assert!(connection.is_open(), "{method} has not waited");
    }
    drop(first);
    for (method, mut connection) in asked {
        let answer = connection.answer().unwrap().json();
        assert!(answer["result"].is_object(), "{method}: {answer}");
    }
}
