//! The entry point of a component: its interface `tools`, or its typed functions, one per
//! tool.

use serde_json::{Map, Value};
use wasmtime::Engine;
use wasmtime::component::{Component, ComponentExportIndex, Val};

use super::types::{RawDefinition, RawFolderRule, RawForm};
use super::{GuestAnswer, GuestFailure};
use crate::tool::{CallError, FailureKind, Stop};
use crate::typed::{FunctionAnswer, FunctionDefinition, TypedFunction, TypedFunctions};
use crate::versions::{self, SupportedVersion};
use skillhost_skills::catalog::FolderError;

/// The exports through which a component is called.
pub(super) enum EntryPoint {
    /// The exports of its interface `tools`.
    Tools {
        definitions: ComponentExportIndex,
        call: ComponentExportIndex,
    },
    /// Its typed functions.
    Functions(TypedFunctions),
}

/// The arguments of a call in the component's form.
pub enum GuestArguments {
    /// JSON.
    Json(String),
    /// The values of a function's parameters.
    Values(Vec<Val>),
}

impl EntryPoint {
    /// Finds the entry point of a component. `version` is the exported version of the
    /// interface `tools`, or `None`. The error names a missing export.
    pub(super) fn find(
        engine: &Engine,
        component: &Component,
        version: Option<&SupportedVersion>,
    ) -> wasmtime::Result<Self> {
        let not_a_tool = "it is not a tool component: it does not export";
        if let Some(SupportedVersion { tools, .. }) = version {
            let export = |name: &str| {
                component
                    .get_export_index(None, tools)
                    .and_then(|tools| component.get_export_index(Some(&tools), name))
                    .ok_or_else(|| wasmtime::format_err!("{not_a_tool} `{tools}`"))
            };
            return Ok(Self::Tools {
                definitions: export("definitions")?,
                call: export("call")?,
            });
        }
        let functions =
            TypedFunctions::read(engine, component).map_err(wasmtime::Error::from_anyhow)?;
        functions.map(Self::Functions).ok_or_else(|| {
            let tools = versions::newest().tools;
            wasmtime::format_err!("{not_a_tool} `{tools}`, nor a function that could be a tool")
        })
    }

    /// Converts the arguments for a tool to the component's form.
    pub(super) fn arguments(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<GuestArguments, CallError> {
        let function = match self {
            Self::Tools { .. } => None,
            Self::Functions(functions) => functions.get(tool),
        };
        match function {
            Some(function) => function.lower(arguments).map(GuestArguments::Values),
            None => serde_json::to_string(arguments)
                .map(GuestArguments::Json)
                .map_err(|error| CallError::Arguments(error.to_string())),
        }
    }
}

/// Returns the definitions of typed functions as definitions of tools. `bytes` is the
/// component's binary.
pub(super) fn definitions(
    functions: &TypedFunctions,
    engine: &Engine,
    component: &Component,
    bytes: &[u8],
) -> Vec<RawDefinition> {
    let definitions = functions.definitions(engine, component, bytes).into_iter();
    definitions.map(RawDefinition::from).collect()
}

impl From<FunctionDefinition> for RawDefinition {
    fn from(definition: FunctionDefinition) -> Self {
        let rule = |skill_property| RawFolderRule {
            skill_property,
            enumerate: false,
            path_property: None,
            skill_optional: false,
        };
        Self {
            name: definition.name,
            title: String::new(),
            description: definition.description,
            input_schema: Value::Object(definition.input_schema).to_string(),
            output_schema: Some(Value::Object(definition.output_schema).to_string()),
            folder: definition.skill_property.map(rule),
            text_property: definition.text_property,
            model_reads: if definition.is_record {
                RawForm::Details
            } else {
                RawForm::Text
            },
        }
    }
}

/// Returns the failure of a call to a typed function if its folder cannot be opened. The function
/// does not run, because it would see only an empty list of preopens and no reason.
pub(super) fn folder_failure(folder: &FolderError) -> GuestFailure {
    let (kind, message) = match folder {
        FolderError::Unreadable => (
            FailureKind::Unreadable,
            "the folder of that skill cannot be read",
        ),
        _ => (FailureKind::NotFound, "there is no skill of that name"),
    };
    GuestFailure {
        kind,
        message: message.to_owned(),
        details: None,
    }
}

/// Converts the results of a function to a tool's answer.
pub(super) fn answer(
    function: &TypedFunction,
    results: &[Val],
    limit: usize,
) -> Result<Result<GuestAnswer, GuestFailure>, Stop> {
    Ok(match function.lift(results, limit)? {
        Ok(FunctionAnswer { text, details }) => Ok(GuestAnswer { text, details }),
        Err(FunctionAnswer { text, details }) => Err(GuestFailure {
            kind: FailureKind::Failed,
            message: text,
            details,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_without_folder_fails_like_other_tools() {
        for (folder, kind) in [
            (FolderError::Unreadable, FailureKind::Unreadable),
            (FolderError::Unknown, FailureKind::NotFound),
        ] {
            assert_eq!(folder_failure(&folder).kind, kind);
        }
    }
}
