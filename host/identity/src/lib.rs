//! The clients of a server: identifies them by their credentials, and gives each its scope and
//! its budget.
//!
//! A credential is a token from the operator, an OAuth access token, a TLS certificate, or the
//! user at a Unix socket. This crate does not know HTTP. Grants decide what a client may do within
//! its scope.

// Modules are in the order of their layers, lowest first.

// The settings of clients and issuers.
mod settings;
// Bearer tokens.
mod token;
// The budget of one client.
mod budget;
// One client.
mod client;
// JSON without duplicate keys.
mod strict_json;
// Signature verification by ring.
mod signature;
// The public keys of an issuer.
mod keys;
// The checks of an access token.
mod access_token;
// An issuer: its keys and the rules for its tokens.
mod issuer;
// Clients identified by their connection.
mod connections;
// The reasons for refusals, for the operator.
mod refusal;
// Clients identified by access tokens.
mod oauth;
// All clients of a server.
mod clients;
#[cfg(test)]
mod bad_tokens;

pub use access_token::TokenError;
pub use budget::{BudgetError, RequestLease};
pub use client::{Client, Expiry, Identity};
pub use clients::Clients;
pub use connections::CertificateNames;
pub use issuer::{FetchKeys, KeysFuture};
pub use oauth::ResourceMetadata;
pub use refusal::{IssuerIndex, Refusal};
pub use settings::{
    ClientConfig, ClientLimits, IdentitySettings, IssuerConfig, KeySource, check_address,
};
pub use token::Token;
