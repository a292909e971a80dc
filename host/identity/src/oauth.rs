//! Clients that show an OAuth access token: which issuer's it is, whether it holds, and
//! which client it is. What held once is remembered until it ends.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use skillhost::config::{ClientConfig, IssuerConfig, KeySource};

use crate::access_token::{Claims, TokenError, UncheckedToken};
use crate::client::{Client, Expiry, Identified};
use crate::fetch::KeyFetcher;
use crate::issuer::Issuer;
use crate::refusal::{IssuerNumber, Refusal};

/// The most tokens that are remembered. Guards against: a client that gets ever new ones.
const MOST_REMEMBERED: usize = 4096;

/// The start of the path of the metadata, before the path of the resource.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What a server needs to take access tokens.
#[derive(Debug)]
pub(crate) struct OAuth {
    issuers: Vec<Issuer>,
    rules: Vec<ClientRule>,
    pub(crate) fetcher: KeyFetcher,
    /// By digest.
    remembered: Mutex<HashMap<[u8; 32], RememberedToken>>,
    pub(crate) metadata: ResourceMetadata,
}

/// The tokens that are one client's.
#[derive(Debug)]
struct ClientRule {
    client: Arc<Client>,
    claims: BTreeMap<String, String>,
    scopes: Vec<String>,
}

#[derive(Debug)]
struct RememberedToken {
    client: Arc<Client>,
    expires: SystemTime,
}

impl RememberedToken {
    fn identified(&self) -> Identified {
        Identified {
            client: Arc::clone(&self.client),
            expiry: self.client.expiry().or(Expiry::at(self.expires)),
        }
    }
}

/// What tells peers how to get an access token: RFC 9728.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The paths at which the document is served.
    pub paths: Vec<String>,
    /// Its address.
    pub address: String,
    /// The document.
    pub document: Value,
    /// The scopes that clients need, which a challenge names.
    pub scopes: Vec<String>,
}

impl OAuth {
    /// Sets up issuers and clients. None without issuers.
    pub(crate) fn new<'c>(
        clients: impl Iterator<Item = (&'c ClientConfig, &'c Arc<Client>)>,
        issuers: &[IssuerConfig],
        resource: &str,
        program: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let mut rules = Vec::new();
        for (config, client) in clients.filter(|(config, _)| !config.claims.is_empty()) {
            let place = &config.place;
            let table = config.table();
            ensure!(
                !issuers.is_empty(),
                "{place}: `claims` of `{table}` are of access tokens, and there is no \
                 `[issuers.NAME]`"
            );
            let issuer = config.claims.get("iss");
            ensure!(
                issuers.len() == 1 || issuer.is_some(),
                "{place}: `claims` of `{table}` need `iss`, because there are several issuers"
            );
            if let Some(issuer) = issuer {
                ensure!(
                    issuers.iter().any(|known| known.issuer == *issuer),
                    "{place}: `claims` of `{table}`: no `[issuers.NAME]` has this `iss`"
                );
            }
            rules.push(ClientRule {
                client: Arc::clone(client),
                claims: config.claims.clone(),
                scopes: config.oauth_scopes.clone(),
            });
        }
        if issuers.is_empty() {
            return Ok(None);
        }
        let mut sources = Vec::new();
        let mut read = Vec::new();
        for (index, config) in issuers.iter().enumerate() {
            let mut earlier = issuers[..index].iter();
            ensure!(
                earlier.all(|earlier| earlier.issuer != config.issuer),
                "{}: `issuer` of `[issuers.{}]` is that of another table too",
                config.place,
                config.name
            );
            let number = u8::try_from(index).context("too many issuers")?;
            read.push(Issuer::new(config, resource, number)?);
            sources.push(match &config.keys {
                KeySource::File(file) => std::path::absolute(&file.path)?.into_os_string(),
                KeySource::Address(address) => address.into(),
            });
        }
        let fetcher = KeyFetcher::start(program, &sources)?;
        Ok(Some(Self {
            metadata: ResourceMetadata::new(resource, issuers, &rules)?,
            issuers: read,
            rules,
            fetcher,
            remembered: Mutex::default(),
        }))
    }

    /// Returns the client that shows a token with this digest.
    pub(crate) fn identify(&self, token: &[u8], digest: [u8; 32]) -> Result<Identified, Refusal> {
        let now = SystemTime::now();
        if let Some(known) = self.remembered().get(&digest)
            && known.expires > now
        {
            return Ok(known.identified());
        }
        let token = UncheckedToken::read(token).map_err(Refusal::Token)?;
        let mut issuers = self.issuers.iter();
        let number = issuers.position(|issuer| issuer.issuer == token.issuer);
        let number = number.ok_or(Refusal::Token(TokenError::Issuer))?;
        let claims = self.issuers[number].check(token);
        let claims = claims.map_err(|error| match error {
            TokenError::Key => Refusal::UnknownKey(IssuerNumber(number)),
            error => Refusal::Token(error),
        })?;
        let client = self.client(&claims)?;
        let expires = claims.expires;
        let known = RememberedToken { client, expires };
        let identified = known.identified();
        self.remember(digest, known);
        Ok(identified)
    }

    /// Returns the client whose rule says most about these claims.
    fn client(&self, claims: &Claims) -> Result<Arc<Client>, Refusal> {
        let rules = self.rules.iter().filter(|rule| {
            let mut wanted = rule.claims.iter();
            wanted.all(|(name, value)| claims.have(name, value))
        });
        let rules: Vec<&ClientRule> = rules.collect();
        let most = rules.iter().map(|rule| rule.claims.len()).max();
        let mut best = rules.iter().filter(|rule| Some(rule.claims.len()) == most);
        let rule = best.next().ok_or(Refusal::NoClient)?;
        if best.next().is_some() {
            return Err(Refusal::SeveralClients);
        }
        match rule.scopes.iter().all(|scope| claims.have_scope(scope)) {
            true => Ok(Arc::clone(&rule.client)),
            false => Err(Refusal::Scopes(rule.scopes.clone())),
        }
    }

    fn remember(&self, digest: [u8; 32], token: RememberedToken) {
        let mut remembered = self.remembered();
        if remembered.len() >= MOST_REMEMBERED {
            // They are checked again, which costs little.
            remembered.clear();
        }
        remembered.insert(digest, token);
    }

    pub(crate) async fn look_for_all_keys(&self) {
        for number in 0..self.issuers.len() {
            self.look_for_keys(IssuerNumber(number)).await;
        }
    }

    pub(crate) async fn look_for_keys(&self, IssuerNumber(number): IssuerNumber) {
        if let Some(issuer) = self.issuers.get(number)
            && issuer.look(&self.fetcher).await
        {
            // A key that is gone was perhaps stolen, and its tokens may say that they never
            // expire.
            self.remembered().clear();
        }
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<[u8; 32], RememberedToken>> {
        let remembered = self.remembered.lock();
        remembered.unwrap_or_else(|broken| broken.into_inner())
    }
}

impl ResourceMetadata {
    fn new(resource: &str, issuers: &[IssuerConfig], rules: &[ClientRule]) -> anyhow::Result<Self> {
        let (scheme, rest) = resource.split_once("://").context("`resource`")?;
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let path = path.trim_end_matches('/');
        let mut scopes: Vec<String> = Vec::new();
        for scope in rules.iter().flat_map(|rule| &rule.scopes) {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        let servers: Vec<&str> = issuers.iter().map(|issuer| &*issuer.issuer).collect();
        let mut document = json!({
            "resource": resource,
            "authorization_servers": servers,
            "bearer_methods_supported": ["header"],
            "resource_name": "skillhost",
        });
        if !scopes.is_empty() {
            document["scopes_supported"] = json!(scopes);
        }
        let mut paths = vec![WELL_KNOWN.to_owned()];
        if !path.is_empty() {
            paths.push(format!("{WELL_KNOWN}{path}"));
        }
        Ok(Self {
            address: format!("{scheme}://{host}{WELL_KNOWN}{path}"),
            paths,
            document,
            scopes,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_token_that_held_is_remembered_by_its_digest_until_it_expires() {
        let resource = "https://mcp.example.com/mcp";
        let oauth = OAuth {
            issuers: Vec::new(),
            rules: Vec::new(),
            fetcher: KeyFetcher::start(Path::new("/bin/true"), &[]).unwrap(),
            remembered: Mutex::default(),
            metadata: ResourceMetadata::new(resource, &[], &[]).unwrap(),
        };
        let client = Arc::new(Client::unnamed());
        let now = SystemTime::now();
        let later = now + Duration::from_secs(600);
        let remember = |digest, expires| {
            let client = Arc::clone(&client);
            oauth.remember(digest, RememberedToken { client, expires });
        };
        remember([1; 32], later);
        remember([2; 32], now);
        // Whatever is read is refused: there is no issuer.
        for (digest, holds) in [(1, true), (2, false), (3, false)] {
            let found = oauth.identify(b"eyA.eyA.", [digest; 32]);
            assert_eq!(found.is_ok(), holds, "{digest}");
        }
        for number in 0..3 * MOST_REMEMBERED {
            let mut digest = [4; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            remember(digest, later);
            assert!(oauth.remembered().len() <= MOST_REMEMBERED);
        }
    }
}
