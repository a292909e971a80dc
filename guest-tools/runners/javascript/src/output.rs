//! Collects the output of a script on stdout and stderr, in order and within a limit.
//! `lib.rs` builds the answer from it.

use std::cell::RefCell;
use std::collections::VecDeque;

/// The maximum number of bytes of both streams to keep from the beginning. Guards against: a
/// script that fills the call's memory or the model's context with its output.
const MAX_FIRST_BYTES: usize = 192 << 10;
/// The maximum number of bytes to keep from the end.
const MAX_LAST_BYTES: usize = 64 << 10;
/// The size at which a chunk is full. Guards against: a chunk for each byte.
const FULL_CHUNK_BYTES: usize = 4 << 10;

pub(crate) const STDOUT: u32 = 1;
pub(crate) const STDERR: u32 = 2;

/// The output of both streams. A chunk has its stream's number and the bytes.
#[derive(Default)]
struct Output {
    first: VecDeque<(u32, Vec<u8>)>,
    last: VecDeque<(u32, Vec<u8>)>,
    first_bytes: usize,
    last_bytes: usize,
    left_out: usize,
}

thread_local! {
    static OUTPUT: RefCell<Output> = RefCell::default();
}

/// Adds bytes to a stream.
pub(crate) fn add(stream: u32, bytes: &[u8]) {
    OUTPUT.with_borrow_mut(|output| output.add(stream, bytes));
}

/// Returns the text of one stream, or of both in the order of writing.
pub(crate) fn text(stream: Option<u32>) -> String {
    OUTPUT.with_borrow(|output| output.text(stream))
}

/// Returns the number of bytes that were left out.
pub(crate) fn left_out() -> usize {
    OUTPUT.with_borrow(|output| output.left_out)
}

impl Output {
    fn add(&mut self, stream: u32, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(MAX_FIRST_BYTES - self.first_bytes));
        self.first_bytes += first.len();
        append(&mut self.first, stream, first);
        let (dropped, rest) = rest.split_at(rest.len().saturating_sub(MAX_LAST_BYTES));
        self.left_out += dropped.len();
        append(&mut self.last, stream, rest);
        self.last_bytes += rest.len();
        while self.last_bytes > MAX_LAST_BYTES {
            let Some((_, oldest)) = self.last.front_mut() else {
                break;
            };
            let excess = oldest.len().min(self.last_bytes - MAX_LAST_BYTES);
            oldest.drain(..excess);
            self.last_bytes -= excess;
            self.left_out += excess;
            if oldest.is_empty() {
                self.last.pop_front();
            }
        }
    }

    fn text(&self, stream: Option<u32>) -> String {
        let join = |chunks: &mut dyn Iterator<Item = &(u32, Vec<u8>)>| {
            let is_wanted = |chunk: &&(u32, Vec<u8>)| stream.is_none_or(|stream| stream == chunk.0);
            let bytes: Vec<u8> = chunks
                .filter(is_wanted)
                .flat_map(|chunk| chunk.1.clone())
                .collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if self.left_out == 0 {
            // Decode `first` and `last` together: a character may span both.
            return join(&mut self.first.iter().chain(&self.last));
        }
        format!(
            "{}\n[{} bytes of output left out; write large results to a file]\n{}",
            join(&mut self.first.iter()),
            self.left_out,
            join(&mut self.last.iter())
        )
    }
}

/// Appends bytes to the last chunk if it is of the same stream and not full, or adds a chunk.
fn append(chunks: &mut VecDeque<(u32, Vec<u8>)>, stream: u32, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    match chunks.back_mut() {
        Some((last, chunk)) if *last == stream && chunk.len() < FULL_CHUNK_BYTES => {
            chunk.extend(bytes);
        }
        _ => chunks.push_back((stream, bytes.to_vec())),
    }
}
