//! The table `[process]`: the settings of the program's own process. The crate `skillhost-confine`
//! implements the process sandbox.

use serde::Deserialize;

/// The extent to which the program confines its own process before it runs a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// As far as the kernel can; the log says what is missing.
    #[default]
    Auto,
    /// In full: it does not start if a part is missing, or as root.
    Required,
    /// Not at all.
    Off,
}

/// The keys of the table, as they are written.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RawProcess {
    pub(super) confine: Confinement,
}
