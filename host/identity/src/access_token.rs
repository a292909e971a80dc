//! OAuth access tokens in the form of JWTs: each check, from the bytes to the claims. What
//! they say is trusted only at the end.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::keys::MOST_ID_CHARACTERS;
use crate::strict;

/// The most bytes of an access token. Guards against: a peer that makes the server decode
/// and check megabytes.
pub(crate) const MOST_BYTES: usize = 16 << 10;

/// The seconds by which an issuer's clock may differ.
pub(crate) const LEEWAY: u64 = 30;

/// The types that an access token may have. Guards against: a token of the same issuer
/// that is for another use, such as a logout.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// Members of a header that name a key or more rules. The key comes from the operator's
/// issuer alone, and there are no more rules here. Guards against: a peer that brings a key
/// of its own, or the address of one.
const REFUSED_MEMBERS: [&str; 8] = ["crit", "b64", "jku", "jwk", "x5u", "x5c", "cty", "zip"];

/// A token whose parts were read, and of which nothing was checked.
pub(crate) struct UncheckedToken<'t> {
    text: &'t str,
    pub(crate) key_id: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) issuer: String,
    claims: Map<String, Value>,
}

/// The claims of a token that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    claims: Map<String, Value>,
    /// The time at which they end.
    pub(crate) expires: SystemTime,
}

/// The reason why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It has too many bytes.
    #[error("it has more than {MOST_BYTES} bytes")]
    TooLarge,
    /// It is not three parts of base64, the first two JSON objects with each name once.
    #[error("it is not a JWT, or a name stands twice in it")]
    Malformed,
    /// Its type is not that of an access token.
    #[error("its type (`typ`) is not that of an access token")]
    Type,
    /// Its header names a key or rules of its own.
    #[error("its header has `{0}`, which is refused")]
    Member(&'static str),
    /// Its header does not say which key it is signed with.
    #[error("its header has no id of a key (`kid`)")]
    NoKeyId,
    /// Its algorithm is unknown, none, or symmetric.
    #[error("its algorithm (`alg`) is none that is allowed")]
    Algorithm,
    /// It does not say who issued it.
    #[error("it has no issuer (`iss`)")]
    NoIssuer,
    /// No configured issuer issued it.
    #[error("its issuer is not configured")]
    Issuer,
    /// The issuer has no such key.
    #[error("its issuer has no key with its `kid`")]
    Key,
    /// The key is for another algorithm.
    #[error("the key with its `kid` is for another algorithm")]
    KeyType,
    /// The signature does not fit.
    #[error("its signature is wrong")]
    Signature,
    /// It is for another server.
    #[error("its audience (`aud`) is another")]
    Audience,
    /// Its time has passed.
    #[error("its time (`exp`) has passed")]
    Expired,
    /// Its time has not come.
    #[error("its time (`nbf`) has not come")]
    Early,
    /// A claim is missing or has another type.
    #[error("a claim of `iss`, `aud`, `exp` and `nbf` is missing or has another type")]
    Claims,
}

/// Returns whether a token may be a JWT: others are looked up and never read.
pub(crate) fn may_be(token: &[u8]) -> bool {
    token.starts_with(b"ey") && token.iter().filter(|byte| **byte == b'.').count() >= 2
}

impl<'t> UncheckedToken<'t> {
    /// Reads the parts of a token.
    pub(crate) fn read(token: &'t [u8]) -> Result<Self, TokenError> {
        if token.len() > MOST_BYTES {
            return Err(TokenError::TooLarge);
        }
        let text = str::from_utf8(token).map_err(|_| TokenError::Malformed)?;
        let parts: Vec<&str> = text.split('.').collect();
        let [header, claims, _] = parts[..] else {
            return Err(TokenError::Malformed);
        };
        let object = |part: &str| {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
            strict::object(&bytes)
        };
        let header = object(header).ok_or(TokenError::Malformed)?;
        let claims = object(claims).ok_or(TokenError::Malformed)?;
        let refused = REFUSED_MEMBERS.into_iter();
        if let Some(member) = refused.clone().find(|member| header.contains_key(*member)) {
            return Err(TokenError::Member(member));
        }
        match header.get("typ") {
            None => {}
            Some(Value::String(of)) if TYPES.contains(&&*of.to_ascii_lowercase()) => {}
            Some(_) => return Err(TokenError::Type),
        }
        let algorithm = header.get("alg").and_then(Value::as_str);
        let algorithm = algorithm.and_then(|name| name.parse().ok());
        let key_id = header.get("kid").and_then(Value::as_str);
        let issuer = claims.get("iss").and_then(Value::as_str);
        Ok(Self {
            text,
            algorithm: algorithm.ok_or(TokenError::Algorithm)?,
            key_id: key_id
                .filter(|id| !id.is_empty() && id.chars().count() <= MOST_ID_CHARACTERS)
                .ok_or(TokenError::NoKeyId)?
                .to_owned(),
            issuer: issuer.ok_or(TokenError::NoIssuer)?.to_owned(),
            claims,
        })
    }

    /// Checks the token with its issuer's key.
    pub(crate) fn check(
        self,
        key: &DecodingKey,
        issuer: &str,
        audiences: &[String],
    ) -> Result<Claims, TokenError> {
        let mut rules = Validation::new(self.algorithm);
        rules.leeway = LEEWAY;
        rules.validate_nbf = true;
        rules.set_issuer(&[issuer]);
        rules.set_audience(audiences);
        rules.set_required_spec_claims(&["exp", "iss", "aud"]);
        decode::<IgnoredAny>(self.text, key, &rules).map_err(|error| match error.kind() {
            ErrorKind::InvalidSignature => TokenError::Signature,
            ErrorKind::InvalidAudience => TokenError::Audience,
            ErrorKind::ExpiredSignature => TokenError::Expired,
            ErrorKind::ImmatureSignature => TokenError::Early,
            ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
                TokenError::Claims
            }
            _ => TokenError::Malformed,
        })?;
        let seconds = self.claims.get("exp").and_then(Value::as_f64);
        let seconds = seconds.filter(|it| (0.0..1e11).contains(it));
        let seconds = seconds.ok_or(TokenError::Claims)? as u64;
        let expires = UNIX_EPOCH + Duration::from_secs(seconds + LEEWAY);
        // `decode` takes it for another second, in which a stream would end at once.
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
    /// Checks that a claim has a value: the text itself, or one of a list of texts. Of
    /// `scope` and `scp`, one of the words of a text.
    pub(crate) fn have(&self, name: &str, value: &str) -> bool {
        match self.claims.get(name) {
            Some(Value::String(text)) if ["scope", "scp"].contains(&name) => {
                text.split(' ').any(|word| word == value)
            }
            Some(Value::String(text)) => text == value,
            Some(Value::Array(list)) => list.iter().any(|item| item.as_str() == Some(value)),
            Some(Value::Bool(yes)) => yes.to_string() == value,
            Some(Value::Number(number)) => number.to_string() == value,
            _ => false,
        }
    }

    /// Checks that the token has an OAuth scope.
    pub(crate) fn have_scope(&self, scope: &str) -> bool {
        self.have("scope", scope) || self.have("scp", scope)
    }
}
