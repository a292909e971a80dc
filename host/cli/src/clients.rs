//! `skillhost clients`: configures MCP clients to use this server.
//!
//! `table.rs` describes the clients, `format.rs` edits texts, and `file.rs` replaces files.

// Lowest layer first.
mod file;
mod format;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser as _, Subcommand};
use http::Uri;
use serde_json::{Value, json};
use skillhost::Line;
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, ReportFormat, absolute_paths};
use skillhost_program::terminal::{self, format_line};

use crate::serve::ServeCommand;
use file::ClientFile;
use format::EntryPath;
use table::{CLIENTS, Client, Program, Scope, Server};

/// Add this server to the configuration of MCP clients, such as Claude Code
#[derive(Args)]
pub(crate) struct ClientsCommand {
    #[command(subcommand)]
    verb: ClientsVerb,
}

#[derive(Subcommand)]
enum ClientsVerb {
    List(ListCommand),
    Add(AddCommand),
    Remove(RemoveCommand),
}

/// List the clients, their files, and whether these have an entry
#[derive(Args)]
struct ListCommand {
    #[command(flatten)]
    target: TargetArguments,
    /// Form of the list
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

/// Show the entry for a client, or write it into the client's file
#[derive(Args)]
struct AddCommand {
    /// Client to configure
    #[arg(value_parser = client_names())]
    client: String,
    /// Write the entry into the file; otherwise it is only shown
    #[arg(long)]
    write: bool,
    /// Replace a different entry of the same name
    #[arg(long)]
    force: bool,
    /// Let the client use a running server at this URL, such as
    /// http://127.0.0.1:8080/mcp, instead of starting one
    #[arg(long, conflicts_with = "arguments")]
    url: Option<String>,
    #[command(flatten)]
    target: TargetArguments,
    /// Options of `skillhost serve`, such as `-- --skills DIR`; relative paths become absolute
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

/// Remove the entry from a client's file
#[derive(Args)]
struct RemoveCommand {
    /// Client to configure
    #[arg(value_parser = client_names())]
    client: String,
    /// Remove the entry even if it starts another program
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    target: TargetArguments,
}

/// The file and the name of an entry.
#[derive(Args)]
struct TargetArguments {
    /// Use the file of the project in the current folder, instead of the user's
    #[arg(long)]
    project: bool,
    /// Name of the entry
    #[arg(long, default_value = "skillhost", value_parser = entry_name)]
    name: String,
}

/// The command line that a client starts.
#[derive(clap::Parser)]
#[command(name = "skillhost serve", no_binary_name = true)]
struct ServeLine {
    #[command(flatten)]
    serve: ServeCommand,
}

impl ClientsCommand {
    pub(crate) fn execute(self, options: &CommonOptions) -> anyhow::Result<Exit> {
        if !options.is_empty() {
            terminal::complain(
                "`clients` reads no skills: put options of the server after `--`, as in \
                 `skillhost clients add codex -- --skills DIR`",
            );
            return Ok(Exit::Usage);
        }
        match self.verb {
            ClientsVerb::List(list) => list.execute(),
            ClientsVerb::Add(add) => add.execute(),
            ClientsVerb::Remove(remove) => remove.execute(),
        }
    }
}

impl ListCommand {
    fn execute(self) -> anyhow::Result<Exit> {
        let clients = CLIENTS.iter().filter_map(|client| {
            let (folder, inside) = client.file(self.target.scope())?;
            Some((client, folder.join(inside), self.target.state(client)))
        });
        let clients: Vec<(&Client, PathBuf, Result<&str, String>)> = clients.collect();
        let word = |state: &Result<&'static str, String>| *state.as_ref().unwrap_or(&"unusable");
        match self.output {
            ReportFormat::Text => {
                let rows = clients.iter().map(|(client, path, state)| {
                    let path = path.display().to_string();
                    [client.name.to_owned(), word(state).to_owned(), path]
                });
                let rows: Vec<[String; 3]> = rows.collect();
                let headings = ["CLIENT", "ENTRY", "FILE"];
                terminal::print(&terminal::table(headings, &rows, terminal::width()))?;
                for (_, _, state) in &clients {
                    state
                        .as_ref()
                        .err()
                        .into_iter()
                        .for_each(terminal::complain);
                }
            }
            ReportFormat::Json => {
                let clients = clients.iter().map(|(client, path, state)| {
                    json!({
                        "client": client.name,
                        "title": client.title,
                        "file": path.to_string_lossy(),
                        "format": client.format.name(),
                        "key": client.key,
                        "entry": word(state),
                        "problem": state.as_ref().err(),
                        "documentation": client.documentation,
                        "checked": client.checked,
                    })
                });
                terminal::print_json(&clients.collect())?;
            }
        }
        Ok(Exit::Ok)
    }
}

impl AddCommand {
    fn execute(self) -> anyhow::Result<Exit> {
        let server = match self.server()? {
            Ok(server) => server,
            Err(why) => {
                terminal::complain(why);
                return Ok(Exit::Usage);
            }
        };
        if self.url.is_none() && !names_skills(&self.arguments) {
            terminal::complain(
                "no folder of skills is given: the server would serve `skills` in the folder where \
                 the client starts it; `-- --skills DIR` or `-- --config FILE` names one",
            );
        }
        let client = client(&self.client)?;
        let file = self.target.open(client)?;
        let entry_path = self.target.entry_path(client);
        let path = file.path();
        let name = &self.target.name;
        let edit = || -> anyhow::Result<Option<String>> {
            let entry = client.entry(name, &server);
            match client.format.find(file.text(), entry_path)? {
                Some(found) if has_all_fields(&found, &entry) => return Ok(None),
                Some(_) if !self.force => bail!(
                    "it has a different entry `{name}`; `--force` replaces it, and `--name` adds \
                     an entry with another name"
                ),
                _ => {}
            }
            client.format.set(file.text(), entry_path, &entry).map(Some)
        };
        let edited = edit().with_context(|| format!("cannot edit `{}`", path.display()))?;
        let Some(edited) = edited else {
            terminal::print(&[format_line!("`{}` already has the entry", path.display())])?;
            return Ok(Exit::Ok);
        };
        if self.write {
            file.replace(&edited)
                .with_context(|| format!("cannot write `{}`", path.display()))?;
            let done = format_line!("added `{name}` to `{}`", path.display());
            terminal::print(&[done])?;
            return Ok(Exit::Ok);
        }
        let verb = if file.exists() { "add to" } else { "create" };
        let shown = client
            .format
            .set("", entry_path, &client.entry(name, &server))?;
        let mut lines = vec![
            format_line!("would {verb} `{}`:", path.display()),
            Line::default(),
        ];
        lines.extend(shown.lines().map(Line::new));
        terminal::print(&lines)?;
        terminal::complain("nothing was written; `--write` writes the entry");
        Ok(Exit::Ok)
    }

    /// Returns the server for the entry. The inner error is a usage error.
    fn server(&self) -> anyhow::Result<Result<Server, String>> {
        if let Some(url) = &self.url {
            return Ok(checked_url(url).map(Server::Url));
        }
        let line = match ServeLine::try_parse_from(&self.arguments) {
            Ok(line) => line,
            Err(error) => {
                let error = error.to_string();
                let why = error.lines().next().unwrap_or_default();
                let why = why.strip_prefix("error: ").unwrap_or(why);
                return Ok(Err(format!(
                    "the options after `--` are not those of `skillhost serve`: {why}"
                )));
            }
        };
        if line.serve.is_http() {
            return Ok(Err(
                "a client that starts the server uses its stdin and stdout, \
                           not `--http`: use `--url` for a server that runs with `--http`"
                    .to_owned(),
            ));
        }
        let program = std::env::current_exe().context("cannot find this program's path")?;
        if !program.is_file() {
            bail!(
                "`{}` was replaced while it ran: run the command again",
                program.display()
            );
        }
        let path = program.into_os_string().into_string();
        let path = path.map_err(|path: OsString| {
            anyhow::anyhow!("the program's path `{}` is not UTF-8", path.display())
        })?;
        let mut arguments = vec!["serve".to_owned()];
        arguments.extend(absolute_paths(&self.arguments)?);
        Ok(Ok(Server::Program(Program { path, arguments })))
    }
}

impl RemoveCommand {
    fn execute(self) -> anyhow::Result<Exit> {
        let client = client(&self.client)?;
        let file = self.target.open(client)?;
        let entry_path = self.target.entry_path(client);
        let path = file.path();
        let name = &self.target.name;
        let edit = || -> anyhow::Result<Option<String>> {
            let Some(found) = client.format.find(file.text(), entry_path)? else {
                return Ok(None);
            };
            if let Some(other) = other_program(&found)
                && !self.force
            {
                bail!("its entry `{name}` starts `{other}`; `--force` removes it");
            }
            client.format.remove(file.text(), entry_path).map(Some)
        };
        let edited = edit().with_context(|| format!("cannot edit `{}`", path.display()))?;
        let Some(edited) = edited else {
            terminal::complain(format_args!("`{}` has no entry `{name}`", path.display()));
            return Ok(Exit::Failure);
        };
        file.replace(&edited)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        let done = format_line!("removed `{name}` from `{}`", path.display());
        terminal::print(&[done])?;
        Ok(Exit::Ok)
    }
}

impl TargetArguments {
    fn scope(&self) -> Scope {
        if self.project {
            Scope::Project
        } else {
            Scope::User
        }
    }

    fn entry_path<'a>(&'a self, client: &Client) -> EntryPath<'a> {
        EntryPath {
            key: client.key,
            name: &self.name,
        }
    }

    fn open(&self, client: &Client) -> anyhow::Result<ClientFile> {
        let file = client.file(self.scope());
        let (folder, inside) = file.with_context(|| match self.scope() {
            Scope::Project => format!("{} has no file in a project", client.title),
            Scope::User => "there is no home folder: set `HOME` to an absolute path".to_owned(),
        })?;
        let path = folder.join(inside);
        ClientFile::read(folder, inside, self.scope() == Scope::User)
            .with_context(|| format!("cannot use `{}`", path.display()))
    }

    /// Returns whether a client's file has the entry, or why this is unknown.
    fn state(&self, client: &Client) -> Result<&'static str, String> {
        let found = || -> anyhow::Result<&'static str> {
            let file = self.open(client)?;
            let found = client.format.find(file.text(), self.entry_path(client));
            let found = found.with_context(|| format!("cannot use `{}`", file.path().display()))?;
            Ok(match found {
                Some(_) => "added",
                None if file.exists() => "not added",
                None => "no file",
            })
        };
        found().map_err(|error| format!("{error:#}"))
    }
}

fn client_names() -> PossibleValuesParser {
    CLIENTS.iter().map(|client| client.name).into()
}

fn client(name: &str) -> anyhow::Result<&'static Client> {
    Client::find(name).with_context(|| format!("there is no client `{name}`"))
}

/// Checks whether options of the server name a folder of skills or a configuration file. The file
/// can name such folders.
fn names_skills(arguments: &[String]) -> bool {
    let is_named = |argument: &String| {
        let option = argument.split('=').next().unwrap_or_default();
        ["--skills", "--config"].contains(&option)
    };
    arguments.iter().any(is_named)
}

/// Parses the name of an entry. Accepts only names that need no quotes in any format.
fn entry_name(name: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_plain) {
        return Ok(name.to_owned());
    }
    Err("a name has letters, digits, `-` and `_`, and starts with a letter".to_owned())
}

/// Returns the URL if it is valid and contains no credentials. Otherwise the error is the reason.
fn checked_url(url: &str) -> Result<String, String> {
    let parsed: Option<Uri> = url.parse().ok();
    let parsed = parsed.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
    let Some(parsed) = parsed else {
        return Err(format!(
            "`--url`: `{url}` is not an HTTP URL; an example is `http://127.0.0.1:8080/mcp`"
        ));
    };
    if parsed
        .authority()
        .is_some_and(|host| host.as_str().contains('@'))
    {
        return Err(
            "`--url`: a URL with a user or password would put a secret into the file; \
             configure a header in the client instead"
                .to_owned(),
        );
    }
    Ok(url.to_owned())
}

/// Checks whether an entry has all fields of another, with the same values.
fn has_all_fields(found: &Value, wanted: &Value) -> bool {
    let mut wanted = wanted.as_object().into_iter().flatten();
    wanted.all(|(key, value)| found.get(key) == Some(value))
}

/// Returns the program that an entry starts, if that is not skillhost.
fn other_program(entry: &Value) -> Option<&str> {
    let command = entry.get("command").or_else(|| entry.get("cmd"))?;
    let program = command.as_str().or_else(|| command.get(0)?.as_str())?;
    let is_skillhost = Path::new(program).file_name() == Some("skillhost".as_ref());
    (!is_skillhost).then_some(program)
}
