//! The reasons why the host stops a call or does not start it. Those for limits come from the
//! tables in `limits.rs`. The other reasons are declared here.

use std::fmt;
use std::time::Duration;

use crate::tool::limits::{self, LimitSet};
use skillhost_skills::text::toml::toml_key;

/// Declares [`Stop`] and [`StopKind`]: a variant for each limit that can stop a call, and the
/// variants for all other reasons.
macro_rules! stops {
    ($(
        $(#[$attribute:meta])*
        $set:ident in $table:literal, $too_little:literal {$(
            $(#[$doc:meta])*
            $field:ident: $type:ty, $unit:ident $default:literal in $least:expr, $greatest:expr;
            against $threat:literal $(; $variant:ident $outcome:literal $sentence:literal)?
        )*}
    )*) => {
        /// The reason why the host stopped a call, or did not start it.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Stop {
            $($($(
                #[doc = concat!(
                    "The call reached [`", stringify!($field), "`](limits::", stringify!($set),
                    "::", stringify!($field), "), which had this value."
                )]
                $variant($type),
            )?)*)*
            /// The grant does not include this skill. The call was not started.
            NotGranted {
                /// The skill that the call named.
                skill: String,
                /// The component's name in grants.
                component: String,
            },
            /// The queue is full. The call was not started.
            Busy,
            /// The call needed more memory than was left of the budget of all calls.
            HostMemory,
            /// The audit log could not be written, so the answer is withheld.
            NotRecorded,
            /// The guest trapped, for example by a panic or an answer that is not UTF-8.
            /// The text lists the causes, for the operator.
            Trap(String),
        }

        /// The kind of a [`Stop`], without details of the call.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the variants are those of `Stop`")]
        pub enum StopKind {
            $($($($variant,)?)*)*
            NotGranted,
            Busy,
            HostMemory,
            NotRecorded,
            Trap,
        }

        impl Stop {
            /// Returns the kind.
            pub fn kind(&self) -> StopKind {
                match self {
                    $($($(Self::$variant(_) => StopKind::$variant,)?)*)*
                    Self::NotGranted { .. } => StopKind::NotGranted,
                    Self::Busy => StopKind::Busy,
                    Self::HostMemory => StopKind::HostMemory,
                    Self::NotRecorded => StopKind::NotRecorded,
                    Self::Trap(_) => StopKind::Trap,
                }
            }

            /// Returns the configuration key with which the operator could prevent the stop, if
            /// there is one.
            fn key(&self) -> Option<String> {
                let key = match self {
                    $($($(Self::$variant(_) => {
                        return Some(config_key::<limits::$set>(stringify!($field)));
                    })?)*)*
                    Self::NotGranted { component, .. } => {
                        return Some(format!("grants.{}.skills", toml_key(component)));
                    }
                    Self::Busy => "calls",
                    Self::HostMemory => "calls_memory",
                    Self::NotRecorded => "audit",
                    Self::Trap(_) => return None,
                };
                Some(key.to_owned())
            }
        }

        impl StopKind {
            /// All kinds.
            pub const ALL: &[Self] = &[
                $($($(Self::$variant,)?)*)*
                Self::NotGranted,
                Self::Busy,
                Self::HostMemory,
                Self::NotRecorded,
                Self::Trap,
            ];

            /// Returns the name in the audit log and the metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $($($(Self::$variant => $outcome,)?)*)*
                    Self::NotGranted => "not-granted",
                    Self::Busy => "busy",
                    Self::HostMemory => "host-memory",
                    Self::NotRecorded => "not-recorded",
                    Self::Trap => "trap",
                }
            }
        }

        impl fmt::Display for Stop {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $($($(Self::$variant(limit) => write!(f, $sentence, limit),)?)*)*
                    Self::NotGranted { skill, .. } => {
                        write!(f, "it is not allowed to read the skill '{skill}'")
                    }
                    Self::Busy => f.write_str("the host is busy, try again"),
                    Self::HostMemory => f.write_str("the host is short of memory, try again"),
                    Self::NotRecorded => {
                        f.write_str("its call could not be recorded, so the answer is withheld")
                    }
                    Self::Trap(_) => f.write_str("it failed before it answered"),
                }
            }
        }
    };
}

limits::with_call_limits!(stops);

impl Stop {
    /// Returns a note on the setting that could prevent the stop. The note is empty if no
    /// setting could.
    pub(super) fn remedy(&self) -> String {
        self.key().map_or_else(String::new, |key| {
            format!("; to change this, set `{key}` in skillhost.toml")
        })
    }
}

/// Returns the full key of a limit in a configuration, with its table.
fn config_key<S: LimitSet>(key: &str) -> String {
    match S::KEY {
        "" => key.to_owned(),
        table => format!("{table}.{key}"),
    }
}
