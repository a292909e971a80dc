//! Escapes that use or attack the kernel and the machine.

use libc::*;

use super::escapes;
use crate::targets::{call, text, value};

const HERE: usize = AT_FDCWD as usize;
const NONE: usize = usize::MAX;

escapes! {
    "mount a file system" => |t| {
        let at = t.at("secret/mount");
        call(SYS_mount, &[text("none"), at, text("tmpfs"), 0, 0])?;
        call(SYS_umount2, &[at, MNT_DETACH as usize])
    };
    "bind-mount a folder" => |t| {
        let at = t.at("secret/mount");
        call(SYS_mount, &[t.at("skills"), at, 0, MS_BIND as usize, 0])?;
        call(SYS_umount2, &[at, MNT_DETACH as usize])
    };
    "unmount" => |t| call(SYS_umount2, &[t.at("secret/none"), 0]);
    "create a file system context" => |_| call(SYS_fsopen, &[text("tmpfs"), 0]);
    "configure a file system context" => |t| call(SYS_fsconfig, &[t.file, 0, 0, 0, 0]);
    "mount a file system context" => |t| call(SYS_fsmount, &[t.file, 0, 0]);
    "pick a mounted file system" => |t| call(SYS_fspick, &[HERE, t.at("secret/none"), 0]);
    "open a mount tree" => |t| call(SYS_open_tree, &[HERE, t.at("secret/none"), 0]);
    "move a mount" => |t| call(SYS_move_mount, &[HERE, t.at("secret/none"), HERE, t.at("secret/none"), 0]);
    "change a mount" => |t| call(SYS_mount_setattr, &[HERE, t.at("secret/none"), 0, value([0_u64; 4]), 32]);
    "change the root mount" => |t| call(SYS_pivot_root, &[t.at("secret/none"), t.at("secret/none")]);
    "change the root of the process" => |t| call(SYS_chroot, &[t.at("secret/none")]);
    "turn swap on" => |t| call(SYS_swapon, &[t.at("secret/none"), 0]);
    "turn swap off" => |t| call(SYS_swapoff, &[t.at("secret/none")]);
    "set a quota" => |t| call(SYS_quotactl, &[0, t.at("secret/none"), 0, 0]);
    "turn process accounting on" => |t| call(SYS_acct, &[t.at("secret/none/none")]);

    "load a kernel module" => |_| call(SYS_init_module, &[text("x"), 1, text("")]);
    "load a kernel module by a descriptor" => |t| call(SYS_finit_module, &[t.file, text(""), 0]);
    "remove a kernel module" => |_| call(SYS_delete_module, &[text("skillhost_none"), O_NONBLOCK as usize]);
    "load another kernel" => |_| call(SYS_kexec_load, &[0, 0, 0, NONE]);
    "load another kernel by a descriptor" => |_| call(SYS_kexec_file_load, &[NONE, NONE, 0, 0, NONE]);
    "load a BPF program" => |_| call(SYS_bpf, &[5, value([0_u64; 16]), 128]);
    "create a BPF map" => |_| call(SYS_bpf, &[0, value([0_u64; 16]), 128]);
    "open a perf event" => |_| call(SYS_perf_event_open, &[value([NONE; 16]), 0, 0, NONE, 0]);
    "handle page faults" => |_| call(SYS_userfaultfd, &[0xffff]);
    "set up asynchronous I/O" => |_| call(SYS_io_setup, &[0, 0]);
    "set up io_uring" => |_| call(SYS_io_uring_setup, &[0, 0]);
    "enter io_uring" => |t| call(SYS_io_uring_enter, &[t.file, 0, 0, 0, 0, 0]);
    "register with io_uring" => |t| call(SYS_io_uring_register, &[t.file, 0, 0, 0]);
    "read a keyring" => |_| call(SYS_keyctl, &[0, -2_isize as usize, 0]);
    "add a key" => |_| call(SYS_add_key, &[text("user"), text("skillhost"), text("x"), 1, -2_isize as usize]);
    "request a key" => |_| call(SYS_request_key, &[text("user"), text("skillhost-none"), 0, 0]);
    "restart the machine" => |_| call(SYS_reboot, &[0, 0, 0, 0]);
    "read the kernel's log" => |_| call(SYS_syslog, &[10, 0, 0]);
    "set the clock" => |_| call(SYS_settimeofday, &[0, 0]);
    "set a POSIX clock" => |_| call(SYS_clock_settime, &[NONE, value([0_u64; 2])]);
    "adjust the clock" => |_| call(SYS_adjtimex, &[value([0_u64; 32])]);
    "adjust a POSIX clock" => |_| call(SYS_clock_adjtime, &[0, value([0_u64; 32])]);
    "set the host name" => |_| call(SYS_sethostname, &[text("x"), NONE]);
    "set the domain name" => |_| call(SYS_setdomainname, &[text("x"), NONE]);
    "use all I/O ports" => |_| call(SYS_iopl, &[0]);
    "use an I/O port" => |_| call(SYS_ioperm, &[0, 1, 0]);
    "read a segment descriptor" => |_| call(SYS_modify_ldt, &[0, 0, 0]);
    "type into a terminal" => |t| call(SYS_ioctl, &[t.terminal, TIOCSTI as usize, text("x")]);
    "hang up the terminal" => |_| call(SYS_vhangup, &[]);
    "control the console" => |t| call(SYS_ioctl, &[t.terminal, TIOCLINUX as usize, text("\u{2}")]);
    "flush a terminal" => |t| call(SYS_ioctl, &[t.terminal, TCFLSH as usize, 0]);
    "ask for the written pages of this process" => |t| call(SYS_ioctl, &[t.file, 0xc060_6610, value([0_u64; 12])]);
    "create shared memory" => |_| call(SYS_shmget, &[0, 0, 0o600]);
    "create a message queue" => |_| call(SYS_msgget, &[0x536b, 0]);
    "create a semaphore" => |_| call(SYS_semget, &[0x536b, 1, 0]);
    "open a POSIX message queue" => |_| call(SYS_mq_open, &[text("skillhost-none"), O_RDONLY as usize, 0, 0]);
    "create secret memory" => |_| call(SYS_memfd_secret, &[NONE]);
    "lock memory" => |_| call(SYS_mlock, &[0, 0]);
    "create a timer" => |_| call(SYS_timer_create, &[NONE, 0, 0]);
}
