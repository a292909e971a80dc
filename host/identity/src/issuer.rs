//! An issuer of access tokens: its keys, the tokens that they have verified, and the rules for
//! its tokens.

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use jsonwebtoken::Algorithm;
use skillhost::{Line, Trust};
use skillhost_skills::broker::Opener;
use skillhost_skills::named_file;
use tokio::sync::Semaphore;

use crate::access_token::{Claims, TokenError, UncheckedToken};
use crate::client::{Client, Expiry, Identity};
use crate::keys::{KeyError, KeySet, MAX_BYTES};
use crate::settings::{IssuerConfig, KeySource};

/// The message for a JWK Set without a usable key.
const NO_KEY: &str = "the JWK Set has no key for signatures with an id (`kid`); RSA keys of more \
                      than 4096 bits or with an exponent over 65537 are skipped";

/// The shortest time between two refreshes of an issuer's keys. Guards against: a peer that sends
/// tokens with invented key ids, so that the server asks an issuer again and again.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The age at which keys are no longer used. Guards against: a withdrawn key that stays accepted
/// because the issuer does not answer.
const MAX_KEY_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum number of requests that wait for an issuer's keys. Guards against: a peer whose
/// requests all wait for an issuer that does not answer.
const MAX_WAITING: usize = 16;

/// The maximum number of remembered tokens of an issuer. Guards against: a client that gets new
/// tokens without end.
const MAX_VERIFIED_TOKENS: usize = 4096;

/// Fetches the keys of issuers. The program implements it: this crate opens no connection.
pub trait FetchKeys: Debug + Send + Sync {
    /// Fetches the keys at an issuer's address, within a bounded time. Fails if they have more than
    /// `max_bytes` bytes.
    fn fetch_keys<'a>(&'a self, address: &'a str, max_bytes: usize) -> KeysFuture<'a>;

    /// Returns whether no keys can be fetched until the server is restarted.
    fn has_ended(&self) -> bool;
}

/// The future that [`FetchKeys::fetch_keys`] returns.
pub type KeysFuture<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Vec<u8>>> + Send + 'a>>;

/// Reads the keys of issuers at each refresh, from files or addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyReader {
    /// Opens key files.
    pub(crate) opener: Opener,
    /// Fetches keys from addresses. `None` if the program cannot.
    pub(crate) fetch: Option<Arc<dyn FetchKeys>>,
}

impl KeyReader {
    async fn fetch_keys(&self, address: &str) -> anyhow::Result<Vec<u8>> {
        let fetch = self.fetch.as_ref();
        let fetch = fetch.context("this server fetches no keys")?;
        fetch.fetch_keys(address, MAX_BYTES).await
    }

    fn can_fetch(&self) -> bool {
        self.fetch.as_ref().is_some_and(|fetch| !fetch.has_ended())
    }
}

/// An issuer of access tokens.
#[derive(Debug)]
pub(crate) struct Issuer {
    /// The identifier, as in the claim `iss`.
    pub(crate) issuer: String,
    /// The table of the configuration, for messages.
    table: String,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    pub(crate) source: IssuerKeySource,
    keys: RwLock<Arc<IssuerKeys>>,
    /// The time of the last refresh. Locked during a refresh.
    pub(crate) last_refresh: Arc<tokio::sync::Mutex<Option<Instant>>>,
    waiting: Semaphore,
    /// True if the last refresh failed.
    has_failed: AtomicBool,
    /// The last logged problem. Empty if the keys can be used.
    logged_problem: Mutex<String>,
}

/// The source of an issuer's keys.
#[derive(Debug)]
pub(crate) enum IssuerKeySource {
    /// An address. [`FetchKeys`] fetches the keys from it.
    Address(String),
    /// A file.
    File {
        path: PathBuf,
        /// The users who may change the path.
        trust: Trust,
        /// The place and the name of the setting, for messages.
        setting: String,
    },
}

/// The keys of an issuer, and the tokens that they have verified.
///
/// Both are forgotten together: a withdrawn key may have been stolen, and a token signed by it may
/// never expire.
#[derive(Debug)]
pub(crate) struct IssuerKeys {
    set: KeySet,
    /// The time at which the set was read.
    read_at: Instant,
    /// The same time by the system clock, which also runs while the machine is suspended.
    read_at_by_clock: SystemTime,
    /// Verified tokens, by digest.
    verified: Mutex<HashMap<[u8; 32], VerifiedToken>>,
}

/// A token that has passed all checks.
#[derive(Debug)]
pub(crate) struct VerifiedToken {
    pub(crate) client: Arc<Client>,
    pub(crate) expires: SystemTime,
}

impl VerifiedToken {
    /// Returns the client, with the expiry of the token.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            client: Arc::clone(&self.client),
            expiry: self.client.expiry().min(Expiry::at(self.expires)),
        }
    }
}

impl IssuerKeys {
    fn new(set: KeySet) -> Arc<Self> {
        Arc::new(Self {
            set,
            read_at: Instant::now(),
            read_at_by_clock: SystemTime::now(),
            verified: Mutex::default(),
        })
    }

    /// Returns the time since the set was read.
    fn age(&self) -> Duration {
        let by_clock = self.read_at_by_clock.elapsed().unwrap_or_default();
        self.read_at.elapsed().max(by_clock)
    }

    /// Returns the client of a remembered token, unless the token has expired.
    pub(crate) fn recall(&self, digest: &[u8; 32], now: SystemTime) -> Option<Identity> {
        let tokens = self.verified();
        let token = tokens.get(digest).filter(|token| token.expires > now);
        token.map(VerifiedToken::identity)
    }

    /// Remembers a token that these keys have verified.
    pub(crate) fn remember(&self, digest: [u8; 32], token: VerifiedToken) {
        let mut tokens = self.verified();
        if tokens.len() >= MAX_VERIFIED_TOKENS {
            // Checking the tokens again costs little.
            tokens.clear();
        }
        tokens.insert(digest, token);
    }

    fn verified(&self) -> MutexGuard<'_, HashMap<[u8; 32], VerifiedToken>> {
        let tokens = self.verified.lock();
        tokens.unwrap_or_else(|broken| broken.into_inner())
    }
}

impl Issuer {
    /// Creates an issuer.
    ///
    /// Keys in a file are read at once. The first [refresh](Self::refresh) fetches those at an
    /// address.
    pub(crate) fn new(
        config: &IssuerConfig,
        resource: &str,
        trust: &Trust,
    ) -> anyhow::Result<Self> {
        let (source, keys) = match &config.keys {
            KeySource::File(file) => {
                let path = file.path.clone();
                let setting = format!("{}: `jwks_file` `{}`", file.place, path.display());
                let keys = read_file(&path, trust, &Opener::DIRECT).context(setting.clone())?;
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
                let source = IssuerKeySource::Address(address.clone());
                (source, KeySet::default())
            }
        };
        let algorithms = config.algorithms.iter();
        let algorithms = algorithms.map(|name| name.parse::<Algorithm>());
        let audiences = if config.audience.is_empty() {
            vec![resource.to_owned()]
        } else {
            config.audience.clone()
        };
        Ok(Self {
            issuer: config.issuer.clone(),
            table: format!("[issuers.{}]", config.name),
            audiences,
            algorithms: algorithms.collect::<Result<_, _>>()?,
            source,
            keys: RwLock::new(IssuerKeys::new(keys)),
            last_refresh: Arc::default(),
            waiting: Semaphore::new(MAX_WAITING),
            has_failed: AtomicBool::new(false),
            logged_problem: Mutex::default(),
        })
    }

    /// Returns the current keys, or an empty set if they are older than [`MAX_KEY_AGE`].
    pub(crate) fn keys(&self) -> Arc<IssuerKeys> {
        let keys = self.keys.read();
        let keys = keys.unwrap_or_else(|broken| broken.into_inner());
        if keys.age() < MAX_KEY_AGE {
            Arc::clone(&keys)
        } else {
            IssuerKeys::new(KeySet::default())
        }
    }

    /// Returns whether the issuer's keys can be read again.
    ///
    /// Returns `false` if they are fetched and the egress process has ended. Then the server must
    /// be restarted.
    pub(crate) fn can_read_keys(&self, reader: &KeyReader) -> bool {
        match self.source {
            IssuerKeySource::Address(_) => reader.can_fetch(),
            IssuerKeySource::File { .. } => true,
        }
    }

    /// Returns whether the last refresh failed. If so, a token with an unknown key may be valid.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    fn replace_keys(&self, set: KeySet) {
        let keys = self.keys.write();
        let mut keys = keys.unwrap_or_else(|broken| broken.into_inner());
        *keys = IssuerKeys::new(set);
    }

    /// Checks a token of this issuer with its keys. After [`TokenError::UnknownKey`], a
    /// [refresh](Self::refresh) may find the key.
    pub(crate) fn check(
        &self,
        token: UncheckedToken<'_>,
        keys: &IssuerKeys,
    ) -> Result<Claims, TokenError> {
        if !self.algorithms.contains(&token.algorithm) {
            return Err(TokenError::UnsupportedAlgorithm);
        }
        let found = keys.set.find(&token.key_id, token.algorithm);
        let found = found.map_err(|error| match error {
            KeyError::UnknownId => TokenError::UnknownKey,
            KeyError::OtherAlgorithm => TokenError::WrongKeyAlgorithm,
        })?;
        token.check(found, &self.issuer, &self.audiences)
    }

    /// Reads the issuer's keys again, unless they were read a moment ago. If that fails, keeps the
    /// old keys up to [`MAX_KEY_AGE`].
    ///
    /// Returns `false` at once if too many callers wait for the keys. Otherwise returns `true`,
    /// even if the refresh failed.
    pub(crate) async fn refresh(self: &Arc<Self>, reader: &KeyReader) -> bool {
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return false;
        };
        let mut last_refresh = Arc::clone(&self.last_refresh).lock_owned().await;
        if last_refresh.is_none_or(|last| last.elapsed() >= MIN_REFRESH_INTERVAL) {
            let (issuer, reader) = (Arc::clone(self), reader.clone());
            let refresh = async move {
                issuer.read_keys(reader).await;
                *last_refresh = Some(Instant::now());
            };
            // In its own task, the refresh continues if the request is dropped. Otherwise a peer
            // that disconnects early could make the server ask the issuer without pause.
            let _ = tokio::spawn(refresh).await;
        }
        true
    }

    /// Reads the keys, and logs when a problem begins, changes or ends.
    async fn read_keys(&self, reader: KeyReader) {
        let result = self.read_source(reader).await;
        self.has_failed.store(result.is_err(), Ordering::SeqCst);
        let problem = match result {
            Ok(set) => {
                // An issuer may withdraw its only key.
                let problem = if set.is_empty() { NO_KEY } else { "" };
                self.replace_keys(set);
                problem.to_owned()
            }
            Err(error) => {
                let consequence = if self.keys().set.is_empty() {
                    "refusing all tokens of the issuer"
                } else {
                    "still using the keys that were read before"
                };
                format!("{error:#}; {consequence}")
            }
        };
        let logged = self.logged_problem.lock();
        let mut logged = logged.unwrap_or_else(|broken| broken.into_inner());
        if *logged == problem {
            return;
        }
        if problem.is_empty() {
            tracing::info!("the keys of `{}` can be used again", self.table);
        } else {
            let problem = Line::new(&problem);
            tracing::error!("cannot use the keys of `{}`: {problem}", self.table);
        }
        *logged = problem;
    }

    async fn read_source(&self, reader: KeyReader) -> anyhow::Result<KeySet> {
        match &self.source {
            IssuerKeySource::Address(address) => KeySet::parse(&reader.fetch_keys(address).await?),
            IssuerKeySource::File {
                path,
                trust,
                setting,
            } => {
                let (path, trust) = (path.clone(), trust.clone());
                let read = move || read_file(&path, &trust, &reader.opener);
                let result = tokio::task::spawn_blocking(read).await;
                let keys = result.context("the server is shutting down").flatten();
                keys.with_context(|| setting.clone())
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn has_key(&self, id: &str) -> bool {
        self.keys().set.find(id, Algorithm::EdDSA).is_ok()
    }
}

/// Reads a file with a JWK Set.
fn read_file(path: &Path, trust: &Trust, opener: &Opener) -> anyhow::Result<KeySet> {
    let file = named_file::open_public(path, trust, opener)?;
    KeySet::parse(&named_file::read_all(file, MAX_BYTES as u64)?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use serde_json::json;
    use skillhost::config;
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::*;
    use crate::settings::IdentitySettings;

    fn issuer_with_file(path: PathBuf) -> Arc<Issuer> {
        issuer_with_source(IssuerKeySource::File {
            path,
            trust: Trust::new(),
            setting: "`jwks_file`".to_owned(),
        })
    }

    fn issuer_with_address() -> Arc<Issuer> {
        issuer_with_source(IssuerKeySource::Address(
            "https://a.example/keys".to_owned(),
        ))
    }

    /// Fetches the keys that a test sends.
    #[derive(Debug)]
    struct TestFetch {
        fetches: AtomicUsize,
        keys: tokio::sync::Mutex<UnboundedReceiver<String>>,
    }

    impl FetchKeys for TestFetch {
        fn fetch_keys<'a>(&'a self, address: &'a str, max_bytes: usize) -> KeysFuture<'a> {
            assert_eq!((address, max_bytes), ("https://a.example/keys", MAX_BYTES));
            self.fetches.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {
                let keys = self.keys.lock().await.recv().await;
                Ok(keys.context("the test sends no more keys")?.into_bytes())
            })
        }

        fn has_ended(&self) -> bool {
            self.keys.try_lock().is_ok_and(|keys| keys.is_closed())
        }
    }

    /// Returns a reader that fetches what the sender sends.
    fn fetching_reader() -> (KeyReader, Arc<TestFetch>, UnboundedSender<String>) {
        let (sender, keys) = unbounded_channel();
        let fetch = Arc::new(TestFetch {
            fetches: AtomicUsize::new(0),
            keys: keys.into(),
        });
        let reader = KeyReader {
            fetch: Some(Arc::clone(&fetch) as Arc<dyn FetchKeys>),
            ..KeyReader::default()
        };
        (reader, fetch, sender)
    }

    fn issuer_with_source(source: IssuerKeySource) -> Arc<Issuer> {
        let text = "[http]\nresource = \"https://mcp.example\"\n[issuers.a]\n\
                    issuer = \"https://a.example\"\njwks_url = \"https://a.example/keys\"\n";
        let settings: IdentitySettings =
            config::parse(text, "skillhost.toml", Path::new("/")).unwrap();
        let (config, trust) = (&settings.issuers[0], Trust::new());
        let mut issuer = Issuer::new(config, "https://mcp.example", &trust).unwrap();
        issuer.source = source;
        Arc::new(issuer)
    }

    /// Returns a JWK Set with one key.
    fn key_set(id: &str) -> String {
        let key = format!(r#"{{"kty": "OKP", "crv": "Ed25519", "kid": "{id}", "x": "AAAA"}}"#);
        format!("{{\"keys\": [{key}]}}")
    }

    fn token_valid_until(expires: SystemTime) -> VerifiedToken {
        let client = Arc::new(Client::unnamed(None));
        VerifiedToken { client, expires }
    }

    #[test]
    fn recalls_verified_token_until_it_expires() {
        let keys = IssuerKeys::new(KeySet::default());
        let now = SystemTime::now();
        let later = now + Duration::from_secs(600);
        keys.remember([1; 32], token_valid_until(later));
        keys.remember([2; 32], token_valid_until(now));
        for (digest, is_valid) in [(1, true), (2, false), (3, false)] {
            let identity = keys.recall(&[digest; 32], now);
            assert_eq!(identity.is_some(), is_valid, "{digest}");
        }
        for number in 0..3 * MAX_VERIFIED_TOKENS {
            let mut digest = [4; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            keys.remember(digest, token_valid_until(later));
            assert!(keys.verified().len() <= MAX_VERIFIED_TOKENS);
        }
    }

    #[tokio::test]
    async fn forgets_tokens_verified_by_withdrawn_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        std::fs::write(&file, key_set("new")).unwrap();
        let issuer = issuer_with_file(file);
        let now = SystemTime::now();
        let later = now + Duration::from_secs(600);
        let is_remembered = |digest| issuer.keys().recall(&[digest; 32], now).is_some();
        let before = issuer.keys();
        before.remember([1; 32], token_valid_until(later));
        assert!(is_remembered(1));
        assert!(issuer.refresh(&KeyReader::default()).await);
        assert!(!is_remembered(1));
        // The check began before the refresh, and ends after it.
        before.remember([2; 32], token_valid_until(later));
        assert!(!is_remembered(2));
    }

    #[tokio::test]
    async fn keeps_old_keys_when_refresh_fails() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        let write = |id: &str| std::fs::write(&file, key_set(id)).unwrap();
        let issuer = issuer_with_file(file.clone());
        let known = || (issuer.has_key("old"), issuer.has_key("new"));
        write("old");
        assert_eq!(known(), (false, false));
        assert!(issuer.refresh(&KeyReader::default()).await);
        assert_eq!(known(), (true, false));
        write("new");
        assert!(issuer.refresh(&KeyReader::default()).await);
        assert_eq!(known(), (true, false));
        let good = key_set("new");
        let key = json!({"kty": "RSA", "kid": "slow", "n": "z".repeat(700), "e": "AQAB"});
        let slow = json!({"keys": [key]}).to_string();
        for (text, has_new, problem) in [
            (None, true, ""),
            (Some("no keys"), true, "not a JWK Set"),
            (Some(good.as_str()), true, ""),
            // The issuer has withdrawn its only key.
            (Some("{\"keys\": []}"), false, "no key for signatures"),
            (Some(slow.as_str()), false, "keys of more than 4096 bits"),
            (Some(good.as_str()), true, ""),
        ] {
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            // Lets the next refresh begin at once.
            *issuer.last_refresh.lock().await = None;
            assert!(issuer.refresh(&KeyReader::default()).await);
            assert_eq!(known(), (false, has_new));
            let logged = issuer.logged_problem.lock().unwrap().clone();
            assert!(logged.contains(problem), "{logged}");
            assert_eq!(logged.is_empty(), problem.is_empty(), "{logged}");
        }
    }

    #[tokio::test]
    async fn drops_old_keys_that_cannot_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        let too_many = json!({"keys": vec![json!({}); 65]}).to_string();
        for text in ["no keys", &too_many] {
            let minute = Duration::from_secs(60);
            for (age, is_kept) in [(MAX_KEY_AGE - minute, true), (MAX_KEY_AGE, false)] {
                let issuer = issuer_with_file(file.clone());
                std::fs::write(&file, key_set("old")).unwrap();
                assert!(issuer.refresh(&KeyReader::default()).await);
                make_older(&issuer, age);
                let later = SystemTime::now() + Duration::from_secs(600);
                issuer.keys().remember([1; 32], token_valid_until(later));
                std::fs::write(&file, text).unwrap();
                *issuer.last_refresh.lock().await = None;
                assert!(issuer.refresh(&KeyReader::default()).await);
                let keys = issuer.keys();
                let is_known = issuer.has_key("old");
                let is_remembered = keys.recall(&[1; 32], SystemTime::now()).is_some();
                assert_eq!((is_known, is_remembered), (is_kept, is_kept), "{text}");
            }
        }
    }

    #[tokio::test]
    async fn keys_expire_after_a_day_without_refresh() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        std::fs::write(&file, key_set("old")).unwrap();
        let issuer = issuer_with_file(file);
        assert!(issuer.refresh(&KeyReader::default()).await);
        let now = SystemTime::now();
        let later = now + Duration::from_secs(600);
        issuer.keys().remember([1; 32], token_valid_until(later));
        let found = || {
            let recalled = issuer.keys().recall(&[1; 32], now);
            (issuer.has_key("old"), recalled.is_some())
        };
        make_older(&issuer, MAX_KEY_AGE - Duration::from_secs(60));
        assert_eq!(found(), (true, true));
        make_older(&issuer, Duration::from_secs(60));
        assert_eq!(found(), (false, false));
        // The next refresh reads them again.
        *issuer.last_refresh.lock().await = None;
        assert!(issuer.refresh(&KeyReader::default()).await);
        assert_eq!(found(), (true, false));
    }

    /// Makes the keys older by this time, as if the machine had been suspended.
    fn make_older(issuer: &Issuer, time: Duration) {
        let mut keys = issuer.keys.write().unwrap();
        Arc::get_mut(&mut keys).unwrap().read_at_by_clock -= time;
    }

    #[tokio::test]
    async fn tells_whether_keys_can_be_read_again() {
        let (reader, _, sender) = fetching_reader();
        let (issuer, with_file) = (issuer_with_address(), issuer_with_file("/none".into()));
        assert!(issuer.can_read_keys(&reader));
        drop(sender);
        assert!(!issuer.can_read_keys(&reader));
        assert!(with_file.can_read_keys(&reader));
        assert!(!issuer.can_read_keys(&KeyReader::default()));
    }

    #[tokio::test]
    async fn refresh_continues_when_its_caller_is_gone() {
        let (reader, fetch, sender) = fetching_reader();
        let issuer = issuer_with_address();
        let refresh = || {
            let (issuer, reader) = (Arc::clone(&issuer), reader.clone());
            tokio::spawn(async move { issuer.refresh(&reader).await })
        };
        let first = refresh();
        while fetch.fetches.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        let second = refresh();
        sender.send(key_set("new")).unwrap();
        assert!(second.await.unwrap());
        assert!(issuer.has_key("new"));
        // The issuer was asked once.
        assert_eq!(fetch.fetches.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn refuses_to_refresh_when_too_many_wait() {
        let (reader, _, sender) = fetching_reader();
        let issuer = issuer_with_address();
        let waiting = issuer
            .waiting
            .acquire_many(MAX_WAITING as u32)
            .await
            .unwrap();
        assert!(!issuer.refresh(&reader).await);
        drop(waiting);
        sender.send(key_set("new")).unwrap();
        assert!(issuer.refresh(&reader).await);
        assert!(issuer.has_key("new"));
    }
}
