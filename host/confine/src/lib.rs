//! The process sandbox: restricts the files, network and system calls that this process can use.
//! `host/cli/src/process_sandbox.rs` lists the files that each verb needs.
//!
//! - `files`: the Landlock rules.
//! - `filter`: the allowed system calls.
//! - `descriptors`: descriptors that the process inherited, and that it closes.
//! - `signals`: signals that the process ignores.
//! - `broker`: the process outside the sandbox that opens files and starts programs for this one.

mod filter;

mod files;

mod descriptors;
mod signals;
mod socket_file;

pub mod broker;

use std::fs::DirEntry;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{CapabilitySet, CapabilitySets};

pub use descriptors::{close_inherited_descriptors, record_inherited_descriptors};
pub use filter::Profile;
pub use signals::{ignore_file_size_signal, ignore_termination_signals};
pub use socket_file::SocketFile;

use files::FileAccess;

/// The maximum number of folder entries that are searched for symlinks. Guards against: a folder
/// of millions of files.
const MAX_ENTRIES: usize = 100_000;

/// The process sandbox for a thread: the files and folders that the thread may use.
#[derive(Debug, Default)]
pub struct ProcessSandbox {
    rules: Vec<files::PathRule>,
}

/// The parts of a process sandbox that the kernel enforces, and the missing parts.
#[derive(Debug, Default)]
pub struct SandboxReport {
    /// The parts that the kernel enforces, in words for the operator.
    pub in_force: Vec<String>,
    /// The missing parts and the reasons, in words for the operator.
    pub missing: Vec<String>,
    /// True if Landlock, in any version, and the filter of system calls are in force.
    pub is_confined: bool,
}

impl ProcessSandbox {
    /// Allows reading a file, or a folder and everything below it. A missing path adds no rule.
    #[must_use]
    pub fn allow_read(self, path: impl AsRef<Path>) -> Self {
        self.allow_at(path.as_ref(), FileAccess::Read)
    }

    /// Allows reading an open folder and everything below it.
    #[must_use]
    pub fn allow_read_folder(self, folder: OwnedFd) -> Self {
        self.allow(folder, FileAccess::Read)
    }

    /// Allows reading and writing an open file, even if it is opened again by its path.
    #[must_use]
    pub fn allow_write_file(self, file: OwnedFd) -> Self {
        self.allow(file, FileAccess::WriteFile)
    }

    /// Allows creating, replacing and removing files in an open folder.
    #[must_use]
    pub fn allow_manage_files(self, folder: OwnedFd) -> Self {
        self.allow(folder, FileAccess::ManageFiles)
    }

    /// Allows creating folders and files below a folder.
    fn allow_create_files(self, folder: &Path) -> Self {
        self.allow_at(folder, FileAccess::CreateFiles)
    }

    /// Allows removing files in a folder.
    fn allow_remove_files(self, folder: &Path) -> Self {
        self.allow_at(folder, FileAccess::RemoveFiles)
    }

    fn allow_at(self, path: &Path, access: FileAccess) -> Self {
        match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(target) => self.allow(target, access),
            Err(_) => self,
        }
    }

    fn allow(mut self, target: OwnedFd, access: FileAccess) -> Self {
        self.rules.push(files::PathRule { target, access });
        self
    }

    /// Confines the calling thread, and all threads and processes that it starts from now on.
    /// Must be called while the process has only one thread, because other threads stay unconfined.
    ///
    /// Parts that the kernel does not support are listed in the report.
    ///
    /// # Errors
    ///
    /// Fails if a part that the kernel supports cannot be set up.
    pub fn apply(&self, profile: Profile) -> anyhow::Result<SandboxReport> {
        let mut report = SandboxReport::default();
        drop_capabilities(profile, &mut report);
        let landlock_version = files::restrict(&self.rules, profile, &mut report)?;
        let is_filtered = filter::install(profile, landlock_version, &mut report)?;
        report.is_confined = landlock_version > 0 && is_filtered;
        Ok(report)
    }
}

/// Drops all capabilities, except two in processes that open the operator's files.
///
/// These two let root open files of other users, who may own the roots, the audit log and the
/// output folder. The Landlock rules limit which files can be opened.
fn drop_capabilities(profile: Profile, report: &mut SandboxReport) {
    let drop = || -> rustix::io::Result<bool> {
        let current = rustix::thread::capabilities(None)?;
        let had_capabilities = !current.permitted.is_empty();
        let file_capabilities = match profile {
            Profile::Serving | Profile::Broker => {
                CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE
            }
            Profile::Child | Profile::Network => CapabilitySet::empty(),
        };
        let kept = current.effective & file_capabilities;
        let kept = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, kept)?;
        Ok(had_capabilities)
    };
    match drop() {
        Ok(true) => report.in_force.push("capabilities dropped".to_owned()),
        Ok(false) => {}
        Err(error) => report
            .missing
            .push(format!("dropped capabilities ({error})")),
    }
}

/// Confines a process that reads a third-party component on stdin and answers on stdout. The
/// process can then open no file, start no process and use no network.
///
/// Does not return the missing parts: the process that started this one has reported them.
///
/// # Errors
///
/// Fails if a part that the kernel supports cannot be set up.
pub fn confine_child() -> anyhow::Result<()> {
    let report = ProcessSandbox::default().apply(Profile::Child);
    report.map(drop).context("cannot confine this process")
}

/// The files that the C library reads to resolve host names, and the folders from which some
/// versions load libraries for it.
pub const RESOLVER_FILES: [&str; 10] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
];

/// Confines a process that fetches from the network and answers on stdout. The process can then
/// resolve host names and connect over TCP. It cannot listen, connect to Unix sockets, start
/// processes, or open files except [`RESOLVER_FILES`].
///
/// Does not return the missing parts: the process that started this one has reported them.
///
/// # Errors
///
/// Fails if a part that the kernel supports cannot be set up.
pub fn confine_network() -> anyhow::Result<()> {
    let sandbox = RESOLVER_FILES
        .into_iter()
        .fold(ProcessSandbox::default(), ProcessSandbox::allow_read);
    let report = sandbox.apply(Profile::Network);
    report.map(drop).context("cannot confine this process")
}

/// Returns the folders to which symlinks directly in a folder lead. Ignores symlinks in
/// subfolders, because authors of skills may control them.
pub fn link_targets(folder: &Path) -> Vec<PathBuf> {
    bounded_link_targets(folder, MAX_ENTRIES)
}

fn bounded_link_targets(folder: &Path, max_entries: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let entries = entries.take(max_entries).flatten();
    let is_link = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
    let targets = entries
        .filter(is_link)
        .filter_map(|link| link.path().canonicalize().ok());
    targets.filter(|target| target.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn finds_targets_of_limited_number_of_direct_links() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in ["one", "two", "three", "root/author"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("file"), "").unwrap();
        let targets = |max_entries| {
            let targets = bounded_link_targets(&at("root"), max_entries);
            let name = |target: PathBuf| target.file_name().unwrap().to_owned();
            let mut names: Vec<_> = targets.into_iter().map(name).collect();
            names.sort();
            names
        };
        symlink(at("three"), at("root/author/link")).unwrap();
        assert!(targets(100).is_empty());
        for target in ["one", "two", "file", "none"] {
            symlink(at(target), at("root").join(target)).unwrap();
        }
        assert_eq!(targets(100), ["one", "two"]);
        assert_eq!(targets(5), ["one", "two"]);
        assert!(targets(3).len() <= 2 && targets(0).is_empty());
    }
}
