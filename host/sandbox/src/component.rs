//! Reads, compiles, caches and loads components. Inspects components that are
//! not trusted yet.

pub mod cache;
pub mod child;
pub mod compile;
pub mod definitions;
pub mod embedded;
mod file;
mod functions;
pub mod inspect;
mod load;
pub mod metadata;
pub mod needs;
mod tool_component;

pub use file::{check_header, read};
pub use load::{Loader, cannot_load};
pub use tool_component::{ComponentSource, Tool, ToolComponent};
