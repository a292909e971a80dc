//! The tables `[grants]` and `[pins]`: the powers and digests of components.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use serde::Deserialize;
use serde::de::IgnoredAny;

use skillhost_sandbox::component::embedded;
use skillhost_sandbox::tool::grant::{FolderAccess, Grant, PatternError};
use skillhost_sandbox::tool::limits::Limits;
use skillhost_skills::text::suggest;

/// The raw keys of a grant.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "expected a `[grants.NAME]` table")]
pub(super) struct RawGrant {
    skills: Option<Vec<String>>,
    home: Option<bool>,
    hard_links: Option<bool>,
    view: RawView,
    #[serde(rename = "limits")]
    _limits: IgnoredAny,
    environment: BTreeMap<String, String>,
    scripts: Vec<String>,
}

/// The raw value of `view`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum RawView {
    #[default]
    ReadOnly,
    CopyOnWrite,
}

impl RawGrant {
    pub(super) fn grant(self, limits: Limits) -> Result<Grant, PatternError> {
        let mut grant = Grant::new().limits(limits);
        if let Some(skills) = self.skills {
            grant = grant.skills(skills)?;
        }
        if let Some(allowed) = self.home {
            grant = grant.home(allowed);
        }
        if let Some(allowed) = self.hard_links {
            grant = grant.hard_links(allowed);
        }
        grant = grant.scripts(self.scripts)?;
        if let RawView::CopyOnWrite = self.view {
            grant = grant.view(FolderAccess::CopyOnWrite);
        }
        for (name, value) in self.environment {
            grant = grant.environment(name, value);
        }
        Ok(grant)
    }
}

/// Refuses a grant that names neither a component file nor a built-in tool: any component
/// that defines a tool of that name would have it.
pub(super) fn check_name(name: &str) -> anyhow::Result<()> {
    if is_component(name) || embedded::names().any(|tool| tool == name) {
        return Ok(());
    }
    let shown = name.escape_debug();
    let nearest = suggest::nearest(name, embedded::names())
        .into_iter()
        .take(1);
    bail!(
        "`[grants.{shown}]` names no built-in tool{}; for another tool, name its component file, \
         such as `[grants.\"{shown}.wasm\"]`: the grant covers all of its tools",
        suggest::did_you_mean(nearest, '`')
    )
}

/// Refuses an invalid pin.
pub(super) fn check_pin(file: &str, pin: &str) -> anyhow::Result<()> {
    if !is_component(file) {
        bail!("a pin names a component file, such as `count_lines.wasm`");
    }
    if pin.len() != 64 || !pin.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        bail!("a pin is a SHA-256, 64 digits in hex");
    }
    Ok(())
}

/// Returns whether a component file can have this name.
fn is_component(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "wasm") && !name.contains('/')
}
