//! Runs scripts in a folder on disk. The kernel resolves each path beneath its handle, and refuses
//! one that leads out, like the sandbox.

use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::Errno;

use super::script::{Code, FileSystem, Status};

/// Two folders on disk.
pub(super) struct Disk {
    tops: [OwnedFd; 2],
}

impl Disk {
    pub(super) fn new(skill: &Path, temporary: &Path) -> Self {
        let open = |path: &Path| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).unwrap()
        };
        Self {
            tops: [open(skill), open(temporary)],
        }
    }
}

fn code(errno: Errno) -> Code {
    match errno {
        // `XDEV` is the kernel's error for a path that leads out.
        Errno::XDEV | Errno::PERM => "not-permitted",
        Errno::NOENT => "no-entry",
        Errno::NOTDIR => "not-directory",
        Errno::ISDIR => "is-directory",
        Errno::EXIST => "exist",
        Errno::NOTEMPTY => "not-empty",
        Errno::LOOP => "loop",
        Errno::INVAL => "invalid",
        Errno::BADF => "bad-descriptor",
        Errno::BUSY => "busy",
        _ => panic!("{errno}"),
    }
}

fn stat(fd: &OwnedFd) -> Stat {
    rustix::fs::fstat(fd).unwrap()
}

fn kind(fd: &OwnedFd) -> FileType {
    FileType::from_raw_mode(stat(fd).st_mode)
}

fn check_folder(fd: &OwnedFd) -> Result<(), Code> {
    match kind(fd) {
        FileType::Directory => Ok(()),
        _ => Err("not-directory"),
    }
}

fn check_file(fd: &OwnedFd) -> Result<(), Code> {
    match kind(fd) {
        FileType::Directory => Err("is-directory"),
        _ => Ok(()),
    }
}

fn beneath(base: &OwnedFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Code> {
    check_folder(base)?;
    loop {
        let flags = flags | OFlags::CLOEXEC;
        match rustix::fs::openat2(base, path, flags, mode, ResolveFlags::BENEATH) {
            // Something on the machine was renamed or mounted meanwhile, so the kernel could not
            // check a `..`. Try again.
            Err(Errno::AGAIN) => {}
            opened => return opened.map_err(code),
        }
    }
}

/// Opens a path with `O_PATH`.
fn open_path(base: &OwnedFd, path: &str, follow: bool) -> Result<OwnedFd, Code> {
    let flags = if follow {
        OFlags::PATH
    } else {
        OFlags::PATH | OFlags::NOFOLLOW
    };
    beneath(base, path, flags, Mode::empty())
}

/// Returns the parent folder of a path, and the last name with the slash after it.
fn parent_and_name(base: &OwnedFd, path: &str) -> Result<(OwnedFd, String), Code> {
    check_folder(base)?;
    if path.is_empty() {
        return Err("no-entry");
    }
    if path.starts_with('/') {
        return Err("not-permitted");
    }
    let trimmed = path.trim_end_matches('/');
    let (before, name) = trimmed.rsplit_once('/').unwrap_or((".", trimmed));
    if name == ".." {
        open_path(base, path, true)?;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let parent = beneath(base, &format!("{before}/"), flags, Mode::empty())?;
    Ok((parent, path[trimmed.len() - name.len()..].to_owned()))
}

fn times(accessed: Option<u64>, modified: Option<u64>) -> Timestamps {
    let time = |seconds: Option<u64>| Timespec {
        tv_sec: seconds.unwrap_or_default().try_into().unwrap(),
        tv_nsec: if seconds.is_some() { 0 } else { UTIME_OMIT },
    };
    Timestamps {
        last_access: time(accessed),
        last_modification: time(modified),
    }
}

fn status(fd: &OwnedFd) -> Status {
    let stat = stat(fd);
    Status {
        kind: letter(FileType::from_raw_mode(stat.st_mode)),
        links: stat.st_nlink,
        size: stat.st_size.try_into().unwrap(),
        modified: stat.st_mtime.try_into().unwrap(),
    }
}

fn letter(kind: FileType) -> char {
    match kind {
        FileType::RegularFile => 'f',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        _ => '?',
    }
}

impl FileSystem for Disk {
    type Handle = OwnedFd;

    fn top(&mut self, index: usize) -> Option<OwnedFd> {
        Some(self.tops.get(index)?.try_clone().unwrap())
    }

    fn open(&mut self, base: &OwnedFd, path: &str, flags: &str) -> Result<OwnedFd, Code> {
        let has = |letter| flags.contains(letter);
        check_folder(base)?;
        // Kernels before 6.4 accept `O_CREAT` with `O_DIRECTORY`.
        if has('c') && has('d') {
            return Err("invalid");
        }
        let mut open = match (has('r'), has('w')) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        for (letter, flag) in [
            ('c', OFlags::CREATE),
            ('x', OFlags::EXCL),
            ('t', OFlags::TRUNC),
            ('d', OFlags::DIRECTORY),
        ] {
            open.set(flag, has(letter));
        }
        open.set(OFlags::NOFOLLOW, !has('f'));
        let mode = if has('c') {
            Mode::RUSR | Mode::WUSR
        } else {
            Mode::empty()
        };
        beneath(base, path, open, mode)
    }

    fn read(&mut self, file: &OwnedFd, length: u64, offset: u64) -> Result<Vec<u8>, Code> {
        check_file(file)?;
        let mut bytes = vec![0; usize::try_from(length).unwrap()];
        let mut filled = 0;
        loop {
            let read = rustix::io::pread(file, &mut bytes[filled..], offset + filled as u64);
            match read.map_err(code)? {
                0 => break,
                more => filled += more,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn read_stream(&mut self, file: &OwnedFd, length: u64, offset: u64) -> Result<Vec<u8>, Code> {
        self.read(file, length, offset)
    }

    fn write(&mut self, file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<(), Code> {
        check_file(file)?;
        let written = rustix::io::pwrite(file, bytes, offset).map_err(code)?;
        assert_eq!(written, bytes.len());
        Ok(())
    }

    fn write_stream(
        &mut self,
        file: &OwnedFd,
        bytes: &[u8],
        offset: Option<u64>,
    ) -> Result<(), Code> {
        let end = stat(file).st_size.try_into().unwrap();
        self.write(file, bytes, offset.unwrap_or(end))
    }

    fn set_size(&mut self, file: &OwnedFd, size: u64) -> Result<(), Code> {
        check_file(file)?;
        // Linux returns "invalid" here. The view returns the other error that POSIX allows.
        let access = rustix::fs::fcntl_getfl(file).unwrap() & OFlags::RWMODE;
        if access == OFlags::RDONLY {
            return Err("bad-descriptor");
        }
        rustix::fs::ftruncate(file, size).map_err(code)
    }

    fn status(&mut self, file: &OwnedFd) -> Result<Status, Code> {
        Ok(status(file))
    }

    fn status_at(&mut self, base: &OwnedFd, path: &str, follow: bool) -> Result<Status, Code> {
        Ok(status(&open_path(base, path, follow)?))
    }

    fn list(&mut self, folder: &OwnedFd) -> Result<Vec<(String, char)>, Code> {
        check_folder(folder)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(code)? {
            let entry = entry.map_err(code)?;
            let name = entry.file_name().to_str().unwrap().to_owned();
            if name != "." && name != ".." {
                names.push((name, letter(entry.file_type())));
            }
        }
        Ok(names)
    }

    fn make_folder(&mut self, base: &OwnedFd, path: &str) -> Result<(), Code> {
        let (parent, name) = parent_and_name(base, path)?;
        rustix::fs::mkdirat(parent, name, Mode::RWXU).map_err(code)
    }

    fn remove_folder(&mut self, base: &OwnedFd, path: &str) -> Result<(), Code> {
        let (parent, name) = parent_and_name(base, path)?;
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).map_err(code)
    }

    fn remove_file(&mut self, base: &OwnedFd, path: &str) -> Result<(), Code> {
        let (parent, name) = parent_and_name(base, path)?;
        rustix::fs::unlinkat(parent, name, AtFlags::empty()).map_err(code)
    }

    fn rename(
        &mut self,
        base: &OwnedFd,
        path: &str,
        new_base: &OwnedFd,
        new_path: &str,
    ) -> Result<(), Code> {
        check_folder(new_base)?;
        let (parent, name) = parent_and_name(base, path)?;
        let (new_parent, new_name) = parent_and_name(new_base, new_path)?;
        rustix::fs::renameat(parent, name, new_parent, new_name).map_err(code)
    }

    fn make_link(&mut self, base: &OwnedFd, path: &str, target: &str) -> Result<(), Code> {
        check_folder(base)?;
        match target {
            "" => return Err("no-entry"),
            target if target.starts_with('/') => return Err("not-permitted"),
            _ => {}
        }
        let (parent, name) = parent_and_name(base, path)?;
        rustix::fs::symlinkat(target, parent, name).map_err(code)
    }

    fn add_name(
        &mut self,
        base: &OwnedFd,
        path: &str,
        follow: bool,
        new_base: &OwnedFd,
        new_path: &str,
    ) -> Result<(), Code> {
        check_folder(new_base)?;
        let file = open_path(base, path, follow)?;
        let (parent, name) = parent_and_name(new_base, new_path)?;
        let file = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(CWD, file, parent, name, flags).map_err(code)
    }

    fn read_link(&mut self, base: &OwnedFd, path: &str) -> Result<String, Code> {
        let link = open_path(base, path, false)?;
        if kind(&link) != FileType::Symlink {
            return Err("invalid");
        }
        let target = rustix::fs::readlinkat(&link, "", Vec::new()).map_err(code)?;
        let target = target.into_string().unwrap();
        if target.starts_with('/') {
            Err("not-permitted")
        } else {
            Ok(target)
        }
    }

    fn set_times(
        &mut self,
        file: &OwnedFd,
        accessed: Option<u64>,
        modified: Option<u64>,
    ) -> Result<(), Code> {
        rustix::fs::futimens(file, &times(accessed, modified)).map_err(code)
    }

    fn set_times_at(
        &mut self,
        base: &OwnedFd,
        path: &str,
        follow: bool,
        accessed: Option<u64>,
        modified: Option<u64>,
    ) -> Result<(), Code> {
        let file = open_path(base, path, follow)?;
        let times = times(accessed, modified);
        rustix::fs::utimensat(&file, "", &times, AtFlags::EMPTY_PATH).map_err(code)
    }

    fn is_same(&mut self, one: &OwnedFd, other: &OwnedFd) -> Result<bool, Code> {
        let (one, other) = (stat(one), stat(other));
        Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
    }

    fn lies_at(
        &mut self,
        file: &OwnedFd,
        base: &OwnedFd,
        path: &str,
        follow: bool,
    ) -> Result<bool, Code> {
        self.is_same(file, &open_path(base, path, follow)?)
    }
}

/// Lists everything in a folder: names, bytes, links and times.
pub(crate) fn listing(folder: &Path) -> String {
    let mut text = String::new();
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let metadata = entry.metadata().unwrap();
        text += &format!("{path:?} {:?}\n", metadata.modified().unwrap());
        if metadata.is_dir() {
            text += &listing(&path);
        } else if metadata.is_symlink() {
            text += &format!("{:?}\n", fs::read_link(&path).unwrap());
        } else {
            text += &format!("{:?}\n", fs::read(&path).unwrap());
        }
    }
    text
}
