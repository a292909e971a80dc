//! What a connection shows of its peer by itself, before any request: the user of the
//! process at a Unix socket, or the names of a certificate over TLS. A request that shows a token is told apart by that alone.

use std::fmt;
use std::sync::Arc;

use anyhow::ensure;
use skillhost::config::ClientConfig;

use crate::client::Client;

/// The clients that a connection can show.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionClients {
    users: Vec<(u32, Arc<Client>)>,
    names: Vec<(String, Arc<Client>)>,
}

/// The names of a certificate that an authority of the operator has signed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateNames(Vec<String>);

impl CertificateNames {
    /// Returns the names: those of hosts, and URIs.
    pub fn new<'n>(
        hosts: impl Iterator<Item = &'n str>,
        uris: impl Iterator<Item = &'n str>,
    ) -> Self {
        // A host cannot pass for a URI, nor the other way round.
        let hosts = hosts.filter(|host| !host.contains(':'));
        let uris = uris.filter(|uri| uri.contains(':'));
        let hosts = hosts.map(str::to_ascii_lowercase);
        Self(hosts.chain(uris.map(str::to_owned)).collect())
    }
}

impl fmt::Display for CertificateNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
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
        for name in &config.certificate_names {
            let other = self.names.iter().find(|(known, _)| known == name);
            let other = other.and_then(|(_, other)| other.name());
            ensure!(
                other.is_none_or(|other| **other == *config.name),
                "{}: `certificate_names` of `{}`: `{name}` is `[clients.{}]` already",
                config.place,
                config.table(),
                other.map_or("", |name| &**name)
            );
            self.names.push((name.clone(), Arc::clone(client)));
        }
        Ok(())
    }

    /// Returns the client whose processes are this user's.
    pub(crate) fn with_user(&self, user: u32) -> Option<&Arc<Client>> {
        let mut users = self.users.iter();
        let found = users.find(|(known, _)| *known == user);
        found.map(|(_, client)| client)
    }

    /// Returns the clients that a certificate with these names can be.
    pub(crate) fn with_names<'c>(
        &'c self,
        names: &CertificateNames,
    ) -> impl Iterator<Item = &'c Arc<Client>> {
        let known = self.names.iter();
        let of_names = known.filter(|(name, _)| names.0.contains(name));
        of_names.map(|(_, client)| client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_names_that_count() {
        let hosts = ["A.example", "spiffe://x/a"].into_iter();
        let names = CertificateNames::new(hosts, ["spiffe://x/b", "b.example"].into_iter());
        assert_eq!(names.to_string(), r#"["a.example", "spiffe://x/b"]"#);
    }
}
