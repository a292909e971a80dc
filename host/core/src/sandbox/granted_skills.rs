//! The skills that a guest may list: those that its grant names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::skill::catalog::{Catalog, ScanStep, Skill};
use crate::tool::Stop;
use crate::tool::grant::Skills;
use crate::tool::limits::Limits;

/// The longest time that a scan runs before it lets others run. Guards against: a
/// catalog of a million folders, and a call that is past its deadline.
const MAX_STRETCH: Duration = Duration::from_millis(1);

/// A catalog, filtered by a grant.
#[derive(Clone, Default)]
pub(crate) struct GrantedSkills(Option<Arc<(Arc<Catalog>, Skills)>>);

impl GrantedSkills {
    pub(crate) fn new(catalog: Arc<Catalog>, granted: Skills) -> Self {
        Self(Some(Arc::new((catalog, granted))))
    }

    /// Lists the skills as they are now. They count towards the limits of the call
    /// that asks.
    pub(crate) async fn list(&self, limits: &Limits) -> Result<Vec<Skill>, Stop> {
        let Some((catalog, granted)) = self.0.as_deref() else {
            return Ok(Vec::new());
        };
        let mut scan = catalog.scan(|name| granted.allow(name));
        let (mut skills, mut bytes) = (Vec::new(), 0);
        let mut since = Instant::now();
        while let Some(step) = scan.step() {
            if let ScanStep::Skill(skill) = step {
                bytes += skill.name.len() + skill.description.len();
                if bytes > limits.memory {
                    return Err(Stop::Memory(limits.memory));
                }
                if skills.len() == limits.directory_entries {
                    return Err(Stop::DirectoryEntries(limits.directory_entries));
                }
                skills.push(skill);
            }
            if since.elapsed() >= MAX_STRETCH {
                tokio::task::yield_now().await;
                since = Instant::now();
            }
        }
        skills.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(skills)
    }
}
