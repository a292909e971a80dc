//! An issuer of access tokens: its keys, and the rules for its tokens.

use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jsonwebtoken::Algorithm;
use skillhost::config::{IssuerConfig, KeySource};
use tokio::sync::Semaphore;

use crate::access_token::{Claims, TokenError, UncheckedToken};
use crate::fetch::{KeyFetcher, read_file};
use crate::keys::{FindError, KeySet};

/// The shortest time between two looks at an issuer's keys. Guards against: a peer that
/// makes the server ask an issuer again and again, by tokens with invented keys.
const PAUSE: Duration = Duration::from_secs(10);

/// The most requests that wait for an issuer's keys. Guards against: the same peer, whose
/// requests would all wait for an issuer that does not answer.
const MOST_WAITING: usize = 16;

/// An issuer.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) issuer: String,
    /// The operator's name for it.
    table: String,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    /// The number of their source for the process that fetches keys.
    source: u8,
    /// The place and the setting of their file, if they have one, for messages.
    file: Option<String>,
    keys: RwLock<Arc<KeySet>>,
    /// The last look at the keys, held during a look.
    looked: tokio::sync::Mutex<Option<Instant>>,
    waiting: Semaphore,
    /// The last problem that was logged.
    problem: Mutex<String>,
}

impl Issuer {
    /// Reads an issuer, whose keys have this number for the process that fetches them. Keys
    /// in a file are read at once, others at the first [look](Self::look).
    pub(crate) fn new(config: &IssuerConfig, resource: &str, source: u8) -> anyhow::Result<Self> {
        let (file, keys) = match &config.keys {
            KeySource::File(file) => {
                let shown = format!("{}: `jwks_file` `{}`", file.place, file.path.display());
                let read = read_file(&file.path).and_then(|bytes| KeySet::read(&bytes));
                (Some(shown.clone()), read.context(shown)?)
            }
            KeySource::Address(_) => (None, KeySet::default()),
        };
        let algorithms = config.algorithms.iter();
        let algorithms = algorithms.map(|name| name.parse::<Algorithm>());
        let audiences = match config.audience.is_empty() {
            true => vec![resource.to_owned()],
            false => config.audience.clone(),
        };
        Ok(Self {
            issuer: config.issuer.clone(),
            table: format!("[issuers.{}]", config.name),
            audiences,
            algorithms: algorithms.collect::<Result<_, _>>()?,
            source,
            file,
            keys: RwLock::new(Arc::new(keys)),
            looked: tokio::sync::Mutex::default(),
            waiting: Semaphore::new(MOST_WAITING),
            problem: Mutex::default(),
        })
    }

    /// Checks a token of this issuer. [`TokenError::Key`] may be otherwise after another
    /// [look](Self::look) at its keys.
    pub(crate) fn check(&self, token: UncheckedToken<'_>) -> Result<Claims, TokenError> {
        if !self.algorithms.contains(&token.algorithm) {
            return Err(TokenError::Algorithm);
        }
        let keys = self.keys.read();
        let keys = Arc::clone(&keys.unwrap_or_else(|broken| broken.into_inner()));
        let key = keys.find(&token.key_id, token.algorithm);
        let key = key.map_err(|error| match error {
            FindError::NoKey => TokenError::Key,
            FindError::OtherKey => TokenError::KeyType,
        })?;
        token.check(key, &self.issuer, &self.audiences)
    }

    /// Looks at the issuer's keys again, unless somebody just did. What cannot be read
    /// leaves the keys as they were. Returns whether they may be others now.
    pub(crate) async fn look(&self, fetcher: &KeyFetcher) -> bool {
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return false;
        };
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|last| last.elapsed() < PAUSE) {
            return false;
        }
        let fetched = fetcher.fetch(self.source).await;
        let read = fetched.and_then(|bytes| KeySet::read(&bytes));
        let read = match &self.file {
            Some(file) => read.with_context(|| file.clone()),
            None => read,
        };
        let is_read = read.is_ok();
        let problem = match read {
            Ok(keys) => {
                let mut known = self
                    .keys
                    .write()
                    .unwrap_or_else(|broken| broken.into_inner());
                *known = Arc::new(keys);
                String::new()
            }
            Err(error) => format!("{error:#}"),
        };
        *looked = Some(Instant::now());
        let mut logged = self
            .problem
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        if *logged != problem {
            match problem.is_empty() {
                true => tracing::info!("`{}`: its keys can be read again", self.table),
                false => tracing::warn!(
                    "`{}`: its keys cannot be read: {}",
                    self.table,
                    skillhost::Line::new(&problem)
                ),
            }
            *logged = problem;
        }
        is_read
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use skillhost::Config;

    use super::*;
    use crate::fetch::tests::fetcher;

    #[tokio::test]
    async fn keys_are_fetched_once_in_a_while_and_stay_if_they_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        let write = |id: &str| {
            let key = format!(r#"{{"kty": "OKP", "crv": "Ed25519", "kid": "{id}", "x": "AAAA"}}"#);
            std::fs::write(&file, format!("{{\"keys\": [{key}]}}")).unwrap();
        };
        let text = "[http]\nresource = \"https://mcp.example\"\n[issuers.a]\n\
                    issuer = \"https://a.example\"\njwks_url = \"https://a.example/keys\"\n";
        let config = Config::parse(text, "skillhost.toml", Path::new("/")).unwrap();
        let issuer = Issuer::new(&config.issuers[0], "https://mcp.example", 0).unwrap();
        let fetcher = fetcher(vec![file.clone().into()]);
        let known = || {
            let known = issuer.keys.read().unwrap();
            let known = |id| known.find(id, Algorithm::EdDSA).is_ok();
            (known("old"), known("new"))
        };
        write("old");
        assert_eq!(known(), (false, false));
        assert!(issuer.look(&fetcher).await);
        assert_eq!(known(), (true, false));
        write("new");
        assert!(!issuer.look(&fetcher).await);
        assert_eq!(known(), (true, false));
        for (text, may_be_others) in [(None, true), (Some("no keys"), false)] {
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            // The pause is over.
            *issuer.looked.lock().await = None;
            assert_eq!(issuer.look(&fetcher).await, may_be_others);
            assert_eq!(known(), (false, true));
            // It is logged once.
            let problem = issuer.problem.lock().unwrap().clone();
            assert_eq!(
                problem.contains("not a JWK Set"),
                !may_be_others,
                "{problem}"
            );
        }
    }
}
