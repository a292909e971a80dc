//! In the place of C, in a program that was built without its kit.

use std::path::PathBuf;

use super::Fault;
use super::project::Project;

pub(super) fn build(_: &Project) -> Result<PathBuf, Fault> {
    Err(
        Fault::missing("this program was built without the kit for C")
            .fix("`cargo install --locked --path host --features c-kit` builds it with that"),
    )
}
