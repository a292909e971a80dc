//! The component under test. Several hosts with different limits run it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::scratch::Scratch;
use super::tracer::Tracer;
use skillhost::{Definition, Grant, Host, HostBuilder, Limits, Principal, SkillsRoot, Trust};
use skillhost_sandbox::component;
use skillhost_skills::broker::Opener;

/// The component's file, and the options for the hosts that load the component.
#[derive(Default)]
pub(super) struct LoadOptions {
    pub(super) component: PathBuf,
    /// The folders of skills for the author's cases.
    pub(super) skills: Vec<SkillsRoot>,
    pub(super) limits: Limits,
    pub(super) cache: Option<PathBuf>,
    pub(super) compiler: Option<PathBuf>,
    pub(super) compile_time: Option<Duration>,
    pub(super) tracer: Option<Arc<Tracer>>,
}

/// The component under test, and the hosts that run it.
pub(super) struct TestedComponent {
    /// The host with the scratch skills and the limits of the run.
    pub(super) host: Host,
    /// Hosts with the scratch skills and one small limit each.
    pub(super) limited_hosts: Vec<LimitedHost>,
    /// The host with the skills of the author's cases.
    pub(super) case_host: Host,
}

/// A host with one small limit.
pub(super) struct LimitedHost {
    /// The name of the small limit, as in the audit log.
    pub(super) limit: &'static str,
    pub(super) host: Host,
}

/// The small limits on memory, in bytes. Most components cannot start with the smallest of them.
const SMALL_MEMORIES: [usize; 5] = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20];

impl TestedComponent {
    /// Loads the component.
    ///
    /// The inner error is the reason why the host refuses the component. The outer error means that
    /// the file cannot be read or a host cannot be built.
    pub(super) async fn load(
        options: &LoadOptions,
        scratch: &Scratch,
    ) -> anyhow::Result<Result<Self, String>> {
        // An unreadable file is an error of the run, not a failed check.
        component::read(&options.component, &Opener::DIRECT)?;
        let builder = |limits: Limits| {
            let mut builder = Host::builder()
                .without_embedded_tools()
                // The run gives the component no special rights, so anybody may be able to change
                // the component's file.
                .trust(Trust::new().and(Principal::Everyone))
                .component(&options.component)
                .limits(limits);
            if let Some(cache) = &options.cache {
                builder = builder.cache(cache);
            }
            if let Some(compiler) = &options.compiler {
                builder = builder.compiler(compiler);
            }
            if let Some(time) = options.compile_time {
                builder = builder.compile_time(time);
            }
            if let Some(tracer) = &options.tracer {
                builder = builder.observer(Arc::clone(tracer) as _);
            }
            builder
        };
        let loaded = builder(options.limits.clone()).build().await?;
        if loaded.tools().next().is_none()
            && let Some(problem) = loaded.problems().last()
        {
            return Ok(Err(problem.clone()));
        }
        let file_name = options.component.file_name().unwrap_or_default();
        let file_name = file_name.to_string_lossy();
        let build_with_grant = |builder: HostBuilder| {
            let all_skills = Grant::new().skills(["*"]).unwrap_or_default();
            builder
                .grant(file_name.as_ref(), all_skills)
                .rebuild(&loaded)
        };
        let scratch_host = |limits| build_with_grant(builder(limits).skills(scratch.skills()));
        let mut limited_hosts = Vec::new();
        for (limit, limits) in small_limits(&options.limits) {
            let host = scratch_host(limits).await?;
            limited_hosts.push(LimitedHost { limit, host });
        }
        let mut case_host = builder(options.limits.clone());
        for root in &options.skills {
            case_host = case_host.skills_root(root.clone());
        }
        Ok(Ok(Self {
            host: scratch_host(options.limits.clone()).await?,
            limited_hosts,
            case_host: build_with_grant(case_host).await?,
        }))
    }

    /// Asks the component for its definitions again, in a fresh sandbox.
    pub(super) async fn definitions(&self) -> anyhow::Result<Vec<Definition>> {
        let Some(tool) = self.tools().next() else {
            return Ok(Vec::new());
        };
        self.host.redefine(&tool.name).await
    }

    pub(super) fn tools(&self) -> impl Iterator<Item = &Definition> {
        self.host.tools()
    }
}

/// Returns copies of the run's limits, each with one small limit, and the name of that limit.
fn small_limits(limits: &Limits) -> Vec<(&'static str, Limits)> {
    let changed = |change: &dyn Fn(&mut Limits)| {
        let mut limits = limits.clone();
        change(&mut limits);
        limits
    };
    let memories = SMALL_MEMORIES.iter().map(|bytes| {
        let memory = changed(&|limits| limits.memory = limits.memory.min(*bytes));
        ("memory", memory)
    });
    let mut small = vec![
        (
            "time",
            changed(&|limits| limits.time = limits.time.min(Duration::from_millis(2))),
        ),
        ("output", changed(&|limits| limits.output = 64)),
        ("handles", changed(&|limits| limits.handles = 2)),
    ];
    small.extend(memories);
    small
}
