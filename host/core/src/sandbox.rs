//! The sandbox: the engine, the imports of a guest, and one call in one fresh
//! store.

mod call;
pub(crate) mod engine;
pub(crate) mod granted_skills;
mod open_file;
pub(crate) mod typed;
pub(crate) mod versions;
pub(crate) mod view;
pub(crate) mod wasi;

#[cfg(test)]
pub(crate) use call::RawFolderRule;
pub(crate) use call::{RawDefinition, RawForm, RunOutcome, Sandbox, SandboxCall, is_granted};
