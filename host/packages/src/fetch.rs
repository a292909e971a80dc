//! Fetches a skill from its source into the store.
//!
//! The files of a git repository or a site become a package like those of registries. Its layer is
//! not compressed, so the same files have the same digests on every machine.

use anyhow::ensure;

use crate::client::{Registry, RegistrySettings};
use crate::denied::DenyList;
use crate::layer;
use crate::lock::LockedSkill;
use crate::manifest::{
    Descriptor, EMPTY, MAX_COMPONENT, Manifest, OCI_MANIFEST, PLAIN_SKILL_LAYER, PackageKind,
};
use crate::package::{PulledPackage, pull_skill};
use crate::signature::{Signer, TrustedSigner};
use crate::skill_files::SkillFiles;
use crate::source::SkillSource;
use crate::store::Store;

/// Fetches a skill into the store, and unpacks it there under this name.
///
/// Returns its entry for the lock file, and its files. With `locked`, accepts only the locked files.
/// A package from a registry must be signed by one of `signers`, unless `signers` is `None`.
/// Unpacks nothing that is in `denied`.
///
/// # Errors
///
/// If the response is invalid, is not a skill, or has a file name that is not allowed; if the files
/// differ from the lock file, lack a required signature, or are denied.
pub fn fetch_skill(
    name: &str,
    source: &SkillSource,
    locked: Option<&LockedSkill>,
    signers: Option<&[TrustedSigner]>,
    denied: &DenyList,
    settings: &RegistrySettings,
    store: &Store,
) -> anyhow::Result<(LockedSkill, SkillFiles)> {
    let fixed = match locked {
        Some(locked) => source.fixed(&locked.manifest, locked.commit.as_deref())?,
        None => source.clone(),
    };
    let (package, commit, files) = match &fixed {
        SkillSource::Registry(reference) => {
            let mut registry = Registry::new(reference, settings)?;
            let bundle = locked.and_then(|locked| locked.bundle.as_ref());
            let (package, files) =
                pull_skill(&mut registry, reference, signers, bundle, denied, store)?;
            (package, None, files)
        }
        SkillSource::Git(source) => {
            let found = source.fetch(settings, store.temporary_folder()?)?;
            let package = write_package(&found.files, store)?;
            (package, Some(found.commit), found.files)
        }
        SkillSource::Site(source) => {
            let files = source.fetch(settings)?;
            (write_package(&files, store)?, None, files)
        }
    };
    let fetched = LockedSkill {
        package: package.into_locked(PackageKind::Skill, name, source),
        commit,
        files: files.digests(),
    };
    if let Some(locked) = locked {
        ensure!(
            fetched.content == locked.content && fetched.manifest == locked.manifest,
            "the source of `{name}` has other bytes than the lock file"
        );
    }
    denied.check(fetched.digests())?;
    store.unpack(locked.unwrap_or(&fetched), &files)?;
    Ok((fetched, files))
}

/// Writes files into the store as an unsigned package.
fn write_package(files: &SkillFiles, store: &Store) -> anyhow::Result<PulledPackage> {
    let archive = layer::pack(files)?;
    ensure!(
        archive.len() as u64 <= MAX_COMPONENT,
        "the skill has {} bytes, more than {MAX_COMPONENT}",
        archive.len()
    );
    let layer = Descriptor::of(PLAIN_SKILL_LAYER, &archive);
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(OCI_MANIFEST.to_owned()),
        config: Some(Descriptor::of(EMPTY, b"{}")),
        layers: Some(vec![layer.clone()]),
        ..Manifest::default()
    };
    store.write(&archive)?;
    Ok(PulledPackage {
        manifest: store.write(&serde_json::to_vec(&manifest)?)?,
        content: layer.digest,
        size: layer.size,
        version: None,
        signer: Signer::Unsigned,
        bundle: None,
    })
}
