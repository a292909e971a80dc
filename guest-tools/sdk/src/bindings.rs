//! The bindings of `skillhost:tool`, generated from the WIT package.
#![allow(missing_docs, reason = "generated from WIT, which documents it")]
#![allow(clippy::all, reason = "generated")]

wit_bindgen::generate!({
    path: "wit",
    world: "tool-component",
    pub_export_macro: true,
    default_bindings_module: "skillhost_guest::bindings",
});

pub use exports::skillhost::tool::tools;
pub use skillhost::tool::{answer, scripts, skills};
