//! The program that this process runs, commands that start it again, and what it inherits.

use std::env;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The path by which this process starts its own program again.
///
/// In each process, the kernel links this path to the file that the process runs. So it starts
/// the same program even after an upgrade has replaced or removed the file at the program's path.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// The environment variable with the id of the process that started this one.
const PARENT: &str = "SKILLHOST_PARENT";

/// Returns a command that starts a program with an empty environment. If the program is
/// [`OWN_PROGRAM`], the command gets the name of this process.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    if program == Path::new(OWN_PROGRAM)
        && let Some(name) = env::args_os().next()
    {
        command.arg0(name);
    }
    command
}

/// Tells a helper process which process starts it, for [`end_with_parent`].
pub fn name_parent(command: &mut Command) -> &mut Command {
    command.env(PARENT, std::process::id().to_string())
}

/// Ends this process when the thread that started it ends.
///
/// # Errors
///
/// If the process that [`name_parent`] named has ended already.
pub fn end_with_parent() -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = env::var(PARENT).ok();
    let current = getppid().map(|parent| parent.as_raw_nonzero().to_string());
    ensure!(
        parent.is_none() || parent == current,
        "the process that started this one has ended"
    );
    Ok(())
}

/// Unblocks all signals, and gives SIGTERM and SIGCHLD their default action. A program calls this
/// first, before it starts a thread.
///
/// A process inherits both. With blocked signals, a trap of a guest ends the process, and SIGTERM does
/// not; if SIGCHLD is ignored, no child process can be waited for.
pub fn reset_signals() {
    #[allow(unsafe_code, reason = "the standard library has no call for it")]
    // SAFETY: the set is initialised by `sigemptyset`, and this process has no handlers yet.
    unsafe {
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Names this process after the program in `argv[0]`.
///
/// Otherwise a process that was started by [`OWN_PROGRAM`] would be called `exe`.
pub fn restore_process_name() {
    let program = env::args_os().next().map(PathBuf::from);
    let name = program.as_deref().and_then(Path::file_name);
    if let Some(Ok(name)) = name.map(|name| CString::new(name.as_bytes())) {
        // The name is only for people.
        let _ = rustix::thread::set_name(&name);
    }
}
