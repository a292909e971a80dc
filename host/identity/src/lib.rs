//! Who is asking: the clients of a server, told apart by what they show (a token of their
//! own, or an OAuth access token), each with its scope and its share.
//!
//! Not here: HTTP, and what a client may do beyond its scope, which grants decide.

// The order is that of the layers, lowest first.

// A secret that a client shows.
mod token;
// The part of the server that one client has.
mod shares;
// One client.
mod client;
// JSON without a name that stands twice.
mod strict;
// Signatures, by ring.
mod signature;
// The public keys of an issuer.
mod keys;
// The processes that fetch keys.
mod fetch;
// Each check of an access token.
mod access_token;
// An issuer, and the rules for its tokens.
mod issuer;
// What a connection shows by itself.
mod connections;
// The reasons of refusals, for the operator.
mod refusal;
// Clients that show access tokens.
mod oauth;
// All clients, and the check of what a request shows.
mod clients;
#[cfg(test)]
mod bad_tokens;

pub use access_token::TokenError;
pub use client::{Client, Expiry, Identified};
pub use clients::Clients;
pub use connections::CertificateNames;
pub use fetch::{FETCH_ARGUMENT, fetch_keys};
pub use oauth::ResourceMetadata;
pub use refusal::{IssuerNumber, Refusal};
pub use shares::{Share, ShareError};
pub use token::Token;
