//! `skillhost update`: locks the newest bytes of components and skills, and shows what changes.

use std::collections::BTreeMap;

use clap::Args;
use skillhost::{Inspection, Line};
use skillhost_packages::{
    LockedComponent, LockedPackage, PackageKind, Signer, SkillSource, read_skill,
};
use skillhost_program::exit::Exit;
use skillhost_program::options::CommonOptions;
use skillhost_program::registry::RegistryArguments;
use skillhost_program::terminal::{self, format_line};

use crate::add;
use crate::packages::{Project, powers, signer_line, skills};

/// Lock the newest bytes of packages from registries, and show what changes
///
/// A component that asks for a new power or has another signer is left as it
/// is, unless the option for that is given.
#[derive(Args)]
pub(crate) struct UpdateCommand {
    /// Name of the component or skill [default: all]
    name: Option<String>,
    /// Accept components that ask for new requests or secrets
    #[arg(long)]
    accept_powers: bool,
    /// Accept packages with another signer, or with none any more
    #[arg(long)]
    accept_signer: bool,
    #[command(flatten)]
    registry: RegistryArguments,
    #[command(flatten)]
    options: CommonOptions,
}

impl UpdateCommand {
    pub(crate) async fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let mut project = Project::open(&options, self.registry.settings()?)?;
        let packages = project.settings.packages.clone();
        let is_known = |name: &String| {
            packages.sources.contains_key(name) || packages.skills.contains_key(name)
        };
        if let Some(name) = self.name.as_ref().filter(|name| !is_known(name)) {
            terminal::complain(format_args!(
                "there is no component or skill `{name}`; `skillhost add REF` adds one"
            ));
            return Ok(Exit::Usage);
        }
        let mut exit = Exit::Ok;
        for (name, source) in &packages.sources {
            if self.name.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let (locked, inspection) = match project.pull(name, &source.reference).await {
                Ok(pulled) => pulled,
                Err(error) => {
                    terminal::complain(format_args!("cannot update `{name}`: {error:#}"));
                    exit = Exit::Setup;
                    continue;
                }
            };
            let Some(mut old) = project.lock.find(name).cloned() else {
                terminal::print(&add::lines(&locked, &inspection, &project))?;
                let turn = project.begin_change(PackageKind::Component, name)?;
                project.lock_component(locked, &turn)?;
                continue;
            };
            if old == locked {
                terminal::print(&[format_line!("{name} is up to date")])?;
                continue;
            }
            let before = if project.store.has(&old.content) {
                project.inspect(&old.content).await.ok()
            } else {
                None
            };
            // Not what the lock file says of them: it may have been edited.
            if let Some(before) = &before {
                old.powers = powers(before);
            }
            terminal::print(&changes(&old, before.as_ref(), &locked, &inspection))?;
            if let Some(why) = self.refusal(&old, &locked) {
                terminal::complain(format_args!("`{name}` is not updated: {why}"));
                exit = Exit::Failure;
                continue;
            }
            let turn = project.begin_change(PackageKind::Component, name)?;
            project.lock_component(locked, &turn)?;
        }
        for (name, source) in &packages.skills {
            if self.name.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            match self.update_skill(&mut project, name, &source.reference)? {
                Exit::Ok => {}
                failed => exit = failed,
            }
        }
        Ok(exit)
    }

    /// Locks the newest files of a skill, and shows what changes.
    fn update_skill(
        &self,
        project: &mut Project<'_>,
        name: &str,
        source: &SkillSource,
    ) -> anyhow::Result<Exit> {
        let (locked, files) = match project.pull_skill(name, source) {
            Ok(pulled) => pulled,
            Err(error) => {
                terminal::complain(format_args!("cannot update `{name}`: {error:#}"));
                return Ok(Exit::Setup);
            }
        };
        let store = &project.store;
        let lines = match project.lock.find_skill(name) {
            None => skills::lines(&locked, &files, store),
            Some(old) if *old == locked => vec![format_line!("{name} is up to date")],
            Some(old) => {
                let before = read_skill(old, store).ok();
                skills::changes(old, before.as_ref(), &locked, &files, store)
            }
        };
        terminal::print(&lines)?;
        let old = project.lock.find_skill(name);
        if let Some(why) = old.and_then(|old| self.signer_refusal(old, &locked)) {
            terminal::complain(format_args!("`{name}` is not updated: {why}"));
            return Ok(Exit::Failure);
        }
        let turn = project.begin_change(PackageKind::Skill, name)?;
        project.lock_skill(locked, &turn)?;
        Ok(Exit::Ok)
    }

    /// Returns the reason why a change needs an option that is not given.
    fn refusal(&self, old: &LockedComponent, new: &LockedComponent) -> Option<String> {
        let gains_power = new.powers.iter().any(|power| !old.powers.contains(power));
        if gains_power && !self.accept_powers {
            return Some("it asks for a new power; `--accept-powers` accepts that".to_owned());
        }
        self.signer_refusal(old, new)
    }

    fn signer_refusal(&self, old: &LockedPackage, new: &LockedPackage) -> Option<String> {
        // A first signature takes nothing away.
        let loses_signer = !old.signer.is_same(&new.signer) && old.signer != Signer::Unsigned;
        if loses_signer && !self.accept_signer {
            return Some("it has another signer; `--accept-signer` accepts that".to_owned());
        }
        None
    }
}

/// Returns what differs between two versions of a component.
fn changes(
    old: &LockedComponent,
    before: Option<&Inspection>,
    new: &LockedComponent,
    after: &Inspection,
) -> Vec<Line> {
    let mut lines = vec![
        format_line!("{} from {}", new.name, new.source),
        format_line!("  manifest: {} -> {}", old.manifest, new.manifest),
    ];
    if old.source != new.source {
        lines.push(format_line!("  source: was {}", old.source));
    }
    if old.signer != new.signer {
        lines.push(format_line!("  signer: was {}", old.signer));
        lines.push(format_line!("  {}", signer_line(&new.signer)));
    }
    for (kind, old, new) in [
        ("tool", &old.tools, &new.tools),
        ("import", &old.imports, &new.imports),
        ("asks for", &old.powers, &new.powers),
    ] {
        let added = new.iter().filter(|it| !old.contains(it));
        lines.extend(added.map(|it| format_line!("  + {kind}: {it}")));
        let removed = old.iter().filter(|it| !new.contains(it));
        lines.extend(removed.map(|it| format_line!("  - {kind}: {it}")));
    }
    let descriptions = |inspection: &Inspection| -> BTreeMap<String, String> {
        let tools = inspection.tools.iter().flatten();
        tools
            .map(|tool| (tool.name.clone(), tool.description.clone()))
            .collect()
    };
    let Some(before) = before else {
        lines.push(format_line!(
            "  the store does not have the old bytes: changes of descriptions are not shown"
        ));
        return lines;
    };
    let (before, after) = (descriptions(before), descriptions(after));
    for (tool, text) in &after {
        if let Some(old) = before.get(tool).filter(|old| *old != text) {
            lines.push(format_line!("  description of {tool}:"));
            lines.push(format_line!("    - {}", one_line(old)));
            lines.push(format_line!("    + {}", one_line(text)));
        }
    }
    lines
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}
