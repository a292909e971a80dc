//! Escapes that read, write and change files and their attributes.

use libc::*;

use super::escapes;
use crate::targets::{Answer, Targets, call, text, value};

const HERE: usize = AT_FDCWD as usize;
const NEW: i32 = O_WRONLY | O_CREAT | O_EXCL;

/// Two times in the year 2001: of access and of modification.
const TIMES: [i64; 4] = [1_000_000_000, 0, 1_000_000_000, 0];

fn open(path: usize, flags: i32) -> Answer {
    call(SYS_openat, &[HERE, path, flags as usize, 0o600])
}

fn open_text(path: &str, flags: i32) -> Answer {
    open(text(path), flags)
}

/// Opens a path through an `O_PATH` descriptor of the same file.
fn open_handle(targets: &Targets, path: &str, flags: i32) -> Answer {
    let handle = open(targets.at(path), O_PATH)?;
    open_text(&format!("/proc/self/fd/{handle}"), flags)
}

/// Watches a folder for all events.
fn watch(folder: usize) -> Answer {
    let inotify = call(SYS_inotify_init1, &[0])?;
    call(
        SYS_inotify_add_watch,
        &[inotify as usize, folder, IN_ALL_EVENTS as usize],
    )
}

escapes! {
    "keeps reading a skill" => |t| open(t.at("skills/a/SKILL.md"), O_RDONLY);
    "keeps listing the root" => |t| open(t.at("skills"), O_RDONLY | O_DIRECTORY);
    "keeps reading the cache" => |t| open(t.at("cache/entry"), O_RDONLY);
    "keeps creating a file in the confined cache" => |t| open(t.at("cache/confined/new"), NEW);
    "keeps removing a file in the confined cache" => |t| call(SYS_unlinkat, &[HERE, t.at("cache/confined/new"), 0]);
    "keeps appending to the audit log" => |t| open(t.at("logs/audit.jsonl"), O_WRONLY | O_APPEND);

    "read a file beside the root" => |t| open(t.at("secret/file"), O_RDONLY);
    "read it by openat2" => |t| call(SYS_openat2, &[HERE, t.at("secret/file"), value([0_u64; 3]), 24]);
    "read it by open" => |t| call(SYS_open, &[t.at("secret/file"), O_RDONLY as usize]);
    "read it through `..` from the root" => |t| open(t.at("skills/../secret/file"), O_RDONLY);
    "read it through a symlink in a skill" => |t| open(t.at("skills/a/out"), O_RDONLY);
    "read it through a symlink in the root" => |t| open(t.at("skills/linked/file"), O_RDONLY);
    "read it through a symlink in the cache" => |t| open(t.at("cache/confined/out"), O_RDONLY);
    "read it through /proc/self/root" => |t| open_text(&format!("/proc/self/root{}", t.path("secret/file")), O_RDONLY);
    "read it through an O_PATH descriptor" => |t| open_handle(t, "secret/file", O_RDONLY);
    "list the folder above the root" => |t| open(t.at("."), O_RDONLY | O_DIRECTORY);
    "list a folder beside the root" => |t| open(t.at("secret"), O_RDONLY | O_DIRECTORY);
    "list the root of the machine" => |_| open_text("/", O_RDONLY | O_DIRECTORY);
    "list /tmp" => |_| open_text("/tmp", O_RDONLY | O_DIRECTORY);
    "list /proc" => |_| open_text("/proc", O_RDONLY | O_DIRECTORY);
    "list /dev" => |_| open_text("/dev", O_RDONLY | O_DIRECTORY);
    "list the current folder" => |_| open_text(".", O_RDONLY | O_DIRECTORY);
    "read the program" => |_| open_text("/proc/self/exe", O_RDONLY);
    "read /etc/hosts" => |_| open_text("/etc/hosts", O_RDONLY);
    "watch a folder beside the root" => |t| watch(t.at("secret"));
    "watch the folder above the root" => |t| watch(t.at("."));
    "watch /tmp" => |_| watch(text("/tmp"));
    "read its own environment" => |_| open_text("/proc/self/environ", O_RDONLY);
    "read its own memory as a file" => |_| open_text("/proc/self/mem", O_RDWR);
    "read its memory map" => |_| open_text("/proc/self/maps", O_RDONLY);
    "read the command of process 1" => |_| open_text("/proc/1/cmdline", O_RDONLY);
    "read the kernel's symbols" => |_| open_text("/proc/kallsyms", O_RDONLY);
    "read the mounts" => |_| open_text("/proc/self/mountinfo", O_RDONLY);
    "read the open sockets" => |_| open_text("/proc/self/net/tcp", O_RDONLY);
    "read a kernel setting" => |_| open_text("/proc/sys/kernel/hostname", O_RDONLY);
    "write a kernel setting" => |_| open_text("/proc/sys/kernel/hostname", O_WRONLY);
    "write its own OOM score" => |_| open_text("/proc/self/oom_score_adj", O_WRONLY);
    "write to /dev/null" => |_| open_text("/dev/null", O_WRONLY);
    "open /dev/zero" => |_| open_text("/dev/zero", O_RDWR);
    "write to /dev/urandom" => |_| open_text("/dev/urandom", O_WRONLY);
    "open a new terminal" => |_| open_text("/dev/ptmx", O_RDWR | O_NOCTTY);

    "write a skill" => |t| open(t.at("skills/a/SKILL.md"), O_WRONLY);
    "truncate a skill" => |t| open(t.at("skills/a/cut"), O_WRONLY | O_TRUNC);
    "truncate a skill without access" => |t| open(t.at("skills/a/cut"), O_ACCMODE | O_TRUNC);
    "truncate a skill while reading" => |t| open(t.at("skills/a/cut"), O_TRUNC);
    "truncate a file beside the root" => |t| open(t.at("secret/cut"), O_ACCMODE | O_TRUNC);
    "truncate it by openat2" => |t| {
        let how = [(O_ACCMODE | O_TRUNC) as u64, 0, 0];
        call(SYS_openat2, &[HERE, t.at("secret/cut"), value(how), 24])
    };
    "open a device without access" => |_| open_text("/dev/zero", O_ACCMODE);
    "append to a skill" => |t| open(t.at("skills/a/SKILL.md"), O_WRONLY | O_APPEND);
    "create a file in the root" => |t| open(t.at("skills/a/new"), NEW);
    "create an unnamed file in the root" => |t| open(t.at("skills/a"), O_WRONLY | O_TMPFILE);
    "write a skill through a read-only descriptor" => |t| open_text(&format!("/proc/self/fd/{}", t.file), O_WRONLY);
    "write the file beside the root" => |t| open(t.at("secret/file"), O_WRONLY);
    "create a file beside the root" => |t| open(t.at("secret/new"), NEW);
    "create a file beside the audit log" => |t| open(t.at("logs/new"), NEW);
    "create an unnamed file in /tmp" => |_| open_text("/tmp", O_WRONLY | O_TMPFILE);
    "create a file beside the output folder" => |t| open(t.at("out/new"), NEW);
    "create a file beside the socket" => |t| open(t.at("run/new"), NEW);
    "write a file beside the output folder" => |t| open(t.at("out/spare"), O_WRONLY);
    "write a file beside the socket" => |t| open(t.at("run/spare"), O_WRONLY);
    "remove a file beside the output folder" => |t| call(SYS_unlinkat, &[HERE, t.at("out/spare"), 0]);
    "remove a file beside the socket" => |t| call(SYS_unlinkat, &[HERE, t.at("run/spare"), 0]);
    "create a file by creat" => |t| call(SYS_creat, &[t.at("secret/created"), 0o600]);
    "create a file by mknod" => |t| call(SYS_mknod, &[t.at("secret/node2"), (S_IFREG | 0o600) as usize, 0]);
    "create a file by mknodat" => |t| call(SYS_mknodat, &[HERE, t.at("secret/node"), (S_IFREG | 0o600) as usize, 0]);
    "create a file in the shared cache" => |t| open(t.at("cache/new"), NEW);
    "write compiled code in the shared cache" => |t| open(t.at("cache/entry"), O_WRONLY);
    "create a FIFO in the cache" => |t| call(SYS_mknodat, &[HERE, t.at("cache/confined/pipe"), (S_IFIFO | 0o600) as usize, 0]);
    "create a device in the cache" => |t| call(SYS_mknodat, &[HERE, t.at("cache/confined/null"), (S_IFCHR | 0o600) as usize, 0x103]);
    "create a folder in the root" => |t| call(SYS_mkdirat, &[HERE, t.at("skills/new"), 0o700]);
    "create a folder in the cache" => |t| call(SYS_mkdirat, &[HERE, t.at("cache/confined/new"), 0o700]);
    "create a folder beside the root" => |t| call(SYS_mkdir, &[t.at("secret/folder"), 0o700]);
    "remove a skill's file" => |t| call(SYS_unlinkat, &[HERE, t.at("skills/a/spare"), 0]);
    "remove a file by unlink" => |t| call(SYS_unlink, &[t.at("secret/spare")]);
    "remove a folder" => |t| call(SYS_unlinkat, &[HERE, t.at("secret/empty"), AT_REMOVEDIR as usize]);
    "remove a folder by rmdir" => |t| call(SYS_rmdir, &[t.at("secret/empty2")]);
    "remove the audit log" => |t| call(SYS_unlinkat, &[HERE, t.at("logs/audit.jsonl"), 0]);
    "rename a file in the root" => |t| call(SYS_renameat, &[HERE, t.at("skills/a/first"), HERE, t.at("skills/a/renamed")]);
    "rename a file by renameat2" => |t| call(SYS_renameat2, &[HERE, t.at("secret/first"), HERE, t.at("secret/renamed"), 0]);
    "rename a file by rename" => |t| call(SYS_rename, &[t.at("secret/second"), t.at("secret/renamed2")]);
    "rename a file out of the cache" => |t| call(SYS_renameat, &[HERE, t.at("cache/confined/entry"), HERE, t.at("secret/entry")]);
    "rename a file into the cache" => |t| call(SYS_renameat, &[HERE, t.at("secret/third"), HERE, t.at("cache/confined/third")]);
    "create a hard link in the cache" => |t| call(SYS_linkat, &[HERE, t.at("secret/file"), HERE, t.at("cache/confined/linked"), 0]);
    "create a hard link by link" => |t| call(SYS_link, &[t.at("secret/file"), t.at("secret/linked")]);
    "create a symlink in the cache" => |t| call(SYS_symlinkat, &[text("/etc"), HERE, t.at("cache/confined/etc")]);
    "create a symlink by symlink" => |t| call(SYS_symlink, &[text("/etc"), t.at("secret/etc")]);
    "truncate a file by its path" => |t| call(SYS_truncate, &[t.at("secret/cut"), 1]);
    "truncate a skill by its path" => |t| call(SYS_truncate, &[t.at("skills/a/cut"), 1]);

    "change a mode" => |t| call(SYS_chmod, &[t.at("secret/mode"), 0o644]);
    "change a mode by a descriptor" => |t| call(SYS_fchmod, &[t.file, 0o640]);
    "change a mode by fchmodat" => |t| call(SYS_fchmodat, &[HERE, t.at("skills/a/mode"), 0o640]);
    "change a mode by fchmodat2" => |t| call(SYS_fchmodat2, &[HERE, t.at("secret/mode"), 0o640, 0]);
    "change a mode in the cache" => |t| call(SYS_fchmodat, &[HERE, t.at("cache/confined/entry2"), 0o666]);
    "change an owner" => |t| call(SYS_chown, &[t.at("secret/mode"), usize::MAX, usize::MAX]);
    "change an owner by a descriptor" => |t| call(SYS_fchown, &[t.file, usize::MAX, usize::MAX]);
    "change the owner of a symlink" => |t| call(SYS_lchown, &[t.at("skills/a/out"), usize::MAX, usize::MAX]);
    "change an owner by fchownat" => |t| call(SYS_fchownat, &[HERE, t.at("skills/a/mode"), usize::MAX, usize::MAX, 0]);
    "change times" => |t| call(SYS_utimensat, &[HERE, t.at("skills/a/mode"), value(TIMES), 0]);
    "change times by a descriptor" => |t| call(SYS_utimensat, &[t.file, 0, value(TIMES), 0]);
    "change times by utime" => |t| call(SYS_utime, &[t.at("secret/mode"), value(TIMES)]);
    "change times by utimes" => |t| call(SYS_utimes, &[t.at("secret/mode"), value(TIMES)]);
    "change times by futimesat" => |t| call(SYS_futimesat, &[HERE, t.at("secret/mode"), value(TIMES)]);
    "set an extended attribute" => |t| call(SYS_setxattr, &[t.at("secret/mode"), text("user.a"), text("b"), 1, 0]);
    "set an extended attribute by a descriptor" => |t| call(SYS_fsetxattr, &[t.file, text("user.a"), text("b"), 1, 0]);
    "set an extended attribute of a symlink" => |t| call(SYS_lsetxattr, &[t.at("skills/a/mode"), text("user.a"), text("b"), 1, 0]);
    "remove an extended attribute" => |t| call(SYS_removexattr, &[t.at("secret/mode"), text("user.none")]);
    "remove an extended attribute by a descriptor" => |t| call(SYS_fremovexattr, &[t.file, text("user.none")]);
    "remove an extended attribute of a symlink" => |t| call(SYS_lremovexattr, &[t.at("skills/a/mode"), text("user.none")]);
    "set a file's flags" => |t| call(SYS_ioctl, &[t.file, FS_IOC_SETFLAGS as usize, value(0_u64)]);
    "change the current folder" => |t| call(SYS_chdir, &[t.at("secret")]);
    "change the current folder by a descriptor" => |t| {
        let folder = open(t.at("secret"), O_PATH)?;
        call(SYS_fchdir, &[folder as usize])
    };
    "change the umask" => |_| call(SYS_umask, &[0o077]);
    "read the status of a file system" => |t| call(SYS_statfs, &[t.at("secret"), value([0_u64; 32])]);
    "get the handle of a file" => |t| call(SYS_name_to_handle_at, &[HERE, t.at("secret/file"), value([128_u32; 64]), value(0_u64), 0]);
    "open a file by its handle" => |_| call(SYS_open_by_handle_at, &[HERE, value([0_u32; 64]), 0]);
    "watch all files with fanotify" => |_| call(SYS_fanotify_init, &[0, 0]);
    "watch one file with fanotify" => |t| call(SYS_fanotify_mark, &[t.file, 0, 0, HERE, 0]);
    "lease a file" => |t| call(SYS_fcntl, &[t.file, F_SETLEASE as usize, F_UNLCK as usize]);
    "have a folder signal changes" => |t| {
        let folder = open(t.at("skills"), O_RDONLY | O_DIRECTORY)?;
        call(SYS_fcntl, &[folder as usize, F_NOTIFY as usize, 0])
    };
}
