//! The SDK for tool components of skillhost. A tool is an argument struct, a function
//! and one export line.
//!
//! ```
//! use skillhost_guest::{Access, Failure, Output, SkillPath, Tool};
//!
//! skillhost_guest::arguments! {
//!     struct CountLines {
//!         /// Name of the skill
//!         skill_name: String,
//!         /// Path of a text file in the skill's folder
//!         path: String,
//!     }
//! }
//!
//! fn count_lines(arguments: CountLines, access: Access) -> Result<Output, Failure> {
//!     let path = SkillPath::new(&arguments.path)?;
//!     let text = access.folder()?.read(&path, 1 << 20)?.into_text()?;
//!     Ok(Output::text(format!(
//!         "{} lines in {} of {}",
//!         text.lines().count(),
//!         path.as_str(),
//!         arguments.skill_name
//!     )))
//! }
//!
//! skillhost_guest::export_tools!(
//!     Tool::new(
//!         "count_lines",
//!         "Count the lines of a file in a skill.",
//!         count_lines
//!     )
//!     .in_skill_at("skill_name", "path")
//! );
//! # fn main() {}
//! ```
//!
//! The host checks the arguments against a schema, which is generated from the fields
//! and doc comments of the struct. Then it opens the folder of the skill that the
//! arguments name, and calls the function in a sandbox. The sandbox holds this
//! folder, read-only, and no other files.

#![no_std]

#[doc(hidden)]
pub extern crate alloc;

mod arguments;
pub mod bindings;
mod environment;
mod export;
mod failure;
mod files;
mod folder;
#[cfg(feature = "http")]
pub mod http;
mod listing;
mod log;
mod output;
mod path;
pub mod scripts;
mod skill_md;
pub mod skills;
pub mod text;
mod tool;
mod without_std;

pub use bindings::tools::FailureKind;
pub use environment::variable;
pub use failure::Failure;
pub use folder::{Access, Bytes, File, Folder, ReadError};
pub use listing::{Entry, Identity, ListError, NameError, Names, SortedNames, child_path};
pub use log::log;
pub use output::Output;
pub use path::{PathError, SkillPath, check_skill_name};
pub use skill_md::without_frontmatter;
pub use tool::Tool;

#[doc(hidden)]
pub use export::{call, definitions};
#[doc(hidden)]
pub use {schemars, serde};

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub use without_std::{LibcAllocator, reallocate};
