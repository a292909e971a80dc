//! Answers that are no answers.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use skillhost_guest::{Failure, Output};

use crate::{Arguments, Attack, done};

thread_local! {
    /// Details for the answer, exactly as they are. The SDK would make JSON
    /// of them.
    static DETAILS: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn with_details(details: String) -> Attack {
    DETAILS.set(Some(details));
    done()
}

/// The details that an attack left for the answer.
pub(crate) fn raw_details() -> Option<String> {
    DETAILS.take()
}

fn x(call: &Arguments) -> String {
    "x".repeat(call.size())
}

/// A string of these bytes, whether they are text or not.
fn unchecked(bytes: &[u8]) -> String {
    // SAFETY: nothing here looks into it. That the host does is what is tried.
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

/// A string with the memory of another.
fn forged(start: *mut u8, length: usize) -> String {
    // SAFETY: nothing here reads or frees it; whether the host does is what is
    // tried.
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
