//! Appends lines to files. This process and its broker append in the same way.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

/// The mark at the end of a torn line of the consent file, which allows nothing. No line of consent
/// that the host writes ends in this mark.
pub const TORN_CONSENT: &str = " (torn)";

/// Appends a line to a file that is open for reading and appending. If the file's last line is
/// torn, first ends that line with `mark` and a line feed.
///
/// A full disk or a killed process leaves a torn line: it has no line feed.
///
/// # Errors
///
/// Fails if the file cannot be read or written.
pub fn append_line(file: &mut File, mark: &str, line: &str) -> io::Result<()> {
    let size = file.metadata()?.len();
    let mut last = [0];
    let is_torn = size > 0 && file.read_at(&mut last, size - 1)? == 1 && last != *b"\n";
    let mut text = String::new();
    if is_torn {
        text.push_str(mark);
        text.push('\n');
    }
    text.push_str(line);
    file.write_all(text.as_bytes())
}
