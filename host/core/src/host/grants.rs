//! The operator's view of a host's tools: the effective grant of each tool, and disabled tools.

use skillhost_egress::NetworkGrant;
use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
use skillhost_sandbox::component::needs::DeclaredNeeds;
use skillhost_sandbox::tool::grant::FolderAccess;
use skillhost_sandbox::tool::limits::Limits;
use skillhost_sandbox::tool::offer::DescriptionSource;
use skillhost_skills::guard::HardLinks;

use super::components::tools_of;
use super::{Host, ServedTool};

/// The rights and limits of a tool, with all defaults filled in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EffectiveGrant {
    /// The tool's name.
    pub tool: String,
    /// The component that defines it.
    pub origin: String,
    /// The SHA-256 of that component, in hex.
    pub digest: String,
    /// The granted names and patterns of skills.
    pub skills: String,
    /// The skills of the catalog that the tool may read.
    pub allowed: Vec<String>,
    /// The skills of the catalog that the tool may not read.
    pub refused: Vec<String>,
    /// True if calls that name no skill may read the home folder.
    pub home: bool,
    /// True if files with several hard links may be read.
    pub hard_links: bool,
    /// The granted patterns of scripts.
    pub scripts: String,
    /// The access of calls to their folder.
    pub view: FolderAccess,
    /// The HTTP requests that calls may send.
    pub network: NetworkGrant,
    /// The limits of a call.
    pub limits: Limits,
    /// The source of the description that agents see.
    pub description: DescriptionSource,
}

impl Host {
    /// Returns the effective grant of each tool.
    pub fn grants(&self) -> Vec<EffectiveGrant> {
        let names = self.0.catalog.names();
        let grant = |served: &ServedTool| {
            let ServedTool { tool, terms, .. } = served;
            let description = served.description.as_ref();
            let (allowed, refused) = names
                .iter()
                .cloned()
                .partition(|name| terms.skills.allow(name));
            EffectiveGrant {
                tool: tool.definition.name.clone(),
                origin: tool.component.origin.clone(),
                digest: tool.component.digest.clone(),
                skills: terms.skills.to_string(),
                allowed,
                refused,
                home: terms.home,
                hard_links: terms.hard_links == HardLinks::Allowed,
                scripts: terms.scripts.to_string(),
                view: terms.view,
                network: NetworkGrant::clone(&terms.network),
                limits: terms.limits.clone(),
                description: description.map_or(DescriptionSource::Component, |given| given.source),
            }
        };
        let mut grants: Vec<_> = self.0.tools.iter().map(grant).collect();
        grants.extend(self.0.resources.as_ref().map(|resources| {
            let mut grant = grant(&resources.tool);
            grant.limits.output = resources.max_bytes;
            grant
        }));
        grants
    }

    /// Reads the needs that the component of a tool declares. Needs grant nothing.
    ///
    /// # Errors
    ///
    /// Fails if there is no such tool, or its component's file cannot be read or has changed.
    pub fn needs(&self, tool: &str) -> anyhow::Result<DeclaredNeeds> {
        if let Some(resources) = &self.0.resources
            && tool == SKILL_RESOURCES
        {
            return resources.tool.tool.component.needs();
        }
        self.tool(tool)?.tool.component.needs()
    }

    /// Returns the number of the line in the consent file that lets a component send requests to an
    /// origin. `digest` identifies the component. Returns `None` if there is no such line, or the
    /// file cannot be read.
    pub fn consent_line(&self, digest: &str, origin: &str) -> Option<usize> {
        let file = self.0.consent.file.as_ref()?;
        file.find(digest, origin).ok().flatten()
    }

    /// Returns whether a component defines this tool, but the host does not serve it.
    pub fn leaves_out(&self, tool: &str) -> bool {
        let mut known = tools_of(&self.0.components).map(|tool| &tool.definition.name);
        tool != SKILL_RESOURCES && self.tool(tool).is_err() && known.any(|name| name == tool)
    }
}
