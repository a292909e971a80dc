//! `cargo xtask guests`: builds the guests, and writes their components or compares them with the
//! committed ones.

use anyhow::{Result, ensure};

use crate::Outcome;
use crate::build::build;
use crate::compare::compare;
use crate::digest::{Digest, Sums};
use crate::dist::{Components, Dist};
use crate::toolchain::{Choice, Toolchain};
use crate::workspace::{GUEST_FOLDERS, Guest, find_guests, root, select};

/// Build the guest components, or compare them with the committed ones
///
/// Components go to `guest-tools/dist`, those of examples to `guest-tools/examples/dist`, and those
/// of test guests to `tests/guests/dist`. The committed ones are built with a pinned compiler,
/// which gives the same bytes on every machine: `--check` builds them again and compares.
///
/// Exit codes: 0 built, or no difference; 1 a difference; 2 an error.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; report each committed component that differs from a new
    /// build of its source
    #[arg(long)]
    check: bool,

    /// The compiler to build with [default: active if the active toolchain has the
    /// target wasm32-wasip2, otherwise debian; with --check always debian]
    #[arg(long, value_enum, value_name = "WHICH")]
    toolchain: Option<Choice>,

    /// Build or check only the guest of this package; can be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

pub(crate) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let mut choice = arguments.toolchain;
    if arguments.check {
        ensure!(
            choice != Some(Choice::Active),
            "`--check` needs the debian toolchain: leave out `--toolchain active`"
        );
        choice = Some(Choice::Debian);
    }
    let root = root()?;
    let guests = select(find_guests(&root)?, &arguments.only)?;
    let toolchain = Toolchain::provide(choice, &root)?;
    let built = build(&root, &toolchain, &guests)?;

    let mut all_match = true;
    for (_, folder) in GUEST_FOLDERS {
        let dist = Dist::new(root.join(folder));
        let components = components_of(&built, &guests, folder);
        if arguments.check {
            all_match &= check(&dist, folder, &components, &arguments.only)?;
        } else {
            dist.write(&components, arguments.only.is_empty())?;
        }
    }
    if !arguments.check && matches!(toolchain, Toolchain::Active) {
        eprintln!(
            "note: built with the active toolchain; commit only what `--toolchain debian` builds"
        );
    }
    let count = guests.len();
    if !arguments.check {
        println!("components built: {count}");
    } else if all_match {
        println!("components that match their sources: {count}");
    } else {
        eprintln!("to update the components, run `cargo xtask guests --toolchain debian`");
        return Ok(Outcome::Findings);
    }
    Ok(Outcome::Clean)
}

/// Returns the components that belong to a `dist` folder.
fn components_of(built: &[Vec<u8>], guests: &[Guest], folder: &str) -> Components {
    let built_guests = guests.iter().zip(built);
    built_guests
        .filter(|(guest, _)| guest.dist == folder)
        .map(|(guest, bytes)| (guest.file_name(), bytes.clone()))
        .collect()
}

/// Reports the differences between the built components, the committed ones and the list of
/// digests in the folder. If `only` is not empty, ignores components of other guests. Returns
/// `true` if it found no difference.
fn check(dist: &Dist, folder: &str, components: &Components, only: &[String]) -> Result<bool> {
    let is_checked = |name: &String| only.is_empty() || components.contains_key(name);
    let built: Sums = components
        .iter()
        .map(|(name, bytes)| (name.clone(), Digest::of(bytes)))
        .collect();
    let mut committed = dist.committed()?;
    let mut listed = dist.listed()?;
    committed.retain(|name, _| is_checked(name));
    listed.retain(|name, _| is_checked(name));

    let findings = compare(&built, &committed, &listed);
    for finding in &findings {
        eprintln!("{folder}: {finding}");
    }
    Ok(findings.is_empty())
}
