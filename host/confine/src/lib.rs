//! The process sandbox: restricts what this process may ask of the kernel once it has opened
//! what it needs. The files that each verb needs are listed in
//! `host/cli/src/process_sandbox.rs`.
//!
//! - `files`: the Landlock rules.
//! - `filter`: the allowed system calls.
//! - `descriptors`: descriptors inherited at the start.
//! - `signals`: ignored signals.
//! - `broker`: the process outside the sandbox that opens files and starts programs for this one.

mod filter;

mod files;

mod descriptors;
mod signals;
mod socket_file;

pub mod broker;

use std::ffi::OsStr;
use std::io;
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

/// The maximum number of folder entries that are searched for symlinks. Guards against: a tree
/// of millions of files.
const MAX_ENTRIES: usize = 100_000;

/// A sandbox for the calling thread, with the files and folders that it may use.
#[derive(Debug, Default)]
pub struct ProcessSandbox {
    rules: Vec<files::PathRule>,
}

/// The parts of a process sandbox that the kernel enforces, and those that it cannot.
#[derive(Debug, Default)]
pub struct SandboxReport {
    /// The names of the parts in force, for the operator.
    pub in_force: Vec<String>,
    /// The names of the missing parts, with the reason.
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

    /// Allows reading and writing an open file, also when it is opened again by its path.
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
    /// Call it while the process has one thread.
    ///
    /// Parts that the kernel does not support are listed in the report.
    ///
    /// # Errors
    ///
    /// Fails if a part that the kernel supports cannot be set up.
    pub fn apply(&self, profile: Profile) -> anyhow::Result<SandboxReport> {
        let mut report = SandboxReport::default();
        drop_capabilities(profile, &mut report);
        let landlock = files::restrict(&self.rules, profile, &mut report)?;
        let is_filtered = filter::install(profile, landlock, &mut report)?;
        report.is_confined = landlock > 0 && is_filtered;
        Ok(report)
    }
}

/// Drops all capabilities, except two for processes that open the operator's files.
///
/// The two let root open files of other users: roots, the audit log and the output folder may
/// be theirs. The Landlock rules limit which files these are.
fn drop_capabilities(profile: Profile, report: &mut SandboxReport) {
    let drop = || -> rustix::io::Result<bool> {
        let current = rustix::thread::capabilities(None)?;
        let had_capabilities = !current.permitted.is_empty();
        let for_files = match profile {
            Profile::Serving | Profile::Broker => {
                CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE
            }
            Profile::Child | Profile::Network => CapabilitySet::empty(),
        };
        let kept = current.effective & for_files;
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

/// Confines a process that reads a third-party component on stdin and answers on stdout. It can
/// open no file, start no process and use no network.
///
/// The process that started this one has reported the parts that the kernel does not support.
///
/// # Errors
///
/// Fails if a part that the kernel supports cannot be set up.
pub fn confine_child() -> anyhow::Result<()> {
    let report = ProcessSandbox::default().apply(Profile::Child);
    report.map(drop).context("cannot confine this process")
}

/// The files that the C library reads to resolve host names, and the folders of the libraries
/// that some versions of it load for that.
const RESOLVER_FILES: [&str; 10] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    RESOLVER,
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
];

/// The file with the addresses of name servers.
const RESOLVER: &str = "/etc/resolv.conf";

/// The folders for such files, which hold nothing secret.
const RESOLVER_FOLDERS: [&str; 2] = ["/run/resolvconf", "/run/systemd/resolve"];

/// Returns the folder of a file with name servers, if it is for such files alone. Others, such as
/// `/run/NetworkManager`, also hold secrets.
fn resolver_folder(file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    RESOLVER_FOLDERS
        .into_iter()
        .any(|known| folder == Path::new(known))
        .then_some(folder)
}

/// Confines a process that fetches from the network and answers on stdout. It can resolve host
/// names and connect over TCP. It cannot listen, use Unix sockets, open other files or start
/// processes.
///
/// The process that started this one has reported the parts that the kernel does not support.
///
/// # Errors
///
/// Fails if a part that the kernel supports cannot be set up.
pub fn confine_network() -> anyhow::Result<()> {
    let mut sandbox = RESOLVER_FILES
        .into_iter()
        .fold(ProcessSandbox::default(), ProcessSandbox::allow_read);
    // If the file is a symlink, its target may be replaced.
    let target = Path::new(RESOLVER).canonicalize();
    if let Some(folder) = target.ok().as_deref().and_then(resolver_folder) {
        sandbox = sandbox.allow_read(folder);
    }
    let report = sandbox.apply(Profile::Network);
    report.map(drop).context("cannot confine this process")
}

/// Returns the folders that symlinks in a folder lead to, searched down to a depth.
///
/// Follows no symlink, and does not search skills below the folder: their authors control the
/// symlinks in them. A skill is a folder with a file whose name `is_skill_md` accepts.
pub fn link_targets(folder: &Path, depth: usize, is_skill_md: fn(&OsStr) -> bool) -> Vec<PathBuf> {
    bounded_link_targets(folder, depth, is_skill_md, MAX_ENTRIES)
}

fn bounded_link_targets(
    folder: &Path,
    depth: usize,
    is_skill_md: fn(&OsStr) -> bool,
    max_entries: usize,
) -> Vec<PathBuf> {
    let mut targets = Vec::new();
    let mut folders = vec![(folder.to_owned(), depth, false)];
    let mut remaining = max_entries;
    while let Some((folder, depth, is_below)) = folders.pop() {
        let entries = std::fs::read_dir(folder)
            .and_then(|entries| entries.take(remaining).collect::<io::Result<Vec<_>>>())
            .unwrap_or_default();
        remaining -= entries.len();
        let is_skill = || entries.iter().any(|entry| is_skill_md(&entry.file_name()));
        // A listing that was cut off may have left out the SKILL.md.
        if is_below && (remaining == 0 || is_skill()) {
            continue;
        }
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth > 1 => {
                    folders.push((entry.path(), depth - 1, true));
                }
                Ok(kind) if kind.is_symlink() => {
                    let target = entry.path().canonicalize();
                    targets.extend(target.into_iter().filter(|target| target.is_dir()));
                }
                _ => {}
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn fetchers_read_only_folders_of_name_servers() {
        for (file, is_read) in [
            ("/run/systemd/resolve/stub-resolv.conf", true),
            ("/run/resolvconf/resolv.conf", true),
            ("/run/NetworkManager/resolv.conf", false),
            ("/run/systemd/resolv.conf", false),
            ("/run/resolv.conf", false),
            ("/etc/resolv.conf", false),
            ("/", false),
        ] {
            let folder = resolver_folder(Path::new(file));
            assert_eq!(folder.is_some(), is_read, "{file}");
        }
    }

    #[test]
    fn bounds_link_targets_by_depth_and_entries() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in ["one", "two", "three", "four", "root/a/b", "root/skill"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("file"), "").unwrap();
        fs::write(at("root/skill/doc"), "").unwrap();
        for (target, link) in [
            ("one", "root/link"),
            ("two", "root/a/link"),
            ("three", "root/a/b/link"),
            ("four", "root/skill/link"),
            ("file", "root/file"),
            ("none", "root/none"),
        ] {
            symlink(at(target), at(link)).unwrap();
        }
        let targets = |depth, max_entries| {
            let targets =
                bounded_link_targets(&at("root"), depth, |name| name == "doc", max_entries);
            let name = |target: PathBuf| target.file_name().unwrap().to_owned();
            let mut names: Vec<_> = targets.into_iter().map(name).collect();
            names.sort();
            names
        };
        assert_eq!(targets(1, 100), ["one"]);
        assert_eq!(targets(2, 100), ["one", "two"]);
        assert_eq!(targets(3, 100), ["one", "three", "two"]);
        // Five entries in the root, two in each of its folders, and one below.
        assert_eq!(targets(3, 11), ["one", "three", "two"]);
        // The entries that are cut off may hold a SKILL.md.
        assert_eq!(targets(3, 5), ["one"]);
        assert!(targets(3, 0).is_empty());
    }
}
