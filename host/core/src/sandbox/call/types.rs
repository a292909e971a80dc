//! The types that cross between host and guest, as `wit/` has them.

use wasmtime::component::{ComponentType, Lift, Lower};

use crate::tool::FailureKind;

/// A definition as the component gives it.
#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct RawDefinition {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) description: String,
    #[component(name = "input-schema")]
    pub(crate) input_schema: String,
    #[component(name = "output-schema")]
    pub(crate) output_schema: Option<String>,
    pub(crate) folder: Option<RawFolderRule>,
    #[component(name = "text-property")]
    pub(crate) text_property: Option<String>,
    #[component(name = "model-reads")]
    pub(crate) model_reads: RawForm,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(crate) struct RawFolderRule {
    #[component(name = "skill-property")]
    pub(crate) skill_property: String,
    pub(crate) enumerate: bool,
    #[component(name = "path-property")]
    pub(crate) path_property: Option<String>,
    #[component(name = "skill-optional")]
    pub(crate) skill_optional: bool,
}

#[derive(ComponentType, Lift, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum RawForm {
    #[component(name = "text")]
    Text,
    #[component(name = "details")]
    Details,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
pub(super) enum RawFolder {
    #[component(name = "none")]
    None,
    #[component(name = "open")]
    Open(RawOpenFolder),
    #[component(name = "unknown-skill")]
    UnknownSkill,
    #[component(name = "unreadable")]
    Unreadable,
    #[component(name = "no-home")]
    NoHome,
    #[component(name = "outside")]
    Outside,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct RawOpenFolder {
    pub(super) skill: Option<String>,
    pub(super) mount: String,
    pub(super) path: Option<String>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct RawOutput {
    pub(super) text: String,
    pub(super) details: Option<String>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct RawFailure {
    pub(super) kind: RawFailureKind,
    pub(super) message: String,
    pub(super) details: Option<String>,
}

#[derive(ComponentType, Lift, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "made by the derived `Lift`")]
pub(super) enum RawFailureKind {
    #[component(name = "invalid-arguments")]
    InvalidArguments,
    #[component(name = "not-found")]
    NotFound,
    #[component(name = "refused")]
    Refused,
    #[component(name = "unreadable")]
    Unreadable,
    #[component(name = "failed")]
    Failed,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct RawSkill {
    pub(super) name: String,
    pub(super) description: String,
}

/// What `call` takes: the tool's name, its arguments, its folder.
pub(super) type CallParameters<'a> = (&'a str, &'a str, RawFolder);
/// What `call` gives.
pub(super) type CallResult = (Result<RawOutput, RawFailure>,);

impl RawOutput {
    /// With the text that the component left to the host, if it gave none.
    pub(super) fn with_text(mut self, held: Option<String>) -> Self {
        if let Some(held) = held
            && self.text.is_empty()
        {
            self.text = held;
        }
        self
    }
}

impl From<RawFailureKind> for FailureKind {
    fn from(kind: RawFailureKind) -> Self {
        match kind {
            RawFailureKind::InvalidArguments => Self::InvalidArguments,
            RawFailureKind::NotFound => Self::NotFound,
            RawFailureKind::Refused => Self::Refused,
            RawFailureKind::Unreadable => Self::Unreadable,
            RawFailureKind::Failed => Self::Failed,
        }
    }
}
