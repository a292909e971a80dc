//! Skills from git repositories, sites and lock files of other programs.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::json;
use skillhost_skills::text::digest::sha256_hex;

use super::User;
use crate::support::git_server::GitServer;
use crate::support::process::Process;
use crate::support::program::finish;
use crate::support::registry::{Answer, answer};

const SKILL: &str = "---\nname: reports\ndescription: Writes reports\n---\n# One\n";

/// A user's configuration of git that redirects requests and runs a program. skillhost must ignore
/// it.
const GIT_CONFIG: &str = "[url \"http://127.0.0.1:1/\"]\ninsteadOf = http://localhost\n\
                          [http]\nproxy = http://127.0.0.1:1\n[core]\nhooksPath = ~/hooks\n";

fn server_with_skill() -> (GitServer, String) {
    let server = GitServer::start();
    server.write("skills/reports/SKILL.md", SKILL);
    server.write("skills/reports/scripts/run.py", "print(1)\n");
    let commit = server.commit();
    (server, commit)
}

#[test]
fn serves_skill_from_locked_commit_of_repository() {
    let user = User::new();
    user.program.write("home/.gitconfig", GIT_CONFIG);
    let hook = format!("touch {}", user.path("ran").display());
    user.program
        .script("home/hooks/reference-transaction", &hook);
    let (server, first) = server_with_skill();
    let source = server.source("@main#skills/reports");
    let shown = user.run_ok(&["add", "--skill", &source]);
    for part in [
        &*format!("reports from {source}\n"),
        &format!("commit: {first}\n"),
        "signer: unsigned",
        "file: SKILL.md (",
        "script: scripts/run.py (9 bytes)\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let [config, lock] = user.files().map(Option::unwrap);
    assert!(config.contains(&format!("[skills_from.reports]\nsource = \"{source}\"\n")));
    assert!(
        lock.contains(&format!("\ncommit = \"{first}\"\n")),
        "{lock}"
    );

    server.write("skills/reports/SKILL.md", &SKILL.replace("One", "Two"));
    let second = server.commit();
    let request_count = server.request_heads().len();
    user.run_ok(&["lock", "--check"]);
    let read = || user.run_ok(&["call", "read_skill", "skill_name=reports"]);
    assert!(read().contains("# One"));
    assert_eq!(server.request_heads().len(), request_count);
    // Move the store away, as if on another machine.
    fs::rename(user.path("data"), user.path("old")).unwrap();
    assert!(user.run_ok(&["fetch"]).contains("reports: fetched"));
    assert!(read().contains("# One"));
    let updated = user.run_ok(&["update"]);
    let commits = format!("commit: {first} -> {second}\n");
    for part in [&*commits, "- # One", "+ # Two"] {
        assert!(updated.contains(part), "{part}: {updated}");
    }
    assert!(read().contains("# Two"));
    assert!(!user.path("ran").exists());

    let [config, lock] = user.files().map(Option::unwrap);
    let with_revision = |text: &str, revision: &str| text.replace("@main", &format!("@{revision}"));
    for (config, lock, why) in [
        (
            config.clone(),
            lock.replace(&second, "main"),
            "is not a full commit id",
        ),
        (
            with_revision(&config, &first),
            with_revision(&lock, &first),
            "names a commit other than",
        ),
        (
            with_revision(&config, "v1"),
            lock.clone(),
            "`skillhost update reports` locks it",
        ),
    ] {
        user.program.write("skillhost.toml", config);
        user.program.write("skillhost.lock", lock);
        for arguments in [
            &["call", "read_skill", "skill_name=reports"][..],
            &["fetch"],
        ] {
            let run = user.run(arguments);
            assert!(run.code != 0 && run.stderr.contains(why), "{why}: {run:?}");
        }
    }
}

#[test]
fn refused_sources_change_nothing() {
    let user = User::new();
    let (server, _) = server_with_skill();
    let authority = &server.authority;
    for source in [
        &*format!("git+http://user:word@{authority}/acme/skills"),
        &server.source("@--upload-pack=touch#skills/reports"),
        &server.source("#skills/../../reports"),
        &format!("git+file://{}", server.repository().display()),
        "git+http://git.example/acme/skills",
        "http://site.example#reports",
    ] {
        user.run_err(2, &["add", "--skill", source]);
    }
    assert!(server.request_heads().is_empty());
    // Without `--skill`, `add` expects a component, and refuses a git repository.
    user.run_err(2, &["add", &server.source("#skills/reports")]);
    let id = server.blob(SKILL.as_bytes());
    let link = server.blob(b"../../../skillhost.toml");
    let skill = format!("100644 blob {id}\tSKILL.md\n");
    for (entry, why) in [
        (format!("120000 blob {link}\tx"), "`x` is a symlink"),
        (format!("100644 blob {id}\tskill.md"), "differ only by case"),
        (format!("100644 blob {id}\t.git"), "contains '.git'"),
    ] {
        server.commit_tree(&format!("{skill}{entry}\n"));
        let refused = user.run_err(4, &["add", "--skill", &server.source("")]);
        assert!(refused.contains(why), "{entry}: {refused}");
    }
    let config = format!(
        "require_signatures = true\n{}",
        user.files()[0].clone().unwrap()
    );
    user.program.write("skillhost.toml", config);
    for source in [
        server.source("#skills/reports"),
        format!("http://{authority}#reports"),
    ] {
        let refused = user.run_err(4, &["add", "--skill", &source]);
        assert!(refused.contains("`require_signatures` is set"), "{refused}");
    }
}

#[test]
fn skill_of_site_is_locked() {
    let user = User::new();
    let offer = |text: &'static str| {
        user.registry.replace_answers(move |head| {
            let index = json!({
                "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
                "skills": [{
                    "name": "reports", "type": "skill-md", "description": "d", "url": "reports.md",
                    "digest": format!("sha256:{}", sha256_hex(text.as_bytes())),
                }],
            });
            let folder = "/.well-known/agent-skills";
            let body = match head.split(' ').nth(1).unwrap().strip_prefix(folder)? {
                "/index.json" => index.to_string(),
                "/reports.md" => text.to_owned(),
                _ => return None,
            };
            Some(Answer::Raw(answer("200 OK", &[], body.as_bytes())))
        });
    };
    offer(SKILL);
    let site = format!("http://{}", user.registry.authority);
    let missing = user.run_err(4, &["add", "--skill", &format!("{site}#other")]);
    assert!(
        missing.contains("no skill `other`; it has: reports"),
        "{missing}"
    );
    user.run_ok(&["add", "--skill", &format!("{site}#reports")]);
    user.run_ok(&["lock", "--check"]);
    let read = || user.run_ok(&["call", "read_skill", "skill_name=reports"]);
    assert!(read().contains("# One"));
    offer("---\nname: reports\ndescription: Writes reports\n---\n# Two\n");
    fs::remove_dir_all(user.path("data/skillhost/store/sha256")).unwrap();
    let refused = user.run(&["fetch"]);
    assert!(
        refused
            .stderr
            .contains("has other bytes than the lock file"),
        "{refused:?}"
    );
    user.run_ok(&["update"]);
    assert!(read().contains("# Two"));
}

#[test]
fn lock_file_of_another_program_is_imported() {
    let user = User::new();
    let skill = SKILL.replace("reports", "report");
    user.push_skill(&[("SKILL.md", &skill)], None);
    user.add_skill();
    let lock = user.files()[1].clone().unwrap();
    let manifest = lock
        .lines()
        .find_map(|line| line.strip_prefix("manifest = "));
    let manifest = manifest.unwrap().trim_matches('"').to_owned();
    user.run_ok(&["remove", "--skill", "report"]);
    let repository = format!("{}/acme/report", user.registry.authority);
    user.program.write(
        "toolhive.lock.yaml",
        format!(
            "version: 1\nskills:\n- name: a-report\n  source: {repository}:1\n  digest: {manifest}\n\
             - name: gone\n  source: {repository}:1\n  digest: sha256:{}\n\
             - name: unknown\n  source: unknown\n  digest: {manifest}\n",
            "0".repeat(64)
        ),
    );
    let run = user.run(&["add", "--skills-from", "toolhive.lock.yaml"]);
    assert_eq!(run.code, 1, "{run:?}");
    let pinned_source = format!("oci://{repository}@{manifest}");
    assert!(
        run.stdout
            .contains(&format!("a-report from {pinned_source}\n")),
        "{run:?}"
    );
    for name in ["gone", "unknown"] {
        let why = format!("cannot add `{name}`: ");
        assert_eq!(run.stderr.matches(&why).count(), 1, "{run:?}");
    }
    let config = user.files()[0].clone().unwrap();
    let table = format!("[skills_from.a-report]\nsource = \"{pinned_source}\"\n");
    assert!(
        config.ends_with(&table) && config.matches("skills_from").count() == 1,
        "{config}"
    );
    let read = user.run_ok(&["call", "read_skill", "skill_name=a-report"]);
    assert!(read.contains("# One"), "{read}");
    let again = user.run(&["add", "--skills-from", "toolhive.lock.yaml"]);
    assert!(
        again.stdout.contains("`a-report` is already configured"),
        "{again:?}"
    );
    assert_eq!(user.files()[0], Some(config));
    // The import does not replace a source that the operator wrote, even before it is locked.
    let configured = "[skills_from.gone]\nsource = \"oci://registry.example/acme/gone:1\"\n";
    user.append(configured);
    let refused = user.run(&["add", "--skills-from", "toolhive.lock.yaml"]);
    assert!(
        refused.stderr.contains("it is already configured from"),
        "{refused:?}"
    );
    assert!(user.files()[0].as_ref().unwrap().contains(configured));
    user.program.write("skills-lock.json", "{\"version\": 1}");
    let wrong = user.run_err(4, &["add", "--skills-from", "skills-lock.json"]);
    assert!(
        wrong.contains("it is not a lock file of `npx skills`"),
        "{wrong}"
    );
    user.run_err(2, &["add", "--skills-from", "skills-lock.json", "--skill"]);
}

#[test]
fn git_trusts_only_named_certificate_authorities() {
    let user = User::new();
    // Replaces git: compares the file that `http.sslCAInfo` names, and lists the folder that
    // `http.sslCAPath` names.
    let file = user.path("ca.pem");
    let git = format!(
        "for option; do case $option in\n\
         http.sslCAInfo=*) cmp \"${{option#*=}}\" {} && echo sslCA is the file;;\n\
         http.sslCAPath=*) echo folder:; ls -A \"${{option#*=}}\";;\n\
         esac; done >&2; exit 1",
        file.display()
    );
    user.program.script("bin/git", &git);
    let certificate_authority =
        rcgen::generate_simple_self_signed(["git.example".to_owned()]).unwrap();
    user.program
        .write("ca.pem", certificate_authority.cert.pem());
    let stderr_of_add = |options: &[&str]| -> String {
        let mut command = user.program.command(
            &[
                &["add", "--skill", "git+https://git.example/acme/skills"],
                options,
            ]
            .concat(),
        );
        let path = format!("{}:/usr/bin:/bin", user.path("bin").display());
        command
            .env("XDG_DATA_HOME", user.path("data"))
            .env("PATH", path);
        let run = finish(command, "");
        assert_eq!(run.code, 4, "{run:?}");
        run.stderr
    };
    assert!(!stderr_of_add(&[]).contains("sslCA"));
    let with_file = stderr_of_add(&["--ca-file", "ca.pem"]);
    // The error joins git's lines with `; `. The next line would be an entry of the folder.
    assert!(
        with_file.ends_with("sslCA is the file; folder:\n"),
        "{with_file}"
    );
    // Other users could add an authority.
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    let refused = stderr_of_add(&["--ca-file", "ca.pem"]);
    assert!(refused.contains("set its mode to 0644"), "{refused}");
}

#[test]
fn git_exits_with_program_and_leftovers_are_removed() {
    let user = User::new();
    let (server, commit) = server_with_skill();
    let (sender, events) = mpsc::channel();
    server.replace_answers(move |request, stream| {
        let is_pack = request.contains("command=fetch");
        if is_pack {
            sender.send("fetch begun").unwrap();
            // Send no response. The copy ends when git disconnects.
            let _ = std::io::copy(stream, &mut std::io::sink());
            sender.send("disconnected").unwrap();
        }
        is_pack
    });
    let source = server.source(&format!("@{commit}#skills/reports"));
    let temporary = user.path("temporary");
    fs::create_dir(&temporary).unwrap();
    // Not SIGINT: a shell may start its background processes with SIGINT ignored.
    for signal in [Signal::TERM, Signal::KILL] {
        let mut command = user.program.command(&["add", "--skill", &source]);
        command
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", &temporary)
            .env("XDG_DATA_HOME", user.path("data"));
        let program = Process::start(&mut command);
        let next = || events.recv_timeout(Duration::from_secs(30));
        assert_eq!(next(), Ok("fetch begun"));
        program.signal(signal);
        assert_eq!(program.wait().signal(), Some(signal.as_raw()));
        assert_eq!(next(), Ok("disconnected"), "{signal:?}");
    }
    // The clones of both runs are in the store. `store clean` removes them once they are an hour
    // old.
    assert_eq!(count(&temporary), 0);
    let skills = user.path("data/skillhost/store/skills");
    user.run_ok(&["store", "clean"]);
    assert_eq!(count(&skills), 2);
    for entry in fs::read_dir(&skills).unwrap() {
        let folder = File::open(entry.unwrap().path()).unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(2 * 60 * 60);
        folder.set_modified(long_ago).unwrap();
    }
    user.run_ok(&["store", "clean"]);
    assert_eq!(count(&skills), 0);
}

/// Returns the number of entries in a folder.
fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}
