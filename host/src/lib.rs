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
//! # let skills = concat!(env!("CARGO_MANIFEST_DIR"), "/../skills");
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

mod arguments;
mod audit;
mod cache;
mod catalog;
pub mod check;
mod compile;
mod component;
pub mod config;
pub mod conformance;
mod descriptors;
mod embedded;
mod engine;
pub mod exchange;
pub mod frontmatter;
mod grant;
mod guard;
mod host;
mod inspect;
mod json_string;
mod known;
pub mod limits;
pub mod line;
pub mod message;
mod observer;
pub mod prompt;
mod record;
mod resources;
mod sandbox;
pub mod server;
mod skill_md;
mod suggest;
mod tool;
mod trust;
mod typed;
mod versions;
mod wasi;

#[doc(hidden)]
pub use arguments::check_arguments;
pub use arguments::{MAX_ARGUMENTS, parse_arguments};
pub use audit::AuditMode;
pub use catalog::{Catalog, Listing, Skill, SkillsRoot};
pub use compile::{COMPILE_ARGUMENT, compile_component};
pub use config::Config;
pub use grant::{EffectiveGrant, Grant, PatternError};
pub use host::{Compilation, Host, HostBuilder, SKILL_RESOURCES};
pub use inspect::{Import, Inspect, Inspection, Start, inspect};
pub use limits::{Limits, Load};
pub use line::Line;
pub use observer::{CallEnd, Observer, Occupancy};
pub use resources::{
    Contents, Directory, DirectoryEntry, EntryKind, LeftOut, OverLimit, ResourceError, SkillFile,
    SkillFiles, SkillResources,
};
pub use tool::{CallError, Definition, Failure, FailureKind, FolderRule, Form, Output, Stop};
pub use trust::{Principal, Trust, Untrusted};
