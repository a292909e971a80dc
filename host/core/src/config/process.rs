//! The table `[process]`: the settings of the process sandbox in the crate
//! `skillhost-confine`.

use serde::Deserialize;

/// The use of the process sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// Confines the process as far as the kernel supports it; the log says what is missing.
    #[default]
    Auto,
    /// Refuses to start if a part of the sandbox is missing, or as root.
    Required,
    /// Does not confine the process.
    Off,
}

/// The raw keys of the table.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct RawProcess {
    pub(super) confine: Confinement,
}
