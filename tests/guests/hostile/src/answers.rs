//! Attacks with invalid answers.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use skillhost_guest::{Failure, Output};

use crate::{Arguments, Attack, done};

thread_local! {
    /// The details of the answer, which reach the host unchanged. The SDK
    /// would convert them to JSON.
    static DETAILS: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn with_details(details: String) -> Attack {
    DETAILS.set(Some(details));
    done()
}

/// Returns the details that an attack has stored for the answer.
pub(crate) fn raw_details() -> Option<String> {
    DETAILS.take()
}

fn x(call: &Arguments) -> String {
    "x".repeat(call.size())
}

/// Returns a string of these bytes, which need not be UTF-8.
fn unchecked(bytes: &[u8]) -> String {
    // SAFETY: this guest does not read the string. The attack is that the host does.
    unsafe { String::from_utf8_unchecked(bytes.to_vec()) }
}

pub(crate) fn large(call: &Arguments) -> Attack {
    Ok(Output::text(x(call)))
}

pub(crate) fn large_details(call: &Arguments) -> Attack {
    with_details(x(call))
}

pub(crate) fn large_failure(call: &Arguments) -> Attack {
    Err(Failure::failed(x(call)))
}

/// Returns a string that uses the memory of another string.
fn forged(start: *mut u8, length: usize) -> String {
    // SAFETY: this guest neither reads nor frees the string. The attack is that
    // the host may do so.
    unsafe { String::from_raw_parts(start, length, length) }
}

pub(crate) fn longer_than_memory(_: &Arguments) -> Attack {
    let mut text = ManuallyDrop::new("x".to_owned());
    Ok(Output::text(forged(text.as_mut_ptr(), 0xffff_0000)))
}

pub(crate) fn twice(call: &Arguments) -> Attack {
    let mut text = ManuallyDrop::new(x(call));
    let (start, length) = (text.as_mut_ptr(), text.len());
    DETAILS.set(Some(forged(start, length)));
    Ok(Output::text(forged(start, length)))
}

pub(crate) fn no_text(_: &Arguments) -> Attack {
    Ok(Output::text(unchecked(b"\xff\xfe\xc0\xaf")))
}

pub(crate) fn no_text_details(_: &Arguments) -> Attack {
    with_details(unchecked(b"{\"a\":\"\xed\xa0\x80\"}"))
}

pub(crate) fn no_json(_: &Arguments) -> Attack {
    with_details("no JSON\u{1b}[2J".to_owned())
}

pub(crate) fn brackets(call: &Arguments) -> Attack {
    with_details("{\"a\":".repeat(call.size()))
}

pub(crate) fn repeated_key(_: &Arguments) -> Attack {
    with_details("{\"success\":false,\"success\":true,\"text\":\"other\"}".to_owned())
}

pub(crate) fn escapes(call: &Arguments) -> Attack {
    Ok(Output::text(call.path()))
}
