//! All clients of a server: finds the client of a request by its credential. Only the operator
//! learns the reason for a refusal, not the peer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use skillhost::Trust;
use skillhost_skills::broker::Opener;
use skillhost_skills::own_user::is_own_user;

use crate::access_token;
use crate::budget::ClientBudget;
use crate::client::{Client, Identity};
use crate::connections::{CertificateNames, ConnectionClients};
use crate::issuer::{FetchKeys, KeyReader};
use crate::oauth::{OAuthClients, ResourceMetadata};
use crate::refusal::{IssuerIndex, Refusal};
use crate::settings::{ClientConfig, ClientLimits, IssuerConfig};
use crate::token::{Token, digest};

/// The clients of a server. If there are none, everybody may send requests.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    clients: Vec<Arc<Client>>,
    tokens: Vec<ClientToken>,
    oauth: Option<Arc<OAuthClients>>,
    connections: ConnectionClients,
    key_reader: KeyReader,
}

/// A token and its client.
#[derive(Debug, Clone)]
struct ClientToken {
    token: Token,
    client: Arc<Client>,
    /// The place of the token in the configuration, for messages.
    place: String,
}

impl Clients {
    /// Creates the configured clients, and reads their token files.
    ///
    /// # Errors
    ///
    /// If a token file cannot be read, users other than those in `trust` have access to it or to
    /// its path, or its text is not a token; or if two clients have the same credential.
    pub fn read(configured: &[ClientConfig], trust: &Trust) -> anyhow::Result<Self> {
        let mut clients = Self::default();
        for config in configured {
            let client = Arc::new(Client::new(config));
            for file in &config.token_files {
                let place = &file.place;
                let token = Token::read(&file.path, trust)
                    .with_context(|| format!("{place}: `token_file` of `{}`", config.table()))?;
                clients.add_token(token, &client, place)?;
            }
            for digest in &config.token_digests {
                clients.add_token(Token::from_digest(*digest), &client, &config.place)?;
            }
            clients.connections.add(config, &client)?;
            clients.clients.push(client);
        }
        Ok(clients)
    }

    /// Adds the unnamed client, which has this token and may use everything.
    ///
    /// # Errors
    ///
    /// If a client with a name has the same token.
    pub fn with_unnamed(mut self, token: Token) -> anyhow::Result<Self> {
        // The only client of a server needs no budget.
        let has_others = !self.clients.is_empty() || self.oauth.is_some();
        let budget = has_others.then(|| ClientBudget::new(&ClientLimits::default()));
        let client = Arc::new(Client::unnamed(budget));
        self.add_token(token, &client, "the token of `[http]`")?;
        self.clients.push(client);
        Ok(self)
    }

    fn add_token(&mut self, token: Token, client: &Arc<Client>, place: &str) -> anyhow::Result<()> {
        let same = self.tokens.iter().find(|known| known.token == token);
        if let Some(same) = same {
            ensure!(
                Arc::ptr_eq(&same.client, client),
                "{place}: {} has the same token ({}); give each client a token of its own",
                table_of(&same.client),
                same.place
            );
            return Ok(());
        }
        self.tokens.push(ClientToken {
            token,
            client: Arc::clone(client),
            place: place.to_owned(),
        });
        Ok(())
    }

    /// Adds the issuers whose access tokens this server accepts. `resource` is the server's
    /// address.
    ///
    /// Keys at an address also need [`Self::with_fetch`].
    ///
    /// # Errors
    ///
    /// If keys in a file cannot be read, two issuers have the same identifier, or the `claims` of a
    /// client do not identify one of `issuers`.
    pub fn with_issuers(
        mut self,
        configured: &[ClientConfig],
        issuers: &[IssuerConfig],
        resource: &str,
        trust: &Trust,
    ) -> anyhow::Result<Self> {
        let clients = configured.iter().zip(&self.clients);
        let oauth = OAuthClients::new(clients, issuers, resource, trust)?;
        self.oauth = oauth.map(Arc::new);
        Ok(self)
    }

    /// Sets the opener for reading issuers' key files again. Default: one without a broker.
    #[must_use]
    pub fn with_opener(mut self, opener: Opener) -> Self {
        self.key_reader.opener = opener;
        self
    }

    /// Sets the fetcher of issuers' keys at addresses. Without one, such keys cannot be used.
    #[must_use]
    pub fn with_fetch(mut self, fetch: Arc<dyn FetchKeys>) -> Self {
        self.key_reader.fetch = Some(fetch);
        self
    }

    /// Returns the metadata that tells peers how to get an access token, if issuers are
    /// configured.
    pub fn resource_metadata(&self) -> Option<&ResourceMetadata> {
        self.oauth.as_ref().map(|oauth| &oauth.metadata)
    }

    /// Polls the keys of all issuers, with this pause between polls.
    ///
    /// This way, the first token does not wait for the keys, and a withdrawn key is noticed even if
    /// no token names an unknown key.
    pub async fn poll_keys(&self, pause: Duration) {
        loop {
            self.refresh_all_keys().await;
            tokio::time::sleep(pause).await;
        }
    }

    async fn refresh_all_keys(&self) {
        if let Some(oauth) = &self.oauth {
            oauth.refresh_all_keys(&self.key_reader).await;
        }
    }

    /// Reads the keys of an issuer again, unless they were read a moment ago.
    ///
    /// # Errors
    ///
    /// If too many requests wait for the keys, or they cannot be read.
    pub async fn refresh_keys(&self, issuer: IssuerIndex) -> Result<(), Refusal> {
        match &self.oauth {
            Some(oauth) => oauth.refresh_keys(issuer, &self.key_reader).await,
            None => Ok(()),
        }
    }

    /// Returns whether the keys of all issuers can be read again.
    ///
    /// Returns `false` if some keys are fetched and the egress process has ended. Then the server
    /// must be restarted.
    pub fn can_read_keys(&self) -> bool {
        let oauth = self.oauth.as_ref();
        oauth.is_none_or(|oauth| oauth.can_read_keys(&self.key_reader))
    }

    /// Returns whether there are no clients, so that everybody may send requests.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.oauth.is_none()
    }

    /// Returns the number of clients.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Returns the client whose token is in the `Authorization` headers of a request.
    ///
    /// # Errors
    ///
    /// If there is not exactly one bearer token, if it belongs to no client or is not valid, or
    /// if the client has expired.
    pub fn identify<'h>(
        &self,
        mut authorization: impl Iterator<Item = &'h [u8]>,
    ) -> Result<Identity, Refusal> {
        let credentials = authorization.next().ok_or(Refusal::NoToken)?;
        let scheme = b"bearer ";
        let is_bearer = credentials
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if authorization.next().is_some() || !is_bearer {
            return Err(Refusal::MalformedAuthorization);
        }
        let token = credentials[scheme.len()..].trim_ascii();
        let digest = digest(token);
        // Compares with every token, so that the time does not reveal which one matches.
        let mut client = None;
        for known in &self.tokens {
            if known.token.has_digest(&digest) {
                client = Some(&known.client);
            }
        }
        check_expiry(match (client, &self.oauth) {
            (Some(client), _) => with_own_expiry(client),
            (None, Some(oauth)) if access_token::looks_like_jwt(token) => {
                oauth.identify(token, digest)?
            }
            (None, _) => return Err(Refusal::UnknownToken),
        })
    }

    /// Returns the client of the user who connected to a Unix socket.
    ///
    /// # Errors
    ///
    /// If no client has the user, or the client has expired.
    pub fn identify_user(&self, user: u32) -> Result<Identity, Refusal> {
        let client = self.connections.find_by_user(user);
        check_expiry(with_own_expiry(client.ok_or(Refusal::UnknownUser(user))?))
    }

    /// Returns the client that a connection's certificate names.
    ///
    /// # Errors
    ///
    /// If no client or several clients have one of the names, or the client has expired.
    pub fn identify_certificate(&self, names: &CertificateNames) -> Result<Identity, Refusal> {
        let mut clients = self.connections.find_by_names(names);
        let unknown = || Refusal::UnknownCertificate(names.clone());
        let client = clients.next().ok_or_else(unknown)?;
        if !clients.all(|other| Arc::ptr_eq(other, client)) {
            return Err(Refusal::AmbiguousCertificate(names.clone()));
        }
        check_expiry(with_own_expiry(client))
    }

    /// Checks the user who connects to the Unix socket of a server without clients.
    ///
    /// # Errors
    ///
    /// If the user is neither root nor the user of the server.
    pub fn check_own_user(user: u32) -> Result<(), Refusal> {
        if user == 0 || is_own_user(user) {
            Ok(())
        } else {
            Err(Refusal::UnknownUser(user))
        }
    }

    /// Returns a warning for each configured client that has expired.
    pub fn warnings(configured: &[ClientConfig]) -> Vec<String> {
        let now = SystemTime::now();
        let expired = configured
            .iter()
            .filter(|config| config.expires.is_some_and(|expires| expires <= now));
        expired
            .map(|config| {
                format!(
                    "{}: `expires` of `{}` has passed; its requests are refused",
                    config.place,
                    config.table()
                )
            })
            .collect()
    }
}

/// Returns an identity that expires when the client does, for credentials other than access tokens.
fn with_own_expiry(client: &Arc<Client>) -> Identity {
    Identity {
        client: Arc::clone(client),
        expiry: client.expiry(),
    }
}

/// Refuses a client that has expired.
fn check_expiry(identity: Identity) -> Result<Identity, Refusal> {
    match identity.client.name() {
        Some(name) if identity.client.expiry().has_passed() => {
            Err(Refusal::ClientExpired(Arc::clone(name)))
        }
        _ => Ok(identity),
    }
}

/// Returns the configuration table of a client, for messages.
fn table_of(client: &Client) -> String {
    match client.name() {
        Some(name) => format!("`[clients.{name}]`"),
        None => "`[http]`".to_owned(),
    }
}

#[cfg(test)]
mod tests;
