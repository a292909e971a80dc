//! Attempts on other processes: to signal, to read, to write and to start them; and on
//! what this process may do.

use libc::*;

use super::attempts;
use crate::ground::{Answer, Ground, call, fork_by, text, value, vfork};

/// The signal that does nothing to the victim.
const HARMLESS: usize = SIGCONT as usize;

const NONE: usize = usize::MAX;

fn open(path: usize, flags: i32) -> Answer {
    call(SYS_openat, &[AT_FDCWD as usize, path, flags as usize])
}

/// Returns a descriptor of the victim, or of nothing.
fn held(ground: &Ground) -> usize {
    call(SYS_pidfd_open, &[ground.victim, 0]).map_or(NONE, |held| held as usize)
}

/// Makes a process. Who is told that its rights do not suffice has got as far as the kernel:
/// no filter was in the way.
fn clone(flags: i32) -> Answer {
    match fork_by(SYS_clone, &[(flags | SIGCHLD) as usize]) {
        Err(EPERM) => Ok(0),
        answer => answer,
    }
}

fn unshare(flags: i32) -> Answer {
    call(SYS_unshare, &[flags as usize])
}

fn information() -> usize {
    let mut information = [0_i32; 32];
    (information[0], information[2]) = (SIGCONT, SI_QUEUE);
    value(information)
}

fn prctl(option: i32, to: usize) -> Answer {
    call(SYS_prctl, &[option as usize, to, 0, 0, 0])
}

attempts! {
    "keeps looking at its own limit" => |_| call(SYS_prlimit64, &[0, RLIMIT_NOFILE as usize, 0, value([0_u64; 2])]);

    "signal a process" => |g| call(SYS_kill, &[g.victim, HARMLESS]);
    "look whether a process is there" => |g| call(SYS_kill, &[g.victim, 0]);
    "look whether the first process is there" => |_| call(SYS_kill, &[1, 0]);
    "look whether its parent is there" => |_| call(SYS_kill, &[std::os::unix::process::parent_id() as usize, 0]);
    "look at its group" => |_| call(SYS_kill, &[0, 0]);
    "signal a thread" => |g| call(SYS_tkill, &[g.victim, HARMLESS]);
    "signal a thread of a process" => |g| call(SYS_tgkill, &[g.victim, g.victim, HARMLESS]);
    "queue a signal" => |g| call(SYS_rt_sigqueueinfo, &[g.victim, HARMLESS, information()]);
    "queue a signal for a thread" => |g| call(SYS_rt_tgsigqueueinfo, &[g.victim, g.victim, HARMLESS, information()]);
    "hold a process" => |g| call(SYS_pidfd_open, &[g.victim, 0]);
    "signal a process that it holds" => |g| call(SYS_pidfd_send_signal, &[held(g), HARMLESS, 0, 0]);
    "take a descriptor of a process" => |g| call(SYS_pidfd_getfd, &[held(g), 0, 0]);
    "reap a process's memory" => |g| call(SYS_process_mrelease, &[held(g), 1]);
    "advise on a process's memory" => |g| call(SYS_process_madvise, &[held(g), 0, 0, MADV_COLD as usize, 0]);
    "have a descriptor signal a process" => |g| call(SYS_fcntl, &[g.stream, F_SETOWN as usize, g.victim]);
    "have it send another signal" => |g| call(SYS_fcntl, &[g.stream, 10, HARMLESS]);
    "have it signal a thread" => |g| call(SYS_fcntl, &[g.stream, 15, value([1_i32, g.victim as i32])]);
    "limit a process" => |g| call(SYS_prlimit64, &[g.victim, RLIMIT_CORE as usize, 0, value([0_u64; 2])]);
    "slow a process down" => |g| call(SYS_setpriority, &[0, g.victim, 1]);
    "slow a group down" => |g| call(SYS_setpriority, &[1, g.victim, 1]);
    "slow its group down" => |_| call(SYS_setpriority, &[1, 0, 1]);
    "bind a process to its processors" => |g| call(SYS_sched_setaffinity, &[g.victim, 8, value(u64::MAX)]);
    "schedule a process" => |g| call(SYS_sched_setscheduler, &[g.victim, SCHED_OTHER as usize, value(0_i32)]);
    "schedule a process by its attributes" => |g| call(SYS_sched_setattr, &[g.victim, value([48_u32; 12]), 0]);
    "schedule a process's disk" => |g| call(SYS_ioprio_set, &[1, g.victim, 0]);
    "move a process's pages" => |g| call(SYS_migrate_pages, &[g.victim, 0, 0, 0]);
    "look at a process's pages" => |g| call(SYS_move_pages, &[g.victim, 0, 0, 0, 0, 0]);
    "look at a process's group" => |g| call(SYS_getpgid, &[g.victim]);
    "put a process into a group" => |g| call(SYS_setpgid, &[g.victim, 0]);

    "trace a process" => |g| call(SYS_ptrace, &[PTRACE_SEIZE as usize, g.victim, 0, 0]);
    "trace nothing" => |_| call(SYS_ptrace, &[0x7fff, NONE, 0, 0]);
    "read a process's memory" => |g| call(SYS_process_vm_readv, &[g.victim, 0, 0, 0, 0, 0]);
    "write a process's memory" => |g| call(SYS_process_vm_writev, &[g.victim, 0, 0, 0, 0, 0]);
    "compare processes" => |g| call(SYS_kcmp, &[g.victim, g.victim, 0, 0, 0]);
    "open a process's memory" => |g| open(g.of_victim("mem"), O_RDWR);
    "read a process's environment" => |g| open(g.of_victim("environ"), O_RDONLY);
    "read a process's command" => |g| open(g.of_victim("cmdline"), O_RDONLY);
    "read a process's status" => |g| open(g.of_victim("status"), O_RDONLY);
    "list a process's descriptors" => |g| open(g.of_victim("fd"), O_RDONLY | O_DIRECTORY);
    "open a process's descriptor" => |g| open(g.of_victim("fd/0"), O_RDONLY);
    "list a process's folder" => |g| open(g.of_victim("cwd"), O_RDONLY | O_DIRECTORY);

    "run a program" => |_| call(SYS_execve, &[text("/none/none"), value([0_usize; 1]), value([0_usize; 1])]);
    "run a program by a descriptor" => |g| call(SYS_execveat, &[g.file, text("none"), value([0_usize; 1]), value([0_usize; 1]), 0]);
    "fork" => |_| fork_by(SYS_fork, &[]);
    "make a process by vfork" => |_| vfork();
    "make a process by clone" => |_| clone(0);
    "make a process by clone3" => |_| call(SYS_clone3, &[value([0_u64; 11]), 0]);
    "wait for a process" => |_| call(SYS_wait4, &[NONE, 0, WNOHANG as usize, 0]);
    "make a namespace of users" => |_| clone(CLONE_NEWUSER);
    "make a namespace of mounts" => |_| clone(CLONE_NEWNS);
    "make a namespace of networks" => |_| clone(CLONE_NEWNET);
    "make a namespace of processes" => |_| clone(CLONE_NEWPID);
    "make a namespace of names" => |_| clone(CLONE_NEWUTS);
    "make a namespace of messages" => |_| clone(CLONE_NEWIPC);
    "make a namespace of control groups" => |_| clone(CLONE_NEWCGROUP);
    "leave the namespace of users" => |_| unshare(CLONE_NEWUSER);
    "leave the namespace of mounts" => |_| unshare(CLONE_NEWNS);
    "leave the namespace of networks" => |_| unshare(CLONE_NEWNET);
    "leave the namespace of names" => |_| unshare(CLONE_NEWUTS);
    "leave the namespace of messages" => |_| unshare(CLONE_NEWIPC);
    "leave the namespace of control groups" => |_| unshare(CLONE_NEWCGROUP);
    "join a namespace" => |g| call(SYS_setns, &[g.file, 0]);

    "become another user" => |_| call(SYS_setuid, &[NONE]);
    "join another group" => |_| call(SYS_setgid, &[NONE]);
    "take other groups" => |_| call(SYS_setgroups, &[NONE, 0]);
    "take other ids" => |_| call(SYS_setresuid, &[NONE, NONE, NONE]);
    "read files as another user" => |_| call(SYS_setfsuid, &[NONE]);
    "take capabilities" => |_| call(SYS_capset, &[value([0_u32; 2]), value([0_u32; 6])]);
    "keep capabilities" => |_| prctl(PR_SET_KEEPCAPS, 0);
    "let others trace it" => |_| prctl(PR_SET_DUMPABLE, 1);
    "choose who traces it" => |_| prctl(PR_SET_PTRACER, 0);
    "outlive its parent" => |_| prctl(PR_SET_PDEATHSIG, 0);
    "loosen its filter" => |_| prctl(PR_SET_SECCOMP, NONE);
    "ask about filters" => |_| call(SYS_seccomp, &[SECCOMP_GET_ACTION_AVAIL as usize, 0, value(SECCOMP_RET_ALLOW)]);
    "ask about rules of files" => |_| call(SYS_landlock_create_ruleset, &[0, 0, 1]);
    "choose its personality" => |_| call(SYS_personality, &[0xffff_ffff]);
}
