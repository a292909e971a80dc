//! Imitates a kernel that does not know a system call, or forbids it, with a seccomp filter on the
//! test process. The filter needs no privilege.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The number of `openat2`, on every architecture.
const OPENAT2: i64 = 437;

/// The number of `statx`.
const STATX: i64 = if cfg!(target_arch = "x86_64") {
    332
} else {
    291
};

/// The number of `landlock_create_ruleset`, on every architecture.
const LANDLOCK_CREATE_RULESET: i64 = 444;

/// The number of `seccomp`.
const SECCOMP: i64 = if cfg!(target_arch = "x86_64") {
    317
} else {
    277
};

/// The kernel's answer to a system call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// The call does not exist, as before Linux 5.6.
    Unknown,
    /// The call is not permitted, as in some containers.
    Forbidden,
    /// The feature behind the call is disabled.
    Disabled,
}

/// Gives all later `openat2` calls of this process this answer, which cannot be undone.
pub(crate) fn answer_openat2_with(answer: Answer) {
    answer_with(OPENAT2, answer);
}

/// Gives all later `statx` calls this answer.
pub(crate) fn answer_statx_with(answer: Answer) {
    answer_with(STATX, answer);
}

/// Gives all later Landlock calls this answer.
pub(crate) fn answer_landlock_with(answer: Answer) {
    answer_with(LANDLOCK_CREATE_RULESET, answer);
}

/// Gives all later `seccomp` calls this answer, so this process can install no further filter.
pub(crate) fn answer_seccomp_with(answer: Answer) {
    answer_with(SECCOMP, answer);
}

fn answer_with(call: i64, answer: Answer) {
    let errno = match answer {
        Answer::Unknown => rustix::io::Errno::NOSYS,
        Answer::Forbidden => rustix::io::Errno::PERM,
        Answer::Disabled => rustix::io::Errno::OPNOTSUPP,
    };
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno.raw_os_error().unsigned_abs()),
        TargetArch::try_from(std::env::consts::ARCH).unwrap(),
    );
    let program = BpfProgram::try_from(filter.unwrap()).unwrap();
    seccompiler::apply_filter_all_threads(&program).unwrap();
}
