//! `skillhost push`: pushes a component or a skill to a registry, signs it, and moves the tag last.
//!
//! - `imports`: imports that a component does not use.
//! - `review`: objections of registries, clients and operators, for `--dry-run`.
//! - `skill`: pushes a skill.

mod imports;

mod review;

mod skill;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::json;
use skillhost::{ComponentMetadata, Inspection};
use skillhost_packages::{PushedPackage, Reference, Registry, SigningKey, push};
use skillhost_program::exit::Exit;
use skillhost_program::inspect::inspector;
use skillhost_program::options::{CommonOptions, ReportFormat};
use skillhost_program::registry::RegistryArguments;
use skillhost_program::terminal::{self, format_line};
use skillhost_skills::named_file;
use skillhost_skills::text::digest::sha256_hex;

use crate::test::find_built_component;

/// The maximum size of a component file, in bytes. A registry may refuse smaller files too.
const MAX_COMPONENT: u64 = 64 << 20;

/// Push a component or a skill to a registry, sign it, and move the tag last
#[derive(Args)]
pub(crate) struct PushCommand {
    /// Package with a tag, such as oci://registry.example/acme/csv:1.2
    #[arg(value_name = "REF")]
    reference: String,
    /// Component file, or folder of a skill [default: the only component in
    /// ./dist]
    #[arg(value_name = "FILE.wasm|FOLDER")]
    component: Option<PathBuf>,
    /// Sign with this P-256 private key: PKCS#8 in PEM, of mode 0600
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Push nothing: list what a registry, a client or an operator would object to
    #[arg(long)]
    dry_run: bool,
    /// Form of the list of `--dry-run`
    #[arg(long, value_enum, default_value_t = ReportFormat::Text, requires = "dry_run")]
    output: ReportFormat,
    #[command(flatten)]
    registry: RegistryArguments,
    #[command(flatten)]
    options: CommonOptions,
}

impl PushCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let reference: Reference = match self.reference.parse() {
            Ok(reference) => reference,
            Err(error) => {
                terminal::complain(format_args!("{error:#}"));
                return Ok(Exit::Usage);
            }
        };
        let component = match self.component.map_or_else(find_built_component, Ok) {
            Ok(component) => component,
            Err(error) => {
                terminal::complain(error);
                return Ok(Exit::Usage);
            }
        };
        let trust = options.trust_settings();
        let key = self
            .key
            .map(|key| SigningKey::read(&key, &trust))
            .transpose()?;
        if component.is_dir() && self.dry_run {
            terminal::complain("`--dry-run` reviews a component; `skillhost check` checks a skill");
            return Ok(Exit::Usage);
        }
        let mut registry = Registry::new(&reference, &self.registry.settings(&trust)?)?.for_push();
        if component.is_dir() {
            let pushed = skill::push(&mut registry, &reference, &component, key.as_ref())?;
            print(&reference, "files", &pushed)?;
            return Ok(Exit::Ok);
        }
        let inspection = inspector(&component).run().await?;
        if self.dry_run {
            let findings = review::review(&reference, key.is_some(), &component, &inspection)?;
            return review::print(&reference, &component, &findings, self.output);
        }
        if let Err(why) = &inspection.tools {
            bail!("`{}` would be refused: {why}", component.display());
        }
        let bytes = named_file::read(&component, MAX_COMPONENT)
            .with_context(|| format!("cannot read `{}`", component.display()))?;
        ensure!(
            sha256_hex(&bytes) == inspection.digest,
            "`{}` changed while it was read; run the command again",
            component.display()
        );
        let title = component.file_name().unwrap_or_default().to_string_lossy();
        let imports = inspection.imports.iter().map(|import| &import.name);
        let interfaces = json!({
            "exports": inspection.interface.iter().collect::<Vec<_>>(),
            "imports": imports.collect::<Vec<_>>(),
        });
        let pushed = push(
            &mut registry,
            &reference,
            &bytes,
            &title,
            annotations(&inspection),
            &interfaces,
            key.as_ref(),
        );
        let pushed = registry.explain_deadline(pushed);
        let pushed = pushed.with_context(|| format!("cannot push `{reference}`"))?;
        print(&reference, "component", &pushed)?;
        Ok(Exit::Ok)
    }
}

/// Prints the pushed package. `content` names the kind of its content.
fn print(reference: &Reference, content: &str, pushed: &PushedPackage) -> anyhow::Result<()> {
    let signer = match &pushed.signer {
        Some(key) => format_line!("signer: the key {key}"),
        None => format_line!("signer: unsigned (`--key FILE` signs)"),
    };
    terminal::print(&[
        format_line!("pushed {reference}"),
        format_line!("manifest: {}", pushed.manifest),
        format_line!("{content}: {}", pushed.content),
        signer,
    ])
}

/// Returns a component's metadata as annotations.
fn annotations(inspection: &Inspection) -> BTreeMap<String, String> {
    let metadata: &ComponentMetadata = &inspection.metadata;
    [
        ("title", &metadata.name),
        ("version", &metadata.version),
        ("description", &metadata.description),
        ("authors", &metadata.authors),
        ("licenses", &metadata.licenses),
        ("source", &metadata.source),
    ]
    .into_iter()
    .filter_map(|(key, text)| {
        let key = format!("org.opencontainers.image.{key}");
        Some((key, text.clone()?))
    })
    .collect()
}
