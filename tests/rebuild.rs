//! A host that is rebuilt from another: what both share, what the new host keeps, and what it
//! loads again.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::json;
use skillhost::{AuditMode, CallError, Compilation, Grant, Host, HostBuilder, Limits, Load, Stop};

use crate::support::folders::Folders;
use crate::support::watchdog::until;
use crate::support::{UNREACHED, block_on, builder, guests, limits, model_text, on_two_threads};

/// Returns a builder without a cache, and the list of components that it compiles.
fn counting_builder(folders: &Folders) -> (HostBuilder, Arc<Mutex<Vec<String>>>) {
    let compiled = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&compiled);
    let builder = Host::builder()
        .skills(&folders.root)
        .tools(&folders.outside)
        .progress(move |name, what| {
            if what == Compilation::Started {
                told.lock().unwrap().push(name.to_owned());
            }
        });
    (builder, compiled)
}

fn copy(folders: &Folders, guest: &str, name: &str) {
    fs::copy(guests().join(guest), folders.outside.join(name)).unwrap();
}

fn tools(host: &Host) -> Vec<String> {
    let definitions = host.definitions().into_iter();
    definitions.map(|definition| definition.name).collect()
}

#[test]
fn only_changed_components_are_compiled_again() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    copy(&folders, "count_lines.wasm", "a.wasm");
    let (builder, compiled) = counting_builder(&folders);
    let first = block_on(builder.clone().build()).unwrap();
    assert!(tools(&first).contains(&"count_lines".to_owned()));
    compiled.lock().unwrap().clear();

    let same = block_on(builder.clone().rebuild(&first)).unwrap();
    assert_eq!(tools(&same), tools(&first));
    assert_eq!(*compiled.lock().unwrap(), [] as [String; 0]);

    copy(&folders, "unchecked.wasm", "b.wasm");
    let more = block_on(builder.clone().rebuild(&same)).unwrap();
    assert!(tools(&more).contains(&"raw_read".to_owned()));
    let path = folders.outside.join("b.wasm").display().to_string();
    assert_eq!(*compiled.lock().unwrap(), [path]);

    // The earlier hosts keep working.
    let arguments = json!({"skill_name": "a"});
    for host in [&first, &same, &more] {
        assert_eq!(model_text(host, "read_skill", arguments.clone()), "# A\n");
    }
    assert!(!tools(&first).contains(&"raw_read".to_owned()));
}

#[test]
fn repaired_component_file_is_loaded() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    copy(&folders, "count_lines.wasm", "a.wasm");
    let cache = folders.root.join("../cache");
    let builder = Host::builder()
        .skills(&folders.root)
        .tools(&folders.outside)
        .cache(&cache)
        .grant("a.wasm", Grant::new().skills(["*"]).unwrap());
    drop(block_on(builder.clone().build()).unwrap());
    // The code is in the cache. Remove it before the first call loads it.
    let first = block_on(builder.clone().build()).unwrap();
    for entry in fs::read_dir(&cache).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    fs::write(folders.outside.join("a.wasm"), "half a file").unwrap();
    let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
    let text = model_text(&first, "count_lines", arguments.clone());
    assert!(text.contains("it failed"), "{text}");
    copy(&folders, "count_lines.wasm", "a.wasm");
    let second = block_on(builder.rebuild(&first)).unwrap();
    let text = model_text(&second, "count_lines", arguments);
    assert!(!text.contains("ERROR"), "{text}");
}

#[test]
fn broken_component_keeps_its_earlier_tools() {
    let folders = Folders::new();
    copy(&folders, "count_lines.wasm", "a.wasm");
    let builder = builder()
        .tools(&folders.outside)
        .grant("a.wasm", Grant::new().skills(["*"]).unwrap());
    let first = block_on(builder.clone().build()).unwrap();
    fs::write(folders.outside.join("a.wasm"), "half a file").unwrap();
    let second = block_on(builder.clone().rebuild(&first)).unwrap();
    assert_eq!(tools(&second), tools(&first));
    let [problem] = second.problems() else {
        panic!("{:?}", second.problems());
    };
    assert!(problem.ends_with("its earlier tools remain"), "{problem}");
    // A new host has no earlier tools.
    let anew = block_on(builder.clone().build()).unwrap();
    assert!(!tools(&anew).contains(&"count_lines".to_owned()));

    fs::remove_file(folders.outside.join("a.wasm")).unwrap();
    let third = block_on(builder.rebuild(&second)).unwrap();
    assert!(!tools(&third).contains(&"count_lines".to_owned()));
    // A grant does not keep a removed component.
    let [problem] = third.problems() else {
        panic!("{:?}", third.problems());
    };
    assert!(
        problem.contains("grants something to `a.wasm`"),
        "{problem}"
    );
}

#[test]
fn earlier_host_works_if_folder_cannot_be_opened() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let builder = builder().tools(&folders.outside).skills(&folders.root);
    let first = block_on(builder.clone().build()).unwrap();
    fs::remove_dir_all(&folders.outside).unwrap();
    let error = block_on(builder.rebuild(&first)).err().unwrap();
    assert!(error.to_string().contains("cannot use the tools folder"));
    let arguments = json!({"skill_name": "a"});
    assert_eq!(model_text(&first, "read_skill", arguments), "# A\n");
}

#[test]
fn both_hosts_share_limits_and_log() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let mut load = Load::default();
    (load.calls, load.queue) = (1, 0);
    let log = folders.outside.join("audit.jsonl");
    let builder = crate::support::builder_with_guests()
        .skills(&folders.root)
        .limits(limits(UNREACHED))
        .load(load)
        .audit(&log, AuditMode::Required);
    on_two_threads(async {
        let first = builder.clone().build().await.unwrap();
        // The host must load components even while calls have every slot.
        let busy = first.clone();
        let sleeping = tokio::spawn(async move {
            let arguments = json!({"skill_name": "a", "path": ""});
            busy.call("raw_sleep", arguments).await
        });
        until("no guest started", || first.occupancy().running == 1).await;
        let second = builder.rebuild(&first).await.unwrap();
        assert_eq!(second.problems(), [] as [String; 0]);
        let refused = second.call("list_skills", json!({})).await;
        let is_busy = matches!(
            &refused,
            Err(CallError::Stopped {
                stop: Stop::Busy,
                ..
            })
        );
        assert!(is_busy, "{refused:?}");
        sleeping.abort();
        assert!(sleeping.await.unwrap_err().is_cancelled());
        assert!(second.call("list_skills", json!({})).await.is_ok());
    });
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 3);
}

#[test]
fn host_with_more_memory_than_engine_is_refused() {
    let first = block_on(builder().build()).unwrap();
    let mut limits = Limits::default();
    limits.memory *= 2;
    let error = block_on(builder().limits(limits).rebuild(&first))
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("more memory than the"),
        "{error}"
    );
}
