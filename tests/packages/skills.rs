//! Skills in packages: from an author's folder through a registry to a call.

use std::fs;
use std::path::PathBuf;

use super::User;
use crate::support::program::Run;

/// Returns the text of a SKILL.md with this body.
fn skill_md(body: &str) -> String {
    format!("---\nname: report\ndescription: Writes reports\n---\n{body}")
}

impl User {
    pub(super) fn skill_reference(&self) -> String {
        format!("oci://{}/acme/report:1", self.registry.authority)
    }

    /// Pushes a skill with these files.
    pub(super) fn push_skill(&self, files: &[(&str, &str)], key: Option<&str>) -> String {
        let _ = fs::remove_dir_all(self.path("author/report"));
        for (path, text) in files {
            self.program.write(&format!("author/report/{path}"), text);
        }
        let (reference, key) = (self.skill_reference(), key.map(|key| format!("{key}.key")));
        let mut arguments = vec!["push", &*reference, "author/report"];
        arguments.extend(key.iter().flat_map(|key| ["--key", key]));
        self.run_ok(&arguments)
    }

    pub(super) fn add_skill(&self) -> String {
        self.run_ok(&["add", "--skill", &self.skill_reference()])
    }

    pub(super) fn read_skill(&self) -> Run {
        self.run(&["call", "read_skill", "skill_name=report"])
    }

    /// Returns the folder of the only unpacked skill.
    pub(super) fn unpacked(&self) -> PathBuf {
        let skills = self.path("data/skillhost/store/skills");
        let mut entries = fs::read_dir(skills).unwrap();
        let root = entries.next().unwrap().unwrap().path();
        assert!(entries.next().is_none());
        root.join("report")
    }
}

#[test]
fn signed_skill_goes_from_author_to_call() {
    let user = User::new();
    user.new_key("acme");
    let script = "print('hello')\n";
    let body = skill_md("# Reports\nRun [it](scripts/run.py).\n");
    let files = [
        ("SKILL.md", &*body),
        ("scripts/run.py", script),
        ("notes/one.txt", "x"),
        (".env", "SECRET"),
    ];
    let pushed = user.push_skill(&files, Some("acme"));
    assert!(pushed.contains("signer: the key "), "{pushed}");
    let pattern = format!("oci://{}/acme/*", user.registry.authority);
    user.append(&format!("[trust.\"{pattern}\"]\nkeys = [\"acme.pub\"]\n"));
    let before = user.files()[0].clone().unwrap();
    let shown = user.add_skill();
    for part in [
        "report from oci://localhost:",
        "signer: the key ",
        "name: report\n",
        "description: Writes reports\n",
        "file: SKILL.md (",
        "file: notes/one.txt (1 bytes)\n",
        "script: scripts/run.py (15 bytes)\n",
        "check: no findings\n",
        "it is served as the skill `report`",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains(".env"), "{shown}");
    let [config, lock] = user.files().map(Option::unwrap);
    let source = format!(
        "\n[skills_from.report]\nsource = \"{}\"\n",
        user.skill_reference()
    );
    assert_eq!(config, before + &source);
    assert!(
        lock.contains("[[skill]]") && lock.contains("\"scripts/run.py\" = \"sha256:"),
        "{lock}"
    );
    let checked = user.run_ok(&["lock", "--check"]);
    assert!(
        checked.starts_with("0 components and 1 skill locked"),
        "{checked}"
    );

    // Calls need no network.
    user.registry.take_request_heads();
    let read = user.read_skill();
    assert_eq!(read.code, 0, "{read:?}");
    assert!(read.stdout.contains("# Reports"), "{read:?}");
    let listed = user.run_ok(&["skills"]);
    assert!(
        listed.contains("report") && listed.contains("calculator"),
        "{listed}"
    );
    assert!(user.run_ok(&["store", "list"]).contains("files of report"));
    user.run_ok(&["store", "clean"]);
    assert_eq!(user.read_skill().code, 0);
    assert_eq!(user.registry.take_request_heads(), [""; 0]);

    // Only `fetch` gets missing bytes.
    fs::remove_dir_all(user.path("data/skillhost/store/sha256")).unwrap();
    let error = user.read_skill();
    assert_eq!(error.code, 4, "{error:?}");
    assert!(
        error.stderr.contains("`skillhost fetch` gets it"),
        "{error:?}"
    );
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
    assert_eq!(user.run_ok(&["fetch"]), "report: fetched\n");
    assert_eq!(user.run_ok(&["fetch"]), "report: in the store\n");
    assert_eq!(user.read_skill().code, 0);

    assert!(
        user.run_err(2, &["remove", "report"])
            .contains("there is no component `report`")
    );
    user.run_ok(&["remove", "--skill", "report"]);
    assert_ne!(user.read_skill().code, 0);
    user.run_ok(&["store", "clean"]);
    let unpacked = fs::read_dir(user.path("data/skillhost/store/skills")).unwrap();
    assert_eq!(unpacked.count(), 0);
}

#[test]
fn changed_files_are_not_served() {
    let user = User::new();
    user.push_skill(&[("SKILL.md", &skill_md("# One\n")), ("a.md", "a")], None);
    user.add_skill();
    let file = user.unpacked().join("a.md");
    // To replace a file, an editor must make its folder writable.
    let folder = file.parent().unwrap();
    let set_writable = |is_writable: bool| {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = if is_writable { 0o700 } else { 0o555 };
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    };
    set_writable(true);
    fs::remove_file(&file).unwrap();
    fs::write(&file, "b").unwrap();
    set_writable(false);
    let error = user.read_skill();
    assert_eq!(error.code, 4, "{error:?}");
    for part in [
        "`report/a.md` has other bytes",
        "`skillhost fetch` unpacks them again",
        "`skillhost.toml`, line ",
    ] {
        assert!(error.stderr.contains(part), "{part}: {error:?}");
    }
    user.run_err(1, &["lock", "--check"]);
    user.registry.take_request_heads();
    assert_eq!(user.run_ok(&["fetch"]), "report: unpacked again\n");
    assert_eq!(user.registry.take_request_heads(), [""; 0]);
    assert_eq!(user.read_skill().code, 0);
}

#[test]
fn update_shows_changes_of_skill() {
    let user = User::new();
    user.new_key("one");
    user.new_key("two");
    let pattern = format!("oci://{}/acme/report", user.registry.authority);
    user.append(&format!(
        "[trust.\"{pattern}\"]\nkeys = [\"one.pub\", \"two.pub\"]\n"
    ));
    let script = ("scripts/a.py", "a");
    let old = skill_md("# One\nfirst\nlast\n");
    user.push_skill(
        &[("SKILL.md", &old), script, ("old.md", ""), ("b.md", "1")],
        Some("one"),
    );
    user.add_skill();
    assert_eq!(user.run_ok(&["update"]), "report is up to date\n");
    let new = skill_md("# One\nfirst\n\u{1b}[2Jsecond\nlast\n");
    let files = [
        ("SKILL.md", &*new),
        ("scripts/a.py", "changed"),
        ("scripts/new.sh", ""),
        ("b.md", "2"),
    ];
    user.push_skill(&files, Some("one"));
    // The locked files are served until the update.
    assert!(!user.read_skill().stdout.contains("second"));
    let shown = user.run_ok(&["update", "report"]);
    let (_, shown) = shown.split_once("\n  manifest: ").unwrap();
    let (_, changes) = shown.split_once('\n').unwrap();
    assert_eq!(
        changes,
        "  tag: `1` has moved\n  file: changed SKILL.md\n  file: changed b.md\n  file: - old.md\n  \
         script: changed scripts/a.py\n  script: + scripts/new.sh\n  SKILL.md:\n    \
         + \\u{1b}[2Jsecond\n"
    );
    assert!(user.read_skill().stdout.contains("second"));
    user.push_skill(&files[..2], Some("two"));
    let error = user.run_err(1, &["update"]);
    assert!(
        error.contains("another signer; `--accept-signer`"),
        "{error}"
    );
    user.run_ok(&["update", "--accept-signer"]);
    user.run_ok(&["lock", "--check"]);
    // A long difference is cut.
    let long: String = (0..100).map(|line| format!("line {line}\n")).collect();
    user.push_skill(&[("SKILL.md", &skill_md(&long))], Some("two"));
    let shown = user.run_ok(&["update"]);
    assert!(
        shown.contains("    and 64 more lines; compare `/"),
        "{shown}"
    );
    assert_eq!(shown.matches("\n    + line ").count(), 36, "{shown}");
    // A long line is shown where it differs.
    let long = |end: &str| skill_md(&format!("# One\n{}{end}\n", "word ".repeat(100)));
    user.push_skill(&[("SKILL.md", &long("rules"))], Some("two"));
    user.run_ok(&["update"]);
    user.push_skill(&[("SKILL.md", &long("secrets"))], Some("two"));
    let shown = user.run_ok(&["update"]);
    assert!(
        shown.contains("word rules\n") && shown.contains("word secrets\n"),
        "{shown}"
    );
    // A change that no line shows is reported.
    user.push_skill(&[("SKILL.md", long("secrets").trim_end())], Some("two"));
    let shown = user.run_ok(&["update"]);
    let expected = "  file: changed SKILL.md\n  SKILL.md differs in line ends, or in bytes that are \
                    not UTF-8 and not shown\n";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn refuses_second_skill_with_locked_name() {
    let user = User::new();
    user.push_skill(&[("SKILL.md", &skill_md("# Locked\n"))], None);
    user.program.write("skills/report/SKILL.md", "# Mine\n");
    let reference = user.skill_reference();
    let error = user.run_err(4, &["add", "--skill", &reference]);
    assert!(
        error.contains("there is another skill `report` in `/"),
        "{error}"
    );
    fs::remove_dir_all(user.path("skills/report")).unwrap();
    user.run_ok(&["add", "--skill", &reference]);
    let error = user.run_err(2, &["add", "--skill", &reference]);
    assert!(error.contains("there is a skill `report` from"), "{error}");
    user.program.write("skills/report/SKILL.md", "# Mine\n");
    let error = user.read_skill();
    assert_eq!(error.code, 4, "{error:?}");
    assert!(
        error.stderr.contains("there is another skill `report`"),
        "{error:?}"
    );
    fs::remove_dir_all(user.path("skills/report")).unwrap();
    assert!(user.read_skill().stdout.contains("# Locked"));
}

#[test]
fn refuses_invalid_or_untrusted_skills() {
    let user = User::new();
    let reference = user.skill_reference();
    user.program
        .write("author/report/SKILL.md", "# No frontmatter\n");
    let error = user.run_err(4, &["push", &reference, "author/report"]);
    assert!(
        error.contains("[frontmatter-required]") && error.contains("fix them first"),
        "{error}"
    );
    user.program
        .write("author/report/SKILL.md", skill_md("# One\n"));
    std::os::unix::fs::symlink("/etc/passwd", user.path("author/report/link")).unwrap();
    let error = user.run_err(4, &["push", &reference, "author/report"]);
    assert!(error.contains("`link` is a symlink"), "{error}");
    fs::remove_file(user.path("author/report/link")).unwrap();
    user.run_ok(&["push", &reference, "author/report"]);
    // A skill is not a component.
    let error = user.run_err(4, &["add", &reference]);
    assert!(error.contains("not a component"), "{error}");
    let config = user.files()[0].clone().unwrap();
    user.program.write(
        "skillhost.toml",
        format!("require_signatures = true\n{config}"),
    );
    let error = user.run_err(4, &["add", "--skill", &reference]);
    assert!(error.contains("has no rule in `[trust]`"), "{error}");
}
