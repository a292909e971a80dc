//! The MCP clients that `skillhost clients` configures: a row for each.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skillhost_program::options::user_folder;

use super::format::Format;

/// A client, and how it is configured.
pub(super) struct Client {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// The name for people.
    pub(super) title: &'static str,
    /// The environment variable that names the folder of the user's file, and the default: a folder
    /// in the home folder.
    user_folder: (Option<&'static str>, &'static str),
    /// The paths of the user's file in that folder. The first existing file is used; if none
    /// exists, the first path.
    user_files: &'static [&'static str],
    /// The paths of a project's file, like `user_files`. Empty if the client reads none.
    project_files: &'static [&'static str],
    pub(super) format: Format,
    /// The key of the object with all servers.
    pub(super) key: &'static str,
    /// Returns the entry of a server that the client starts.
    program_entry: fn(&str, &Program) -> Value,
    /// Returns the entry of a server over HTTP.
    url_entry: fn(&str, &str) -> Value,
    /// The URL of the client's documentation.
    pub(super) documentation: &'static str,
    /// The day on which the row was compared with the documentation.
    pub(super) checked: &'static str,
}

/// The command that starts the server.
pub(super) struct Program {
    pub(super) path: String,
    pub(super) arguments: Vec<String>,
}

/// The clients, in alphabetical order. `tests/clients/agents.py` runs those that npm has.
pub(super) const CLIENTS: [Client; 8] = [
    Client {
        name: "claude-code",
        title: "Claude Code",
        user_folder: (Some("CLAUDE_CONFIG_DIR"), ""),
        user_files: &[".claude.json"],
        project_files: &[".mcp.json"],
        format: Format::Json,
        key: "mcpServers",
        program_entry: stdio_entry,
        url_entry: |_, url| json!({"type": "http", "url": url}),
        documentation: "https://code.claude.com/docs/en/mcp",
        checked: "2026-11-28",
    },
    Client {
        name: "codex",
        title: "Codex",
        user_folder: (Some("CODEX_HOME"), ".codex"),
        user_files: &["config.toml"],
        project_files: &[".codex/config.toml"],
        format: Format::Toml,
        key: "mcp_servers",
        program_entry: |_, program| json!({"command": program.path, "args": program.arguments}),
        url_entry: |_, url| json!({"url": url}),
        documentation: "https://developers.openai.com/codex/mcp",
        checked: "2026-11-28",
    },
    Client {
        name: "cursor",
        title: "Cursor",
        user_folder: (None, ".cursor"),
        user_files: &["mcp.json"],
        project_files: &[".cursor/mcp.json"],
        format: Format::JsonWithComments,
        key: "mcpServers",
        program_entry: |_, program| json!({"command": program.path, "args": program.arguments}),
        url_entry: |_, url| json!({"url": url}),
        documentation: "https://cursor.com/docs/mcp",
        checked: "2026-11-28",
    },
    Client {
        name: "gemini-cli",
        title: "Gemini CLI",
        user_folder: (None, ".gemini"),
        user_files: &["settings.json"],
        project_files: &[".gemini/settings.json"],
        format: Format::JsonWithComments,
        key: "mcpServers",
        program_entry: |_, program| json!({"command": program.path, "args": program.arguments}),
        url_entry: |_, url| json!({"httpUrl": url}),
        documentation: "https://geminicli.com/docs/tools/mcp-server",
        checked: "2026-11-28",
    },
    Client {
        name: "goose",
        title: "goose",
        user_folder: (Some("XDG_CONFIG_HOME"), ".config"),
        user_files: &["goose/config.yaml"],
        project_files: &[],
        format: Format::Yaml,
        key: "extensions",
        program_entry: |name, program| {
            json!({
                "type": "stdio",
                "name": name,
                "description": "Agent skills",
                "enabled": true,
                "cmd": program.path,
                "args": program.arguments,
                "timeout": 300,
            })
        },
        url_entry: |name, url| {
            json!({
                "type": "streamable_http",
                "name": name,
                "description": "Agent skills",
                "enabled": true,
                "uri": url,
                "timeout": 300,
            })
        },
        documentation: "https://goose-docs.ai/docs/guides/config-files",
        checked: "2026-11-28",
    },
    Client {
        name: "opencode",
        title: "opencode 1",
        user_folder: (Some("XDG_CONFIG_HOME"), ".config"),
        user_files: &["opencode/opencode.json", "opencode/opencode.jsonc"],
        project_files: &["opencode.json", "opencode.jsonc"],
        format: Format::JsonWithComments,
        key: "mcp",
        program_entry: |_, program| {
            let path = std::iter::once(&program.path);
            let command: Vec<&String> = path.chain(&program.arguments).collect();
            json!({"type": "local", "command": command})
        },
        url_entry: |_, url| json!({"type": "remote", "url": url}),
        documentation: "https://opencode.ai/v1/docs/mcp-servers",
        checked: "2026-11-28",
    },
    Client {
        name: "vscode",
        title: "VS Code",
        user_folder: (Some("XDG_CONFIG_HOME"), ".config"),
        user_files: &["Code/User/mcp.json"],
        project_files: &[".vscode/mcp.json"],
        format: Format::JsonWithComments,
        key: "servers",
        program_entry: stdio_entry,
        url_entry: |_, url| json!({"type": "http", "url": url}),
        documentation: "https://code.visualstudio.com/docs/agents/reference/mcp-configuration",
        checked: "2026-11-28",
    },
    Client {
        name: "zed",
        title: "Zed",
        user_folder: (Some("XDG_CONFIG_HOME"), ".config"),
        user_files: &["zed/settings.json"],
        project_files: &[".zed/settings.json"],
        format: Format::JsonWithComments,
        key: "context_servers",
        program_entry: |_, program| json!({"command": program.path, "args": program.arguments}),
        url_entry: |_, url| json!({"url": url}),
        documentation: "https://zed.dev/docs/ai/mcp",
        checked: "2026-11-28",
    },
];

/// The projects in which an entry applies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All projects of the user.
    User,
    /// The project in the current folder.
    Project,
}

/// The way that a client reaches the server.
pub(super) enum Server {
    /// The client starts it.
    Program(Program),
    /// The client sends HTTP requests to this URL.
    Url(String),
}

impl Client {
    /// Returns the client with a name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.name == name)
    }

    /// Returns the folder of a scope, and the file's path in it. Returns `None` if the client has
    /// no such file, or the user has no home folder.
    pub(super) fn file(&self, scope: Scope) -> Option<(PathBuf, &'static Path)> {
        let (folder, files) = match scope {
            Scope::User => {
                let (variable, in_home) = self.user_folder;
                (user_folder(variable, in_home)?, self.user_files)
            }
            Scope::Project => (std::path::absolute(".").ok()?, self.project_files),
        };
        let exists = |file: &&&str| folder.join(file).symlink_metadata().is_ok();
        let file = files.iter().find(exists).or(files.first())?;
        Some((folder, Path::new(*file)))
    }

    /// Returns the entry of a server.
    pub(super) fn entry(&self, name: &str, server: &Server) -> Value {
        match server {
            Server::Program(program) => (self.program_entry)(name, program),
            Server::Url(url) => (self.url_entry)(name, url),
        }
    }
}

/// Returns the entry of a program for clients that name its transport.
fn stdio_entry(_: &str, program: &Program) -> Value {
    json!({
        "type": "stdio",
        "command": program.path,
        "args": program.arguments,
    })
}
