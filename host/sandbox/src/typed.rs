//! Typed functions as tools: exported functions with WIT types, their names and schemas,
//! and the conversion of values between JSON and the component.

mod answer;
mod comments;
mod docs;
mod exports;
mod lift;
mod lower;
mod names;
#[cfg(test)]
mod round_trips;
mod schema;
mod shape;
#[cfg(test)]
mod tests;
mod unsupported;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use wasmtime::Engine;
use wasmtime::component::{Component, ComponentExportIndex, Val};

use crate::tool::{CallError, Stop};

pub(crate) use answer::FunctionAnswer;
use answer::{RESULT, result_schema};
use comments::TypeComments;
use docs::Docs;
use exports::{ResultShape, SKILL, exported_functions, signature};
use names::FunctionPath;
use schema::SchemaWriter;
use shape::{Label, Shape, ShapeBudget};
pub(crate) use unsupported::find_unsupported;

/// The typed functions of a component.
pub(crate) struct TypedFunctions(Vec<TypedFunction>);

/// A typed function.
pub(crate) struct TypedFunction {
    /// The tool's name.
    pub(crate) name: String,
    pub(crate) export: ComponentExportIndex,
    path: FunctionPath,
    parameters: Vec<(Label, Shape)>,
    result: ResultShape,
}

/// The function's definition as a tool.
pub(crate) struct FunctionDefinition {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_schema: Map<String, Value>,
    pub(crate) output_schema: Map<String, Value>,
    /// The parameter that names the skill.
    pub(crate) skill_property: Option<String>,
    /// The property of the record that has the answer's text, if the answer is a string.
    pub(crate) text_property: Option<String>,
    /// True if the answer is a record. Models then read the record.
    pub(crate) is_record: bool,
}

impl TypedFunctions {
    /// Reads the exported functions of a component. Returns `None` if it exports no function.
    /// Fails if a function cannot be a tool.
    pub(crate) fn read(engine: &Engine, component: &Component) -> anyhow::Result<Option<Self>> {
        let exports = exported_functions(engine, component)?;
        let paths: Vec<FunctionPath> = exports.iter().map(|(path, ..)| path.clone()).collect();
        let names = names::tool_names(&paths)?;
        let mut budget = ShapeBudget::for_functions();
        let functions = names.into_iter().zip(exports);
        let functions = functions.map(|(name, (path, export, ty))| {
            let (parameters, result) = signature(engine, component, &ty, &mut budget)
                .with_context(|| format!("{path} cannot be a tool"))?;
            Ok(TypedFunction {
                name,
                export,
                path,
                parameters,
                result,
            })
        });
        let functions = functions.collect::<anyhow::Result<Vec<_>>>()?;
        Ok((!functions.is_empty()).then_some(Self(functions)))
    }

    /// Returns the definitions of all functions of a component, with the comments in its
    /// binary.
    pub(crate) fn definitions(
        &self,
        engine: &Engine,
        component: &Component,
        bytes: &[u8],
    ) -> Vec<FunctionDefinition> {
        let docs = Docs::read(bytes);
        let comments = TypeComments::read(engine, component, &docs);
        let mut schemas = SchemaWriter::new(&comments);
        let functions = self.0.iter();
        let definitions = functions.map(|function| function.definition(&docs, &mut schemas));
        definitions.collect()
    }

    /// Returns the function of this tool.
    pub(crate) fn get(&self, tool: &str) -> Option<&TypedFunction> {
        self.0.iter().find(|function| function.name == tool)
    }
}

impl TypedFunction {
    fn definition(&self, docs: &Docs, schemas: &mut SchemaWriter<'_>) -> FunctionDefinition {
        let comment = docs.function(&self.path).map(docs::join_lines);
        let names_skill = |(label, _): &&(Label, Shape)| label.wit == SKILL;
        let skill = self.parameters.iter().find(names_skill);
        let answer = self.result.answer.as_ref();
        let is_record = matches!(answer, Some(Shape::Record(_)));
        FunctionDefinition {
            name: self.name.clone(),
            description: comment.unwrap_or_else(|| self.default_description()),
            input_schema: schemas.object(&self.parameters),
            output_schema: match answer {
                Some(shape @ Shape::Record(fields)) => schemas.record(shape, fields),
                Some(shape) => result_schema(schemas.value(shape)),
                None => result_schema(json!({"type": "null"})),
            },
            skill_property: skill.map(|(label, _)| label.json.clone()),
            text_property: matches!(answer, Some(Shape::String)).then(|| RESULT.to_owned()),
            is_record,
        }
    }

    /// Returns the description of a function without a comment.
    fn default_description(&self) -> String {
        let FunctionPath {
            interface,
            function,
        } = &self.path;
        match interface {
            None => format!("The function `{function}`."),
            Some(interface) => format!("The function `{function}` of `{interface}`."),
        }
    }

    /// Converts the arguments of a call to the component's values.
    pub(crate) fn lower(&self, arguments: &Map<String, Value>) -> Result<Vec<Val>, CallError> {
        lower::arguments(&self.parameters, arguments)
            .map_err(|mismatch| CallError::Arguments(mismatch.to_string()))
    }

    /// Returns placeholders for the results of a call.
    pub(crate) fn result_placeholders(&self) -> Vec<Val> {
        let has_result = self.result.failure.is_some() || self.result.answer.is_some();
        vec![Val::Bool(false); has_result.into()]
    }

    /// Converts the results of a call to an answer or a failure with at most `limit` bytes.
    pub(crate) fn lift(
        &self,
        results: &[Val],
        limit: usize,
    ) -> Result<Result<FunctionAnswer, FunctionAnswer>, Stop> {
        let ResultShape { answer, failure } = &self.result;
        match (failure, results) {
            (None, [value]) => answer::success(answer.as_ref(), Some(value), limit).map(Ok),
            (None, []) => answer::success(None, None, limit).map(Ok),
            (Some(_), [Val::Result(Ok(value))]) => {
                answer::success(answer.as_ref(), value.as_deref(), limit).map(Ok)
            }
            (Some(failure), [Val::Result(Err(value))]) => {
                answer::failure(failure.as_ref(), value.as_deref(), limit).map(Err)
            }
            _ => Err(Stop::Trap(
                "its result does not have the type that its function declares".to_owned(),
            )),
        }
    }
}
