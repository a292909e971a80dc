//! Escapes that signal, read, write and start processes, or change the rights of their own process.

use libc::*;

use super::escapes;
use crate::targets::{Answer, Targets, call, fork_by, text, value, vfork};

/// A signal that does nothing to the victim.
const HARMLESS: usize = SIGCONT as usize;

const NONE: usize = usize::MAX;

fn open(path: usize, flags: i32) -> Answer {
    call(SYS_openat, &[AT_FDCWD as usize, path, flags as usize])
}

/// Returns a pidfd of the victim, or an invalid descriptor.
fn pidfd(targets: &Targets) -> usize {
    call(SYS_pidfd_open, &[targets.victim, 0]).map_or(NONE, |pidfd| pidfd as usize)
}

/// Creates a process. `EPERM` means that the call reached the kernel: the filter did not stop it.
fn clone(flags: i32) -> Answer {
    match fork_by(SYS_clone, &[(flags | SIGCHLD) as usize]) {
        Err(EPERM) => Ok(0),
        answer => answer,
    }
}

fn unshare(flags: i32) -> Answer {
    call(SYS_unshare, &[flags as usize])
}

/// Returns the address of a `siginfo_t` for a queued signal.
fn signal_info() -> usize {
    let mut information = [0_i32; 32];
    (information[0], information[2]) = (SIGCONT, SI_QUEUE);
    value(information)
}

fn prctl(option: i32, to: usize) -> Answer {
    call(SYS_prctl, &[option as usize, to, 0, 0, 0])
}

escapes! {
    "keeps reading its own limit" => |_| call(SYS_prlimit64, &[0, RLIMIT_NOFILE as usize, 0, value([0_u64; 2])]);

    "signal a process" => |t| call(SYS_kill, &[t.victim, HARMLESS]);
    "check whether a process exists" => |t| call(SYS_kill, &[t.victim, 0]);
    "check whether process 1 exists" => |_| call(SYS_kill, &[1, 0]);
    "check whether the parent exists" => |_| call(SYS_kill, &[std::os::unix::process::parent_id() as usize, 0]);
    "signal its own process group" => |_| call(SYS_kill, &[0, 0]);
    "signal a thread" => |t| call(SYS_tkill, &[t.victim, HARMLESS]);
    "signal a thread of a process" => |t| call(SYS_tgkill, &[t.victim, t.victim, HARMLESS]);
    "queue a signal" => |t| call(SYS_rt_sigqueueinfo, &[t.victim, HARMLESS, signal_info()]);
    "queue a signal for a thread" => |t| call(SYS_rt_tgsigqueueinfo, &[t.victim, t.victim, HARMLESS, signal_info()]);
    "open a pidfd" => |t| call(SYS_pidfd_open, &[t.victim, 0]);
    "signal a process by a pidfd" => |t| call(SYS_pidfd_send_signal, &[pidfd(t), HARMLESS, 0, 0]);
    "copy a descriptor of a process" => |t| call(SYS_pidfd_getfd, &[pidfd(t), 0, 0]);
    "release the memory of a process" => |t| call(SYS_process_mrelease, &[pidfd(t), 1]);
    "advise on the memory of a process" => |t| call(SYS_process_madvise, &[pidfd(t), 0, 0, MADV_COLD as usize, 0]);
    "have a descriptor signal a process" => |t| call(SYS_fcntl, &[t.stream, F_SETOWN as usize, t.victim]);
    "have it send another signal" => |t| call(SYS_fcntl, &[t.stream, 10, HARMLESS]);
    "have it signal a thread" => |t| call(SYS_fcntl, &[t.stream, 15, value([1_i32, t.victim as i32])]);
    "change its own limit" => |_| call(SYS_prlimit64, &[0, RLIMIT_CORE as usize, value([0_u64; 2]), 0]);
    "limit a process" => |t| call(SYS_prlimit64, &[t.victim, RLIMIT_CORE as usize, 0, value([0_u64; 2])]);
    "lower the priority of a process" => |t| call(SYS_setpriority, &[0, t.victim, 1]);
    "lower the priority of a group" => |t| call(SYS_setpriority, &[1, t.victim, 1]);
    "lower the priority of its own group" => |_| call(SYS_setpriority, &[1, 0, 1]);
    "set the processors of a process" => |t| call(SYS_sched_setaffinity, &[t.victim, 8, value(u64::MAX)]);
    "schedule a process" => |t| call(SYS_sched_setscheduler, &[t.victim, SCHED_OTHER as usize, value(0_i32)]);
    "schedule a process by its attributes" => |t| call(SYS_sched_setattr, &[t.victim, value([48_u32; 12]), 0]);
    "set the I/O priority of a process" => |t| call(SYS_ioprio_set, &[1, t.victim, 0]);
    "migrate the pages of a process" => |t| call(SYS_migrate_pages, &[t.victim, 0, 0, 0]);
    "read the page locations of a process" => |t| call(SYS_move_pages, &[t.victim, 0, 0, 0, 0, 0]);
    "read the group of a process" => |t| call(SYS_getpgid, &[t.victim]);
    "set the group of a process" => |t| call(SYS_setpgid, &[t.victim, 0]);

    "trace a process" => |t| call(SYS_ptrace, &[PTRACE_SEIZE as usize, t.victim, 0, 0]);
    "make an invalid trace request" => |_| call(SYS_ptrace, &[0x7fff, NONE, 0, 0]);
    "read the memory of a process" => |t| call(SYS_process_vm_readv, &[t.victim, 0, 0, 0, 0, 0]);
    "write the memory of a process" => |t| call(SYS_process_vm_writev, &[t.victim, 0, 0, 0, 0, 0]);
    "compare processes" => |t| call(SYS_kcmp, &[t.victim, t.victim, 0, 0, 0]);
    "open the memory file of a process" => |t| open(t.victim_proc("mem"), O_RDWR);
    "read the environment of a process" => |t| open(t.victim_proc("environ"), O_RDONLY);
    "read the command of a process" => |t| open(t.victim_proc("cmdline"), O_RDONLY);
    "read the status of a process" => |t| open(t.victim_proc("status"), O_RDONLY);
    "list the descriptors of a process" => |t| open(t.victim_proc("fd"), O_RDONLY | O_DIRECTORY);
    "open a descriptor of a process" => |t| open(t.victim_proc("fd/0"), O_RDONLY);
    "list the current folder of a process" => |t| open(t.victim_proc("cwd"), O_RDONLY | O_DIRECTORY);

    "run a program" => |_| call(SYS_execve, &[text("/none/none"), value([0_usize; 1]), value([0_usize; 1])]);
    "run a program by a descriptor" => |t| call(SYS_execveat, &[t.file, text("none"), value([0_usize; 1]), value([0_usize; 1]), 0]);
    "fork" => |_| fork_by(SYS_fork, &[]);
    "create a process by vfork" => |_| vfork();
    "create a process by clone" => |_| clone(0);
    "create a process by clone3" => |_| call(SYS_clone3, &[value([0_u64; 11]), 0]);
    "wait for a process" => |_| call(SYS_wait4, &[NONE, 0, WNOHANG as usize, 0]);
    "create a user namespace" => |_| clone(CLONE_NEWUSER);
    "create a mount namespace" => |_| clone(CLONE_NEWNS);
    "create a network namespace" => |_| clone(CLONE_NEWNET);
    "create a process namespace" => |_| clone(CLONE_NEWPID);
    "create a UTS namespace" => |_| clone(CLONE_NEWUTS);
    "create an IPC namespace" => |_| clone(CLONE_NEWIPC);
    "create a cgroup namespace" => |_| clone(CLONE_NEWCGROUP);
    "leave the user namespace" => |_| unshare(CLONE_NEWUSER);
    "leave the mount namespace" => |_| unshare(CLONE_NEWNS);
    "leave the network namespace" => |_| unshare(CLONE_NEWNET);
    "leave the UTS namespace" => |_| unshare(CLONE_NEWUTS);
    "leave the IPC namespace" => |_| unshare(CLONE_NEWIPC);
    "leave the cgroup namespace" => |_| unshare(CLONE_NEWCGROUP);
    "join a namespace" => |t| call(SYS_setns, &[t.file, 0]);

    "become another user" => |_| call(SYS_setuid, &[NONE]);
    "join another group" => |_| call(SYS_setgid, &[NONE]);
    "change the groups" => |_| call(SYS_setgroups, &[NONE, 0]);
    "change the user ids" => |_| call(SYS_setresuid, &[NONE, NONE, NONE]);
    "change the file system user" => |_| call(SYS_setfsuid, &[NONE]);
    "set capabilities" => |_| call(SYS_capset, &[value([0_u32; 2]), value([0_u32; 6])]);
    "keep capabilities" => |_| prctl(PR_SET_KEEPCAPS, 0);
    "allow others to trace it" => |_| prctl(PR_SET_DUMPABLE, 1);
    "choose its tracer" => |_| prctl(PR_SET_PTRACER, 0);
    "outlive its parent" => |_| prctl(PR_SET_PDEATHSIG, 0);
    "replace its filter" => |_| prctl(PR_SET_SECCOMP, NONE);
    "query seccomp" => |_| call(SYS_seccomp, &[SECCOMP_GET_ACTION_AVAIL as usize, 0, value(SECCOMP_RET_ALLOW)]);
    "query Landlock" => |_| call(SYS_landlock_create_ruleset, &[0, 0, 1]);
    "change the personality" => |_| call(SYS_personality, &[0xffff_ffff]);
}
