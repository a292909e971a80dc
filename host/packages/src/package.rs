//! Pulls packages from a registry, and checks locked packages in the store.

use std::collections::BTreeSet;
use std::fmt::Display;

use anyhow::{Context as _, bail, ensure};

use crate::client::{Registry, fallback_tag};
use crate::denied::DenyList;
use crate::digest::Digest;
use crate::layer;
use crate::lock::{LockedPackage, LockedSkill};
use crate::manifest::{Descriptor, EMPTY, MAX_COMPONENT, MAX_MANIFEST, Manifest, PackageKind};
use crate::reference::{Reference, Version};
use crate::signature::{
    BUNDLE_PREFIX, MAX_BUNDLE, PREDICATE_TYPE_ANNOTATION, Signer, TrustedSigner,
};
use crate::skill_files::SkillFiles;
use crate::statement::PREDICATE_TYPE;
use crate::store::Store;

/// The maximum number of manifests that are read for a package's signature. Guards against: a
/// registry that lists millions. Some registries let anyone add to the list.
const MAX_SIGNATURES: usize = 32;

/// A package whose blobs are in the store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PulledPackage {
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component, or of the layer with the skill's files.
    pub content: Digest,
    /// The size of the component or the layer, in bytes.
    pub size: u64,
    /// The version in its manifest.
    pub version: Option<String>,
    /// The signer.
    pub signer: Signer,
    /// The digest of the bundle with the signature.
    pub bundle: Option<Digest>,
}

impl PulledPackage {
    /// Returns the entry for a lock file.
    pub fn into_locked(
        self,
        kind: PackageKind,
        name: &str,
        source: &impl Display,
    ) -> LockedPackage {
        LockedPackage {
            kind,
            name: name.to_owned(),
            source: source.to_string(),
            manifest: self.manifest,
            content: self.content,
            size: self.size,
            version: self.version,
            signer: self.signer,
            bundle: self.bundle,
        }
    }
}

/// Pulls one version, like [`pull`]. Passes the layer's bytes to `read`, and stores nothing if
/// `read` fails.
#[expect(
    clippy::too_many_arguments,
    reason = "only two functions call it, and both need all arguments"
)]
fn pull_version<T>(
    registry: &mut Registry,
    version: &Version,
    kind: PackageKind,
    signers: Option<&[TrustedSigner]>,
    bundle: Option<&Digest>,
    denied: &DenyList,
    store: &Store,
    read: impl FnOnce(&Descriptor, &[u8]) -> anyhow::Result<T>,
) -> anyhow::Result<(PulledPackage, T)> {
    let (mut manifest, mut bytes, mut digest) = registry.manifest(version)?;
    denied.check([&digest])?;
    if let Some(chosen) = manifest.choose(kind)? {
        let chosen = Version::Digest(chosen.digest.clone());
        (manifest, bytes, digest) = registry.manifest(&chosen)?;
        ensure!(
            manifest.manifests.is_none(),
            "the index lists another index instead of a manifest"
        );
    }
    let layer = manifest.layer(kind)?.clone();
    denied.check([&digest, &layer.digest])?;
    let named_version = manifest.version()?.map(str::to_owned);
    let signed = match (signers, bundle) {
        (Some(signers), Some(bundle)) => {
            Some(read_locked_signature(registry, &digest, signers, bundle)?)
        }
        (Some(signers), None) => Some(find_signature(registry, &digest, signers)?),
        (None, _) => None,
    };
    let content = match store.read(&layer.digest, MAX_COMPONENT) {
        Ok(Some(content)) if content.len() as u64 == layer.size => content,
        _ => registry.blob(&layer.digest, layer.size)?,
    };
    let output = read(&layer, &content)?;
    store.write(&content)?;
    store.write(&bytes)?;
    let (signer, bundle) = match signed {
        Some((signer, bundle)) => (signer, Some(store.write(&bundle)?)),
        None => (Signer::Unsigned, None),
    };
    let pulled = PulledPackage {
        manifest: digest,
        content: layer.digest,
        size: layer.size,
        version: named_version,
        signer,
        bundle,
    };
    Ok((pulled, output))
}

/// Pulls a component into the store. Checks the signature before it reads the component.
///
/// One of `signers` must have signed the manifest; `None` accepts an unsigned package. With
/// `bundle`, accepts only the signature in that bundle. Stores nothing that is in `denied`.
///
/// # Errors
///
/// If the registry sends an invalid response, or the package is not a signed component.
pub fn pull(
    registry: &mut Registry,
    reference: &Reference,
    signers: Option<&[TrustedSigner]>,
    bundle: Option<&Digest>,
    denied: &DenyList,
    store: &Store,
) -> anyhow::Result<PulledPackage> {
    let (version, kind) = (reference.version(), PackageKind::Component);
    let nothing = |_: &Descriptor, _: &[u8]| Ok(());
    let pulled = pull_version(
        registry, version, kind, signers, bundle, denied, store, nothing,
    );
    let pulled = registry.explain_deadline(pulled);
    let (pulled, ()) = pulled.with_context(|| format!("cannot pull `{reference}`"))?;
    Ok(pulled)
}

/// Pulls a skill into the store, like [`pull`], and returns its files.
///
/// Does not unpack them in the store; [`Store::unpack`] does.
///
/// # Errors
///
/// If the registry sends an invalid response, the package is not a signed skill, or its archive or a
/// name in it is refused.
pub(crate) fn pull_skill(
    registry: &mut Registry,
    reference: &Reference,
    signers: Option<&[TrustedSigner]>,
    bundle: Option<&Digest>,
    denied: &DenyList,
    store: &Store,
) -> anyhow::Result<(PulledPackage, SkillFiles)> {
    let (version, kind) = (reference.version(), PackageKind::Skill);
    let pulled = pull_version(
        registry,
        version,
        kind,
        signers,
        bundle,
        denied,
        store,
        layer::unpack,
    );
    registry
        .explain_deadline(pulled)
        .with_context(|| format!("cannot pull `{reference}`"))
}

/// Reads the files of a skill from its layer in the store.
///
/// # Errors
///
/// If the manifest or the layer is missing or changed, or has other files than the lock file.
pub fn read_skill(locked: &LockedSkill, store: &Store) -> anyhow::Result<SkillFiles> {
    unpack_skill(locked, &|digest, max| {
        store
            .read(digest, max)?
            .with_context(|| not_in_store(locked))
    })
}

/// Reads the files of a skill from its layer. `read` returns a blob, given its digest and maximum
/// size.
pub(crate) fn unpack_skill(
    locked: &LockedSkill,
    read: &dyn Fn(&Digest, u64) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<SkillFiles> {
    let manifest = Manifest::parse(&read(&locked.manifest, MAX_MANIFEST)?, None)?;
    let layer = read(&locked.content, MAX_COMPONENT)?;
    let files = layer::unpack(manifest.layer(PackageKind::Skill)?, &layer)?;
    ensure!(
        files.digests() == locked.files,
        "the layer of the skill `{}` has other files than the lock file",
        locked.name
    );
    Ok(files)
}

/// Returns the signer of a manifest, and the bundle with this digest.
///
/// Reads no list of signatures, so no other entry can hide the bundle.
fn read_locked_signature(
    registry: &mut Registry,
    manifest: &Digest,
    signers: &[TrustedSigner],
    bundle: &Digest,
) -> anyhow::Result<(Signer, Vec<u8>)> {
    let bundle = registry.blob_up_to(bundle, MAX_BUNDLE);
    let bundle = bundle.context("cannot read its signature")?;
    let mut problems = Vec::new();
    for signer in signers {
        match signer.verify(&bundle, manifest) {
            Ok(signer) => return Ok((signer, bundle)),
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    bail!("it has no trusted signature: {}", problems.join("; "))
}

/// Returns the signer of a manifest, and the first bundle that a trusted signer signed.
fn find_signature(
    registry: &mut Registry,
    manifest: &Digest,
    signers: &[TrustedSigner],
) -> anyhow::Result<(Signer, Vec<u8>)> {
    let referrers = registry
        .referrers(manifest)
        .context("cannot read its signatures")?;
    let referrers = referrers.and_then(|index| index.manifests);
    let referrers = possible_signatures(referrers.unwrap_or_default());
    let mut problems = Vec::new();
    for referrer in referrers.iter().take(MAX_SIGNATURES) {
        let bundle = match read_bundle(registry, referrer, manifest) {
            Ok(Some(bundle)) => bundle,
            Ok(None) => continue,
            Err(error) => {
                problems.push(format!("{error:#}"));
                continue;
            }
        };
        for signer in signers {
            match signer.verify(&bundle, manifest) {
                Ok(signer) => return Ok((signer, bundle)),
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
    }
    ensure!(
        referrers.len() <= MAX_SIGNATURES,
        "the registry lists {} possible signatures, and none of the {MAX_SIGNATURES} that are read \
         is trusted; remove the others from the registry",
        referrers.len()
    );
    if problems.is_empty() {
        let tag = Version::Tag(format!("{}.sig", fallback_tag(manifest)));
        ensure!(
            !matches!(registry.find_manifest(&tag), Ok(Some(_))),
            "its signature has cosign's old format, which is not supported; sign it with cosign 3 \
             or with `skillhost push --key`"
        );
        bail!("it is unsigned, but a rule in `[trust]` asks for a signature");
    }
    problems.dedup();
    bail!("it has no trusted signature: {}", problems.join("; "))
}

/// Returns the manifests that can be signatures of a package, each once, the likeliest first.
///
/// Leaves out all others, so that they cost no requests.
fn possible_signatures(listed: Vec<Descriptor>) -> Vec<Descriptor> {
    let rank = |it: &Descriptor| match it.artifact_type.as_deref() {
        Some(kind) if kind.starts_with(BUNDLE_PREFIX) => {
            match it.annotations.get(PREDICATE_TYPE_ANNOTATION) {
                Some(predicate) if predicate == PREDICATE_TYPE => Some(0),
                Some(_) => None,
                None => Some(1),
            }
        }
        // The list under a fallback tag can leave out the type.
        None | Some("" | EMPTY) => Some(2),
        Some(_) => None,
    };
    let mut seen = BTreeSet::new();
    let listed = listed.into_iter();
    let listed = listed.filter(|it| it.size <= MAX_MANIFEST && seen.insert(it.digest.clone()));
    let mut ranked: Vec<_> = listed.filter_map(|it| Some((rank(&it)?, it))).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, it)| it).collect()
}

/// Reads the bundle of `referrer`. Returns `None` if `referrer` has no bundle, or another subject.
fn read_bundle(
    registry: &mut Registry,
    referrer: &Descriptor,
    subject: &Digest,
) -> anyhow::Result<Option<Vec<u8>>> {
    let (manifest, ..) = registry.manifest(&Version::Digest(referrer.digest.clone()))?;
    let is_about = manifest
        .subject
        .as_ref()
        .is_some_and(|it| it.digest == *subject);
    let layers = manifest.layers.as_deref().unwrap_or_default();
    let [layer] = layers else {
        return Ok(None);
    };
    if !is_about || !layer.media_type.starts_with(BUNDLE_PREFIX) {
        return Ok(None);
    }
    ensure!(
        layer.size <= MAX_BUNDLE,
        "a signature has {} bytes, more than {MAX_BUNDLE}",
        layer.size
    );
    registry.blob(&layer.digest, layer.size).map(Some)
}

/// Checks a locked package without a network.
///
/// One of `signers` must have signed the manifest; `None` accepts an unsigned package. The manifest
/// must name the component or layer.
///
/// # Errors
///
/// If a blob is missing, changed or not signed. The error says what to do.
pub fn verify_locked(
    locked: &LockedPackage,
    signers: Option<&[TrustedSigner]>,
    store: &Store,
) -> anyhow::Result<()> {
    ensure!(store.has(&locked.content), not_in_store(locked));
    verify(locked, signers, &|digest, max| {
        store
            .read(digest, max)?
            .with_context(|| not_in_store(locked))
    })
}

/// Checks a locked package, but not its content, by its manifest and bundle. `read` returns a blob,
/// given its digest and maximum size.
pub(crate) fn verify(
    locked: &LockedPackage,
    signers: Option<&[TrustedSigner]>,
    read: &dyn Fn(&Digest, u64) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<()> {
    let LockedPackage { kind, name, .. } = locked;
    if let Some(signers) = signers {
        let bundle = locked.bundle.as_ref().with_context(|| {
            format!(
                "the {kind} `{name}` is locked as unsigned, but a rule in `[trust]` asks for a \
                 signature; `skillhost update {name} --accept-signer` looks for one"
            )
        })?;
        verify_signer(locked, signers, &read(bundle, MAX_BUNDLE)?)?;
    }
    let manifest = Manifest::parse(&read(&locked.manifest, MAX_MANIFEST)?, None)?;
    let layer = manifest.layer(*kind)?;
    ensure!(
        layer.digest == locked.content,
        "the manifest of the {kind} `{name}` names other bytes than the lock file"
    );
    ensure!(
        layer.size == locked.size,
        "the manifest of the {kind} `{name}` says that it has {} bytes, but the lock file says {}",
        layer.size,
        locked.size
    );
    let is_same_version = match (kind, manifest.version()?) {
        // The component itself may have a version.
        (PackageKind::Component, None) => true,
        (_, version) => version == locked.version.as_deref(),
    };
    ensure!(
        is_same_version,
        "the manifest of the {kind} `{name}` has another version than the lock file; \
         `skillhost update {name}` locks it again"
    );
    Ok(())
}

/// Returns the version that a manifest in the store names.
///
/// # Errors
///
/// If the manifest is missing or damaged.
pub fn annotated_version(store: &Store, manifest: &Digest) -> anyhow::Result<Option<String>> {
    let manifest = read_manifest(store, manifest)?;
    Ok(manifest.version()?.map(str::to_owned))
}

/// Returns the digest of the component or layer that a manifest in the store names.
///
/// # Errors
///
/// If the manifest is missing or damaged, or of another kind.
pub fn named_content(
    store: &Store,
    kind: PackageKind,
    manifest: &Digest,
) -> anyhow::Result<Digest> {
    Ok(read_manifest(store, manifest)?.layer(kind)?.digest.clone())
}

/// Reads the files of the skill that a manifest in the store names. Compares them with no lock file.
///
/// # Errors
///
/// If the manifest or the layer is missing or damaged.
pub fn read_named_skill(store: &Store, manifest: &Digest) -> anyhow::Result<SkillFiles> {
    let manifest = read_manifest(store, manifest)?;
    let layer = manifest.layer(PackageKind::Skill)?;
    let bytes = store.read(&layer.digest, MAX_COMPONENT)?;
    layer::unpack(layer, &bytes.context("the layer is not in the store")?)
}

/// Returns the trusted signer that signed the manifest of a locked package.
///
/// Returns `None` if the bundle in the store is missing, damaged or signed by another signer.
pub fn verified_signer(
    locked: &LockedPackage,
    signers: &[TrustedSigner],
    store: &Store,
) -> Option<Signer> {
    let bundle = store.read(locked.bundle.as_ref()?, MAX_BUNDLE).ok()??;
    let mut found = signers
        .iter()
        .map(|it| it.verify(&bundle, &locked.manifest));
    found.find_map(Result::ok)
}

fn read_manifest(store: &Store, digest: &Digest) -> anyhow::Result<Manifest> {
    let bytes = store.read(digest, MAX_MANIFEST)?;
    Manifest::parse(&bytes.context("the manifest is not in the store")?, None)
}

/// Returns the message about a package that is not in the store.
fn not_in_store(locked: &LockedPackage) -> String {
    let LockedPackage { kind, name, .. } = locked;
    format!("the {kind} `{name}` is not in the store; `skillhost fetch` gets it")
}

/// Checks that the locked signer signed the manifest, and is one of `signers`.
fn verify_signer(
    locked: &LockedPackage,
    signers: &[TrustedSigner],
    bundle: &[u8],
) -> anyhow::Result<()> {
    let LockedPackage { kind, name, .. } = locked;
    let mut problems = Vec::new();
    for signer in signers {
        match signer.verify(bundle, &locked.manifest) {
            Ok(signer) => {
                ensure!(
                    locked.signer == signer,
                    "the lock file names another signer of the {kind} `{name}` than the one \
                     who signed it; `skillhost update {name}` locks it again"
                );
                return Ok(());
            }
            Err(error) => problems.push(format!("{error:#}")),
        }
    }
    bail!(
        "the signature of the {kind} `{name}` is not valid: {}",
        problems.join("; ")
    )
}
