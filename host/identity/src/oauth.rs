//! Clients identified by OAuth access tokens: finds the issuer of a token, checks the token, and
//! finds the client by its claims. A valid token is remembered until it expires.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use skillhost::Trust;
use tokio::task::JoinSet;

use crate::access_token::{Claims, TokenError, UncheckedToken};
use crate::client::{Client, Identity};
use crate::issuer::{Issuer, KeyReader, VerifiedToken};
use crate::refusal::{IssuerIndex, Refusal};
use crate::settings::{ClientConfig, IssuerConfig};

/// The start of the metadata's path. The path of the resource follows.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The issuers of access tokens, and the clients that use such tokens.
#[derive(Debug)]
pub(crate) struct OAuthClients {
    pub(crate) issuers: Vec<Arc<Issuer>>,
    rules: Vec<ClientRule>,
    pub(crate) metadata: ResourceMetadata,
}

/// The claims and OAuth scopes that the tokens of one client must have.
#[derive(Debug)]
struct ClientRule {
    client: Arc<Client>,
    claims: BTreeMap<String, String>,
    scopes: Vec<String>,
}

/// The protected resource metadata (RFC 9728): tells peers how to get an access token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The paths at which the document is served.
    pub paths: Vec<String>,
    /// The address of the document.
    pub address: String,
    /// The document.
    pub document: Value,
    /// The OAuth scopes that clients need, for challenges.
    pub scopes: Vec<String>,
}

impl OAuthClients {
    /// Sets up issuers and clients. Returns `None` if there are no issuers.
    pub(crate) fn new<'c>(
        clients: impl Iterator<Item = (&'c ClientConfig, &'c Arc<Client>)>,
        issuers: &[IssuerConfig],
        resource: &str,
        trust: &Trust,
    ) -> anyhow::Result<Option<Self>> {
        let mut rules = Vec::new();
        for (config, client) in clients.filter(|(config, _)| !config.claims.is_empty()) {
            let place = &config.place;
            let table = config.table();
            ensure!(
                !issuers.is_empty(),
                "{place}: `claims` of `{table}` need an `[issuers.NAME]` table, and there is none"
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
        let mut opened = Vec::new();
        for (index, config) in issuers.iter().enumerate() {
            let mut earlier = issuers[..index].iter();
            ensure!(
                earlier.all(|earlier| earlier.issuer != config.issuer),
                "{}: another table has the same `issuer` as `[issuers.{}]`",
                config.place,
                config.name
            );
            opened.push(Arc::new(Issuer::new(config, resource, trust)?));
        }
        Ok(Some(Self {
            metadata: ResourceMetadata::new(resource, issuers, &rules)?,
            issuers: opened,
            rules,
        }))
    }

    /// Returns the client of an access token. `digest` is the token's digest.
    pub(crate) fn identify(&self, token: &[u8], digest: [u8; 32]) -> Result<Identity, Refusal> {
        let now = SystemTime::now();
        let mut issuers = self.issuers.iter();
        if let Some(identity) = issuers.find_map(|issuer| issuer.keys().recall(&digest, now)) {
            return Ok(identity);
        }
        let token = UncheckedToken::parse(token).map_err(Refusal::InvalidToken)?;
        let mut issuers = self.issuers.iter();
        let index = issuers.position(|issuer| issuer.issuer == token.issuer);
        let index = index.ok_or(Refusal::InvalidToken(TokenError::UnknownIssuer))?;
        let issuer = &self.issuers[index];
        let keys = issuer.keys();
        let claims = issuer.check(token, &keys);
        let claims = claims.map_err(|error| match error {
            TokenError::UnknownKey => Refusal::UnknownKey(IssuerIndex(index)),
            error => Refusal::InvalidToken(error),
        })?;
        let verified = VerifiedToken {
            client: self.find_client(&claims)?,
            expires: claims.expires,
        };
        let identity = verified.identity();
        keys.remember(digest, verified);
        Ok(identity)
    }

    /// Returns the client whose claims are all in the token.
    ///
    /// If there are several, returns the one with the most claims.
    fn find_client(&self, claims: &Claims) -> Result<Arc<Client>, Refusal> {
        let rules = self.rules.iter().filter(|rule| {
            let mut required = rule.claims.iter();
            required.all(|(name, value)| claims.has(name, value))
        });
        let rules: Vec<&ClientRule> = rules.collect();
        let most = rules.iter().map(|rule| rule.claims.len()).max();
        let mut best = rules.iter().filter(|rule| Some(rule.claims.len()) == most);
        let rule = best.next().ok_or(Refusal::NoClient)?;
        if best.next().is_some() {
            return Err(Refusal::AmbiguousClient);
        }
        if !rule.scopes.iter().all(|scope| claims.has_scope(scope)) {
            return Err(Refusal::MissingScopes(rule.scopes.clone()));
        }
        Ok(Arc::clone(&rule.client))
    }

    /// Returns whether the keys of all issuers can be read again.
    ///
    /// Returns `false` if some keys are fetched and the egress process has ended. Then the server
    /// must be restarted.
    pub(crate) fn can_read_keys(&self, reader: &KeyReader) -> bool {
        let mut issuers = self.issuers.iter();
        issuers.all(|issuer| issuer.can_read_keys(reader))
    }

    /// Reads the keys of all issuers again.
    pub(crate) async fn refresh_all_keys(&self, reader: &KeyReader) {
        let refreshes = self.issuers.iter().map(|issuer| {
            let (issuer, reader) = (Arc::clone(issuer), reader.clone());
            async move { issuer.refresh(&reader).await }
        });
        refreshes.collect::<JoinSet<_>>().join_all().await;
    }

    /// Reads the keys of one issuer again, unless they were read a moment ago.
    pub(crate) async fn refresh_keys(
        &self,
        IssuerIndex(index): IssuerIndex,
        reader: &KeyReader,
    ) -> Result<(), Refusal> {
        match self.issuers.get(index) {
            Some(issuer) if !issuer.refresh(reader).await => Err(Refusal::TooManyWaiting),
            Some(issuer) if issuer.has_failed() => Err(Refusal::UnreadableKeys),
            _ => Ok(()),
        }
    }
}

impl ResourceMetadata {
    fn new(resource: &str, issuers: &[IssuerConfig], rules: &[ClientRule]) -> anyhow::Result<Self> {
        let (scheme, rest) = resource.split_once("://").context("`resource`")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
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
