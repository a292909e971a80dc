//! The options that every verb takes, and what they make: a catalog or a host.
//! The environment is read here and nowhere else.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use skillhost::config::{Config, DEFAULT_FILE, Located, LocatedRoot};
use skillhost::{
    Catalog, Compilation, Grant, Host, HostBuilder, Line, Principal, SkillsRoot, Trust,
};
use skillhost_conformance::Conformance;
use tracing::level_filters::LevelFilter;

use crate::terminal::{self, format_line};

/// Used where it exists and no skills folder is given or configured.
const DEFAULT_SKILLS: &str = "skills";

/// Holds the bearer token of a server over HTTP.
pub(crate) const TOKEN_VARIABLE: &str = "SKILLHOST_HTTP_TOKEN";

/// The token in the environment. An empty one is one, and is refused.
pub(crate) fn token() -> Option<OsString> {
    env::var_os(TOKEN_VARIABLE)
}

/// Stands before the verb and after it; what is said in both places adds up.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// Configuration file [default: ./skillhost.toml if it exists and neither
    /// --skills nor --tools is given, for what lies beside it; `serve` and
    /// `respond` use none]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder of skills, before the configured ones; repeatable
    /// [default: ./skills if it exists and none is configured]
    #[arg(long, value_name = "DIR")]
    skills: Vec<PathBuf>,
    /// Folder of tool components, besides the configured ones; repeatable
    #[arg(long, value_name = "DIR")]
    tools: Vec<PathBuf>,
    /// Append a record of each call to this file, in place of the configured
    /// one; `-` is stderr
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// How much to log on stderr; what guests print is `info` [default: warn]
    #[arg(long, value_enum, value_name = "LEVEL")]
    log: Option<Level>,
    /// Let the tools of a component file, or a built-in tool, read skills, in
    /// place of the configured grant; `*` and `?` match any characters;
    /// repeatable
    #[arg(long, value_name = "FILE.wasm=SKILL,…")]
    grant: Vec<String>,
    /// User or group that may own and change the configuration, tools and the
    /// audit log, as root and you may: user:NAME, group:NAME or everyone;
    /// repeatable
    #[arg(long, value_name = "WHO")]
    trust: Vec<Principal>,
    #[arg(skip)]
    starter: Starter,
}

/// Who starts the program, and so who has chosen the current folder.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Starter {
    /// A person, who types a verb there.
    #[default]
    Person,
    /// A loop of an agent, which calls `respond`.
    Agent,
    /// An MCP client, which starts `serve` wherever it is itself: in the folder
    /// of a stranger's repository, say.
    Client,
}

#[derive(Clone, Copy, ValueEnum)]
enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
        }
    }
}

impl Options {
    /// These, with those that stand after the verb.
    pub(crate) fn and(mut self, after: Self) -> Self {
        self.config = after.config.or(self.config);
        self.audit = after.audit.or(self.audit);
        self.log = after.log.or(self.log);
        self.skills.extend(after.skills);
        self.tools.extend(after.tools);
        self.grant.extend(after.grant);
        self.trust.extend(after.trust);
        self
    }

    /// These, where somebody else than a person starts the program.
    pub(crate) fn started_by(mut self, starter: Starter) -> Self {
        self.starter = starter;
        self
    }

    /// Starts the log and reads the configuration, for each verb once.
    pub(crate) fn configured(&self) -> anyhow::Result<Config> {
        self.start_log();
        let config = match &self.config {
            Some(path) => Config::read(path, &self.trusted())?,
            None => self.found()?,
        };
        if let Some(file) = &config.file {
            tracing::info!("the configuration is `{file}`");
        }
        Ok(config)
    }

    /// The configuration in the current folder, where it counts.
    fn found(&self) -> anyhow::Result<Config> {
        // What is there and cannot be read is not passed over: its limits
        // would be too.
        let found = std::fs::symlink_metadata(DEFAULT_FILE);
        if found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
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

    fn trusted(&self) -> Trust {
        let principals = self.trust.iter().copied();
        principals.fold(Trust::new(), Trust::and)
    }

    fn skills(&self, config: &Config) -> anyhow::Result<Vec<SkillsRoot>> {
        let plain = |path: &Path| SkillsRoot {
            path: path.to_owned(),
            follow_links: false,
        };
        let mut roots = Vec::new();
        for folder in &self.skills {
            must_be_folder(folder, "`--skills`")?;
            roots.push(plain(folder));
        }
        for LocatedRoot { root, place } in &config.skills {
            must_be_folder(&root.path, place)?;
            roots.push(root.clone());
        }
        let folder = Path::new(DEFAULT_SKILLS);
        if !roots.is_empty() || !folder.is_dir() {
            return Ok(roots);
        }
        let real = folder.canonicalize();
        let here = Path::new(".").canonicalize();
        if let (Ok(real), Ok(here)) = (real, here)
            && real.starts_with(here)
        {
            if self.starter == Starter::Client {
                let shown = std::path::absolute(folder);
                terminal::complain(format_args!(
                    "serving the skills in `{}`; `--skills DIR` names another folder",
                    shown.as_deref().unwrap_or(folder).display()
                ));
            }
            roots.push(plain(folder));
        } else {
            // Whoever wrote the folder would choose what is read.
            terminal::complain(
                "`./skills` leads out of this folder and is not used; `--skills skills` uses it",
            );
        }
        Ok(roots)
    }

    /// The skills, without loading any tool.
    pub(crate) fn catalog(&self) -> anyhow::Result<Catalog> {
        let config = self.configured()?;
        let catalog = Catalog::open(&self.skills(&config)?, None)?;
        Ok(catalog.hard_links(config.hard_links))
    }

    /// Starts the log on stderr.
    fn start_log(&self) {
        crate::log::start(self.log.unwrap_or(Level::Warn).into());
    }

    /// Skills and tools. What could not be loaded is said on stderr.
    pub(crate) async fn host(&self) -> anyhow::Result<Host> {
        self.host_with(|_| ()).await
    }

    /// The same for a process that makes one call at most: it sets nothing
    /// aside for more.
    pub(crate) async fn host_for_one_call(&self) -> anyhow::Result<Host> {
        self.host_with(|config| config.load.calls = 1).await
    }

    async fn host_with(&self, change: impl FnOnce(&mut Config)) -> anyhow::Result<Host> {
        let mut config = self.configured()?;
        change(&mut config);
        let host = self.builder(config)?.build().await?;
        complain_of(&host);
        Ok(host)
    }

    /// What a host is built from.
    pub(crate) fn builder(&self, config: Config) -> anyhow::Result<HostBuilder> {
        let required = self.starter == Starter::Client && config.require_pins;
        let mut builder = Host::builder()
            .trust(self.trusted())
            .limits(config.limits.clone())
            .load(config.load.clone())
            .hard_links(config.hard_links)
            .require_components(config.require_components.unwrap_or(required));
        for root in self.skills(&config)? {
            builder = builder.skills_root(root);
        }
        for folder in &self.tools {
            builder = builder.tools(must_be_folder(folder, "`--tools`")?);
        }
        for Located { path, place } in &config.tools {
            builder = builder.tools(must_be_folder(path, place)?);
        }
        if let Some(Located { path, place }) = &config.home {
            builder = builder.home(must_be_folder(path, place)?);
        }
        for tool in config.disabled_tools {
            builder = builder.disable(tool);
        }
        for (file, pin) in config.pins {
            builder = builder.pin(file, pin);
        }
        builder = builder.require_pins(config.require_pins);
        for (component, grant) in config.grants {
            builder = builder.grant(component, grant);
        }
        for given in &self.grant {
            let (component, skills) = given.split_once('=').with_context(|| {
                format!(
                    "`--grant`: expected FILE.wasm=SKILL,… and not `{}`",
                    given.escape_debug()
                )
            })?;
            let grant = Grant::new().limits(config.limits.clone());
            let grant = grant.skills(skills.split(',')).context("`--grant`")?;
            builder = builder.grant(component, grant);
        }
        if let Some(file) = config.file {
            builder = builder.configuration(format!("`{file}`"));
        }
        let configured = config.audit_file.map(|located| located.path);
        if let Some(file) = self.audit.clone().or(configured) {
            builder = builder.audit(file, config.audit);
        }
        if let Some(folder) = cache_folder() {
            builder = builder.cache(folder);
        }
        if let Ok(program) = env::current_exe() {
            builder = builder.compiler(program);
        }
        if let Some(time) = config.compile_time {
            builder = builder.compile_time(time);
        }
        if terminal::is_watched() {
            let progress = Progress::default();
            builder = builder.progress(move |name, what| progress.tell(name, what));
        }
        Ok(builder)
    }
}

impl Options {
    /// A run of conformance checks for a component.
    pub(crate) fn conformance(&self, component: &Path) -> anyhow::Result<Conformance> {
        let config = self.configured()?;
        let mut run = Conformance::of(component).limits(config.limits.clone());
        for root in self.skills(&config)? {
            run = run.skills_root(root);
        }
        if let Some(folder) = cache_folder() {
            run = run.cache(folder);
        }
        if let Ok(program) = env::current_exe() {
            run = run.compiler(program);
        }
        if let Some(time) = config.compile_time {
            run = run.compile_time(time);
        }
        Ok(run)
    }
}

/// Says what could not be loaded.
pub(crate) fn complain_of(host: &Host) {
    for problem in host.problems() {
        terminal::complain(problem);
    }
}

fn must_be_folder(path: &Path, place: &str) -> anyhow::Result<PathBuf> {
    let metadata = std::fs::metadata(path)
        .with_context(|| format!("{place}: cannot use the folder `{}`", path.display()))?;
    anyhow::ensure!(
        metadata.is_dir(),
        "{place}: `{}` is not a folder",
        path.display()
    );
    Ok(path.to_owned())
}

/// Where compiled components are kept: `SKILLHOST_CACHE`, which may be `off`,
/// else the user's cache folder.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    match env::var_os("SKILLHOST_CACHE") {
        Some(value) if value == "off" => None,
        Some(value) if !value.is_empty() => Some(value.into()),
        _ => {
            let base = env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .filter(|base| base.is_absolute())
                .or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cache")))?;
            Some(base.join("skillhost"))
        }
    }
}

/// Says on a terminal what is being compiled: the first start takes a moment.
#[derive(Default)]
struct Progress {
    compiling: Mutex<Vec<String>>,
}

impl Progress {
    fn tell(&self, component: &str, what: Compilation) {
        let mut compiling = self
            .compiling
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        match what {
            Compilation::Started => compiling.push(component.to_owned()),
            Compilation::Ended => compiling.retain(|other| other != component),
        }
        let line = match &compiling[..] {
            [] => Line::default(),
            [one] => format_line!("compiling {one}"),
            [one, others @ ..] => format_line!("compiling {one} and {} more", others.len()),
        };
        terminal::show_progress(&line);
    }
}
