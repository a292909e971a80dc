//! The program that this process runs, and commands that start it again.

use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path by which this process starts its own program again.
///
/// In each process, the kernel links this path to the file that the process runs. So it starts
/// the same program even after an upgrade has replaced or removed the file at the program's path.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

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

/// Names this process after its command. The kernel calls a process `exe` if it was started by
/// [`OWN_PROGRAM`].
pub fn restore_process_name() {
    let command = env::args_os().next().map(PathBuf::from);
    let name = command.as_deref().and_then(Path::file_name);
    if let Some(Ok(name)) = name.map(|name| CString::new(name.as_bytes())) {
        // The name is only for people.
        let _ = rustix::thread::set_name(&name);
    }
}
