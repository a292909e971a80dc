//! `skillhost clients`: the entry in the configuration files of MCP clients.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::program::{NOBODY, Program, Run, finish};

/// A user whose home folder is `home`, in the program's folder.
struct User {
    program: Program,
}

impl User {
    fn new() -> Self {
        let program = Program::new();
        fs::create_dir(program.folder.path().join("home")).unwrap();
        Self { program }
    }

    fn home(&self, path: &str) -> PathBuf {
        self.program.folder.path().join("home").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        self.program.write(&format!("home/{path}"), text);
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.home(path)).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Run {
        self.run_with(arguments, &[])
    }

    fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
        let mut command = self.program.command(arguments);
        command.env("HOME", self.home(""));
        command.envs(variables.iter().copied());
        finish(command, "")
    }

    /// Writes an entry into a client's file. Panics if the program fails.
    fn add(&self, client: &str, more: &[&str]) {
        let run = self.run(&[&["clients", "add", client, "--write"][..], more].concat());
        assert_eq!(run.code, 0, "{run:?}");
    }
}

const SERVE: [&str; 3] = ["--", "--skills", "/srv/skills"];

fn program_path() -> String {
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_skillhost")).unwrap();
    program.to_str().unwrap().to_owned()
}

#[test]
fn writes_the_format_of_each_client() {
    let user = User::new();
    let program = program_path();
    let arguments = json!(["serve", "--skills", "/srv/skills"]);
    let plain = json!({"command": program, "args": arguments});
    let typed = json!({"type": "stdio", "command": program, "args": arguments});
    let array = json!([program, "serve", "--skills", "/srv/skills"]);
    for (client, file, expected) in [
        (
            "claude-code",
            ".claude.json",
            json!({"mcpServers": {"skillhost": typed}}),
        ),
        (
            "cursor",
            ".cursor/mcp.json",
            json!({"mcpServers": {"skillhost": plain}}),
        ),
        (
            "gemini-cli",
            ".gemini/settings.json",
            json!({"mcpServers": {"skillhost": plain}}),
        ),
        (
            "opencode",
            ".config/opencode/opencode.json",
            json!({"mcp": {"skillhost": {"type": "local", "command": array}}}),
        ),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            json!({"servers": {"skillhost": typed}}),
        ),
        (
            "zed",
            ".config/zed/settings.json",
            json!({"context_servers": {"skillhost": plain}}),
        ),
    ] {
        user.add(client, &SERVE);
        let written: Value = serde_json::from_str(&user.text(file)).unwrap();
        assert_eq!(written, expected, "{client}");
    }
    user.add("codex", &SERVE);
    let written: Value = toml::from_str(&user.text(".codex/config.toml")).unwrap();
    assert_eq!(written, json!({"mcp_servers": {"skillhost": plain}}));
    user.add("goose", &SERVE);
    let goose = format!(
        "extensions:\n  skillhost:\n    type: \"stdio\"\n    name: \"skillhost\"\n    \
         description: \"Agent skills\"\n    enabled: true\n    cmd: \"{program}\"\n    \
         args: [\"serve\",\"--skills\",\"/srv/skills\"]\n    timeout: 300\n"
    );
    assert_eq!(user.text(".config/goose/config.yaml"), goose);
    let list = user.run(&["clients", "list"]).stdout;
    assert_eq!(list.matches("  added  ").count(), 8, "{list}");
    for client in [
        "claude-code",
        "codex",
        "cursor",
        "gemini-cli",
        "goose",
        "opencode",
        "vscode",
        "zed",
    ] {
        let removed = user.run(&["clients", "remove", client]);
        assert_eq!(removed.code, 0, "{removed:?}");
        let again = user.run(&["clients", "remove", client]);
        assert_eq!(again.code, 1, "{again:?}");
    }
    let list = user.run(&["clients", "list", "--output", "json"]).stdout;
    let list: Value = serde_json::from_str(&list).unwrap();
    let list = list.as_array().unwrap();
    assert!(
        list.len() == 8 && list.iter().all(|client| client["entry"] == "not added"),
        "{list:?}"
    );
}

#[test]
fn changes_nothing_but_the_entry() {
    let user = User::new();
    let before =
        "{\n  // mine\n  \"z\": 1,\n  \"context_servers\": {\n    \"b\": {}, // b\n  },\n}\n";
    user.write(".config/zed/settings.json", before);
    let file = user.home(".config/zed/settings.json");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    user.add("zed", &SERVE);
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o640);
    let after = user.text(".config/zed/settings.json");
    assert!(
        after.starts_with(&before[..before.find("  },").unwrap()]),
        "{after}"
    );
    assert_eq!(user.run(&["clients", "remove", "zed"]).code, 0);
    assert_eq!(user.text(".config/zed/settings.json"), before);
    // No temporary file is left in the folder.
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    // Only the user can read a new file.
    user.add("claude-code", &SERVE);
    let mode = fs::metadata(user.home(".claude.json")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn shows_entry_without_write() {
    let user = User::new();
    let shown = user.run(&[
        "clients",
        "add",
        "codex",
        "--",
        "--skills=here",
        "--log",
        "info",
    ]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let here = fs::canonicalize(user.program.folder.path())
        .unwrap()
        .join("here");
    for text in [
        format!(
            "would create `{}`:\n\n",
            user.home(".codex/config.toml").display()
        ),
        format!(
            "[mcp_servers.skillhost]\ncommand = \"{}\"\n",
            program_path()
        ),
        format!(
            "args = [\"serve\", \"--skills={}\", \"--log\", \"info\"]\n",
            here.display()
        ),
    ] {
        assert!(shown.stdout.contains(&text), "{text}\n{shown:?}");
    }
    assert!(
        shown.stderr.contains("`--write` writes the entry"),
        "{shown:?}"
    );
    assert!(!user.home(".codex").exists());
    // `claude` and `-` are not paths, so neither becomes absolute.
    let named = user.run(&[
        "clients", "add", "codex", "--", "--skills", "claude", "--audit", "-",
    ]);
    let arguments = "[\"serve\", \"--skills\", \"claude\", \"--audit\", \"-\"]";
    assert!(named.stdout.contains(arguments), "{named:?}");
    // Without `--skills`, the skills would depend on the current folder of the server.
    let bare = user.run(&["clients", "add", "codex"]);
    assert!(
        bare.stderr.contains("no folder of skills is given"),
        "{bare:?}"
    );
}

#[test]
fn refuses_unsafe_or_invalid_files() {
    type Prepare = fn(PathBuf);
    let is_root = rustix::process::geteuid().is_root();
    let cases: [(&str, Prepare, &str); 7] = [
        (
            "symlink",
            |file| symlink("elsewhere", file).unwrap(),
            "it is a symlink",
        ),
        (
            "other owner",
            |file| {
                fs::write(&file, "{}").unwrap();
                chown(file, Some(NOBODY), None).unwrap();
            },
            "it belongs to another user",
        ),
        (
            "other owner of the folder",
            |file| chown(file.parent().unwrap(), Some(NOBODY), None).unwrap(),
            "its folder belongs to another user",
        ),
        (
            "hard link",
            |file| {
                fs::write(&file, "{}").unwrap();
                fs::hard_link(&file, file.with_file_name("other")).unwrap();
            },
            "it has other names",
        ),
        (
            "folder",
            |file| fs::create_dir(file).unwrap(),
            "it is not a regular file",
        ),
        (
            "JSON",
            |file| fs::write(file, "{\n\"a\" 1}").unwrap(),
            "line 2, column 5: ",
        ),
        (
            "bytes",
            |file| fs::write(file, b"{\"a\": \"\xff\"}").unwrap(),
            "it is not UTF-8",
        ),
    ];
    for (name, prepare, why) in cases {
        if name.starts_with("other owner") && !is_root {
            continue;
        }
        let user = User::new();
        fs::create_dir(user.home(".cursor")).unwrap();
        let file = user.home(".cursor/mcp.json");
        prepare(file.clone());
        let before = fs::read(&file).ok();
        for write in [&["--write"][..], &[], &["--write", "--force"]] {
            let run = user.run(&[&["clients", "add", "cursor"][..], write, &SERVE].concat());
            assert_eq!(run.code, 4, "{name}: {run:?}");
            let path = format!("`{}`", file.display());
            assert!(
                run.stderr.contains(why) && run.stderr.contains(&path),
                "{name}: {run:?}"
            );
        }
        let list = user.run(&["clients", "list"]);
        assert!(
            list.stderr.contains(why) && list.code == 0,
            "{name}: {list:?}"
        );
        assert_eq!(user.run(&["clients", "remove", "cursor"]).code, 4, "{name}");
        assert_eq!(fs::read(&file).ok(), before, "{name}");
    }
}

#[test]
fn replaces_other_entries_only_with_force() {
    let user = User::new();
    let other = "{\"mcpServers\": {\"skillhost\": {\"command\": \"/bin/other\", \"env\": {}}}}";
    user.write(".cursor/mcp.json", other);
    let refused = user.run(&[&["clients", "add", "cursor", "--write"][..], &SERVE[..]].concat());
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("it has a different entry `skillhost`; `--force` replaces it"),
        "{refused:?}"
    );
    let refused = user.run(&["clients", "remove", "cursor"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.stderr.contains("starts `/bin/other`"),
        "{refused:?}"
    );
    assert_eq!(user.text(".cursor/mcp.json"), other);
    user.add("cursor", &[&["--name", "skills"][..], &SERVE[..]].concat());
    user.add("cursor", &[&["--force"][..], &SERVE[..]].concat());
    let written: Value = serde_json::from_str(&user.text(".cursor/mcp.json")).unwrap();
    let entry = json!({"command": program_path(), "args": ["serve", "--skills", "/srv/skills"]});
    assert_eq!(
        written,
        json!({"mcpServers": {"skillhost": entry, "skills": entry}})
    );
    // The user's additions to the entry stay.
    let more = user
        .text(".cursor/mcp.json")
        .replacen("\"args\"", "\"timeout\": 5, \"args\"", 1);
    user.write(".cursor/mcp.json", &more);
    user.add("cursor", &SERVE);
    assert_eq!(user.text(".cursor/mcp.json"), more);
}

#[test]
fn writes_no_secret_and_no_wrong_option() {
    let user = User::new();
    let token = [("SKILLHOST_HTTP_TOKEN", "a-secret-token")];
    let url = ["--url", "http://127.0.0.1:8080/mcp"];
    for (client, expected) in [
        (
            "claude-code",
            "\"type\": \"http\",\n      \"url\": \"http://127.0.0.1:8080/mcp\"",
        ),
        ("codex", "url = \"http://127.0.0.1:8080/mcp\""),
        ("cursor", "\"url\": \"http://127.0.0.1:8080/mcp\""),
        ("gemini-cli", "\"httpUrl\": \"http://127.0.0.1:8080/mcp\""),
        ("goose", "type: \"streamable_http\"\n"),
        (
            "opencode",
            "\"type\": \"remote\",\n      \"url\": \"http://127.0.0.1:8080/mcp\"",
        ),
        (
            "vscode",
            "\"type\": \"http\",\n      \"url\": \"http://127.0.0.1:8080/mcp\"",
        ),
        ("zed", "\"url\": \"http://127.0.0.1:8080/mcp\""),
    ] {
        for more in [&url[..], &SERVE] {
            let run = user.run_with(&[&["clients", "add", client][..], more].concat(), &token);
            assert_eq!(run.code, 0, "{run:?}");
            assert!(!run.stdout.contains("secret"), "{run:?}");
            assert_eq!(run.stdout.contains(expected), more == url, "{run:?}");
        }
    }
    for (arguments, why) in [
        (
            &["--url", "http://me:secret@localhost/mcp"][..],
            "would put a secret into the file",
        ),
        (&["--url", "localhost:8080"], "is not an HTTP URL"),
        (
            &["--", "--skils", "x"],
            "are not those of `skillhost serve`: unexpected argument",
        ),
        (&["--", "--http", "127.0.0.1:0"], "use `--url`"),
        (&["--name", "a.b"], "a name has letters"),
        (
            &["--url", "http://localhost/mcp", "--", "--skills", "x"],
            "cannot be used with",
        ),
    ] {
        let run = user.run(&[&["clients", "add", "codex", "--write"][..], arguments].concat());
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.stderr.contains(why), "{why}: {run:?}");
    }
    let outer = user.run(&["--skills", "x", "clients", "add", "codex", "--write"]);
    assert_eq!(outer.code, 2, "{outer:?}");
    assert!(!user.home(".codex").exists());
}

#[test]
fn uses_folders_named_by_variables() {
    let user = User::new();
    let other = user.home("other");
    let other = other.to_str().unwrap();
    for (client, variable, file) in [
        ("codex", "CODEX_HOME", "other/config.toml"),
        ("claude-code", "CLAUDE_CONFIG_DIR", "other/.claude.json"),
        ("zed", "XDG_CONFIG_HOME", "other/zed/settings.json"),
    ] {
        let arguments = [&["clients", "add", client, "--write"][..], &SERVE[..]].concat();
        let run = user.run_with(&arguments, &[(variable, other)]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(user.home(file).is_file(), "{file}");
        // A relative path is ignored, because its meaning depends on the current folder.
        let run = user.run_with(&arguments, &[(variable, "other")]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(!user.program.folder.path().join("other").exists());
    }
    // An existing file is used, whichever of its two names it has.
    user.write(".config/opencode/opencode.jsonc", "{} // mine\n");
    user.add("opencode", &SERVE);
    assert!(
        user.text(".config/opencode/opencode.jsonc")
            .contains("\"skillhost\"")
    );
}

#[test]
fn follows_no_link_in_a_project() {
    let user = User::new();
    let project = user.program.folder.path();
    user.add("vscode", &[&["--project"][..], &SERVE[..]].concat());
    let file = project.join(".vscode/mcp.json");
    assert!(fs::read_to_string(&file).unwrap().contains("\"skillhost\""));
    fs::create_dir(user.home(".cursor")).unwrap();
    symlink(user.home(".cursor"), project.join(".cursor")).unwrap();
    let run = user.run(&["clients", "add", "cursor", "--project", "--write"]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("its folder is a symlink"), "{run:?}");
    assert_eq!(fs::read_dir(user.home(".cursor")).unwrap().count(), 0);
    let none = user.run(&["clients", "add", "goose", "--project", "--write"]);
    assert!(
        none.code == 4 && none.stderr.contains("goose has no file in a project"),
        "{none:?}"
    );
    // Symlinks in the home folder are followed: only the user can make them.
    fs::create_dir(user.home("dotfiles")).unwrap();
    symlink(user.home("dotfiles"), user.home(".gemini")).unwrap();
    user.add("gemini-cli", &SERVE);
    assert!(user.home("dotfiles/settings.json").is_file());
}
