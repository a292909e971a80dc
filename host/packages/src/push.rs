//! Pushes a component or a skill: its blobs, its manifest by digest, its signature, and the tag last.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::client::{Registry, fallback_tag};
use crate::digest::Digest;
use crate::layer;
use crate::manifest::{
    Descriptor, EMPTY, MAX_COMPONENT, Manifest, OCI_INDEX, OCI_MANIFEST, SKILL_LAYER, WASM_LAYER,
};
use crate::reference::{Reference, Version};
use crate::signature::{BUNDLE, PREDICATE_TYPE_ANNOTATION, SigningKey};
use crate::skill_files::{SkillFiles, SkillMetadata};
use crate::statement::PREDICATE_TYPE;

/// The media type of a component's config.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// The media type of a skill's config. It is that of a container image, so that Kubernetes can mount
/// a skill as a volume.
const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// The type of a skill's manifest, and the prefix of its annotations and labels, as ToolHive writes
/// them.
const SKILL_TYPE: &str = "dev.toolhive.skills.v1";
const SKILL_KEYS: &str = "dev.toolhive.skills";

/// The time in configs and manifests. It is fixed, so that the same package has the same digest.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// The annotation with the name of a layer's file.
const TITLE: &str = "org.opencontainers.image.title";

/// The maximum number of attempts to add a signature to a fallback tag that others change too.
const ATTEMPTS: usize = 5;

/// A pushed component or skill.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PushedPackage {
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component, or of the layer with the skill's files.
    pub content: Digest,
    /// The id of the key that signed it.
    pub signer: Option<String>,
}

/// The parts of a package to push.
struct Parts<'p> {
    layer: Descriptor,
    content: &'p [u8],
    config_type: &'static str,
    config: Value,
    artifact_type: Option<String>,
    annotations: BTreeMap<String, String>,
}

/// Pushes a component.
///
/// `title` is the name of its file, `annotations` are those of its manifest, and `interfaces` are its
/// exports and imports, for the config.
///
/// # Errors
///
/// If the registry refuses a part, or does not have it afterwards. The tag moves last, so it never
/// names an incomplete package.
pub fn push(
    registry: &mut Registry,
    reference: &Reference,
    component: &[u8],
    title: &str,
    annotations: BTreeMap<String, String>,
    interfaces: &Value,
    key: Option<&SigningKey>,
) -> anyhow::Result<PushedPackage> {
    let mut layer = Descriptor::of(WASM_LAYER, component);
    layer.annotations.insert(TITLE.to_owned(), title.to_owned());
    let config = json!({
        "created": CREATED,
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [layer.digest.to_string()],
        "component": interfaces,
    });
    let parts = Parts {
        layer,
        content: component,
        config_type: CONFIG,
        config,
        artifact_type: None,
        annotations,
    };
    push_parts(registry, reference, parts, key)
}

/// Pushes a skill. The same files give the same package.
///
/// # Errors
///
/// As for a component, and if `skillhost add` would refuse the skill.
pub fn push_skill(
    registry: &mut Registry,
    reference: &Reference,
    files: &SkillFiles,
    key: Option<&SigningKey>,
) -> anyhow::Result<PushedPackage> {
    let archive = layer::pack(files)?;
    let content = layer::compress(&archive)?;
    let layer = Descriptor::of(SKILL_LAYER, &content);
    let unpacked = layer::unpack(&layer, &content);
    ensure!(
        unpacked.context("the skill could not be added")? == *files,
        "the skill's files would differ after `skillhost add`"
    );
    let metadata = SkillMetadata::of(files);
    let paths: Vec<&str> = files.iter().map(|(path, _)| path).collect();
    let key_of = |name: &str| format!("{SKILL_KEYS}.{name}");
    let mut annotations: BTreeMap<String, String> = [
        ("name", &metadata.name),
        ("description", &metadata.description),
        ("version", &metadata.version),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some((key_of(name), text.clone()?)))
    .collect();
    let mut labels = annotations.clone();
    let tools = serde_json::to_string(&metadata.allowed_tools)?;
    labels.insert(key_of("allowedTools"), tools);
    labels.insert(key_of("files"), serde_json::to_string(&paths)?);
    labels.extend(metadata.license.clone().map(|it| (key_of("license"), it)));
    annotations.insert(
        "org.opencontainers.image.created".to_owned(),
        CREATED.to_owned(),
    );
    for (name, text) in [
        ("title", metadata.name),
        ("description", metadata.description),
        ("version", metadata.version),
        ("licenses", metadata.license),
    ] {
        let name = format!("org.opencontainers.image.{name}");
        annotations.extend(text.map(|text| (name, text)));
    }
    let parts = Parts {
        layer,
        content: &content,
        config_type: IMAGE_CONFIG,
        // Files have no architecture, but an image must have one.
        config: json!({
            "created": CREATED,
            "architecture": "amd64",
            "os": "linux",
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [Digest::of(&archive).to_string()]},
            "history": [{"created": CREATED, "created_by": "skillhost push"}],
        }),
        artifact_type: Some(SKILL_TYPE.to_owned()),
        annotations,
    };
    push_parts(registry, reference, parts, key)
}

fn push_parts(
    registry: &mut Registry,
    reference: &Reference,
    parts: Parts<'_>,
    key: Option<&SigningKey>,
) -> anyhow::Result<PushedPackage> {
    let Parts { layer, content, .. } = parts;
    let tag = reference.tag().context(
        "cannot push to a digest, because it follows from the content; name a tag, such as `:1.2`",
    )?;
    ensure!(
        layer.size <= MAX_COMPONENT,
        "the package has {} bytes, more than {MAX_COMPONENT}",
        layer.size
    );
    let config = serde_json::to_vec(&parts.config)?;
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(OCI_MANIFEST.to_owned()),
        artifact_type: parts.artifact_type,
        config: Some(Descriptor::of(parts.config_type, &config)),
        layers: Some(vec![layer.clone()]),
        annotations: parts.annotations,
        ..Manifest::default()
    };
    let manifest = serde_json::to_vec(&manifest)?;
    let digest = Digest::of(&manifest);
    registry.put_blob(content)?;
    registry.put_blob(&config)?;
    let version = Version::Digest(digest.clone());
    registry.put_manifest(&version, OCI_MANIFEST, &manifest)?;
    let subject = Descriptor::of(OCI_MANIFEST, &manifest);
    if let Some(key) = key {
        sign(registry, subject, key)?;
    }
    // Reads the package like a pull. The tag moves only if the bytes are right.
    registry
        .manifest(&version)
        .context("cannot read back the manifest")?;
    let read = registry.blob(&layer.digest, layer.size);
    read.context("cannot read back the content")?;
    registry.put_manifest(&Version::Tag(tag.to_owned()), OCI_MANIFEST, &manifest)?;
    Ok(PushedPackage {
        manifest: digest,
        content: layer.digest,
        signer: key.map(|key| key.public().id()),
    })
}

/// Signs a manifest, and pushes the signature as another manifest about it.
fn sign(registry: &mut Registry, subject: Descriptor, key: &SigningKey) -> anyhow::Result<()> {
    let bundle = key.sign(&subject.digest)?;
    let signed = subject.digest.clone();
    let annotations = BTreeMap::from([
        (
            "dev.sigstore.bundle.content".to_owned(),
            "dsse-envelope".to_owned(),
        ),
        (
            PREDICATE_TYPE_ANNOTATION.to_owned(),
            PREDICATE_TYPE.to_owned(),
        ),
    ]);
    let referrer = Manifest {
        schema_version: 2,
        media_type: Some(OCI_MANIFEST.to_owned()),
        artifact_type: Some(BUNDLE.to_owned()),
        config: Some(Descriptor::of(EMPTY, b"{}")),
        layers: Some(vec![Descriptor::of(BUNDLE, &bundle)]),
        subject: Some(subject),
        annotations: annotations.clone(),
        ..Manifest::default()
    };
    let referrer = serde_json::to_vec(&referrer)?;
    registry.put_blob(b"{}")?;
    registry.put_blob(&bundle)?;
    let version = Version::Digest(Digest::of(&referrer));
    registry.put_manifest(&version, OCI_MANIFEST, &referrer)?;
    if !registry.has_referrers_api(&signed)? {
        let mut descriptor = Descriptor::of(OCI_MANIFEST, &referrer);
        descriptor.artifact_type = Some(BUNDLE.to_owned());
        descriptor.annotations = annotations;
        add_to_fallback_tag(registry, &signed, descriptor)?;
    }
    let listed = registry
        .referrers(&signed)?
        .and_then(|index| index.manifests);
    let listed = listed.unwrap_or_default();
    ensure!(
        listed.iter().any(|it| it.digest == Digest::of(&referrer)),
        "the registry does not list the signature; the tag is not moved"
    );
    Ok(())
}

/// Adds a signature to the index under a manifest's fallback tag.
///
/// Reads the index back, because another signer can replace it at the same time.
fn add_to_fallback_tag(
    registry: &mut Registry,
    subject: &Digest,
    referrer: Descriptor,
) -> anyhow::Result<()> {
    let tag = Version::Tag(fallback_tag(subject));
    for _ in 0..ATTEMPTS {
        let found = registry.find_manifest(&tag)?;
        let manifests = found.and_then(|(manifest, ..)| manifest.manifests);
        let mut manifests = manifests.unwrap_or_default();
        if manifests.iter().any(|it| it.digest == referrer.digest) {
            return Ok(());
        }
        manifests.push(referrer.clone());
        let index = Manifest {
            schema_version: 2,
            media_type: Some(OCI_INDEX.to_owned()),
            manifests: Some(manifests),
            ..Manifest::default()
        };
        registry.put_manifest(&tag, OCI_INDEX, &serde_json::to_vec(&index)?)?;
    }
    let found = registry.find_manifest(&tag)?;
    let manifests = found.and_then(|(manifest, ..)| manifest.manifests);
    if manifests
        .unwrap_or_default()
        .iter()
        .any(|it| it.digest == referrer.digest)
    {
        return Ok(());
    }
    bail!("other signers change the list of signatures at the same time; push again")
}
