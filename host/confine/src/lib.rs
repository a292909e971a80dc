//! The wall around the program's own process: what it may still ask the kernel for once
//! it has opened what it needs. `files` has the Landlock rules, `filter` the system
//! calls, `descriptors` what the process was started with, `signals` those that are not
//! for it, `broker` the process outside that opens and starts what this one may not.
//! Not here: which files a verb needs; `host/cli/src/wall.rs` lists them.

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

pub use descriptors::{close_inherited, note_inherited};
pub use filter::Profile;
pub use signals::{ignore_end_of_server, ignore_file_size_limit};
pub use socket_file::SocketFile;

/// Most entries that are looked at for symlinks. Guards against: a tree of millions of
/// files.
const MOST_ENTRIES: usize = 100_000;

/// The files and folders that a process keeps.
#[derive(Debug, Default)]
pub struct Wall {
    rules: Vec<files::Rule>,
}

/// The parts of a wall that the kernel set up, and those that it could not.
#[derive(Debug, Default)]
pub struct WallReport {
    /// The parts in force, for the operator.
    pub in_force: Vec<String>,
    /// The parts that are missing, and why.
    pub missing: Vec<String>,
}

impl Wall {
    /// Lets the process read a file, or a folder and everything below it, if it is there.
    #[must_use]
    pub fn read(self, path: impl AsRef<Path>) -> Self {
        self.at(path.as_ref(), files::Kind::Read)
    }

    /// Lets the process read an open folder and everything below it.
    #[must_use]
    pub fn read_folder(self, folder: OwnedFd) -> Self {
        self.add(folder, files::Kind::Read)
    }

    /// Lets the process write an open file, by its path too.
    #[must_use]
    pub fn write_file(self, file: OwnedFd) -> Self {
        self.add(file, files::Kind::WriteFile)
    }

    /// Lets the process make, replace and remove files in an open folder.
    #[must_use]
    pub fn keep_files(self, folder: OwnedFd) -> Self {
        self.add(folder, files::Kind::KeepFiles)
    }

    /// Lets the process make new folders, and files in them, below a folder.
    fn make_files(self, folder: &Path) -> Self {
        self.at(folder, files::Kind::MakeFiles)
    }

    /// Lets the process remove files in a folder.
    fn remove_files(self, folder: &Path) -> Self {
        self.at(folder, files::Kind::RemoveFiles)
    }

    fn at(self, path: &Path, kind: files::Kind) -> Self {
        match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(place) => self.add(place, kind),
            Err(_) => self,
        }
    }

    fn add(mut self, place: OwnedFd, kind: files::Kind) -> Self {
        self.rules.push(files::Rule { place, kind });
        self
    }

    /// Confines the calling thread, and all threads and processes that it starts from
    /// now on. Call it before the process has other threads.
    ///
    /// # Errors
    ///
    /// If a part that this kernel has cannot be set up. A part that it lacks is in the
    /// report.
    pub fn raise(&self, profile: Profile) -> anyhow::Result<WallReport> {
        let mut report = WallReport::default();
        drop_capabilities(profile, &mut report);
        let landlock = files::restrict(&self.rules, profile, &mut report)?;
        filter::install(profile, landlock, &mut report)?;
        Ok(report)
    }
}

/// Drops all capabilities. Those that open the operator's files keep the ones by which root
/// opens files of other users: roots, the audit log and the output folder may be theirs. The
/// rules for files bound what they can be used for.
fn drop_capabilities(profile: Profile, report: &mut WallReport) {
    let drop = || -> rustix::io::Result<bool> {
        let have = rustix::thread::capabilities(None)?;
        let any = !have.permitted.is_empty();
        let of_files = match profile {
            Profile::Serving | Profile::Broker => {
                CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE
            }
            Profile::Child | Profile::Network => CapabilitySet::empty(),
        };
        let keep = have.effective & of_files;
        let kept = CapabilitySets {
            effective: keep,
            permitted: keep,
            inheritable: CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, kept)?;
        Ok(any)
    };
    match drop() {
        Ok(true) => report.in_force.push("capabilities dropped".to_owned()),
        Ok(false) => {}
        Err(error) => report
            .missing
            .push(format!("capabilities cannot be dropped ({error})")),
    }
}

/// Confines a process that reads a stranger's component on stdin and answers on stdout:
/// it opens nothing, starts nothing and reaches nothing. Parts that the kernel lacks are
/// left out: the process that started it has said so.
///
/// # Errors
///
/// If a part that this kernel has cannot be set up.
pub fn confine_child() -> anyhow::Result<()> {
    let report = Wall::default().raise(Profile::Child);
    report.map(drop).context("cannot confine this process")
}

/// The files by which the C library finds the address of a name. The folders have the libraries
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

/// Confines a process that fetches from the network and answers on stdout: it makes connections
/// over TCP, resolves names, and reads the files for that. It listens nowhere, reaches no Unix
/// socket, opens no other file and starts nothing. Parts that the kernel lacks are left out: the
/// process that started it has said so.
///
/// # Errors
///
/// If a part that this kernel has cannot be set up.
pub fn confine_network() -> anyhow::Result<()> {
    let mut wall = RESOLVER_FILES.into_iter().fold(Wall::default(), Wall::read);
    // Whoever keeps it elsewhere puts new files into its place there.
    let real = Path::new(RESOLVER).canonicalize();
    let folder = real.as_ref().ok().and_then(|real| real.parent());
    if let Some(folder) = folder.filter(|folder| *folder != Path::new("/etc")) {
        wall = wall.read(folder);
    }
    let report = wall.raise(Profile::Network);
    report.map(drop).context("cannot confine this process")
}

/// Returns the folders that symlinks in a folder lead to, down to a depth. It follows no
/// link, and does not look into skills below it, which are folders with a file of such a
/// name: their links are their authors'.
pub fn link_targets(folder: &Path, depth: usize, is_skill_md: fn(&OsStr) -> bool) -> Vec<PathBuf> {
    link_targets_of(folder, depth, is_skill_md, MOST_ENTRIES)
}

fn link_targets_of(
    folder: &Path,
    depth: usize,
    is_skill_md: fn(&OsStr) -> bool,
    most_entries: usize,
) -> Vec<PathBuf> {
    let mut targets = Vec::new();
    let mut folders = vec![(folder.to_owned(), depth, false)];
    let mut left = most_entries;
    while let Some((folder, depth, is_below)) = folders.pop() {
        let entries = std::fs::read_dir(folder);
        let entries =
            entries.and_then(|entries| entries.take(left).collect::<io::Result<Vec<_>>>());
        let entries = entries.unwrap_or_default();
        left -= entries.len();
        let is_skill = || entries.iter().any(|entry| is_skill_md(&entry.file_name()));
        // The name may be among the entries that are left out.
        if is_below && (left == 0 || is_skill()) {
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
    fn links_are_looked_for_down_to_a_depth_and_among_so_many_entries() {
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
        let targets = |depth, most| {
            let targets = link_targets_of(&at("root"), depth, |name| name == "doc", most);
            let name = |target: PathBuf| target.file_name().unwrap().to_owned();
            let mut names: Vec<_> = targets.into_iter().map(name).collect();
            names.sort();
            names
        };
        assert_eq!(targets(1, 100), ["one"]);
        assert_eq!(targets(2, 100), ["one", "two"]);
        assert_eq!(targets(3, 100), ["one", "three", "two"]);
        // The five of the root, two of each of the folders in it, and one below.
        assert_eq!(targets(3, 11), ["one", "three", "two"]);
        // There could be a document among the last entries of any folder that is cut.
        assert_eq!(targets(3, 5), ["one"]);
        assert!(targets(3, 0).is_empty());
    }
}
