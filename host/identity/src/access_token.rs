//! Checks OAuth access tokens, which are JWTs, from their bytes to their claims. Nothing in a
//! token is trusted before the last check.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::keys::MAX_ID_CHARS;
use crate::strict_json;

/// The maximum size of an access token, in bytes. Guards against: a peer that makes the server
/// decode and check megabytes.
pub(crate) const MAX_BYTES: usize = 16 << 10;

/// The maximum difference between an issuer's clock and this machine's, in seconds.
pub(crate) const LEEWAY: u64 = 30;

/// The allowed types (`typ`) of an access token. Guards against: a token that the issuer made
/// for another use, such as to log a user out.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// The header parameters that bring a key, or change how a token is checked. Guards against: a
/// peer that brings its own key, or the address of a key.
const FORBIDDEN_PARAMETERS: [&str; 8] = ["crit", "b64", "jku", "jwk", "x5u", "x5c", "cty", "zip"];

/// A token that is parsed and not yet checked.
pub(crate) struct UncheckedToken<'t> {
    text: &'t str,
    pub(crate) key_id: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) issuer: String,
    claims: Map<String, Value>,
}

/// The claims of a checked token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    claims: Map<String, Value>,
    /// The time at which the token expires, with the leeway for clocks.
    pub(crate) expires: SystemTime,
}

/// The reason why an access token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The token has too many bytes.
    #[error("it has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// The token is not three parts of base64, or one of its objects repeats a key.
    #[error("it is not a JWT, or it has a duplicate key")]
    Malformed,
    /// The type is not that of an access token.
    #[error("its type (`typ`) is not that of an access token")]
    WrongType,
    /// The header has a forbidden parameter.
    #[error("its header parameter `{0}` is forbidden")]
    ForbiddenParameter(&'static str),
    /// The header does not name the key.
    #[error("its header has no key id (`kid`)")]
    NoKeyId,
    /// The algorithm is unknown, `none`, symmetric, or not configured.
    #[error("its algorithm (`alg`) is not allowed")]
    UnsupportedAlgorithm,
    /// The token does not name its issuer.
    #[error("it has no issuer (`iss`)")]
    NoIssuer,
    /// The issuer is not configured.
    #[error("its issuer is not configured")]
    UnknownIssuer,
    /// The issuer has no such key.
    #[error("its issuer has no key with the token's `kid`")]
    UnknownKey,
    /// The key is for another algorithm.
    #[error("the key with the token's `kid` is for another algorithm")]
    WrongKeyAlgorithm,
    /// The signature does not match.
    #[error("its signature is wrong")]
    InvalidSignature,
    /// The token is for another server.
    #[error("its audience (`aud`) is another server")]
    WrongAudience,
    /// The token has expired.
    #[error("it has expired (`exp`)")]
    Expired,
    /// The token is not valid yet.
    #[error("it is not valid yet (`nbf`)")]
    NotYetValid,
    /// A claim is missing or has another type.
    #[error("`iss`, `aud`, `exp` or `nbf` is missing or has the wrong type")]
    InvalidClaims,
}

/// Returns whether a token looks like a JWT. Any other token is never parsed.
pub(crate) fn looks_like_jwt(token: &[u8]) -> bool {
    token.starts_with(b"ey") && token.iter().filter(|byte| **byte == b'.').count() >= 2
}

impl<'t> UncheckedToken<'t> {
    /// Parses the parts of a token.
    pub(crate) fn parse(token: &'t [u8]) -> Result<Self, TokenError> {
        if token.len() > MAX_BYTES {
            return Err(TokenError::TooLarge);
        }
        let text = str::from_utf8(token).map_err(|_| TokenError::Malformed)?;
        let parts: Vec<&str> = text.split('.').collect();
        let [header, claims, _] = parts[..] else {
            return Err(TokenError::Malformed);
        };
        let parse_part = |part: &str| {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
            strict_json::parse_object(&bytes)
        };
        let header = parse_part(header).ok_or(TokenError::Malformed)?;
        let claims = parse_part(claims).ok_or(TokenError::Malformed)?;
        let mut forbidden = FORBIDDEN_PARAMETERS.into_iter();
        if let Some(name) = forbidden.find(|name| header.contains_key(*name)) {
            return Err(TokenError::ForbiddenParameter(name));
        }
        match header.get("typ") {
            None => {}
            Some(Value::String(name)) if TYPES.contains(&&*name.to_ascii_lowercase()) => {}
            Some(_) => return Err(TokenError::WrongType),
        }
        let algorithm = header.get("alg").and_then(Value::as_str);
        let algorithm = algorithm.and_then(|name| name.parse().ok());
        let key_id = header.get("kid").and_then(Value::as_str);
        let issuer = claims.get("iss").and_then(Value::as_str);
        Ok(Self {
            text,
            algorithm: algorithm.ok_or(TokenError::UnsupportedAlgorithm)?,
            key_id: key_id
                .filter(|id| !id.is_empty() && id.chars().count() <= MAX_ID_CHARS)
                .ok_or(TokenError::NoKeyId)?
                .to_owned(),
            issuer: issuer.ok_or(TokenError::NoIssuer)?.to_owned(),
            claims,
        })
    }

    /// Checks the token. `keys` are the keys of its issuer that may have signed it.
    pub(crate) fn check(
        self,
        keys: Vec<&DecodingKey>,
        issuer: &str,
        audiences: &[String],
    ) -> Result<Claims, TokenError> {
        let mut rules = Validation::new(self.algorithm);
        rules.leeway = LEEWAY;
        rules.validate_nbf = true;
        rules.set_issuer(&[issuer]);
        rules.set_audience(audiences);
        rules.set_required_spec_claims(&["exp", "iss", "aud"]);
        let check_with = |key| {
            let decoded = decode::<IgnoredAny>(self.text, key, &rules).map(drop);
            decoded.map_err(|error| match error.kind() {
                ErrorKind::InvalidSignature => TokenError::InvalidSignature,
                ErrorKind::InvalidAudience => TokenError::WrongAudience,
                ErrorKind::ExpiredSignature => TokenError::Expired,
                ErrorKind::ImmatureSignature => TokenError::NotYetValid,
                ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
                    TokenError::InvalidClaims
                }
                _ => TokenError::Malformed,
            })
        };
        let wrong_key = Err(TokenError::InvalidSignature);
        let mut checks = keys.into_iter().map(check_with);
        checks
            .find(|checked| *checked != wrong_key)
            .unwrap_or(wrong_key)?;
        let expires = self.claims.get("exp").and_then(Value::as_f64);
        let seconds = expires.filter(|seconds| (0.0..1e11).contains(seconds));
        let seconds = seconds.ok_or(TokenError::InvalidClaims)? as u64;
        let expires = UNIX_EPOCH + Duration::from_secs(seconds + LEEWAY);
        // `decode` accepts the token for one second longer. A stream that began in that second
        // would end at once.
        if expires <= SystemTime::now() {
            return Err(TokenError::Expired);
        }
        Ok(Claims {
            claims: self.claims,
            expires,
        })
    }
}

impl Claims {
    /// Returns whether a claim equals a value, or is a list that contains the value.
    ///
    /// A text in `scope` or `scp` is a list of words.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        match self.claims.get(name) {
            Some(Value::String(text)) if ["scope", "scp"].contains(&name) => {
                text.split(' ').any(|word| word == value)
            }
            Some(Value::String(text)) => text == value,
            Some(Value::Array(list)) => list.iter().any(|item| item.as_str() == Some(value)),
            Some(Value::Bool(flag)) => flag.to_string() == value,
            Some(Value::Number(number)) => number.to_string() == value,
            _ => false,
        }
    }

    /// Returns whether the token has an OAuth scope.
    pub(crate) fn has_scope(&self, scope: &str) -> bool {
        self.has("scope", scope) || self.has("scp", scope)
    }
}
