//! Grants to tools: the access that each grant allows, and the access that it does not.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::inotify;
use serde_json::{Value, json};
use skillhost::{CallError, Grant, Host, Limits, Scope, SkillsRoot, Stop};

use crate::support::folders::Folders;
use crate::support::program::Program;
use crate::support::{build, builder, builder_with_guests, call, guests, model_text, repository};

fn folders() -> Folders {
    let folders = Folders::new();
    for skill in ["calculator", "data_analysis", "data_factory", "weather"] {
        let text = format!("---\nname: {skill}\ndescription: About {skill}.\n---\nBody\n");
        folders.write(&format!("{skill}/SKILL.md"), text);
    }
    folders
}

/// Returns the skills that a call of this tool may read.
fn readable(host: &Host, tool: &str) -> Vec<&'static str> {
    let path = if tool.ends_with("_in_skill") {
        "file_path"
    } else {
        "path"
    };
    ["calculator", "data_analysis", "data_factory", "weather"]
        .into_iter()
        .filter(
            |skill| match call(host, tool, json!({"skill_name": skill, path: "SKILL.md"})) {
                Ok(_) => true,
                Err(CallError::Stopped {
                    stop: Stop::NotGranted { skill: denied, .. },
                    ..
                }) => {
                    assert_eq!(denied, *skill);
                    false
                }
                Err(other) => panic!("{other:?}"),
            },
        )
        .collect()
}

#[test]
fn component_reads_only_granted_skills() {
    let folders = folders();
    let host = |grant: Option<Grant>| {
        let builder = builder().skills(&folders.root).tools(guests());
        build(match grant {
            Some(grant) => builder.grant("unchecked.wasm", grant),
            None => builder,
        })
    };
    assert_eq!(readable(&host(None), "raw_read"), [""; 0]);
    assert_eq!(readable(&host(Some(Grant::new())), "raw_read"), [""; 0]);
    let granted = Grant::new().skills(["calculator", "data_*"]).unwrap();
    let granted = host(Some(granted));
    assert_eq!(
        readable(&granted, "raw_read"),
        ["calculator", "data_analysis", "data_factory"]
    );
    // A grant covers all tools of its component, and no others.
    assert_eq!(readable(&granted, "raw_stat").len(), 3);
    assert_eq!(readable(&granted, "count_lines"), [""; 0]);
}

#[test]
fn built_in_tools_read_every_skill_without_grant() {
    let folders = folders();
    let host = build(builder().skills(&folders.root));
    assert_eq!(readable(&host, "read_file_in_skill").len(), 4);
    let grant = |patterns: &[&str]| Grant::new().skills(patterns).unwrap();
    let host = builder()
        .skills(&folders.root)
        .grant("read_file_in_skill", grant(&["weather"]))
        .grant("read_skill", grant(&["data_*"]))
        .grant("list_skills", grant(&["calculator"]));
    let host = build(host);
    assert_eq!(readable(&host, "read_file_in_skill"), ["weather"]);
    let listed: Value = serde_json::from_str(&model_text(&host, "list_skills", json!({}))).unwrap();
    assert_eq!(listed["skills"].as_array().unwrap().len(), 1);
    let definitions = host.definitions();
    let read_skill = definitions
        .iter()
        .find(|tool| tool.name == "read_skill")
        .unwrap();
    let names = &read_skill.input_schema["properties"]["skill_name"]["enum"];
    assert_eq!(names, &json!(["data_analysis", "data_factory"]));
}

#[test]
fn refusal_names_setting_to_operator_only() {
    let program = Program::new();
    program.write("skills/calculator/SKILL.md", "# C\n");
    let guests = guests();
    let guests = guests.to_str().unwrap();
    let arguments = "{\"skill_name\":\"calculator\",\"path\":\"SKILL.md\"}";
    let run = program.run(&["--tools", guests, "call", "raw_read", arguments]);
    assert_eq!(run.code, 3);
    assert_eq!(
        run.stdout,
        "ERROR: the tool 'raw_read' was stopped: it is not allowed to read the skill 'calculator'"
    );
    assert!(
        run.stderr
            .contains("`grants.\"unchecked.wasm\".skills` in skillhost.toml"),
        "{}",
        run.stderr
    );
    let run = program.run(&[
        "--tools",
        guests,
        "--grant",
        "unchecked.wasm=c*",
        "call",
        "raw_read",
        arguments,
    ]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "# C\n"));
    for wrong in ["unchecked.wasm", "unchecked.wasm=../b"] {
        let run = program.run(&["--tools", guests, "--grant", wrong, "tools"]);
        assert_eq!(run.code, 4, "{wrong}");
        assert!(run.stderr.contains("`--grant`: "), "{}", run.stderr);
    }
    // Messages name the option, not the configuration.
    for (wrong, message) in [
        ("raw_read=c*", "`--grant` grants something to `raw_read`"),
        (
            "unchecked.wasm=calculatr",
            "`--grant` grants `unchecked.wasm` the skill `calculatr`",
        ),
    ] {
        let run = program.run(&["--tools", guests, "--grant", wrong, "tools"]);
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
}

#[test]
fn limits_of_grant_apply_to_its_component() {
    let folders = folders();
    let mut short = Limits::default();
    short.time = Duration::from_millis(50);
    let grant = Grant::new().skills(["*"]).unwrap().limits(short);
    let host = build(
        builder_with_guests()
            .skills(&folders.root)
            .grant("unchecked.wasm", grant),
    );
    let stopped = call(
        &host,
        "raw_loop",
        json!({"skill_name": "weather", "path": ""}),
    );
    let Err(CallError::Stopped {
        stop: Stop::Time(limit),
        ..
    }) = stopped
    else {
        panic!("{stopped:?}");
    };
    assert_eq!(limit, Duration::from_millis(50));
}

#[test]
fn hard_linked_files_need_permission() {
    let folders = folders();
    folders.write("calculator/a.txt", "text");
    fs::hard_link(
        folders.root.join("calculator/a.txt"),
        folders.outside.join("b.txt"),
    )
    .unwrap();
    let arguments = json!({"skill_name": "calculator", "file_path": "a.txt"});
    let read = |host: &Host| model_text(host, "read_file_in_skill", arguments.clone());
    assert_eq!(
        read(&build(builder().skills(&folders.root))),
        "ERROR: Cannot read file 'a.txt': has several hard links"
    );
    assert_eq!(
        read(&build(builder().skills(&folders.root).hard_links(true))),
        "text"
    );
    let allowed = Grant::new().hard_links(true);
    let host = builder().skills(&folders.root);
    assert_eq!(
        read(&build(host.grant("read_file_in_skill", allowed))),
        "text"
    );
    // A call with the file's absolute path and without a skill needs the same permission.
    let path = folders.root.join("calculator/a.txt");
    for allowed in [false, true] {
        let grant = Grant::new().hard_links(allowed);
        let host = builder().skills(&folders.root);
        let host = build(host.grant("read_skill_file", grant));
        let text = model_text(&host, "read_skill_file", json!({ "path": path }));
        assert_eq!(text.contains("has several hard links"), !allowed, "{text}");
        assert_eq!(text == "text", allowed, "{text}");
    }
}

#[test]
fn another_mount_inside_a_skill_is_refused() {
    // On every Linux, `/dev` is a mount that contains the mount `/dev/shm`. Here `/dev` is a skill
    // of the root `/`.
    let shared = tempfile::Builder::new().tempfile_in("/dev/shm").unwrap();
    fs::write(shared.path(), "text").unwrap();
    let inside = shared
        .path()
        .strip_prefix("/dev")
        .unwrap()
        .to_str()
        .unwrap();
    let host = build(builder().skills("/"));
    let arguments = json!({"skill_name": "dev", "file_path": inside});
    assert_eq!(
        model_text(&host, "read_file_in_skill", arguments),
        format!("ERROR: Cannot read file '{inside}': lies on another mount")
    );
    for (device, reason) in [
        ("null", "is not a regular file"),
        ("shm", "lies on another mount"),
    ] {
        let arguments = json!({"skill_name": "dev", "file_path": device});
        assert_eq!(
            model_text(&host, "read_file_in_skill", arguments),
            format!("ERROR: Cannot read file '{device}': {reason}")
        );
    }
}

#[test]
fn symlinks_are_skills_only_with_follow_root_links() {
    let folders = folders();
    fs::create_dir(folders.outside.join("real")).unwrap();
    fs::write(folders.outside.join("real/SKILL.md"), "# Linked\n").unwrap();
    symlink(folders.outside.join("real"), folders.root.join("linked")).unwrap();
    let read = |follow_links| {
        let path = folders.root.clone();
        let host = build(builder().skills_root(SkillsRoot {
            follow_links,
            ..SkillsRoot::new(path)
        }));
        let names = host.catalog().names();
        let text = model_text(&host, "read_skill", json!({"skill_name": "linked"}));
        (names.contains(&"linked".to_owned()), text)
    };
    assert_eq!(
        read(false),
        (false, "Error: Skill 'linked' not found.".to_owned())
    );
    assert_eq!(read(true), (true, "# Linked\n".to_owned()));
}

#[test]
fn only_granted_tools_read_the_home_folder() {
    let folders = folders();
    fs::write(folders.outside.join("note.txt"), "text").unwrap();
    let arguments = json!({"path": "note.txt"});
    let read = |grant: Grant| {
        let host = builder().skills(&folders.root).home(&folders.outside);
        model_text(
            &build(host.grant("read_skill_file", grant)),
            "read_skill_file",
            arguments.clone(),
        )
    };
    assert_eq!(read(Grant::new()), "text");
    assert!(read(Grant::new().home(false)).contains("no home folder is configured"));
    let host = builder().skills(&folders.root).home(&folders.outside);
    let grant = Grant::new().skills(["weather"]).unwrap();
    let host = build(host.grant("read_skill_file", grant));
    for (skill, granted) in [("weather", true), ("calculator", false)] {
        let path = folders
            .root
            .join(skill)
            .join("SKILL.md")
            .display()
            .to_string();
        assert_eq!(
            call(&host, "read_skill_file", json!({ "path": path })).is_ok(),
            granted,
            "{skill}"
        );
    }
}

#[test]
fn output_of_a_guest_reaches_only_the_log() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let guests = guests();
    let arguments = "{\"skill_name\":\"a\",\"path\":\"printed by the guest\"}";
    let options = [
        "--tools",
        guests.to_str().unwrap(),
        "--grant",
        "unchecked.wasm=*",
    ];
    let run = program.run(&[&options[..], &["call", "raw_print", arguments]].concat());
    assert_eq!(
        (run.code, run.stdout.as_str(), run.stderr.as_str()),
        (0, "printed", "")
    );
    let run = program.run(
        &[
            &options[..],
            &["--log", "info", "call", "raw_print", arguments],
        ]
        .concat(),
    );
    let logged = "guest: printed by the guest tool=\"raw_print\"";
    assert_eq!(run.stdout, "printed");
    assert_eq!(run.stderr.matches(logged).count(), 2, "{}", run.stderr);
    assert!(!run.stderr.contains("not logged"), "{}", run.stderr);
}

#[test]
fn counts_unlogged_output_past_limit() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let tools = guests();
    let config = format!("tools = [{tools:?}]\n[grants.\"unchecked.wasm\"]\nskills = [\"a\"]\n");
    program.write("skillhost.toml", config + "limits.log = 2000\n");
    let options = ["--config", "skillhost.toml", "--log", "info"];
    // Prints to both streams, each time with a line break.
    let arguments = json!({"skill_name": "a", "path": "@".repeat(1500)}).to_string();
    let run = program.run(&[&options[..], &["call", "raw_print", &arguments]].concat());
    assert_eq!(run.stdout, "printed");
    assert_eq!(run.stderr.matches('@').count(), 1999, "{}", run.stderr);
    let rest = "guest: 1002 more bytes were not logged";
    assert!(run.stderr.contains(rest), "{}", run.stderr);
}

#[test]
fn scope_of_host_narrows_and_never_widens() {
    let folders = folders();
    let host = build(builder().skills(&folders.root));
    let scope = |tools: &[&str], skills: &[&str]| {
        let scope = Scope::new().tools(tools).unwrap();
        Arc::new(scope.skills(skills).unwrap())
    };
    let visible = |host: &Host| {
        let skills: Vec<String> = host.skills().map(|skill| skill.name).collect();
        let mut tools: Vec<String> = host.definitions().into_iter().map(|it| it.name).collect();
        tools.sort();
        (tools, skills)
    };
    let narrow = host.in_scope(&scope(&["read_skill", "get_*"], &["data_*", "weather"]));
    let before = visible(&narrow);
    assert_eq!(before.0, ["get_skill", "read_skill"]);
    assert_eq!(before.1, ["data_analysis", "data_factory", "weather"]);
    for wider in [Arc::new(Scope::new()), scope(&["*"], &["*"])] {
        let wider = narrow.in_scope(&wider);
        assert_eq!(visible(&wider), before);
        let calculator = json!({"skill_name": "calculator"});
        assert_eq!(
            model_text(&wider, "read_skill", calculator),
            model_text(&wider, "read_skill", json!({"skill_name": "calculatos"}))
                .replace("calculatos", "calculator")
        );
    }
    let narrower = narrow.in_scope(&scope(&["list_skills", "read_*"], &["calculator", "w*"]));
    let (tools, skills) = visible(&narrower);
    assert_eq!((&*tools[0], tools.len()), ("read_skill", 1));
    assert_eq!(skills, ["weather"]);
}

#[test]
fn third_party_tools_read_home_only_by_grant() {
    let folders = folders();
    fs::write(folders.outside.join("note.txt"), "text").unwrap();
    // For a host without built-in tools, this is a third-party component.
    let component = repository().join("guest-tools/dist/read_skill_file.wasm");
    let read = |grant: Grant| {
        let host = builder()
            .without_embedded_tools()
            .skills(&folders.root)
            .home(&folders.outside)
            .component(&component)
            .grant("read_skill_file.wasm", grant);
        model_text(&build(host), "read_skill_file", json!({"path": "note.txt"}))
    };
    let all = || Grant::new().skills(["*"]).unwrap();
    for grant in [all(), all().home(false)] {
        let text = read(grant);
        assert!(text.contains("no home folder is configured"), "{text}");
    }
    assert_eq!(read(all().home(true)), "text");
}

#[test]
fn skill_out_of_scope_looks_missing() {
    let folders = folders();
    // The root is flat, and then has depth.
    for depth in [1, 2] {
        let grant = Grant::new().skills(["data_*"]).unwrap();
        let root = SkillsRoot {
            depth,
            ..SkillsRoot::new(&folders.root)
        };
        let host = builder().skills_root(root);
        let host = build(host.grant("read_skill_file", grant));
        let scope = Arc::new(Scope::new().skills(["data_*"]).unwrap());
        let host = host.in_scope(&scope);
        let answers = |skill: &str| {
            let path = folders.root.join(skill).join("SKILL.md");
            let by_name = json!({"skill_name": skill, "path": "SKILL.md"});
            [json!({ "path": path }), by_name].map(|arguments| {
                match call(&host, "read_skill_file", arguments) {
                    Ok(output) => output.text().to_owned(),
                    Err(error) => format!("{} {:?}", error.model_text(), error.help()),
                }
                .replace(skill, "SKILL")
            })
        };
        assert_eq!(answers("weather"), answers("nothing"), "{depth}");
        for answer in answers("data_factory") {
            assert!(answer.contains("Body"), "{depth}: {answer}");
        }
    }
}

#[test]
fn host_in_scope_opens_only_its_skills() {
    let folders = folders();
    let host = build(builder().skills(&folders.root));
    let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let hidden = folders.root.join("calculator");
    inotify::add_watch(&events, hidden, inotify::WatchFlags::OPEN).unwrap();
    let scope = Arc::new(Scope::new().skills(["weather"]).unwrap());
    for (host, skills, is_opened) in [(host.in_scope(&scope), 1, false), (host, 4, true)] {
        assert_eq!(host.skills().count(), skills);
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let event = inotify::Reader::new(&events, &mut buffer).next().map(drop);
        assert_eq!(event.is_ok(), is_opened, "{event:?}");
    }
}
