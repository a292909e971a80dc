//! The interface between the parser of a configuration and the settings of each layer.

use super::Config;
use super::keys::Keys;
use super::tables::Tables;

/// Settings that are read from a configuration.
///
/// Each layer has its own settings, and a program joins them into one type.
///
/// ```
/// use serde::Deserialize;
/// use skillhost::config::{self, FileSettings, Keys, Tables};
///
/// #[derive(Deserialize, Default)]
/// #[serde(default)]
/// struct ProcessSettings {
///     confine: String,
/// }
///
/// impl FileSettings for ProcessSettings {
///     fn declare_keys(keys: &mut Keys) {
///         keys.fields::<Self>("process");
///     }
///
///     fn from_tables(tables: &Tables<'_>) -> anyhow::Result<Self> {
///         tables.table("process")
///     }
/// }
///
/// # fn main() -> anyhow::Result<()> {
/// let text = "[process]\nconfine = \"off\"";
/// let settings: ProcessSettings = config::parse(text, "skillhost.toml", "/etc".as_ref())?;
/// assert_eq!(settings.confine, "off");
/// # Ok(())
/// # }
/// ```
pub trait FileSettings: Sized {
    /// Declares the keys of these settings. Keys that neither they nor [`Config`] declare are
    /// refused.
    fn declare_keys(keys: &mut Keys);

    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// Fails if a value is invalid. The error starts with the value's [place](Tables::place).
    fn from_tables(tables: &Tables<'_>) -> anyhow::Result<Self>;
}

impl Keys {
    /// Returns the keys of these settings and of [`Config`].
    pub fn of<S: FileSettings>() -> Self {
        let mut keys = Self::default();
        Config::declare_keys(&mut keys);
        S::declare_keys(&mut keys);
        keys
    }
}
