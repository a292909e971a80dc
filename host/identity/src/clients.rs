//! The clients of a server, and the check of what a request shows. A refusal tells the
//! operator why; the peer learns nothing of that.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use skillhost::Trust;
use skillhost::config::{ClientConfig, ClientLimits, IssuerConfig};
use skillhost::internal::is_own_user;

use crate::access_token;
use crate::client::{Client, Identified};
use crate::connections::{CertificateNames, ConnectionClients};
use crate::oauth::{OAuth, ResourceMetadata};
use crate::refusal::{IssuerNumber, Refusal};
use crate::shares::Shares;
use crate::token::{Token, digest};

/// The clients of a server. Without any, everybody may ask.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    clients: Vec<Arc<Client>>,
    tokens: Vec<ClientToken>,
    oauth: Option<Arc<OAuth>>,
    pub(crate) connections: ConnectionClients,
}

/// A token, and the client that shows it.
#[derive(Debug, Clone)]
struct ClientToken {
    token: Token,
    client: Arc<Client>,
    /// The place where it was configured, for messages.
    place: String,
}

impl Clients {
    /// Reads the tokens of configured clients.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, others have access to it, or its text is not a token;
    /// or if two clients have the same token.
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
                clients.add_token(Token::of_digest(*digest), &client, &config.place)?;
            }
            clients.connections.add(config, &client)?;
            clients.clients.push(client);
        }
        Ok(clients)
    }

    /// Adds the client without a name, which has this token and may use everything.
    ///
    /// # Errors
    ///
    /// If a client with a name has the same token.
    pub fn and_unnamed(mut self, token: Token) -> anyhow::Result<Self> {
        // Alone it has the whole server.
        let has_others = !self.clients.is_empty() || self.oauth.is_some();
        let shares = has_others.then(|| Shares::new(&ClientLimits::default()));
        let client = Arc::new(Client::unnamed(shares));
        self.add_token(token, &client, "the token of `[http]`")?;
        self.clients.push(client);
        Ok(self)
    }

    fn add_token(&mut self, token: Token, client: &Arc<Client>, place: &str) -> anyhow::Result<()> {
        let same = self.tokens.iter().find(|known| known.token == token);
        if let Some(same) = same {
            ensure!(
                Arc::ptr_eq(&same.client, client),
                "{place}: this token is also that of {} ({}); each client needs a token of its own",
                described(&same.client),
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

    /// Takes access tokens of these issuers, for this server's address. `program` is
    /// started to fetch the keys of each, which has to be before the process confines itself.
    ///
    /// # Errors
    ///
    /// If keys in a file cannot be read, or a process cannot be started.
    pub fn and_issuers(
        mut self,
        configured: &[ClientConfig],
        issuers: &[IssuerConfig],
        resource: &str,
        program: &Path,
        trust: &Trust,
    ) -> anyhow::Result<Self> {
        let clients = configured.iter().zip(&self.clients);
        let oauth = OAuth::new(clients, issuers, resource, program, trust)?;
        self.oauth = oauth.map(Arc::new);
        Ok(self)
    }

    /// Returns what tells peers how to get an access token, if they can.
    pub fn resource_metadata(&self) -> Option<&ResourceMetadata> {
        self.oauth.as_ref().map(|oauth| &oauth.metadata)
    }

    /// Looks at the keys of all issuers, so that the first tokens find them.
    pub async fn look_for_all_keys(&self) {
        if let Some(oauth) = &self.oauth {
            oauth.look_for_all_keys().await;
        }
    }

    /// Reads the keys of all issuers again and again, with this pause. So a key that its issuer
    /// has withdrawn is noticed without a token that needs another.
    pub async fn poll_keys(&self, pause: Duration) {
        loop {
            self.look_for_all_keys().await;
            tokio::time::sleep(pause).await;
        }
    }

    /// Looks at the keys of an issuer again, unless somebody just did.
    ///
    /// # Errors
    ///
    /// If too many requests wait for that.
    pub async fn look_for_keys(&self, issuer: IssuerNumber) -> Result<(), Refusal> {
        match &self.oauth {
            Some(oauth) => oauth.look_for_keys(issuer).await,
            None => Ok(()),
        }
    }

    /// Checks that there are none, and everybody may ask.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.oauth.is_none()
    }

    /// Returns the number of clients.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Returns the client that a request shows by its `Authorization` headers. Every
    /// token is compared, so that the time tells nothing.
    pub fn identify<'h>(
        &self,
        mut authorization: impl Iterator<Item = &'h [u8]>,
    ) -> Result<Identified, Refusal> {
        let credentials = authorization.next().ok_or(Refusal::Missing)?;
        let scheme = b"bearer ";
        let is_bearer = credentials
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if authorization.next().is_some() || !is_bearer {
            return Err(Refusal::Malformed);
        }
        let token = credentials[scheme.len()..].trim_ascii();
        let shown = digest(token);
        let mut found = None;
        for known in &self.tokens {
            if known.token.is(&shown) {
                found = Some(&known.client);
            }
        }
        in_time(match (found, &self.oauth) {
            (Some(client), _) => of_itself(client),
            (None, Some(oauth)) if access_token::may_be(token) => oauth.identify(token, shown)?,
            (None, _) => return Err(Refusal::Unknown),
        })
    }

    /// Returns the client whose user has connected to a Unix socket.
    ///
    /// # Errors
    ///
    /// If no client has the user, or the client's time has passed.
    pub fn identify_user(&self, user: u32) -> Result<Identified, Refusal> {
        let client = self.connections.with_user(user);
        in_time(of_itself(client.ok_or(Refusal::User(user))?))
    }

    /// Returns the client whose certificate a connection has shown.
    ///
    /// # Errors
    ///
    /// If no client has one of its names, several have, or the client's time has passed.
    pub fn identify_certificate(&self, names: &CertificateNames) -> Result<Identified, Refusal> {
        let mut clients = self.connections.with_names(names);
        let refused = || Refusal::Certificate(names.clone());
        let client = clients.next().ok_or_else(refused)?;
        match clients.all(|other| Arc::ptr_eq(other, client)) {
            true => in_time(of_itself(client)),
            false => Err(Refusal::CertificateOfSeveral(names.clone())),
        }
    }

    /// Checks a user who connects to the Unix socket of a server without clients: only
    /// the server's own and root may ask.
    ///
    /// # Errors
    ///
    /// If it is another one.
    pub fn check_own_user(user: u32) -> Result<(), Refusal> {
        match user == 0 || is_own_user(user) {
            true => Ok(()),
            false => Err(Refusal::User(user)),
        }
    }

    /// Returns what the operator should know of configured clients: those whose time has
    /// passed.
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

/// Identifies a client by what counts as long as the client itself.
fn of_itself(client: &Arc<Client>) -> Identified {
    Identified {
        client: Arc::clone(client),
        expiry: client.expiry(),
    }
}

/// Returns a client whose time has not passed.
fn in_time(identified: Identified) -> Result<Identified, Refusal> {
    match identified.client.name() {
        Some(name) if identified.client.expiry().has_passed() => {
            Err(Refusal::Expired(Arc::clone(name)))
        }
        _ => Ok(identified),
    }
}

fn described(client: &Client) -> String {
    match client.name() {
        Some(name) => format!("`[clients.{name}]`"),
        None => "`[http]`".to_owned(),
    }
}

#[cfg(test)]
mod tests;
