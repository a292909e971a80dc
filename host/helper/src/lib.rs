//! Helper processes. Most run this program's own file again, each for one task.
//!
//! - `append`: appends lines to files.
//! - `program`: the file of this program, commands that start it, and inherited signals.
//! - `message`: the messages between this process and a helper process.
//! - `process`: a helper process that answers requests over pipes, or turns one input into one
//!   output, with limits.
//!
//! This crate is part of [skillhost](https://crates.io/crates/skillhost). It may change at any
//! time.

mod append;

mod program;

mod message;

mod process;

pub use append::{TORN_CONSENT, append_line};
pub use message::{Kind, Message, read_message, write_message};
pub use process::{ChildHandle, GroupLeader, HelperProcess, answer_requests, answer_stdin};
pub use program::{
    OWN_PROGRAM, command, end_with_parent, name_parent, reset_signals, restore_process_name,
};
