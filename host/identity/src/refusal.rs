//! The reasons why a request is refused: for the operator. A peer learns only what HTTP
//! says by the status.

use std::fmt;
use std::sync::Arc;

use crate::access_token::TokenError;
use crate::connections::CertificateNames;

/// The reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It shows nothing.
    Missing,
    /// It shows something that is not a bearer token, or several things.
    Malformed,
    /// No client has the token.
    Unknown,
    /// The client's time has passed.
    Expired(Arc<str>),
    /// It is an access token that is refused.
    Token(TokenError),
    /// It is an access token with a key that its issuer may have added. After a
    /// [look](crate::Clients::look_for_keys) it may be known.
    UnknownKey(IssuerNumber),
    /// It is an access token with such a key, and too many requests wait for the issuer's
    /// keys already.
    TooManyWaiting,
    /// It is a right access token that is no client's.
    NoClient,
    /// It is a right access token that is several clients'.
    SeveralClients,
    /// It is a right access token without these OAuth scopes, which its client needs.
    Scopes(Vec<String>),
    /// It shows no token, and comes from this user, who is no client.
    User(u32),
    /// It shows no token, and a certificate with these names, which are no client's.
    Certificate(CertificateNames),
    /// It shows no token, and a certificate with names of several clients.
    CertificateOfSeveral(CertificateNames),
}

/// The number of an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssuerNumber(pub(crate) usize);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("it shows no token"),
            Self::Malformed => f.write_str("its `Authorization` is not one bearer token"),
            Self::Unknown => f.write_str("no client has its token"),
            Self::Token(error) => write!(f, "its access token: {error}"),
            Self::UnknownKey(_) => write!(f, "its access token: {}", TokenError::Key),
            Self::TooManyWaiting => {
                f.write_str("its access token: too many requests wait for the keys of its issuer")
            }
            Self::NoClient => f.write_str("no client's `claims` fit its access token"),
            Self::SeveralClients => {
                f.write_str("the `claims` of several clients fit its access token equally")
            }
            Self::Scopes(scopes) => {
                write!(
                    f,
                    "its access token has not the scopes {}",
                    scopes.join(" ")
                )
            }
            Self::User(user) => write!(
                f,
                "it shows no token, and the user {user} is not in `unix_users` of a client"
            ),
            Self::Certificate(names) => write!(
                f,
                "it shows no token, and no name of its certificate, {names}, is in \
                 `certificate_names` of a client"
            ),
            Self::CertificateOfSeveral(names) => write!(
                f,
                "it shows no token, and the names of its certificate, {names}, are those of \
                 several clients"
            ),
            Self::Expired(name) => write!(f, "`expires` of `[clients.{name}]` has passed"),
        }
    }
}
