//! Packages: components that come from a registry, and are fixed by a lock file.
//!
//! - `digest`: SHA-256 digests.
//! - `reference`: where a package is: registry, repository, and tag or digest.
//! - `manifest`: OCI manifests and image indexes.
//! - `credentials`: the user's credentials, from the files of docker and podman.
//! - `resolver`: which addresses a request may go to.
//! - `client`: the client of a registry.
//! - `signature`: keys, and sigstore bundles of them.
//! - `atomic`: replaces files as a whole.
//! - `settings`: the tables of `skillhost.toml` about packages, and edits of them.
//! - `lock`: `skillhost.lock`.
//! - `store`: blobs by digest, in a folder of the user.
//! - `package`: pulls a package, and checks a locked one.
//! - `push`: pushes and signs a package.
//!
//! Only `add`, `update`, `fetch` and `push` use the client. What a host loads comes from the store.
//!
//! This crate is part of [skillhost](https://crates.io/crates/skillhost). It may change at any
//! time.

mod digest;

mod reference;

mod manifest;

mod credentials;

mod resolver;

mod client;

mod signature;

mod atomic;

mod settings;

mod lock;

mod store;

mod package;

mod push;

#[cfg(test)]
mod tests;

pub use client::{Authorities, Registry, RegistrySettings};
pub use digest::Digest;
pub use lock::{LOCK_FILE, LockFile, LockedComponent};
pub use package::{PulledPackage, pull, verify_locked};
pub use push::{PushedPackage, push};
pub use reference::Reference;
pub use settings::{ConfiguredSource, PackageSettings, add_source, check_name, remove_source};
pub use signature::{PublicKey, Signer, SigningKey};
pub use store::{BlobSize, Store, StoreLock};
