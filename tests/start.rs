//! The start of a host: tools known before their components load, components that the first call
//! loads, and a damaged cache.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use skillhost::{CallError, Compilation, Grant, Host, HostBuilder, Limits, Stop};

use crate::support::folders::Folders;
use crate::support::{block_on, build, call, guests, model_text, on_two_threads};

/// The folders of a host, its cache, and the names of the components that it compiled.
struct Start {
    folders: Folders,
    cache: tempfile::TempDir,
    compiled: Arc<Mutex<Vec<String>>>,
}

impl Start {
    fn new() -> Self {
        let folders = Folders::new();
        folders.write("a/SKILL.md", "# A\n");
        Self {
            folders,
            cache: tempfile::tempdir().unwrap(),
            compiled: Arc::default(),
        }
    }

    /// Adds a third-party component with one tool, `count_lines`.
    fn with_third_party(self) -> Self {
        fs::copy(guests().join("count_lines.wasm"), self.third_party()).unwrap();
        self
    }

    fn third_party(&self) -> PathBuf {
        self.folders.outside.join("third_party.wasm")
    }

    fn builder(&self) -> HostBuilder {
        let compiled = Arc::clone(&self.compiled);
        let grant = Grant::new().skills(["*"]).unwrap();
        let builder = Host::builder()
            .skills(&self.folders.root)
            .cache(self.cache.path())
            .progress(move |name, compilation| {
                if compilation == Compilation::Started {
                    compiled.lock().unwrap().push(name.to_owned());
                }
            });
        if !self.third_party().exists() {
            return builder;
        }
        builder
            .tools(&self.folders.outside)
            .grant("third_party.wasm", grant)
    }

    /// Returns the components that were compiled since the last call of this function.
    fn take_compiled(&self) -> Vec<String> {
        std::mem::take(&mut *self.compiled.lock().unwrap())
    }

    /// Returns the cache entries with this file extension.
    fn entries(&self, kind: &str) -> Vec<PathBuf> {
        let mut entries: Vec<_> = fs::read_dir(self.cache.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == kind))
            .collect();
        entries.sort();
        entries
    }
}

const NOTHING: [&str; 0] = [];

fn count_lines() -> Value {
    json!({"skill_name": "a", "path": "SKILL.md"})
}

fn read_skill() -> Value {
    json!({"skill_name": "a"})
}

fn make_writable_by_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

#[test]
fn compiles_only_the_component_of_a_call() {
    let start = Start::new();
    let host = build(start.builder());
    assert_eq!(host.definitions().len(), 6);
    let wrong = call(&host, "read_skill", json!({"skill_name": 1}));
    assert!(matches!(wrong, Err(CallError::Arguments(_))), "{wrong:?}");
    assert_eq!(start.take_compiled(), NOTHING);
    for _ in 0..2 {
        assert_eq!(model_text(&host, "read_skill", read_skill()), "# A\n");
    }
    assert_eq!(start.take_compiled(), ["read_skill"]);
    // The next host finds the component in the cache.
    let next = build(start.builder());
    assert_eq!(model_text(&next, "read_skill", read_skill()), "# A\n");
    assert_eq!(start.take_compiled(), NOTHING);
    assert_eq!(next.definitions(), host.definitions());
}

#[test]
fn prepare_compiles_every_component_before_the_first_call() {
    let start = Start::new().with_third_party();
    let host = build(start.builder());
    assert_eq!(
        start.take_compiled(),
        [start.third_party().to_str().unwrap()]
    );
    assert_eq!(model_text(&host, "read_skill", read_skill()), "# A\n");
    start.take_compiled();
    block_on(host.prepare());
    let mut compiled = start.take_compiled();
    compiled.sort();
    assert_eq!(
        compiled,
        [
            "get_skill",
            "list_files_in_skill",
            "list_skills",
            "read_file_in_skill",
            "read_skill_file",
            "skill_resources"
        ]
    );
    block_on(build(start.builder()).prepare());
    assert_eq!(start.take_compiled(), NOTHING);
}

#[test]
fn leaves_out_uncompiled_components_until_completed() {
    let start = Start::new().with_third_party();
    let compiled = block_on(start.builder().build_compiled()).unwrap();
    assert!(!compiled.is_complete());
    assert!(compiled.definition("count_lines").is_none());
    assert_eq!(start.take_compiled(), NOTHING);
    let host = block_on(start.builder().complete(&compiled)).unwrap();
    assert!(host.is_complete());
    assert_eq!(
        start.take_compiled(),
        [start.third_party().to_str().unwrap()]
    );
    let counted = model_text(&host, "count_lines", count_lines());
    assert!(counted.starts_with("1 lines"), "{counted}");
    // The next host finds the component in the cache.
    let next = block_on(start.builder().build_compiled()).unwrap();
    assert!(next.is_complete());
    assert_eq!(next.definitions(), host.definitions());
}

#[test]
fn lists_declared_tools_until_component_is_loaded() {
    for (change, is_listed) in [
        ("", true),
        ("description", true),
        ("component", false),
        ("tools", false),
        ("built-in", false),
        ("mode", false),
        ("pin", false),
    ] {
        let start = Start::new().with_third_party();
        let inspection = block_on(skillhost::Inspector::of(start.third_party()).run()).unwrap();
        let mut file: Value = serde_json::from_str(&inspection.tools_file().unwrap()).unwrap();
        match change {
            "description" => file["tools"][0]["description"] = "Other.".into(),
            "component" => file["component"] = "0".repeat(64).into(),
            "tools" => file["tools"][0]["name"] = "not a name".into(),
            "built-in" => file["tools"][0]["name"] = "list_skills".into(),
            _ => {}
        }
        let tools_file = start.third_party().with_extension("tools.json");
        fs::write(&tools_file, file.to_string()).unwrap();
        if change == "mode" {
            make_writable_by_all(&tools_file);
        }
        let builder = match change {
            "pin" => start.builder().pin("third_party.wasm", &inspection.digest),
            _ => start.builder(),
        };
        let compiled = block_on(builder.clone().build_compiled()).unwrap();
        assert!(!compiled.is_complete());
        let listed = compiled.definition("count_lines");
        let description = listed.map(|tool| tool.description.as_str());
        assert_eq!(description.is_some(), is_listed, "{change}");
        assert_eq!(description == Some("Other."), change == "description");
        assert_eq!(start.take_compiled(), NOTHING);
        let host = block_on(builder.complete(&compiled)).unwrap();
        assert!(host.is_complete());
        assert_eq!(
            start.take_compiled(),
            [start.third_party().to_str().unwrap()]
        );
        assert_eq!(
            host.definition("count_lines"),
            inspection.tools.unwrap().first()
        );
        let problems = host.problems().join("; ");
        assert_eq!(
            problems.contains("serving the component's own tools"),
            change == "description"
        );
    }
}

#[test]
fn declared_tools_do_not_replace_loaded_tools() {
    let start = Start::new().with_third_party();
    block_on(start.builder().build()).unwrap();
    let other = start.folders.outside.join("other.wasm");
    fs::copy(guests().join("unchecked.wasm"), &other).unwrap();
    let inspection = block_on(skillhost::Inspector::of(&other).run()).unwrap();
    let mut file: Value = serde_json::from_str(&inspection.tools_file().unwrap()).unwrap();
    file["tools"][0]["name"] = "count_lines".into();
    fs::write(other.with_extension("tools.json"), file.to_string()).unwrap();
    let builder = start.builder().grant("other.wasm", Grant::new());
    let compiled = block_on(builder.clone().build_compiled()).unwrap();
    assert!(!compiled.is_complete());
    let host = block_on(builder.complete(&compiled)).unwrap();
    assert!(host.is_complete());
    for tool in ["count_lines", "raw_read"] {
        assert!(host.definition(tool).is_some(), "{:?}", host.problems());
    }
}

#[test]
fn only_granted_component_serves_duplicate_tool() {
    // Two components define the same tool. Only the first is in the cache.
    for (granted, is_served_early, is_served) in [
        (Some("a.wasm"), true, true),
        (Some("b.wasm"), false, true),
        (None, false, false),
    ] {
        let start = Start::new();
        let tools = &start.folders.outside;
        let mut component = fs::read(guests().join("count_lines.wasm")).unwrap();
        fs::write(tools.join("a.wasm"), &component).unwrap();
        let builder = start.builder().tools(tools);
        block_on(builder.clone().build()).unwrap();
        // An appended custom section makes it another component.
        component.extend(b"\0\x02\x01x");
        fs::write(tools.join("b.wasm"), &component).unwrap();
        let grant = Grant::new().skills(["*"]).unwrap();
        let builder = match granted {
            Some(file) => builder.grant(file, grant),
            None => builder,
        };
        let has_tool = |host: &Host| host.definition("count_lines").is_some();
        let compiled = block_on(builder.clone().build_compiled()).unwrap();
        assert_eq!(has_tool(&compiled), is_served_early, "{granted:?}");
        let host = block_on(builder.clone().complete(&compiled)).unwrap();
        assert_eq!(has_tool(&host), is_served, "{granted:?}");
        let direct = block_on(builder.build()).unwrap();
        assert_eq!(host.problems(), direct.problems(), "{granted:?}");
    }
}

#[test]
fn simultaneous_first_calls_compile_once() {
    let start = Start::new();
    let host = build(start.builder());
    on_two_threads(async {
        // This call is cancelled once it waits.
        tokio::select! {
            biased;
            ended = host.call("read_skill", read_skill()) => panic!("{ended:?}"),
            () = async {} => {}
        }
        let calls = (0..20).map(|_| {
            let host = host.clone();
            tokio::spawn(async move { host.call("read_skill", read_skill()).await })
        });
        let calls: Vec<_> = calls.collect();
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap().text(), "# A\n");
        }
    });
    assert_eq!(start.take_compiled(), ["read_skill"]);
}

#[test]
fn loads_a_third_party_component_only_once() {
    let start = Start::new().with_third_party();
    let third_party = start.third_party().to_str().unwrap().to_owned();
    let first = build(start.builder());
    assert_eq!(start.take_compiled(), [&*third_party]);
    assert_eq!(start.entries("tools").len(), 1);
    let next = build(start.builder());
    assert_eq!(next.definitions(), first.definitions());
    for host in [&first, &next] {
        let text = model_text(host, "count_lines", count_lines());
        assert_eq!(text, "1 lines in SKILL.md of a");
    }
    assert_eq!(start.take_compiled(), NOTHING);
    // Another file with the same name is another component.
    let mut bytes = fs::read(start.third_party()).unwrap();
    // Append an empty custom section.
    bytes.extend([0, 2, 1, b'x']);
    fs::write(start.third_party(), bytes).unwrap();
    build(start.builder());
    assert_eq!(start.take_compiled(), [&*third_party]);
}

/// Damages an entry of the cache.
type Damage = fn(&Path);

#[test]
fn replaces_damaged_cache_entries() {
    let damages: [(&str, Damage); 5] = [
        ("cwasm", |entry| fs::write(entry, "no code").unwrap()),
        ("cwasm", |entry| {
            let mut code = fs::read(entry).unwrap();
            let middle = code.len() / 2;
            code[middle] ^= 1;
            fs::write(entry, code).unwrap();
        }),
        ("cwasm", make_writable_by_all),
        ("tools", |entry| {
            let definitions = fs::read_to_string(entry);
            // An entry ends with a checksum, which may not be UTF-8.
            let definitions = definitions.unwrap_or_else(|_| "[]".to_owned());
            fs::write(entry, definitions.replace("Count", "Forget")).unwrap();
        }),
        ("tools", make_writable_by_all),
    ];
    for (kind, damage) in damages {
        let start = Start::new().with_third_party();
        let first = build(start.builder());
        assert_eq!(model_text(&first, "read_skill", read_skill()), "# A\n");
        start.take_compiled();
        for entry in start.entries(kind) {
            damage(&entry);
        }
        let next = build(start.builder());
        assert_eq!(next.definitions(), first.definitions());
        assert_eq!(model_text(&next, "read_skill", read_skill()), "# A\n");
        let text = model_text(&next, "count_lines", count_lines());
        assert_eq!(text, "1 lines in SKILL.md of a");
        let compiled = start.take_compiled();
        let expected = if kind == "cwasm" { 2 } else { 0 };
        assert_eq!(compiled.len(), expected, "{kind}: {compiled:?}");
        // The entry is complete again, and only its owner can read it.
        for entry in start.entries(kind) {
            let mode = fs::metadata(&entry).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", entry.display());
        }
        let last = build(start.builder());
        assert_eq!(model_text(&last, "read_skill", read_skill()), "# A\n");
        assert_eq!(start.take_compiled(), NOTHING);
    }
}

#[test]
fn recompiles_lost_code_only_from_same_bytes() {
    let start = Start::new().with_third_party();
    build(start.builder());
    start.take_compiled();
    let host_with_lost_code = || {
        let host = build(start.builder());
        for entry in start.entries("cwasm") {
            fs::write(entry, "no code").unwrap();
        }
        host
    };
    let host = host_with_lost_code();
    let text = model_text(&host, "count_lines", count_lines());
    assert_eq!(text, "1 lines in SKILL.md of a");
    assert_eq!(
        start.take_compiled(),
        [start.third_party().to_str().unwrap()]
    );

    let host = host_with_lost_code();
    fs::write(start.third_party(), "another").unwrap();
    for _ in 0..2 {
        let Err(error) = call(&host, "count_lines", count_lines()) else {
            panic!("the changed component answered");
        };
        assert_eq!(
            error.model_text(),
            "ERROR: the tool 'count_lines' was stopped: it failed before it answered"
        );
        let operator = error.operator_text();
        assert!(
            operator.ends_with("third_party.wasm`: its file has changed since it was loaded"),
            "{operator}"
        );
    }
    assert_eq!(start.take_compiled(), NOTHING);
}

#[test]
fn start_recompiles_lost_code() {
    let start = Start::new();
    let tool = r#"(component
  (core module $m (func (export "f") (result i32) (i32.const 7)))
  (core instance $i (instantiate $m))
  (func (export "seven") (result u32) (canon lift (core func $i "f"))))"#;
    fs::write(start.third_party(), wat::parse_str(tool).unwrap()).unwrap();
    for _ in 0..2 {
        build(start.builder());
        assert_eq!(
            start.take_compiled(),
            [start.third_party().to_str().unwrap()]
        );
        build(start.builder());
        assert_eq!(start.take_compiled(), NOTHING);
        for entry in start.entries("cwasm") {
            fs::remove_file(entry).unwrap();
        }
    }
}

#[test]
fn refuses_unsupported_import_at_each_start() {
    let start = Start::new();
    let http = r#"(component (import "wasi:http/types@0.2.0" (instance (export "f" (func)))))"#;
    fs::write(start.third_party(), wat::parse_str(http).unwrap()).unwrap();
    let problems = || {
        let host = block_on(start.builder().build()).unwrap();
        assert!(host.definitions().len() == 6);
        host.problems().join("; ")
    };
    let first = problems();
    assert!(first.contains("wasi:http/types@0.2.0"), "{first}");
    assert_eq!(problems(), first);
    assert_eq!(start.take_compiled().len(), 1);
    assert!(start.entries("tools").is_empty());
}

#[test]
fn applies_smaller_limits_to_cached_components() {
    let start = Start::new().with_third_party();
    let mut small = Limits::default();
    small.table_elements = 10;
    for _ in 0..2 {
        assert_eq!(build(start.builder()).definitions().len(), 7);
        let host = block_on(start.builder().limits(small.clone()).build()).unwrap();
        let [problem] = host.problems() else {
            panic!("{:?}", host.problems());
        };
        assert!(
            problem.ends_with(
                "it was stopped when asked for its tools: it needed more than 10 table elements"
            ),
            "{problem}"
        );
        // The built-in tools are known; their calls reach the limit.
        let stopped = call(&host, "read_skill", read_skill());
        let Err(CallError::Stopped { stop, .. }) = stopped else {
            panic!("{stopped:?}");
        };
        assert_eq!(stop, Stop::TableElements(10));
    }
    assert_eq!(start.take_compiled().len(), 2);
}

#[test]
fn checks_pins_of_cached_components() {
    let start = Start::new().with_third_party();
    assert_eq!(build(start.builder()).problems().len(), 0);
    let pinned = start.builder().pin("third_party.wasm", "0".repeat(64));
    let host = block_on(pinned.build()).unwrap();
    let problem = &host.problems()[0];
    assert!(
        problem.contains("and the pin `third_party.wasm` is 000"),
        "{problem}"
    );
    let host = block_on(start.builder().require_pins(true).build()).unwrap();
    let problem = &host.problems()[0];
    assert!(problem.contains("it has no pin"), "{problem}");
}

#[test]
fn rebuilt_host_keeps_loaded_components() {
    let start = Start::new();
    let first = build(start.builder());
    let second = block_on(start.builder().rebuild(&first)).unwrap();
    assert_eq!(model_text(&second, "read_skill", read_skill()), "# A\n");
    assert_eq!(model_text(&first, "read_skill", read_skill()), "# A\n");
    for entry in start.entries("cwasm") {
        fs::remove_file(entry).unwrap();
    }
    let third = block_on(start.builder().rebuild(&second)).unwrap();
    assert_eq!(model_text(&third, "read_skill", read_skill()), "# A\n");
    assert_eq!(start.take_compiled(), ["read_skill"]);
}
