//! The types of the interface between host and guest, as defined in `wit/`.

use wasmtime::component::{ComponentType, Lift, Lower};

use crate::granted_skills::{FoundSkills, SkillPage};
use crate::tool::FailureKind;
use skillhost_skills::catalog::{CallFolder, FolderError, Skill};
use skillhost_skills::guard::Folder;
use skillhost_skills::search::Coverage;

/// An unchecked definition from a component.
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

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct RawSkillPage {
    pub(super) skills: Vec<RawSkill>,
    pub(super) total: u32,
    pub(super) next: Option<String>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct RawSearchHit {
    pub(super) skill: RawSkill,
    pub(super) matches: Vec<String>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct RawSearchResult {
    pub(super) hits: Vec<RawSearchHit>,
    pub(super) coverage: RawCoverage,
}

#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(super) enum RawCoverage {
    #[component(name = "nothing")]
    Nothing,
    #[component(name = "descriptions")]
    Descriptions,
    #[component(name = "all")]
    All,
}

/// The parameters of `call`: the tool's name, arguments and folder.
pub(super) type RawCallParameters<'a> = (&'a str, &'a str, RawFolder);
/// The result of `call`.
pub(super) type RawCallResult = (Result<RawOutput, RawFailure>,);

/// Returns the preopen of a call's folder with its mount point, and the folder's description
/// for the guest.
pub(super) fn folder_parameter(
    folder: Option<Result<CallFolder, FolderError>>,
) -> (Option<(Folder, String)>, RawFolder) {
    match folder {
        None => (None, RawFolder::None),
        Some(Err(FolderError::Unknown)) => (None, RawFolder::UnknownSkill),
        Some(Err(FolderError::Unreadable)) => (None, RawFolder::Unreadable),
        Some(Err(FolderError::NoHome)) => (None, RawFolder::NoHome),
        Some(Err(FolderError::Outside)) => (None, RawFolder::Outside),
        Some(Ok(open)) => {
            let mount = match &open.skill {
                Some(skill) => format!("/skills/{skill}"),
                None => "/home".to_owned(),
            };
            let raw = RawFolder::Open(RawOpenFolder {
                skill: open.skill,
                mount: mount.clone(),
                path: open.path,
            });
            (Some((open.folder, mount)), raw)
        }
    }
}

impl RawOutput {
    /// Returns the output. If its text is empty, replaces it with the text that the host read
    /// from a file for the component.
    pub(super) fn with_text(mut self, text: Option<String>) -> Self {
        if let Some(text) = text
            && self.text.is_empty()
        {
            self.text = text;
        }
        self
    }
}

impl From<Skill> for RawSkill {
    fn from(skill: Skill) -> Self {
        Self {
            name: skill.name,
            description: skill.description,
        }
    }
}

impl From<SkillPage> for RawSkillPage {
    fn from(page: SkillPage) -> Self {
        Self {
            skills: page.skills.into_iter().map(RawSkill::from).collect(),
            total: u32::try_from(page.total).unwrap_or(u32::MAX),
            next: page.next,
        }
    }
}

impl From<FoundSkills> for RawSearchResult {
    fn from(found: FoundSkills) -> Self {
        let hit = |(skill, matches): (Skill, Vec<String>)| RawSearchHit {
            skill: skill.into(),
            matches,
        };
        Self {
            hits: found.hits.into_iter().map(hit).collect(),
            coverage: match found.coverage {
                Coverage::Nothing => RawCoverage::Nothing,
                Coverage::Descriptions => RawCoverage::Descriptions,
                Coverage::All => RawCoverage::All,
            },
        }
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
