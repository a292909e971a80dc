//! The signals by which a server is ended, in the processes that work for it.

/// Ignores the signals that end a server. A manager of services sends them to all its
/// processes at once; one that works for the server ends when it closes its end, after
/// the requests in flight.
pub fn ignore_end_of_server() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        #[allow(unsafe_code, reason = "the standard library has no call for it")]
        // SAFETY: no handler of this process is replaced, and none runs afterwards.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}
