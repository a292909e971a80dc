//! Signals that must not end a process.

/// Ignores the signal of a file that reaches the limit on its size, `ulimit -f`. Writing to
/// it is then an error, as on a full disk.
pub fn ignore_file_size_limit() {
    ignore(&[libc::SIGXFSZ]);
}

/// Ignores the signals that end a server, in the processes that work for it. A manager of services sends them to all its
/// processes at once; one that works for the server ends when it closes its end, after
/// the requests in flight.
pub fn ignore_end_of_server() {
    ignore(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP]);
}

fn ignore(signals: &[libc::c_int]) {
    for signal in signals {
        #[allow(unsafe_code, reason = "the standard library has no call for it")]
        // SAFETY: no handler of this process is replaced, and none runs afterwards.
        unsafe {
            libc::signal(*signal, libc::SIG_IGN);
        }
    }
}
