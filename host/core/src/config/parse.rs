//! Parsing a configuration's text into settings. `keys` checks the keys, `limits` parses
//! the limits.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use toml::Spanned;
use toml::de::DeTable;

use super::raw::{RawConfig, RawOffer, RawRoot, RawToolSet, RawWording};
use super::source::{ConfigSource, Reach, beyond, lies_within, real_path, table_in};
use super::{
    Config, ConfiguredPath, ConfiguredRoot, PromptLimits, StdioLimits, audit, grants, keys, limits,
};
use skillhost_sandbox::tool::limits::{CompileLimits, LimitSet as _, Limits, Load};
use skillhost_sandbox::tool::offer::{ToolSet, Wording};
use skillhost_skills::catalog::{MAX_DEPTH, SkillsRoot};

/// Parses a configuration.
pub(super) fn parse(source: &ConfigSource<'_>) -> anyhow::Result<Config> {
    source.parse()
}

impl ConfigSource<'_> {
    fn parse(&self) -> anyhow::Result<Config> {
        let syntax = |error: toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            anyhow::anyhow!("{}: {}", self.place(at), error.message())
        };
        let table = DeTable::parse(self.text).map_err(syntax)?;
        let table = table.get_ref();
        keys::check(table, self)?;
        let limits = self.limits(table, Limits::default())?;
        let http_limits = limits::read_in(table, "http", Default::default(), self)?;
        let checkpoint_limits = limits::read_in(table, audit::KEY, Default::default(), self)?;
        let raw: RawConfig = toml::from_str(self.text).map_err(syntax)?;
        let grant_tables = table_in(table, "grants");
        let grants = raw.grants.into_iter().map(|(component, grant)| {
            let place = self.place(grant.span().start);
            grants::check_name(&component).with_context(|| place.clone())?;
            let limits = match grant_tables.and_then(|grants| table_in(grants, &component)) {
                Some(grant) => self.limits(grant, limits.clone())?,
                None => limits.clone(),
            };
            let grant = grant.into_inner().grant(limits).context(place)?;
            anyhow::Ok((component, grant))
        });
        let client_tables = table_in(table, "clients");
        let clients = raw.clients.into_iter().map(|(name, client)| {
            let place = self.place(client.span().start);
            let client = client
                .into_inner()
                .client(name, place, client_tables, self)?;
            client.check().map(|()| client)
        });
        let issuers = raw.issuers.into_iter().map(|(name, issuer)| {
            let place = self.place(issuer.span().start);
            ensure!(
                raw.http.has_resource(),
                "{place}: `[issuers]` needs `resource` in `[http]`, the address that tokens \
                 are issued for"
            );
            issuer.into_inner().issuer(name, place, self)
        });
        let issuers = issuers.collect::<anyhow::Result<_>>()?;
        let pins = raw.pins.into_iter().map(|(file, pin)| {
            let place = self.place(pin.span().start);
            let pin = pin.into_inner();
            grants::check_pin(&file, &pin).context(place)?;
            anyhow::Ok((file, pin))
        });
        let tools = raw.tools.into_iter().map(|path| self.path(path));
        let audit_place = raw
            .audit
            .as_ref()
            .map(|audit| self.place(audit.span().start));
        let audit = raw.audit.map(Spanned::into_inner).unwrap_or_default();
        Ok(Config {
            file: Some(self.name.to_owned()),
            skills: self.all(raw.skills, Self::root)?,
            tools: tools
                .map(|path| self.within_reach(path))
                .collect::<anyhow::Result<_>>()?,
            home: raw.home.map(|path| self.path(path)),
            disabled_tools: raw.disabled_tools,
            offer: match raw.offer {
                RawOffer::Set(RawToolSet::All) => ToolSet::All,
                RawOffer::Set(RawToolSet::Compact) => ToolSet::Compact,
                RawOffer::Named(names) => ToolSet::Named(names),
            },
            wording: match raw.wording {
                RawWording::Plain => Wording::Plain,
                RawWording::Contract => Wording::Contract,
            },
            descriptions: raw.descriptions,
            help: raw.help,
            hard_links: raw.hard_links,
            audit_file: raw.audit_file.map(|file| self.audit_file(file)),
            audit: audit.mode(),
            audit_place,
            checkpoints: audit.checkpoints(checkpoint_limits, self, |path| self.path(path))?,
            pins: pins.collect::<anyhow::Result<_>>()?,
            require_pins: raw.require_pins,
            require_components: raw.require_components,
            compile_limits: limits::read(table, CompileLimits::default(), self)?,
            load: limits::read(table, Load::default(), self)?,
            grants: grants.collect::<anyhow::Result<_>>()?,
            prompt: limits::read_in(table, PromptLimits::KEY, Default::default(), self)?,
            search_offer: raw.search.offer(),
            confinement: raw.process.confine,
            stdio: limits::read_in(table, StdioLimits::KEY, Default::default(), self)?,
            http: raw.http.http(http_limits, self, |path| self.path(path))?,
            clients: clients.collect::<anyhow::Result<_>>()?,
            issuers,
            limits,
        })
    }

    /// Returns `over` with the limits in a table's `limits`.
    fn limits(&self, table: &DeTable<'_>, over: Limits) -> anyhow::Result<Limits> {
        limits::read_in(table, "limits", over, self)
    }

    fn all<R, T>(
        &self,
        raw: Vec<R>,
        read: impl Fn(&Self, R) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        raw.into_iter().map(|raw| read(self, raw)).collect()
    }

    fn path(&self, path: Spanned<PathBuf>) -> ConfiguredPath {
        ConfiguredPath {
            place: self.place(path.span().start),
            path: self.folder.join(path.into_inner()),
        }
    }

    /// Returns the path of the audit log. `-` is standard error, not a path.
    fn audit_file(&self, file: Spanned<PathBuf>) -> ConfiguredPath {
        let is_stderr = file.get_ref().as_path() == Path::new("-");
        let mut path = self.path(file);
        if is_stderr {
            path.path = PathBuf::from("-");
        }
        path
    }

    fn root(&self, root: Spanned<RawRoot>) -> anyhow::Result<ConfiguredRoot> {
        let place = self.place(root.span().start);
        let (path, follow_links, depth) = match root.into_inner() {
            RawRoot::Path(path) => (path, false, 1),
            RawRoot::Table(table) => (table.path, table.follow_root_links, table.depth),
        };
        if !(1..=MAX_DEPTH).contains(&depth) {
            bail!("{place}: `depth` is {depth}, but must be from 1 to {MAX_DEPTH}");
        }
        if follow_links && self.reach == Reach::OwnFolder {
            bail!("{place}: {}", beyond("`follow_root_links`"));
        }
        let path = self.folder.join(path);
        let ConfiguredPath { path, place } = self.within_reach(ConfiguredPath { path, place })?;
        // The folder is checked again when it is opened.
        let within = match self.reach {
            Reach::OwnFolder => Some(real_path(self.folder)?),
            Reach::Anywhere => None,
        };
        let root = SkillsRoot {
            path,
            follow_links,
            depth,
            within,
        };
        Ok(ConfiguredRoot { root, place })
    }

    /// Refuses a path beyond the configuration's reach.
    fn within_reach(&self, configured: ConfiguredPath) -> anyhow::Result<ConfiguredPath> {
        let ConfiguredPath { path, place } = &configured;
        if self.reach == Reach::OwnFolder && !lies_within(path, self.folder) {
            bail!(
                "{place}: {}",
                beyond(&format!("the folder `{}`", path.display()))
            );
        }
        Ok(configured)
    }
}
