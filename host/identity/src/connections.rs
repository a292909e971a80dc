//! Clients identified by their connection: by the user at a Unix socket, or by the names of a TLS
//! certificate. Only requests without a token are identified this way.

use std::fmt;
use std::sync::Arc;

use anyhow::ensure;

use crate::client::Client;
use crate::settings::ClientConfig;

/// The clients that a connection can identify.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionClients {
    users: Vec<(u32, Arc<Client>)>,
    names: Vec<(String, Arc<Client>)>,
}

/// The names of a certificate that a configured certificate authority has signed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateNames(Vec<String>);

impl CertificateNames {
    /// Returns the names of a certificate: its hosts and its URIs.
    pub fn new<'n>(
        hosts: impl Iterator<Item = &'n str>,
        uris: impl Iterator<Item = &'n str>,
    ) -> Self {
        // A host must not be taken for a URI, nor a URI for a host.
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
    /// Adds the users and certificate names of a configured client.
    ///
    /// # Errors
    ///
    /// If another client has one of them.
    pub(crate) fn add(
        &mut self,
        config: &ClientConfig,
        client: &Arc<Client>,
    ) -> anyhow::Result<()> {
        for user in &config.unix_users {
            let what = format!("`unix_users` of `{}`: the user {user}", config.table());
            add_unique(&mut self.users, *user, client, config, &what)?;
        }
        for name in &config.certificate_names {
            let what = format!("`certificate_names` of `{}`: `{name}`", config.table());
            add_unique(&mut self.names, name.clone(), client, config, &what)?;
        }
        Ok(())
    }

    /// Returns the client with this user.
    pub(crate) fn find_by_user(&self, user: u32) -> Option<&Arc<Client>> {
        let mut users = self.users.iter();
        let entry = users.find(|(known, _)| *known == user);
        entry.map(|(_, client)| client)
    }

    /// Returns the clients that have one of a certificate's names.
    pub(crate) fn find_by_names<'c>(
        &'c self,
        names: &CertificateNames,
    ) -> impl Iterator<Item = &'c Arc<Client>> {
        let entries = self.names.iter();
        let entries = entries.filter(|(name, _)| names.0.contains(name));
        entries.map(|(_, client)| client)
    }
}

/// Adds a client's user or name. Fails if another client has it.
fn add_unique<K: PartialEq>(
    entries: &mut Vec<(K, Arc<Client>)>,
    key: K,
    client: &Arc<Client>,
    config: &ClientConfig,
    what: &str,
) -> anyhow::Result<()> {
    let entry = entries.iter().find(|(known, _)| *known == key);
    let owner = entry.map(|(_, owner)| owner);
    ensure!(
        owner.is_none_or(|owner| Arc::ptr_eq(owner, client)),
        "{}: {what} already belongs to `[clients.{}]`",
        config.place,
        owner
            .and_then(|owner| owner.name())
            .map_or("", |name| &**name)
    );
    entries.push((key, Arc::clone(client)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_uris_among_hosts_and_hosts_among_uris() {
        let hosts = ["A.example", "spiffe://x/a"].into_iter();
        let names = CertificateNames::new(hosts, ["spiffe://x/b", "b.example"].into_iter());
        assert_eq!(names.to_string(), r#"["a.example", "spiffe://x/b"]"#);
    }
}
