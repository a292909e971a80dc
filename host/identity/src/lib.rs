//! Who is asking: the clients of a server, told apart by what they show, each with its
//! scope and its share.
//!
//! Not here: HTTP, and what a client may do beyond its scope, which grants decide.

// The order is that of the layers, lowest first.

// Files that are read again, and whose those of secrets may be.
pub mod private_file;
// A secret that a client shows.
mod token;
// The part of the server that one client has.
mod shares;
// One client.
mod client;
// What a connection shows by itself.
mod connections;
// All clients, and the check of what a request shows.
mod clients;

pub use client::Client;
pub use clients::{Clients, Refusal};
pub use connections::CertificateNames;
pub use shares::{Share, ShareError};
pub use token::Token;
