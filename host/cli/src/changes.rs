//! Shows what changes when another version of a component or skill is locked, and refuses some
//! changes without an option that accepts them.

use std::collections::BTreeMap;

use clap::Args;
use skillhost::{Inspection, Line};
use skillhost_packages::{
    LockedComponent, LockedPackage, LockedSkill, Reference, Signer, SkillFiles, annotated_version,
    find_downgrade, named_content, read_named_skill, verified_signer,
};
use skillhost_program::terminal::{self, format_line};

use crate::packages::{KnownValues, Project, package_changes, skills};

/// Options for changes that the operator accepts.
#[derive(Args, Default)]
pub(crate) struct Accepted {
    /// Accept components that ask for new requests or secrets
    #[arg(long)]
    accept_powers: bool,
    /// Accept packages that have another signer, or no signer any more
    #[arg(long)]
    accept_signer: bool,
}

impl Accepted {
    /// Prints the changes from the locked component to a new one. Returns `Some(reason)` if they
    /// need an option that is not given.
    pub(crate) async fn review(
        &self,
        project: &Project<'_>,
        old: &LockedComponent,
        new: &LockedComponent,
        new_inspection: &Inspection,
        accept_downgrade: bool,
    ) -> anyhow::Result<Option<String>> {
        // Read the old values from the store: the lock file may have been edited.
        let (store, mut package) = (&project.store, old.package.clone());
        let named = named_content(store, package.kind, &package.manifest);
        let read = match named {
            Ok(content) => {
                package.content = content;
                project.inspect(package).await
            }
            Err(error) => Err(error),
        };
        let (mut old, old_inspection) = match read {
            Ok((old, inspection)) => (old, Some(inspection)),
            Err(_) => (without_contents(old), None),
        };
        let known = KnownValues {
            signer: verify_old_signer(project, &mut old.package, new)?,
            version: old_inspection.is_some(),
        };
        let old_inspection = old_inspection.as_ref();
        terminal::print(&changes(&old, known, old_inspection, new, new_inspection))?;
        Ok(self.refusal(&old, known, new, accept_downgrade))
    }

    /// Prints the changes from the locked skill to a new one, like [`Accepted::review`].
    pub(crate) fn review_skill(
        &self,
        project: &Project<'_>,
        old: &LockedSkill,
        new: &LockedSkill,
        files: &SkillFiles,
        accept_downgrade: bool,
    ) -> anyhow::Result<Option<String>> {
        // Read the old values from the store: the lock file may have been edited.
        let (store, mut old) = (&project.store, old.clone());
        let before = read_named_skill(store, &old.manifest).ok();
        old.files = before.as_ref().map(SkillFiles::digests).unwrap_or_default();
        if let Ok(content) = named_content(store, old.kind, &old.manifest) {
            old.package.content = content;
        }
        let version = match new.source.parse::<Reference>() {
            Ok(_) => annotated_version(store, &old.manifest).ok(),
            // Repositories and sites have no versions.
            Err(_) => Some(None),
        };
        let known = KnownValues {
            signer: verify_old_signer(project, &mut old.package, new)?,
            version: version.is_some(),
        };
        old.package.version = version.flatten();
        let before = before.as_ref();
        terminal::print(&skills::changes(&old, known, before, new, files, store))?;
        Ok(self.package_refusal(&old, known, new, accept_downgrade))
    }

    fn refusal(
        &self,
        old: &LockedComponent,
        known: KnownValues,
        new: &LockedComponent,
        accept_downgrade: bool,
    ) -> Option<String> {
        let gains_power = new.powers.iter().any(|power| !old.powers.contains(power));
        if gains_power && !self.accept_powers {
            return Some("it asks for a new power; `--accept-powers` accepts that".to_owned());
        }
        self.package_refusal(old, known, new, accept_downgrade)
    }

    /// Returns `Some(reason)` if a change of a component or a skill needs an option that is not
    /// given. Does not compare the fields of `old` that are not `known`.
    fn package_refusal(
        &self,
        old: &LockedPackage,
        known: KnownValues,
        new: &LockedPackage,
        accept_downgrade: bool,
    ) -> Option<String> {
        if !known.signer && !self.accept_signer {
            return Some(
                "no signer of `[trust]` is known to have signed the locked version; \
                 `--accept-signer` accepts that"
                    .to_owned(),
            );
        }
        // A first signature needs no option.
        let changes_signer =
            known.signer && !old.signer.is_same(&new.signer) && old.signer != Signer::Unsigned;
        if changes_signer && !self.accept_signer {
            return Some("it has another signer; `--accept-signer` accepts that".to_owned());
        }
        let downgrade = if known.version {
            find_downgrade(old.version.as_deref(), new.version.as_deref())
        } else {
            Some(
                "the versions cannot be compared, because the store does not have the locked one"
                    .to_owned(),
            )
        };
        match downgrade {
            Some(why) if !accept_downgrade => {
                Some(format!("{why}; `--accept-downgrade` accepts that"))
            }
            _ => None,
        }
    }
}

/// Sets the signer of the locked version to the one that its stored signature proves. Returns
/// `false` if none is proven.
///
/// Without a rule about signers, trusts the lock file and returns `true`.
fn verify_old_signer(
    project: &Project<'_>,
    old: &mut LockedPackage,
    new: &LockedPackage,
) -> anyhow::Result<bool> {
    let packages = &project.settings.packages;
    let signers = match new.source.parse::<Reference>() {
        Ok(reference) => packages.signers(&reference, &project.trust)?,
        // Repositories and sites have no signatures.
        Err(_) => None,
    };
    let Some(signers) = signers else {
        return Ok(true);
    };
    let verified = verified_signer(old, &signers, &project.store);
    Ok(match verified {
        Some(signer) => {
            old.signer = signer;
            true
        }
        None => false,
    })
}

/// Returns the entry of a component with unreadable bytes. It has no version, tools, imports or
/// powers, because those in the lock file may have been edited.
fn without_contents(locked: &LockedComponent) -> LockedComponent {
    LockedComponent {
        package: LockedPackage {
            version: None,
            ..locked.package.clone()
        },
        tools: Vec::new(),
        imports: Vec::new(),
        powers: Vec::new(),
    }
}

/// Returns the differences between two versions of a component.
fn changes(
    old: &LockedComponent,
    known: KnownValues,
    old_inspection: Option<&Inspection>,
    new: &LockedComponent,
    new_inspection: &Inspection,
) -> Vec<Line> {
    let mut lines = vec![
        format_line!("{} from {}", new.name, new.source),
        format_line!("  manifest: {} -> {}", old.manifest, new.manifest),
    ];
    lines.extend(package_changes(old, known, new));
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
    let Some(old_inspection) = old_inspection else {
        lines.push(format_line!(
            "  the store does not have the old bytes, so all of this counts as new; `skillhost \
             fetch` gets the old bytes"
        ));
        return lines;
    };
    let (before, after) = (descriptions(old_inspection), descriptions(new_inspection));
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
