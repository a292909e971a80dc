//! The Landlock rules of a process: which files it reads and writes, that it binds and
//! connects no TCP socket, except one that fetches from the network, and that it signals
//! nobody outside.

use std::os::fd::OwnedFd;

use anyhow::Context as _;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{FileType, fstat};

use crate::{Profile, WallReport};

/// The version whose rules are asked for. A kernel with an older one lacks rules that the
/// filter of system calls has in their place, but for the signals of the broker.
const NEWEST: ABI = ABI::V7;

#[derive(Debug)]
pub(crate) struct Rule {
    /// The file or folder, open.
    pub(crate) place: OwnedFd,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    WriteFile,
    KeepFiles,
    MakeFiles,
    RemoveFiles,
}

impl Kind {
    fn access(self) -> BitFlags<AccessFs> {
        match self {
            Self::Read => AccessFs::ReadFile | AccessFs::ReadDir,
            Self::WriteFile => AccessFs::ReadFile | AccessFs::WriteFile,
            Self::KeepFiles => AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile,
            Self::MakeFiles => AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::MakeDir,
            Self::RemoveFiles => AccessFs::RemoveFile.into(),
        }
    }
}

/// Restricts the calling thread to the rules. Returns the kernel's version of Landlock; 0 is none.
pub(crate) fn restrict(
    rules: &[Rule],
    profile: Profile,
    report: &mut WallReport,
) -> anyhow::Result<i32> {
    let handled = match profile {
        // It opens what the operator's folders lead to by now, and starts programs.
        Profile::Broker => AccessFs::from_write(NEWEST),
        Profile::Serving | Profile::Child | Profile::Network => AccessFs::from_all(NEWEST),
    };
    let network = match profile {
        Profile::Network => AccessNet::BindTcp.into(),
        Profile::Serving | Profile::Child | Profile::Broker => AccessNet::from_all(NEWEST),
    };
    let set_up = || -> anyhow::Result<_> {
        let mut ruleset = Ruleset::default()
            .handle_access(handled)?
            .handle_access(network)?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        for rule in rules {
            let mut access = rule.kind.access() & handled;
            if !FileType::from_raw_mode(fstat(&rule.place)?.st_mode).is_dir() {
                access &= AccessFs::from_file(NEWEST);
            }
            if !access.is_empty() {
                ruleset = ruleset.add_rule(PathBeneath::new(&rule.place, access))?;
            }
        }
        Ok(ruleset.restrict_self()?)
    };
    let status = set_up().context("cannot set up Landlock")?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => report
            .missing
            .push("Landlock, which is not enabled in this kernel".to_owned()),
        (RulesetStatus::NotEnforced, _) => report
            .missing
            .push("Landlock, which this kernel lacks (Linux 5.13 has it)".to_owned()),
        (_, LandlockStatus::Available { effective_abi, .. }) => {
            let version = effective_abi as i32;
            report.in_force.push(format!("Landlock, version {version}"));
            return Ok(version);
        }
        _ => {}
    }
    Ok(0)
}
