//! Components: read, compiled, cached, loaded, and inspected before they are
//! trusted.

pub(crate) mod cache;
pub(crate) mod child;
pub(crate) mod compile;
pub(crate) mod definitions;
pub(crate) mod embedded;
mod file;
mod functions;
pub(crate) mod inspect;
mod load;
pub(crate) mod metadata;
mod tool_component;

pub(crate) use file::check_header;
pub use file::read;
pub(crate) use load::{Loader, cannot_load};
pub(crate) use tool_component::{ComponentSource, Tool, ToolComponent};
