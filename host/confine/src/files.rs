//! The Landlock rules of a process: the files that it may read and write. The rules also forbid TCP
//! (except connecting, for a process that fetches from the network) and signals to processes
//! outside the sandbox.

use std::os::fd::OwnedFd;

use anyhow::Context as _;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{FileType, fstat};

use crate::{Profile, SandboxReport};

/// The newest version of Landlock whose rules are requested.
///
/// On a kernel with an older version, the filter of system calls replaces the missing rules,
/// except the rule that restricts the broker's signals.
const NEWEST: ABI = ABI::V7;

/// The access to one file or folder.
#[derive(Debug)]
pub(crate) struct PathRule {
    /// The open file or folder.
    pub(crate) target: OwnedFd,
    pub(crate) access: FileAccess,
}

/// The rights of a process to a file, or to a folder and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// Read files and list folders.
    Read,
    /// Read and write an existing file.
    WriteFile,
    /// Create, write and remove files.
    ManageFiles,
    /// Create files and folders, and write files.
    CreateFiles,
    /// Remove files.
    RemoveFiles,
}

impl FileAccess {
    /// Returns the rights in Landlock's terms.
    fn rights(self) -> BitFlags<AccessFs> {
        match self {
            Self::Read => AccessFs::ReadFile | AccessFs::ReadDir,
            Self::WriteFile => AccessFs::ReadFile | AccessFs::WriteFile,
            Self::ManageFiles => AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile,
            Self::CreateFiles => AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::MakeDir,
            Self::RemoveFiles => AccessFs::RemoveFile.into(),
        }
    }
}

/// Restricts the calling thread to what the rules allow. Returns the version of Landlock that the
/// kernel enforces, or 0 if the kernel does not enforce Landlock.
pub(crate) fn restrict(
    rules: &[PathRule],
    profile: Profile,
    report: &mut SandboxReport,
) -> anyhow::Result<i32> {
    let handled = match profile {
        // The broker opens any file that the operator's folders lead to, and starts programs.
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
            let mut rights = rule.access.rights() & handled;
            if !FileType::from_raw_mode(fstat(&rule.target)?.st_mode).is_dir() {
                rights &= AccessFs::from_file(NEWEST);
            }
            if !rights.is_empty() {
                ruleset = ruleset.add_rule(PathBeneath::new(&rule.target, rights))?;
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
            .push("Landlock, which needs Linux 5.13 or newer".to_owned()),
        (_, LandlockStatus::Available { effective_abi, .. }) => {
            let version = effective_abi as i32;
            report.in_force.push(format!("Landlock, version {version}"));
            return Ok(version);
        }
        _ => {}
    }
    Ok(0)
}
