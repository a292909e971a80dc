//! Attempts on the kernel and the machine.

use libc::*;

use super::attempts;
use crate::ground::{call, text, value};

const HERE: usize = AT_FDCWD as usize;
const NONE: usize = usize::MAX;

attempts! {
    "mount a file system" => |g| {
        let at = g.at("secret/mount");
        call(SYS_mount, &[text("none"), at, text("tmpfs"), 0, 0])?;
        call(SYS_umount2, &[at, MNT_DETACH as usize])
    };
    "mount a folder again" => |g| {
        let at = g.at("secret/mount");
        call(SYS_mount, &[g.at("skills"), at, 0, MS_BIND as usize, 0])?;
        call(SYS_umount2, &[at, MNT_DETACH as usize])
    };
    "unmount" => |g| call(SYS_umount2, &[g.at("secret/none"), 0]);
    "begin a file system" => |_| call(SYS_fsopen, &[text("tmpfs"), 0]);
    "configure a file system" => |g| call(SYS_fsconfig, &[g.file, 0, 0, 0, 0]);
    "mount what was begun" => |g| call(SYS_fsmount, &[g.file, 0, 0]);
    "pick a file system" => |g| call(SYS_fspick, &[HERE, g.at("secret/none"), 0]);
    "take a mount" => |g| call(SYS_open_tree, &[HERE, g.at("secret/none"), 0]);
    "move a mount" => |g| call(SYS_move_mount, &[HERE, g.at("secret/none"), HERE, g.at("secret/none"), 0]);
    "change a mount" => |g| call(SYS_mount_setattr, &[HERE, g.at("secret/none"), 0, value([0_u64; 4]), 32]);
    "change the root" => |g| call(SYS_pivot_root, &[g.at("secret/none"), g.at("secret/none")]);
    "change its root" => |g| call(SYS_chroot, &[g.at("secret/none")]);
    "swap to a file" => |g| call(SYS_swapon, &[g.at("secret/none"), 0]);
    "swap no more" => |g| call(SYS_swapoff, &[g.at("secret/none")]);
    "set a quota" => |g| call(SYS_quotactl, &[0, g.at("secret/none"), 0, 0]);
    "account for processes" => |g| call(SYS_acct, &[g.at("secret/none/none")]);

    "load a module" => |_| call(SYS_init_module, &[text("x"), 1, text("")]);
    "load a module by a descriptor" => |g| call(SYS_finit_module, &[g.file, text(""), 0]);
    "remove a module" => |_| call(SYS_delete_module, &[text("skillhost_none"), O_NONBLOCK as usize]);
    "load another kernel" => |_| call(SYS_kexec_load, &[0, 0, 0, NONE]);
    "load another kernel by a descriptor" => |_| call(SYS_kexec_file_load, &[NONE, NONE, 0, 0, NONE]);
    "run a program in the kernel" => |_| call(SYS_bpf, &[5, value([0_u64; 16]), 128]);
    "make a map in the kernel" => |_| call(SYS_bpf, &[0, value([0_u64; 16]), 128]);
    "count events" => |_| call(SYS_perf_event_open, &[value([NONE; 16]), 0, 0, NONE, 0]);
    "handle faults of pages" => |_| call(SYS_userfaultfd, &[0xffff]);
    "make a queue of file operations" => |_| call(SYS_io_setup, &[0, 0]);
    "make a ring" => |_| call(SYS_io_uring_setup, &[0, 0]);
    "enter a ring" => |g| call(SYS_io_uring_enter, &[g.file, 0, 0, 0, 0, 0]);
    "register with a ring" => |g| call(SYS_io_uring_register, &[g.file, 0, 0, 0]);
    "look at a keyring" => |_| call(SYS_keyctl, &[0, -2_isize as usize, 0]);
    "add a key" => |_| call(SYS_add_key, &[text("user"), text("skillhost"), text("x"), 1, -2_isize as usize]);
    "ask for a key" => |_| call(SYS_request_key, &[text("user"), text("skillhost-none"), 0, 0]);
    "restart the machine" => |_| call(SYS_reboot, &[0, 0, 0, 0]);
    "read the kernel's log" => |_| call(SYS_syslog, &[10, 0, 0]);
    "set the clock" => |_| call(SYS_settimeofday, &[0, 0]);
    "set a clock" => |_| call(SYS_clock_settime, &[NONE, value([0_u64; 2])]);
    "tune the clock" => |_| call(SYS_adjtimex, &[value([0_u64; 32])]);
    "tune a clock" => |_| call(SYS_clock_adjtime, &[0, value([0_u64; 32])]);
    "name the machine" => |_| call(SYS_sethostname, &[text("x"), NONE]);
    "name the machine's domain" => |_| call(SYS_setdomainname, &[text("x"), NONE]);
    "reach ports of the machine" => |_| call(SYS_iopl, &[0]);
    "reach a port of the machine" => |_| call(SYS_ioperm, &[0, 1, 0]);
    "look at a segment" => |_| call(SYS_modify_ldt, &[0, 0, 0]);
    "type into a terminal" => |g| call(SYS_ioctl, &[g.terminal, TIOCSTI as usize, text("x")]);
    "hang up its terminal" => |_| call(SYS_vhangup, &[]);
    "draw on a terminal" => |g| call(SYS_ioctl, &[g.terminal, TIOCLINUX as usize, text("\u{2}")]);
    "set a terminal" => |g| call(SYS_ioctl, &[g.terminal, TCFLSH as usize, 0]);
    "share memory" => |_| call(SYS_shmget, &[0, 0, 0o600]);
    "share a queue" => |_| call(SYS_msgget, &[0x536b, 0]);
    "share a semaphore" => |_| call(SYS_semget, &[0x536b, 1, 0]);
    "open a queue" => |_| call(SYS_mq_open, &[text("skillhost-none"), O_RDONLY as usize, 0, 0]);
    "hide memory" => |_| call(SYS_memfd_secret, &[NONE]);
    "lock memory" => |_| call(SYS_mlock, &[0, 0]);
    "make a timer" => |_| call(SYS_timer_create, &[NONE, 0, 0]);
}
