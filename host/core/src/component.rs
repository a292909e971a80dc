//! Components: compiled, kept, loaded, and looked at before they are trusted.

pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod embedded;
pub(crate) mod inspect;
mod load;

pub use load::read;
#[cfg(test)]
pub(crate) use load::write_definitions;
pub(crate) use load::{
    Loader, MAX_COMPONENT, Runnable, Source, Tool, cannot_load, definitions, digest,
    read_definitions,
};
