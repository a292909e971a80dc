//! Code that the programs `skillhost` and `skillhost-author` share: the options of most verbs, the
//! display of components, and all printing. The verbs are in the crates of the programs.

// Lowest layer first: a module uses only modules above it in this list.

pub mod terminal;

pub mod exit;

pub mod log;

pub mod panic;

pub mod progress;

pub mod runners;

pub mod options;

pub mod inspect;

pub mod registry;

pub mod process;
