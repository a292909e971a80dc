//! The options that most verbs take, and the catalog or host that they describe. Only this
//! file and the author's `build/` read the environment.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use skillhost::config::{Config, ConfiguredPath, ConfiguredRoot, DEFAULT_FILE};
use skillhost::{
    Catalog, Compilation, Grant, Host, HostBuilder, Line, MAX_DEPTH, Observer, Principal,
    SkillIndex, SkillsRoot, Trust,
};
use skillhost_audit::LogSigner;
use skillhost_index::MemoryIndex;
use tracing::level_filters::LevelFilter;

use crate::terminal::{self, format_line};

/// The folder of skills, if it exists and no other is given or configured.
const DEFAULT_SKILLS: &str = "skills";

/// The longest wait of a call for the index. Guards against: a catalog on a disk that
/// does not answer.
const INDEX_TIME: Duration = Duration::from_secs(30);

/// The variable that holds the bearer token of a server over HTTP.
pub const TOKEN_VARIABLE: &str = "SKILLHOST_HTTP_TOKEN";

/// Returns the path of this program.
pub fn program() -> io::Result<PathBuf> {
    env::current_exe()
}

/// Returns the token in the environment. An empty one counts, and is refused.
pub fn token() -> Option<OsString> {
    env::var_os(TOKEN_VARIABLE)
}

/// Options that may stand before the verb, after it, or both; they add up.
#[derive(Args, Default)]
pub struct CommonOptions {
    /// Read this configuration [default: ./skillhost.toml, confined to its
    /// folder, unless --skills or --tools is given; none for `serve` and
    /// `respond`]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Find skills in this folder, before the configured ones; repeatable
    /// [default: ./skills, if none is configured]
    #[arg(long, value_name = "DIR")]
    skills: Vec<PathBuf>,
    /// Find skills down to this number of folders below each folder that `--skills`
    /// or `check` names, such as 2 for AUTHOR/SKILL [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MAX_DEPTH as i64))]
    depth: Option<u8>,
    /// Load tool components from this folder, besides the configured ones;
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
    /// Learns how every call ends.
    #[arg(skip)]
    pub observer: Option<Arc<dyn Observer>>,
    /// The index of the host that these options describe.
    #[arg(skip)]
    index: Arc<MemoryIndex>,
}

/// The party that starts the program, and so chooses the current folder.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Starter {
    /// A person who types a verb there.
    #[default]
    Person,
    /// An agent's loop, which calls `respond`.
    Agent,
    /// An MCP client, which starts `serve` in its own current folder, such as a
    /// stranger's repository.
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
    /// Adds the options that stand after the verb.
    pub fn and(mut self, after: Self) -> Self {
        self.config = after.config.or(self.config);
        self.audit = after.audit.or(self.audit);
        self.log = after.log.or(self.log);
        self.depth = after.depth.or(self.depth);
        self.skills.extend(after.skills);
        self.tools.extend(after.tools);
        self.grant.extend(after.grant);
        self.trust.extend(after.trust);
        self
    }

    /// Sets the starter, if it is not a person.
    pub fn started_by(mut self, starter: Starter) -> Self {
        self.starter = starter;
        self
    }

    /// Starts the log and reads the configuration, with the options over it. A verb
    /// calls this once.
    pub fn configured(&self) -> anyhow::Result<Config> {
        self.start_log();
        let mut config = match &self.config {
            Some(path) => Config::read(path, &self.trusted())?,
            None => self.default_config()?,
        };
        if let Some(file) = &config.file {
            tracing::info!("the configuration is `{file}`");
        }
        self.override_config(&mut config)?;
        Ok(config)
    }

    /// Returns the depth of the folders that `--skills` names.
    pub fn depth(&self) -> usize {
        self.depth.unwrap_or(1).into()
    }

    /// Puts the options into a configuration.
    fn override_config(&self, config: &mut Config) -> anyhow::Result<()> {
        let roots = self
            .skills
            .iter()
            .map(|path| plain_root(path, self.depth(), "`--skills`"));
        config.skills.splice(0..0, roots);
        if config.skills.is_empty() {
            config.skills.extend(self.default_root());
        }
        let tools = self.tools.iter().map(|path| ConfiguredPath {
            path: path.clone(),
            place: "`--tools`".to_owned(),
        });
        config.tools.splice(0..0, tools);
        for argument in &self.grant {
            let (component, skills) = argument.split_once('=').with_context(|| {
                format!(
                    "`--grant`: expected FILE.wasm=SKILL,… but got `{}`",
                    argument.escape_debug()
                )
            })?;
            let grant = Grant::new()
                .limits(config.limits.clone())
                .source("`--grant`");
            let grant = grant.skills(skills.split(',')).context("`--grant`")?;
            config.grants.insert(component.to_owned(), grant);
        }
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

    /// Reads the configuration in the current folder, if it counts.
    fn default_config(&self) -> anyhow::Result<Config> {
        // A file that cannot be read is an error: without it, its limits would not
        // hold.
        let metadata = std::fs::symlink_metadata(DEFAULT_FILE);
        if metadata.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(Config::default());
        }
        let unused = match self.starter {
            Starter::Client | Starter::Agent => "without `--config`",
            Starter::Person if self.skills.is_empty() && self.tools.is_empty() => {
                return Config::read_found(Path::new(DEFAULT_FILE), &self.trusted());
            }
            Starter::Person => "beside `--skills` or `--tools`",
        };
        terminal::complain(format_args!(
            "`./{DEFAULT_FILE}` is not used {unused}; `--config ./{DEFAULT_FILE}` would use it"
        ));
        Ok(Config::default())
    }

    /// Returns whose files are trusted.
    pub fn trusted(&self) -> Trust {
        let principals = self.trust.iter().copied();
        principals.fold(Trust::new(), Trust::and)
    }

    /// Returns the folder of skills that serves where none is configured.
    fn default_root(&self) -> Option<ConfiguredRoot> {
        let folder = Path::new(DEFAULT_SKILLS);
        if !folder.is_dir() {
            return None;
        }
        let real = folder.canonicalize();
        let here = Path::new(".").canonicalize();
        let here = here
            .ok()
            .filter(|here| real.is_ok_and(|real| real.starts_with(here)));
        let Some(here) = here else {
            // The author of the current folder would choose what is read.
            terminal::complain(
                "`./skills` leads out of this folder and is not used; `--skills skills` uses it",
            );
            return None;
        };
        if self.starter == Starter::Client {
            let shown = std::path::absolute(folder);
            terminal::complain(format_args!(
                "serving the skills in `{}`; `--skills DIR` names another folder",
                shown.as_deref().unwrap_or(folder).display()
            ));
        }
        let mut found = plain_root(folder, self.depth(), "the current folder");
        // Nor later: a server opens a folder again that another one has replaced.
        found.root.within = Some(here);
        Some(found)
    }

    /// Opens the catalog, without loading any tool.
    pub fn catalog(&self) -> anyhow::Result<Catalog> {
        catalog_of(&self.configured()?)
    }

    /// Starts the log on stderr.
    fn start_log(&self) {
        crate::log::start(self.log.unwrap_or(LogLevel::Warn).into());
    }

    /// Builds a host, and reports on stderr what it could not load.
    pub async fn host(&self) -> anyhow::Result<Host> {
        self.host_of(&self.configured()?).await
    }

    /// Builds a host that no call runs on.
    pub async fn host_without_calls(&self) -> anyhow::Result<Host> {
        let mut config = self.configured()?;
        forbid_calls(&mut config);
        self.host_of(&config).await
    }

    /// Builds a host for at most one call, by a configuration.
    pub async fn host_of_one_call(&self, config: &mut Config) -> anyhow::Result<Host> {
        config.load.calls = 1;
        self.host_of(config).await
    }

    async fn host_of(&self, config: &Config) -> anyhow::Result<Host> {
        let host = self.builder(config)?.build().await?;
        report_problems(&host);
        Ok(host)
    }

    /// Returns a builder with everything that the configuration, the options and the
    /// environment say.
    pub fn builder(&self, config: &Config) -> anyhow::Result<HostBuilder> {
        let index: Arc<dyn SkillIndex> = Arc::clone(&self.index) as _;
        let mut builder = HostBuilder::from_config(config)?
            .trust(self.trusted())
            .index(index);
        if let Some(observer) = &self.observer {
            builder = builder.observer(Arc::clone(observer));
        }
        if let Some(folder) = cache_folder() {
            builder = builder.cache(folder);
        }
        if config.audit_file.is_some()
            && let Some(signer) = LogSigner::start(&config.checkpoints, &[TOKEN_VARIABLE])?
        {
            builder = builder.audit_signer(Arc::new(signer));
        }
        if let Ok(program) = env::current_exe() {
            builder = builder.compiler(program);
        }
        Ok(builder.progress(show_compilations()))
    }

    /// Waits until all skills can be found, if a call will search. Only a server's
    /// index is ready before the first call.
    pub async fn prepare_search(&self, host: &Host, tool: &str, arguments: &str) {
        let searches = match tool {
            "find_skills" => true,
            "list_skills" => arguments.contains("query"),
            _ => false,
        };
        if searches {
            host.update_index();
            let index = Arc::clone(&self.index);
            let wait = move || index.wait_until_ready(INDEX_TIME);
            let is_ready = tokio::task::spawn_blocking(wait).await;
            if !is_ready.unwrap_or(true) {
                tracing::warn!("not all skills are read yet; the search goes without them");
            }
        }
    }
}

/// Adapts a configuration to a host that no call runs on: it reserves nothing for calls,
/// and leaves the audit log as it is.
pub fn forbid_calls(config: &mut Config) {
    (config.audit_file, config.audit_place) = (None, None);
    config.load.calls = 1;
}

/// Opens the catalog of a configuration, without loading any tool.
pub fn catalog_of(config: &Config) -> anyhow::Result<Catalog> {
    let catalog = Catalog::open(&config.skills_roots()?, None)?;
    Ok(catalog.hard_links(config.hard_links))
}

/// Reports what a host could not load, and what is wrong with a catalog without
/// skills.
pub fn report_problems(host: &Host) {
    for problem in host.problems() {
        terminal::complain(problem);
    }
    report_advice(host.catalog());
}

/// Reports what is wrong with a catalog without skills.
pub fn report_advice(catalog: &Catalog) {
    for advice in catalog.advice() {
        terminal::complain(advice);
    }
}

/// Returns a folder of skills, for a configuration.
fn plain_root(path: &Path, depth: usize, place: &str) -> ConfiguredRoot {
    ConfiguredRoot {
        root: SkillsRoot {
            depth,
            ..SkillsRoot::new(path)
        },
        place: place.to_owned(),
    }
}

/// Returns the folder for compiled components: `SKILLHOST_CACHE`, which may be
/// `off`, else one in the user's cache folder.
pub fn cache_folder() -> Option<PathBuf> {
    match env::var_os("SKILLHOST_CACHE") {
        Some(value) if value == "off" => None,
        Some(value) if !value.is_empty() => Some(value.into()),
        _ => {
            let base = env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .filter(|base| base.is_absolute())
                // From another path it would be the current folder's author who brings code.
                .or_else(|| {
                    let home = PathBuf::from(env::var_os("HOME")?);
                    home.is_absolute().then(|| home.join(".cache"))
                })?;
            Some(base.join("skillhost"))
        }
    }
}

/// Returns a callback that shows what is being compiled: on a terminal at once, elsewhere
/// if it takes long.
pub fn show_compilations() -> impl Fn(&str, Compilation) + Send + Sync + 'static {
    let is_watched = terminal::is_watched();
    let progress = CompilationProgress::default();
    let slow = Arc::<SlowCompilations>::default();
    move |component, event| match is_watched {
        true => progress.show(component, event),
        false => slow.show(component, event),
    }
}

/// Shows on a terminal what is being compiled: a first start takes a moment.
#[derive(Default)]
struct CompilationProgress {
    compiling: Mutex<Vec<String>>,
}

impl CompilationProgress {
    fn show(&self, component: &str, event: Compilation) {
        let mut compiling = self
            .compiling
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match event {
            Compilation::Started => compiling.push(component.to_owned()),
            Compilation::Ended => compiling.retain(|other| other != component),
        }
        terminal::show_progress(&self::compiling(&compiling));
    }
}

/// Reports on stderr that components take long to compile, where no terminal shows
/// progress.
#[derive(Default)]
struct SlowCompilations(Mutex<RunningCompilations>);

#[derive(Default)]
struct RunningCompilations {
    components: Vec<String>,
    /// Dropped when the last of them is compiled.
    running: Option<mpsc::Sender<()>>,
}

impl SlowCompilations {
    /// The time after which compilations are reported.
    const SLOW: Duration = Duration::from_secs(2);

    fn show(self: &Arc<Self>, component: &str, event: Compilation) {
        let mut state = self.lock();
        match event {
            Compilation::Started => state.components.push(component.to_owned()),
            Compilation::Ended => state.components.retain(|other| other != component),
        }
        if state.components.is_empty() {
            state.running = None;
        } else if state.running.is_none() {
            let (running, ended) = mpsc::channel();
            state.running = Some(running);
            let this = Arc::clone(self);
            // Without a thread nothing is reported.
            let _ = thread::Builder::new().spawn(move || this.report(&ended));
        }
    }

    /// Reports the components that are being compiled, unless that ends soon.
    fn report(&self, ended: &mpsc::Receiver<()>) {
        let start = Instant::now();
        if ended.recv_timeout(Self::SLOW) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let compiling = compiling(&self.lock().components);
        terminal::complain(format_args!("{compiling}; the cache did not have it"));
        let _ = ended.recv();
        terminal::complain(format_args!("compiled in {} s", start.elapsed().as_secs()));
    }

    fn lock(&self) -> MutexGuard<'_, RunningCompilations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the line about components that are being compiled.
fn compiling(components: &[String]) -> Line {
    match components {
        [] => Line::default(),
        [one] => format_line!("compiling {one}"),
        [one, others @ ..] => format_line!("compiling {one} and {} more", others.len()),
    }
}
