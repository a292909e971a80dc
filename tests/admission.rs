//! Admission of components that claim the same tool or the same grant, at the start
//! and after a reload.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use serde_json::json;
use skillhost::{Grant, Host, HostBuilder};

use crate::support::folders::Folders;
use crate::support::mcp::session;
use crate::support::program::Program;
use crate::support::{block_on, builder, guests, model_text};

/// A folder with one skill, and two folders of tools.
struct Setup {
    folders: Folders,
    one: PathBuf,
    two: PathBuf,
}

impl Setup {
    fn new() -> Self {
        let folders = Folders::new();
        folders.write("a/SKILL.md", "# A\n");
        let [one, two] = ["one", "two"].map(|name| folders.outside.join(name));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        Self { folders, one, two }
    }

    fn builder(&self) -> HostBuilder {
        builder()
            .skills(&self.folders.root)
            .tools(&self.one)
            .tools(&self.two)
    }
}

fn grant_of_all_skills() -> Grant {
    Grant::new().skills(["*"]).unwrap()
}

fn start(builder: &HostBuilder) -> Host {
    block_on(builder.clone().build()).unwrap()
}

fn copy_guest(guest: &str, file: &Path) {
    let _ = fs::remove_file(file);
    fs::copy(guests().join(guest), file).unwrap();
}

/// Writes a guest with an additional custom section, which changes its digest. Returns the new
/// digest.
fn write_other_bytes(guest: &str, file: &Path) -> String {
    let mut bytes = fs::read(guests().join(guest)).unwrap();
    bytes.extend([0, 4, 1, b'x', b'y', b'z']);
    let _ = fs::remove_file(file);
    fs::write(file, bytes).unwrap();
    block_on(skillhost::inspect(file, None)).unwrap().digest
}

/// Returns the files that serve a tool.
fn files_serving(host: &Host, tool: &str) -> Vec<PathBuf> {
    let grants = host.grants().into_iter();
    let grants = grants.filter(|grant| grant.tool == tool);
    grants.map(|grant| grant.origin.into()).collect()
}

fn can_read(host: &Host) -> bool {
    let arguments = json!({"skill_name": "a", "path": "SKILL.md"});
    model_text(host, "raw_read", arguments) == "# A\n"
}

const NONE: [PathBuf; 0] = [];

#[test]
fn grant_or_pin_decides_which_component_gets_tool() {
    let setup = Setup::new();
    let (first, second) = (setup.one.join("a.wasm"), setup.one.join("z.wasm"));
    copy_guest("unchecked.wasm", &first);
    let other = write_other_bytes("unchecked.wasm", &second);
    let plain = setup.builder();
    // A file beside the granted file gets neither the tool nor the grant.
    let granted = start(&plain.clone().grant("z.wasm", grant_of_all_skills()));
    assert_eq!(
        files_serving(&granted, "raw_read"),
        std::slice::from_ref(&second)
    );
    assert!(can_read(&granted));
    let [problem] = granted.problems() else {
        panic!("{:?}", granted.problems());
    };
    for said in [first.to_str().unwrap(), second.to_str().unwrap(), "`raw_"] {
        assert!(problem.contains(said), "{problem}");
    }
    let pinned = start(&plain.clone().pin("z.wasm", &other));
    assert_eq!(
        files_serving(&pinned, "raw_read"),
        std::slice::from_ref(&second)
    );
    assert!(!can_read(&pinned), "a pin grants nothing");
    // Neither file serves if the configuration names neither or both. Each problem names both.
    let both = plain
        .clone()
        .grant("z.wasm", grant_of_all_skills())
        .grant("a.wasm", grant_of_all_skills());
    for builder in [plain, both] {
        let host = start(&builder);
        assert_eq!(files_serving(&host, "raw_read"), NONE);
        let [one, two] = host.problems() else {
            panic!("{:?}", host.problems());
        };
        for problem in [one, two] {
            assert!(problem.contains(first.to_str().unwrap()), "{problem}");
            assert!(problem.contains(second.to_str().unwrap()), "{problem}");
        }
    }
}

#[test]
fn files_with_same_name_do_not_share_grant() {
    let setup = Setup::new();
    let (first, second) = (setup.one.join("u.wasm"), setup.two.join("u.wasm"));
    copy_guest("count_lines.wasm", &first);
    copy_guest("unchecked.wasm", &second);
    let builder = setup.builder().grant("u.wasm", grant_of_all_skills());
    let host = start(&builder);
    assert_eq!(files_serving(&host, "raw_read"), NONE);
    assert_eq!(files_serving(&host, "count_lines"), NONE);
    assert!(host.problems()[0].contains("has the same file name"));
    // A pin decides between the two.
    let digest = block_on(skillhost::inspect(&second, None)).unwrap().digest;
    let host = start(&builder.clone().pin("u.wasm", digest));
    assert_eq!(
        files_serving(&host, "raw_read"),
        std::slice::from_ref(&second)
    );
    assert_eq!(files_serving(&host, "count_lines"), NONE);
    // The same bytes twice are one component.
    copy_guest("unchecked.wasm", &first);
    let host = start(&builder);
    assert_eq!(files_serving(&host, "raw_read"), [first]);
    assert!(host.problems()[0].contains("is the same component"));
}

#[test]
fn serving_component_keeps_its_tool_and_its_grant() {
    let setup = Setup::new();
    let served = setup.two.join("u.wasm");
    copy_guest("unchecked.wasm", &served);
    for builder in [
        setup.builder(),
        setup.builder().grant("u.wasm", grant_of_all_skills()),
    ] {
        let first = start(&builder);
        assert_eq!(
            files_serving(&first, "raw_read"),
            std::slice::from_ref(&served)
        );
        let newcomers = [setup.one.join("a.wasm"), setup.one.join("u.wasm")];
        for newcomer in &newcomers {
            write_other_bytes("unchecked.wasm", newcomer);
            let second = block_on(builder.clone().rebuild(&first)).unwrap();
            assert_eq!(
                files_serving(&second, "raw_read"),
                std::slice::from_ref(&served)
            );
            assert_eq!(can_read(&second), can_read(&first));
            let problems = second.problems().join("\n");
            for said in [newcomer, &served] {
                assert!(problems.contains(said.to_str().unwrap()), "{problems}");
            }
            fs::remove_file(newcomer).unwrap();
        }
    }
}

#[test]
fn changed_bytes_serve_if_operators_rules_allow() {
    let setup = Setup::new();
    let file = setup.one.join("u.wasm");
    copy_guest("unchecked.wasm", &file);
    let builder = setup.builder().grant("u.wasm", grant_of_all_skills());
    let first = start(&builder);
    let before = first
        .grants()
        .into_iter()
        .find(|grant| grant.tool == "raw_read");
    let before = before.unwrap().digest;
    let digest_after = |builder: HostBuilder, earlier: &Host| {
        let host = block_on(builder.rebuild(earlier)).unwrap();
        let grant = host
            .grants()
            .into_iter()
            .find(|grant| grant.tool == "raw_read");
        assert!(can_read(&host));
        (grant.unwrap().digest, host.problems().join("\n"))
    };
    // The owner is the same, and there is no pin.
    let changed = write_other_bytes("unchecked.wasm", &file);
    assert_eq!(
        digest_after(builder.clone(), &first),
        (changed.clone(), String::new())
    );
    // The pin has the digest of the earlier bytes.
    let pinned = builder.clone().pin("u.wasm", &before);
    let (digest, problems) = digest_after(pinned, &first);
    assert_eq!(digest, before);
    assert!(problems.contains("and the pin `u.wasm` is"), "{problems}");
    // The earlier bytes have no pin either, so the tool is no longer served.
    let strict = block_on(builder.clone().require_pins(true).rebuild(&first)).unwrap();
    assert!(!strict.grants().iter().any(|grant| grant.tool == "raw_read"));
    let problems = strict.problems().join("\n");
    assert!(problems.contains("pins are required"), "{problems}");
    if !rustix::process::geteuid().is_root() {
        return; // Only root can change owners; CI runs as root.
    }
    // The file of another trusted owner needs a pin.
    chown(&file, Some(54_321), None).unwrap();
    let trust = skillhost::Trust::new().and(skillhost::Principal::User(54_321));
    let builder = builder.trust(trust);
    let (digest, problems) = digest_after(builder.clone(), &first);
    assert_eq!(digest, before);
    assert!(
        problems.contains("and its owner have changed"),
        "{problems}"
    );
    let (digest, _) = digest_after(builder.pin("u.wasm", &changed), &first);
    assert_eq!(digest, changed);
}

/// Returns a small component with these tools, in the spelling of WIT.
fn component_with_tools(tools: &[&str]) -> Vec<u8> {
    let tools = tools.iter().map(|tool| {
        format!("(func (export \"{tool}\") (result u32) (canon lift (core func $i \"f\")))")
    });
    let tools: String = tools.collect();
    let text = format!(
        r#"(component
  (core module $m (func (export "f") (result i32) (i32.const 7)))
  (core instance $i (instantiate $m))
  {tools})"#
    );
    wat::parse_str(text).unwrap()
}

#[test]
fn changed_component_replaces_no_tool_of_another() {
    let setup = Setup::new();
    let (first, second) = (setup.one.join("a.wasm"), setup.one.join("b.wasm"));
    fs::write(&first, component_with_tools(&["mine"])).unwrap();
    fs::write(&second, component_with_tools(&["theirs"])).unwrap();
    let builder = setup.builder();
    let mut host = start(&builder);
    for (tools, said) in [
        (&["mine", "theirs"][..], "`theirs`, which `"),
        (&["mine", "read-skill"], "`read_skill`, which is built in"),
    ] {
        fs::write(&first, component_with_tools(tools)).unwrap();
        host = block_on(builder.clone().rebuild(&host)).unwrap();
        assert_eq!(files_serving(&host, "mine"), std::slice::from_ref(&first));
        assert_eq!(
            files_serving(&host, "theirs"),
            std::slice::from_ref(&second)
        );
        assert_eq!(
            files_serving(&host, "read_skill"),
            [PathBuf::from("read_skill")]
        );
        let [problem] = host.problems() else {
            panic!("{:?}", host.problems());
        };
        assert!(problem.contains(said), "{problem}");
        assert!(problem.ends_with("its earlier tools remain"), "{problem}");
    }
    // The tools of a removed file are free.
    fs::write(&first, component_with_tools(&["theirs"])).unwrap();
    fs::remove_file(&second).unwrap();
    let host = block_on(builder.rebuild(&host)).unwrap();
    assert_eq!(host.problems(), [] as [String; 0]);
    assert_eq!(files_serving(&host, "theirs"), [first]);
    assert_eq!(files_serving(&host, "mine"), NONE);
}

#[test]
fn two_changed_components_with_one_tool_need_grant() {
    let setup = Setup::new();
    let (first, second) = (setup.one.join("a.wasm"), setup.one.join("b.wasm"));
    copy_guest("typed.wasm", &first);
    copy_guest("count_lines.wasm", &second);
    for (builder, serving) in [
        (setup.builder(), None),
        (
            setup.builder().grant("b.wasm", grant_of_all_skills()),
            Some(&second),
        ),
    ] {
        let earlier = start(&builder);
        write_other_bytes("unchecked.wasm", &first);
        copy_guest("unchecked.wasm", &second);
        let host = block_on(builder.rebuild(&earlier)).unwrap();
        let expected: Vec<PathBuf> = serving.into_iter().cloned().collect();
        assert_eq!(files_serving(&host, "raw_read"), expected);
        assert_eq!(files_serving(&host, "folder"), std::slice::from_ref(&first));
        assert!(host.problems()[0].ends_with("its earlier tools remain"));
        copy_guest("typed.wasm", &first);
        copy_guest("count_lines.wasm", &second);
    }
}

#[test]
fn folder_that_is_named_twice_is_one_folder() {
    let setup = Setup::new();
    copy_guest("unchecked.wasm", &setup.one.join("u.wasm"));
    let link = setup.folders.outside.join("link");
    std::os::unix::fs::symlink(&setup.one, &link).unwrap();
    let builder = setup.builder().tools(&setup.one).tools(&link);
    let host = start(&builder.clone().grant("u.wasm", grant_of_all_skills()));
    assert_eq!(host.problems(), [] as [String; 0]);
    let again = block_on(builder.rebuild(&host)).unwrap();
    assert_eq!(
        files_serving(&again, "raw_read"),
        [setup.one.join("u.wasm")]
    );
}

#[test]
fn pin_that_names_no_file_is_error() {
    let setup = Setup::new();
    copy_guest("unchecked.wasm", &setup.one.join("u.wasm"));
    // The pin is an error even if another component does not load.
    fs::write(setup.one.join("bad.wasm"), "text").unwrap();
    let pinned = setup.builder().pin("uu.wasm", "0".repeat(64));
    let error = block_on(pinned.build()).err().unwrap().to_string();
    assert!(
        error.contains("pins `uu.wasm`, and there is no component file"),
        "{error}"
    );
    assert!(error.contains("did you mean `u.wasm`?"), "{error}");
}

#[test]
fn grant_of_unknown_skill_is_problem() {
    let setup = Setup::new();
    copy_guest("unchecked.wasm", &setup.one.join("u.wasm"));
    let grant = |skills: &[&str]| {
        let grant = Grant::new().skills(skills).unwrap();
        start(&setup.builder().grant("u.wasm", grant))
            .problems()
            .join("\n")
    };
    assert_eq!(grant(&["a", "b*"]), "");
    let said = grant(&["a", "aa"]);
    assert!(
        said.contains("grants `u.wasm` the skill `aa`, which does not exist"),
        "{said}"
    );
}

#[test]
fn old_grant_form_error_shows_new_form() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    for (grant, said) in [
        ("count_lines", "`[grants.\"count_lines.wasm\"]`"),
        ("get_skil", "did you mean `get_skill`?"),
        ("\"../x.wasm\"", "names no built-in tool"),
    ] {
        program.write(
            "skillhost.toml",
            format!("\n[grants.{grant}]\nskills = [\"a\"]\n"),
        );
        let run = program.run(&["tools"]);
        assert_eq!((run.code, &*run.stdout), (4, ""), "{run:?}");
        assert!(
            run.stderr.contains("`skillhost.toml`, line 2: "),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
    let run = program.run(&["--grant", "count_lines=a", "--skills", "skills", "tools"]);
    assert_eq!(run.code, 4);
    assert!(
        run.stderr
            .contains("no component file and no built-in tool"),
        "{}",
        run.stderr
    );
}

#[test]
fn fails_if_a_required_component_does_not_load() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("tools/bad.wasm", "text");
    let serve = ["--config", "skillhost.toml", "serve"];
    let tools = ["tools"];
    for (configuration, verb, code) in [
        ("", &tools[..], 0),
        ("", &serve, 0),
        ("require_pins = true\n", &tools, 0),
        ("require_pins = true\n", &serve, 4),
        (
            "require_pins = true\nrequire_components = false\n",
            &serve,
            0,
        ),
        ("require_components = true\n", &tools, 4),
        ("require_components = true\n", &serve, 4),
    ] {
        let text = format!("skills = [\"skills\"]\ntools = [\"tools\"]\n{configuration}");
        program.write("skillhost.toml", text);
        // The call waits until the tools are loaded.
        let run = program.run_with(verb, &session(&[("list_skills", json!({}))]));
        assert_eq!(run.code, code, "{configuration} {verb:?}: {run:?}");
        assert!(run.stderr.contains("bad.wasm"), "{}", run.stderr);
        let fatal = run.stderr.contains("`require_components = false`");
        assert_eq!(fatal, code == 4, "{}", run.stderr);
    }
}
