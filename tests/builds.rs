//! The programs that `skillhost build` runs, and the folders that they come from. Shell scripts
//! replace the interpreters and compilers; `tests/kits/run` builds with the real ones.

mod locks;
mod machine;

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::hostile_components::{component, definition, listing};
use crate::support::process::Process;
use crate::support::program::{NOBODY, Program, Run, finish};
use crate::support::repository;
pub(crate) use machine::Machine;
use machine::PYTHON;

/// Returns the text of a requirements file with one more hash.
fn with_another_hash(text: &str, hash: &str) -> String {
    text.replacen("--hash=", &format!("--hash=sha256:{hash} --hash="), 1)
}

#[test]
fn runs_no_program_in_the_project() {
    for (language, code) in [("python", 0), ("javascript", 0), ("c", 1)] {
        let machine = Machine::with_project(language);
        let canary = machine.path("canary");
        for decoy in [
            "build/venv/bin/python",
            "build/venv/bin/componentize-py",
            "node_modules/.bin/componentize-js",
            "node_modules/@bytecodealliance/componentize-js/src/cli.js",
            "node_modules/.bin/python3",
            "node_modules/.bin/node",
            "node_modules/.bin/npm",
            "python3",
            "node",
            "npm",
        ] {
            let script = format!("touch '{}'", canary.display());
            machine.program.script(&format!("project/{decoy}"), &script);
        }
        // A symlink into the project, and a folder with such symlinks, are on the PATH.
        symlink("project/node_modules/.bin", machine.path("link")).unwrap();
        fs::create_dir(machine.path("linked")).unwrap();
        // There is no symlink to `node`, because npm itself would run it. Only a user would make
        // such a symlink.
        for name in ["python3", "npm"] {
            let target = machine.project.join(name);
            symlink(target, machine.path("linked").join(name)).unwrap();
        }
        // Pretend that the compiler is installed.
        let text = |name: &str| fs::read_to_string(machine.project.join(name)).unwrap_or_default();
        let wanted = text("requirements.txt");
        fs::write(machine.project.join("build/venv/installed"), wanted).unwrap();
        let wanted = text("package.json") + &text("package-lock.json");
        fs::write(machine.project.join("node_modules/.installed"), wanted).unwrap();
        let run = machine.build();
        assert!(!canary.exists(), "{language}: {run:?}");
        assert_eq!(run.code, code, "{language}: {run:?}");
        let built = machine.project.join("dist/count_lines.wasm");
        assert_eq!(built.is_file(), code == 0, "{language}: {run:?}");
        assert_eq!(machine.install_count(), 1, "{language}: {run:?}");
        for line in machine.logged() {
            // Without `-I` Python imports modules from the current folder.
            let isolated = line.starts_with("npm ") || line.starts_with("python -I ");
            assert!(isolated, "{language}: {line}");
            // No script of a package runs, and no package is built.
            let options: &[&str] = match &*line {
                // Otherwise npm could use a parent folder as the project.
                _ if line.starts_with("npm ci ") => {
                    &["--ignore-scripts", "--prefix /", "--workspaces=false"]
                }
                _ if line.contains(" -m pip install ") => &[
                    "--only-binary :all:",
                    "--require-hashes",
                    "-c requirements.txt",
                ],
                _ => &[],
            };
            for option in options {
                assert!(line.contains(option), "{language}: {option}: {line}");
            }
        }
    }
}

#[test]
fn javascript_has_network_only_if_needs_ask() {
    let machine = Machine::with_project("javascript");
    let network = || fs::read_to_string(machine.path("log.network")).unwrap();
    assert_eq!(machine.build().code, 0);
    assert_eq!(network(), "\n");
    let secret = "[secrets.TOKEN]\nheader = \"authorization\"\nhosts = [\"api.example.org\"]\nwhy = \"tests\"\n";
    assert_eq!(machine.build_with_text("needs.toml", secret).code, 0);
    assert_eq!(network(), "\n");
    let rule = "[[network]]\nrule = \"https://api.example.org/*\"\nwhy = \"tests\"\n";
    assert_eq!(machine.build_with_text("needs.toml", rule).code, 0);
    // The name of the world that the build extends.
    assert_eq!(network(), "tool\n");
}

#[test]
fn python_has_network_only_if_needs_ask() {
    let machine = Machine::with_project("python");
    let compiler = || {
        let mut logged = machine.logged();
        logged.retain(|line| line.contains("componentize tool"));
        logged.pop().unwrap()
    };
    assert_eq!(machine.build().code, 0);
    assert!(!compiler().contains("wasi:http"), "{}", compiler());
    let secret = "[secrets.TOKEN]\nheader = \"authorization\"\nhosts = [\"api.example.org\"]\nwhy = \"tests\"\n";
    assert_eq!(machine.build_with_text("needs.toml", secret).code, 0);
    assert!(!compiler().contains("wasi:http"), "{}", compiler());
    let rule = "[[network]]\nrule = \"https://api.example.org/*\"\nwhy = \"tests\"\n";
    assert_eq!(machine.build_with_text("needs.toml", rule).code, 0);
    let line = compiler();
    assert!(line.contains("=wasi_http_types"), "{line}");
    assert!(line.contains("-w requests"), "{line}");
    let world = fs::read_to_string(machine.project.join("build/wit-http/world.wit")).unwrap();
    assert!(
        world.contains("include skillhost:tool/tool-component@"),
        "{world}"
    );
}

#[test]
fn c_compiler_gets_relative_paths() {
    let machine = Machine::with_project("c");
    machine.build();
    let logged = machine.logged();
    let mut lines = logged.iter().filter(|line| line.contains("ziglang cc"));
    let line = lines.next().unwrap();
    assert!(line.contains(" build/bindings/"), "{line}");
    // For the compiler, a `%` in a path has another meaning.
    let folder = machine.project.display().to_string();
    assert!(!line.contains(&folder), "{line}");
}

#[test]
fn installs_compiler_once_per_lock_file() {
    for (language, lock) in [
        ("python", "requirements.txt"),
        ("javascript", "package-lock.json"),
    ] {
        let machine = Machine::with_project(language);
        let lock = machine.project.join(lock);
        for (step, installed) in [
            ("first", 1),
            ("again", 1),
            ("changed", 2),
            ("again", 2),
            ("incomplete", 3),
            ("compiler gone", 4),
            ("moved behind a link", 4),
            ("another Python", 4 + usize::from(language == "python")),
        ] {
            match step {
                "changed" => {
                    let text = fs::read_to_string(&lock).unwrap();
                    let changed = match language {
                        "python" => with_another_hash(&text, "00"),
                        _ => text.replace("    ", "     "),
                    };
                    assert_ne!(changed, text);
                    fs::write(&lock, changed).unwrap();
                    // Another Python project could use the old environment, so a build keeps it.
                    if language == "python" {
                        fs::remove_dir_all(&machine.environments()[0]).unwrap();
                    }
                }
                "incomplete" => {
                    fs::remove_file(machine.environments()[0].join("installed")).unwrap();
                }
                "compiler gone" => {
                    for folder in ["venv", "node_modules"] {
                        let _ = fs::remove_dir_all(machine.environments()[0].join(folder));
                    }
                }
                // The cache may move to a larger disk.
                "moved behind a link" => {
                    let (folder, moved) = (&machine.environments()[0], machine.path("moved"));
                    fs::rename(folder, &moved).unwrap();
                    symlink(moved, folder).unwrap();
                }
                // The system's Python may be upgraded.
                "another Python" => {
                    let python = machine.path("bin/python3");
                    fs::rename(&python, machine.path("bin/python3.13")).unwrap();
                    symlink("python3.13", python).unwrap();
                }
                _ => {}
            }
            let run = machine.build();
            assert_eq!(run.code, 0, "{language}, {step}: {run:?}");
            assert_eq!(machine.install_count(), installed, "{language}, {step}");
            let [environment] = &machine.environments()[..] else {
                panic!("{language}, {step}: {:?}", machine.environments());
            };
            let mode = fs::metadata(environment).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{language}, {step}");
        }
        // Nothing was installed into the project.
        for folder in ["build/venv", "node_modules"] {
            assert!(
                !machine.project.join(folder).exists(),
                "{language}: {folder}"
            );
        }
    }
}

#[test]
fn compiles_current_sources() {
    let machine = Machine::with_project("javascript");
    machine.build();
    for kit in [
        "skillhost-kit.js",
        "skillhost-folder.js",
        "skillhost-http.js",
    ] {
        fs::remove_file(machine.project.join("src").join(kit)).unwrap();
    }
    fs::write(machine.project.join("src/tool.js"), "current\n").unwrap();
    symlink("tool.js", machine.project.join("src/link.js")).unwrap();
    // A symlink cycle.
    symlink(".", machine.project.join("src/circle")).unwrap();
    assert_eq!(machine.build().code, 0);
    let sources = fs::read_to_string(machine.path("log.sources")).unwrap();
    assert_eq!(sources, "current\ncurrent\n");
}

#[test]
fn waits_for_another_build_of_the_project() {
    let machine = Machine::with_project("python");
    assert_eq!(machine.build().code, 0);
    // The first lock is held while a compiler is installed, the second while sources are compiled.
    for locked in [
        machine.environments()[0].clone(),
        machine.project.join("build"),
    ] {
        let lock = fs::File::open(&locked).unwrap();
        lock.lock().unwrap();
        let mut child = Process::start(&mut machine.command(&["build"]));
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        assert!(
            line.contains("waiting for another build of this project"),
            "{line}"
        );
        assert!(child.try_wait().is_none());
        drop(lock);
        assert!(child.wait().success());
    }
}

#[test]
fn python_projects_share_only_compilers() {
    let machine = Machine::with_project("python");
    assert_eq!(machine.build().code, 0);
    let run = machine.program.run(&["new", "other", "--lang", "python"]);
    assert_eq!(run.code, 0, "{run:?}");
    let other = Machine {
        project: machine.path("other"),
        ..machine
    };
    assert_eq!(other.build().code, 0);
    assert_eq!(other.install_count(), 1, "{:?}", other.logged());
    let lock = other.project.join("requirements.txt");
    let library = "fastjsonschema==2.22.3 --hash=sha256:00\n";
    fs::write(&lock, fs::read_to_string(&lock).unwrap() + library).unwrap();
    assert_eq!(other.build().code, 0);
    assert_eq!(other.install_count(), 1, "{:?}", other.logged());
    let installs = other.logged();
    let installs = installs.iter().filter(|line| line.contains("pip install"));
    assert_eq!(installs.count(), 2);
    assert_eq!(other.environments().len(), 2);
}

#[test]
fn removes_shared_compiler_after_unused_month() {
    let machine = Machine::with_project("python");
    assert_eq!(machine.build().code, 0);
    let before = machine.environments();
    let lock = machine.project.join("requirements.txt");
    let text = fs::read_to_string(&lock).unwrap();
    fs::write(&lock, with_another_hash(&text, "00")).unwrap();
    assert_eq!(machine.build().code, 0);
    assert_eq!(machine.environments().len(), 2);
    let month = std::time::Duration::from_secs(31 * 24 * 3600);
    for environment in machine.environments() {
        let installed = fs::File::open(environment.join("installed")).unwrap();
        let long_ago = std::time::SystemTime::now() - month;
        installed.set_modified(long_ago).unwrap();
    }
    // A build keeps the environment that it uses.
    assert_eq!(machine.build().code, 0);
    fs::write(&lock, with_another_hash(&text, "01")).unwrap();
    assert_eq!(machine.build().code, 0);
    let after = machine.environments();
    assert_eq!(after.len(), 2, "{after:?}");
    assert!(!after.contains(&before[0]), "{after:?}");
}

#[test]
fn removes_environment_of_deleted_project() {
    let machine = Machine::with_project("javascript");
    machine.build();
    fs::rename(&machine.project, machine.path("moved")).unwrap();
    let machine = Machine {
        project: machine.path("moved"),
        ..machine
    };
    let before = machine.environments();
    assert_eq!(machine.build().code, 0);
    let after = machine.environments();
    assert!(after.len() == 1 && after != before, "{before:?}, {after:?}");
}

#[test]
fn refuses_cache_that_others_can_write() {
    for (place, message) in [
        ("cache", "no other user may write in it"),
        ("cache/environments", "no other user may write in it"),
        ("", "no other user may write in it"),
        ("project data", "no other user may write in it"),
        ("off", "`SKILLHOST_CACHE` is `off`"),
        ("project/cache", "is in the project"),
    ] {
        let machine = Machine::with_project("python");
        let cache = match place {
            "off" => PathBuf::from("off"),
            "project/cache" => machine.path(place),
            _ => {
                assert_eq!(machine.build().code, 0);
                let folder = match place {
                    "" => machine.environments()[0].clone(),
                    // The folder with the project's data for later builds.
                    "project data" => {
                        let all = fs::read_dir(machine.path("cache/environments")).unwrap();
                        let mut all = all.map(|entry| entry.unwrap().path());
                        let is_project_data = |path: &PathBuf| {
                            path.file_name()
                                .unwrap()
                                .to_str()
                                .unwrap()
                                .starts_with("project-")
                        };
                        all.find(is_project_data).unwrap()
                    }
                    _ => machine.path(place),
                };
                fs::set_permissions(folder, Permissions::from_mode(0o770)).unwrap();
                machine.path("cache")
            }
        };
        let before = machine.logged();
        let run = machine.build_with(&[("SKILLHOST_CACHE", &cache)]);
        assert_eq!(run.code, 4, "{place}: {run:?}");
        assert!(run.stderr.contains(message), "{place}: {}", run.stderr);
        assert!(
            run.stderr.contains("`SKILLHOST_CACHE"),
            "{place}: {}",
            run.stderr
        );
        assert_eq!(machine.logged(), before, "{place}");
    }
}

#[test]
fn failed_install_is_not_reused() {
    let machine = Machine::with_project("javascript");
    // The install fails after the compiler is in its place.
    for attempt in 1..3 {
        let run = machine.build_with(&[("FAIL", Path::new("1"))]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.stderr.contains("`npm ci` failed"), "{}", run.stderr);
        assert_eq!(machine.install_count(), attempt);
        assert!(!machine.path("log.sources").exists(), "the compiler ran");
    }
}

#[test]
fn dev_applies_limits_of_the_project() {
    let machine = Machine::with_project("python");
    let settings = machine.project.join("skillhost.toml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text + "\n[limits]\noutput = \"1KiB\"\n").unwrap();
    fs::remove_dir_all(machine.project.join("cases")).unwrap();
    // The answer contains the path, so it exceeds the limit.
    let path = vec!["x".repeat(200); 6].join("/");
    let skill = "project/skills/sailing-terms";
    machine.program.write(&format!("{skill}/{path}"), "one\n");
    let case = json!({
        "tool": "count_lines",
        "arguments": {"skill_name": "sailing-terms", "path": path},
        "expect": {"error": {"kind": "output"}},
    });
    let case = case.to_string();
    machine.program.write("project/cases/large.json", case);
    // `dev` starts in another folder, which has no configuration.
    let mut command = machine.command(&["dev", "project"]);
    command.current_dir(machine.program.folder.path());
    let mut dev = Process::start(&mut command);
    let stdout = BufReader::new(dev.stdout.take().unwrap());
    let lines = stdout.lines().map(Result::unwrap);
    let lines: Vec<String> = lines
        .take_while(|line| !line.starts_with("took "))
        .collect();
    assert!(
        lines.iter().any(|line| line.ends_with(" pass")),
        "{lines:?}"
    );
    let fails = lines.iter().any(|line| line.contains("case `large`"));
    assert!(!fails, "{lines:?}");
}

#[test]
fn reports_stale_grant_of_renamed_tool() {
    let machine = Machine::with_project("javascript");
    // The tool of this component reads no skill.
    let defined = definition(16, "search_word", "{\"type\": \"object\"}", 4);
    let defined = defined + "(data (i32.const 65536) \"Word\")";
    machine
        .program
        .write("component.wasm", component(&listing(2, 1, &defined)));
    let build = || machine.build_with(&[("COMPONENT", &machine.path("component.wasm"))]);
    let stale = "`skillhost.toml`, line 7, grants something to `project.wasm`, ";
    let change = "change it to `[grants.\"search_word.wasm\"]`";
    let built = build();
    assert_eq!(built.code, 0, "{built:?}");
    for says in [stale, "which does not exist", change] {
        assert!(built.stderr.contains(says), "{says}: {built:?}");
    }
    // The component with the old name exists too.
    let old = machine.project.join("dist/project.wasm");
    fs::copy(machine.path("component.wasm"), &old).unwrap();
    let built = build();
    for says in [
        stale,
        "and nothing to `search_word.wasm`",
        "delete it",
        change,
    ] {
        assert!(built.stderr.contains(says), "{says}: {built:?}");
    }
    fs::remove_file(old).unwrap();
    // Both names have a grant. The old grant still prevents a host from starting.
    let config = machine.project.join("skillhost.toml");
    let text = fs::read_to_string(&config).unwrap();
    let both = format!("{text}\n[grants.\"search_word.wasm\"]\nskills = []\n");
    fs::write(&config, both).unwrap();
    let built = build();
    for says in [stale, "remove it"] {
        assert!(built.stderr.contains(says), "{says}: {built:?}");
    }
    fs::write(&config, text.replace("project.wasm", "search_word.wasm")).unwrap();
    let built = build();
    assert!(!built.stderr.contains("grants"), "{built:?}");
}

#[test]
fn help_warns_that_builds_run_project_code() {
    let program = Program::new();
    for verb in ["new", "build", "dev"] {
        let run = program.run(&[verb, "--help"]);
        assert_eq!(run.code, 0, "{run:?}");
        let text = run.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("A build runs the project's code"),
            "{verb}: {text}"
        );
    }
}

#[test]
fn build_from_outside_has_no_project_on_path() {
    let machine = Machine::with_project("c");
    let script = format!("echo \"$PATH\" >>\"$LOG.path\"\n{PYTHON}");
    machine.program.script("bin/python3", &script);
    let mut command = machine.command(&["build", "project"]);
    command.current_dir(machine.program.folder.path());
    finish(command, "");
    let paths = fs::read_to_string(machine.path("log.path")).unwrap();
    let folders = paths.lines().flat_map(|path| path.split(':'));
    for folder in folders.map(Path::new) {
        // A relative folder would be in the project for a compiler that starts there.
        let is_outside = folder.is_absolute() && !folder.starts_with(&machine.project);
        assert!(is_outside, "{paths}");
    }
}

#[test]
fn refuses_cache_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can change owners. CI runs as root.
    }
    // The compiler is installed, and then the compilation fails.
    let machine = Machine::with_project("c");
    assert_eq!(machine.build().code, 1);
    assert_eq!(machine.install_count(), 1);
    let before = machine.logged();
    for folder in [
        machine.path("cache"),
        machine.path("cache/environments"),
        machine.environments()[0].clone(),
    ] {
        chown(&folder, Some(NOBODY), None).unwrap();
        let run = machine.build();
        assert_eq!(run.code, 4, "{folder:?}: {run:?}");
        let message = "it must belong to the user who runs skillhost";
        assert!(run.stderr.contains(message), "{folder:?}: {}", run.stderr);
        assert_eq!(machine.logged(), before, "{folder:?}");
        chown(&folder, Some(0), None).unwrap();
    }
}
