//! Skills from packages: adds them to a host, and describes them for `add` and `update`.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use skillhost::check::{Finding, Severity, check_folder};
use skillhost::config::ConfiguredRoot;
use skillhost::{Catalog, Line, SkillsRoot, Trust};
use skillhost_packages::{
    ConfiguredSource, LockFile, LockedSkill, PackageKind, SkillFiles, SkillMetadata, SkillSource,
    Store, StoreLock, fetch_skill, quote, read_skill, verify_locked,
};
use skillhost_program::options::open_catalog_with;
use skillhost_program::terminal::format_line;
use skillhost_skills::text::count::count;

use super::{
    CLEANED, KnownValues, Project, check_manifest, check_source, not_locked, package_changes,
    signer_line,
};
use crate::line_diff::{LineChange, has_hidden_changes, line_diff};
use crate::settings::{LoadedPackage, Settings};

/// The maximum number of listed items of a kind: files, scripts or findings.
const MAX_LISTED: usize = 50;

/// The maximum number of changed lines of SKILL.md that are shown.
const MAX_CHANGED: usize = 40;

/// The maximum size of a SKILL.md that is compared, in bytes. Guards against: millions of empty
/// lines.
const MAX_COMPARED: usize = 1 << 20;

/// The maximum number of characters of a text that are shown.
const MAX_CHARS: usize = 1024;

/// The maximum number of characters of a changed line that are shown.
const MAX_LINE_CHARS: usize = 160;

/// Adds the locked skills to a host, before its other skills, so a folder that appears later cannot
/// take the name of a locked skill.
///
/// Without `log`, fails if a skill cannot be served, or another skill has its name. With `log`,
/// reports these problems to `log` instead; the name belongs to the locked skill even if the locked
/// skill cannot be served.
pub(super) fn add_roots(
    settings: &mut Settings,
    lock: &LockFile,
    store: &Store,
    trust: &Trust,
    mut log: Option<&mut dyn FnMut(String)>,
) -> anyhow::Result<()> {
    if settings.packages.skills.is_empty() {
        return Ok(());
    }
    let others = open_catalog_with(&settings.host, trust.opener())?;
    let (mut roots, mut withheld) = (Vec::new(), BTreeSet::new());
    for (name, source) in &settings.packages.skills {
        let place = source.place.clone();
        let conflict = refuse_conflict(&others, name).with_context(|| place.clone());
        let checked = check(settings, name, source, lock, store, trust);
        let checked = checked.with_context(|| place.clone());
        match (&mut log, &conflict, &checked) {
            (None, ..) => conflict?,
            (Some(log), _, Err(error)) => {
                log(format!("the skill `{name}` is not served: {error:#}"));
                withheld.insert(name.clone());
                continue;
            }
            (Some(log), Err(error), _) => {
                log(format!("the locked skill `{name}` is served: {error:#}"));
            }
            _ => {}
        }
        let locked = checked?;
        let path = store.skill_root(locked);
        let root = SkillsRoot::new(path.clone());
        roots.push(ConfiguredRoot { root, place });
        let package = locked.package.clone();
        settings.loaded.push(LoadedPackage { package, path });
    }
    settings.host.skills.splice(0..0, roots);
    settings.host.withheld_skills = withheld;
    Ok(())
}

/// Refuses a name that a skill of a configured folder has.
pub(crate) fn refuse_conflict(others: &Catalog, name: &str) -> anyhow::Result<()> {
    let folder = others.folder_path(name).unwrap_or_default();
    ensure!(
        !others.has(name),
        "there is another skill `{name}` in `{}`; remove one of them, or add this one again with \
         `--name NAME`",
        folder.display()
    );
    Ok(())
}

/// Returns the locked skill of a source, checked without a network.
pub(crate) fn check<'l>(
    settings: &Settings,
    name: &str,
    source: &ConfiguredSource<SkillSource>,
    lock: &'l LockFile,
    store: &Store,
    trust: &Trust,
) -> anyhow::Result<&'l LockedSkill> {
    let locked = lock.skills.find(name);
    let locked = locked.with_context(|| not_locked(PackageKind::Skill, name))?;
    let source = &source.reference;
    check_source(locked, source)?;
    check_fixed(locked, source)?;
    check_bytes(settings, locked, source, store, trust)?;
    store.check_unpacked(locked)?;
    Ok(locked)
}

/// Checks that a skill is not denied, and is in the store with the manifest and the signature that
/// the configuration asks for.
fn check_bytes(
    settings: &Settings,
    locked: &LockedSkill,
    source: &SkillSource,
    store: &Store,
    trust: &Trust,
) -> anyhow::Result<()> {
    settings.packages.denied.check(locked.digests())?;
    let signers = settings.packages.skill_signers(source, trust)?;
    verify_locked(locked, signers.as_deref(), store)
}

impl Project<'_> {
    /// Gets a skill from its source, and unpacks it in the store.
    pub(crate) fn pull_skill(
        &self,
        name: &str,
        source: &SkillSource,
    ) -> anyhow::Result<(LockedSkill, SkillFiles)> {
        let signers = self.settings.packages.skill_signers(source, &self.trust)?;
        let (signers, denied) = (signers.as_deref(), &self.settings.packages.denied);
        let (registry, store) = (&self.registry, &self.store);
        let (locked, files) = fetch_skill(name, source, None, signers, denied, registry, store)?;
        check_fixed(&locked, source)?;
        Ok((locked, files))
    }

    /// Gets the blobs of a locked skill from a source if they are missing, and unpacks its files if
    /// the unpacked ones differ from the lock file. Returns the result in words.
    pub(crate) fn fetch_skill(
        &self,
        name: &str,
        source: &ConfiguredSource<SkillSource>,
    ) -> anyhow::Result<&'static str> {
        let locked = self.lock.skills.find(name);
        let locked = locked.with_context(|| not_locked(PackageKind::Skill, name))?;
        let source = &source.reference;
        check_source(locked, source)?;
        check_fixed(locked, source)?;
        let denied = &self.settings.packages.denied;
        denied.check(locked.digests())?;
        let signers = self.settings.packages.skill_signers(source, &self.trust)?;
        let signers = signers.as_deref();
        if verify_locked(locked, signers, &self.store).is_ok()
            && let Ok(files) = read_skill(locked, &self.store)
        {
            if self.store.check_unpacked(locked).is_ok() {
                return Ok("in the store");
            }
            self.store.unpack(locked, &files)?;
            return Ok("unpacked again");
        }
        let (registry, store) = (&self.registry, &self.store);
        fetch_skill(name, source, Some(locked), signers, denied, registry, store)?;
        verify_locked(locked, signers, store)?;
        Ok("fetched")
    }

    /// Checks the bytes of a skill in the store, and unpacks its files unless they are there.
    pub(crate) fn unpack_skill(
        &self,
        locked: &LockedSkill,
        source: &SkillSource,
    ) -> anyhow::Result<SkillFiles> {
        check_fixed(locked, source)?;
        check_bytes(&self.settings, locked, source, &self.store, &self.trust)?;
        let files = read_skill(locked, &self.store)?;
        self.store.unpack(locked, &files)?;
        Ok(files)
    }

    /// Locks a skill that was pulled.
    ///
    /// # Errors
    ///
    /// If another command has removed the skill's bytes from the store since the pull.
    pub(crate) fn lock_skill(
        &mut self,
        locked: LockedSkill,
        store_lock: &StoreLock,
    ) -> anyhow::Result<()> {
        self.check_skill_stored(&locked)?;
        if !self.settings.packages.skills.contains_key(&locked.name) {
            // The configuration does not name the old entry, so do not keep it as the previous
            // version.
            self.lock.skills.remove(&locked.name);
        }
        self.lock.skills.set(locked);
        self.write_lock(store_lock)
    }

    /// Locks an earlier skill again.
    ///
    /// # Errors
    ///
    /// As for [`Project::lock_skill`].
    pub(crate) fn roll_back_skill(
        &mut self,
        previous: LockedSkill,
        store_lock: &StoreLock,
    ) -> anyhow::Result<()> {
        self.check_skill_stored(&previous)?;
        self.lock.skills.roll_back(previous);
        self.write_lock(store_lock)
    }

    fn check_skill_stored(&self, locked: &LockedSkill) -> anyhow::Result<()> {
        self.check_stored(locked)?;
        ensure!(self.store.skill_root(locked).is_dir(), CLEANED);
        self.store.check_unpacked(locked)
    }
}

/// Checks that a locked skill has the digest or commit that its source names, if it names one.
pub(crate) fn check_fixed(locked: &LockedSkill, source: &SkillSource) -> anyhow::Result<()> {
    match source {
        SkillSource::Registry(reference) => check_manifest(&locked.manifest, reference),
        SkillSource::Git(git) => {
            let commit = git.commit();
            ensure!(
                commit.is_none() || commit == locked.commit.as_deref(),
                "`{source}` names a commit other than the locked one; `skillhost update {}` locks \
                 the named commit",
                locked.name
            );
            Ok(())
        }
        SkillSource::Site(_) => Ok(()),
    }
}

/// Returns lines about a skill, with the findings of `skillhost check`.
pub(crate) fn skill_summary(locked: &LockedSkill, files: &SkillFiles, store: &Store) -> Vec<Line> {
    let name = &locked.name;
    let mut lines = vec![
        format_line!("{name} from {}", locked.source),
        format_line!("manifest: {}", locked.manifest),
        signer_line(&locked.signer),
    ];
    lines.extend(locked.commit.iter().map(|it| format_line!("commit: {it}")));
    lines.extend(metadata_lines(&SkillMetadata::of(files)));
    let scripts: BTreeSet<&str> = files.scripts().collect();
    let (scripts, others): (Vec<_>, Vec<_>) =
        files.iter().partition(|(path, _)| scripts.contains(path));
    for (kind, files) in [("file", others), ("script", scripts)] {
        let files = files
            .iter()
            .map(|(path, bytes)| format!("{} ({} bytes)", quote(path), bytes.len()));
        lines.extend(list(kind, files.collect()));
    }
    lines.extend(match check_folder(&store.skill_root(locked).join(name)) {
        Ok(findings) if findings.is_empty() => vec![format_line!("check: no findings")],
        Ok(findings) => list("check", findings.iter().map(finding_text).collect()),
        Err(error) => vec![format_line!("check: cannot read the skill: {error}")],
    });
    lines.push(format_line!(
        "it is served as the skill `{name}`; its scripts run only as a grant allows"
    ));
    lines
}

fn finding_text(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let file = finding.file.as_deref().unwrap_or("SKILL.md");
    let line = finding.line.map(|line| format!(":{line}"));
    let line = line.unwrap_or_default();
    format!(
        "{severity}: {file}{line}: {} [{}]",
        finding.message, finding.rule
    )
}

fn metadata_lines(metadata: &SkillMetadata) -> Vec<Line> {
    let line = |key: &str, text: &Option<String>| {
        let text = text.as_deref()?;
        Some(format_line!("{key}: {}", Line::start(text, MAX_CHARS)))
    };
    let known = [
        line("name", &metadata.name),
        line("version", &metadata.version),
        line("license", &metadata.license),
        line("description", &metadata.description),
    ];
    known.into_iter().flatten().collect()
}

/// Returns the differences between two versions of a skill.
pub(crate) fn changes(
    old: &LockedSkill,
    known: KnownValues,
    before: Option<&SkillFiles>,
    new: &LockedSkill,
    after: &SkillFiles,
    store: &Store,
) -> Vec<Line> {
    let mut lines = vec![
        format_line!("{} from {}", new.name, new.source),
        format_line!("  manifest: {} -> {}", old.manifest, new.manifest),
    ];
    lines.extend(package_changes(old, known, new));
    if old.commit != new.commit {
        let commit = |locked: &LockedSkill| locked.commit.clone().unwrap_or_default();
        lines.push(format_line!("  commit: {} -> {}", commit(old), commit(new)));
    }
    lines.extend(file_changes(old, before, new, after));
    let Some(before) = before else {
        lines.push(format_line!(
            "  the store does not have the old files, so all files count as new; `skillhost \
             fetch` gets the old files"
        ));
        return lines;
    };
    let bytes = [before, after].map(|files| files.skill_md().1);
    let [before, after] = bytes.map(String::from_utf8_lossy);
    if before.len().max(after.len()) > MAX_COMPARED {
        lines.push(format_line!("  SKILL.md is too long to compare"));
        return lines;
    }
    let changes = line_diff(&before, &after);
    if has_hidden_changes(bytes, &changes) {
        lines.push(format_line!(
            "  SKILL.md differs in line ends, or in bytes that are not UTF-8 and not shown"
        ));
    }
    if !changes.is_empty() {
        lines.push(format_line!("  SKILL.md:"));
    }
    let shown = &changes[..changes.len().min(MAX_CHANGED)];
    lines.extend(shown.iter().map(|change| {
        let sign = match change {
            LineChange::Removed(_) => '-',
            LineChange::Added(_) => '+',
        };
        let (part, is_cut) = change.differing_part(shown, MAX_LINE_CHARS);
        let dots = if is_cut { "…" } else { "" };
        format_line!("    {sign} {dots}{}", Line::start(part, MAX_LINE_CHARS))
    }));
    if let Some(more @ 1..) = changes.len().checked_sub(MAX_CHANGED) {
        lines.push(format_line!(
            "    and {}; compare `{}` with `{}`",
            count(more, "more line"),
            store.skill_root(old).display(),
            store.skill_root(new).display()
        ));
    }
    lines
}

/// Returns the added, removed and changed files of a skill, its scripts last.
fn file_changes(
    old: &LockedSkill,
    before: Option<&SkillFiles>,
    new: &LockedSkill,
    after: &SkillFiles,
) -> Vec<Line> {
    let mut lines = Vec::new();
    let scripts: BTreeSet<&str> = after
        .scripts()
        .chain(before.into_iter().flat_map(SkillFiles::scripts))
        .collect();
    let paths: BTreeSet<&String> = old.files.keys().chain(new.files.keys()).collect();
    for is_script in [false, true] {
        let paths = paths
            .iter()
            .filter(|path| scripts.contains(path.as_str()) == is_script);
        let paths = paths.filter_map(|path| {
            let sign = match (old.files.get(*path), new.files.get(*path)) {
                (old, new) if old == new => return None,
                (None, _) => "+",
                (_, None) => "-",
                _ => "changed",
            };
            Some(format!("{sign} {}", quote(path)))
        });
        let kind = if is_script { "script" } else { "file" };
        lines.extend(
            list(kind, paths.collect())
                .into_iter()
                .map(|it| format_line!("  {it}")),
        );
    }
    lines
}

/// Returns a line for each item of a kind, and one with the number of those beyond `MAX_LISTED`.
fn list(kind: &str, items: Vec<String>) -> Vec<Line> {
    let shown = items.iter().take(MAX_LISTED);
    let mut lines: Vec<Line> = shown.map(|item| format_line!("{kind}: {item}")).collect();
    if items.len() > MAX_LISTED {
        lines.push(format_line!(
            "{kind}: and {} more",
            items.len() - MAX_LISTED
        ));
    }
    lines
}
