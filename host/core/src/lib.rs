//! A sandboxed WebAssembly plugin host for agent skills.
//!
//! A *skill* is a folder with a SKILL.md and resource files. An agent reads skills through *tools*.
//! Every tool is a WebAssembly component, and each call runs in a fresh sandbox. A call sees only
//! the folder of the skill that it names, read-only, and nothing else of the machine.
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
//! // The tools to offer to the model.
//! for definition in host.definitions() {
//!     println!("{}: {}", definition.name, definition.description);
//! }
//!
//! // A call by the model.
//! let arguments = json!({"skill_name": "calculator", "file_path": "examples/basic.py"});
//! let output = host.call("read_file_in_skill", arguments).await?;
//! assert!(output.text().contains("def add"));
//!
//! // If a tool cannot answer, its error says why, in words for the model.
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
//! The crate does not read the environment: folders, limits and the cache come from the
//! [builder](Host::builder) or the [configuration](HostBuilder::from_config).
//!
//! # The interface, by task
//!
//! | task | items |
//! |---|---|
//! | build a host | [`HostBuilder`], [`ToolSet`], [`Wording`], [`Grant`], [`Limits`], [`Load`], [`Trust`], [`Config`] |
//! | list its tools | [`Host::definitions`], [`Definition`] |
//! | call a tool | [`Host::call`], [`Caller`], [`Output`], [`OutputFiles`], [`CallError`], [`parse_arguments`] |
//! | let a person decide about requests | [`Asker`], [`ConsentSession`], [`Caller::consent`] |
//! | observe calls | [`Observer`], [`CallEnd`], [`CallOutcome`], [`CallTrace`], [`Host::occupancy`] |
//! | see what tools may do | [`Host::grants`], [`Host::problems`], [`EffectiveGrant`] |
//! | inspect a component | [`inspect()`], [`Inspector`], [`Inspection`], [`ComponentMetadata`], [`Needs`] |
//! | list, find and check skills | [`Catalog`], [`SkillIndex`], [`prompt`], [`check`], [`frontmatter`] |
//! | read skills' files | [`Host::skill_resources`], [`SkillResources`] |
//! | read a runner's verdicts on scripts | [`JudgedScript`] |
//! | answer models' messages | [`exchange`], [`message`], [`Host::answer_bound`] |
//! | show text to people | [`Line`] |

#[cfg(not(target_os = "linux"))]
compile_error!("skillhost runs on Linux: its guard opens files through /proc and O_PATH");

// The layers, lowest first: a module uses only modules above it in this list. `cargo xtask
// layers` checks it.

pub mod config;

mod host;

pub mod exchange;

// Building a host.
pub use config::Config;
pub use host::{Host, HostBuilder, ProgramTool};
pub use skillhost_egress::{
    EgressClient, EgressSettings, NetworkGrant, NetworkRule, PrivateAddress, SecretUse,
    StartingEgress,
};
pub use skillhost_sandbox::component::compile::{COMPILE_ARGUMENT, Compilation, compile_component};
pub use skillhost_sandbox::component::embedded::SKILL_RESOURCES;
pub use skillhost_sandbox::tool::audit::{AuditMode, CheckpointSigner};
pub use skillhost_sandbox::tool::consent::{Answer, Asker, Choice, ConsentSession, Question};
pub use skillhost_sandbox::tool::grant::{FolderAccess, Grant, PatternError, Scope};
pub use skillhost_sandbox::tool::limits::{self, Limits, Load};
pub use skillhost_sandbox::tool::offer::{DescriptionSource, ToolSet, Wording};
pub use skillhost_skills::trust::{Principal, Trust, TrustError};

// Listing tools and calling them.
pub use skillhost_sandbox::tool::arguments::{MAX_ARGUMENTS, parse_arguments};
pub use skillhost_sandbox::tool::{
    CallError, Caller, Definition, Effects, Failure, FailureKind, FolderRule, Form, Help, Output,
    OutputFile, OutputFiles, Peer, RequestRecord, Stop, TraceId, Transport, message,
};

// Observing calls, and inspecting hosts and components.
pub use host::grants::EffectiveGrant;
pub use skillhost_sandbox::component::inspect::{
    Import, Inspection, Inspector, StartSize, inspect,
};
pub use skillhost_sandbox::component::metadata::ComponentMetadata;
pub use skillhost_sandbox::component::needs::{DeclaredNeeds, Needs, NetworkNeed, SecretNeed};
pub use skillhost_sandbox::tool::observer::{CallEnd, Observer, Occupancy};
pub use skillhost_sandbox::tool::{CallOutcome, CallTrace, RefusalKind, StopKind, TraceFrame};

// Skills and their files.
pub use host::resources::{
    Contents, Directory, DirectoryEntry, EntryKind, LeftOut, OverLimit, ResourceError, SkillFile,
    SkillFiles, SkillResources,
};
pub use host::{AnswerBound, JudgedScript, JudgementReason};
pub use skillhost_skills::catalog::{
    Catalog, Document, DocumentStamp, HiddenFolders, Listing, MAX_DEPTH, ReadBudget, Skill,
    SkillSummary, SkillsRoot, Unlisted,
};
pub use skillhost_skills::encoding::EncodingFault;
pub use skillhost_skills::omitted::OmittedNames;
pub use skillhost_skills::search::{
    Coverage, IndexStorage, SearchHit, SearchOffer, SearchResult, SkillIndex,
};
pub use skillhost_skills::{check, frontmatter, prompt};

// Text for people.
pub use skillhost_skills::text::line::{self, Line};
