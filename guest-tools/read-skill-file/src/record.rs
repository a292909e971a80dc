//! The records for programs, as the contract defines them.

use alloc::string::String;

skillhost_guest::record! {
    pub(crate) struct Success {
        pub(crate) ok: bool,
        /// Serialized as null, which the host replaces with the text.
        pub(crate) stdout: (),
        pub(crate) stderr: &'static str,
        pub(crate) meta: Meta,
    }
}

skillhost_guest::record! {
    pub(crate) struct Error {
        pub(crate) ok: bool,
        pub(crate) stdout: &'static str,
        pub(crate) stderr: String,
        pub(crate) meta: Meta,
    }
}

skillhost_guest::record! {
    /// Metadata of the answer. Each variant has the contract's keys.
    #[serde(untagged)]
    pub(crate) enum Meta {
        Read {
            path: String,
            file_size: u64,
            start_line: Option<i64>,
            end_line: Option<i64>,
        },
        PastEnd {
            path: String,
            start_line: Option<i64>,
            end_line: u64,
            total_lines: u64,
        },
        Binary {
            path: String,
            file_type: &'static str,
            file_size: u64,
        },
        Size {
            path: String,
            file_size: u64,
        },
        Missing {
            path: String,
            original_path: String,
            skill_name: Option<String>,
        },
        Unresolved {
            path: String,
            skill_name: Option<String>,
        },
        Error {
            path: String,
            error: String,
        },
        Path {
            path: String,
        },
    }
}
