//! The attempts, by what they aim at. A row has a name, which begins with `keeps` if it is
//! no attack but shows that the wall leaves what is needed, and what it does.

mod files;
mod kernel;
mod processes;
mod sockets;

use std::sync::LazyLock;

use crate::ground::{Answer, Ground};

/// An attempt.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Ground) -> Answer,
}

/// All of them.
pub(crate) static TABLE: LazyLock<Vec<Attempt>> = LazyLock::new(|| {
    [
        files::ATTEMPTS,
        sockets::ATTEMPTS,
        processes::ATTEMPTS,
        kernel::ATTEMPTS,
    ]
    .concat()
});

/// Makes rows of names and closures.
macro_rules! attempts {
    ($($name:literal => $run:expr;)*) => {
        pub(super) const ATTEMPTS: &[crate::table::Attempt] =
            &[$(crate::table::Attempt { name: $name, run: $run },)*];
    };
}
use attempts;
