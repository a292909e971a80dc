//! The operator's log.

use alloc::format;

use wasip2::cli::stderr;

/// The most bytes that a stream takes at once.
const PIECE: usize = 4096;

/// Writes a line to the operator's log, which `skillhost --log info` shows.
pub fn log(text: &str) {
    let stream = stderr::get_stderr();
    for piece in format!("{text}\n").as_bytes().chunks(PIECE) {
        // A call continues if its log cannot be written.
        let _ = stream.blocking_write_and_flush(piece);
    }
}
