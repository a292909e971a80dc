//! Tests of configured key sets, issuers and claims that the server refuses when it starts.

use super::*;

#[test]
fn refuses_invalid_key_sets_and_skips_unusable_keys() {
    use crate::keys::KeySet;

    let keys = TestKeys::new();
    assert!(KeySet::parse(keys.jwk_set().to_string().as_bytes()).is_ok());
    let many = json!({"keys": vec![keys.jwk_set()["keys"][0].clone(); 65]}).to_string();
    let large = json!({"keys": keys.jwk_set()["keys"], "x": "x".repeat(256 << 10)}).to_string();
    let set_of = |id: &str| {
        let all = keys.jwk_set()["keys"].as_array().unwrap().clone();
        let keys: Vec<_> = all.into_iter().filter(|key| key["kid"] == id).collect();
        assert!(!keys.is_empty(), "{id}");
        json!({"keys": keys}).to_string()
    };
    let (agreement, shared) = (set_of("agreement"), set_of("shared"));
    let mut nameless = keys.jwk_set()["keys"][0].clone();
    nameless.as_object_mut().unwrap().remove("kid");
    let nameless = json!({"keys": [nameless]}).to_string();
    let mut long = keys.jwk_set()["keys"][0].clone();
    long["kid"] = "x".repeat(257).into();
    let long = json!({"keys": [long]}).to_string();
    for (set, reason) in [
        ("", "not a JWK Set"),
        ("{}", "not a JWK Set"),
        ("<html>", "not a JWK Set"),
        (&*many, "more than 64 keys"),
        (&*large, "more than 262144 bytes"),
    ] {
        let error = format!("{:#}", KeySet::parse(set.as_bytes()).err().unwrap());
        assert!(error.contains(reason), "{error}");
    }
    for set in [
        r#"{"keys": []}"#,
        r#"{"keys": [1, null, "x", {}]}"#,
        &agreement,
        &shared,
        &nameless,
        &long,
    ] {
        assert!(KeySet::parse(set.as_bytes()).unwrap().is_empty(), "{set}");
    }
}

#[test]
fn skips_slow_rsa_keys() {
    use crate::keys::KeySet;

    let mut with_zero = [255; 513];
    with_zero[0] = 0;
    for (modulus, exponent, is_skipped) in [
        (&[255; 512][..], &[1, 0, 1][..], false),
        (&[255; 512], &[3], false),
        (&with_zero, &[0, 1, 0, 1], false),
        (&[1; 513], &[1, 0, 1], true),
        (&[255; 1024], &[3], true),
        (&[255; 256], &[1, 0, 3], true),
        (&[255; 256], &[1, 255, 255, 255, 255], true),
    ] {
        let (n, e) = (base64(modulus), base64(exponent));
        let set = json!({"keys": [{"kty": "RSA", "kid": "a", "n": n, "e": e}]}).to_string();
        let set = KeySet::parse(set.as_bytes()).unwrap();
        let bytes = modulus.len();
        assert_eq!(set.is_empty(), is_skipped, "{bytes} bytes, {exponent:?}");
    }
}

#[test]
fn tries_only_four_keys_with_same_id() {
    let keys = TestKeys::new();
    let set = keys.jwk_set();
    let key = |id: &str, index: usize| {
        let all = set["keys"].as_array().unwrap();
        let mut with_id = all.iter().filter(|key| key["kid"] == id);
        let mut key = with_id.nth(index).unwrap().clone();
        key["kid"] = "same".into();
        key
    };
    let (foreign, own, rsa) = (key("twins", 0), key("twins", 1), key("rsa", 0));
    let header = with(header(), json!({"kid": "same"}));
    let token = keys.token(&header, &claims().to_string(), "ec");
    let refused = Err(Refusal::InvalidToken(TokenError::InvalidSignature));
    for (number, expected) in [(3, Ok(Some("ci".into()))), (4, refused)] {
        // Keys for other algorithms do not count.
        let mut all = vec![rsa.clone(); 4];
        all.extend(vec![foreign.clone(); number]);
        all.push(own.clone());
        let clients = clients(&json!({"keys": all}), CI);
        assert_eq!(identify(&clients, &token), expected, "{number}");
    }
}

#[test]
fn refuses_inconsistent_issuers_and_claims() {
    let keys = TestKeys::new();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("keys.json"), keys.jwk_set().to_string()).unwrap();
    std::fs::write(folder.join("empty.json"), "{}").unwrap();
    let table = |name: &str, issuer: &str, file: &str| {
        format!("[issuers.{name}]\nissuer = \"https://{issuer}.example\"\njwks_file = \"{file}\"\n")
    };
    let (one, two) = (
        table("one", "one", "keys.json"),
        table("two", "two", "keys.json"),
    );
    for (text, reason) in [
        (CI.to_owned(), "need an `[issuers.NAME]` table"),
        (table("a", "a", "none.json"), "`jwks_file`"),
        (table("a", "a", "empty.json"), "it is not a JWK Set"),
        (
            format!("{one}{two}{CI}"),
            "`claims` of `[clients.ci]` need `iss`",
        ),
        (
            format!("{one}[clients.a]\nclaims = {{ iss = \"https://x.example\" }}\n"),
            "no `[issuers.NAME]` has this `iss`",
        ),
        (
            format!("{one}{}", table("three", "one", "keys.json")),
            "another table has the same `issuer`",
        ),
    ] {
        let text = format!("[http]\nresource = \"{RESOURCE}\"\n{text}");
        let settings: IdentitySettings = config::parse(&text, "skillhost.toml", folder).unwrap();
        let clients = Clients::read(&settings.clients, &Trust::new()).unwrap();
        let error = clients.with_issuers(
            &settings.clients,
            &settings.issuers,
            RESOURCE,
            &Trust::new(),
        );
        let error = format!("{:#}", error.err().unwrap());
        assert!(error.contains(reason), "{text}: {error}");
    }
}
