//! Signs checkpoints of the audit log, verifies its chains, and finds records in it.
//!
//! The crate `skillhost` writes records and chains them. This crate has the parts that a host
//! does not always need: keys, signatures, and reading a log.

// Modules are in the order of their layers, lowest first. A module uses only those above
// it in this list.

// Keys and their files.
mod key;
// Sending checkpoints.
mod sink;
mod signer;
// Logs, line by line.
mod lines;
mod files;
// Verifying logs.
mod external;
mod report;
mod joined;
mod verifier;
mod verify;
// Finding records in logs.
mod filter;
mod follow;

pub use external::ExternalCheckpoints;
pub use filter::{CallRecord, Filter, OUTCOMES, RecordTime, SearchSummary, find_records};
pub use follow::{FollowStep, follow_records};
pub use key::{PrivateKey, PublicKey};
pub use report::{LogProblem, VerifyReport};
pub use signer::LogSigner;
pub use verifier::Verifier;
pub use verify::{verify, verify_chain};
