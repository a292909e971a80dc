//! The sandbox: the engine, what a guest finds when it calls out, and one call in
//! one fresh store.

mod call;
pub(crate) mod engine;
pub(crate) mod known;
pub(crate) mod typed;
pub(crate) mod versions;
mod wasi;

pub(crate) use call::{Call, Ended, RawDefinition, RawForm, Sandbox, is_granted};
