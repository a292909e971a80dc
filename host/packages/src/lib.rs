//! Packages: components and skills from registries, git repositories and sites, fixed by a lock file.
//!
//! - `quote`: quotes of names in messages.
//! - `digest`: SHA-256 digests.
//! - `version`: compares versions.
//! - `denied`: digests that the operator has denied.
//! - `reference`: where a package is: registry, repository, and tag or digest.
//! - `manifest`: OCI manifests and image indexes.
//! - `credentials`: the user's credentials, from the files of docker and podman.
//! - `resolver`: restricts the addresses that requests go to.
//! - `client`: the client of a registry.
//! - `ring_provider`: the cryptography of sigstore's verifier.
//! - `statement`: the statement that a signature covers.
//! - `identity`: signers that are identities, such as workflows of a repository.
//! - `signature`: keys, and sigstore bundles.
//! - `skill_files`: the checked files of a skill, from any source.
//! - `skill_folder`: reads a skill that its author pushes.
//! - `layer`: packs and unpacks the files of a skill.
//! - `zip`: unpacks the files of a skill from a zip archive.
//! - `git`: skills in git repositories.
//! - `site`: skills that sites offer.
//! - `source`: sources of skills: registries, git repositories and sites.
//! - `import`: lock files of other programs.
//! - `settings`: the tables of `skillhost.toml` about packages, and edits of them.
//! - `catalog`: the packages that agents may ask for.
//! - `requests`: the packages that agents asked for.
//! - `lock`: `skillhost.lock`.
//! - `store`: blobs by digest, in a folder of the user.
//! - `unpacked`: the files of skills in the store.
//! - `package`: pulls a package, and checks a locked one.
//! - `fetch`: gets a skill from its source into the store.
//! - `push`: pushes and signs a package.
//! - `bundle_file`: packages and their lock file in one file, for machines without a network.
//!
//! Only `add`, `update`, `fetch` and `push` use the client. A host loads packages only from the store.
//!
//! This crate is part of [skillhost](https://crates.io/crates/skillhost). It may change at any
//! time.

mod quote;

mod digest;

mod version;

mod denied;

mod reference;

mod manifest;

mod credentials;

mod resolver;

mod client;

mod ring_provider;

mod statement;

mod identity;

mod signature;

mod skill_files;

mod skill_folder;

mod layer;

mod zip;

mod git;

mod site;

mod source;

mod settings;

mod catalog;

mod requests;

mod import;

mod lock;

mod store;

mod unpacked;

mod package;

mod push;

mod fetch;

mod bundle_file;

#[cfg(test)]
mod tests;

pub use bundle_file::{BundleFile, ExportedBundle, check_target, export};
pub use catalog::{OfferedPackage, read_catalog};
pub use client::{Authorities, BlobProgress, Registry, RegistrySettings};
pub use denied::DenyList;
pub use digest::Digest;
pub use fetch::fetch_skill;
pub use git::GitSource;
pub use identity::SignerIdentity;
pub use import::{ForeignSkill, read_foreign_lock};
pub use lock::{LOCK_FILE, LockFile, LockedComponent, LockedPackage, LockedSkill};
pub use manifest::PackageKind;
pub use package::{
    PulledPackage, annotated_version, named_content, pull, read_named_skill, read_skill,
    verified_signer, verify_locked,
};
pub use push::{PushedPackage, push, push_skill};
pub use quote::quote;
pub use reference::Reference;
pub use requests::{MAX_REASON, PackageRequest, PendingRequests, RequestFile};
pub use settings::{
    ConfiguredSource, PackageSettings, add_source, check_name, deny, read_valid_denials,
    remove_source,
};
pub use signature::{PublicKey, Signer, SigningKey, TrustedSigner};
pub use site::SiteSource;
pub use skill_files::{SkillFiles, SkillFilesBuilder, SkillMetadata};
pub use skill_folder::{SkillFolder, read_skill_folder};
pub use source::SkillSource;
pub use store::{BlobSize, Store, StoreLock};
pub use version::{MAX_VERSION, find_downgrade};
