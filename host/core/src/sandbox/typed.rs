//! Functions with WIT types as tools, without JSON on the component's side:
//! which functions a component exports, what they are called, the schemas of
//! their types, and values from JSON to the component and back.

mod answer;
mod beyond;
mod docs;
mod exports;
mod lift;
mod lower;
mod names;
#[cfg(test)]
mod round_trips;
mod schema;
mod shape;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use wasmtime::Engine;
use wasmtime::component::{Component, ComponentExportIndex, Val};

use crate::tool::{CallError, Stop};

pub(crate) use answer::Given;
use answer::{RESULT, given, in_result, reason};
pub(crate) use beyond::explain;
pub(crate) use docs::Docs;
use exports::{Returns, SKILL, exports, signature};
use names::Place;
use shape::{Label, Shape};

/// The functions of a component that are tools.
pub(crate) struct Functions(Vec<Function>);

/// A function that is a tool.
pub(crate) struct Function {
    /// The tool's name.
    pub(crate) name: String,
    pub(crate) export: ComponentExportIndex,
    place: Place,
    parameters: Vec<(Label, Shape)>,
    result: Returns,
}

/// What a function's definition is made of.
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_schema: Map<String, Value>,
    pub(crate) output_schema: Map<String, Value>,
    /// The parameter that names the skill.
    pub(crate) skill_property: Option<String>,
    /// Where the text of an answer stands in the record.
    pub(crate) text_property: Option<String>,
    /// Whether the answer is a record, which the model reads as it is.
    pub(crate) is_record: bool,
}

impl Functions {
    /// The functions that a component exports. None: it exports none. One that
    /// cannot be a tool refuses the component.
    pub(crate) fn of(engine: &Engine, component: &Component) -> anyhow::Result<Option<Self>> {
        let exports = exports(engine, component)?;
        let places: Vec<Place> = exports.iter().map(|(place, ..)| place.clone()).collect();
        let names = names::of(&places)?;
        let functions = names.into_iter().zip(exports);
        let functions = functions.map(|(name, (place, export, ty))| {
            let (parameters, result) =
                signature(engine, component, &ty).with_context(|| format!("{place} is no tool"))?;
            Ok(Function {
                name,
                export,
                place,
                parameters,
                result,
            })
        });
        let functions = functions.collect::<anyhow::Result<Vec<_>>>()?;
        Ok((!functions.is_empty()).then_some(Self(functions)))
    }

    /// What an agent is told of each.
    pub(crate) fn describe(&self, docs: &Docs) -> Vec<Described> {
        let described = self.0.iter().map(|function| function.describe(docs));
        described.collect()
    }

    /// The function of this tool.
    pub(crate) fn get(&self, tool: &str) -> Option<&Function> {
        self.0.iter().find(|function| function.name == tool)
    }
}

impl Function {
    fn describe(&self, docs: &Docs) -> Described {
        let documented = docs.function(&self.place).map(str::to_owned);
        let names_skill = |(label, _): &&(Label, Shape)| label.wit == SKILL;
        let skill = self.parameters.iter().find(names_skill);
        let answer = self.result.answer.as_ref();
        let is_record = matches!(answer, Some(Shape::Record(_)));
        Described {
            name: self.name.clone(),
            description: documented.unwrap_or_else(|| self.undocumented()),
            input_schema: schema::of_object(&self.parameters),
            output_schema: match answer {
                Some(Shape::Record(fields)) => schema::of_object(fields),
                answer => {
                    let schema = answer.map_or_else(|| json!({"type": "null"}), schema::of);
                    in_result(schema)
                }
            },
            skill_property: skill.map(|(label, _)| label.json.clone()),
            text_property: matches!(answer, Some(Shape::String)).then(|| RESULT.to_owned()),
            is_record,
        }
    }

    fn undocumented(&self) -> String {
        let Place {
            interface,
            function,
        } = &self.place;
        match interface {
            None => format!("The function `{function}`."),
            Some(interface) => format!("The function `{function}` of `{interface}`."),
        }
    }

    /// The values for a call with these arguments.
    pub(crate) fn lower(&self, arguments: &Map<String, Value>) -> Result<Vec<Val>, CallError> {
        lower::arguments(&self.parameters, arguments)
            .map_err(|misfit| CallError::Arguments(misfit.to_string()))
    }

    /// Places for what a call gives.
    pub(crate) fn results(&self) -> Vec<Val> {
        let gives = self.result.failure.is_some() || self.result.answer.is_some();
        vec![Val::Bool(false); gives.into()]
    }

    /// What a call gave, of at most so many bytes.
    pub(crate) fn lift(&self, results: &[Val], limit: usize) -> Result<Result<Given, Given>, Stop> {
        let Returns { answer, failure } = &self.result;
        match (failure, results) {
            (None, [value]) => given(answer.as_ref(), Some(value), limit).map(Ok),
            (None, []) => given(None, None, limit).map(Ok),
            (Some(_), [Val::Result(Ok(value))]) => {
                given(answer.as_ref(), value.as_deref(), limit).map(Ok)
            }
            (Some(failure), [Val::Result(Err(value))]) => {
                reason(failure.as_ref(), value.as_deref(), limit).map(Err)
            }
            _ => Err(Stop::Trap("it gave what its type does not say".to_owned())),
        }
    }
}
