//! Attempts to read, write and change files, and to change what is known of them.

use libc::*;

use super::attempts;
use crate::ground::{Answer, Ground, call, text, value};

const HERE: usize = AT_FDCWD as usize;
const NEW: i32 = O_WRONLY | O_CREAT | O_EXCL;

/// The year 2001, twice.
const TIMES: [i64; 4] = [1_000_000_000, 0, 1_000_000_000, 0];

fn open(path: usize, flags: i32) -> Answer {
    call(SYS_openat, &[HERE, path, flags as usize, 0o600])
}

fn open_text(path: &str, flags: i32) -> Answer {
    open(text(path), flags)
}

/// Opens a path by its descriptor that gives no rights.
fn open_handle(ground: &Ground, path: &str, flags: i32) -> Answer {
    let handle = open(ground.at(path), O_PATH)?;
    open_text(&format!("/proc/self/fd/{handle}"), flags)
}

/// Watches a folder for all that happens in it.
fn watch(folder: usize) -> Answer {
    let inotify = call(SYS_inotify_init1, &[0])?;
    call(
        SYS_inotify_add_watch,
        &[inotify as usize, folder, IN_ALL_EVENTS as usize],
    )
}

attempts! {
    "keeps reading a skill" => |g| open(g.at("skills/a/SKILL.md"), O_RDONLY);
    "keeps listing the root" => |g| open(g.at("skills"), O_RDONLY | O_DIRECTORY);
    "keeps reading the cache" => |g| open(g.at("cache/entry"), O_RDONLY);
    "keeps making a file in its part of the cache" => |g| open(g.at("cache/confined/attempt"), NEW);
    "keeps removing a file of its part of the cache" => |g| call(SYS_unlinkat, &[HERE, g.at("cache/confined/attempt"), 0]);
    "keeps appending to the audit log" => |g| open(g.at("logs/audit.jsonl"), O_WRONLY | O_APPEND);

    "read a file beside the root" => |g| open(g.at("secret/file"), O_RDONLY);
    "read it by openat2" => |g| call(SYS_openat2, &[HERE, g.at("secret/file"), value([0_u64; 3]), 24]);
    "read it by open" => |g| call(SYS_open, &[g.at("secret/file"), O_RDONLY as usize]);
    "read it over the root" => |g| open(g.at("skills/../secret/file"), O_RDONLY);
    "read it through a link in the root" => |g| open(g.at("skills/a/out"), O_RDONLY);
    "read it through a link of the root" => |g| open(g.at("skills/linked/file"), O_RDONLY);
    "read it through a link in the cache" => |g| open(g.at("cache/confined/out"), O_RDONLY);
    "read it through the process's root" => |g| open_text(&format!("/proc/self/root{}", g.path("secret/file")), O_RDONLY);
    "read it by a descriptor without rights" => |g| open_handle(g, "secret/file", O_RDONLY);
    "list the folder above the root" => |g| open(g.at("."), O_RDONLY | O_DIRECTORY);
    "list a folder beside the root" => |g| open(g.at("secret"), O_RDONLY | O_DIRECTORY);
    "list the root of the machine" => |_| open_text("/", O_RDONLY | O_DIRECTORY);
    "list /tmp" => |_| open_text("/tmp", O_RDONLY | O_DIRECTORY);
    "list /proc" => |_| open_text("/proc", O_RDONLY | O_DIRECTORY);
    "list /dev" => |_| open_text("/dev", O_RDONLY | O_DIRECTORY);
    "list the current folder" => |_| open_text(".", O_RDONLY | O_DIRECTORY);
    "read the program" => |_| open_text("/proc/self/exe", O_RDONLY);
    "read /etc/hosts" => |_| open_text("/etc/hosts", O_RDONLY);
    "watch a folder beside the root" => |g| watch(g.at("secret"));
    "watch the folder above the root" => |g| watch(g.at("."));
    "watch /tmp" => |_| watch(text("/tmp"));
    "read its own environment" => |_| open_text("/proc/self/environ", O_RDONLY);
    "read its own memory as a file" => |_| open_text("/proc/self/mem", O_RDWR);
    "read its map of memory" => |_| open_text("/proc/self/maps", O_RDONLY);
    "read the first process's command" => |_| open_text("/proc/1/cmdline", O_RDONLY);
    "read the kernel's symbols" => |_| open_text("/proc/kallsyms", O_RDONLY);
    "read the machine's mounts" => |_| open_text("/proc/self/mountinfo", O_RDONLY);
    "read the open sockets" => |_| open_text("/proc/self/net/tcp", O_RDONLY);
    "read a setting of the kernel" => |_| open_text("/proc/sys/kernel/hostname", O_RDONLY);
    "write a setting of the kernel" => |_| open_text("/proc/sys/kernel/hostname", O_WRONLY);
    "write its own score" => |_| open_text("/proc/self/oom_score_adj", O_WRONLY);
    "write to /dev/null" => |_| open_text("/dev/null", O_WRONLY);
    "open /dev/zero" => |_| open_text("/dev/zero", O_RDWR);
    "write to /dev/urandom" => |_| open_text("/dev/urandom", O_WRONLY);
    "open a new terminal" => |_| open_text("/dev/ptmx", O_RDWR | O_NOCTTY);

    "write a skill" => |g| open(g.at("skills/a/SKILL.md"), O_WRONLY);
    "empty a skill" => |g| open(g.at("skills/a/cut"), O_WRONLY | O_TRUNC);
    "empty a skill without a right" => |g| open(g.at("skills/a/cut"), O_ACCMODE | O_TRUNC);
    "empty a skill while reading it" => |g| open(g.at("skills/a/cut"), O_TRUNC);
    "empty the file beside the root" => |g| open(g.at("secret/cut"), O_ACCMODE | O_TRUNC);
    "empty it by openat2" => |g| {
        let how = [(O_ACCMODE | O_TRUNC) as u64, 0, 0];
        call(SYS_openat2, &[HERE, g.at("secret/cut"), value(how), 24])
    };
    "open a device without a right" => |_| open_text("/dev/zero", O_ACCMODE);
    "append to a skill" => |g| open(g.at("skills/a/SKILL.md"), O_WRONLY | O_APPEND);
    "make a file in the root" => |g| open(g.at("skills/a/new"), NEW);
    "make a nameless file in the root" => |g| open(g.at("skills/a"), O_WRONLY | O_TMPFILE);
    "write a skill by a descriptor for reading" => |g| open_text(&format!("/proc/self/fd/{}", g.file), O_WRONLY);
    "write the file beside the root" => |g| open(g.at("secret/file"), O_WRONLY);
    "make a file beside the root" => |g| open(g.at("secret/new"), NEW);
    "make a file beside the audit log" => |g| open(g.at("logs/new"), NEW);
    "make a nameless file in /tmp" => |_| open_text("/tmp", O_WRONLY | O_TMPFILE);
    "make a file beside the output folder" => |g| open(g.at("out/attempt"), NEW);
    "make a file beside the socket" => |g| open(g.at("run/attempt"), NEW);
    "write a file beside the output folder" => |g| open(g.at("out/spare"), O_WRONLY);
    "write a file beside the socket" => |g| open(g.at("run/spare"), O_WRONLY);
    "remove a file beside the output folder" => |g| call(SYS_unlinkat, &[HERE, g.at("out/spare"), 0]);
    "remove a file beside the socket" => |g| call(SYS_unlinkat, &[HERE, g.at("run/spare"), 0]);
    "make a file by creat" => |g| call(SYS_creat, &[g.at("secret/created"), 0o600]);
    "make a file by mknod" => |g| call(SYS_mknod, &[g.at("secret/node2"), (S_IFREG | 0o600) as usize, 0]);
    "make a file by mknodat" => |g| call(SYS_mknodat, &[HERE, g.at("secret/node"), (S_IFREG | 0o600) as usize, 0]);
    "make a file in the cache of everybody" => |g| open(g.at("cache/attempt"), NEW);
    "write code that others run" => |g| open(g.at("cache/entry"), O_WRONLY);
    "make a pipe in the cache" => |g| call(SYS_mknodat, &[HERE, g.at("cache/confined/pipe"), (S_IFIFO | 0o600) as usize, 0]);
    "make a device in the cache" => |g| call(SYS_mknodat, &[HERE, g.at("cache/confined/null"), (S_IFCHR | 0o600) as usize, 0x103]);
    "make a folder in the root" => |g| call(SYS_mkdirat, &[HERE, g.at("skills/new"), 0o700]);
    "make a folder in the cache" => |g| call(SYS_mkdirat, &[HERE, g.at("cache/confined/new"), 0o700]);
    "make a folder beside the root" => |g| call(SYS_mkdir, &[g.at("secret/folder"), 0o700]);
    "remove a skill's file" => |g| call(SYS_unlinkat, &[HERE, g.at("skills/a/spare"), 0]);
    "remove a file by unlink" => |g| call(SYS_unlink, &[g.at("secret/spare")]);
    "remove a folder" => |g| call(SYS_unlinkat, &[HERE, g.at("secret/empty"), AT_REMOVEDIR as usize]);
    "remove a folder by rmdir" => |g| call(SYS_rmdir, &[g.at("secret/empty2")]);
    "remove the audit log" => |g| call(SYS_unlinkat, &[HERE, g.at("logs/audit.jsonl"), 0]);
    "rename in the root" => |g| call(SYS_renameat, &[HERE, g.at("skills/a/first"), HERE, g.at("skills/a/renamed")]);
    "rename by renameat2" => |g| call(SYS_renameat2, &[HERE, g.at("secret/first"), HERE, g.at("secret/renamed"), 0]);
    "rename by rename" => |g| call(SYS_rename, &[g.at("secret/second"), g.at("secret/renamed2")]);
    "rename out of the cache" => |g| call(SYS_renameat, &[HERE, g.at("cache/confined/entry"), HERE, g.at("secret/entry")]);
    "rename into the cache" => |g| call(SYS_renameat, &[HERE, g.at("secret/third"), HERE, g.at("cache/confined/third")]);
    "link into the cache" => |g| call(SYS_linkat, &[HERE, g.at("secret/file"), HERE, g.at("cache/confined/linked"), 0]);
    "link by link" => |g| call(SYS_link, &[g.at("secret/file"), g.at("secret/linked")]);
    "make a symlink in the cache" => |g| call(SYS_symlinkat, &[text("/etc"), HERE, g.at("cache/confined/etc")]);
    "make a symlink by symlink" => |g| call(SYS_symlink, &[text("/etc"), g.at("secret/etc")]);
    "cut a file" => |g| call(SYS_truncate, &[g.at("secret/cut"), 1]);
    "cut a skill" => |g| call(SYS_truncate, &[g.at("skills/a/cut"), 1]);

    "change a mode" => |g| call(SYS_chmod, &[g.at("secret/mode"), 0o644]);
    "change a mode by a descriptor" => |g| call(SYS_fchmod, &[g.file, 0o640]);
    "change a mode by fchmodat" => |g| call(SYS_fchmodat, &[HERE, g.at("skills/a/mode"), 0o640]);
    "change a mode by fchmodat2" => |g| call(SYS_fchmodat2, &[HERE, g.at("secret/mode"), 0o640, 0]);
    "change a mode in the cache" => |g| call(SYS_fchmodat, &[HERE, g.at("cache/confined/entry2"), 0o666]);
    "change an owner" => |g| call(SYS_chown, &[g.at("secret/mode"), usize::MAX, usize::MAX]);
    "change an owner by a descriptor" => |g| call(SYS_fchown, &[g.file, usize::MAX, usize::MAX]);
    "change the owner of a link" => |g| call(SYS_lchown, &[g.at("skills/a/out"), usize::MAX, usize::MAX]);
    "change an owner by fchownat" => |g| call(SYS_fchownat, &[HERE, g.at("skills/a/mode"), usize::MAX, usize::MAX, 0]);
    "change times" => |g| call(SYS_utimensat, &[HERE, g.at("skills/a/mode"), value(TIMES), 0]);
    "change times by a descriptor" => |g| call(SYS_utimensat, &[g.file, 0, value(TIMES), 0]);
    "change times by utime" => |g| call(SYS_utime, &[g.at("secret/mode"), value(TIMES)]);
    "change times by utimes" => |g| call(SYS_utimes, &[g.at("secret/mode"), value(TIMES)]);
    "change times by futimesat" => |g| call(SYS_futimesat, &[HERE, g.at("secret/mode"), value(TIMES)]);
    "set an attribute" => |g| call(SYS_setxattr, &[g.at("secret/mode"), text("user.a"), text("b"), 1, 0]);
    "set an attribute by a descriptor" => |g| call(SYS_fsetxattr, &[g.file, text("user.a"), text("b"), 1, 0]);
    "set an attribute of a link" => |g| call(SYS_lsetxattr, &[g.at("skills/a/mode"), text("user.a"), text("b"), 1, 0]);
    "remove an attribute" => |g| call(SYS_removexattr, &[g.at("secret/mode"), text("user.none")]);
    "remove an attribute by a descriptor" => |g| call(SYS_fremovexattr, &[g.file, text("user.none")]);
    "remove an attribute of a link" => |g| call(SYS_lremovexattr, &[g.at("skills/a/mode"), text("user.none")]);
    "set a file's flags" => |g| call(SYS_ioctl, &[g.file, FS_IOC_SETFLAGS as usize, value(0_u64)]);
    "change the current folder" => |g| call(SYS_chdir, &[g.at("secret")]);
    "change the current folder by a descriptor" => |g| {
        let folder = open(g.at("secret"), O_PATH)?;
        call(SYS_fchdir, &[folder as usize])
    };
    "change the mask of new files" => |_| call(SYS_umask, &[0o077]);
    "look at a file system" => |g| call(SYS_statfs, &[g.at("secret"), value([0_u64; 32])]);
    "find a file's number" => |g| call(SYS_name_to_handle_at, &[HERE, g.at("secret/file"), value([128_u32; 64]), value(0_u64), 0]);
    "open a file by its number" => |_| call(SYS_open_by_handle_at, &[HERE, value([0_u32; 64]), 0]);
    "watch all files" => |_| call(SYS_fanotify_init, &[0, 0]);
    "watch one of all files" => |g| call(SYS_fanotify_mark, &[g.file, 0, 0, HERE, 0]);
    "lease a file" => |g| call(SYS_fcntl, &[g.file, F_SETLEASE as usize, F_UNLCK as usize]);
    "have a folder signal" => |g| {
        let folder = open(g.at("skills"), O_RDONLY | O_DIRECTORY)?;
        call(SYS_fcntl, &[folder as usize, F_NOTIFY as usize, 0])
    };
}
