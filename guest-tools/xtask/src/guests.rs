//! `cargo xtask guests`: finds the guests, builds them, and writes their
//! components or compares them with the committed ones.

use anyhow::{Result, ensure};

use crate::Outcome;
use crate::build::build;
use crate::compare::compare;
use crate::digest::{Digest, Sums};
use crate::dist::{Components, Dist};
use crate::toolchain::{Choice, Toolchain};
use crate::workspace::{Guest, PLACES, find, root, select};

/// Build the guest components, or compare them with the committed ones
///
/// A component goes to `guest-tools/dist`, that of an example to
/// `guest-tools/examples/dist`, that of a test guest to `tests/guests/dist`. The committed ones are built with a pinned compiler,
/// which gives the same bytes on every machine: `--check` builds them again and
/// compares.
///
/// Exit codes: 0 built, or all the same; 1 something differs; 2 trouble.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing; name each component that is not what its source builds
    #[arg(long)]
    check: bool,

    /// The compiler to build with [default: the active one if it has the
    /// target, else debian; with --check always debian]
    #[arg(long, value_enum, value_name = "WHICH")]
    toolchain: Option<Choice>,

    /// Only this guest, by its package's name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

pub(crate) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let mut wish = arguments.toolchain;
    if arguments.check {
        ensure!(
            wish != Some(Choice::Active),
            "`--check` compares what the debian toolchain builds, leave out `--toolchain active`"
        );
        wish = Some(Choice::Debian);
    }
    let root = root()?;
    let guests = select(find(&root)?, &arguments.only)?;
    let toolchain = Toolchain::provide(wish, &root)?;
    let built = build(&root, &toolchain, &guests)?;

    let mut same = true;
    for (_, folder) in PLACES {
        let dist = Dist::at(root.join(folder));
        let components = pick(&built, &guests, folder);
        if arguments.check {
            same &= check(&dist, folder, &components, &arguments.only)?;
        } else {
            dist.write(&components, arguments.only.is_empty())?;
        }
    }
    if !arguments.check && matches!(toolchain, Toolchain::Active) {
        eprintln!(
            "note: built with the active toolchain, the committed bytes must come from `--toolchain debian`"
        );
    }
    let count = guests.len();
    match (arguments.check, same) {
        (false, _) => println!("components built: {count}"),
        (true, true) => println!("components that are what their source builds: {count}"),
        (true, false) => {
            eprintln!("to commit what was built, run `cargo xtask guests --toolchain debian`");
            return Ok(Outcome::Different);
        }
    }
    Ok(Outcome::Fine)
}

/// The components that belong to one of the `dist` folders.
fn pick(built: &[Vec<u8>], guests: &[Guest], folder: &str) -> Components {
    let both = guests.iter().zip(built);
    both.filter(|(guest, _)| guest.dist == folder)
        .map(|(guest, bytes)| (guest.file_name(), bytes.clone()))
        .collect()
}

/// Reports what is not as it was built. With `only`, the other files of the
/// folder are none of its business.
fn check(dist: &Dist, folder: &str, components: &Components, only: &[String]) -> Result<bool> {
    let concerns = |name: &String| only.is_empty() || components.contains_key(name);
    let built: Sums = components
        .iter()
        .map(|(name, bytes)| (name.clone(), Digest::of(bytes)))
        .collect();
    let mut committed = dist.committed()?;
    let mut listed = dist.listed()?;
    committed.retain(|name, _| concerns(name));
    listed.retain(|name, _| concerns(name));

    let findings = compare(&built, &committed, &listed);
    for finding in &findings {
        eprintln!("{folder}: {finding}");
    }
    Ok(findings.is_empty())
}
