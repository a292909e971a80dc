//! The settings of clients and issuers, as read from a configuration.

mod clients;
mod issuers;

use serde::Deserialize;
use skillhost::config::{FileSettings, Keys, Tables};

pub use clients::{ClientConfig, ClientLimits};
pub use issuers::{IssuerConfig, KeySource, check_address};

/// The clients of a server, and the issuers of their access tokens.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct IdentitySettings {
    /// The clients, sorted by name.
    pub clients: Vec<ClientConfig>,
    /// The accepted issuers of access tokens, sorted by name.
    pub issuers: Vec<IssuerConfig>,
}

impl FileSettings for IdentitySettings {
    fn declare_keys(keys: &mut Keys) {
        clients::declare_keys(keys);
        issuers::declare_keys(keys);
    }

    fn from_tables(tables: &Tables<'_>) -> anyhow::Result<Self> {
        Ok(Self {
            issuers: issuers::read(tables)?,
            clients: clients::read(tables)?,
        })
    }
}

/// A value, or a list of values.
#[derive(Deserialize, Clone)]
#[serde(untagged, expecting = "expected a string, or a list of strings")]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn into_all(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}
