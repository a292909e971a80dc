//! Clients that show an OAuth access token: which issuer's it is, whether it holds, and
//! which client it is. What held once is remembered until it ends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use skillhost::Trust;
use skillhost::config::{ClientConfig, IssuerConfig};
use tokio::task::JoinSet;

use crate::access_token::{Claims, TokenError, UncheckedToken};
use crate::client::{Client, Identified};
use crate::issuer::{Issuer, RememberedToken};
use crate::refusal::{IssuerNumber, Refusal};

/// The start of the path of the metadata, before the path of the resource.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What a server needs to take access tokens.
#[derive(Debug)]
pub(crate) struct OAuth {
    pub(crate) issuers: Vec<Arc<Issuer>>,
    rules: Vec<ClientRule>,
    pub(crate) metadata: ResourceMetadata,
}

/// The tokens that are one client's.
#[derive(Debug)]
struct ClientRule {
    client: Arc<Client>,
    claims: BTreeMap<String, String>,
    scopes: Vec<String>,
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
        trust: &Trust,
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
        let mut read = Vec::new();
        for (index, config) in issuers.iter().enumerate() {
            let mut earlier = issuers[..index].iter();
            ensure!(
                earlier.all(|earlier| earlier.issuer != config.issuer),
                "{}: `issuer` of `[issuers.{}]` is that of another table too",
                config.place,
                config.name
            );
            read.push(Arc::new(Issuer::new(config, resource, program, trust)?));
        }
        Ok(Some(Self {
            metadata: ResourceMetadata::new(resource, issuers, &rules)?,
            issuers: read,
            rules,
        }))
    }

    /// Returns the client that shows a token with this digest.
    pub(crate) fn identify(&self, token: &[u8], digest: [u8; 32]) -> Result<Identified, Refusal> {
        let now = SystemTime::now();
        let mut known = self.issuers.iter();
        let known = known.find_map(|issuer| issuer.keys().remembered(&digest, now));
        if let Some(known) = known {
            return Ok(known);
        }
        let token = UncheckedToken::read(token).map_err(Refusal::Token)?;
        let mut issuers = self.issuers.iter();
        let number = issuers.position(|issuer| issuer.issuer == token.issuer);
        let number = number.ok_or(Refusal::Token(TokenError::Issuer))?;
        let issuer = &self.issuers[number];
        let keys = issuer.keys();
        let claims = issuer.check(token, &keys);
        let claims = claims.map_err(|error| match error {
            TokenError::Key => Refusal::UnknownKey(IssuerNumber(number)),
            error => Refusal::Token(error),
        })?;
        let client = self.client(&claims)?;
        let expires = claims.expires;
        let known = RememberedToken { client, expires };
        let identified = known.identified();
        keys.remember(digest, known);
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

    pub(crate) async fn look_for_all_keys(&self) {
        let issuers = self.issuers.iter().map(Arc::clone);
        let looks = issuers.map(|issuer| async move { issuer.look().await });
        looks.collect::<JoinSet<_>>().join_all().await;
    }

    pub(crate) async fn look_for_keys(
        &self,
        IssuerNumber(number): IssuerNumber,
    ) -> Result<(), Refusal> {
        match self.issuers.get(number) {
            Some(issuer) if !issuer.look().await => Err(Refusal::TooManyWaiting),
            _ => Ok(()),
        }
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
