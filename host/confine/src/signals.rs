//! Signals that must not end a process.

/// Ignores the signal sent when a file reaches `ulimit -f`. Writing then fails, as on a full
/// disk.
pub fn ignore_file_size_signal() {
    ignore(&[libc::SIGXFSZ]);
}

/// Ignores the signals by which a service manager ends a server, in a helper process.
///
/// The manager sends them to all processes of the service at once, but a helper process must still
/// answer the requests in flight. It ends when the server closes the connection between them.
pub fn ignore_termination_signals() {
    ignore(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP]);
}

fn ignore(signals: &[libc::c_int]) {
    for signal in signals {
        #[allow(unsafe_code, reason = "the standard library has no call for it")]
        // SAFETY: this process has no handlers for these signals, and this call installs none.
        unsafe {
            libc::signal(*signal, libc::SIG_IGN);
        }
    }
}
