//! What the programs `skillhost` and `skillhost-author` share: the options that most verbs
//! take, how components are shown, and everything that is printed. Not here: verbs.

// Lowest first: a module uses those above it, and no other.

pub mod terminal;

pub mod exit;

pub mod log;

pub mod panic;

pub mod options;

pub mod inspect;

pub mod process;
