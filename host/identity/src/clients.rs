//! The clients of a server, and the check of what a request shows. A refusal tells the
//! operator why; the peer learns nothing of that.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use skillhost::config::{ClientConfig, IssuerConfig};

use crate::access_token;
use crate::client::{Client, Identified};
use crate::connections::{CertificateNames, ConnectionClients};
use crate::oauth::{OAuth, ResourceMetadata};
use crate::refusal::{IssuerNumber, Refusal};
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
    pub fn read(configured: &[ClientConfig]) -> anyhow::Result<Self> {
        let mut clients = Self::default();
        for config in configured {
            let client = Arc::new(Client::new(config));
            for file in &config.token_files {
                let place = &file.place;
                let token = Token::read(&file.path)
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
        let client = Arc::new(Client::unnamed());
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
    /// started to fetch keys, which has to be before the process confines itself.
    ///
    /// # Errors
    ///
    /// If keys in a file cannot be read, or the process cannot be started.
    pub fn and_issuers(
        mut self,
        configured: &[ClientConfig],
        issuers: &[IssuerConfig],
        resource: &str,
        program: &Path,
    ) -> anyhow::Result<Self> {
        let clients = configured.iter().zip(&self.clients);
        let oauth = OAuth::new(clients, issuers, resource, program)?;
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

    /// Looks at the keys of an issuer again, unless somebody just did.
    pub async fn look_for_keys(&self, issuer: IssuerNumber) {
        if let Some(oauth) = &self.oauth {
            oauth.look_for_keys(issuer).await;
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
        match user == 0 || user == rustix::process::geteuid().as_raw() {
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
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use skillhost::Config;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    /// Returns clients by a configuration in a folder.
    fn read(folder: &Path, text: &str) -> Result<Clients, String> {
        let config = Config::parse(text, "skillhost.toml", folder).unwrap();
        Clients::read(&config.clients).map_err(|error| format!("{error:#}"))
    }

    fn write(folder: &Path, name: &str, text: &str, mode: u32) {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn identify(clients: &Clients, shown: &[&str]) -> Result<Option<Arc<str>>, Refusal> {
        let shown = shown.iter().map(|value| value.as_bytes());
        clients
            .identify(shown)
            .map(|found| found.client.name().cloned())
    }

    #[test]
    fn tells_clients_apart_by_any_of_their_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, "old", "old-token-of-client-a\n", 0o600);
        write(folder, "new", "new-token-of-client-a\n", 0o400);
        let digest = skillhost::internal::sha256_hex(b"token-of-client-b");
        let text = format!(
            "[clients.a]\ntoken_file = [\"old\", \"new\", \"old\"]\n\
             [clients.b]\ntoken_sha256 = \"{digest}\"\n"
        );
        let clients = read(folder, &text).unwrap();
        let clients = clients.and_unnamed(Token::new(TOKEN).unwrap()).unwrap();
        assert_eq!(clients.len(), 3);
        for (token, name) in [
            ("old-token-of-client-a", Some("a")),
            ("new-token-of-client-a", Some("a")),
            ("token-of-client-b", Some("b")),
            (TOKEN, None),
        ] {
            let shown = identify(&clients, &[&format!("Bearer {token}")]);
            assert_eq!(shown.unwrap().as_deref(), name, "{token}");
        }
        let unnamed = format!("bearer  {TOKEN}");
        assert_eq!(identify(&clients, &[&unnamed]), Ok(None));
    }

    #[test]
    fn refuses_everything_else() {
        let token = Token::new(TOKEN).unwrap();
        let clients = Clients::default().and_unnamed(token).unwrap();
        let long = format!("Bearer {}", "x".repeat(1 << 20));
        let longer = format!("Bearer {TOKEN}0");
        let right = format!("Bearer {TOKEN}");
        for (shown, refusal) in [
            (&[][..], Refusal::Missing),
            (&[""], Refusal::Malformed),
            (&["Bearer"], Refusal::Malformed),
            (&["Basic 0123456789abcdef"], Refusal::Malformed),
            (&[TOKEN], Refusal::Malformed),
            (&[&*right, &*right], Refusal::Malformed),
            (&[&*right, "Basic eDp5"], Refusal::Malformed),
            (&["Bearer "], Refusal::Unknown),
            (&["Bearer 0123456789abcdeF"], Refusal::Unknown),
            (&["Bearer 0123456789abcde"], Refusal::Unknown),
            (&["Bearer 0123456789abcdef, Bearer x"], Refusal::Unknown),
            (&["Bearer 0123456789äbcdef"], Refusal::Unknown),
            (&["Bearer \u{ff10}123456789abcdef"], Refusal::Unknown),
            (&[&*longer], Refusal::Unknown),
            (&[&*long], Refusal::Unknown),
        ] {
            assert_eq!(identify(&clients, shown), Err(refusal), "{shown:?}");
        }
    }

    #[test]
    fn refuses_a_client_whose_time_has_passed_and_warns_of_it() {
        let digest = skillhost::internal::sha256_hex(TOKEN.as_bytes());
        let text = |expires: &str| {
            format!("[clients.a]\ntoken_sha256 = \"{digest}\"\nexpires = {expires}\n")
        };
        for (expires, is_expired) in [("2001-01-01", true), ("2901-01-01", false)] {
            let config = Config::parse(&text(expires), "s.toml", Path::new("/")).unwrap();
            let clients = Clients::read(&config.clients).unwrap();
            let shown = identify(&clients, &[&format!("Bearer {TOKEN}")]);
            match is_expired {
                true => assert_eq!(shown, Err(Refusal::Expired("a".into()))),
                false => assert_eq!(shown.unwrap().as_deref(), Some("a")),
            }
            let warnings = Clients::warnings(&config.clients);
            assert_eq!(warnings.len(), usize::from(is_expired));
            for warning in warnings {
                assert!(warning.contains("`expires` of `[clients.a]`"), "{warning}");
            }
        }
    }

    #[test]
    fn refuses_token_files_and_tokens_that_cannot_be_meant() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, "good", TOKEN, 0o600);
        write(folder, "same", &format!(" {TOKEN}\n"), 0o600);
        write(folder, "open", "another-token-of-a", 0o640);
        write(folder, "short", "0123456789abcde", 0o600);
        write(folder, "unicode", "0123456789äbcdef", 0o600);
        write(folder, "two", "0123456789abcdef\n0123456789abcdef\n", 0o600);
        let digest = skillhost::internal::sha256_hex(TOKEN.as_bytes());
        for (file, reason) in [
            ("none", "line 2: `token_file` of `[clients.a]`"),
            ("open", "users other than its owner may read or write it"),
            ("short", "between 16 and 4096 characters"),
            ("unicode", "letters, digits and"),
            ("two", "letters, digits and"),
            (".", "it is not a regular file"),
        ] {
            let error = read(folder, &format!("[clients.a]\ntoken_file = \"{file}\"\n"));
            let error = error.unwrap_err();
            assert!(error.contains(reason), "{file}: {error}");
        }
        for second in [
            "token_file = \"same\"",
            &format!("token_sha256 = \"{digest}\""),
        ] {
            let text = format!("[clients.a]\ntoken_file = \"good\"\n[clients.b]\n{second}\n");
            let error = read(folder, &text).unwrap_err();
            let reason = "this token is also that of `[clients.a]` (`skillhost.toml`, line 2)";
            assert!(error.contains(reason), "{error}");
        }
        let one = read(folder, "[clients.a]\ntoken_file = \"good\"\n").unwrap();
        let error = one.and_unnamed(Token::new(TOKEN).unwrap()).unwrap_err();
        assert!(
            error.to_string().contains("the token of `[http]`"),
            "{error}"
        );
    }

    #[test]
    fn tells_clients_apart_by_the_users_of_their_processes() {
        let text = "[clients.a]\nunix_users = [1001, 1002, 1001]\n\
                    [clients.b]\nunix_users = [1003]\n\
                    [clients.old]\nunix_users = [1004]\nexpires = 2001-01-01\n";
        let clients = read(Path::new("/"), text).unwrap();
        for (user, expected) in [
            (1001, Ok("a")),
            (1002, Ok("a")),
            (1003, Ok("b")),
            (1004, Err(Refusal::Expired("old".into()))),
            (1005, Err(Refusal::User(1005))),
            (0, Err(Refusal::User(0))),
        ] {
            let found = clients.identify_user(user);
            let found = found.map(|found| found.client.name().unwrap().to_string());
            assert_eq!(found, expected.map(str::to_owned), "{user}");
        }
        // A user is no token.
        assert_eq!(
            clients
                .identify([b"Bearer 1001".as_slice()].into_iter())
                .err(),
            Some(Refusal::Unknown)
        );
        let error = read(
            Path::new("/"),
            "[clients.a]\nunix_users = [7]\n[clients.b]\nunix_users = [7]\n",
        );
        let why = "line 3: `unix_users` of `[clients.b]`: the user 7 is `[clients.a]` already";
        assert!(
            error.as_ref().is_err_and(|error| error.contains(why)),
            "{error:?}"
        );
    }

    #[test]
    fn tells_clients_apart_by_the_names_of_their_certificates() {
        let text = "[clients.a]\ncertificate_names = [\"a.example\", \"spiffe://x/a\"]\n\
                    [clients.b]\ncertificate_names = [\"b.example\"]\n\
                    [clients.old]\ncertificate_names = [\"old.example\"]\nexpires = 2001-01-01\n";
        let clients = read(Path::new("/"), text).unwrap();
        let names = |hosts: &[&'static str], uris: &[&'static str]| {
            CertificateNames::new(hosts.iter().copied(), uris.iter().copied())
        };
        for (shown, expected) in [
            (names(&["a.example"], &[]), Ok("a")),
            (names(&["A.Example", "other.example"], &[]), Ok("a")),
            (names(&["a.example"], &["spiffe://x/a"]), Ok("a")),
            (names(&[], &["spiffe://x/a"]), Ok("a")),
            (names(&["b.example"], &[]), Ok("b")),
            (names(&["old.example"], &[]), Err("has passed")),
            (
                names(&["a.example", "b.example"], &[]),
                Err("of several clients"),
            ),
            (
                names(&["x.a.example"], &[]),
                Err("no name of its certificate"),
            ),
            (
                names(&["*.example"], &[]),
                Err("no name of its certificate"),
            ),
            // Neither kind passes for the other.
            (
                names(&["spiffe://x/a"], &["a.example"]),
                Err("no name of its certificate"),
            ),
            (
                names(&[], &["spiffe://x/A"]),
                Err("no name of its certificate"),
            ),
            (names(&[], &[]), Err("no name of its certificate")),
        ] {
            match (clients.identify_certificate(&shown), expected) {
                (Ok(found), Ok(name)) => {
                    assert_eq!(found.client.name().map(|it| &**it), Some(name));
                }
                (Err(refusal), Err(reason)) => {
                    assert!(refusal.to_string().contains(reason), "{shown}: {refusal}");
                }
                (found, _) => panic!("{shown}: {found:?}"),
            }
        }
        let error = read(
            Path::new("/"),
            "[clients.a]\ncertificate_names = [\"x.example\"]\n\
             [clients.b]\ncertificate_names = [\"X.example\"]\n",
        );
        let why = "`certificate_names` of `[clients.b]`: `x.example` is `[clients.a]` already";
        assert!(
            error.as_ref().is_err_and(|error| error.contains(why)),
            "{error:?}"
        );
    }

    #[test]
    fn without_clients_only_the_own_user_and_root_may_ask() {
        let own = rustix::process::geteuid().as_raw();
        for (user, may_ask) in [(own, true), (0, true), (own + 1, false), (65_534, false)] {
            assert_eq!(Clients::check_own_user(user).is_ok(), may_ask, "{user}");
        }
    }
}
