//! The audit log as evidence: signs its checkpoints, verifies its chain, and finds
//! records in it.
//!
//! The crate `skillhost` writes records and chains them. This crate has what a host
//! can do without: keys, signatures, and reading a log again.

// The order is that of the layers, lowest first: a module uses only those above it.

// Keys and their files.
mod key;
// The places that checkpoints are sent to.
mod outlet;
mod signer;
// Logs, line by line.
mod lines;
mod files;
// Checking them.
mod kept;
mod report;
mod verifier;
mod verify;
// Finding records in them.
mod filter;

pub use filter::{CallRecord, Filter, Found, Moment, OUTCOMES, find};
pub use kept::KeptCheckpoints;
pub use key::{PrivateKey, PublicKey};
pub use report::{Problem, Report};
pub use signer::LogSigner;
pub use verifier::Verifier;
pub use verify::verify;
