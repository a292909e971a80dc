//! Parsing a configuration's text into settings. `keys` checks the keys, `limits` parses
//! the limits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use toml::Spanned;
use toml::de::DeTable;

use super::audit::{CheckpointLimits, RawAuditTable};
use super::grants::{RawGrant, RawSecret};
use super::keys::AUDIT;
use super::prompt::RawSearch;
use super::raw::{
    RawConfig, RawHidden, RawNetwork, RawOffer, RawRoot, RawRootTable, RawToolSet, RawWording,
};
use super::source::{Reach, beyond_reach, real_path, table_in};
use super::{
    AnswerLimits, Config, ConfiguredPath, ConfiguredRoot, FileSettings, Keys, PromptLimits, Tables,
    grants, limits,
};
use skillhost_sandbox::tool::consent::ConsentLimits;
use skillhost_sandbox::tool::limits::{CompileLimits, Limits, Load};
use skillhost_sandbox::tool::offer::{ToolSet, Wording};
use skillhost_skills::catalog::{HiddenFolders, MAX_DEPTH, SkillsRoot};
use skillhost_skills::omitted::OmittedNames;

impl FileSettings for Config {
    fn declare_keys(keys: &mut Keys) {
        keys.fields::<RawConfig>("");
        keys.limits::<Load>();
        keys.limits::<CompileLimits>();
        keys.fields::<RawAuditTable>(AUDIT);
        keys.limits::<CheckpointLimits>();
        keys.limits::<PromptLimits>();
        keys.limits::<AnswerLimits>();
        keys.fields::<RawSearch>("search");
        keys.fields::<RawGrant>("grants.*");
        keys.names("grants.*.environment");
        keys.fields::<RawSecret>("grants.*.secrets.*");
        keys.fields::<RawNetwork>("network");
        keys.limits::<ConsentLimits>();
        keys.limits::<Limits>();
        keys.limits_in::<Limits>("grants.*.limits");
        keys.names("pins");
        keys.names("descriptions");
    }

    fn from_tables(tables: &Tables<'_>) -> anyhow::Result<Self> {
        tables.config()
    }
}

impl Tables<'_> {
    fn config(&self) -> anyhow::Result<Config> {
        let limits: Limits = self.limits()?;
        let raw: RawConfig =
            toml::from_str(self.source.text).map_err(|error| self.source.error(&error))?;
        let grant_tables = table_in(&self.root, "grants");
        let grants = raw.grants.into_iter().map(|(component, grant)| {
            let place = self.place(grant.span().start);
            grants::check_name(&component).with_context(|| place.clone())?;
            let limits = match grant_tables.and_then(|tables| table_in(tables, &component)) {
                Some(grant) => self.limits_over(grant, limits.clone())?,
                None => limits.clone(),
            };
            let grant = grant.into_inner().grant(limits, &place, self)?;
            anyhow::Ok((component, grant))
        });
        let pins = raw.pins.into_iter().map(|(file, pin)| {
            let place = self.place(pin.span().start);
            let pin = pin.into_inner();
            grants::check_pin(&file, &pin).context(place)?;
            anyhow::Ok((file, pin))
        });
        let tools = raw.tools.into_iter().map(|path| self.path(path));
        let audit_file = raw.audit_file.map(|file| self.audit_file(file));
        let audit_place = raw
            .audit
            .as_ref()
            .map(|audit| self.place(audit.span().start));
        let audit = raw.audit.map(Spanned::into_inner).unwrap_or_default();
        Ok(Config {
            file: Some(self.source.name.to_owned()),
            skills: raw
                .skills
                .into_iter()
                .map(|root| self.root(root))
                .collect::<anyhow::Result<_>>()?,
            tools: tools.collect::<anyhow::Result<_>>()?,
            named_components: BTreeMap::new(),
            withheld_skills: BTreeSet::new(),
            home: self.optional_path(raw.home)?,
            disabled_tools: raw.disabled_tools.into_iter().collect(),
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
            omitted_names: match raw.omitted_names {
                Some(names) => self.omitted_names(names)?,
                None => OmittedNames::default(),
            },
            audit_file: audit_file.transpose()?,
            audit: audit.mode(),
            audit_place,
            checkpoints: audit.checkpoints(self)?,
            pins: pins.collect::<anyhow::Result<_>>()?,
            require_pins: raw.require_pins,
            denied_components: BTreeMap::new(),
            require_components: raw.require_components,
            compile_limits: self.limits()?,
            load: self.limits()?,
            grants: grants.collect::<anyhow::Result<_>>()?,
            prompt: self.limits()?,
            answers: self.limits()?,
            search_offer: raw.search.offer(),
            ca_file: self.optional_path(raw.network.ca_file)?,
            consent_file: self.optional_path(raw.network.consent_file)?,
            consent: self.limits()?,
            limits,
        })
    }

    /// Returns `base`, changed by the values of the table `limits` in a grant's table.
    fn limits_over(&self, grant: &DeTable<'_>, base: Limits) -> anyhow::Result<Limits> {
        match table_in(grant, "limits") {
            Some(table) => limits::read(table, base, &self.source),
            None => Ok(base),
        }
    }

    /// Returns the path of the audit log. `-` is standard error, not a path.
    fn audit_file(&self, file: Spanned<PathBuf>) -> anyhow::Result<ConfiguredPath> {
        let is_stderr = file.get_ref().as_path() == Path::new("-");
        let mut path = self.path(file)?;
        if is_stderr {
            path.path = PathBuf::from("-");
        }
        Ok(path)
    }

    fn omitted_names(&self, names: Spanned<Vec<String>>) -> anyhow::Result<OmittedNames> {
        let place = self.place(names.span().start);
        OmittedNames::new(names.into_inner()).map_err(|name| {
            let name = name.escape_debug();
            anyhow!("{place}: `omitted_names` has `{name}`, which no file or folder can be named")
        })
    }

    fn root(&self, root: Spanned<RawRoot>) -> anyhow::Result<ConfiguredRoot> {
        let place = self.place(root.span().start);
        let RawRootTable {
            path,
            follow_root_links: follow_links,
            depth,
            hidden,
        } = match root.into_inner() {
            RawRoot::Path(path) => RawRootTable::new(path),
            RawRoot::Table(table) => table,
        };
        if !(1..=MAX_DEPTH).contains(&depth) {
            bail!("{place}: `depth` is {depth}, but must be from 1 to {MAX_DEPTH}");
        }
        if follow_links && self.source.reach == Reach::OwnFolder {
            bail!("{place}: {}", beyond_reach("`follow_root_links`"));
        }
        let hidden = match hidden {
            RawHidden::All(false) => HiddenFolders::Skipped,
            RawHidden::All(true) => HiddenFolders::Searched,
            RawHidden::Named(names) => HiddenFolders::named(names).map_err(|name| {
                let name = name.escape_debug();
                anyhow!(
                    "{place}: `hidden` has `{name}`, but needs names of hidden folders such as \
                     `.curated`; folders such as `.git` are never searched"
                )
            })?,
        };
        if hidden != HiddenFolders::Skipped && depth == 1 {
            bail!("{place}: `hidden` needs a `depth` of 2 or more");
        }
        let ConfiguredPath { path, place } = self.path_at(path, place)?;
        // Opening the folder checks again that it is within the configuration's folder.
        let within = match self.source.reach {
            Reach::OwnFolder => Some(real_path(self.source.folder)?),
            Reach::Anywhere => None,
        };
        let root = SkillsRoot {
            path,
            follow_links,
            depth,
            hidden,
            within,
        };
        Ok(ConfiguredRoot { root, place })
    }
}
