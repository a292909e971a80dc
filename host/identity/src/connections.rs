//! What a connection shows of its peer by itself, before any request: the user of the
//! process at a Unix socket. A request that shows a token is told apart by that alone.

use std::sync::Arc;

use anyhow::ensure;
use skillhost::config::ClientConfig;

use crate::client::Client;

/// The clients that a connection can show.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionClients {
    users: Vec<(u32, Arc<Client>)>,
}

impl ConnectionClients {
    /// Adds what a configured client's connections show.
    ///
    /// # Errors
    ///
    /// If another client's show the same.
    pub(crate) fn add(
        &mut self,
        config: &ClientConfig,
        client: &Arc<Client>,
    ) -> anyhow::Result<()> {
        for user in &config.unix_users {
            let other = self.users.iter().find(|(known, _)| known == user);
            let other = other.and_then(|(_, other)| other.name());
            ensure!(
                other.is_none_or(|other| **other == *config.name),
                "{}: `unix_users` of `{}`: the user {user} is `[clients.{}]` already",
                config.place,
                config.table(),
                other.map_or("", |name| &**name)
            );
            self.users.push((*user, Arc::clone(client)));
        }
        Ok(())
    }

    /// Returns the client whose processes are this user's.
    pub(crate) fn with_user(&self, user: u32) -> Option<&Arc<Client>> {
        let mut users = self.users.iter();
        let found = users.find(|(known, _)| *known == user);
        found.map(|(_, client)| client)
    }
}
