//! The options of most verbs, and the catalog or host that they configure. Only this file and
//! `host/author/src/build/` read environment variables.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use skillhost::config::{
    self, Config, ConfiguredPath, ConfiguredRoot, DEFAULT_FILE, FileSettings, Tables,
};
use skillhost::{
    Catalog, EgressSettings, Grant, Host, HostBuilder, MAX_DEPTH, Observer, Principal, SearchHit,
    SkillIndex, SkillsRoot, StartingEgress, Trust, TrustError,
};
use skillhost_audit::LogSigner;
use skillhost_helper::OWN_PROGRAM;
use skillhost_index::MemoryIndex;
use skillhost_skills::broker::Opener;
use tracing::level_filters::LevelFilter;

use crate::progress::{self, show_compilations};
use crate::runners::{self, RUNNERS};
use crate::terminal;

/// The default folder of skills. It is used if it exists and no other is given or configured.
const DEFAULT_SKILLS: &str = "skills";

/// The usual places of skills: the value of `--skills`, and the path that it stands for, below the
/// home folder and below the current folder.
const USUAL_PLACES: [(&str, &str); 2] =
    [("claude", ".claude/skills"), ("agents", ".agents/skills")];

/// The maximum number of a folder's entries that are searched for symlinks. Guards against: a
/// folder of millions of files.
const MAX_ENTRIES: usize = 100_000;

/// The maximum time that a call waits for the index. Guards against: a catalog on a disk that
/// does not respond.
const INDEX_TIMEOUT: Duration = Duration::from_secs(30);

/// The environment variable with the bearer token of an HTTP server.
pub const TOKEN_VARIABLE: &str = "SKILLHOST_HTTP_TOKEN";

/// Returns the bearer token in the environment, even if it is empty: the caller refuses an empty
/// token.
pub fn token() -> Option<OsString> {
    env::var_os(TOKEN_VARIABLE)
}

/// The options that may be given both before the verb and after it. The program combines the
/// options from both places.
#[derive(Args, Default)]
pub struct CommonOptions {
    /// Read this configuration [default: ./skillhost.toml, confined to its
    /// folder, unless --skills or --tools is given; none for `serve` and
    /// `respond`]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Find skills in this folder, before the configured ones; `claude` and
    /// `agents` stand for ~/.claude/skills or ~/.agents/skills, and then, after
    /// all others, the same in the current folder; repeatable
    /// [default: ./skills, if none is configured]
    #[arg(long, value_name = "DIR")]
    skills: Vec<PathBuf>,
    /// Follow symlinks directly in each folder that `--skills` or `check` names;
    /// in default folders, only to targets in the current folder
    #[arg(long)]
    follow_root_links: bool,
    /// Find skills down to this number of folders below each folder that `--skills`
    /// or `check` names, such as 2 for AUTHOR/SKILL [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MAX_DEPTH as i64))]
    depth: Option<u8>,
    /// Load tool components from this folder, besides the configured ones;
    /// `runners` stands for the runners of scripts that came with this program;
    /// repeatable
    #[arg(long, value_name = "DIR")]
    tools: Vec<PathBuf>,
    /// Append a record of each call to this file instead of the configured one;
    /// `-` is stderr
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Log this much to stderr; `info` includes what guests print [default: warn]
    #[arg(long, value_enum, value_name = "LEVEL")]
    log: Option<LogLevel>,
    /// Let the tools of a component file, or a built-in tool, read these skills
    /// instead of the configured ones; `*` and `?` are wildcards; repeatable
    #[arg(long, value_name = "FILE.wasm=SKILL,…")]
    grant: Vec<String>,
    /// Let this user or group, like root and you, own and change the
    /// configuration, tools and the audit log: user:NAME, group:NAME or
    /// everyone; repeatable
    #[arg(long, value_name = "WHO")]
    trust: Vec<Principal>,
    #[arg(skip)]
    starter: Starter,
    /// The observer, which is notified of the end of each call.
    #[arg(skip)]
    pub observer: Option<Arc<dyn Observer>>,
    /// The index of the host that these options configure.
    #[arg(skip)]
    index: Arc<MemoryIndex>,
}

/// The party that starts the program and so chooses the current folder.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Starter {
    /// A person who types a command.
    #[default]
    Person,
    /// An agent's loop, which calls `respond`.
    Agent,
    /// An MCP client, which starts `serve` in its own current folder: perhaps a repository that
    /// nobody has checked.
    Client,
}

/// The forms of a report that a person or a program reads.
#[derive(Clone, Copy, ValueEnum)]
pub enum ReportFormat {
    /// Lines for people
    Text,
    /// JSON for programs
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
        }
    }
}

impl CommonOptions {
    /// Merges the options after the verb into those before it. An option that takes one value is
    /// overridden; repeatable options add up.
    pub fn merge(mut self, after: Self) -> Self {
        self.config = after.config.or(self.config);
        self.audit = after.audit.or(self.audit);
        self.log = after.log.or(self.log);
        self.depth = after.depth.or(self.depth);
        self.follow_root_links |= after.follow_root_links;
        self.skills.extend(after.skills);
        self.tools.extend(after.tools);
        self.grant.extend(after.grant);
        self.trust.extend(after.trust);
        self
    }

    /// Returns whether no option is given.
    pub fn is_empty(&self) -> bool {
        let paths = [&self.skills, &self.tools];
        self.config.is_none()
            && self.audit.is_none()
            && self.log.is_none()
            && self.depth.is_none()
            && !self.follow_root_links
            && paths.iter().all(|paths| paths.is_empty())
            && self.grant.is_empty()
            && self.trust.is_empty()
    }

    /// Sets who starts the program. The default is a person.
    pub fn started_by(mut self, starter: Starter) -> Self {
        self.starter = starter;
        self
    }

    /// Starts the log, reads the configuration, and applies the options to it. A verb calls this
    /// once. `S` is the type of the program's settings, which contain the host's.
    pub fn load<S>(&self) -> anyhow::Result<S>
    where
        S: FileSettings + AsMut<Config> + Default,
    {
        self.start_log();
        let mut settings: S = self.reload()?;
        if let Some(file) = &settings.as_mut().file {
            tracing::info!("the configuration is `{file}`");
        }
        Ok(settings)
    }

    /// Reads the configuration again, and applies the options to it.
    pub fn reload<S>(&self) -> anyhow::Result<S>
    where
        S: FileSettings + AsMut<Config> + Default,
    {
        let mut settings: S = match &self.config {
            Some(path) => config::read(path, &self.trust_settings())?,
            None => self.load_default()?,
        };
        self.override_config(settings.as_mut())?;
        Ok(settings)
    }

    /// Returns the path of the configuration: the value of `--config`, or `skillhost.toml` in the
    /// current folder.
    pub fn config_file(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new(DEFAULT_FILE))
    }

    /// Returns the path of the configuration that a verb edits.
    ///
    /// # Errors
    ///
    /// If it exists in the current folder, but must not be used without `--config`. Its rules would
    /// not apply to the edit.
    pub fn edited_config(&self) -> anyhow::Result<&Path> {
        if let (None, Some(reason)) = (&self.config, self.reason_against_default()) {
            ensure!(
                !default_exists(),
                "`./{DEFAULT_FILE}` is not used {reason}, so it is not changed; \
                 `--config ./{DEFAULT_FILE}` would use it"
            );
        }
        Ok(self.config_file())
    }

    /// Returns the path that `--config` names, if the option is given.
    pub fn named_config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Returns the root of skills at a path, with the options `--depth` and `--follow-root-links`.
    pub fn root(&self, path: &Path) -> SkillsRoot {
        SkillsRoot {
            depth: self.depth.unwrap_or(1).into(),
            follow_links: self.follow_root_links,
            ..SkillsRoot::new(path)
        }
    }

    /// Adds the roots of `--skills` to a configuration.
    ///
    /// The usual places in the current folder come last, so that a skill there cannot take the name
    /// of another skill, and with it the grants.
    fn add_roots(&self, config: &mut Config) -> anyhow::Result<()> {
        let mut named = Vec::new();
        let mut local = Vec::new();
        for path in &self.skills {
            let usual = USUAL_PLACES
                .iter()
                .find(|(name, _)| path == Path::new(name));
            let Some((name, place)) = usual else {
                named.push(self.configured_root(path, "`--skills`"));
                continue;
            };
            if path.is_dir() {
                terminal::complain(format_args!(
                    "`--skills {name}` names the usual places, not the folder `{name}` here; \
                     `--skills ./{name}` names it"
                ));
            }
            let home = home_folder().map(|home| home.join(place));
            let in_home = home.as_ref().filter(|home| home.is_dir());
            let here = Path::new(place);
            let is_same = in_home.is_some_and(|home| is_same_folder(home, here));
            let hint = format!("`--skills ./{place}`");
            let in_current = if is_same {
                None
            } else {
                self.local_root(here, &hint, "`--skills`")
            };
            if in_home.is_none() && in_current.is_none() {
                let home = home.unwrap_or_else(|| Path::new("~").join(place));
                bail!(
                    "`--skills {name}`: there is no folder `{}`, and no usable `{place}` in \
                     the current folder; create one, or name another folder of skills",
                    home.display()
                );
            }
            named.extend(in_home.map(|home| self.configured_root(home, "`--skills`")));
            local.extend(in_current);
        }
        config.skills.splice(0..0, named);
        config.skills.extend(local);
        Ok(())
    }

    fn configured_root(&self, path: &Path, place: &str) -> ConfiguredRoot {
        ConfiguredRoot {
            root: self.root(path),
            place: place.to_owned(),
        }
    }

    /// Applies the options to a configuration.
    fn override_config(&self, config: &mut Config) -> anyhow::Result<()> {
        self.add_roots(config)?;
        if config.skills.is_empty() {
            let folder = Path::new(DEFAULT_SKILLS);
            let hint = "`--skills skills`";
            let default = self.local_root(folder, hint, "the current folder");
            config.skills.extend(default);
        }
        let tools = self.tools.iter().map(|path| {
            Ok(ConfiguredPath {
                path: tools_folder(path)?,
                place: "`--tools`".to_owned(),
            })
        });
        let tools: Vec<_> = tools.collect::<anyhow::Result<_>>()?;
        config.tools.splice(0..0, tools);
        self.override_grants(config)?;
        if let Some(path) = &self.audit {
            config.audit_file = Some(ConfiguredPath {
                path: path.clone(),
                place: "`--audit`".to_owned(),
            });
        }
        let is_server = self.starter == Starter::Client;
        let required = is_server && config.require_pins;
        config.require_components.get_or_insert(required);
        Ok(())
    }

    /// Reads the configuration again for a server, also in a confined process. Returns `None`
    /// without `--config`.
    ///
    /// Applies only the options about grants: the server keeps its folders and its audit log.
    pub fn reload_for_server<S>(&self, opener: &Opener) -> anyhow::Result<Option<S>>
    where
        S: FileSettings + AsMut<Config>,
    {
        let Some(path) = &self.config else {
            return Ok(None);
        };
        let mut settings: S = config::read(path, &self.trust_settings().with_opener(opener))?;
        self.override_grants(settings.as_mut())?;
        Ok(Some(settings))
    }

    /// Reads one table of the configuration again, even if other keys are invalid. Returns `None`
    /// without `--config`.
    pub fn load_table<T>(
        &self,
        opener: &Opener,
        read: impl FnOnce(&Tables<'_>) -> T,
    ) -> anyhow::Result<Option<T>> {
        let trust = self.trust_settings().with_opener(opener);
        let table = |path| config::read_table(path, &trust, read);
        self.config.as_deref().map(table).transpose()
    }

    /// Applies the options about grants to a configuration.
    fn override_grants(&self, config: &mut Config) -> anyhow::Result<()> {
        for argument in &self.grant {
            let (component, skills) = argument.split_once('=').with_context(|| {
                format!(
                    "`--grant`: expected FILE.wasm=SKILL,… but got `{}`",
                    argument.escape_debug()
                )
            })?;
            let grant = Grant::new()
                .limits(config.limits.clone())
                .source("`--grant`")
                .skills(skills.split(','))
                .context("`--grant`")?;
            config.grants.insert(component.to_owned(), grant);
        }
        Ok(())
    }

    /// Reads the configuration in the current folder, unless the file does not exist or must not be
    /// used without `--config`. Returns the default settings then.
    fn load_default<S: FileSettings + Default>(&self) -> anyhow::Result<S> {
        if !default_exists() {
            return Ok(S::default());
        }
        let Some(reason) = self.reason_against_default() else {
            return config::read_found(Path::new(DEFAULT_FILE), &self.trust_settings());
        };
        terminal::complain(format_args!(
            "`./{DEFAULT_FILE}` is not used {reason}; `--config ./{DEFAULT_FILE}` would use it"
        ));
        Ok(S::default())
    }

    /// Returns why the configuration in the current folder must not be used without `--config`, or
    /// `None` if it may be used.
    fn reason_against_default(&self) -> Option<&'static str> {
        match self.starter {
            Starter::Client | Starter::Agent => Some("without `--config`"),
            Starter::Person if self.skills.is_empty() && self.tools.is_empty() => None,
            Starter::Person => Some("beside `--skills` or `--tools`"),
        }
    }

    /// Returns the users and groups whose files are trusted.
    pub fn trust_settings(&self) -> Trust {
        self.trust.iter().copied().fold(Trust::new(), Trust::and)
    }

    /// Returns the root for a default folder of skills. Returns `None` if the folder does not exist
    /// or is a symlink out of the current folder. `hint` is the option that would name the folder.
    fn local_root(&self, folder: &Path, hint: &str, place: &str) -> Option<ConfiguredRoot> {
        if !folder.is_dir() {
            return None;
        }
        let target = folder.canonicalize();
        let current_folder = Path::new(".")
            .canonicalize()
            .ok()
            .filter(|current| target.is_ok_and(|target| target.starts_with(current)));
        let Some(current_folder) = current_folder else {
            // Otherwise the author of the current folder could make the host read any other folder.
            terminal::complain(format_args!(
                "`./{}` leads out of this folder and is not used; {hint} uses it",
                folder.display()
            ));
            return None;
        };
        if self.starter == Starter::Client {
            let absolute = std::path::absolute(folder);
            terminal::complain(format_args!(
                "serving the skills in `{}`; `--skills DIR` names another folder",
                absolute.as_deref().unwrap_or(folder).display()
            ));
        }
        let mut root = self.configured_root(folder, place);
        // A server reopens a folder that was replaced. The new folder must be in the current folder
        // too.
        root.root.within = Some(current_folder);
        Some(root)
    }

    /// Starts the log on stderr.
    fn start_log(&self) {
        crate::log::start(self.log.unwrap_or(LogLevel::Warn).into());
    }

    /// Builds a host. Prints a message for each problem of the host, such as a component that it
    /// could not load.
    pub async fn build_host(&self, config: &Config) -> anyhow::Result<Host> {
        let host = self.builder(config)?.build().await?;
        report_problems(&host);
        Ok(host)
    }

    /// Builds a host for a verb that makes no call.
    pub async fn build_host_without_calls(&self, mut config: Config) -> anyhow::Result<Host> {
        forbid_calls(&mut config);
        self.build_host(&config).await
    }

    /// Builds a host for at most one call. It reserves nothing for further calls.
    pub async fn build_one_call_host(&self, config: &mut Config) -> anyhow::Result<Host> {
        config.load.calls = 1;
        self.build_host(config).await
    }

    /// Returns a builder with the settings of the configuration, the options and the environment.
    pub fn builder(&self, config: &Config) -> anyhow::Result<HostBuilder> {
        let index: Arc<dyn SkillIndex> = Arc::clone(&self.index) as _;
        let mut builder = HostBuilder::from_config(config)?
            .trust(self.trust_settings())
            .index(index);
        if let Some(observer) = &self.observer {
            builder = builder.observer(Arc::clone(observer));
        }
        if let Some(folder) = cache_folder() {
            builder = builder.cache(folder);
        }
        if config.audit_file.is_some()
            && let Some(signer) = LogSigner::start(
                &config.checkpoints,
                &self.trust_settings(),
                &[TOKEN_VARIABLE],
            )?
        {
            builder = builder.audit_signer(Arc::new(signer));
        }
        let builder = builder.compiler(OWN_PROGRAM);
        Ok(builder.progress(show_compilations()))
    }

    /// Starts the egress process, if its settings need it.
    pub fn start_egress(&self, settings: EgressSettings) -> anyhow::Result<Option<StartingEgress>> {
        if settings.is_empty() {
            return Ok(None);
        }
        let settings = settings.trust(&self.trust_settings());
        settings.start(OWN_PROGRAM.as_ref()).map(Some)
    }

    /// Warns of folders of skills, and of followed symlinks in them, that other users could
    /// redirect to any other folder.
    pub fn report_replaceable_folders(&self, config: &Config) {
        let trust = self.trust_settings();
        let report = |place: &str, kind: &str, path: &Path, error: &TrustError| {
            let path = path.display();
            terminal::complain(format_args!(
                "{place}: others can make the {kind} `{path}` lead to any other: {error}"
            ));
        };
        let roots = config.skills.iter();
        let roots =
            roots.map(|skills| (&skills.place, &skills.root.path, skills.root.follow_links));
        let home = config.home.iter();
        let home = home.map(|home| (&home.place, &home.path, false));
        for (place, path, follows_links) in roots.chain(home) {
            if let Err(error) = trust.check_ancestors(path) {
                report(place, "folder", path, &error);
            } else if follows_links {
                // Many symlinks may lead through the same folder.
                let mut reported = BTreeSet::new();
                for link in links_in(path) {
                    if let Err(error) = trust.check_ancestors(&link)
                        && reported.insert(error.to_string())
                    {
                        report(place, "symlink", &link, &error);
                    }
                }
            }
        }
    }

    /// Waits until the search index is complete, if the call is a search. Servers do not need this:
    /// they build the index before the first call.
    pub async fn prepare_search(&self, host: &Host, tool: &str, arguments: &str) {
        let searches = match tool {
            "find_skills" => true,
            "list_skills" => arguments.contains("query"),
            _ => false,
        };
        if searches {
            self.wait_for_index(host).await;
        }
    }

    /// Returns the skills that fit a query, best first. Waits until the index is complete.
    pub async fn search(&self, host: &Host, query: &str, limit: usize) -> Vec<SearchHit> {
        self.wait_for_index(host).await;
        self.index.search(query, limit, &|_| true).hits
    }

    async fn wait_for_index(&self, host: &Host) {
        host.update_index();
        let _shown = progress::show_on_terminal("indexing skills");
        let index = Arc::clone(&self.index);
        let wait = move || index.wait_until_ready(INDEX_TIMEOUT);
        let is_ready = tokio::task::spawn_blocking(wait).await;
        if !is_ready.unwrap_or(true) {
            tracing::warn!("the index is incomplete: the search leaves out some skills");
        }
    }
}

/// The options of `serve` that name a file or folder.
const PATH_OPTIONS: [&str; 4] = ["--audit", "--config", "--skills", "--tools"];

/// Returns the arguments of `serve` with absolute paths, for a program that starts the server in
/// another folder.
///
/// # Errors
///
/// Fails if the current folder no longer exists.
pub fn absolute_paths(arguments: &[String]) -> anyhow::Result<Vec<String>> {
    // The option whose path is the next argument.
    let mut option_before = None;
    let absolute = arguments.iter().map(|argument| {
        let (option, prefix, path) = match (option_before.take(), argument.split_once('=')) {
            (Some(option), _) => (option, String::new(), &**argument),
            (None, Some((option, path))) if PATH_OPTIONS.contains(&option) => {
                (option, format!("{option}="), path)
            }
            _ => {
                option_before = PATH_OPTIONS.into_iter().find(|option| option == argument);
                return Ok(argument.clone());
            }
        };
        // These values are not paths: `-` for stderr, `runners`, and the names of the usual places.
        let is_word = path == "-"
            || (option, path) == ("--tools", RUNNERS)
            || USUAL_PLACES.iter().any(|(name, _)| *name == path);
        let path = if is_word {
            path.to_owned()
        } else {
            let path = std::path::absolute(path);
            let path = path.context("cannot make a path absolute")?;
            path.to_string_lossy().into_owned()
        };
        Ok(prefix + &path)
    });
    absolute.collect()
}

/// Returns the folder that an argument of `--tools` names.
fn tools_folder(path: &Path) -> anyhow::Result<PathBuf> {
    if path != Path::new(RUNNERS) {
        return Ok(path.to_owned());
    }
    if path.is_dir() {
        terminal::complain(format_args!(
            "`--tools {RUNNERS}` names the runners that came with this program, not the folder \
             `{RUNNERS}` here; `--tools ./{RUNNERS}` names it"
        ));
    }
    let folder = runners::folder().context("cannot find the folder of this program")?;
    if !folder.is_dir() {
        bail!(
            "`--tools {RUNNERS}`: there is no folder `{}`; `skillhost {RUNNERS}` tells how to get \
             the runners",
            folder.display()
        );
    }
    Ok(folder)
}

/// Returns the symlinks directly in a folder.
fn links_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let entries = entries.take(MAX_ENTRIES).flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.map(|link| link.path())
}

/// Waits until the egress process is ready, and adds it to the builder.
pub fn with_egress(
    builder: HostBuilder,
    egress: Option<StartingEgress>,
) -> anyhow::Result<HostBuilder> {
    let egress = egress.map(StartingEgress::wait).transpose()?;
    Ok(egress.into_iter().fold(builder, HostBuilder::egress))
}

/// Changes a configuration for a host that makes no call: the host then reserves almost nothing for
/// calls, and does not open the audit log.
pub fn forbid_calls(config: &mut Config) {
    (config.audit_file, config.audit_place) = (None, None);
    config.load.calls = 1;
}

/// Opens the catalog of a configuration, without loading any tool.
pub fn open_catalog(config: &Config) -> anyhow::Result<Catalog> {
    open_catalog_with(config, &Opener::DIRECT)
}

/// Opens a catalog like [`open_catalog`], and files of skills through an opener.
pub fn open_catalog_with(config: &Config, opener: &Opener) -> anyhow::Result<Catalog> {
    let catalog = Catalog::open_with(&config.skills_roots()?, None, opener)?;
    let catalog = catalog.hard_links(config.hard_links);
    Ok(catalog.omitted_names(config.omitted_names.clone()))
}

/// Prints the problems of a host, such as a component that it could not load, and advice on roots
/// without skills.
pub fn report_problems(host: &Host) {
    for problem in host.problems() {
        terminal::complain(problem);
    }
    report_advice(host.catalog());
}

/// Prints advice on roots without skills. Returns whether it printed any.
pub fn report_advice(catalog: &Catalog) -> bool {
    let advice = catalog.advice();
    advice.iter().for_each(terminal::complain);
    !advice.is_empty()
}

/// Returns a folder of the user: the path in the environment variable `variable` if it is absolute,
/// or else the folder `in_home` below the home folder. Returns `None` if there is no home folder
/// either.
pub fn user_folder(variable: Option<&str>, in_home: &str) -> Option<PathBuf> {
    let named = variable.and_then(absolute_variable);
    named.or_else(|| Some(home_folder()?.join(in_home)))
}

/// Returns whether the current folder has a configuration. One that cannot be read exists, so that
/// this is an error: without the file, its limits would silently not apply.
fn default_exists() -> bool {
    let metadata = std::fs::symlink_metadata(DEFAULT_FILE);
    !metadata.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Returns the user's home folder. Ignores a relative path, which would depend on the current
/// folder.
fn home_folder() -> Option<PathBuf> {
    let home = PathBuf::from(env::var_os("HOME")?);
    home.is_absolute().then_some(home)
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| real(other) == Some(one))
}

/// Returns the folder of the store of packages: a folder in the user's data folder. Returns `None`
/// if the user has no home folder.
pub fn store_folder() -> Option<PathBuf> {
    let base = user_folder(Some("XDG_DATA_HOME"), ".local/share")?;
    Some(base.join("skillhost/store"))
}

/// Returns the folder of the requests for packages, in the user's data folder. Returns `None` if
/// the user has no home folder.
pub fn requests_folder() -> Option<PathBuf> {
    let base = user_folder(Some("XDG_DATA_HOME"), ".local/share")?;
    Some(base.join("skillhost/requests"))
}

/// Returns the files in which podman and docker store credentials, in the order in which podman
/// reads them.
pub fn credential_files() -> Vec<PathBuf> {
    let in_folder = |variable: &str, file: &str| Some(absolute_variable(variable)?.join(file));
    let home = home_folder();
    let in_home = |file: &str| Some(home.as_ref()?.join(file));
    let docker = in_folder("DOCKER_CONFIG", "config.json");
    [
        absolute_variable("REGISTRY_AUTH_FILE"),
        in_folder("XDG_RUNTIME_DIR", "containers/auth.json"),
        user_folder(Some("XDG_CONFIG_HOME"), ".config")
            .map(|folder| folder.join("containers/auth.json")),
        docker.or_else(|| in_home(".docker/config.json")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the path in an environment variable. Ignores a relative path, which would depend on the
/// current folder.
fn absolute_variable(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(name)?);
    path.is_absolute().then_some(path)
}

/// Returns the folder for compiled components: `SKILLHOST_CACHE`, or else a folder in the user's
/// cache folder. Returns `None` if the variable is `off` or there is no such folder.
pub fn cache_folder() -> Option<PathBuf> {
    match env::var_os("SKILLHOST_CACHE") {
        Some(value) if value == "off" => None,
        Some(value) if !value.is_empty() => Some(value.into()),
        _ => {
            let base = user_folder(Some("XDG_CACHE_HOME"), ".cache")?;
            Some(base.join("skillhost"))
        }
    }
}
