//! The component under test, loaded once and run under several sets of limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::scratch::Scratch;
use super::tracer::Tracer;
use skillhost::internal::read_component;
use skillhost::{Definition, Grant, Host, HostBuilder, Limits, Principal, SkillsRoot, Trust};

/// The component's file, and the options of the hosts that load it.
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

/// The component, and hosts that run it.
pub(super) struct TestedComponent {
    /// The host on the scratch skills, with the run's limits.
    pub(super) host: Host,
    /// The same with one small limit each.
    pub(super) limited: Vec<LimitedHost>,
    /// The host on the skills of the author's cases.
    pub(super) authors: Host,
}

/// A host with one small limit.
pub(super) struct LimitedHost {
    /// The word for a call that this limit stops.
    pub(super) stop: &'static str,
    pub(super) host: Host,
}

/// Sizes of memory to try: from less than a component starts with, upwards.
const MEMORIES: [usize; 5] = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20];

impl TestedComponent {
    /// Loads the component. The inner error is the host's reason to refuse it.
    pub(super) async fn load(
        options: &LoadOptions,
        scratch: &Scratch,
    ) -> anyhow::Result<Result<Self, String>> {
        // A file that cannot be read is an error of the run, not a failed check.
        read_component(&options.component)?;
        let builder = |limits: Limits| {
            let mut builder = Host::builder()
                .without_embedded_tools()
                // The component has no power here, so anybody may change its file.
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
        let file = options.component.file_name().unwrap_or_default();
        let file = file.to_string_lossy();
        let granted = |builder: HostBuilder| {
            let all = Grant::new().skills(["*"]).unwrap_or_default();
            builder.grant(file.as_ref(), all).rebuild(&loaded)
        };
        let on_scratch = |limits| granted(builder(limits).skills(scratch.skills()));
        let mut limited = Vec::new();
        for (stop, limits) in small_limits(&options.limits) {
            let host = on_scratch(limits).await?;
            limited.push(LimitedHost { stop, host });
        }
        let mut authors = builder(options.limits.clone());
        for root in &options.skills {
            authors = authors.skills_root(root.clone());
        }
        Ok(Ok(Self {
            host: on_scratch(options.limits.clone()).await?,
            limited,
            authors: granted(authors).await?,
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

/// Returns the run's limits, each time with one of them small.
fn small_limits(limits: &Limits) -> Vec<(&'static str, Limits)> {
    let with = |change: &dyn Fn(&mut Limits)| {
        let mut limits = limits.clone();
        change(&mut limits);
        limits
    };
    let memories = MEMORIES.iter().map(|bytes| {
        let memory = with(&|limits| limits.memory = limits.memory.min(*bytes));
        ("memory", memory)
    });
    let mut small = vec![
        (
            "time",
            with(&|limits| limits.time = limits.time.min(Duration::from_millis(2))),
        ),
        ("output", with(&|limits| limits.output = 64)),
        ("handles", with(&|limits| limits.handles = 2)),
    ];
    small.extend(memories);
    small
}
