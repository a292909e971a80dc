//! Components that load, and refused components, which do not disturb the rest of the host.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use skillhost::{CallError, Grant, Host, Limits, Stop};
use skillhost_helper::{Kind, write_message};

use crate::support::folders::Folders;
use crate::support::process::{Process, output};
use crate::support::program::{Program, finish};
use crate::support::watchdog::patience;
use crate::support::{
    block_on, build, builder, builder_with_guests, call, guests, limits, model_text, repository,
};

/// Makes a host with the built-in tools and a folder of these components.
fn load(files: &[(&str, Vec<u8>)]) -> (Folders, Host) {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    for (name, bytes) in files {
        fs::write(folders.outside.join(name), bytes).unwrap();
    }
    let all = || Grant::new().skills(["*"]).unwrap();
    let host = builder().skills(&folders.root).tools(&folders.outside);
    let host = files
        .iter()
        .fold(host, |host, (name, _)| host.grant(*name, all()));
    let host = block_on(host.build()).unwrap();
    (folders, host)
}

fn unchecked() -> Vec<u8> {
    fs::read(guests().join("unchecked.wasm")).unwrap()
}

#[test]
fn skips_file_that_is_not_tool_component() {
    let wat = |text: &str| wat::parse_str(text).unwrap();
    let http = r#"(component (import "wasi:http/types@0.2.0" (instance (export "f" (func)))))"#;
    let get_skill = fs::read(repository().join("guest-tools/dist/get_skill.wasm")).unwrap();
    let cases: [(&str, Vec<u8>, &str); 7] = [
        ("empty.wasm", Vec::new(), "empty.wasm"),
        (
            "text.wasm",
            b"not WebAssembly".to_vec(),
            "it is not WebAssembly, which begins with the bytes `\\0asm`; `skillhost build` makes",
        ),
        ("module.wasm", wat("(module)"), "module.wasm"),
        ("cut.wasm", unchecked()[..5000].to_vec(), "cut.wasm"),
        ("http.wasm", wat(http), "wasi:http/types@0.2.0"),
        (
            "other.wasm",
            wat("(component)"),
            "does not export `skillhost:tool/tools@0.1.1`",
        ),
        (
            "twice.wasm",
            get_skill,
            "it defines the tool `get_skill`, which is built in; give it another name",
        ),
    ];
    for (name, bytes, reason) in cases {
        let (_folders, host) = load(&[(name, bytes), ("good.wasm", unchecked())]);
        let [problem] = host.problems() else {
            panic!("{name}: {:?}", host.problems());
        };
        assert!(problem.contains(name), "{problem}");
        assert!(problem.contains(reason), "{problem}");
        let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
        assert_eq!(model_text(&host, "raw_read", arguments), "# A\n");
        let arguments = json!({"skill_name": "a"});
        assert_eq!(model_text(&host, "read_skill", arguments), "# A\n");
    }
}

#[test]
fn names_wasi_version_that_component_was_built_for() {
    let reason = "it is built for WASI 0.3, and this host runs WASI 0.2: build it for \
                  `wasm32-wasip2` or with `skillhost build`";
    let import = |name: &str, function: &str| {
        format!(r#"(component (import "{name}" (instance (export "f" {function}))))"#)
    };
    let async_builtin = r#"(component (component (core func (canon waitable-set.new))))"#;
    for (text, is_newer) in [
        (import("wasi:cli/environment@0.3.0", "(func)"), true),
        (
            import("wasi:cli/stdout@0.3.0-rc-2025-09-16", "(func)"),
            true,
        ),
        // In the next four cases, the host gives this reason instead of the compiler's error.
        (
            import("wasi:clocks/monotonic-clock@0.3.0", "(func async)"),
            true,
        ),
        (
            import("wasi:cli/stdin@0.3.0", "(func (result (stream u8)))"),
            true,
        ),
        (
            "(component (core func (canon task.cancel)))".to_owned(),
            true,
        ),
        (async_builtin.to_owned(), true),
        (import("other:a/b@0.3.0", "(func)"), false),
        (import("wasi:http/types@0.2.0", "(func)"), false),
        // The reason is the type of the exported function.
        (
            r#"(component (type $s (stream u8)) (import "f" (func $f (param "a" $s)))
                 (export "tool" (func $f)))"#
                .to_owned(),
            false,
        ),
    ] {
        let bytes = wat::parse_str(&text).unwrap();
        let (folders, host) = load(&[("newer.wasm", bytes), ("good.wasm", unchecked())]);
        let [problem] = host.problems() else {
            panic!("{text}: {:?}", host.problems());
        };
        let start = "cannot load the tool component `";
        assert!(problem.starts_with(start), "{text}: {problem}");
        assert_eq!(problem.ends_with(reason), is_newer, "{text}: {problem}");
        // An inspection gives the same reason.
        let file = folders.outside.join("newer.wasm");
        let why = match block_on(skillhost::inspect(&file, None)) {
            Ok(seen) => seen.tools.unwrap_err(),
            Err(error) => format!("{error:#}"),
        };
        assert_eq!(why.ends_with(reason), is_newer, "{text}: {why}");
    }
}

#[test]
fn refuses_irregular_component_file_at_once() {
    let folders = Folders::new();
    let fifo = folders.outside.join("fifo.wasm");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    symlink("/etc/passwd", folders.outside.join("link.wasm")).unwrap();
    let host = block_on(builder().tools(&folders.outside).build()).unwrap();
    assert_eq!(host.problems().len(), 2, "{:?}", host.problems());
}

#[test]
fn stops_loop_and_sleep_at_deadline() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let host = builder_with_guests().skills(&folders.root);
    let host = build(host.limits(limits(Duration::from_millis(200))));
    for tool in ["raw_loop", "raw_sleep"] {
        let stopped = call(&host, tool, json!({"skill_name": "a", "path": ""}));
        let timed_out = matches!(
            stopped,
            Err(CallError::Stopped {
                stop: Stop::Time(_),
                ..
            })
        );
        assert!(timed_out, "{tool}: {stopped:?}");
        let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
        assert_eq!(model_text(&host, "raw_read", arguments), "# A\n");
    }
}

#[test]
fn loop_does_not_block_other_calls() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(60);
    let host = build(builder_with_guests().skills(&folders.root).limits(limits));
    block_on(async {
        let looping = host.call("raw_loop", json!({"skill_name": "a", "path": ""}));
        let reading = async {
            for _ in 0..20 {
                let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
                host.call("raw_read", arguments).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        // Both run on one thread, and the loop starts first.
        tokio::select! {
            biased;
            looped = looping => panic!("the loop ended before the other calls: {looped:?}"),
            () = reading => {}
        }
    });
}

#[test]
fn stops_call_that_panics_and_next_call_works() {
    let (_folders, host) = load(&[("good.wasm", unchecked())]);
    let stopped = call(
        &host,
        "raw_panic",
        json!({"skill_name": "a", "path": "because"}),
    );
    assert!(
        matches!(
            stopped,
            Err(CallError::Stopped {
                stop: Stop::Trap(_),
                ..
            })
        ),
        "{stopped:?}"
    );
    let text = skillhost::message::model_text(stopped);
    assert_eq!(
        text,
        "ERROR: the tool 'raw_panic' was stopped: it failed before it answered"
    );
    let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
    assert_eq!(model_text(&host, "raw_read", arguments), "# A\n");
}

#[test]
fn refuses_configuration_with_name_that_does_not_exist() {
    for (host, message) in [
        (
            builder().disable("get_skil"),
            "the configuration disables the tool `get_skil`, which does not exist; did you mean \
             `get_skill`?",
        ),
        (
            builder().grant("get_skil", Grant::new()),
            "the configuration grants something to `get_skil`, and there is no component file and \
             no built-in tool of that name; did you mean `get_skill`?",
        ),
        (
            builder().tools(guests()).grant("raw_read", Grant::new()),
            "the configuration grants something to `raw_read`, and there is no component file and \
             no built-in tool of that name; `unchecked.wasm` defines the tool of that name: name \
             that file in the grant",
        ),
    ] {
        let error = block_on(host.build()).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some(message));
    }
}

#[test]
fn neither_offers_nor_calls_a_disabled_tool() {
    let host = build(
        builder()
            .skills(repository().join("skills"))
            .disable("get_skill"),
    );
    assert!(
        host.definitions()
            .iter()
            .all(|definition| definition.name != "get_skill")
    );
    let refused = call(&host, "get_skill", json!({"skill_name": "calculator"}));
    assert!(
        matches!(refused, Err(CallError::UnknownTool { .. })),
        "{refused:?}"
    );
}

#[test]
fn refuses_component_whose_pin_is_wrong_or_missing() {
    let wrong = "0000000000000000000000000000000000000000000000000000000000000000";
    let right = block_on(skillhost::inspect(&guests().join("unchecked.wasm"), None))
        .unwrap()
        .digest;
    let load = |pin: Option<&str>, required| {
        let folders = Folders::new();
        fs::write(folders.outside.join("u.wasm"), unchecked()).unwrap();
        let builder = builder().tools(&folders.outside).require_pins(required);
        let builder = match pin {
            Some(pin) => builder.pin("u.wasm", pin),
            None => builder,
        };
        block_on(builder.build()).unwrap().problems().join("; ")
    };
    assert_eq!(load(Some(&right), true), "");
    assert_eq!(load(Some(&right.to_uppercase()), false), "");
    assert_eq!(load(None, false), "");
    assert!(load(Some(wrong), false).contains(&format!("its SHA-256 is {right}, and the pin")));
    assert!(load(None, true).contains("it has no pin, and pins are required"));
}

#[test]
fn inspect_shows_facts_and_reason_of_refusal() {
    let seen = block_on(skillhost::inspect(&guests().join("unchecked.wasm"), None)).unwrap();
    assert!(
        seen.imports.iter().all(|import| import.granted),
        "{:?}",
        seen.imports
    );
    assert!(seen.start.is_some_and(|start| start.memories == 1));
    assert_eq!(
        seen.interface.as_deref(),
        Some("skillhost:tool/tools@0.1.1")
    );
    let tools: Vec<_> = seen
        .tools
        .unwrap()
        .into_iter()
        .map(|tool| tool.name)
        .collect();
    assert!(tools.contains(&"raw_read".to_owned()));

    let folders = Folders::new();
    let import = |name: &str| {
        let path = folders.outside.join("import.wasm");
        let wat = format!("(component (import \"{name}\" (instance)))");
        fs::write(&path, wat::parse_str(wat).unwrap()).unwrap();
        block_on(skillhost::inspect(&path, None)).unwrap()
    };
    for (name, granted) in [
        ("wasi:cli/environment@0.2.0", true),
        ("wasi:sockets/tcp@0.2.3", true),
        ("wasi:filesystem/types@0.2.8", true),
        ("skillhost:tool/skills@0.1.0", true),
        ("skillhost:tool/skills@0.1.1", true),
        ("wasi:keyvalue/store@0.2.0", false),
        ("wasi:filesystem/types@0.3.0", false),
        ("skillhost:tool/skills@0.9.0", false),
        ("other:thing/x", false),
    ] {
        let seen = import(name);
        assert_eq!(seen.imports[0].granted, granted, "{name}");
        // A granted import is linked. The error names any other import.
        let why = seen.tools.unwrap_err();
        assert_eq!(why.contains("does not export"), granted, "{name}: {why}");
        assert_eq!(why.contains(name), !granted, "{name}: {why}");
    }
}

/// Makes a small component that takes long to compile, because it has many branches.
fn compile_bomb() -> Vec<u8> {
    let body = "(local.set 0 (i32.xor (i32.mul (local.get 0) (i32.const 31)) (local.get 1)))\
                (if (local.get 0) (then (local.set 1 (i32.add (local.get 0) (local.get 1)))))";
    let function = format!("(func (param i32 i32) {})", body.repeat(20_000));
    wat::parse_str(format!("(component (core module {}))", function.repeat(20))).unwrap()
}

#[test]
fn refuses_a_component_that_compiles_too_long() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    let tools = folders.outside.join("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("good.wasm"), unchecked()).unwrap();
    let builder = || {
        builder()
            .skills(&folders.root)
            .tools(&tools)
            .grant("good.wasm", Grant::new().skills(["*"]).unwrap())
            .compiler(env!("CARGO_BIN_EXE_skillhost"))
            .cache(folders.outside.join("cache"))
    };
    // Compile the good component first: on a busy machine, it could exceed the limit too.
    block_on(builder().build()).unwrap();
    fs::write(tools.join("bomb.wasm"), compile_bomb()).unwrap();
    let host = block_on(builder().compile_time(Duration::from_secs(3)).build()).unwrap();
    let [problem] = host.problems() else {
        panic!("{:?}", host.problems());
    };
    assert!(
        problem.contains("bomb.wasm`: the compiling process took longer than 3s"),
        "{problem}"
    );
    let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
    assert_eq!(model_text(&host, "raw_read", arguments), "# A\n");
}

#[test]
fn reports_the_error_of_the_compiling_process() {
    let folders = Folders::new();
    // Begins like WebAssembly: other files do not reach the compiler.
    let cut = &unchecked()[..5000];
    fs::write(folders.outside.join("bad.wasm"), cut).unwrap();
    let program = env!("CARGO_BIN_EXE_skillhost");
    for (program, reason) in [
        (program, "bad.wasm"),
        ("/bin/false", "bad.wasm"),
        ("/none", "cannot start `/none`"),
    ] {
        let host = builder().tools(&folders.outside).compiler(program);
        let host = block_on(host.build()).unwrap();
        let [problem] = host.problems() else {
            panic!("{:?}", host.problems());
        };
        assert!(problem.contains(reason), "{problem}");
    }
}

#[test]
fn reports_disabled_tool_whose_component_does_not_load() {
    let folders = Folders::new();
    folders.write("a/SKILL.md", "# A\n");
    fs::write(folders.outside.join("bad.wasm"), "text").unwrap();
    let host = builder()
        .skills(&folders.root)
        .tools(&folders.outside)
        .disable("bad");
    let host = block_on(host.build()).unwrap();
    assert_eq!(host.problems().len(), 2, "{:?}", host.problems());
    assert_eq!(
        model_text(&host, "read_skill", json!({"skill_name": "a"})),
        "# A\n"
    );
}

/// A compiling process that waits for the rest of its component.
struct WaitingCompiler {
    /// The process that started the compiling process.
    parent: Process,
    /// The id of the compiling process.
    pid: String,
    /// The output of the compiling process.
    stdout: ChildStdout,
    /// The input of the compiling process. The process ends when this is closed.
    _stdin: ChildStdin,
}

impl WaitingCompiler {
    fn start() -> Self {
        let mut command = Command::new("sh");
        let script = "exec 3<&0; \"$0\" \"$1\" <&3 & echo $!; exec sleep 1000";
        command.args(["-c", script, env!("CARGO_BIN_EXE_skillhost")]);
        command.arg(skillhost::COMPILE_ARGUMENT);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut parent = Process::start(&mut command);
        let pid = parent.first_line();
        let (mut stdin, stdout) = (parent.stdin.take().unwrap(), parent.stdout.take().unwrap());
        // The pipe is too small for this message. After the write, the compiling process has read
        // some of it, so the process has already limited itself.
        write_message(&mut stdin, Kind::Request, &[0; 1 << 20]).unwrap();
        Self {
            parent,
            pid,
            stdout,
            _stdin: stdin,
        }
    }
}

#[test]
fn compiling_process_has_8_gib_and_writes_nothing() {
    let compiler = WaitingCompiler::start();
    let limits = fs::read_to_string(format!("/proc/{}/limits", compiler.pid)).unwrap();
    for (name, most) in [
        ("Max address space", 8 << 30),
        ("Max core file size", 0),
        ("Max file size", 0),
    ] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name));
        let mut values = line.unwrap().split_whitespace();
        for kind in ["soft", "hard"] {
            let value = values.next().unwrap();
            let value: u64 = value.parse().unwrap_or(u64::MAX);
            assert!(value <= most, "{kind} {name}: {value}");
        }
    }
}

#[test]
fn compiling_process_ends_if_its_parent_has_ended() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
    command.arg(skillhost::COMPILE_ARGUMENT);
    // Process 1 runs, but it did not start the compiling process.
    command.env("SKILLHOST_PARENT", "1").stdin(Stdio::piped());
    let orphan = Process::start(&mut command);
    assert_eq!(orphan.wait().code(), Some(1));
}

#[test]
fn compiling_process_ends_with_its_parent() {
    let compiler = WaitingCompiler::start();
    compiler.parent.signal(Signal::KILL);
    compiler.parent.wait();
    // Only the compiling process has the output open, so the output ends when that process ends.
    let (ended, wait) = channel();
    let mut stdout = compiler.stdout;
    thread::spawn(move || ended.send(stdout.read_to_end(&mut Vec::new())));
    let end = wait.recv_timeout(patience());
    assert!(end.is_ok(), "process {} still runs", compiler.pid);
}

#[test]
fn compiling_process_gets_no_environment() {
    let folders = Folders::new();
    fs::write(folders.outside.join("bad.wasm"), &unchecked()[..5000]).unwrap();
    // Replaces the compiler: prints the names of its variables, and fails.
    let script = "#!/bin/sh\nnames=$(tr '\\0' '\\n' < /proc/$$/environ | cut -d= -f1)\n\
                  echo \"variables:\" $names. >&2\nexit 1\n";
    let (source, program) = (folders.outside.join("source"), folders.outside.join("tell"));
    fs::write(&source, script).unwrap();
    // `install` makes the copy, so that no child of this process inherits the file open for
    // writing: see `UnprivilegedCopy::new`.
    let copied = output(
        Command::new("install")
            .args(["-m", "755"])
            .args([&source, &program]),
    );
    assert!(copied.status.success(), "{copied:?}");
    assert!(std::env::var_os("PATH").is_some());
    let host = builder().tools(&folders.outside).compiler(program);
    let host = block_on(host.build()).unwrap();
    let problem = host.problems().join("\n");
    assert!(problem.contains("variables:"), "{problem}");
    // The host sets this variable for a compiler on some machines.
    let problem = problem.replace(" SKILLHOST_CHECKED_CODE", "");
    assert!(
        problem.contains("variables: SKILLHOST_PARENT."),
        "{problem}"
    );
}

#[test]
fn loads_components_whatever_the_environment() {
    let program = Program::new();
    let component = guests().join("count_lines.wasm");
    let mut command = program.command(&["inspect".as_ref(), component.as_os_str()]);
    // wasmtime recommends this variable to authors of components.
    command.env("WASMTIME_BACKTRACE_DETAILS", "1");
    let run = finish(command, "");
    assert_eq!(run.code, 0, "{run:?}");
}
