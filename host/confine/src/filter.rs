//! The seccomp filter of system calls. A system call that the filter does not allow fails with
//! `ENOSYS`, as if the kernel did not have it. A system call on the fatal list kills the process.
//!
//! CONTRIBUTING.md describes how to find calls that a process needs but the filter does not allow.
//! The kernel remembers which calls are allowed with any arguments, so filtering them costs almost
//! nothing. Few rules check arguments.

use std::collections::BTreeMap;

use anyhow::Context as _;
use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::SandboxReport;

/// The kind of process that a sandbox confines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A process that serves agents or answers a call.
    Serving,
    /// The broker, which opens files and starts programs for another process.
    Broker,
    /// A process that only reads a third-party component.
    Child,
    /// A process that fetches from the network.
    Network,
}

/// The system calls that every process may make: memory, threads, time, and open files.
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
    // To wait until stderr accepts a line.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
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

/// The additional system calls of a serving process: files, events, and open sockets.
const SERVING: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
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
    libc::SYS_fgetxattr,
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
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_readlinkat,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_renameat,
    #[cfg(target_arch = "aarch64")]
    38, // renameat, which libc does not define for every C library
    #[cfg(target_arch = "riscv64")]
    libc::SYS_renameat2,
    libc::SYS_shutdown,
    libc::SYS_statx,
    libc::SYS_unlinkat,
];

/// The additional system calls of the broker. Some are for the programs that the broker starts,
/// which inherit its filter and then confine themselves further.
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

/// The additional system calls of a process that fetches from the network: connections, and what
/// the C library needs to resolve host names.
const NETWORK: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_connect,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_shutdown,
    libc::SYS_statx,
    libc::SYS_uname,
];

/// The sockets of a process that fetches from the network, as type and protocol: TCP, and UDP to
/// resolve names. Other sockets reach processes of this machine or rarely used kernel code.
const NETWORK_SOCKETS: [(i32, i32); 4] = [
    (libc::SOCK_STREAM, 0),
    (libc::SOCK_STREAM, libc::IPPROTO_TCP),
    (libc::SOCK_DGRAM, 0),
    (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
];

/// The socket options that a process may set that fetches from the network: timeouts, no delay, the
/// size of the buffer for sending to the host, and reports of errors from name servers.
const NETWORK_SOCKET_OPTIONS: [(i32, i32); 6] = [
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_IP, libc::IP_RECVERR),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
];

/// System calls that kill the process. No process of skillhost needs them, and each has been used
/// to attack kernels.
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

/// The allowed requests of `ioctl`, for terminals and descriptors. Other requests could type into a
/// terminal or change the flags of a file. The numbers are literal because their type in libc
/// depends on the C library.
const IOCTL_REQUESTS: &[u64] = &[
    0x5401, // TCGETS
    0x5413, // TIOCGWINSZ
    0x541b, // FIONREAD
    0x5421, // FIONBIO
    0x5451, // FIOCLEX
];

/// The allowed commands of `fcntl`. Other commands could send signals to processes, or take file
/// leases.
const FCNTL_COMMANDS: &[i32] = &[
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];

/// The allowed options of `prctl`: to name threads and memory, and to read the auxiliary vector.
const PRCTL_OPTIONS: &[i32] = &[libc::PR_SET_NAME, libc::PR_SET_VMA, PR_GET_AUXV];

/// The additional `prctl` options of the broker. The programs that it starts need them before they
/// confine themselves.
const BROKER_PRCTL_OPTIONS: &[i32] = &[libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_PDEATHSIG];

/// The value from the kernel's prctl.h. libc does not define it for every C library.
const PR_GET_AUXV: i32 = 0x4155_5856;

/// The flags of `clone` that create namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP;

/// The rules of a filter, by the number of the system call. An empty list allows the call with
/// any arguments.
#[derive(Default)]
struct Rules(BTreeMap<c_long, Vec<SeccompRule>>);

/// A condition on an argument: its index, size, comparison and value.
type Condition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

impl Rules {
    fn allow(&mut self, calls: &[c_long]) {
        self.0.extend(calls.iter().map(|call| (*call, Vec::new())));
    }

    /// Allows a call if all conditions hold. If a call has several rules, one of them must match.
    fn allow_if(&mut self, call: c_long, conditions: &[Condition]) -> anyhow::Result<()> {
        let conditions = conditions
            .iter()
            .cloned()
            .map(|(index, size, operator, value)| {
                SeccompCondition::new(index, size, operator, value)
            })
            .collect::<Result<_, _>>()?;
        let rule = SeccompRule::new(conditions)?;
        self.0.entry(call).or_default().push(rule);
        Ok(())
    }

    fn compile(
        self,
        unmatched: SeccompAction,
        matched: SeccompAction,
        arch: TargetArch,
    ) -> anyhow::Result<BpfProgram> {
        let filter = SeccompFilter::new(self.0, unmatched, matched, arch)?;
        Ok(filter.try_into()?)
    }
}

/// The first version of Landlock that restricts truncation.
const LANDLOCK_TRUNCATE: i32 = 3;

/// The calls that open a path, with the index of their flags.
const OPEN_CALLS: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
    (libc::SYS_openat, 2),
];

/// Allows opening files, without truncating them. Landlock restricts truncation only in version 3
/// and newer.
///
/// The flags of `openat2` are in memory, where a filter cannot check them. So the filter allows
/// this call only with version 3 or newer. The host also works without `openat2`.
fn allow_open(rules: &mut Rules, landlock_version: i32) -> anyhow::Result<()> {
    let checked_flags = libc::O_ACCMODE | libc::O_TRUNC;
    for (call, flags_index) in OPEN_CALLS {
        for mode in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR] {
            let equals = MaskedEq(checked_flags.cast_unsigned().into());
            let mode = mode.cast_unsigned().into();
            rules.allow_if(*call, &[(*flags_index, Dword, equals, mode)])?;
        }
    }
    if landlock_version >= LANDLOCK_TRUNCATE {
        rules.allow(&[libc::SYS_openat2]);
    }
    Ok(())
}

/// Returns the rules of a process on a kernel with this version of Landlock.
fn rules(profile: Profile, landlock_version: i32) -> anyhow::Result<Rules> {
    let mut rules = Rules::default();
    rules.allow(BASE);
    allow_prctl(&mut rules, PRCTL_OPTIONS)?;
    match profile {
        Profile::Broker => {
            rules.allow(BROKER);
            allow_open(&mut rules, landlock_version)?;
            allow_prctl(&mut rules, BROKER_PRCTL_OPTIONS)?;
            allow_descriptor_calls(&mut rules)?;
            // The programs that the broker starts inherit this filter, and set their own resource
            // limits.
            rules.allow_if(libc::SYS_prlimit64, &[(0, Dword, Eq, 0)])?;
            let no_namespace = MaskedEq(u64::from(NAMESPACES.cast_unsigned()));
            rules.allow_if(libc::SYS_clone, &[(0, Qword, no_namespace, 0)])?;
        }
        Profile::Serving => {
            rules.allow(SERVING);
            allow_open(&mut rules, landlock_version)?;
            allow_descriptor_calls(&mut rules)?;
            allow_threads(&mut rules)?;
            allow_stream_pairs(&mut rules)?;
            allow_socket_option(&mut rules, libc::IPPROTO_TCP, libc::TCP_NODELAY)?;
            rules.allow_if(
                libc::SYS_setpriority,
                &[(0, Dword, Eq, 0), (1, Dword, Eq, 0)],
            )?;
        }
        Profile::Child => allow_threads(&mut rules)?,
        Profile::Network => {
            rules.allow(NETWORK);
            allow_descriptor_calls(&mut rules)?;
            allow_threads(&mut rules)?;
            allow_open_for_reading(&mut rules)?;
            // The C library sends several requests to a name server at once.
            rules.allow_if(libc::SYS_sendmmsg, &[(3, Dword, NO_FAST_OPEN, 0)])?;
            allow_network_sockets(&mut rules)?;
            allow_stream_pairs(&mut rules)?;
        }
    }
    Ok(rules)
}

/// Allows opening files for reading only.
fn allow_open_for_reading(rules: &mut Rules) -> anyhow::Result<()> {
    let write_flags = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
    for (call, flags_index) in OPEN_CALLS {
        let equals = MaskedEq(write_flags.cast_unsigned().into());
        let read_only = libc::O_RDONLY.cast_unsigned().into();
        rules.allow_if(*call, &[(*flags_index, Dword, equals, read_only)])?;
    }
    Ok(())
}

/// Allows creating pairs of Unix stream sockets. With a pair of datagram sockets, a process could
/// send to any Unix socket by name.
fn allow_stream_pairs(rules: &mut Rules) -> anyhow::Result<()> {
    let stream = libc::SOCK_STREAM.cast_unsigned().into();
    let pair = [(0, Dword, Eq, 1), (1, Dword, MaskedEq(0xf), stream)];
    rules.allow_if(libc::SYS_socketpair, &pair)
}

/// Allows creating the sockets of a process that fetches from the network, and setting their
/// options.
fn allow_network_sockets(rules: &mut Rules) -> anyhow::Result<()> {
    for (level, option) in NETWORK_SOCKET_OPTIONS {
        allow_socket_option(rules, level, option)?;
    }
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (kind, protocol) in NETWORK_SOCKETS {
            let socket = [
                (0, Dword, Eq, family.cast_unsigned().into()),
                (1, Dword, MaskedEq(0xf), kind.cast_unsigned().into()),
                (2, Dword, Eq, protocol.cast_unsigned().into()),
            ];
            rules.allow_if(libc::SYS_socket, &socket)?;
        }
    }
    Ok(())
}

fn allow_socket_option(rules: &mut Rules, level: i32, option: i32) -> anyhow::Result<()> {
    let arguments = [
        (1, Dword, Eq, level.cast_unsigned().into()),
        (2, Dword, Eq, option.cast_unsigned().into()),
    ];
    rules.allow_if(libc::SYS_setsockopt, &arguments)
}

fn allow_prctl(rules: &mut Rules, options: &[i32]) -> anyhow::Result<()> {
    for option in options {
        let option = u64::from(option.cast_unsigned());
        rules.allow_if(libc::SYS_prctl, &[(0, Dword, Eq, option)])?;
    }
    Ok(())
}

/// Allows `ioctl`, `fcntl`, `sendto` and `sendmsg` on open descriptors, with harmless arguments.
fn allow_descriptor_calls(rules: &mut Rules) -> anyhow::Result<()> {
    for request in IOCTL_REQUESTS {
        rules.allow_if(libc::SYS_ioctl, &[(1, Dword, Eq, *request)])?;
    }
    for command in FCNTL_COMMANDS {
        let command = u64::from(command.cast_unsigned());
        rules.allow_if(libc::SYS_fcntl, &[(1, Dword, Eq, command)])?;
    }
    rules.allow_if(libc::SYS_sendto, &[(3, Dword, NO_FAST_OPEN, 0)])?;
    rules.allow_if(libc::SYS_sendmsg, &[(2, Dword, NO_FAST_OPEN, 0)])
}

/// The condition that forbids TCP Fast Open, with which `sendto` and `sendmsg` could connect a
/// listening socket that was shut down.
const NO_FAST_OPEN: SeccompCmpOp = MaskedEq(libc::MSG_FASTOPEN as u64);

/// Allows starting threads of this process, sending signals to them, and reading the process's
/// resource limits.
fn allow_threads(rules: &mut Rules) -> anyhow::Result<()> {
    let own_id = u64::from(std::process::id());
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let is_thread = MaskedEq(thread | u64::from(NAMESPACES.cast_unsigned()));
    rules.allow_if(libc::SYS_clone, &[(0, Qword, is_thread, thread)])?;
    rules.allow_if(libc::SYS_tgkill, &[(0, Dword, Eq, own_id)])?;
    // Without new limits, the call only reads the current ones.
    for process in [0, own_id] {
        rules.allow_if(
            libc::SYS_prlimit64,
            &[(0, Dword, Eq, process), (2, Qword, Eq, 0)],
        )?;
    }
    Ok(())
}

/// Installs the filters of a process on the calling thread. Returns whether they are in force.
pub(crate) fn install(
    profile: Profile,
    landlock_version: i32,
    report: &mut SandboxReport,
) -> anyhow::Result<bool> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        report
            .missing
            .push("the filter of system calls, which does not support this processor".to_owned());
        return Ok(false);
    };
    let mut fatal = Rules::default();
    fatal.allow(FATAL);
    let fatal = fatal.compile(SeccompAction::Allow, SeccompAction::KillProcess, arch)?;
    let refused = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let allowed = rules(profile, landlock_version)?.compile(refused, SeccompAction::Allow, arch)?;
    match seccompiler::apply_filter(&fatal) {
        Ok(()) => {}
        Err(seccompiler::Error::Seccomp(error)) => {
            report
                .missing
                .push(format!("the filter of system calls ({error})"));
            return Ok(false);
        }
        Err(error) => return Err(error).context("cannot install the filter of system calls"),
    }
    seccompiler::apply_filter(&allowed).context("cannot install the filter of system calls")?;
    report.in_force.push("a filter of system calls".to_owned());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allows_openat2_only_if_landlock_controls_truncation() {
        for (version, profile) in (0..9).flat_map(|version| {
            [Profile::Serving, Profile::Broker].map(|profile| (version, profile))
        }) {
            let rules = rules(profile, version).unwrap().0;
            let is_allowed = rules.contains_key(&libc::SYS_openat2);
            assert_eq!(is_allowed, version >= 3, "{version} {profile:?}");
            // The rules of the other calls check the flags.
            assert!(!rules[&libc::SYS_openat].is_empty());
        }
    }
}
