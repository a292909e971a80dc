//! Trust: the configuration of the current folder, files that others can change, and
//! the audit log. Each test tries what is denied and what is allowed.

mod audit_log;
mod fuse;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use serde_json::json;
use skillhost::{AuditMode, Principal, Trust};

use crate::support::folders::Folders;
use crate::support::mcp::{Client, session};
use crate::support::program::{Program, Run};
use crate::support::{block_on, build, builder, call, guests};

/// A configuration in somebody else's repository, which is the current folder.
const HOSTILE: &str = "skills = [\"../home/skills\"]\ntools = [\"tools\"]\nhome = \"../home\"\n\
                       audit_file = \"../home/.profile\"\n[grants.\"unchecked.wasm\"]\n\
                       skills = [\"*\"]\n";

/// Makes a user's home with a skill and a key, and a repository beside it.
fn repository(configuration: &str) -> Program {
    let program = Program::new();
    program.write("home/skills/mine/SKILL.md", "# Mine\n");
    program.write("home/key", "PRIVATE KEY");
    program.write("home/.profile", "export PATH=/bin\n");
    let profile = program.folder.path().join("home/.profile");
    fs::set_permissions(profile, fs::Permissions::from_mode(0o600)).unwrap();
    program.write("repository/skills/theirs/SKILL.md", "# Theirs\n");
    let component = fs::read(guests().join("unchecked.wasm")).unwrap();
    program.write("repository/tools/unchecked.wasm", component);
    program.write("repository/skillhost.toml", configuration);
    program
}

fn run_in(program: &Program, arguments: &[&str], stdin: &str) -> Run {
    let mut command = program.command(arguments);
    command.current_dir(program.folder.path().join("repository"));
    crate::support::program::finish(command, stdin)
}

/// Runs `serve` with a session that calls these tools.
fn serve(program: &Program, arguments: &[&str], calls: &[(&str, serde_json::Value)]) -> Run {
    run_in(program, &[&["serve"], arguments].concat(), &session(calls))
}

#[test]
fn server_uses_only_configuration_that_it_is_given() {
    let program = repository(HOSTILE);
    let calls = [
        ("read_skill_file", json!({"path": "key"})),
        (
            "raw_read",
            json!({"skill_name": "mine", "path": "SKILL.md"}),
        ),
        ("read_skill", json!({"skill_name": "mine"})),
        ("read_skill", json!({"skill_name": "$(touch x)"})),
    ];
    let run = serve(&program, &["--skills", "../home/skills"], &calls);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!run.stdout.contains("PRIVATE KEY"), "{}", run.stdout);
    assert!(
        run.stdout.contains("unknown tool: 'raw_read'"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("# Mine"), "{}", run.stdout);
    let unused = "`./skillhost.toml` is not used without `--config`; `--config ./skillhost.toml` \
                  would use it";
    assert!(run.stderr.contains(unused), "{}", run.stderr);
    let profile = fs::read_to_string(program.folder.path().join("home/.profile")).unwrap();
    assert_eq!(profile, "export PATH=/bin\n");

    let run = run_in(&program, &["respond", "--format", "openai"], "");
    assert_eq!((run.code, &*run.stdout), (0, ""), "{run:?}");
    assert!(run.stderr.contains(unused), "{}", run.stderr);
    // With `--config`, the configuration applies.
    let named = ["--config", "./skillhost.toml"];
    let run = serve(&program, &named, &calls);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(
        run.stderr.contains("is not an audit record"),
        "{}",
        run.stderr
    );
}

#[test]
fn server_reports_skills_folder_that_it_found() {
    let program = repository("");
    let run = serve(
        &program,
        &[],
        &[("read_skill", json!({"skill_name": "theirs"}))],
    );
    assert!(run.stdout.contains("# Theirs"), "{run:?}");
    let folder = program.folder.path().join("repository/skills");
    let said = format!("serving the skills in `{}`", folder.display());
    assert!(run.stderr.contains(&said), "{}", run.stderr);
    let run = serve(&program, &["--skills", "skills"], &[]);
    assert!(!run.stderr.contains("serving the skills"), "{}", run.stderr);
}

#[test]
fn found_configuration_cannot_reach_outside_its_folder() {
    let outside = Program::new();
    outside.write(
        "theirs/SKILL.md",
        "---\nname: theirs\ndescription: Theirs.\n---\n",
    );
    let absolute = format!("skills = [{:?}]", outside.folder.path());
    for (configuration, key) in [
        ("\nhome = \".\"", "`home`"),
        ("\naudit_file = \"audit.jsonl\"", "`audit_file`"),
        ("\naudit_file = \"-\"", "`audit_file`"),
        ("\naudit = \"best_effort\"", "`audit`"),
        ("\nhard_links = true", "`hard_links`"),
        (
            "\n[grants.get_skill]\nhard_links = true",
            "`grants.get_skill.hard_links`",
        ),
        ("\n[http]", "`http`"),
        ("\nskills = [\"../home/skills\"]", "`../home/skills`"),
        ("\nskills = [\"skills\", \"linked\"]", "`linked`"),
        ("\ntools = [\"../home\"]", "`../home`"),
        ("\n[packages]\ncatalog = \"../home\"", "`../home`"),
        (
            "\nskills = [{ path = \"skills\", follow_root_links = true }]",
            "`follow_root_links`",
        ),
        (
            &format!("\n{absolute}"),
            outside.folder.path().to_str().unwrap(),
        ),
    ] {
        let program = repository(configuration);
        let folder = program.folder.path();
        symlink("../home/skills", folder.join("repository/linked")).unwrap();
        let run = run_in(&program, &["skills"], "");
        assert_eq!(
            (run.code, &*run.stdout),
            (4, ""),
            "{configuration}: {run:?}"
        );
        for said in [
            "`skillhost.toml`, line ",
            key,
            "`--config ./skillhost.toml` allows it",
        ] {
            assert!(run.stderr.contains(said), "{configuration}: {}", run.stderr);
        }
        let run = run_in(&program, &["skills", "--config", "skillhost.toml"], "");
        assert_eq!(run.code, 0, "{configuration}: {run:?}");
    }
}

#[test]
fn found_configuration_applies_to_files_beside_it() {
    let program = repository(
        "skills = [\"skills\"]\ntools = [\"tools\"]\n[grants.\"unchecked.wasm\"]\n\
         skills = [\"theirs\"]\n",
    );
    let arguments = "{\"skill_name\":\"theirs\",\"path\":\"SKILL.md\"}";
    let run = run_in(
        &program,
        &["--log", "info", "call", "raw_read", arguments],
        "",
    );
    assert_eq!((run.code, &*run.stdout), (0, "# Theirs\n"), "{run:?}");
    let said = "the configuration is `skillhost.toml`";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    // Options of the command line replace the configuration.
    for (option, folder) in [("--skills", "../home/skills"), ("--tools", "../home")] {
        let run = run_in(&program, &[option, folder, "tools"], "");
        assert!(!run.stdout.contains("raw_read"), "{run:?}");
        let said = "`./skillhost.toml` is not used beside `--skills` or `--tools`";
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn names_owner_and_mode_of_replaceable_files() {
    let program = repository("skills = [\"skills\"]\ntools = [\"tools\"]\n");
    let base = program.folder.path().join("repository");
    let run = |arguments: &[&str]| run_in(&program, arguments, "");
    let listed = |run: &Run| run.stdout.contains("raw_read");
    let list = ["--config", "skillhost.toml", "tools"];
    // Only calls open the audit log.
    let call = ["--audit", "log/audit.jsonl", "call", "raw_mounts"];
    let call = [&list[..2], &call].concat();
    fs::create_dir(base.join("log")).unwrap();
    assert!(listed(&run(&list)));
    for (path, safe_mode, code) in [
        ("skillhost.toml", 0o644, 4),
        ("tools", 0o755, 4),
        // The other tools still work.
        ("tools/unchecked.wasm", 0o644, 0),
        ("log", 0o755, 4),
        (".", 0o755, 4),
    ] {
        let arguments = if path == "log" { &call } else { &list[..] };
        let path = base.join(path);
        set_mode(&path, safe_mode | 0o002);
        let refused = run(arguments);
        assert_eq!(refused.code, code, "{path:?}: {refused:?}");
        assert!(!listed(&refused), "{path:?}: {refused:?}");
        let path = fs::canonicalize(path).unwrap();
        let facts = format!("`{}` (owner ", path.display());
        for said in [
            &*facts,
            &format!("mode {:04o}", safe_mode | 0o002),
            "chmod o-w",
        ] {
            assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
        }
        set_mode(&path, safe_mode);
        assert!(listed(&run(&list)), "{path:?}");
    }
    // Skills are data, and anyone may write them.
    set_mode(&base.join("skills"), 0o777);
    assert!(run(&["skills"]).stdout.contains("theirs"));
}

#[test]
fn option_trust_allows_user_and_group() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can change owners; CI runs as root.
    }
    let program = repository("skills = [\"skills\"]\ntools = [\"tools\"]\n");
    let base = program.folder.path().join("repository");
    let tools = |more: &[&str]| run_in(&program, &[more, &["tools"]].concat(), "");
    for path in ["tools/unchecked.wasm", "tools", "skillhost.toml"] {
        let path = base.join(path);
        chown(&path, Some(54_321), Some(54_322)).unwrap();
        let run = tools(&[]);
        assert!(!run.stdout.contains("raw_read"), "{run:?}");
        assert!(
            run.stderr.contains("`--trust user:54321`"),
            "{}",
            run.stderr
        );
        let run = tools(&["--trust", "user:54321"]);
        assert!(run.stdout.contains("raw_read"), "{run:?}");
        set_mode(&path, 0o775);
        let run = tools(&["--trust", "user:54321"]);
        assert!(
            run.stderr.contains("`--trust group:54322`"),
            "{}",
            run.stderr
        );
        let run = tools(&["--trust", "user:54321", "--trust", "group:54322"]);
        assert!(run.stdout.contains("raw_read"), "{run:?}");
        chown(&path, Some(0), Some(0)).unwrap();
        set_mode(&path, 0o755);
    }
    for wrong in ["root", "user:", "user:no-such-user", "all:root"] {
        let run = tools(&["--trust", wrong]);
        assert_eq!(run.code, 2, "{wrong}: {run:?}");
        assert!(run.stderr.contains("--trust"), "{}", run.stderr);
    }
}

#[test]
fn reload_refuses_component_that_everybody_can_change() {
    let folders = Folders::new();
    let file = folders.outside.join("a.wasm");
    fs::copy(guests().join("count_lines.wasm"), &file).unwrap();
    set_mode(&file, 0o644);
    let builder = builder().tools(&folders.outside);
    let first = build(builder.clone());
    set_mode(&file, 0o666);
    let second = block_on(builder.clone().rebuild(&first)).unwrap();
    let [problem] = second.problems() else {
        panic!("{:?}", second.problems());
    };
    assert!(problem.contains("mode 0666"), "{problem}");
    assert!(problem.ends_with("its earlier tools remain"), "{problem}");
    // A folder that everybody can change fails only the reload.
    set_mode(&folders.outside, 0o777);
    let error = block_on(builder.rebuild(&first)).err().unwrap();
    assert!(format!("{error:#}").contains("cannot use the tools folder"));
    assert!(
        first
            .definitions()
            .iter()
            .any(|tool| tool.name == "count_lines")
    );
}

#[test]
fn embedder_can_trust_a_user() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can change owners; CI runs as root.
    }
    let folders = Folders::new();
    let file = folders.outside.join("a.wasm");
    fs::copy(guests().join("count_lines.wasm"), &file).unwrap();
    chown(&file, Some(54_321), None).unwrap();
    let builder = builder().component(&file);
    let host = block_on(builder.clone().build()).unwrap();
    assert!(host.problems()[0].contains("belongs to another user"));
    build(builder.trust(Trust::new().and(Principal::User(54_321))));
}

#[test]
fn skills_symlink_out_of_current_folder_needs_option() {
    let program = repository("");
    let base = program.folder.path().join("repository");
    fs::rename(base.join("skills"), base.join("own")).unwrap();
    let arguments = "{\"skill_name\":\"mine\"}";
    let call = ["call", "read_skill", arguments];
    for target in [
        Path::new("../home/skills"),
        &program.folder.path().join("home/skills"),
    ] {
        symlink(target, base.join("skills")).unwrap();
        for run in [
            serve(
                &program,
                &[],
                &[("read_skill", json!({"skill_name": "mine"}))],
            ),
            run_in(&program, &call, ""),
            run_in(
                &program,
                &[&["--config", "skillhost.toml"], &call[..]].concat(),
                "",
            ),
        ] {
            assert!(!run.stdout.contains("# Mine"), "{run:?}");
            let said = "`./skills` leads out of this folder and is not used";
            assert!(run.stderr.contains(said), "{}", run.stderr);
        }
        let run = run_in(&program, &[&["--skills", "skills"], &call[..]].concat(), "");
        assert_eq!(&*run.stdout, "# Mine\n", "{run:?}");
        fs::remove_file(base.join("skills")).unwrap();
    }
    symlink("own", base.join("skills")).unwrap();
    let run = run_in(
        &program,
        &["call", "read_skill", "{\"skill_name\":\"theirs\"}"],
        "",
    );
    assert_eq!(&*run.stdout, "# Theirs\n", "{run:?}");
}

#[test]
fn uses_no_cache_at_relative_path() {
    let program = repository("");
    let base = program.folder.path().join("repository");
    for (home, has_cache) in [("", false), (".", false), (base.to_str().unwrap(), true)] {
        let mut command = program.command(&["call", "--confine", "off", "list_skills"]);
        command.current_dir(&base).env_remove("SKILLHOST_CACHE");
        command.env("HOME", home);
        let run = crate::support::program::finish(command, "");
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(base.join(".cache").exists(), has_cache, "{home}");
    }
    for relative in [".", "cache", "../repository/cache"] {
        for arguments in [
            &["call", "list_skills"][..],
            &["serve"],
            &["skills"],
            &["warm"],
        ] {
            let mut command = program.command(arguments);
            command.current_dir(&base).env("SKILLHOST_CACHE", relative);
            let run = crate::support::program::finish(command, "");
            let said = "`SKILLHOST_CACHE` must be `off` or an absolute path";
            assert_eq!((run.code, run.stderr.contains(said)), (4, true), "{run:?}");
        }
    }
}

#[test]
fn stops_serving_found_folder_that_leads_out_later() {
    for confine in ["auto", "off"] {
        let program = repository("");
        let base = program.folder.path().join("repository");
        fs::remove_file(base.join("skillhost.toml")).unwrap();
        let mut client = Client::start(&base, &["--confine", confine], "2025-11-25");
        let theirs = client.call("read_skill", json!({"skill_name": "theirs"}));
        assert_eq!(theirs["isError"], false, "{theirs}");
        fs::rename(base.join("skills"), base.join("old")).unwrap();
        symlink("../home/skills", base.join("skills")).unwrap();
        client.wait_until_logged("cannot open the skills folder `skills`: it leads out of");
        let mine = client.call("read_skill", json!({"skill_name": "mine"}));
        assert_eq!(mine["isError"], true, "{confine}: {mine}");
    }
}

#[test]
fn refuses_configuration_symlink_that_leads_out() {
    let program = repository("skills = [\"skills\"]\n");
    let base = program.folder.path().join("repository");
    let file = base.join("skillhost.toml");
    fs::rename(&file, base.join("other.toml")).unwrap();
    symlink("other.toml", &file).unwrap();
    assert_eq!(run_in(&program, &["skills"], "").code, 0);
    fs::remove_file(&file).unwrap();
    program.write("home/credentials", "secret_key = 1\n");
    symlink("../home/credentials", &file).unwrap();
    let run = run_in(&program, &["skills"], "");
    assert_eq!(run.code, 4, "{run:?}");
    assert!(!run.stderr.contains("secret_key"), "{}", run.stderr);
    assert!(run.stderr.contains("it is a symlink"), "{}", run.stderr);
}

#[test]
fn warns_of_skills_folders_that_others_can_replace() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can change owners; CI runs as root.
    }
    let program = Program::new();
    program.write(
        "alice/skills/a/SKILL.md",
        "---\nname: a\ndescription: A.\n---\n",
    );
    program.write("c.toml", "skills = [\"alice/skills\"]\n");
    let folder = program.folder.path().canonicalize().unwrap();
    let warning = format!(
        "`c.toml`, line 1: others can make the folder `alice/skills` lead to any other: \
         `{}` (owner 54321, mode 0755) belongs to another user",
        folder.join("alice").display()
    );
    let set_owner = |path: &str, user| chown(folder.join(path), Some(user), None).unwrap();
    let config = ["--config", "c.toml"];
    for (path, is_replaceable) in [("alice/skills", false), ("alice", true)] {
        fs::set_permissions(folder.join(path), fs::Permissions::from_mode(0o755)).unwrap();
        set_owner(path, 54_321);
        for verb in ["serve", "check"] {
            let run = program.run(&[&config[..], &[verb]].concat());
            assert_eq!(run.code, 0, "{run:?}");
            assert_eq!(
                run.stderr.contains(&warning),
                is_replaceable,
                "{path}: {run:?}"
            );
            let run = program.run(&[&config[..], &["--trust", "user:54321", verb]].concat());
            assert!(!run.stderr.contains("lead to any other"), "{run:?}");
        }
        set_owner(path, 0);
    }
}

#[test]
fn warns_of_followed_links_that_others_can_redirect() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can change owners; CI runs as root.
    }
    let program = Program::new();
    program.write("skills/own/SKILL.md", "# A\n");
    for skill in ["one", "two"] {
        program.write(&format!("author/{skill}/SKILL.md"), "# A\n");
        let link = program.folder.path().join("skills").join(skill);
        std::os::unix::fs::symlink(format!("../author/{skill}"), link).unwrap();
    }
    let write_config = |follows: bool| {
        let text = format!("skills = [{{ path = \"skills\", follow_root_links = {follows} }}]\n");
        program.write("c.toml", text);
    };
    let author = program.folder.path().canonicalize().unwrap().join("author");
    let count_warnings = |options: &[&str], verb| {
        let arguments = [&["--config", "c.toml"], options, &[verb]].concat();
        let run = program.run(&arguments);
        let warnings = run.stderr.lines();
        let warnings = warnings
            .filter(|line| line.contains("lead to any other"))
            .inspect(|line| {
                let reason = format!("`{}` (owner 54321", author.display());
                assert!(
                    line.contains("the symlink `skills/") && line.contains(&reason),
                    "{line}"
                );
            });
        warnings.count()
    };
    for (owner, follows, warnings) in [(0, true, 0), (54_321, false, 0), (54_321, true, 1)] {
        write_config(follows);
        chown(&author, Some(owner), None).unwrap();
        for verb in ["serve", "check"] {
            assert_eq!(
                count_warnings(&[], verb),
                warnings,
                "{verb} {owner} {follows}"
            );
            assert_eq!(
                count_warnings(&["--trust", "user:54321"], verb),
                0,
                "{verb} {owner} {follows}"
            );
        }
    }
}

#[test]
fn members_of_groups_are_unknown_in_user_namespaces() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    program.write("c.toml", "skills = [\"skills\"]\n");
    let config = program.folder.path().join("c.toml");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o664)).unwrap();
    // Inside the namespace, the group belongs to root. Its members outside are unknown.
    let inside = "exec unshare --user --map-root-user -- \"$0\" \"$@\"";
    let call = ["--config", "c.toml", "call", "read_skill", "skill_name=a"];
    let run = program.run_after_with(inside, &call, "");
    if run.stderr.contains("Operation not permitted") || run.stderr.contains("unshare: ") {
        eprintln!("this machine forbids user namespaces: {}", run.stderr);
        return;
    }
    assert_eq!((run.code, run.stdout.as_str()), (4, ""), "{run:?}");
    let why = "`--trust group:root` trusts the group";
    assert!(run.stderr.contains(why), "{run:?}");
    let trusting = [&["--trust", "group:root"], &call[..]].concat();
    let run = program.run_after_with(inside, &trusting, "");
    assert_eq!((run.code, run.stdout.as_str()), (0, "# A\n"), "{run:?}");
}

#[test]
fn overflow_user_is_not_trusted_in_namespace() {
    let program = Program::new();
    program.write("skills/a/SKILL.md", "# A\n");
    let component = fs::read(guests().join("count_lines.wasm")).unwrap();
    program.write("tools/count_lines.wasm", component);
    let options = "--skills skills --tools tools --grant count_lines.wasm=a";
    let call = "call count_lines skill_name=a path=SKILL.md";
    let call: Vec<&str> = options.split(' ').chain(call.split(' ')).collect();
    let run = program.run(&call);
    assert_eq!(run.code, 0, "{run:?}");
    // Inside, every unmapped user has the id of the overflow user.
    let inside = "exec unshare --user --map-user=65534 --map-group=65534 -- \"$0\" \"$@\"";
    let run = program.run_after_with(inside, &call, "");
    if run.stderr.contains("Operation not permitted") || run.stderr.contains("unshare: ") {
        eprintln!("this machine forbids user namespaces: {}", run.stderr);
        return;
    }
    assert_ne!(run.code, 0, "{run:?}");
    let why = "belongs to a user that this process cannot name";
    assert!(run.stderr.contains(why), "{run:?}");
    assert_eq!(run.stdout, "");
    // Calls that need no trusted file still work.
    let read = ["--skills", "skills", "call", "read_skill", "skill_name=a"];
    let run = program.run_after_with(inside, &read, "");
    assert_eq!((run.code, run.stdout.as_str()), (0, "# A\n"), "{run:?}");
}
