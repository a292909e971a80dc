//! Tests of valid and invalid access tokens, with the reason for each refusal.

mod configured;
mod support;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::KeyPair as _;
use serde_json::{Value, json};
use skillhost::{Trust, config};

use crate::access_token::{LEEWAY, MAX_BYTES, TokenError};
use crate::clients::Clients;
use crate::refusal::Refusal;
use crate::settings::IdentitySettings;
use support::{
    ISSUER, RESOURCE, TestKeys, base64, claims, clients, clients_with, header, identify, now, with,
};

const CI: &str = "[clients.ci]\nclaims = { client_id = \"ci\" }\n";

#[test]
fn accepts_token_of_each_key_type() {
    let keys = TestKeys::new();
    let default = clients(&keys.jwk_set(), CI);
    let all = "algorithms = [\"RS384\", \"RS512\", \"PS384\", \"PS512\", \"ES384\"]";
    let others = clients_with(all, &keys.jwk_set(), CI);
    let long = "x".repeat(256);
    for (clients, algorithm, id, key) in [
        (&default, "ES256", "ec", "ec"),
        (&default, "RS256", "rsa", "rsa"),
        (&default, "PS256", "rsa", "pss"),
        (&default, "EdDSA", "ed", "ed"),
        (&default, "RS256", "only RS256", "rsa"),
        (&default, "ES256", "operations", "ec"),
        (&default, "ES256", "two", "ec"),
        (&default, "RS256", "two", "rsa"),
        (&default, "ES256", &long, "ec"),
        (&default, "ES256", "twins", "foreign"),
        (&default, "ES256", "twins", "ec"),
        (&default, "ES256", "crowd", "ec"),
        (&others, "ES384", "ec 384", "ec 384"),
        (&others, "RS384", "rsa", "rsa 384"),
        (&others, "RS512", "rsa", "rsa 512"),
        (&others, "PS384", "rsa", "pss 384"),
        (&others, "PS512", "rsa", "pss 512"),
    ] {
        let header = with(header(), json!({"alg": algorithm, "kid": id}));
        for claims in [
            claims().to_string(),
            with(
                claims(),
                json!({"aud": ["other", RESOURCE], "nbf": now() - 5}),
            ),
            with(claims(), json!({"nbf": now() + 20, "exp": now() + 600})),
        ] {
            let token = keys.token(&header, &claims, key);
            for _ in 0..2 {
                let name = identify(clients, &token);
                assert_eq!(name.unwrap().as_deref(), Some("ci"), "{algorithm} {claims}");
            }
        }
    }
    for header in [
        with(header(), json!({"typ": null})),
        with(header(), json!({"typ": "JWT"})),
        with(header(), json!({"typ": "application/AT+jwt", "x5t": "x"})),
    ] {
        let token = keys.token(&header, &claims().to_string(), "ec");
        assert!(identify(&default, &token).is_ok(), "{header}");
    }
    // The largest allowed token.
    let token = keys.token_of_length(MAX_BYTES);
    assert!(identify(&default, &token).is_ok());
}

#[test]
fn refuses_remembered_token_after_expiry() {
    let keys = TestKeys::new();
    let clients = clients(&keys.jwk_set(), CI);
    let end = now() + 2;
    let claims = with(claims(), json!({"exp": end - LEEWAY}));
    let token = keys.token(&header().to_string(), &claims, "ec");
    assert_eq!(identify(&clients, &token).unwrap().as_deref(), Some("ci"));
    while now() < end {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let identified = identify(&clients, &token);
    assert_eq!(identified, Err(Refusal::InvalidToken(TokenError::Expired)));
}

#[test]
fn refuses_every_invalid_token() {
    use TokenError as E;

    let keys = TestKeys::new();
    let clients = clients(&keys.jwk_set(), CI);
    let good = claims().to_string();
    let point = keys.elliptic.public_key().as_ref().to_vec();
    let embedded_key = json!({"kty": "EC", "crv": "P-256", "x": base64(&point[1..33]), "y": "AA"});
    let long = "x".repeat(300);
    let expires = now() + 600;
    let header_with = |change| with(header(), change);
    let claims_with = |change| with(claims(), change);
    // Invalid headers, with valid claims.
    let headers: Vec<(String, &str, E)> = vec![
        (
            header_with(json!({"alg": "none"})),
            "none",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "None"})),
            "none",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "nOnE"})),
            "none",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": ""})),
            "none",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": null})),
            "ec",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": 256})),
            "ec",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": ["ES256"]})),
            "ec",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "es256"})),
            "ec",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "ES256K"})),
            "ec",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "ES384"})),
            "ec",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "HS256", "kid": "rsa"})),
            "rsa-as-secret",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "HS256"})),
            "ec-as-secret",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "HS256", "kid": "shared"})),
            "shared",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "HS512", "kid": "shared"})),
            "shared",
            E::UnsupportedAlgorithm,
        ),
        (
            header_with(json!({"alg": "RS256"})),
            "rsa",
            E::WrongKeyAlgorithm,
        ),
        (
            header_with(json!({"kid": "rsa"})),
            "ec",
            E::WrongKeyAlgorithm,
        ),
        (
            header_with(json!({"kid": "ed"})),
            "ec",
            E::WrongKeyAlgorithm,
        ),
        (
            header_with(json!({"alg": "EdDSA"})),
            "ed",
            E::WrongKeyAlgorithm,
        ),
        (
            header_with(json!({"alg": "RS256", "kid": "rsa"})),
            "pss",
            E::InvalidSignature,
        ),
        (
            header_with(json!({"alg": "PS256", "kid": "only RS256"})),
            "pss",
            E::WrongKeyAlgorithm,
        ),
        (header_with(json!({"kid": null})), "ec", E::NoKeyId),
        (header_with(json!({"kid": 1})), "ec", E::NoKeyId),
        (header_with(json!({"kid": ""})), "ec", E::NoKeyId),
        (header_with(json!({"kid": long})), "ec", E::NoKeyId),
        (
            header_with(json!({"crit": ["exp"]})),
            "ec",
            E::ForbiddenParameter("crit"),
        ),
        (
            header_with(json!({"b64": false})),
            "ec",
            E::ForbiddenParameter("b64"),
        ),
        (
            header_with(json!({"jku": "https://evil.example"})),
            "ec",
            E::ForbiddenParameter("jku"),
        ),
        (
            header_with(json!({"jwk": embedded_key})),
            "foreign",
            E::ForbiddenParameter("jwk"),
        ),
        (
            header_with(json!({"x5u": "https://evil.example"})),
            "ec",
            E::ForbiddenParameter("x5u"),
        ),
        (
            header_with(json!({"x5c": ["AA"]})),
            "ec",
            E::ForbiddenParameter("x5c"),
        ),
        (
            header_with(json!({"cty": "JWT"})),
            "ec",
            E::ForbiddenParameter("cty"),
        ),
        (
            header_with(json!({"zip": "DEF"})),
            "ec",
            E::ForbiddenParameter("zip"),
        ),
        (
            header_with(json!({"typ": "logout+jwt"})),
            "ec",
            E::WrongType,
        ),
        (header_with(json!({"typ": "JWE"})), "ec", E::WrongType),
        (header_with(json!({"typ": 1})), "ec", E::WrongType),
        (
            r#"{"alg":"none","alg":"ES256","kid":"ec"}"#.into(),
            "ec",
            E::Malformed,
        ),
        (
            r#"{"alg":"ES256","kid":"rsa","kid":"ec"}"#.into(),
            "ec",
            E::Malformed,
        ),
        (r#"{"alg":"ES256","kid":"ec"}]"#.into(), "ec", E::Malformed),
        (r#"{"alg":"ES256","kid":"#.into(), "ec", E::Malformed),
        (header().to_string(), "foreign", E::InvalidSignature),
        (header().to_string(), "asn1", E::InvalidSignature),
        (
            header_with(json!({"kid": "twins"})),
            "asn1",
            E::InvalidSignature,
        ),
        (header().to_string(), "zero", E::InvalidSignature),
        (header().to_string(), "none", E::InvalidSignature),
    ];
    // Invalid claims, with a valid header.
    let bodies: Vec<(String, E)> = vec![
        (
            claims_with(json!({"aud": "https://other.example"})),
            E::WrongAudience,
        ),
        (
            claims_with(json!({"aud": ["https://other.example", "x"]})),
            E::WrongAudience,
        ),
        (claims_with(json!({"aud": []})), E::WrongAudience),
        (
            claims_with(json!({"aud": format!("{RESOURCE}/x")})),
            E::WrongAudience,
        ),
        (
            claims_with(json!({"aud": RESOURCE.to_uppercase()})),
            E::WrongAudience,
        ),
        (claims_with(json!({"aud": "ci"})), E::WrongAudience),
        (claims_with(json!({"aud": null})), E::InvalidClaims),
        (claims_with(json!({"aud": 1})), E::InvalidClaims),
        (claims_with(json!({"aud": {RESOURCE: 1}})), E::InvalidClaims),
        (claims_with(json!({"exp": now() - 60})), E::Expired),
        (claims_with(json!({"exp": now() - LEEWAY})), E::Expired),
        (claims_with(json!({"exp": 0})), E::Expired),
        (claims_with(json!({"exp": null})), E::InvalidClaims),
        (claims_with(json!({"exp": "2099-01-01"})), E::InvalidClaims),
        (claims_with(json!({"exp": -1})), E::InvalidClaims),
        (claims_with(json!({"exp": 1e30})), E::InvalidClaims),
        (claims_with(json!({"exp": [expires]})), E::Malformed),
        (claims_with(json!({"nbf": now() + 60})), E::NotYetValid),
        (claims_with(json!({"nbf": "soon"})), E::InvalidClaims),
        (
            claims_with(json!({"iss": "https://evil.example"})),
            E::UnknownIssuer,
        ),
        (
            claims_with(json!({"iss": format!("{ISSUER}/")})),
            E::UnknownIssuer,
        ),
        (
            claims_with(json!({"iss": ISSUER.to_uppercase()})),
            E::UnknownIssuer,
        ),
        (claims_with(json!({"iss": null})), E::NoIssuer),
        (claims_with(json!({"iss": [ISSUER]})), E::NoIssuer),
        (format!(r#"{{"aud":"x",{}"#, &good[1..]), E::Malformed),
        (format!(r#"{{"exp":1,{}"#, &good[1..]), E::Malformed),
        (
            format!(r#"{{"x":{{"y":1,"y":2}},{}"#, &good[1..]),
            E::Malformed,
        ),
        (format!("[{good}]"), E::Malformed),
        (
            format!(
                r#"{{"x":{}{},{}"#,
                "[".repeat(500),
                "]".repeat(500),
                &good[1..]
            ),
            E::Malformed,
        ),
        (format!("{good} {good}"), E::Malformed),
        (good.replace("u1", "\u{0}"), E::Malformed),
    ];
    let mut rows = headers.len() + bodies.len();
    let assert_refused = |token: &str, expected: E, about: &str| {
        let identified = identify(&clients, token);
        assert_eq!(identified, Err(Refusal::InvalidToken(expected)), "{about}");
    };
    for (header, key, expected) in headers {
        assert_refused(
            &keys.token(&header, &good, key),
            expected,
            &format!("{header} {key}"),
        );
    }
    for (claims, expected) in bodies {
        assert_refused(
            &keys.token(&header().to_string(), &claims, "ec"),
            expected,
            &claims,
        );
    }
    // A valid token with changed bytes.
    let token = keys.token(&header().to_string(), &good, "ec");
    let parts: Vec<&str> = token.split('.').collect();
    let [head, body, signature] = parts[..] else {
        panic!("{token}");
    };
    let other = base64(claims_with(json!({"client_id": "admin"})).as_bytes());
    let mut flipped = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    flipped[63] ^= 1;
    let large = claims_with(json!({"x": "x".repeat(1 << 20)}));
    let changed = [
        (format!("{head}.{other}.{signature}"), E::InvalidSignature),
        (
            format!("{head}.{body}.{}", base64(&flipped)),
            E::InvalidSignature,
        ),
        (
            format!("{head}.{body}.{}", base64(&flipped[..63])),
            E::InvalidSignature,
        ),
        (
            format!("{head}.{body}.{signature}.{signature}"),
            E::Malformed,
        ),
        (format!("{head}..{body}.{signature}"), E::Malformed),
        (format!("{head}.{body}.{signature}=="), E::Malformed),
        (format!("{head}=.{body}.{signature}"), E::Malformed),
        (format!("{head}. {body}.{signature}"), E::Malformed),
        (format!("{head}.{body}+/.{signature}"), E::Malformed),
        (
            format!("{head}.{}.{signature}", base64(b"{\"iss\":\"\xff\"}")),
            E::Malformed,
        ),
        (keys.token(&header().to_string(), &large, "ec"), E::TooLarge),
        (format!("ey{}.a.b", "x".repeat(MAX_BYTES)), E::TooLarge),
    ];
    rows += changed.len();
    for (token, expected) in changed {
        let about = token.chars().take(1000).collect::<String>();
        assert_refused(&token, expected, &about);
    }
    assert!(rows >= 80, "{rows}");
    // A token that does not look like a JWT is never parsed.
    for token in ["x", "ey", "eyJhbGciOiJub25lIn0", "eyA.eyB", "ab.cd.ef"] {
        assert_eq!(
            identify(&clients, token),
            Err(Refusal::UnknownToken),
            "{token}"
        );
    }
    for id in [
        "unknown",
        "../../etc/passwd",
        "secrecy",
        "agreement",
        "shared",
        "new",
        "EC",
    ] {
        let token = keys.token(&header_with(json!({"kid": id})), &good, "ec");
        let identified = identify(&clients, &token);
        assert!(
            matches!(identified, Err(Refusal::UnknownKey(_))),
            "{id}: {identified:?}"
        );
    }
    assert_eq!(identify(&clients, &token).unwrap().as_deref(), Some("ci"));
}

#[test]
fn client_with_most_matching_claims_wins() {
    let keys = TestKeys::new();
    let clients = clients(
        &keys.jwk_set(),
        &format!(
            "[clients.anybody]\nclaims = {{ iss = \"{ISSUER}\" }}\noauth_scopes = [\"skills:read\"]\n\
             [clients.staff]\nclaims = {{ iss = \"{ISSUER}\", groups = \"staff\" }}\n\
             [clients.admin]\nclaims = {{ iss = \"{ISSUER}\", groups = \"admin\" }}\n\
             oauth_scopes = [\"skills:read\", \"skills:all\"]\n\
             [clients.guest]\nclaims = {{ iss = \"{ISSUER}\", guest = \"true\" }}\n\
             [clients.third]\nclaims = {{ iss = \"{ISSUER}\", level = \"3\" }}\n"
        ),
    );
    let identify_with = |change: Value| {
        let token = keys.token(&header().to_string(), &with(claims(), change), "ec");
        identify(&clients, &token)
    };
    let named = |name: &str| Ok(Some(name.into()));
    let scopes = |scopes: &[&str]| {
        Err(Refusal::MissingScopes(
            scopes.iter().map(|scope| (*scope).into()).collect(),
        ))
    };
    for (change, expected) in [
        (json!({}), named("anybody")),
        (json!({"scope": "openid"}), scopes(&["skills:read"])),
        (json!({"scope": null}), scopes(&["skills:read"])),
        (
            json!({"scope": null, "scp": ["skills:read"]}),
            named("anybody"),
        ),
        (json!({"scope": "skills:reading"}), scopes(&["skills:read"])),
        (json!({"guest": true}), named("guest")),
        (json!({"guest": false}), named("anybody")),
        (json!({"level": 3}), named("third")),
        (json!({"level": 4}), named("anybody")),
        (json!({"groups": "staff"}), named("staff")),
        (json!({"groups": ["a", "staff"]}), named("staff")),
        (json!({"groups": "staff admin"}), named("anybody")),
        (
            json!({"groups": ["staff", "admin"]}),
            Err(Refusal::AmbiguousClient),
        ),
        (
            json!({"groups": "admin"}),
            scopes(&["skills:read", "skills:all"]),
        ),
        (
            json!({"groups": "admin", "scope": "skills:all skills:read"}),
            named("admin"),
        ),
    ] {
        assert_eq!(identify_with(change.clone()), expected, "{change}");
    }
    let metadata = clients.resource_metadata().unwrap();
    assert_eq!(metadata.scopes, ["skills:read", "skills:all"]);
    assert_eq!(
        metadata.address,
        "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
    );
    let document = &metadata.document;
    assert_eq!(document["resource"], RESOURCE);
    assert_eq!(document["authorization_servers"], json!([ISSUER]));
}

#[test]
fn accepts_scopes_as_words_or_list() {
    let keys = TestKeys::new();
    let needed = "oauth_scopes = [\"skills:read\", \"files:read\"]\n";
    let clients = clients(&keys.jwk_set(), &format!("{CI}{needed}"));
    for name in ["scope", "scp"] {
        for (value, is_met) in [
            (json!("openid skills:read files:read"), true),
            (json!(["files:read", "skills:read"]), true),
            (json!("skills:read"), false),
            (json!("skills:reading files:read"), false),
            (json!(["skills:read files:read"]), false),
        ] {
            let mut claims = claims();
            claims["scope"] = Value::Null;
            claims[name] = value.clone();
            let token = keys.token(&header().to_string(), &claims.to_string(), "ec");
            let met = identify(&clients, &token).is_ok();
            assert_eq!(met, is_met, "{name} {value}");
        }
    }
}

#[test]
fn refuses_valid_token_without_client() {
    let keys = TestKeys::new();
    let clients = clients(
        &keys.jwk_set(),
        "[clients.ci]\nclaims = { client_id = \"other\" }\n",
    );
    let token = keys.token(&header().to_string(), &claims().to_string(), "ec");
    assert_eq!(identify(&clients, &token), Err(Refusal::NoClient));
}

#[test]
fn refuses_valid_token_of_expired_client() {
    let keys = TestKeys::new();
    let token = keys.token(&header().to_string(), &claims().to_string(), "ec");
    for (expires, expected) in [
        ("2001-01-01", Err(Refusal::ClientExpired("ci".into()))),
        ("2901-01-01", Ok(Some("ci".into()))),
    ] {
        let clients = clients(&keys.jwk_set(), &format!("{CI}expires = {expires}\n"));
        // The second time, the token is remembered.
        for _ in 0..2 {
            assert_eq!(identify(&clients, &token), expected, "{expires}");
        }
    }
}

#[test]
fn audience_replaces_resource() {
    let keys = TestKeys::new();
    let clients = clients_with("audience = [\"x\", \"y\"]", &keys.jwk_set(), CI);
    for (audience, is_valid) in [
        (json!("x"), true),
        (json!("y"), true),
        (json!(["z", "y"]), true),
        (json!(RESOURCE), false),
        (json!([RESOURCE, "z"]), false),
        (json!("z"), false),
        (json!("x y"), false),
    ] {
        let body = with(claims(), json!({"aud": audience}));
        let token = keys.token(&header().to_string(), &body, "ec");
        let expected = if is_valid {
            Ok(Some("ci".into()))
        } else {
            Err(Refusal::InvalidToken(TokenError::WrongAudience))
        };
        assert_eq!(identify(&clients, &token), expected, "{audience}");
    }
}
