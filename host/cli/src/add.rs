//! `skillhost add`: adds a component or a skill from a registry to the configuration, and locks it.

use clap::Args;
use skillhost::{Inspection, Line};
use skillhost_packages::{LockedComponent, PackageKind, Reference, add_source, check_name};
use skillhost_program::exit::Exit;
use skillhost_program::inspect;
use skillhost_program::options::{CommonOptions, open_catalog};
use skillhost_program::registry::RegistryArguments;
use skillhost_program::terminal::{self, format_line};

use crate::packages::{Project, signer_line, skills};
use crate::requests;

/// Add a component or a skill from a registry, and lock its bytes
///
/// Grants nothing: prints what a component asks for, and the grant to write. A
/// skill is served, and its files and scripts are printed.
#[derive(Args)]
pub(crate) struct AddCommand {
    /// Package, such as oci://registry.example/acme/csv:1.2
    #[arg(value_name = "REF", required_unless_present = "request")]
    reference: Option<String>,
    /// Add the package of this request instead; see `skillhost requests`
    #[arg(long, value_name = "N", conflicts_with = "reference")]
    request: Option<usize>,
    /// Name of the component or skill; grants and pins name a component
    /// NAME.wasm [default: the last part of the repository's name]
    #[arg(long)]
    name: Option<String>,
    /// Add a skill, not a component
    #[arg(long)]
    skill: bool,
    #[command(flatten)]
    registry: RegistryArguments,
    #[command(flatten)]
    options: CommonOptions,
}

impl AddCommand {
    pub(crate) async fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let mut project = Project::open(&options, self.registry.settings()?)?;
        let asked = match self.request {
            Some(number) => Some(requests::find(&options, &project.settings, number)?),
            None => None,
        };
        let named = asked.as_ref().map(|(_, reference)| reference.to_string());
        let named = named.or(self.reference.take()).unwrap_or_default();
        let reference: Reference = match named.parse() {
            Ok(reference) => reference,
            Err(error) => {
                terminal::complain(format_args!("{error:#}"));
                return Ok(Exit::Usage);
            }
        };
        let name = self.name.as_deref().unwrap_or(reference.last_name());
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
        if let Some(source) = project.settings.packages.sources_of(kind).get(name) {
            terminal::complain(format_args!(
                "{}: there is a {kind} `{name}` from `{}`; `--name NAME` chooses another name, \
                 and `skillhost update {name}` gets the newest bytes of that source",
                source.place, source.reference
            ));
            return Ok(Exit::Usage);
        }
        let turn;
        let lines = if self.skill {
            let others = open_catalog(&project.settings.host)?;
            skills::refuse_conflict(&others, name)?;
            let (locked, files) = project.pull_skill(name, &reference)?;
            let lines = skills::lines(&locked, &files, &project.store);
            turn = project.begin_change(kind, name)?;
            // The lock first: a source without a lock would keep the host from starting.
            project.lock_skill(locked, &turn)?;
            lines
        } else {
            let (locked, inspection) = project.pull(name, &reference).await?;
            let lines = lines(&locked, &inspection, &project);
            turn = project.begin_change(kind, name)?;
            project.lock_component(locked, &turn)?;
            lines
        };
        add_source(&project.config_file, kind, name, &reference)?;
        if let Some((file, reference)) = asked {
            file.mark_added(&reference)?;
        }
        terminal::print(&lines)?;
        Ok(Exit::Ok)
    }
}

/// Returns what a component is, asks for and may be granted.
pub(crate) fn lines(
    locked: &LockedComponent,
    inspection: &Inspection,
    project: &Project<'_>,
) -> Vec<Line> {
    let mut lines = vec![
        format_line!("{} from {}", locked.name, locked.source),
        format_line!("manifest: {}", locked.manifest),
        signer_line(&locked.signer),
    ];
    lines.extend(inspect::lines(inspection, false));
    lines.push(format_line!(
        "it may do nothing of that yet; to grant it, write into `{}`:",
        project.config_file.display()
    ));
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
