use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;
use skillhost::{Config, Trust};

use super::*;
use crate::TokenError;
use crate::issuer::IssuerKeySource;

const TOKEN: &str = "0123456789abcdef";

/// Returns clients by a configuration in a folder.
fn read(folder: &Path, text: &str) -> Result<Clients, String> {
    let config = Config::parse(text, "skillhost.toml", folder).unwrap();
    Clients::read(&config.clients, &Trust::new()).map_err(|error| format!("{error:#}"))
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
    let digest = |token: &str| skillhost::internal::sha256_hex(token.as_bytes());
    let (b, more, c) = (
        digest("token-of-client-b"),
        digest("another-token-of-client-b"),
        digest("token-of-client-c"),
    );
    let text = format!(
        "[clients.a]\ntoken_file = [\"old\", \"new\", \"old\"]\n\
         [clients.b]\ntoken_sha256 = [\"{b}\", \"{more}\"]\n\
         [clients.c]\ntoken_sha256 = \"{c}\"\n"
    );
    let clients = read(folder, &text).unwrap();
    let clients = clients.and_unnamed(Token::new(TOKEN).unwrap()).unwrap();
    assert_eq!(clients.len(), 4);
    for (token, name) in [
        ("old-token-of-client-a", Some("a")),
        ("new-token-of-client-a", Some("a")),
        ("token-of-client-b", Some("b")),
        ("another-token-of-client-b", Some("b")),
        ("token-of-client-c", Some("c")),
        (TOKEN, None),
    ] {
        let shown = identify(&clients, &[&format!("Bearer {token}")]);
        assert_eq!(shown.unwrap().as_deref(), name, "{token}");
    }
    let unnamed = format!("bearer  {TOKEN}");
    assert_eq!(identify(&clients, &[&unnamed]), Ok(None));
}

#[tokio::test]
async fn the_client_without_a_name_has_a_share_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    let digest = skillhost::internal::sha256_hex(b"token-of-client-b");
    let named = format!("[clients.b]\ntoken_sha256 = \"{digest}\"\n");
    for (text, is_bounded) in [("", false), (&named, true)] {
        let clients = read(folder.path(), text).unwrap();
        let clients = clients.and_unnamed(Token::new(TOKEN).unwrap()).unwrap();
        let shown = format!("Bearer {TOKEN}");
        let client = clients
            .identify([shown.as_bytes()].into_iter())
            .unwrap()
            .client;
        let mut shares = Vec::new();
        for _ in 0..4 {
            shares.push(client.enter().await);
        }
        let mut fifth = std::pin::pin!(client.enter());
        let waits = std::future::poll_fn(|task| {
            std::task::Poll::Ready(fifth.as_mut().poll(task).is_pending())
        });
        assert_eq!(waits.await, is_bounded, "{text}");
    }
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
    let text =
        |expires: &str| format!("[clients.a]\ntoken_sha256 = \"{digest}\"\nexpires = {expires}\n");
    for (expires, is_expired) in [("2001-01-01", true), ("2901-01-01", false)] {
        let config = Config::parse(&text(expires), "s.toml", Path::new("/")).unwrap();
        let clients = Clients::read(&config.clients, &Trust::new()).unwrap();
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

#[tokio::test]
async fn a_key_is_known_after_a_look_at_all_keys_or_at_those_of_its_issuer() {
    let folder = tempfile::tempdir().unwrap();
    let key = r#"{"kty": "OKP", "crv": "Ed25519", "kid": "new", "x": "AAAA"}"#;
    write(
        folder.path(),
        "keys",
        &format!("{{\"keys\": [{key}]}}"),
        0o600,
    );
    let text = "[http]\nresource = \"https://mcp.example\"\n\
                [issuers.a]\nissuer = \"https://a.example\"\njwks_url = \"https://a.example/keys\"\n\
                [issuers.b]\nissuer = \"https://b.example\"\njwks_url = \"https://b.example/keys\"\n\
                [clients.c]\nclaims = { iss = \"https://b.example\" }\n";
    let config = Config::parse(text, "skillhost.toml", folder.path()).unwrap();
    for all in [true, false] {
        let clients = Clients::read(&config.clients, &Trust::new()).unwrap();
        let program = Path::new("/bin/true");
        let clients = clients.and_issuers(
            &config.clients,
            &config.issuers,
            "https://x",
            program,
            &Trust::new(),
        );
        let mut clients = clients.unwrap();
        let oauth = Arc::get_mut(clients.oauth.as_mut().unwrap()).unwrap();
        for (issuer, file) in oauth.issuers.iter_mut().zip(["none", "keys"]) {
            let issuer = Arc::get_mut(issuer).unwrap();
            issuer.source = IssuerKeySource::File {
                path: folder.path().join(file),
                trust: Trust::new(),
                setting: "`jwks_file`".to_owned(),
            };
        }
        // Signed by nobody.
        let token = [
            r#"{"alg":"EdDSA","kid":"new"}"#,
            r#"{"iss":"https://b.example"}"#,
            "x",
        ];
        let token = format!(
            "Bearer {}",
            token
                .map(|part| BASE64_URL_SAFE_NO_PAD.encode(part))
                .join(".")
        );
        let Err(Refusal::UnknownKey(issuer)) = identify(&clients, &[&token]) else {
            panic!("the key is known");
        };
        match all {
            true => clients.look_for_all_keys().await,
            false => clients.look_for_keys(issuer).await.unwrap(),
        }
        let wrong = Refusal::Token(TokenError::Signature);
        assert_eq!(identify(&clients, &[&token]), Err(wrong), "{all}");
    }
}

#[tokio::test]
async fn notices_a_withdrawn_key_without_a_token_that_needs_another() {
    let folder = tempfile::tempdir().unwrap();
    let keys = |id: &str| {
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": "AAAA"});
        write(
            folder.path(),
            "keys",
            &json!({"keys": [key]}).to_string(),
            0o600,
        );
    };
    keys("old");
    let text = "[http]\nresource = \"https://mcp.example\"\n\
                [issuers.a]\nissuer = \"https://a.example\"\njwks_file = \"keys\"\n\
                [clients.c]\nclaims = { iss = \"https://a.example\" }\n";
    let config = Config::parse(text, "skillhost.toml", folder.path()).unwrap();
    let clients = Clients::read(&config.clients, &Trust::new()).unwrap();
    let program = Path::new("/bin/true");
    let clients = clients
        .and_issuers(
            &config.clients,
            &config.issuers,
            "https://x",
            program,
            &Trust::new(),
        )
        .unwrap();
    let issuer = Arc::clone(&clients.oauth.as_ref().unwrap().issuers[0]);
    let polling = tokio::spawn(async move { clients.poll_keys(Duration::from_millis(1)).await });
    for id in ["new", "newer"] {
        assert!(!issuer.has_key(id));
        keys(id);
        let replaced = async {
            while !issuer.has_key(id) {
                // The shortest time between two reads is over.
                *issuer.looked.lock().await = None;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let replaced = tokio::time::timeout(Duration::from_secs(20), replaced).await;
        replaced.expect("the keys are not read again");
        assert!(!issuer.has_key("old"));
    }
    polling.abort();
}

#[tokio::test]
async fn a_token_that_held_is_refused_once_its_issuer_has_withdrawn_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let base64 = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let serve = |id: &str| {
        let x = base64(key.public_key().as_ref());
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": x});
        write(folder, "keys", &json!({"keys": [key]}).to_string(), 0o600);
    };
    let resource = "https://mcp.example";
    let claims = json!({"iss": "https://a.example", "aud": resource, "exp": 32_503_680_000_u64});
    let shown = |id: &str| {
        let header = json!({"alg": "EdDSA", "kid": id}).to_string();
        let message = [header, claims.to_string()].map(|part| base64(part.as_bytes()));
        let message = message.join(".");
        let signature = base64(key.sign(message.as_bytes()).as_ref());
        format!("Bearer {message}.{signature}")
    };
    serve("old");
    let text = format!(
        "[http]\nresource = \"{resource}\"\n\
         [issuers.a]\nissuer = \"https://a.example\"\njwks_file = \"keys\"\n\
         [clients.c]\nclaims = {{ iss = \"https://a.example\" }}\n"
    );
    let config = Config::parse(&text, "skillhost.toml", folder).unwrap();
    let clients = Clients::read(&config.clients, &Trust::new()).unwrap();
    let program = Path::new("/bin/true");
    let clients = clients.and_issuers(
        &config.clients,
        &config.issuers,
        resource,
        program,
        &Trust::new(),
    );
    let clients = clients.unwrap();
    let (old, new) = (shown("old"), shown("new"));
    // It is checked, and then remembered.
    for _ in 0..2 {
        assert_eq!(identify(&clients, &[&old]).unwrap().as_deref(), Some("c"));
    }
    serve("new");
    let Err(Refusal::UnknownKey(issuer)) = identify(&clients, &[&new]) else {
        panic!("the key is known");
    };
    clients.look_for_keys(issuer).await.unwrap();
    assert_eq!(identify(&clients, &[&new]).unwrap().as_deref(), Some("c"));
    let found = identify(&clients, &[&old]);
    assert!(matches!(found, Err(Refusal::UnknownKey(_))), "{found:?}");
}
