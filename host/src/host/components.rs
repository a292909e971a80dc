//! The components of a host, as they are loaded one after the other. What an
//! earlier host had of the same content is taken over and not loaded again.

use std::sync::Arc;

use anyhow::bail;

use crate::component::{Loader, Tool, digest};

/// A component, and the tools that it defines.
#[derive(Clone)]
pub(crate) struct Loaded {
    /// Where it is from, for the operator.
    origin: String,
    /// SHA-256 of its bytes, in hex.
    digest: String,
    /// Whether it is one that comes with the host.
    pub(crate) own: bool,
    pub(crate) tools: Vec<Arc<Tool>>,
}

/// Components being loaded.
pub(crate) struct Components<'a> {
    pub(crate) loader: Loader<'a>,
    /// What the host had that is being replaced.
    pub(crate) earlier: &'a [Loaded],
    pub(crate) loaded: Vec<Loaded>,
}

impl Components<'_> {
    /// Adds a component. The error names it; nothing was added then.
    pub(crate) async fn add(
        &mut self,
        origin: &str,
        bytes: &[u8],
        own: bool,
    ) -> anyhow::Result<()> {
        let digest = digest(bytes);
        let same = |earlier: &&Loaded| {
            earlier.origin == origin && earlier.digest == digest && earlier.own == own
        };
        let component = match self.earlier.iter().find(same) {
            Some(unchanged) => unchanged.clone(),
            None => {
                let tools = self.loader.load(origin, bytes, own).await?;
                Loaded {
                    origin: origin.to_owned(),
                    digest,
                    own,
                    tools: tools.into_iter().map(Arc::new).collect(),
                }
            }
        };
        self.push(component)
    }

    /// Adds a component as the earlier host had it, if it did.
    pub(crate) fn keep(&mut self, origin: &str) -> bool {
        let mut earlier = self.earlier.iter();
        let kept = earlier.find(|earlier| earlier.origin == origin && !earlier.own);
        kept.is_some_and(|kept| self.push(kept.clone()).is_ok())
    }

    /// Refuses a component that gives a name that is taken: which of the two
    /// an agent would call must not depend on the order of files.
    fn push(&mut self, component: Loaded) -> anyhow::Result<()> {
        for (index, tool) in component.tools.iter().enumerate() {
            let name = &tool.definition.name;
            let mut before = tools_of(&self.loaded).chain(&component.tools[..index]);
            if let Some(other) = before.find(|other| other.definition.name == *name) {
                bail!(
                    "cannot load the tool component `{}`: it defines the tool `{name}`, which `{}` has already defined",
                    tool.origin,
                    other.origin
                );
            }
        }
        self.loaded.push(component);
        Ok(())
    }
}

/// The tools of components, in their order.
pub(crate) fn tools_of(components: &[Loaded]) -> impl Iterator<Item = &Arc<Tool>> {
    components.iter().flat_map(|component| &component.tools)
}
