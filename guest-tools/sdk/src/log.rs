//! The operator's log.

use alloc::format;

use wasip2::cli::stderr;

/// The maximum number of bytes that a stream takes in one write.
const MAX_WRITE_BYTES: usize = 4096;

/// Writes a line to the operator's log, which `skillhost --log info` shows.
pub fn log(text: &str) {
    let stream = stderr::get_stderr();
    for chunk in format!("{text}\n").as_bytes().chunks(MAX_WRITE_BYTES) {
        // A call continues if its log cannot be written.
        let _ = stream.blocking_write_and_flush(chunk);
    }
}
