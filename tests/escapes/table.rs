//! The table of escapes, grouped by target.
//!
//! A row has a name and a system call. A row whose name begins with `keeps` is no attack: it shows
//! that the process sandbox allows what the program needs.

mod egress;
mod files;
mod kernel;
mod processes;
mod sockets;

pub(crate) use egress::{GRANTED, SECRET};

use std::sync::LazyLock;

use crate::targets::{Answer, Targets};

/// A row of the table.
#[derive(Clone, Copy)]
pub(crate) struct Escape {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Targets) -> Answer,
}

/// The rows for a program without an egress process.
pub(crate) static TABLE: LazyLock<Vec<Escape>> = LazyLock::new(|| {
    [
        files::ESCAPES,
        sockets::ESCAPES,
        processes::ESCAPES,
        kernel::ESCAPES,
    ]
    .concat()
});

/// The rows for a program with an egress process: sockets and requests.
pub(crate) static EGRESS_TABLE: LazyLock<Vec<Escape>> =
    LazyLock::new(|| [sockets::ESCAPES, egress::ESCAPES].concat());

/// Defines rows from names and closures.
macro_rules! escapes {
    ($($name:literal => $run:expr;)*) => {
        pub(super) const ESCAPES: &[crate::table::Escape] =
            &[$(crate::table::Escape { name: $name, run: $run },)*];
    };
}
use escapes;
