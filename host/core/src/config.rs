//! `skillhost.toml`: read, checked, and nothing in it guessed. Every error
//! names the file, the line and what would be right.

mod http;
mod keys;
mod quantity;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::fs::OFlags;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;

use crate::component::embedded;
use crate::skill::catalog::SkillsRoot;
use crate::text::suggest;
use crate::tool::audit::AuditMode;
use crate::tool::grant::{Grant, PatternError};
use crate::tool::limits::{self, Limits, Load};
use crate::trust::Trust;
use quantity::{CallsMemory, Count, Limit, Stack, Time};

pub use http::{Http, HttpLimits};

/// The name of a configuration that is found in the current folder.
pub const DEFAULT_FILE: &str = "skillhost.toml";

/// A configuration file, as it stands on disk.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// The file's name, for messages. None if no file was read.
    pub file: Option<String>,
    /// Folders of skills; the first one that has a skill wins.
    pub skills: Vec<LocatedRoot>,
    /// Folders of tool components.
    pub tools: Vec<Located>,
    /// The folder that paths without a skill are relative to.
    pub home: Option<Located>,
    /// Tools that are not offered and cannot be called.
    pub disabled_tools: Vec<String>,
    /// Whether files with several hard links may be read.
    pub hard_links: bool,
    /// Limits of a call.
    pub limits: Limits,
    /// The audit log.
    pub audit_file: Option<Located>,
    /// What happens to a call that cannot be recorded in it.
    pub audit: AuditMode,
    /// How many calls run and wait at a time.
    pub load: Load,
    /// Longest that compiling a component file may take.
    pub compile_time: Option<Duration>,
    /// SHA-256 of component files, by file name.
    pub pins: BTreeMap<String, String>,
    /// Whether a component file without a pin is refused.
    pub require_pins: bool,
    /// Whether a component file that cannot be loaded is an error. None: it is
    /// one for a server that requires pins.
    pub require_components: Option<bool>,
    /// What each component may do, by its file's name or a built-in tool's.
    pub grants: BTreeMap<String, Grant>,
    /// How a server over HTTP is set up.
    pub http: Http,
}

/// A folder of skills, and where it was configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedRoot {
    /// The folder.
    pub root: SkillsRoot,
    /// Where it was said.
    pub place: String,
}

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// A path, and where it was configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The path; a relative one counts from the configuration file's folder.
    pub path: PathBuf,
    /// Where it was said, for messages: "`skillhost.toml`, line 3".
    pub place: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    skills: Vec<Spanned<RawRoot>>,
    tools: Vec<Spanned<PathBuf>>,
    home: Option<Spanned<PathBuf>>,
    disabled_tools: Vec<String>,
    hard_links: bool,
    audit_file: Option<Spanned<PathBuf>>,
    audit: RawAudit,
    pins: BTreeMap<String, Spanned<String>>,
    require_pins: bool,
    require_components: Option<bool>,
    compile_time: Option<Time>,
    calls: Option<Count>,
    queue: Option<Count>,
    calls_per_tool: Option<Count>,
    calls_memory: Option<CallsMemory>,
    stack: Option<Stack>,
    limits: RawLimits,
    grants: BTreeMap<String, Spanned<RawGrant>>,
    http: http::Raw,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum RawAudit {
    #[default]
    Required,
    BestEffort,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a folder, or { path = \"a folder\", follow_root_links = true }"
)]
enum RawRoot {
    Path(PathBuf),
    Table(RawRootTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRootTable {
    path: PathBuf,
    #[serde(default)]
    follow_root_links: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "expected a table of limits")]
struct RawLimits {
    time: Option<Time>,
    memory: Option<Limit<{ limits::MEMORY }>>,
    output: Option<Limit<{ limits::OUTPUT }>>,
    table_elements: Option<Limit<{ limits::TABLE_ELEMENTS }>>,
    instances: Option<Limit<{ limits::INSTANCES }>>,
    tables: Option<Limit<{ limits::TABLES }>>,
    hostcall_fuel: Option<Limit<{ limits::HOSTCALL_FUEL }>>,
    handles: Option<Limit<{ limits::HANDLES }>>,
    directory_entries: Option<Limit<{ limits::DIRECTORY_ENTRIES }>>,
    log: Option<Limit<{ limits::LOG }>>,
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "expected a table that says what the tool may do")]
struct RawGrant {
    skills: Option<Vec<String>>,
    home: Option<bool>,
    hard_links: Option<bool>,
    limits: RawLimits,
    environment: BTreeMap<String, String>,
}

/// How far a configuration may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Anywhere: the operator named it.
    Anywhere,
    /// Not beyond its own folder: it was found there, and anybody may have put
    /// it there. Meets: a cloned repository that brings a configuration.
    OwnFolder,
}

impl Config {
    /// Reads a file that the operator named. One that others can change is
    /// refused.
    pub fn read(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        Self::read_within(path, trust, Reach::Anywhere)
    }

    /// Reads a file that was found and not named. Keys that reach beyond its own
    /// folder are errors, and so is what else [`Config::read`] refuses.
    pub fn read_found(path: &Path, trust: &Trust) -> anyhow::Result<Self> {
        Self::read_within(path, trust, Reach::OwnFolder)
    }

    fn read_within(path: &Path, trust: &Trust, reach: Reach) -> anyhow::Result<Self> {
        let cannot = || format!("cannot use the configuration `{}`", path.display());
        trust.check(path).with_context(cannot)?;
        if reach == Reach::OwnFolder && !lies_within(path, path.parent().unwrap_or(path)) {
            bail!("{}: {}", cannot(), keys::beyond("it is a symlink, which"));
        }
        let text = read(path).with_context(cannot)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse_within(&text, &path.display().to_string(), folder, reach)
    }

    /// Reads a file's text. `name` stands for the file in messages, relative
    /// paths count from `folder`.
    pub fn parse(text: &str, name: &str, folder: &Path) -> anyhow::Result<Self> {
        Self::parse_within(text, name, folder, Reach::Anywhere)
    }

    fn parse_within(text: &str, name: &str, folder: &Path, reach: Reach) -> anyhow::Result<Self> {
        let place = |at: usize| {
            let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
            format!("`{name}`, line {line}")
        };
        let syntax = |error: toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            anyhow::anyhow!("{}: {}", place(at), error.message())
        };
        let table = DeTable::parse(text).map_err(syntax)?;
        keys::check(table.get_ref(), reach, &place)?;
        let raw: Raw = toml::from_str(text).map_err(syntax)?;
        let located = |path: Spanned<PathBuf>| Located {
            place: place(path.span().start),
            path: folder.join(path.into_inner()),
        };
        let within = |located: Located| match reach {
            Reach::OwnFolder if !lies_within(&located.path, folder) => bail!(
                "{}: {}",
                located.place,
                keys::beyond(&format!("the folder `{}`", located.path.display()))
            ),
            _ => Ok(located),
        };
        let root = |root: Spanned<RawRoot>| {
            let at = root.span().start;
            let (path, follow_links) = match root.into_inner() {
                RawRoot::Path(path) => (path, false),
                RawRoot::Table(table) => (table.path, table.follow_root_links),
            };
            if follow_links && reach == Reach::OwnFolder {
                bail!("{}: {}", place(at), keys::beyond("`follow_root_links`"));
            }
            let Located { path, place } = within(Located {
                place: place(at),
                path: folder.join(path),
            })?;
            Ok(LocatedRoot {
                root: SkillsRoot { path, follow_links },
                place,
            })
        };
        let load = Load::default();
        let limits = raw.limits.over(&Limits::default());
        let grants = raw.grants.into_iter().map(|(component, grant)| {
            let place = place(grant.span().start);
            check_granted(&component).with_context(|| place.clone())?;
            let grant = grant.into_inner().over(&limits).context(place)?;
            anyhow::Ok((component, grant))
        });
        let pins = raw.pins.into_iter().map(|(file, pin)| {
            let place = place(pin.span().start);
            let pin = pin.into_inner();
            if !is_component(&file) {
                bail!("{place}: a pin names a component file, such as `count_lines.wasm`");
            }
            if pin.len() != 64 || !pin.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                bail!("{place}: a pin is a SHA-256, 64 digits in hex");
            }
            Ok((file, pin))
        });
        let skills = raw.skills.into_iter().map(root);
        let tools = raw.tools.into_iter().map(located).map(within);
        Ok(Self {
            file: Some(name.to_owned()),
            skills: skills.collect::<anyhow::Result<_>>()?,
            tools: tools.collect::<anyhow::Result<_>>()?,
            home: raw.home.map(located),
            disabled_tools: raw.disabled_tools,
            hard_links: raw.hard_links,
            audit_file: raw
                .audit_file
                .map(|file| match &**file.get_ref() == Path::new("-") {
                    true => Located {
                        place: place(file.span().start),
                        path: file.into_inner(),
                    },
                    false => located(file),
                }),
            audit: match raw.audit {
                RawAudit::Required => AuditMode::Required,
                RawAudit::BestEffort => AuditMode::BestEffort,
            },
            pins: pins.collect::<anyhow::Result<_>>()?,
            require_pins: raw.require_pins,
            require_components: raw.require_components,
            compile_time: raw.compile_time.map(|time| time.0),
            load: Load {
                calls: raw
                    .calls
                    .map_or(load.calls, |count| count.at_most(limits::MAX_CALLS)),
                queue: raw
                    .queue
                    .map_or(load.queue, |count| count.at_most(u32::MAX)),
                calls_per_tool: raw
                    .calls_per_tool
                    .map(|count| count.at_most(limits::MAX_CALLS)),
                calls_memory: raw.calls_memory.map(|bytes| bytes.0),
                stack: raw.stack.map_or(load.stack, |stack| stack.0),
            },
            grants: grants.collect::<anyhow::Result<_>>()?,
            http: raw.http.located(located),
            limits,
        })
    }
}

/// Reads a regular file of a sensible size: the one in the current folder was
/// perhaps put there by someone else.
fn read(path: &Path) -> anyhow::Result<String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
        .open(path)?;
    anyhow::ensure!(file.metadata()?.is_file(), "it is not a regular file");
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    anyhow::ensure!(
        text.len() as u64 <= MAX_BYTES,
        "it is larger than {MAX_BYTES} bytes"
    );
    Ok(text)
}

/// Whether a path leads to something beneath a folder. What is not there leads
/// nowhere, and is another's error.
fn lies_within(path: &Path, folder: &Path) -> bool {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => true,
    }
}

/// Whether a component file can have this name.
fn is_component(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "wasm") && !name.contains('/')
}

/// Refuses a grant that is neither a component file's nor a built-in tool's:
/// whatever component defined a tool of that name would have it.
fn check_granted(name: &str) -> anyhow::Result<()> {
    if is_component(name) {
        return Ok(());
    }
    if embedded::names().any(|tool| tool == name) {
        return Ok(());
    }
    let shown = name.escape_debug();
    if let Some(nearest) = suggest::nearest(name, embedded::names()).first() {
        bail!(
            "`[grants.{shown}]` names no built-in tool; did you mean `{nearest}`? A grant to any \
             other tool names its component file"
        );
    }
    bail!(
        "`[grants.{shown}]` names no built-in tool; a grant to any other names the component file \
         that defines it, such as `[grants.\"{shown}.wasm\"]`, and covers all of its tools"
    )
}

impl RawLimits {
    /// These limits where they are given, else those.
    fn over(&self, limits: &Limits) -> Limits {
        Limits {
            time: self.time.as_ref().map_or(limits.time, |time| time.0),
            memory: or(&self.memory, limits.memory),
            output: or(&self.output, limits.output),
            table_elements: or(&self.table_elements, limits.table_elements),
            instances: or(&self.instances, limits.instances),
            tables: or(&self.tables, limits.tables),
            hostcall_fuel: or(&self.hostcall_fuel, limits.hostcall_fuel),
            handles: or(&self.handles, limits.handles),
            directory_entries: or(&self.directory_entries, limits.directory_entries),
            log: or(&self.log, limits.log),
        }
    }
}

/// This limit where it is given, else that.
fn or<const PLACE: usize>(given: &Option<Limit<PLACE>>, other: usize) -> usize {
    given.as_ref().map_or(other, |given| given.0)
}

impl RawGrant {
    fn over(self, limits: &Limits) -> Result<Grant, PatternError> {
        let mut grant = Grant::new().limits(self.limits.over(limits));
        if let Some(skills) = self.skills {
            grant = grant.skills(skills)?;
        }
        if let Some(allowed) = self.home {
            grant = grant.home(allowed);
        }
        if let Some(allowed) = self.hard_links {
            grant = grant.hard_links(allowed);
        }
        for (name, value) in self.environment {
            grant = grant.environment(name, value);
        }
        Ok(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::http::HttpLimits;
    use crate::skill::guard::HardLinks;
    use crate::tool::grant::Defaults;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "skillhost.toml", Path::new("/etc")).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn a_whole_file_is_read_and_paths_count_from_its_folder() {
        let config = parse(
            "skills = [\"skills\", \"/srv/skills\"]\ntools = [\"t\"]\nhome = \"h\"\n\
             disabled_tools = [\"get_skill\"]\n[limits]\ntime = \"500ms\"\nmemory = \"32MiB\"\n\
             output = 1000\n[grants.\"x.wasm\"]\nskills = [\"a*\"]\nhard_links = true\n\
             limits.time = \"1s\"\nenvironment = { A = \"b\" }\n",
        )
        .unwrap();
        assert_eq!(config.skills[1].root.path, Path::new("/srv/skills"));
        assert_eq!(config.tools[0].path, Path::new("/etc/t"));
        assert_eq!(config.home.unwrap().place, "`skillhost.toml`, line 3");
        assert_eq!(config.limits.time, Duration::from_millis(500));
        assert_eq!(config.limits.memory, 32 << 20);
        assert_eq!(config.limits.output, 1000);
        let defaults = Defaults {
            limits: config.limits.clone(),
            hard_links: false,
        };
        let terms = config.grants["x.wasm"].terms(false, &defaults);
        assert!(terms.skills.allow("abc") && !terms.skills.allow("b"));
        assert_eq!(terms.hard_links, HardLinks::Allowed);
        assert_eq!(terms.limits.time, Duration::from_secs(1));
        assert_eq!(terms.limits.memory, 32 << 20);
        assert_eq!(terms.environment[..], [("A".to_owned(), "b".to_owned())]);
        assert_eq!(parse("").unwrap().limits, Limits::default());
    }

    #[test]
    fn a_server_over_http_is_set_up_in_a_table() {
        let http = |text: &str| parse(text).unwrap().http;
        let given = http(
            "[http]\ntoken_file = \"t\"\nallowed_hosts = [\"h\"]\nallowed_origins = [\"o\"]\n\
             body = \"1MiB\"\nconnections = 1\nrequests = 2\nstreams = 3\nheader_time = \"4s\"\n\
             body_time = \"5s\"\nrequest_time = \"6s\"\nwrite_time = \"7s\"\nshutdown_time = \"8s\"\n",
        );
        let token = given.token_file.unwrap();
        assert_eq!(token.path, Path::new("/etc/t"));
        assert_eq!(token.place, "`skillhost.toml`, line 2");
        assert_eq!(
            (&*given.allowed_hosts, &*given.allowed_origins),
            (&["h".into()][..], &["o".into()][..])
        );
        let limits = given.limits;
        let counts = (
            limits.body,
            limits.connections,
            limits.requests,
            limits.streams,
        );
        assert_eq!(counts, (1 << 20, 1, 2, 3));
        let times = [
            limits.header_time,
            limits.body_time,
            limits.request_time,
            limits.write_time,
        ];
        assert_eq!(times, [4, 5, 6, 7].map(Duration::from_secs));
        assert_eq!(limits.shutdown_time, Duration::from_secs(8));
        assert_eq!(http("[http]").limits, HttpLimits::default());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, message) in [
            (
                "\nskils = []",
                "`skillhost.toml`, line 2: unknown key `skils`; did you mean `skills`?",
            ),
            (
                "[limits]\ntme = 1",
                "`skillhost.toml`, line 2: unknown key `limits.tme`; did you mean `time`?",
            ),
            (
                "[http]\ntoken = \"secret\"",
                "`skillhost.toml`, line 2: unknown key `http.token`; did you mean `token_file`?",
            ),
            (
                "xyz = 1",
                "`skillhost.toml`, line 1: unknown key `xyz`; the keys here are skills, tools, home, disabled_tools, hard_links, audit_file, audit, pins, require_pins, require_components, compile_time, calls, queue, calls_per_tool, calls_memory, stack, limits, grants, http",
            ),
            (
                "\nlimits = [\"1s\", \"1MiB\"]",
                "`skillhost.toml`, line 2: `limits` is a table, not a list",
            ),
            (
                "[grants]\nx = [[\"*\"], true]",
                "`skillhost.toml`, line 2: `grants.x` is a table, not a list",
            ),
            (
                "[grants.x]\nlimits = [\"1s\"]",
                "`skillhost.toml`, line 2: `grants.x.limits` is a table, not a list",
            ),
            (
                "[[grants.x]]\nskills = [\"*\"]",
                "`skillhost.toml`, line 1: `grants.x` is a table, not a list",
            ),
            (
                "skills = [\n[\"x\", true]]",
                "`skillhost.toml`, line 2: `skills` has folders in it, not a list",
            ),
            (
                "[grants]\nx = 1979-05-27",
                "`skillhost.toml`, line 2: `grants.x` is a table, not a date",
            ),
            (
                "limits = 1979-05-27",
                "`skillhost.toml`, line 1: `limits` is a table, not a date",
            ),
            (
                "[grants.x]\nenvironment = 1979-05-27",
                "`skillhost.toml`, line 2: `grants.x.environment` is a table, not a date",
            ),
            (
                "pins = 07:32:00",
                "`skillhost.toml`, line 1: `pins` is a table, not a date",
            ),
            (
                "[limits]\ntime = \"ten\"",
                "`skillhost.toml`, line 2: expected a time such as \"10s\" or \"500ms\", not \"ten\"",
            ),
            (
                "[limits]\ntime = 0",
                "`skillhost.toml`, line 2: a time limit is between 1 ms and 24 hours",
            ),
            (
                "[limits]\nmemory = -1",
                "`skillhost.toml`, line 2: expected a size such as \"64MiB\" or \"512KiB\"",
            ),
            (
                "[limits]\noutput = \"99999999999GiB\"",
                "`skillhost.toml`, line 2: expected a size such as \"64MiB\" or \"512KiB\", not \"99999999999GiB\"",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), message, "{text}");
        }
        for text in [
            "skills = \"x\"",
            "skills = [1]",
            "skills = [",
            "a = 1\na = 2",
        ] {
            assert!(
                parse(text)
                    .unwrap_err()
                    .starts_with("`skillhost.toml`, line "),
                "{text}"
            );
        }
    }
}
