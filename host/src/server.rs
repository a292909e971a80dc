//! Serving.

pub mod http;
