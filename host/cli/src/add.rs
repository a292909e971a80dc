//! `skillhost add`: adds a component or a skill to the configuration, and locks it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use skillhost::{Catalog, Inspection, Line};
use skillhost_packages::{
    ForeignSkill, LockedComponent, PackageKind, Reference, SkillSource, add_source, check_name,
    quote, read_foreign_lock,
};
use skillhost_program::exit::Exit;
use skillhost_program::inspect;
use skillhost_program::options::{CommonOptions, open_catalog};
use skillhost_program::registry::RegistryArguments;
use skillhost_program::terminal::{self, format_line};

use crate::packages::{Project, signer_line, skills, version_line};
use crate::requests;

/// Add a component or a skill, and lock its bytes
///
/// A component gets no grant: the command prints what it asks for, and a grant
/// that you can copy into the configuration. A skill is served from now on; the
/// command prints its files and scripts.
#[derive(Args)]
pub(crate) struct AddCommand {
    /// Package, such as oci://registry.example/acme/csv:1.2; with --skill also a
    /// folder of a git repository at a branch, tag or commit
    /// (git+https://git.example/acme/skills@v1#reports) or a skill that a site
    /// offers (https://site.example#reports)
    #[arg(value_name = "REF", required_unless_present_any = ["skills_from", "request"])]
    reference: Option<String>,
    /// Add the package of this request instead; see `skillhost requests`
    #[arg(long, value_name = "N", conflicts_with = "reference")]
    request: Option<usize>,
    /// Name of the component or skill; in grants and pins, a component is called
    /// NAME.wasm [default: the last part of REF]
    #[arg(long)]
    name: Option<String>,
    /// Add a skill, not a component
    #[arg(long)]
    skill: bool,
    /// Add the skills in a lock file of another program: skills-lock.json of npx
    /// skills, or toolhive.lock.yaml
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reference", "request", "name", "skill"])]
    skills_from: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArguments,
    #[command(flatten)]
    options: CommonOptions,
}

impl AddCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        if let Some(file) = &self.skills_from {
            return self.import(file, &options);
        }
        let named = self.reference.take().map(|text| {
            if self.skill {
                text.parse()
            } else {
                text.parse().map(SkillSource::Registry)
            }
        });
        let named: Option<SkillSource> = match named.transpose() {
            Ok(named) => named,
            Err(error) => {
                terminal::complain(format_args!("{error:#}"));
                return Ok(Exit::Usage);
            }
        };
        let mut project =
            Project::open_to_change(&options, self.registry.settings(&options.trust_settings())?)?;
        let (source, request) = match named {
            Some(source) => (source, None),
            None => {
                let number = self.request.unwrap_or_default();
                let request = requests::find(&options, &project.settings, number)?;
                (SkillSource::Registry(request.1.clone()), Some(request))
            }
        };
        let name = self.name.as_deref().unwrap_or(source.default_name());
        if let Err(error) = check_name(name) {
            terminal::complain(format_args!(
                "{error:#}; `--name NAME` chooses another name"
            ));
            return Ok(Exit::Usage);
        }
        let kind = if self.skill {
            PackageKind::Skill
        } else {
            PackageKind::Component
        };
        if let Some((known, place)) = project.settings.packages.source_of(kind, name) {
            if let Some((file, reference)) = request.filter(|_| known == source.to_string()) {
                file.mark_added(&reference)?;
                terminal::print(&[format_line!("`{name}` is already configured")])?;
                return Ok(Exit::Ok);
            }
            terminal::complain(format_args!(
                "{place}: there is a {kind} `{name}` from `{known}`; `--name NAME` chooses another \
                 name, and `skillhost update {name}` locks what that source has now"
            ));
            return Ok(Exit::Usage);
        }
        let lines = match &source {
            SkillSource::Registry(reference) if !self.skill => {
                add_component(&mut project, name, reference).await?
            }
            source => {
                let others = open_catalog(&project.settings.host)?;
                add_skill(&mut project, &others, name, source)?
            }
        };
        terminal::print(&lines)?;
        if let Some((file, reference)) = request {
            let marked = file.mark_added(&reference);
            marked.with_context(|| {
                format!(
                    "`{name}` is added, but its request stays open; run the same command again to \
                     close it, or `skillhost requests --clear` to remove all requests"
                )
            })?;
        }
        Ok(Exit::Ok)
    }

    /// Adds the skills of another program's lock file, and reports those that it cannot add.
    fn import(&self, file: &Path, options: &CommonOptions) -> anyhow::Result<Exit> {
        let skills = read_foreign_lock(file)?;
        let mut project =
            Project::open_to_change(options, self.registry.settings(&options.trust_settings())?)?;
        let others = open_catalog(&project.settings.host)?;
        let mut exit = Exit::Ok;
        for ForeignSkill { name, source } in skills {
            let configured = project
                .settings
                .packages
                .source_of(PackageKind::Skill, &name);
            if let Some((known, place)) = configured {
                if source.as_ref().is_ok_and(|it| it.to_string() == known) {
                    terminal::print(&[format_line!("`{name}` is already configured")])?;
                } else {
                    terminal::complain(format_args!(
                        "cannot add `{name}`: {place}: it is already configured from `{known}`"
                    ));
                    exit = Exit::Failure;
                }
                continue;
            }
            let added = source.and_then(|it| add_skill(&mut project, &others, &name, &it));
            match added {
                Ok(lines) => terminal::print(&lines)?,
                Err(error) => {
                    let name = quote(&name);
                    terminal::complain(format_args!("cannot add `{name}`: {error:#}"));
                    exit = Exit::Failure;
                }
            }
        }
        Ok(exit)
    }
}

/// Adds a component, and returns lines about it.
async fn add_component(
    project: &mut Project<'_>,
    name: &str,
    reference: &Reference,
) -> anyhow::Result<Vec<Line>> {
    let (locked, inspection) = project.pull(name, reference).await?;
    let lines = component_summary(&locked, &inspection, project);
    let store_lock = project.begin_change(PackageKind::Component, name)?;
    // Lock first: the host does not start if a configured source is not locked.
    project.lock_component(locked, &store_lock)?;
    add_source(
        &project.config_file,
        PackageKind::Component,
        name,
        reference,
    )?;
    Ok(lines)
}

/// Adds a skill, and returns lines about it. `others` are the skills of the configured folders.
fn add_skill(
    project: &mut Project<'_>,
    others: &Catalog,
    name: &str,
    source: &SkillSource,
) -> anyhow::Result<Vec<Line>> {
    skills::refuse_conflict(others, name)?;
    let (locked, files) = project.pull_skill(name, source)?;
    let lines = skills::skill_summary(&locked, &files, &project.store);
    let store_lock = project.begin_change(PackageKind::Skill, name)?;
    project.lock_skill(locked, &store_lock)?;
    add_source(&project.config_file, PackageKind::Skill, name, source)?;
    Ok(lines)
}

/// Returns lines about a component: what it is, what it asks for, and the grant that allows it.
pub(crate) fn component_summary(
    locked: &LockedComponent,
    inspection: &Inspection,
    project: &Project<'_>,
) -> Vec<Line> {
    let mut lines = vec![
        format_line!("{} from {}", locked.name, locked.source),
        format_line!("manifest: {}", locked.manifest),
        signer_line(&locked.signer),
    ];
    lines.extend(version_line(locked));
    lines.extend(inspect::lines(inspection, false));
    let (file, config) = (locked.file_name(), project.config_file.display());
    lines.push(if project.settings.host.grants.contains_key(&file) {
        format_line!(
            "the grant for `{file}` in `{config}` applies; this one would grant all needs:"
        )
    } else {
        format_line!("none of this is granted yet; to grant it, write into `{config}`:")
    });
    lines.extend(grant_lines(locked, inspection));
    lines
}

/// Returns the grant that allows what a component asks for.
fn grant_lines(locked: &LockedComponent, inspection: &Inspection) -> Vec<Line> {
    let file = locked.file_name();
    let mut lines = vec![format_line!("  [grants.\"{file}\"]")];
    lines.push(format_line!(
        "  skills = [\"SKILL\"]  # the skills that it may read"
    ));
    let Ok(needs) = &inspection.needs.needs else {
        return lines;
    };
    let list = |items: Vec<String>| serde_json::Value::from(items);
    if !needs.network.is_empty() {
        let rules = needs.network.iter().map(|need| need.rule.to_string());
        lines.push(format_line!("  network = {}", list(rules.collect())));
    }
    for need in &needs.secrets {
        let secret = &need.secret;
        let name = secret.name();
        lines.push(format_line!("  [grants.\"{file}\".secrets.{name}]"));
        lines.push(format_line!("  file = \"{name}.secret\"  # of mode 0600"));
        lines.push(format_line!(
            "  header = {}",
            list(vec![secret.header().to_string()])[0]
        ));
        lines.push(format_line!("  hosts = {}", list(secret.hosts().collect())));
    }
    lines
}
