//! An issuer of access tokens: its keys, the tokens that held by them, and the rules for
//! its tokens.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use jsonwebtoken::Algorithm;
use skillhost::config::{IssuerConfig, KeySource};
use skillhost::{Trust, named_file};
use tokio::sync::Semaphore;

use crate::access_token::{Claims, TokenError, UncheckedToken};
use crate::client::{Client, Expiry, Identified};
use crate::fetch::KeyFetcher;
use crate::keys::{FindError, KeySet, MOST_BYTES};

/// The problem of a JWK Set that makes no token good.
const NO_KEY: &str = "it has no key for signatures with an id (`kid`)";

/// The shortest time between two looks at an issuer's keys. Guards against: a peer that
/// makes the server ask an issuer again and again, by tokens with invented keys.
const PAUSE: Duration = Duration::from_secs(10);

/// The age at which keys are dropped if they cannot be read again. Guards against: an issuer
/// that has withdrawn a key, while its key set cannot be read.
const MAX_KEY_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The most requests that wait for an issuer's keys. Guards against: the same peer, whose
/// requests would all wait for an issuer that does not answer.
const MOST_WAITING: usize = 16;

/// The most tokens of an issuer that are remembered. Guards against: a client that gets
/// ever new ones.
const MOST_REMEMBERED: usize = 4096;

/// An issuer.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) issuer: String,
    /// The operator's name for it.
    table: String,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    pub(crate) source: IssuerKeySource,
    keys: RwLock<Arc<IssuerKeys>>,
    /// The last look at the keys, held during a look.
    pub(crate) looked: Arc<tokio::sync::Mutex<Option<Instant>>>,
    max_key_age: Duration,
    waiting: Semaphore,
    /// The last problem that was logged.
    problem: Mutex<String>,
}

/// The place that an issuer's keys are read from.
#[derive(Debug)]
pub(crate) enum IssuerKeySource {
    /// An address, which another process asks.
    Address(KeyFetcher),
    /// A file.
    File {
        path: PathBuf,
        /// The users who may change the path.
        trust: Trust,
        /// The place and the setting, for messages.
        setting: String,
    },
}

/// The keys of an issuer, and the tokens that held by them, which are forgotten with them:
/// a key that is gone was perhaps stolen, and its tokens may say that they never expire.
#[derive(Debug)]
pub(crate) struct IssuerKeys {
    set: KeySet,
    /// The time at which the set was read.
    read: Instant,
    /// By digest.
    remembered: Mutex<HashMap<[u8; 32], RememberedToken>>,
}

/// A token that held, and how long it does.
#[derive(Debug)]
pub(crate) struct RememberedToken {
    pub(crate) client: Arc<Client>,
    pub(crate) expires: SystemTime,
}

impl RememberedToken {
    pub(crate) fn identified(&self) -> Identified {
        Identified {
            client: Arc::clone(&self.client),
            expiry: self.client.expiry().or(Expiry::at(self.expires)),
        }
    }
}

impl IssuerKeys {
    fn new(set: KeySet) -> Arc<Self> {
        Arc::new(Self {
            set,
            read: Instant::now(),
            remembered: Mutex::default(),
        })
    }

    /// Returns the client that shows a token with this digest, if it held before.
    pub(crate) fn remembered(&self, digest: &[u8; 32], now: SystemTime) -> Option<Identified> {
        let tokens = self.tokens();
        let known = tokens.get(digest).filter(|known| known.expires > now);
        known.map(RememberedToken::identified)
    }

    /// Remembers a token that these keys have checked.
    pub(crate) fn remember(&self, digest: [u8; 32], token: RememberedToken) {
        let mut tokens = self.tokens();
        if tokens.len() >= MOST_REMEMBERED {
            // They are checked again, which costs little.
            tokens.clear();
        }
        tokens.insert(digest, token);
    }

    fn tokens(&self) -> MutexGuard<'_, HashMap<[u8; 32], RememberedToken>> {
        let tokens = self.remembered.lock();
        tokens.unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Issuer {
    /// Reads an issuer, and starts this program to fetch its keys from an address, at the first
    /// [look](Self::look). Keys in a file are read at once.
    pub(crate) fn new(
        config: &IssuerConfig,
        resource: &str,
        program: &Path,
        trust: &Trust,
    ) -> anyhow::Result<Self> {
        let (source, keys) = match &config.keys {
            KeySource::File(file) => {
                let path = file.path.clone();
                let setting = format!("{}: `jwks_file` `{}`", file.place, path.display());
                let keys = read_file(&path, trust).context(setting.clone())?;
                ensure!(!keys.is_empty(), "{setting}: {NO_KEY}");
                let trust = trust.clone();
                let source = IssuerKeySource::File {
                    path,
                    trust,
                    setting,
                };
                (source, keys)
            }
            KeySource::Address(address) => {
                let fetcher = KeyFetcher::start(program, address)?;
                (IssuerKeySource::Address(fetcher), KeySet::default())
            }
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
            keys: RwLock::new(IssuerKeys::new(keys)),
            looked: Arc::default(),
            max_key_age: MAX_KEY_AGE,
            waiting: Semaphore::new(MOST_WAITING),
            problem: Mutex::default(),
        })
    }

    /// Returns the keys as they are now.
    pub(crate) fn keys(&self) -> Arc<IssuerKeys> {
        let keys = self.keys.read();
        Arc::clone(&keys.unwrap_or_else(|broken| broken.into_inner()))
    }

    /// Checks a token of this issuer with keys of it. [`TokenError::Key`] may be otherwise
    /// after another [look](Self::look) at its keys.
    pub(crate) fn check(
        &self,
        token: UncheckedToken<'_>,
        keys: &IssuerKeys,
    ) -> Result<Claims, TokenError> {
        if !self.algorithms.contains(&token.algorithm) {
            return Err(TokenError::Algorithm);
        }
        let key = keys.set.find(&token.key_id, token.algorithm);
        let key = key.map_err(|error| match error {
            FindError::NoKey => TokenError::Key,
            FindError::OtherKey => TokenError::KeyType,
        })?;
        token.check(key, &self.issuer, &self.audiences)
    }

    /// Looks at the issuer's keys again, unless somebody just did. What cannot be read
    /// leaves the keys as they were. Returns false at once if too many wait for that.
    pub(crate) async fn look(self: &Arc<Self>) -> bool {
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return false;
        };
        let mut looked = Arc::clone(&self.looked).lock_owned().await;
        if looked.is_none_or(|last| last.elapsed() >= PAUSE) {
            let issuer = Arc::clone(self);
            let look = async move {
                issuer.fetch_keys().await;
                *looked = Some(Instant::now());
            };
            // It goes on when the peer that asked is gone. Else such a peer could have the
            // issuer asked at any time. It breaks off only when the server ends.
            let _ = tokio::spawn(look).await;
        }
        true
    }

    async fn fetch_keys(&self) {
        let read = match &self.source {
            IssuerKeySource::Address(fetcher) => {
                let fetched = fetcher.fetch().await;
                fetched.and_then(|bytes| KeySet::read(&bytes))
            }
            IssuerKeySource::File {
                path,
                trust,
                setting,
            } => {
                let (path, trust) = (path.clone(), trust.clone());
                let read = tokio::task::spawn_blocking(move || read_file(&path, &trust)).await;
                let read = read.context("the server is ending").flatten();
                read.with_context(|| setting.clone())
            }
        };
        let problem = match read {
            Ok(keys) => {
                // An issuer may withdraw its only key.
                let problem = if keys.is_empty() { NO_KEY } else { "" };
                self.replace_keys(keys);
                problem.to_owned()
            }
            Err(error) => {
                if self.keys().read.elapsed() >= self.max_key_age {
                    self.replace_keys(KeySet::default());
                }
                let consequence = if self.keys().set.is_empty() {
                    "refusing all tokens of the issuer"
                } else {
                    "still using the keys that were read before"
                };
                format!("{error:#}; {consequence}")
            }
        };
        let mut logged = self
            .problem
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        if *logged != problem {
            match problem.is_empty() {
                true => tracing::info!("`{}`: its keys can be used again", self.table),
                false => tracing::error!(
                    "cannot use the keys of `{}`: {}",
                    self.table,
                    skillhost::Line::new(&problem)
                ),
            }
            *logged = problem;
        }
    }
}

impl Issuer {
    #[cfg(test)]
    pub(crate) fn has_key(&self, id: &str) -> bool {
        self.keys().set.find(id, Algorithm::EdDSA).is_ok()
    }

    fn replace_keys(&self, keys: KeySet) {
        let known = self.keys.write();
        let mut known = known.unwrap_or_else(|broken| broken.into_inner());
        *known = IssuerKeys::new(keys);
    }
}

/// Reads a file of keys.
fn read_file(path: &Path, trust: &Trust) -> anyhow::Result<KeySet> {
    let file = named_file::open_public(path, trust)?;
    KeySet::read(&named_file::read_all(file, MOST_BYTES as u64)?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use serde_json::json;
    use skillhost::Config;

    use super::*;
    use crate::fetch::tests::{fetcher_by_hand, send_keys};

    fn issuer_of_file(path: PathBuf) -> Arc<Issuer> {
        issuer_of(IssuerKeySource::File {
            path,
            trust: Trust::new(),
            setting: "`jwks_file`".to_owned(),
        })
    }

    fn issuer(fetcher: KeyFetcher) -> Arc<Issuer> {
        issuer_of(IssuerKeySource::Address(fetcher))
    }

    fn issuer_of(source: IssuerKeySource) -> Arc<Issuer> {
        let text = "[http]\nresource = \"https://mcp.example\"\n[issuers.a]\n\
                    issuer = \"https://a.example\"\njwks_url = \"https://a.example/keys\"\n";
        let config = Config::parse(text, "skillhost.toml", Path::new("/")).unwrap();
        let program = Path::new("/bin/true");
        let (config, trust) = (&config.issuers[0], Trust::new());
        let mut issuer = Issuer::new(config, "https://mcp.example", program, &trust).unwrap();
        issuer.source = source;
        Arc::new(issuer)
    }

    /// Returns a set of one key.
    fn set(id: &str) -> String {
        let key = format!(r#"{{"kty": "OKP", "crv": "Ed25519", "kid": "{id}", "x": "AAAA"}}"#);
        format!("{{\"keys\": [{key}]}}")
    }

    fn token_until(expires: SystemTime) -> RememberedToken {
        let client = Arc::new(Client::unnamed(None));
        RememberedToken { client, expires }
    }

    #[test]
    fn a_token_that_held_is_remembered_by_its_digest_until_it_expires() {
        let keys = IssuerKeys::new(KeySet::default());
        let now = SystemTime::now();
        let later = now + Duration::from_secs(600);
        keys.remember([1; 32], token_until(later));
        keys.remember([2; 32], token_until(now));
        for (digest, holds) in [(1, true), (2, false), (3, false)] {
            let found = keys.remembered(&[digest; 32], now);
            assert_eq!(found.is_some(), holds, "{digest}");
        }
        for number in 0..3 * MOST_REMEMBERED {
            let mut digest = [4; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            keys.remember(digest, token_until(later));
            assert!(keys.tokens().len() <= MOST_REMEMBERED);
        }
    }

    #[tokio::test]
    async fn a_token_that_a_key_checked_before_it_was_withdrawn_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        std::fs::write(&file, set("new")).unwrap();
        let issuer = issuer_of_file(file);
        let now = SystemTime::now();
        let later = now + Duration::from_secs(600);
        let is_remembered = |digest| issuer.keys().remembered(&[digest; 32], now).is_some();
        let before = issuer.keys();
        before.remember([1; 32], token_until(later));
        assert!(is_remembered(1));
        assert!(issuer.look().await);
        assert!(!is_remembered(1));
        // It was checked before the look, and ends after it.
        before.remember([2; 32], token_until(later));
        assert!(!is_remembered(2));
    }

    #[tokio::test]
    async fn keys_are_fetched_once_in_a_while_and_stay_if_they_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        let write = |id: &str| std::fs::write(&file, set(id)).unwrap();
        let issuer = issuer_of_file(file.clone());
        let known = || (issuer.has_key("old"), issuer.has_key("new"));
        write("old");
        assert_eq!(known(), (false, false));
        assert!(issuer.look().await);
        assert_eq!(known(), (true, false));
        write("new");
        assert!(issuer.look().await);
        assert_eq!(known(), (true, false));
        let good = set("new");
        for (text, has_new, problem) in [
            (None, true, ""),
            (Some("no keys"), true, "not a JWK Set"),
            (Some(good.as_str()), true, ""),
            // It has withdrawn its only key.
            (Some("{\"keys\": []}"), false, "no key for signatures"),
            (Some(good.as_str()), true, ""),
        ] {
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            // The pause is over.
            *issuer.looked.lock().await = None;
            assert!(issuer.look().await);
            assert_eq!(known(), (false, has_new));
            // It is logged once.
            let said = issuer.problem.lock().unwrap().clone();
            assert!(said.contains(problem), "{said}");
            assert_eq!(said.is_empty(), problem.is_empty(), "{said}");
        }
    }

    #[tokio::test]
    async fn drops_old_keys_that_cannot_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        let too_many = json!({"keys": vec![json!({}); 65]}).to_string();
        for text in ["no keys", &too_many] {
            for (max_age, is_kept) in [(MAX_KEY_AGE, true), (Duration::ZERO, false)] {
                let mut issuer = issuer_of_file(file.clone());
                Arc::get_mut(&mut issuer).unwrap().max_key_age = max_age;
                std::fs::write(&file, set("old")).unwrap();
                assert!(issuer.look().await);
                let later = SystemTime::now() + Duration::from_secs(600);
                issuer.keys().remember([1; 32], token_until(later));
                std::fs::write(&file, text).unwrap();
                *issuer.looked.lock().await = None;
                assert!(issuer.look().await);
                let keys = issuer.keys();
                let is_known = issuer.has_key("old");
                let is_remembered = keys.remembered(&[1; 32], SystemTime::now()).is_some();
                assert_eq!((is_known, is_remembered), (is_kept, is_kept), "{text}");
            }
        }
    }

    #[tokio::test]
    async fn a_look_goes_on_when_the_peer_that_asked_is_gone() {
        let (fetcher, mut asked, answers) = fetcher_by_hand();
        let issuer = issuer(fetcher);
        let look = || {
            let issuer = Arc::clone(&issuer);
            tokio::spawn(async move { issuer.look().await })
        };
        let first = look();
        let request = tokio::task::spawn_blocking(move || {
            asked.read_exact(&mut [0]).unwrap();
            asked
        });
        let mut asked = request.await.unwrap();
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        let second = look();
        send_keys(answers, &set("new"));
        assert!(second.await.unwrap());
        assert!(issuer.has_key("new"));
        // It was asked once.
        drop(issuer);
        assert_eq!(asked.read(&mut [0]).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_look_that_too_many_wait_for_is_refused_at_once() {
        let (fetcher, _asked, answers) = fetcher_by_hand();
        let issuer = issuer(fetcher);
        let waiting = issuer
            .waiting
            .acquire_many(MOST_WAITING as u32)
            .await
            .unwrap();
        assert!(!issuer.look().await);
        drop(waiting);
        send_keys(answers, &set("new"));
        assert!(issuer.look().await);
    }
}
