//! Collects the output of a script on stdout and stderr, in order and within a limit.
//! The messages for a model are in `lib.rs`.

use std::cell::RefCell;
use std::collections::VecDeque;

/// The maximum bytes of both streams to keep from the beginning. Guards against: a script
/// that fills the call's memory or the model's context with its output.
const FIRST: usize = 192 << 10;
/// The maximum bytes to keep from the end.
const LAST: usize = 64 << 10;
/// The bytes at which a part is full. Guards against: a part for each byte.
const PART: usize = 4 << 10;

pub(crate) const STDOUT: u32 = 1;
pub(crate) const STDERR: u32 = 2;

#[derive(Default)]
struct Output {
    first: VecDeque<(u32, Vec<u8>)>,
    last: VecDeque<(u32, Vec<u8>)>,
    kept_first: usize,
    kept_last: usize,
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
        let (first, rest) = bytes.split_at(bytes.len().min(FIRST - self.kept_first));
        self.kept_first += first.len();
        append(&mut self.first, stream, first);
        let (gone, rest) = rest.split_at(rest.len().saturating_sub(LAST));
        self.left_out += gone.len();
        append(&mut self.last, stream, rest);
        self.kept_last += rest.len();
        while self.kept_last > LAST {
            let Some((_, oldest)) = self.last.front_mut() else {
                break;
            };
            let drop = oldest.len().min(self.kept_last - LAST);
            oldest.drain(..drop);
            self.kept_last -= drop;
            self.left_out += drop;
            if oldest.is_empty() {
                self.last.pop_front();
            }
        }
    }

    fn text(&self, stream: Option<u32>) -> String {
        let join = |parts: &mut dyn Iterator<Item = &(u32, Vec<u8>)>| {
            let of_stream = |part: &&(u32, Vec<u8>)| stream.is_none_or(|wanted| wanted == part.0);
            let bytes: Vec<u8> = parts
                .filter(of_stream)
                .flat_map(|part| part.1.clone())
                .collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if self.left_out == 0 {
            // Decoded together: the bytes of a character may be in both parts.
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

fn append(parts: &mut VecDeque<(u32, Vec<u8>)>, stream: u32, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    match parts.back_mut() {
        Some((last, part)) if *last == stream && part.len() < PART => part.extend(bytes),
        _ => parts.push_back((stream, bytes.to_vec())),
    }
}
