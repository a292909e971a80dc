//! Tests of clients and their credentials.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::json;
use skillhost::{Trust, config};

use super::*;
use crate::TokenError;
use crate::issuer::IssuerKeySource;
use crate::settings::IdentitySettings;

const TOKEN: &str = "0123456789abcdef";

/// Returns the clients of a configuration in a folder.
fn read(folder: &Path, text: &str) -> Result<Clients, String> {
    let settings: IdentitySettings = config::parse(text, "skillhost.toml", folder).unwrap();
    Clients::read(&settings.clients, &Trust::new()).map_err(|error| format!("{error:#}"))
}

fn write(folder: &Path, name: &str, text: &str, mode: u32) {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn identify(clients: &Clients, headers: &[&str]) -> Result<Option<Arc<str>>, Refusal> {
    let headers = headers.iter().map(|value| value.as_bytes());
    clients
        .identify(headers)
        .map(|identity| identity.client.name().cloned())
}

#[test]
fn identifies_clients_by_token() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "old", "old-token-of-client-a\n", 0o600);
    write(folder, "new", "new-token-of-client-a\n", 0o400);
    let digest = |token: &str| skillhost_skills::text::digest::sha256_hex(token.as_bytes());
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
    let clients = clients.with_unnamed(Token::new(TOKEN).unwrap()).unwrap();
    assert_eq!(clients.len(), 4);
    for (token, name) in [
        ("old-token-of-client-a", Some("a")),
        ("new-token-of-client-a", Some("a")),
        ("token-of-client-b", Some("b")),
        ("another-token-of-client-b", Some("b")),
        ("token-of-client-c", Some("c")),
        (TOKEN, None),
    ] {
        let identified = identify(&clients, &[&format!("Bearer {token}")]);
        assert_eq!(identified.unwrap().as_deref(), name, "{token}");
    }
    let unnamed = format!("bearer  {TOKEN}");
    assert_eq!(identify(&clients, &[&unnamed]), Ok(None));
}

#[tokio::test]
async fn unnamed_client_has_budget_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    let digest = skillhost_skills::text::digest::sha256_hex(b"token-of-client-b");
    let named = format!("[clients.b]\ntoken_sha256 = \"{digest}\"\n");
    for (text, is_bounded) in [("", false), (&named, true)] {
        let clients = read(folder.path(), text).unwrap();
        let clients = clients.with_unnamed(Token::new(TOKEN).unwrap()).unwrap();
        let header = format!("Bearer {TOKEN}");
        let identity = clients.identify([header.as_bytes()].into_iter());
        let client = identity.unwrap().client;
        let mut leases = Vec::new();
        for _ in 0..4 {
            leases.push(client.acquire().await);
        }
        let mut fifth = std::pin::pin!(client.acquire());
        let waits = std::future::poll_fn(|task| {
            std::task::Poll::Ready(fifth.as_mut().poll(task).is_pending())
        });
        assert_eq!(waits.await, is_bounded, "{text}");
    }
}

#[test]
fn refuses_missing_malformed_and_unknown_tokens() {
    let token = Token::new(TOKEN).unwrap();
    let clients = Clients::default().with_unnamed(token).unwrap();
    let long = format!("Bearer {}", "x".repeat(1 << 20));
    let longer = format!("Bearer {TOKEN}0");
    let right = format!("Bearer {TOKEN}");
    for (headers, refusal) in [
        (&[][..], Refusal::NoToken),
        (&[""], Refusal::MalformedAuthorization),
        (&["Bearer"], Refusal::MalformedAuthorization),
        (&["Basic 0123456789abcdef"], Refusal::MalformedAuthorization),
        (&[TOKEN], Refusal::MalformedAuthorization),
        (&[&*right, &*right], Refusal::MalformedAuthorization),
        (&[&*right, "Basic eDp5"], Refusal::MalformedAuthorization),
        (&["Bearer "], Refusal::UnknownToken),
        (&["Bearer 0123456789abcdeF"], Refusal::UnknownToken),
        (&["Bearer 0123456789abcde"], Refusal::UnknownToken),
        (
            &["Bearer 0123456789abcdef, Bearer x"],
            Refusal::UnknownToken,
        ),
        (&["Bearer 0123456789äbcdef"], Refusal::UnknownToken),
        (&["Bearer \u{ff10}123456789abcdef"], Refusal::UnknownToken),
        (&[&*longer], Refusal::UnknownToken),
        (&[&*long], Refusal::UnknownToken),
    ] {
        assert_eq!(identify(&clients, headers), Err(refusal), "{headers:?}");
    }
}

#[test]
fn refuses_expired_client_with_warning() {
    let digest = skillhost_skills::text::digest::sha256_hex(TOKEN.as_bytes());
    let text =
        |expires: &str| format!("[clients.a]\ntoken_sha256 = \"{digest}\"\nexpires = {expires}\n");
    for (expires, is_expired) in [("2001-01-01", true), ("2901-01-01", false)] {
        let settings: IdentitySettings =
            config::parse(&text(expires), "s.toml", Path::new("/")).unwrap();
        let clients = Clients::read(&settings.clients, &Trust::new()).unwrap();
        let identified = identify(&clients, &[&format!("Bearer {TOKEN}")]);
        let expected = if is_expired {
            Err(Refusal::ClientExpired("a".into()))
        } else {
            Ok(Some("a".into()))
        };
        assert_eq!(identified, expected);
        let warnings = Clients::warnings(&settings.clients);
        assert_eq!(warnings.len(), usize::from(is_expired));
        for warning in warnings {
            assert!(warning.contains("`expires` of `[clients.a]`"), "{warning}");
        }
    }
}

#[test]
fn refuses_unusable_token_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "good", TOKEN, 0o600);
    write(folder, "same", &format!(" {TOKEN}\n"), 0o600);
    write(folder, "open", "another-token-of-a", 0o644);
    write(folder, "short", "0123456789abcde", 0o600);
    write(folder, "unicode", "0123456789äbcdef", 0o600);
    write(folder, "two", "0123456789abcdef\n0123456789abcdef\n", 0o600);
    let digest = skillhost_skills::text::digest::sha256_hex(TOKEN.as_bytes());
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
        let reason = "`[clients.a]` has the same token (`skillhost.toml`, line 2)";
        assert!(error.contains(reason), "{error}");
    }
    let clients = read(folder, "[clients.a]\ntoken_file = \"good\"\n").unwrap();
    let error = clients
        .with_unnamed(Token::new(TOKEN).unwrap())
        .unwrap_err();
    assert!(
        error.to_string().contains("the token of `[http]`"),
        "{error}"
    );
}

#[test]
fn identifies_clients_by_user() {
    let text = "[clients.a]\nunix_users = [1001, 1002, 1001]\n\
                [clients.b]\nunix_users = [1003]\n\
                [clients.old]\nunix_users = [1004]\nexpires = 2001-01-01\n";
    let clients = read(Path::new("/"), text).unwrap();
    for (user, expected) in [
        (1001, Ok("a")),
        (1002, Ok("a")),
        (1003, Ok("b")),
        (1004, Err(Refusal::ClientExpired("old".into()))),
        (1005, Err(Refusal::UnknownUser(1005))),
        (0, Err(Refusal::UnknownUser(0))),
    ] {
        let identity = clients.identify_user(user);
        let name = identity.map(|identity| identity.client.name().unwrap().to_string());
        assert_eq!(name, expected.map(str::to_owned), "{user}");
    }
    // A token is not a user.
    assert_eq!(
        clients
            .identify([b"Bearer 1001".as_slice()].into_iter())
            .err(),
        Some(Refusal::UnknownToken)
    );
    let error = read(
        Path::new("/"),
        "[clients.a]\nunix_users = [7]\n[clients.b]\nunix_users = [7]\n",
    );
    let why = "line 3: `unix_users` of `[clients.b]`: the user 7 already belongs to `[clients.a]`";
    assert!(
        error.as_ref().is_err_and(|error| error.contains(why)),
        "{error:?}"
    );
}

#[test]
fn identifies_clients_by_certificate() {
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
            Err("names of several clients"),
        ),
        (
            names(&["x.a.example"], &[]),
            Err("no client's `certificate_names`"),
        ),
        (
            names(&["*.example"], &[]),
            Err("no client's `certificate_names`"),
        ),
        // A host is not taken for a URI, nor a URI for a host.
        (
            names(&["spiffe://x/a"], &["a.example"]),
            Err("no client's `certificate_names`"),
        ),
        (
            names(&[], &["spiffe://x/A"]),
            Err("no client's `certificate_names`"),
        ),
        (names(&[], &[]), Err("no client's `certificate_names`")),
    ] {
        match (clients.identify_certificate(&shown), expected) {
            (Ok(identity), Ok(name)) => {
                assert_eq!(identity.client.name().map(|own| &**own), Some(name));
            }
            (Err(refusal), Err(reason)) => {
                assert!(refusal.to_string().contains(reason), "{shown}: {refusal}");
            }
            (identity, _) => panic!("{shown}: {identity:?}"),
        }
    }
    let error = read(
        Path::new("/"),
        "[clients.a]\ncertificate_names = [\"x.example\"]\n\
         [clients.b]\ncertificate_names = [\"X.example\"]\n",
    );
    let why = "`certificate_names` of `[clients.b]`: `x.example` already belongs to `[clients.a]`";
    assert!(
        error.as_ref().is_err_and(|error| error.contains(why)),
        "{error:?}"
    );
}

#[test]
fn without_clients_only_own_user_and_root_pass() {
    let own = rustix::process::geteuid().as_raw();
    for (user, is_allowed) in [(own, true), (0, true), (own + 1, false), (65_534, false)] {
        assert_eq!(Clients::check_own_user(user).is_ok(), is_allowed, "{user}");
    }
}

#[tokio::test]
async fn refresh_finds_new_key() {
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
    let settings: IdentitySettings = config::parse(text, "skillhost.toml", folder.path()).unwrap();
    for refreshes_all in [true, false] {
        let clients = Clients::read(&settings.clients, &Trust::new()).unwrap();
        let clients = clients.with_issuers(
            &settings.clients,
            &settings.issuers,
            "https://x",
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
        // The signature is wrong.
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
        if refreshes_all {
            clients.refresh_all_keys().await;
        } else {
            clients.refresh_keys(issuer).await.unwrap();
        }
        let wrong = Refusal::InvalidToken(TokenError::InvalidSignature);
        assert_eq!(identify(&clients, &[&token]), Err(wrong), "{refreshes_all}");
    }
}

#[tokio::test]
async fn polling_notices_withdrawn_key() {
    let folder = tempfile::tempdir().unwrap();
    let write_keys = |id: &str| {
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": "AAAA"});
        write(
            folder.path(),
            "keys",
            &json!({"keys": [key]}).to_string(),
            0o600,
        );
    };
    write_keys("old");
    let text = "[http]\nresource = \"https://mcp.example\"\n\
                [issuers.a]\nissuer = \"https://a.example\"\njwks_file = \"keys\"\n\
                [clients.c]\nclaims = { iss = \"https://a.example\" }\n";
    let settings: IdentitySettings = config::parse(text, "skillhost.toml", folder.path()).unwrap();
    let clients = Clients::read(&settings.clients, &Trust::new()).unwrap();
    let clients = clients
        .with_issuers(
            &settings.clients,
            &settings.issuers,
            "https://x",
            &Trust::new(),
        )
        .unwrap();
    let issuer = Arc::clone(&clients.oauth.as_ref().unwrap().issuers[0]);
    let polling = tokio::spawn(async move { clients.poll_keys(Duration::from_millis(1)).await });
    for id in ["new", "newer"] {
        assert!(!issuer.has_key(id));
        write_keys(id);
        let replaced = async {
            while !issuer.has_key(id) {
                // Lets the next refresh begin at once.
                *issuer.last_refresh.lock().await = None;
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
async fn refuses_remembered_token_of_withdrawn_key() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let base64 = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let write_keys = |id: &str| {
        let x = base64(key.public_key().as_ref());
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": x});
        write(folder, "keys", &json!({"keys": [key]}).to_string(), 0o600);
    };
    let resource = "https://mcp.example";
    let claims = json!({"iss": "https://a.example", "aud": resource, "exp": 32_503_680_000_u64});
    let authorization = |id: &str| {
        let header = json!({"alg": "EdDSA", "kid": id}).to_string();
        let message = [header, claims.to_string()].map(|part| base64(part.as_bytes()));
        let message = message.join(".");
        let signature = base64(key.sign(message.as_bytes()).as_ref());
        format!("Bearer {message}.{signature}")
    };
    write_keys("old");
    let text = format!(
        "[http]\nresource = \"{resource}\"\n\
         [issuers.a]\nissuer = \"https://a.example\"\njwks_file = \"keys\"\n\
         [clients.c]\nclaims = {{ iss = \"https://a.example\" }}\n"
    );
    let settings: IdentitySettings = config::parse(&text, "skillhost.toml", folder).unwrap();
    let clients = Clients::read(&settings.clients, &Trust::new()).unwrap();
    let clients = clients.with_issuers(
        &settings.clients,
        &settings.issuers,
        resource,
        &Trust::new(),
    );
    let clients = clients.unwrap();
    let (old, new) = (authorization("old"), authorization("new"));
    // The second time, the token is remembered.
    for _ in 0..2 {
        assert_eq!(identify(&clients, &[&old]).unwrap().as_deref(), Some("c"));
    }
    write_keys("new");
    let Err(Refusal::UnknownKey(issuer)) = identify(&clients, &[&new]) else {
        panic!("the key is known");
    };
    clients.refresh_keys(issuer).await.unwrap();
    assert_eq!(identify(&clients, &[&new]).unwrap().as_deref(), Some("c"));
    let identified = identify(&clients, &[&old]);
    assert!(
        matches!(identified, Err(Refusal::UnknownKey(_))),
        "{identified:?}"
    );
}
