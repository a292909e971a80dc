//! The filter of system calls. A call that is not in a process's list does not exist for
//! it (`ENOSYS`); one that no program of this kind ever makes ends the process.
//!
//! CONTRIBUTING.md says how to see what a process lacks. The kernel remembers calls that are
//! allowed whatever their arguments, so most cost nothing. Few rules look at arguments.

use std::collections::BTreeMap;

use anyhow::Context as _;
use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::WallReport;

/// The kind of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// One that serves agents or answers a call.
    Serving,
    /// The one outside that opens and starts what others may not.
    Broker,
    /// One that reads a stranger's component, and does nothing else.
    Child,
    /// One that fetches from the network.
    Network,
}

/// What every process needs: memory, threads, time, and files that are open.
const BASE: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];

/// What serving needs besides: files, events, and sockets that are open.
const SERVING: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    libc::SYS_accept4,
    libc::SYS_dup,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    libc::SYS_lgetxattr,
    libc::SYS_memfd_create,
    libc::SYS_newfstatat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_readlinkat,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_renameat,
    #[cfg(target_arch = "aarch64")]
    38, // renameat, which libc does not name for every library
    #[cfg(target_arch = "riscv64")]
    libc::SYS_renameat2,
    libc::SYS_shutdown,
    libc::SYS_statx,
    libc::SYS_unlinkat,
];

/// What the broker needs besides: to start a program, which then confines itself.
const BROKER: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_chdir,
    libc::SYS_dup3,
    libc::SYS_execve,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getppid,
    libc::SYS_inotify_add_watch,
    libc::SYS_kill,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_readlinkat,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_seccomp,
    libc::SYS_set_tid_address,
    libc::SYS_statx,
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// The further system calls of a process that uses the network: those for connections, and
/// those with which the C library resolves names.
const NETWORK: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_newfstatat,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_shutdown,
    libc::SYS_statx,
    libc::SYS_uname,
];

/// The sockets that such a process makes, by their kind and protocol: TCP, and UDP for names.
/// Others reach processes of this machine, or rare parts of the kernel.
const SOCKETS: [(i32, i32); 4] = [
    (libc::SOCK_STREAM, 0),
    (libc::SOCK_STREAM, libc::IPPROTO_TCP),
    (libc::SOCK_DGRAM, 0),
    (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
];

/// The options of its sockets: times, small packets at once, and errors of name servers.
const SOCKET_OPTIONS: [(i32, i32); 5] = [
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
];

/// Calls that no program of this kind makes. Each has been a way to take over kernels.
const FATAL: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// The requests of `ioctl`: about terminals, descriptors, and the pages that a guest has
/// written. Others type into a terminal, or change a file's flags. libc gives them different
/// types for different libraries.
const REQUESTS: &[u64] = &[
    0x5401,      // TCGETS
    0x5413,      // TIOCGWINSZ
    0x541b,      // FIONREAD
    0x5421,      // FIONBIO
    0x5451,      // FIOCLEX
    0xc060_6610, // PAGEMAP_SCAN
];

/// The commands of `fcntl`. Others choose who is signalled, or take leases.
const COMMANDS: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];

/// The options of `prctl`: names of threads and of memory, and what the kernel told this
/// process at its start. Guards against: the others.
const OPTIONS: &[i32] = &[libc::PR_SET_NAME, libc::PR_SET_VMA, PR_GET_AUXV];

/// Those of what the broker starts besides, before that is confined further.
const OPTIONS_OF_STARTED: &[i32] = &[libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_PDEATHSIG];

/// From the kernel's prctl.h; libc does not name it for every library.
const PR_GET_AUXV: i32 = 0x4155_5856;

/// The bits of `clone` that make namespaces, or a task that is no thread of this process.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP;

/// The rules of a filter, by the number of the system call. No rule allows any argument.
#[derive(Default)]
struct Rules(BTreeMap<c_long, Vec<SeccompRule>>);

/// A condition on an argument: its place, its size, and what holds.
type Condition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

impl Rules {
    fn allow(&mut self, calls: &[c_long]) {
        self.0.extend(calls.iter().map(|call| (*call, Vec::new())));
    }

    /// Allows a call if all conditions hold; of several rules, any.
    fn allow_if(&mut self, call: c_long, conditions: &[Condition]) -> anyhow::Result<()> {
        let conditions = conditions.iter().cloned();
        let conditions = conditions
            .map(|(place, size, holds, value)| SeccompCondition::new(place, size, holds, value));
        let rule = SeccompRule::new(conditions.collect::<Result<_, _>>()?)?;
        self.0.entry(call).or_default().push(rule);
        Ok(())
    }

    fn compile(
        self,
        unmatched: SeccompAction,
        matched: SeccompAction,
        machine: TargetArch,
    ) -> anyhow::Result<BpfProgram> {
        let filter = SeccompFilter::new(self.0, unmatched, matched, machine)?;
        Ok(filter.try_into()?)
    }
}

/// The first version of Landlock that keeps files from being cut.
const CUTS: i32 = 3;

/// The calls that open by a path, with the place of their flags.
const OPENING: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];

/// Lets files be opened, but not emptied by that: before version 3, Landlock lets each be.
/// The flags of `openat2` lie in memory, where a filter cannot look; the host can do
/// without it.
fn allow_opening(rules: &mut Rules, landlock: i32) -> anyhow::Result<()> {
    let looked_at = libc::O_ACCMODE | libc::O_TRUNC;
    for (call, place) in OPENING {
        for mode in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR] {
            let only = MaskedEq(looked_at.cast_unsigned().into());
            let mode = mode.cast_unsigned().into();
            rules.allow_if(*call, &[(*place, Dword, only, mode)])?;
        }
    }
    if landlock >= CUTS {
        rules.allow(&[libc::SYS_openat2]);
    }
    Ok(())
}

/// Returns the rules of a process, on a kernel with this version of Landlock.
fn rules(profile: Profile, landlock: i32) -> anyhow::Result<Rules> {
    let mut rules = Rules::default();
    rules.allow(BASE);
    allow_options(&mut rules, OPTIONS)?;
    match profile {
        Profile::Broker => {
            rules.allow(BROKER);
            allow_opening(&mut rules, landlock)?;
            allow_options(&mut rules, OPTIONS_OF_STARTED)?;
            allow_descriptors(&mut rules)?;
            // What it starts has these rules too, and limits itself.
            allow_limits_of(&mut rules, 0)?;
            let no_namespace = MaskedEq(u64::from(NAMESPACES.cast_unsigned()));
            rules.allow_if(libc::SYS_clone, &[(0, Qword, no_namespace, 0)])?;
        }
        Profile::Serving => {
            rules.allow(SERVING);
            allow_opening(&mut rules, landlock)?;
            allow_descriptors(&mut rules)?;
            allow_own_threads(&mut rules)?;
            // A stream between two descriptors of this process. Datagrams could be
            // sent to any name.
            let stream = libc::SOCK_STREAM.cast_unsigned().into();
            let stream = [(0, Dword, Eq, 1), (1, Dword, MaskedEq(0xf), stream)];
            rules.allow_if(libc::SYS_socketpair, &stream)?;
            allow_socket_option(&mut rules, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
            rules.allow_if(
                libc::SYS_setpriority,
                &[(0, Dword, Eq, 0), (1, Dword, Eq, 0)],
            )?;
        }
        Profile::Child => allow_own_threads(&mut rules)?,
        Profile::Network => {
            rules.allow(NETWORK);
            allow_descriptors(&mut rules)?;
            allow_own_threads(&mut rules)?;
            let changing = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
            for (call, place) in OPENING {
                let reads = MaskedEq(changing.cast_unsigned().into());
                let read_only = libc::O_RDONLY.cast_unsigned().into();
                rules.allow_if(*call, &[(*place, Dword, reads, read_only)])?;
            }
            // Its names are asked for by several messages at once.
            rules.allow_if(libc::SYS_sendmmsg, &[(3, Dword, NO_FAST_OPEN, 0)])?;
            for (level, option) in SOCKET_OPTIONS {
                allow_socket_option(&mut rules, level, option)?;
            }
            for family in [libc::AF_INET, libc::AF_INET6] {
                for (kind, protocol) in SOCKETS {
                    let socket = [
                        (0, Dword, Eq, family.cast_unsigned().into()),
                        (1, Dword, MaskedEq(0xf), kind.cast_unsigned().into()),
                        (2, Dword, Eq, protocol.cast_unsigned().into()),
                    ];
                    rules.allow_if(libc::SYS_socket, &socket)?;
                }
            }
        }
    }
    Ok(rules)
}

fn allow_socket_option(rules: &mut Rules, level: i32, option: i32) -> anyhow::Result<()> {
    let one = [
        (1, Dword, Eq, level.cast_unsigned().into()),
        (2, Dword, Eq, option.cast_unsigned().into()),
    ];
    rules.allow_if(libc::SYS_setsockopt, &one)
}

fn allow_options(rules: &mut Rules, options: &[i32]) -> anyhow::Result<()> {
    for option in options {
        let option = u64::from(option.cast_unsigned());
        rules.allow_if(libc::SYS_prctl, &[(0, Dword, Eq, option)])?;
    }
    Ok(())
}

/// Allows what is done with descriptors that are open.
fn allow_descriptors(rules: &mut Rules) -> anyhow::Result<()> {
    for request in REQUESTS {
        rules.allow_if(libc::SYS_ioctl, &[(1, Dword, Eq, *request)])?;
    }
    for command in COMMANDS {
        let command = u64::from(command.cast_unsigned());
        rules.allow_if(libc::SYS_fcntl, &[(1, Dword, Eq, command)])?;
    }
    rules.allow_if(libc::SYS_sendto, &[(3, Dword, NO_FAST_OPEN, 0)])?;
    rules.allow_if(libc::SYS_sendmsg, &[(2, Dword, NO_FAST_OPEN, 0)])
}

/// The flag by which a listener that is shut down could connect.
const NO_FAST_OPEN: SeccompCmpOp = MaskedEq(libc::MSG_FASTOPEN as u64);

/// Allows threads of this process, signals to them, and a look at its limits.
fn allow_own_threads(rules: &mut Rules) -> anyhow::Result<()> {
    let this = u64::from(std::process::id());
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let kind = MaskedEq(thread | u64::from(NAMESPACES.cast_unsigned()));
    rules.allow_if(libc::SYS_clone, &[(0, Qword, kind, thread)])?;
    rules.allow_if(libc::SYS_tgkill, &[(0, Dword, Eq, this)])?;
    allow_limits_of(rules, 0)?;
    allow_limits_of(rules, this)
}

fn allow_limits_of(rules: &mut Rules, process: u64) -> anyhow::Result<()> {
    rules.allow_if(libc::SYS_prlimit64, &[(0, Dword, Eq, process)])
}

/// Installs the filters of a process on the calling thread.
pub(crate) fn install(
    profile: Profile,
    landlock: i32,
    report: &mut WallReport,
) -> anyhow::Result<()> {
    let Ok(machine) = TargetArch::try_from(std::env::consts::ARCH) else {
        report
            .missing
            .push("the filter of system calls, which is not made for this processor".to_owned());
        return Ok(());
    };
    let mut fatal = Rules::default();
    fatal.allow(FATAL);
    let fatal = fatal.compile(SeccompAction::Allow, SeccompAction::KillProcess, machine)?;
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let allowed = rules(profile, landlock)?.compile(unknown, SeccompAction::Allow, machine)?;
    match seccompiler::apply_filter(&fatal) {
        Ok(()) => {}
        Err(seccompiler::Error::Seccomp(error)) => {
            report
                .missing
                .push(format!("the filter of system calls ({error})"));
            return Ok(());
        }
        Err(error) => return Err(error).context("cannot filter system calls"),
    }
    seccompiler::apply_filter(&allowed).context("cannot filter system calls")?;
    report.in_force.push("a filter of system calls".to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_lets_files_be_cut_has_no_call_whose_flags_nobody_sees() {
        for (landlock, profile) in (0..9).flat_map(|version| {
            [Profile::Serving, Profile::Broker].map(|profile| (version, profile))
        }) {
            let rules = rules(profile, landlock).unwrap().0;
            let has = rules.contains_key(&libc::SYS_openat2);
            assert_eq!(has, landlock >= 3, "{landlock} {profile:?}");
            // Others look at the flags.
            assert!(!rules[&libc::SYS_openat].is_empty());
        }
    }
}
