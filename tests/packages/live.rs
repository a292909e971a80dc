//! A running server loads changed packages. It keeps serving the old packages if it cannot load the
//! new ones.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, mpsc};

use serde_json::{Value, json};
use skillhost::{Compilation, Grant, Host, HostBuilder};
use skillhost_mcp::{DeniedPackages, LiveHost, LiveSettings, ReadSettings, WatchedFile};
use skillhost_skills::text::digest::sha256_hex;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;
use crate::support::folders::Folders;
use crate::support::mcp::{Client, NEWEST, REVISIONS, server};
use crate::support::process::Process;
use crate::support::watchdog::{self, wait_until};
use crate::support::{http, repository};

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const UNCHANGED: &str = "all tools stay as they were: ";

/// Starts a server on stdin and stdout for a user, and waits until it can be called.
pub(super) fn serve(user: &User, revision: &'static str) -> Client {
    let mut command = server(user.program.folder.path());
    command.env("XDG_DATA_HOME", user.path("data"));
    let mut client = Client::start_session(command, revision);
    client.wait_for_components();
    client.request("tools/list", json!({}));
    client
}

pub(super) fn has_tool(client: &mut Client, name: &str) -> bool {
    let listed = client.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().any(|tool| tool["name"] == name)
}

/// Starts a server over HTTP, and returns its address.
pub(super) fn serve_http(user: &User) -> (Process, SocketAddr) {
    let mut command = server(user.program.folder.path());
    command
        .args(["--http", "127.0.0.1:0"])
        .env("XDG_DATA_HOME", user.path("data"))
        .stderr(Stdio::null());
    let mut process = Process::start(&mut command);
    let address = process.first_line();
    let address = address.strip_prefix("http://").unwrap();
    let address = address.strip_suffix("/mcp").unwrap().parse().unwrap();
    (process, address)
}

fn count(client: &mut Client) -> Value {
    let arguments = json!({"skill_name": "calculator", "path": "SKILL.md"});
    client.call("count_lines", arguments)
}

#[test]
fn running_server_follows_changed_components() {
    for revision in REVISIONS {
        let user = User::new();
        let mut client = serve(&user, revision);
        let subscribe = |client: &mut Client| {
            if revision == NEWEST {
                let tools = json!({"notifications": {"toolsListChanged": true}});
                client.send("subscriptions/listen", tools);
                client.message_with_method("notifications/subscriptions/acknowledged");
            }
        };
        subscribe(&mut client);
        assert!(!has_tool(&mut client, "count_lines"));
        user.push(&count_lines(), None);
        user.run_ok(&["add", &user.reference()]);
        client.message_with_method(TOOLS_CHANGED);
        assert!(has_tool(&mut client, "count_lines"));
        // An added component has no grant.
        let refused = count(&mut client);
        assert!(
            refused.to_string().contains("not allowed to read"),
            "{refused}"
        );
        user.append(GRANT);
        wait_until("the grant does not apply", || {
            count(&mut client)["isError"] == false
        });
        let other =
            fs::read(repository().join("guest-tools/examples/dist/search_in_skill.wasm")).unwrap();
        user.push(&other, None);
        user.run_ok(&["update"]);
        client.message_with_method(TOOLS_CHANGED);
        assert!(has_tool(&mut client, "search_in_skill"));
        assert!(!has_tool(&mut client, "count_lines"));
        user.run_ok(&["remove", "csv"]);
        client.message_with_method(TOOLS_CHANGED);
        assert!(!has_tool(&mut client, "search_in_skill"));
        assert!(!client.stderr().contains(UNCHANGED), "{}", client.stderr());
        assert_eq!(client.end().1, Some(0));
    }
}

fn read(client: &mut Client, skill: &str) -> String {
    client
        .call("read_skill", json!({ "skill_name": skill }))
        .to_string()
}

/// Waits until a skill has this text.
fn wait_for(client: &mut Client, skill: &str, text: &str) {
    wait_until(&format!("{skill} has no `{text}`"), || {
        read(client, skill).contains(text)
    });
}

const NO_SKILL: &str = "Skill 'report' not found";

const SKILLS_CHANGED: &str = "notifications/resources/list_changed";

#[test]
fn running_server_follows_changed_skills() {
    for revision in REVISIONS {
        let user = User::new();
        user.push_skill_version("1.0.0", None);
        let mut client = serve(&user, revision);
        if revision == NEWEST {
            let resources = json!({"notifications": {"resourcesListChanged": true}});
            client.send("subscriptions/listen", resources);
            client.message_with_method("notifications/subscriptions/acknowledged");
        }
        assert!(read(&mut client, "report").contains(NO_SKILL));
        user.add_skill();
        client.message_with_method(SKILLS_CHANGED);
        assert!(read(&mut client, "report").contains("# Report 1.0.0"));
        user.push_skill_version("1.1.0", None);
        user.run_ok(&["update"]);
        client.message_with_method(SKILLS_CHANGED);
        assert!(read(&mut client, "report").contains("# Report 1.1.0"));
        user.run_ok(&["rollback", "report"]);
        client.message_with_method(SKILLS_CHANGED);
        assert!(read(&mut client, "report").contains("# Report 1.0.0"));
        user.run_ok(&["remove", "--skill", "report"]);
        client.message_with_method(SKILLS_CHANGED);
        assert!(read(&mut client, "report").contains(NO_SKILL));
        assert!(!client.stderr().contains(UNCHANGED), "{}", client.stderr());
        assert_eq!(client.end().1, Some(0));
    }
}

#[test]
fn running_server_drops_skills_that_differ_from_lock() {
    let user = User::new();
    user.push_skill_version("1.0.0", None);
    user.add_skill();
    let mut client = serve(&user, NEWEST);
    assert!(read(&mut client, "report").contains("# Report 1.0.0"));
    // Write another digest of SKILL.md into the lock file.
    let lock = user.lock();
    let line = lock.lines().find(|line| line.starts_with("\"SKILL.md\""));
    let other = format!("\"SKILL.md\" = \"sha256:{}\"", "0".repeat(64));
    user.program
        .write("skillhost.lock", lock.replace(line.unwrap(), &other));
    client.wait_until_logged("the skill `report` is not served: ");
    wait_for(&mut client, "report", NO_SKILL);
    assert!(read(&mut client, "calculator").contains("# One"));
    user.program.write("skillhost.lock", &lock);
    wait_for(&mut client, "report", "# Report 1.0.0");
    // Change a file in the store. The server reads it again when a package changes.
    let file = user.unpacked().join("SKILL.md");
    set_mode(&file, 0o644);
    fs::write(&file, "# Changed\n").unwrap();
    user.push(&count_lines(), None);
    user.run_ok(&["add", &user.reference()]);
    wait_for(&mut client, "report", NO_SKILL);
    assert!(
        client
            .stderr()
            .contains("`report/SKILL.md` has other bytes"),
        "{}",
        client.stderr()
    );
    wait_until("the new component is not served", || {
        has_tool(&mut client, "count_lines")
    });
    assert!(user.run_ok(&["fetch"]).contains("report: unpacked again\n"));
    wait_for(&mut client, "report", "# Report 1.0.0");
    let digest = lock_value(&user.lock(), "content", 1);
    user.run_ok(&["deny", &digest, "--why", "it leaks"]);
    wait_for(&mut client, "report", NO_SKILL);
    let why = format!("`[deny]` refuses {digest}: it leaks");
    assert!(client.stderr().contains(&why), "{}", client.stderr());
    assert!(has_tool(&mut client, "count_lines"));
    assert!(!client.stderr().contains(UNCHANGED), "{}", client.stderr());
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn no_folder_gets_name_of_locked_skill() {
    let user = User::new();
    user.push_skill_version("1.0.0", None);
    user.add_skill();
    let mut client = serve(&user, NEWEST);
    wait_for(&mut client, "report", "# Report 1.0.0");
    user.program.write("skills/report/SKILL.md", "# Mine\n");
    user.append("# a comment\n");
    client.wait_until_logged("there is another skill `report` in `/");
    assert!(read(&mut client, "report").contains("# Report 1.0.0"));
    user.push_skill_version("1.1.0", None);
    user.run_ok(&["update"]);
    wait_for(&mut client, "report", "# Report 1.1.0");
    // This holds even while the locked skill is not served.
    let [config, lock] = user.files().map(Option::unwrap);
    let digest = lock_value(&lock, "content", 0);
    let other = format!("sha256:{}", "0".repeat(64));
    for (file, text, why) in [
        (
            "skillhost.lock",
            lock.replace(&digest, &other),
            "is not in the store",
        ),
        (
            "skillhost.toml",
            format!("{config}[deny]\n\"{digest}\" = \"it leaks\"\n"),
            "it leaks",
        ),
        (
            "skillhost.toml",
            config.replace("/acme/report:1", "/acme/report:2"),
            "is locked from",
        ),
    ] {
        user.program.write(file, &text);
        client.wait_until_logged(why);
        wait_for(&mut client, "report", NO_SKILL);
        let listed = client.call("list_skills", json!({})).to_string();
        assert!(!listed.contains("report"), "{listed}");
        user.program.write("skillhost.toml", &config);
        user.program.write("skillhost.lock", &lock);
        wait_for(&mut client, "report", "# Report 1.1.0");
    }
    // Without the package, the folder gets the name.
    user.run_ok(&["remove", "--skill", "report"]);
    wait_for(&mut client, "report", "# Mine");
    assert!(!client.stderr().contains(UNCHANGED), "{}", client.stderr());
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn running_server_keeps_components_when_lock_is_invalid() {
    let user = User::new();
    user.new_key("acme");
    user.push(&count_lines(), Some("acme"));
    let pattern = format!("oci://{}/acme/*", user.registry.authority);
    user.append(&format!(
        "[trust.\"{pattern}\"]\nkeys = [\"acme.pub\"]\n{GRANT}"
    ));
    user.run_ok(&["add", &user.reference()]);
    let mut client = serve(&user, NEWEST);
    assert_eq!(count(&mut client)["isError"], false);
    let [config, lock] = user.files().map(Option::unwrap);
    let key = fs::read_to_string(user.path("acme.pub")).unwrap();
    let digest = |key: &str| {
        let start = format!("{key} = \"sha256:");
        let line = lock.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap().trim_matches('"').to_owned()
    };
    let none = "0".repeat(64);
    user.new_key("other");
    let other_key = fs::read_to_string(user.path("other.pub")).unwrap();
    let mut lines = 0;
    for (file, text, why) in [
        (
            "skillhost.lock",
            "[[component]]\nname = 1\n".to_owned(),
            "invalid type",
        ),
        (
            "skillhost.lock",
            String::new(),
            "the component `csv` is not locked",
        ),
        (
            "skillhost.lock",
            lock.replace(&digest("content"), &none),
            "the component `csv` is not in the store",
        ),
        (
            "skillhost.lock",
            lock.replace(&digest("content"), &digest("manifest")),
            "names other bytes than the lock file",
        ),
        ("skillhost.toml", format!("{config}[x"), "skillhost.toml"),
        (
            "acme.pub",
            other_key,
            "the signature of the component `csv` is not valid",
        ),
    ] {
        user.program.write(file, &text);
        lines += 1;
        wait_until(&format!("{why}: {}", client.stderr()), || {
            client.stderr().matches(UNCHANGED).count() == lines
        });
        let stderr = client.stderr();
        let last = stderr
            .lines()
            .rfind(|line| line.contains(UNCHANGED))
            .unwrap();
        assert!(last.contains(why), "{why}: {last}");
        assert_eq!(count(&mut client)["isError"], false);
        for (file, text) in [
            ("skillhost.lock", &lock),
            ("skillhost.toml", &config),
            ("acme.pub", &key),
        ] {
            user.program.write(file, text);
        }
        // The files are valid again, so the server applies a changed grant.
        user.program.write(
            "skillhost.toml",
            config.replace("[\"calculator\"]", "[\"none\"]"),
        );
        wait_until("the earlier grant still applies", || {
            count(&mut client)["isError"] == true
        });
        user.program.write("skillhost.toml", &config);
        wait_until("the grant does not apply", || {
            count(&mut client)["isError"] == false
        });
        assert_eq!(client.stderr().matches(UNCHANGED).count(), lines);
    }
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn running_server_drops_denied_components() {
    let user = User::new();
    user.push(&count_lines(), None);
    user.run_ok(&["add", &user.reference()]);
    let mut client = serve(&user, NEWEST);
    assert!(has_tool(&mut client, "count_lines"));
    let lock = user.files()[1].clone().unwrap();
    let line = lock.lines().find_map(|it| it.strip_prefix("content = "));
    let digest = line.unwrap().trim_matches('"');
    user.run_ok(&["deny", digest, "--why", "it deletes tables"]);
    client.wait_until_logged(&format!(
        "stopped serving the component `csv`: `[deny]` refuses {digest}: it deletes tables"
    ));
    wait_until("the component is not dropped", || {
        !has_tool(&mut client, "count_lines")
    });
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn running_server_drops_denied_packages_despite_other_mistakes() {
    let missing = "oci://localhost:1/acme/new:1";
    let component = format!("[components.new]\nsource = \"{missing}\"\n");
    let memory = "[grants.\"csv.wasm\"]\nlimits.memory = \"2 GiB\"\n";
    for (wrong, why) in [
        (&*component, "the component `new` is not locked"),
        (memory, "the new limits allow calls more memory than the"),
    ] {
        let user = User::new();
        let tools = user.path("tools");
        fs::create_dir(&tools).unwrap();
        let config = user.files()[0].clone().unwrap();
        user.program
            .write("skillhost.toml", format!("tools = [\"tools\"]\n{config}"));
        user.push(&count_lines(), None);
        user.run_ok(&["add", &user.reference()]);
        user.push_skill_version("1.0.0", None);
        user.add_skill();
        let mut client = serve(&user, NEWEST);
        user.append(wrong);
        client.wait_until_logged(why);
        assert!(!client.stderr().contains("stopped serving"));
        let lock = user.lock();
        user.run(&[
            "deny",
            &lock_value(&lock, "content", 0),
            "--why",
            "it deletes",
        ]);
        client.wait_until_logged("stopped serving the component `csv`: `[deny]` refuses sha256:");
        assert!(!has_tool(&mut client, "count_lines"));
        assert!(read(&mut client, "report").contains("# Report 1.0.0"));
        user.run(&[
            "deny",
            &lock_value(&lock, "manifest", 1),
            "--why",
            "it leaks",
        ]);
        client.wait_until_logged("stopped serving the skill `report`: `[deny]` refuses sha256:");
        assert!(read(&mut client, "report").contains(NO_SKILL));
        // A changed tools folder does not bring the component back, and no folder gets the skill's
        // name.
        user.program.write("skills/report/SKILL.md", "# Mine\n");
        let other = repository().join("guest-tools/examples/dist/search_in_skill.wasm");
        fs::copy(other, tools.join("other.wasm")).unwrap();
        wait_until("the other component is not served", || {
            has_tool(&mut client, "search_in_skill")
        });
        assert!(read(&mut client, "report").contains(NO_SKILL));
        assert!(!has_tool(&mut client, "count_lines"));
        let stderr = client.stderr();
        assert_eq!(stderr.matches("stopped serving").count(), 2, "{stderr}");
        let [config, _] = user.files().map(Option::unwrap);
        fs::remove_dir_all(user.path("skills/report")).unwrap();
        let good = config.replace(wrong, "");
        let (good, _) = good.split_once("[deny]").unwrap();
        user.program.write("skillhost.toml", good);
        wait_until("the component is not served again", || {
            has_tool(&mut client, "count_lines")
        });
        wait_for(&mut client, "report", "# Report 1.0.0");
        assert_eq!(client.end().1, Some(0));
    }
}

#[test]
fn running_server_drops_denied_folder_components_despite_mistakes() {
    let deny = format!(
        "[deny]\n\"sha256:{}\" = \"it leaks\"\n",
        sha256_hex(&count_lines())
    );
    for (top, end) in [
        (
            "",
            "[components.new]\nsource = \"oci://localhost:1/acme/new:1\"\n",
        ),
        ("skillz = 1\n", ""),
        ("require_pins = 1\n", ""),
        ("", "\"sha256:x\" = \"\"\n"),
        ("", "\"no digest\" = 1\n"),
        ("", "[trust]\n\"*\" = 1\n"),
    ] {
        let user = User::new();
        let tools = user.path("tools");
        fs::create_dir(&tools).unwrap();
        fs::write(tools.join("csv.wasm"), count_lines()).unwrap();
        let config = user.files()[0].clone().unwrap();
        let good = format!("tools = [\"tools\"]\n{config}{GRANT}");
        user.program.write("skillhost.toml", &good);
        let mut client = serve(&user, NEWEST);
        assert!(has_tool(&mut client, "count_lines"));
        let wrong = format!("{top}{good}{deny}{end}");
        user.program.write("skillhost.toml", &wrong);
        client.wait_until_logged(
            "stopped serving the component `csv.wasm`: `[deny]` refuses sha256:",
        );
        assert!(!has_tool(&mut client, "count_lines"), "{wrong}");
        client.wait_until_logged("tools stay as they were: ");
        assert!(!has_tool(&mut client, "count_lines"), "{wrong}");
        assert_eq!(client.end().1, Some(0));
    }
}

#[test]
fn denials_wait_for_no_compilation() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let (cache, settings) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tools = folders.outside.clone();
    fs::write(tools.join("csv.wasm"), count_lines()).unwrap();
    let (start, started) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let (start, resumed) = (Mutex::new(start), Mutex::new(resumed));
    let builder = Host::builder()
        .skills(&folders.root)
        .cache(cache.path())
        .tools(&tools)
        .grant("csv.wasm", Grant::new().skills(["*"]).unwrap());
    let runtime = Runtime::new().unwrap();
    drop(runtime.block_on(builder.clone().build()).unwrap());
    let other = repository().join("guest-tools/examples/dist/search_in_skill.wasm");
    fs::copy(other, tools.join("other.wasm")).unwrap();
    let builder = builder.progress(move |name, compilation| {
        if name.ends_with("other.wasm") && compilation == Compilation::Started {
            start.lock().unwrap().send(()).unwrap();
            let resumed = resumed.lock().unwrap();
            resumed.recv_timeout(watchdog::patience()).unwrap();
        }
    });
    let file = settings.path().join("deny");
    fs::write(&file, "").unwrap();
    let list = file.clone();
    let denied = move |_: &HostBuilder, _: &Host| {
        let names = fs::read_to_string(&list)?;
        Ok(DeniedPackages {
            components: names.lines().map(str::to_owned).collect(),
            ..DeniedPackages::default()
        })
    };
    let read = |builder| {
        Ok(ReadSettings {
            builder,
            messages: Vec::new(),
        })
    };
    let live = LiveHost::new(builder).with_settings(LiveSettings {
        files: vec![WatchedFile::new(&file)],
        read: Box::new(read),
        denied: Box::new(denied),
    });
    let live = Arc::new(live);
    let has = |tool| live.loaded().unwrap().definition(tool).is_some();
    let _entered = runtime.enter();
    let _watch = live.watch().unwrap();
    let loading = runtime.spawn({
        let live = Arc::clone(&live);
        async move { live.load().await.map(drop) }
    });
    runtime.block_on(live.serving());
    started.recv_timeout(watchdog::patience()).unwrap();
    assert!(has("count_lines") && !has("search_in_skill"));
    fs::write(&file, "csv.wasm\n").unwrap();
    wait_until("the denial waits for the compilation", || {
        !has("count_lines")
    });
    resume.send(()).unwrap();
    runtime.block_on(loading).unwrap().unwrap();
    assert!(has("search_in_skill") && !has("count_lines"));
}

#[test]
fn running_server_drops_component_that_new_pin_excludes() {
    let user = User::new();
    let tools = user.path("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("csv.wasm"), count_lines()).unwrap();
    let config = user.files()[0].clone().unwrap();
    user.program.write(
        "skillhost.toml",
        format!("tools = [\"tools\"]\n{config}{GRANT}"),
    );
    let mut client = serve(&user, NEWEST);
    assert_eq!(count(&mut client)["isError"], false);
    user.append(&format!("[pins]\n\"csv.wasm\" = \"{}\"\n", "0".repeat(64)));
    wait_until("the component is kept", || {
        !has_tool(&mut client, "count_lines")
    });
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn running_server_grants_no_new_requests() {
    let user = User::new();
    user.push(&count_lines(), None);
    let mut client = serve(&user, NEWEST);
    let rule = "network = [\"GET https://api.example.org/*\"]\n";
    user.append(&format!("{GRANT}{rule}"));
    user.run_ok(&["add", &user.reference(), "--config", "skillhost.toml"]);
    client
        .wait_until_logged("the requests of `csv.wasm` are granted as before; restart the server");
    wait_until("the component is not loaded", || {
        has_tool(&mut client, "count_lines")
    });
    assert_eq!(count(&mut client)["isError"], false);
    assert_eq!(client.end().1, Some(0));
}

#[test]
fn http_server_loads_added_components() {
    let user = User::new();
    user.push(&count_lines(), None);
    let (_server, address) = serve_http(&user);
    let ask = || {
        let arguments = json!({"skill_name": "calculator", "path": "SKILL.md"});
        let request = http::Request::call_2026(1, "count_lines", arguments);
        http::Client::once(address, &request).body
    };
    assert!(ask().contains("unknown tool"));
    user.append(GRANT);
    user.run_ok(&["add", &user.reference()]);
    wait_until("the component is not loaded", || {
        !ask().contains("unknown tool")
    });
    assert!(ask().contains("\"isError\":false"), "{}", ask());
}
