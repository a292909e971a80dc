//! The reasons for refusals, for the operator's log. A peer learns only the HTTP status.

use std::fmt;
use std::sync::Arc;

use crate::access_token::TokenError;
use crate::connections::CertificateNames;

/// The reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The request has no token.
    NoToken,
    /// `Authorization` is not one bearer token.
    MalformedAuthorization,
    /// No client has the token.
    UnknownToken,
    /// The client has expired.
    ClientExpired(Arc<str>),
    /// The access token is not valid.
    InvalidToken(TokenError),
    /// The access token names an unknown key. The issuer may have added it, so a
    /// [refresh](crate::Clients::refresh_keys) may find it.
    UnknownKey(IssuerIndex),
    /// The access token names an unknown key, and too many requests wait for the issuer's keys.
    TooManyWaiting,
    /// The access token names an unknown key, and the issuer's keys cannot be read.
    UnreadableKeys,
    /// The access token is valid, but belongs to no client.
    NoClient,
    /// The access token is valid, but matches several clients equally.
    AmbiguousClient,
    /// The access token is valid, but lacks some of these OAuth scopes, which its client needs.
    MissingScopes(Vec<String>),
    /// The request has no token and comes from this user, who is not a client.
    UnknownUser(u32),
    /// The request has no token, and its certificate has these names, which belong to no client.
    UnknownCertificate(CertificateNames),
    /// The request has no token, and its certificate has names of several clients.
    AmbiguousCertificate(CertificateNames),
}

/// The index of an issuer in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssuerIndex(pub(crate) usize);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoToken => f.write_str("it has no token"),
            Self::MalformedAuthorization => {
                f.write_str("its `Authorization` is not one bearer token")
            }
            Self::UnknownToken => f.write_str("no client has its token"),
            Self::ClientExpired(name) => write!(f, "`expires` of `[clients.{name}]` has passed"),
            Self::InvalidToken(error) => write!(f, "invalid access token: {error}"),
            Self::UnknownKey(_) => {
                write!(f, "invalid access token: {}", TokenError::UnknownKey)
            }
            Self::TooManyWaiting => {
                f.write_str("too many requests wait for the keys of its access token's issuer")
            }
            Self::UnreadableKeys => {
                f.write_str("the keys of its access token's issuer cannot be read")
            }
            Self::NoClient => f.write_str("no client's `claims` match its access token"),
            Self::AmbiguousClient => {
                f.write_str("the `claims` of several clients match its access token equally")
            }
            Self::MissingScopes(scopes) => {
                let scopes = scopes.join(" ");
                write!(f, "its access token needs the OAuth scopes `{scopes}`")
            }
            Self::UnknownUser(user) => write!(
                f,
                "it has no token, and no client's `unix_users` has its user {user}"
            ),
            Self::UnknownCertificate(names) => write!(
                f,
                "it has no token, and no client's `certificate_names` has a name of its \
                 certificate: {names}"
            ),
            Self::AmbiguousCertificate(names) => write!(
                f,
                "it has no token, and its certificate has names of several clients: {names}"
            ),
        }
    }
}
