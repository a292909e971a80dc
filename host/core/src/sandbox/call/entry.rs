//! What of a component is called: its interface `tools`, or its functions, each
//! a tool by itself.

use serde_json::{Map, Value};
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentExportIndex, Val};

use super::types::{RawDefinition, RawFolderRule, RawForm};
use super::{Answer, Refusal};
use crate::sandbox::typed::{Described, Docs, Function, Functions, Given};
use crate::sandbox::versions::{self, Known};
use crate::sandbox::wasi;
use crate::skill::catalog::FolderError;
use crate::tool::{CallError, FailureKind, Stop};

/// How a component is called.
pub(super) enum Entry {
    /// By its interface `tools`.
    Tools {
        definitions: ComponentExportIndex,
        call: ComponentExportIndex,
    },
    /// By its functions, which have types of their own.
    Functions(Functions),
}

/// The arguments of a call, as the component takes them.
pub(crate) enum Arguments {
    /// As JSON.
    Json(String),
    /// As the values of a function's parameters.
    Values(Vec<Val>),
}

impl Entry {
    /// How this component is called, which exports the interface of this version
    /// or none. The error says what it lacks.
    pub(super) fn of(
        engine: &Engine,
        component: &Component,
        known: Option<&Known>,
    ) -> wasmtime::Result<Self> {
        let none = "it is no tool component: it does not export";
        if let Some(Known { tools, .. }) = known {
            let export = |name: &str| {
                component
                    .get_export_index(None, tools)
                    .and_then(|tools| component.get_export_index(Some(&tools), name))
                    .ok_or_else(|| wasmtime::format_err!("{none} `{tools}`"))
            };
            return Ok(Self::Tools {
                definitions: export("definitions")?,
                call: export("call")?,
            });
        }
        let functions = Functions::of(engine, component).map_err(wasmtime::Error::from_anyhow)?;
        functions.map(Self::Functions).ok_or_else(|| {
            let tools = versions::newest().tools;
            wasmtime::format_err!("{none} `{tools}`, nor a function that could be a tool")
        })
    }

    /// The arguments of a call of this tool, in the component's form.
    pub(super) fn arguments(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Arguments, CallError> {
        let function = match self {
            Self::Tools { .. } => None,
            Self::Functions(functions) => functions.get(tool),
        };
        match function {
            Some(function) => function.lower(arguments).map(Arguments::Values),
            None => serde_json::to_string(arguments)
                .map(Arguments::Json)
                .map_err(|error| CallError::Arguments(error.to_string())),
        }
    }
}

/// What functions say of themselves, in the form in which tools do.
pub(super) fn definitions(functions: &Functions, component: &[u8]) -> Vec<RawDefinition> {
    let docs = Docs::of(component);
    let described = functions.describe(&docs).into_iter();
    described.map(RawDefinition::from).collect()
}

impl From<Described> for RawDefinition {
    fn from(described: Described) -> Self {
        let rule = |skill_property| RawFolderRule {
            skill_property,
            enumerate: false,
            path_property: None,
            skill_optional: false,
        };
        Self {
            name: described.name,
            title: String::new(),
            description: described.description,
            input_schema: Value::Object(described.input_schema).to_string(),
            output_schema: Some(Value::Object(described.output_schema).to_string()),
            folder: described.skill_property.map(rule),
            text_property: described.text_property,
            model_reads: match described.is_record {
                true => RawForm::Details,
                false => RawForm::Text,
            },
        }
    }
}

/// What a function's caller is told where there is no folder. The function is
/// not run: it has no other word for it than an empty list of preopens.
pub(super) fn without_folder(folder: &FolderError) -> Refusal {
    let (kind, message) = match folder {
        FolderError::Unreadable => (
            FailureKind::Unreadable,
            "the folder of that skill cannot be read",
        ),
        _ => (FailureKind::NotFound, "there is no skill of that name"),
    };
    Refusal {
        kind,
        message: message.to_owned(),
        details: None,
    }
}

/// What a function gave, as what a tool answers.
pub(super) fn answer(
    function: &Function,
    results: &[Val],
    limit: usize,
) -> Result<Result<Answer, Refusal>, Stop> {
    let given = function.lift(results, limit)?;
    Ok(match given {
        Ok(Given { text, details }) => Ok(Answer { text, details }),
        Err(Given { text, details }) => Err(Refusal {
            kind: FailureKind::Failed,
            message: text,
            details,
        }),
    })
}

/// Whether a component is given what it imports under this name: an interface
/// that the host has, or one of types alone, which asks for nothing.
pub(crate) fn is_granted(engine: &Engine, name: &str, import: &ComponentItem) -> bool {
    if versions::is_offered(name) || wasi::is_linked(name) {
        return true;
    }
    match import {
        ComponentItem::Type(_) => true,
        ComponentItem::ComponentInstance(instance) => {
            let mut exports = instance.exports(engine).peekable();
            exports.peek().is_some()
                && exports.all(|(_, export)| matches!(export.ty, ComponentItem::Type(_)))
        }
        _ => false,
    }
}
