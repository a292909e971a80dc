//! The tables of `skillhost.toml` about packages, and edits that keep comments and order.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use skillhost::config::{ConfiguredPath, FileSettings, Keys, Tables};
use skillhost_skills::trust::Trust;
use skillhost_skills::{atomic_file, named_file};
use toml::Spanned;
use toml_edit::{DocumentMut, Item, Table, value};

use crate::denied::{DenyList, check_reason};
use crate::digest::Digest;
use crate::identity::{IdentityRule, SignerIdentity, SigningRoot, fits};
use crate::manifest::PackageKind;
use crate::quote::quote;
use crate::reference::Reference;
use crate::signature::{PublicKey, TrustedSigner};
use crate::source::SkillSource;

/// The table of the sources of components.
const COMPONENTS: &str = "components";

/// The table of the sources of skills.
const SKILLS: &str = "skills_from";

/// The table of rules about signers.
const TRUST: &str = "trust";

/// The table about agents that ask for packages.
const PACKAGES: &str = "packages";

/// The key that refuses packages without a rule about their signers.
const REQUIRE_SIGNATURES: &str = "require_signatures";

/// The table of denied digests.
const DENY: &str = "deny";

/// The maximum length of a name, in bytes.
const MAX_NAME: usize = 64;

/// The maximum size of a configuration that is edited, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The settings of packages.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PackageSettings {
    /// The sources of components, by name.
    pub sources: BTreeMap<String, ConfiguredSource>,
    /// The sources of skills, by name.
    pub skills: BTreeMap<String, ConfiguredSource<SkillSource>>,
    /// The rules about signers.
    rules: Vec<TrustRule>,
    /// True if packages without a rule about their signers are refused.
    pub require_signatures: bool,
    /// The catalog: the file of packages that agents may find and ask for.
    pub catalog: Option<ConfiguredPath>,
    /// The digests that never load.
    pub denied: DenyList,
}

/// A source of a component or a skill, with its place in the configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConfiguredSource<S = Reference> {
    /// The package.
    pub reference: S,
    /// The place in the configuration, for messages.
    pub place: String,
}

/// A rule about the signers of packages.
#[derive(Debug, Clone)]
struct TrustRule {
    /// A repository, or a path that ends in `/*` for all repositories below it.
    pattern: String,
    signers: RuleSigners,
    /// The signers, read once, because a hundred packages can have the same rule.
    loaded: OnceLock<Arc<[TrustedSigner]>>,
}

/// The signers of a rule. One of the keys or the identity must have signed a package.
#[derive(Debug, Clone)]
enum RuleSigners {
    Keys(Vec<ConfiguredPath>),
    Identity(IdentityRule, Option<ConfiguredPath>),
}

#[derive(Deserialize)]
#[serde(expecting = "a table with `source`")]
struct RawSource {
    source: Spanned<String>,
}

/// The table `[packages]`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPackages {
    catalog: Option<Spanned<PathBuf>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a table with `keys`, or with `identity` and `issuer`")]
struct RawRule {
    keys: Option<Spanned<Vec<Spanned<PathBuf>>>>,
    identity: Option<Spanned<String>>,
    issuer: Option<String>,
    repository: Option<String>,
    r#ref: Option<String>,
    root: Option<Spanned<PathBuf>>,
}

impl FileSettings for PackageSettings {
    fn declare_keys(keys: &mut Keys) {
        keys.fields::<RawSource>("components.*");
        keys.fields::<RawSource>("skills_from.*");
        keys.fields::<RawRule>("trust.*");
        keys.fields::<RawPackages>(PACKAGES);
        keys.names(DENY);
    }

    fn from_tables(tables: &Tables<'_>) -> anyhow::Result<Self> {
        let raw: BTreeMap<String, RawRule> = tables.table(TRUST)?;
        let rules = raw.into_iter().map(|(pattern, raw)| {
            let keys_at = raw.keys.as_ref().map(|keys| keys.span().start);
            let at = keys_at.or_else(|| Some(raw.identity.as_ref()?.span().start));
            let place = at.map_or_else(|| format!("[{TRUST}.{pattern:?}]"), |at| tables.place(at));
            let rule = || {
                check_pattern(&pattern)?;
                let signers = raw.signers(tables)?;
                anyhow::Ok(TrustRule {
                    pattern,
                    signers,
                    loaded: OnceLock::new(),
                })
            };
            rule().with_context(|| place)
        });
        let RawPackages { catalog } = tables.table(PACKAGES)?;
        Ok(Self {
            sources: read_sources(tables, COMPONENTS)?,
            skills: read_sources(tables, SKILLS)?,
            rules: rules.collect::<anyhow::Result<_>>()?,
            require_signatures: tables.table(REQUIRE_SIGNATURES)?,
            catalog: tables.optional_path(catalog)?,
            denied: read_denied(tables)?,
        })
    }
}

/// Reads a table of sources.
fn read_sources<S: FromStr<Err = anyhow::Error>>(
    tables: &Tables<'_>,
    table: &'static str,
) -> anyhow::Result<BTreeMap<String, ConfiguredSource<S>>> {
    let raw: BTreeMap<String, RawSource> = tables.table(table)?;
    let sources = raw.into_iter().map(|(name, raw)| {
        let place = tables.place(raw.source.span().start);
        let source = || {
            check_name(&name)?;
            raw.source.get_ref().parse()
        };
        let reference = source().with_context(|| place.clone())?;
        Ok((name, ConfiguredSource { reference, place }))
    });
    sources.collect()
}

/// Reads the table of denied digests.
fn read_denied(tables: &Tables<'_>) -> anyhow::Result<DenyList> {
    let raw: BTreeMap<String, Spanned<String>> = tables.table(DENY)?;
    let mut denied = DenyList::default();
    for (digest, why) in raw {
        let place = tables.place(why.span().start);
        let digest = digest.parse().with_context(|| place.clone())?;
        denied.insert(digest, why.into_inner()).context(place)?;
    }
    Ok(denied)
}

/// Reads the table of denied digests. Skips invalid digests, and drops invalid reasons.
pub fn read_valid_denials(tables: &Tables<'_>) -> DenyList {
    let raw: BTreeMap<String, toml::Value> = tables.table(DENY).unwrap_or_default();
    let mut denied = DenyList::default();
    for (digest, why) in raw {
        let Ok(digest) = digest.parse::<Digest>() else {
            continue;
        };
        let why = why.as_str().filter(|why| check_reason(why).is_ok());
        // Cannot fail, because the reason was checked.
        let _ = denied.insert(digest, why.unwrap_or_default().to_owned());
    }
    denied
}

impl PackageSettings {
    /// Returns the names of the sources of a kind.
    pub fn names_of(&self, kind: PackageKind) -> Vec<&str> {
        match kind {
            PackageKind::Component => self.sources.keys().map(String::as_str).collect(),
            PackageKind::Skill => self.skills.keys().map(String::as_str).collect(),
        }
    }

    /// Returns a source of a kind, and its place in the configuration.
    pub fn source_of(&self, kind: PackageKind, name: &str) -> Option<(String, &str)> {
        match kind {
            PackageKind::Component => self.sources.get(name).map(ConfiguredSource::shown),
            PackageKind::Skill => self.skills.get(name).map(ConfiguredSource::shown),
        }
    }

    /// Returns the files of all keys and trusted roots.
    pub fn key_files(&self) -> impl Iterator<Item = &Path> {
        let files = self.rules.iter().flat_map(|rule| match &rule.signers {
            RuleSigners::Keys(keys) => keys.as_slice(),
            RuleSigners::Identity(_, root) => root.as_slice(),
        });
        files.map(|file| file.path.as_path())
    }

    /// Returns the signers for a package: one of them must have signed it.
    ///
    /// Returns `None` if the package may be unsigned. Of the rules that fit it, uses the one
    /// with the longest pattern.
    ///
    /// # Errors
    ///
    /// If a key or root cannot be read, or no rule fits and signatures are required.
    pub fn signers(
        &self,
        reference: &Reference,
        trust: &Trust,
    ) -> anyhow::Result<Option<Arc<[TrustedSigner]>>> {
        let repository = reference.place();
        let fitting = self.rules.iter().filter(|rule| rule.fits(&repository));
        let Some(rule) = fitting.max_by_key(|rule| rule.pattern.len()) else {
            ensure!(
                !self.require_signatures,
                "`{repository}` has no rule in `[trust]`, and `require_signatures` is set; add \
                 `[trust.\"{repository}\"]` with the `keys` or the `identity` of its signers"
            );
            return Ok(None);
        };
        if let Some(signers) = rule.loaded.get() {
            return Ok(Some(Arc::clone(signers)));
        }
        let signers = rule.signers.read(trust)?;
        Ok(Some(Arc::clone(rule.loaded.get_or_init(|| signers))))
    }
}

impl RuleSigners {
    fn read(&self, trust: &Trust) -> anyhow::Result<Arc<[TrustedSigner]>> {
        match self {
            Self::Keys(keys) => keys
                .iter()
                .map(|key| {
                    let read = PublicKey::read(&key.path, trust);
                    Ok(read.with_context(|| key.place.clone())?.into())
                })
                .collect(),
            Self::Identity(rule, root) => {
                let file = root.as_ref().map(|root| root.path.as_path());
                let read = SigningRoot::read(file, trust);
                let place = || {
                    root.as_ref()
                        .map_or_else(String::new, |it| it.place.clone())
                };
                let signer = TrustedSigner::identity(rule.clone(), read.with_context(place)?);
                Ok(Arc::new([signer]))
            }
        }
    }
}

impl RawRule {
    fn signers(self, tables: &Tables<'_>) -> anyhow::Result<RuleSigners> {
        match (self.keys, self.identity, self.issuer) {
            (Some(keys), None, None) => {
                ensure!(
                    self.repository.is_none() && self.r#ref.is_none() && self.root.is_none(),
                    "`repository`, `ref` and `root` belong to an `identity`, not to `keys`"
                );
                let keys = keys.into_inner();
                ensure!(
                    !keys.is_empty(),
                    "`keys` is empty, so no package would be accepted"
                );
                let keys = keys.into_iter().map(|key| tables.path_anywhere(key));
                Ok(RuleSigners::Keys(keys.collect()))
            }
            (None, Some(identity), Some(issuer)) => {
                let rule = IdentityRule::new(SignerIdentity {
                    identity: identity.into_inner(),
                    issuer,
                    repository: self.repository,
                    git_ref: self.r#ref,
                })?;
                let root = self.root.map(|root| tables.path_anywhere(root));
                Ok(RuleSigners::Identity(rule, root))
            }
            _ => bail!("a rule needs either `keys`, or `identity` and `issuer`"),
        }
    }
}

impl PackageSettings {
    /// Returns the signers for a skill, like [`Self::signers`].
    ///
    /// # Errors
    ///
    /// As for [`Self::signers`], and if signatures are required and the source has none.
    pub fn skill_signers(
        &self,
        source: &SkillSource,
        trust: &Trust,
    ) -> anyhow::Result<Option<Arc<[TrustedSigner]>>> {
        if let SkillSource::Registry(reference) = source {
            return self.signers(reference, trust);
        }
        ensure!(
            !self.require_signatures,
            "`{source}` has no signature, and `require_signatures` is set; only packages of \
             registries have one"
        );
        Ok(None)
    }
}

impl<S: Display> ConfiguredSource<S> {
    fn shown(&self) -> (String, &str) {
        (self.reference.to_string(), &self.place)
    }
}

impl TrustRule {
    fn fits(&self, repository: &str) -> bool {
        fits(&self.pattern, repository)
    }
}

/// Checks the pattern of a rule: a repository, or all repositories below a registry or a path.
fn check_pattern(pattern: &str) -> anyhow::Result<()> {
    let wrong = || {
        let pattern = quote(pattern);
        format!(
            "`{pattern}` is not a pattern such as `oci://registry.example/acme/*` or \
             `oci://registry.example/acme/csv`"
        )
    };
    let repository = match pattern.strip_suffix("/*") {
        // With a name in place of `*`, the pattern is a reference.
        Some(parent) => format!("{parent}/x"),
        None => pattern.to_owned(),
    };
    let reference: Reference = repository.parse().with_context(wrong)?;
    ensure!(
        reference.place() == repository,
        "{}: leave out the tag",
        wrong()
    );
    Ok(())
}

/// Checks the name of a component or a skill. It becomes the file name `NAME.wasm` in grants, or the
/// name of a folder.
pub fn check_name(name: &str) -> anyhow::Result<()> {
    let is_alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = name.as_bytes();
    ensure!(
        bytes.len() <= MAX_NAME
            && bytes.first().is_some_and(|c| is_alphanumeric(*c))
            && bytes
                .iter()
                .all(|c| is_alphanumeric(*c) || b"-_".contains(c)),
        "the name `{}` must have up to {MAX_NAME} lower-case letters, digits, `-` and `_`, and \
         start with a letter or a digit",
        quote(name)
    );
    Ok(())
}

/// Returns the table of the sources of a kind.
fn table_of(kind: PackageKind) -> &'static str {
    match kind {
        PackageKind::Component => COMPONENTS,
        PackageKind::Skill => SKILLS,
    }
}

/// Adds the source of a package to a configuration, or replaces it. Creates the file if it is
/// missing.
pub fn add_source(
    file: &Path,
    kind: PackageKind,
    name: &str,
    reference: &impl Display,
) -> anyhow::Result<()> {
    edit(file, |document| {
        let key = table_of(kind);
        let tables = document.entry(key).or_insert_with(|| {
            let mut table = Table::new();
            // An implicit table has no header. Only the tables in it are written.
            table.set_implicit(true);
            Item::Table(table)
        });
        let tables = tables
            .as_table_like_mut()
            .with_context(|| format!("`{key}` is not a table"))?;
        let source = value(reference.to_string());
        match tables.get_mut(name).and_then(Item::as_table_like_mut) {
            Some(table) => drop(table.insert("source", source)),
            None => {
                let mut table = Table::new();
                table.insert("source", source);
                tables.insert(name, Item::Table(table));
            }
        }
        Ok(())
    })
}

/// Removes the source of a package from a configuration.
pub fn remove_source(file: &Path, kind: PackageKind, name: &str) -> anyhow::Result<()> {
    edit(file, |document| {
        let tables = document
            .get_mut(table_of(kind))
            .and_then(Item::as_table_like_mut);
        let removed = tables.and_then(|tables| tables.remove(name));
        removed.with_context(|| format!("it has no {kind} `{name}`"))?;
        Ok(())
    })
}

/// Adds a digest to the table of denied digests, or replaces its reason. Creates the file if it is
/// missing.
///
/// # Errors
///
/// If the reason is too long, or the file cannot be edited.
pub fn deny(file: &Path, digest: &Digest, why: &str) -> anyhow::Result<()> {
    check_reason(why)?;
    edit(file, |document| {
        let table = document.entry(DENY).or_insert_with(toml_edit::table);
        let table = table.as_table_like_mut().context("`deny` is not a table")?;
        table.insert(&digest.to_string(), value(why));
        Ok(())
    })
}

fn edit(
    file: &Path,
    change: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot edit `{}`", file.display());
    let text = match fs::symlink_metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => bail!("{}: {error}", cannot()),
        Ok(_) => named_file::read_text(file, MAX_BYTES).with_context(cannot)?,
    };
    let mut document: DocumentMut = text.parse().with_context(cannot)?;
    change(&mut document).with_context(cannot)?;
    // Replaces the target of a symlink, not the symlink.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    atomic_file::replace(&target, document.to_string().as_bytes(), 0o644).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_fitting_rule_wins() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"
            [trust."oci://registry.example/*"]
            keys = ["all.pub"]
            [trust."oci://registry.example/acme/*"]
            keys = ["acme.pub"]
            [trust."oci://registry.example/acme/csv"]
            keys = ["csv.pub"]
        "#;
        let settings: PackageSettings =
            skillhost::config::parse(text, "skillhost.toml", folder.path()).unwrap();
        for (reference, key) in [
            ("oci://registry.example/acme/csv:1", Some("csv.pub")),
            ("oci://registry.example/acme/other:1", Some("acme.pub")),
            ("oci://registry.example/acme-evil/csv:1", Some("all.pub")),
            ("oci://registry.example:5000/acme/csv:1", None),
            ("oci://other.example/acme/csv:1", None),
        ] {
            // The keys do not exist, so the error names the one that was chosen.
            let keys = settings.signers(&reference.parse().unwrap(), &Trust::new());
            match (keys, key) {
                (Ok(None), None) => {}
                (Err(error), Some(key)) => {
                    assert!(format!("{error:#}").contains(key), "{reference}: {error:#}");
                }
                (keys, _) => panic!("{reference}: {keys:?}"),
            }
        }
        let settings = PackageSettings {
            require_signatures: true,
            ..settings
        };
        let other = "oci://other.example/csv".parse().unwrap();
        let error = settings
            .signers(&other, &Trust::new())
            .unwrap_err()
            .to_string();
        assert!(error.contains("has no rule in `[trust]`"), "{error}");
    }

    #[test]
    fn refuses_wrong_tables() {
        for (text, why) in [
            (
                "[components.csv]\nsource = \"csv\"",
                "line 2: `csv` is not a reference",
            ),
            (
                "[components.\"../x\"]\nsource = \"oci://r.example/x\"",
                "the name `../x`",
            ),
            (
                "[components.csv]\nsource = \"oci://r.example/x\"\nsorce = 1",
                "unknown key",
            ),
            (
                "[skills_from.csv]\nsource = \"csv\"",
                "line 2: `csv` is not a reference",
            ),
            (
                "[skills_from.\"../x\"]\nsource = \"oci://r.example/x\"",
                "the name `../x`",
            ),
            (
                "[trust.\"oci://r.example/acme*\"]\nkeys = [\"k\"]",
                "is not a pattern",
            ),
            ("[trust.\"*\"]\nkeys = [\"k\"]", "is not a pattern"),
            (
                "[trust.\"oci://r.example/csv:1\"]\nkeys = [\"k\"]",
                "leave out the tag",
            ),
            (
                "[trust.\"oci://r.example/*\"]\nkeys = []",
                "`keys` is empty",
            ),
            (
                "[trust.\"oci://r.example/*\"]\nroot = \"r\"",
                "needs either",
            ),
            (
                "[trust.\"oci://r.example/*\"]\nkeys = [\"k\"]\nidentity = \"a@b.example\"",
                "needs either",
            ),
            (
                "[trust.\"oci://r.example/*\"]\nkeys = [\"k\"]\nref = \"refs/heads/main\"",
                "belong to an `identity`",
            ),
            (
                "[trust.\"oci://r.example/*\"]\nidentity = \"a@b.example\"",
                "line 2: a rule needs either",
            ),
            (
                "[trust.\"oci://r.example/*\"]\nidentity = \"https://f.example/w.yml@refs/tags/*\"\n\
                 issuer = \"https://i.example\"\nrepository = \"https://f.example/r\"",
                "name the `repository` and the `ref`",
            ),
            (
                "[trust.\"oci://r.example/*\"]\nidentity = \"https://f.example/*\"\n\
                 issuer = \"i\"\nrepository = \"r\"\nref = \"refs/tags/*\"",
                "allowed only at the end of a ref",
            ),
            (
                "[trust.\"oci://r.example/*\"]\nidentity = \"*@b.example\"\nissuer = \"i\"",
                "allowed only at the end of a ref",
            ),
            (
                "[trust.\"oci://r.example/*\"]\nidentity = \"a@b.example\"\nissuer = \"\"",
                "must not be empty",
            ),
            ("[deny]\n\"sha256:12\" = \"\"", "line 2: expected a digest"),
            ("[deny]\nx = 1", "expected a string"),
            (
                &format!("[deny]\n\"{}\" = \"{}\"", Digest::of(b""), "x".repeat(513)),
                "the reason has 513 bytes",
            ),
        ] {
            let parsed: anyhow::Result<PackageSettings> =
                skillhost::config::parse(text, "skillhost.toml", Path::new("."));
            let error = format!("{:#}", parsed.unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn edits_keep_comments_and_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skillhost.toml");
        let before = "# ours\nskills = [\"s\"] # here\n\n[limits]\ntime = \"5s\"\n";
        fs::write(&file, before).unwrap();
        let (one, two) = ("oci://r.example/csv:1", "oci://r.example/csv:2");
        let (component, skill) = (PackageKind::Component, PackageKind::Skill);
        add_source(&file, component, "csv", &one).unwrap();
        let expected = format!("{before}\n[components.csv]\nsource = \"{one}\"\n");
        assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        add_source(&file, component, "csv", &two).unwrap();
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            expected.replace(one, two)
        );
        add_source(&file, skill, "csv", &one).unwrap();
        let both = format!("\n[skills_from.csv]\nsource = \"{one}\"\n");
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            expected.replace(one, two) + &both
        );
        remove_source(&file, skill, "csv").unwrap();
        remove_source(&file, component, "csv").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
        for kind in [component, skill] {
            assert!(remove_source(&file, kind, "csv").is_err());
        }
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        deny(&file, &one, "").unwrap();
        let expected = format!("{before}\n[deny]\n\"{one}\" = \"\"\n");
        assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        let commented = format!("{expected} # a comment\n");
        fs::write(&file, &commented).unwrap();
        deny(&file, &one, "it \"steals\"").unwrap();
        deny(&file, &two, "").unwrap();
        assert!(deny(&file, &two, &"x".repeat(513)).is_err());
        let found = fs::read_to_string(&file).unwrap();
        assert!(
            found.starts_with(before) && found.contains("# a comment"),
            "{found}"
        );
        let settings: PackageSettings =
            skillhost::config::parse(&found, "skillhost.toml", folder.path()).unwrap();
        let error = settings.denied.check([&one]).unwrap_err().to_string();
        assert!(error.ends_with("it \"steals\""), "{error}");
        assert!(settings.denied.check([&two]).is_err());
        settings.denied.check([&Digest::of(b"3")]).unwrap();
    }
}
