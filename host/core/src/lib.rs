//! A sandboxed WebAssembly plugin host for agent skills.
//!
//! A *skill* is a folder with a SKILL.md and resource files. An agent reads
//! skills through *tools*; every tool is a WebAssembly component that runs in
//! a fresh sandbox per call, with the folder of the one skill that the call
//! names, read-only, and nothing else of the machine.
//!
//! ```
//! # fn main() -> anyhow::Result<()> {
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! use serde_json::json;
//! use skillhost::{CallError, Host};
//!
//! # let skills = concat!(env!("CARGO_MANIFEST_DIR"), "/../../skills");
//! let host = Host::builder().skills(skills).build().await?;
//!
//! // What to tell the model.
//! for definition in host.definitions() {
//!     println!("{}: {}", definition.name, definition.description);
//! }
//!
//! // What the model asked for.
//! let arguments = json!({"skill_name": "calculator", "file_path": "examples/basic.py"});
//! let output = host.call("read_file_in_skill", arguments).await?;
//! assert!(output.text().contains("def add"));
//!
//! // A tool that cannot answer says why, in words for the model.
//! let arguments = json!({"skill_name": "calculator", "file_path": "../weather/SKILL.md"});
//! let error = host.call("read_file_in_skill", arguments).await.unwrap_err();
//! assert!(matches!(error, CallError::Failed(_)));
//! assert_eq!(
//!     error.model_text(),
//!     "ERROR: Path traversal detected: cannot access files outside skill folder"
//! );
//! # anyhow::Ok(())
//! # })?;
//! # Ok(())
//! # }
//! ```
//!
//! The environment is never looked at: folders, limits and the cache are what
//! the [builder](Host::builder) is told.

#[cfg(not(target_os = "linux"))]
compile_error!("skillhost runs on Linux: its guard opens files through /proc and O_PATH");

// The layers, lowest first: a module uses those above it in this list, and no
// other. `cargo xtask layers` holds it.

mod text;

mod trust;

mod skill;

mod tool;

mod sandbox;

mod component;

pub mod config;

mod host;

pub mod exchange;

pub use component::compile::{COMPILE_ARGUMENT, Compilation, compile_component};
pub use component::embedded::SKILL_RESOURCES;
pub use component::inspect::{Import, Inspect, Inspection, StartSize, inspect};
pub use config::Config;
pub use host::resources::{
    Contents, Directory, DirectoryEntry, EntryKind, LeftOut, OverLimit, ResourceError, SkillFile,
    SkillFiles, SkillResources,
};
pub use host::{Host, HostBuilder};
pub use skill::catalog::{Catalog, Listing, Skill, SkillsRoot};
pub use skill::{check, frontmatter, prompt};
pub use text::line::{self, Line};
pub use tool::arguments::{MAX_ARGUMENTS, parse_arguments};
pub use tool::audit::AuditMode;
pub use tool::grant::{EffectiveGrant, Grant, PatternError};
pub use tool::limits::{Limits, Load};
pub use tool::observer::{CallEnd, Observer, Occupancy};
pub use tool::{CallError, Definition, Failure, FailureKind, FolderRule, Form, Output, Stop};
pub use tool::{limits, message};
pub use trust::{Principal, Trust, TrustError};

/// What the other crates of this project share with this one. Nothing here is a
/// promise to anybody else.
#[doc(hidden)]
pub mod internal {
    pub use crate::component::digest as sha256_hex;
    pub use crate::component::read as read_component;
    pub use crate::text::suggest::nearest;
    pub use crate::tool::arguments::{check_arguments, validator};
    pub use crate::tool::observer::kind;
}
