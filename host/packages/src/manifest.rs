//! Manifests of packages. Each describes one component or skill, or is an image index.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::quote::{quote, quote_error};
use crate::version::MAX_VERSION;

/// The media type of an OCI manifest.
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of an OCI image index.
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The media type of Docker's manifest.
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// The media type of Docker's index.
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// The media type of an empty config, whose bytes are `{}`.
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The header `Accept` of requests for manifests.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
     application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// The media types of a component.
const WASM: [&str; 2] = [WASM_LAYER, "application/vnd.wasm.content.layer.v1+wasm"];

/// The media type of a pushed component.
pub(crate) const WASM_LAYER: &str = "application/wasm";

/// The media types of a layer with the files of a skill: a tar archive, plain or in gzip.
const SKILL: [&str; 3] = [
    SKILL_LAYER,
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    PLAIN_SKILL_LAYER,
];

/// The media type of a pushed skill.
pub(crate) const SKILL_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The media type of an uncompressed layer with the files of a skill.
pub(crate) const PLAIN_SKILL_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// The annotation with the version of the package.
const VERSION: &str = "org.opencontainers.image.version";

/// The maximum size of a manifest, in bytes. Guards against: a registry that fills the memory.
///
/// The manifest of a component has less than 2 KiB.
pub(crate) const MAX_MANIFEST: u64 = 1 << 20;

/// The maximum size of a component or a layer, in bytes. Hosts load no larger component.
pub(crate) const MAX_COMPONENT: u64 = 64 << 20;

/// The kind of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageKind {
    /// A component: WebAssembly with tools.
    Component,
    /// A skill: files, with a SKILL.md.
    Skill,
}

impl fmt::Display for PackageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Component => "component",
            Self::Skill => "skill",
        })
    }
}

/// A manifest or an image index.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) layers: Option<Vec<Descriptor>>,
    /// The manifests of an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) manifests: Option<Vec<Descriptor>>,
    /// The manifest that this manifest describes or signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// A reference from a manifest to other bytes of the same repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The platform of a manifest in an index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    architecture: String,
}

impl Descriptor {
    /// Returns the descriptor of bytes.
    pub(crate) fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            artifact_type: None,
            platform: None,
            annotations: BTreeMap::new(),
        }
    }
}

impl Manifest {
    /// Parses a manifest. `media_type` is the content type of the response.
    pub(crate) fn parse(bytes: &[u8], media_type: Option<&str>) -> anyhow::Result<Self> {
        let manifest: Self = serde_json::from_slice(bytes)
            .map_err(quote_error)
            .context("the manifest is invalid")?;
        ensure!(
            manifest.schema_version == 2,
            "the manifest has the schema version {}, but only 2 is supported",
            manifest.schema_version
        );
        if let (Some(declared), Some(served)) = (&manifest.media_type, media_type)
            && declared != served
        {
            bail!(
                "the manifest says that it is `{}`, but the registry says that it is `{}`",
                quote(declared),
                quote(served)
            );
        }
        let media_type = manifest.media_type.as_deref().or(media_type);
        let media_type = media_type.unwrap_or(OCI_MANIFEST);
        match media_type {
            OCI_MANIFEST | DOCKER_MANIFEST => ensure!(
                manifest.manifests.is_none() && manifest.layers.is_some(),
                "the manifest has no layers, or is an index too"
            ),
            OCI_INDEX | DOCKER_INDEX => ensure!(
                manifest.layers.is_none() && manifest.manifests.is_some(),
                "the index has no manifests, or is a manifest too"
            ),
            other => bail!("`{}` is not a kind of manifest", quote(other)),
        }
        Ok(manifest)
    }

    /// Returns the package's only layer, which must be of this kind.
    pub(crate) fn layer(&self, kind: PackageKind) -> anyhow::Result<&Descriptor> {
        let layers = self.layers.as_deref().unwrap_or_default();
        let [layer] = layers else {
            bail!(
                "the package has {} layers, but a {kind} has one",
                layers.len()
            );
        };
        let types: &[&str] = match kind {
            PackageKind::Component => &WASM,
            PackageKind::Skill => &SKILL,
        };
        ensure!(
            types.contains(&&*layer.media_type),
            "the package is `{}`, not a {kind} (`{}`)",
            quote(&layer.media_type),
            types[0]
        );
        ensure!(
            layer.size <= MAX_COMPONENT,
            "the {kind} has {} bytes, more than {MAX_COMPONENT}",
            layer.size
        );
        Ok(layer)
    }

    /// Returns the version of the package, if the manifest has one.
    pub(crate) fn version(&self) -> anyhow::Result<Option<&str>> {
        let version = self.annotations.get(VERSION).map(String::as_str);
        if let Some(version) = version {
            ensure!(
                version.len() <= MAX_VERSION,
                "the version of the package has {} bytes, more than {MAX_VERSION}",
                version.len()
            );
        }
        Ok(version)
    }

    /// Returns the manifest to use from an index, or `None` if `self` is not an index.
    ///
    /// An index of a skill lists a manifest for each platform, all with the same layer.
    pub(crate) fn choose(&self, kind: PackageKind) -> anyhow::Result<Option<&Descriptor>> {
        let Some(manifests) = &self.manifests else {
            return Ok(None);
        };
        if kind == PackageKind::Skill {
            let first = manifests.first();
            return Ok(Some(first.context("the index lists no manifest")?));
        }
        let is_wasm = |it: &&Descriptor| {
            it.platform
                .as_ref()
                .is_some_and(|it| it.architecture == "wasm")
        };
        let mut wasm = manifests.iter().filter(is_wasm);
        match (wasm.next(), wasm.next(), &manifests[..]) {
            (Some(only), None, _) => Ok(Some(only)),
            (None, _, [only]) if only.platform.is_none() => Ok(Some(only)),
            (None, ..) => bail!("the index lists no manifest for the architecture `wasm`"),
            (Some(_), ..) => bail!(
                "the index lists several manifests for the architecture `wasm`; name one by digest"
            ),
        }
    }
}
