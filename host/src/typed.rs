//! Functions with WIT types as tools, without JSON on the component's side:
//! which functions a component exports, what they are called, the schemas of
//! their types, and values from JSON to the component and back.

mod beyond;
mod docs;
mod lift;
mod lower;
mod names;
#[cfg(test)]
mod round_trips;
mod schema;
mod shape;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};
use wasmtime::Engine;
use wasmtime::component::types::{ComponentFunc, ComponentItem, ResourceType};
use wasmtime::component::{Component, ComponentExportIndex, Val};

use crate::limits;
use crate::tool::{CallError, Stop};

pub(crate) use beyond::explain;
pub(crate) use docs::Docs;
use names::Place;
use shape::{Label, Reader, Shape};

/// The parameter that names the skill whose folder a call may read.
const SKILL: &str = "skill-name";

/// The property of a program's record that holds what is no record itself.
const RESULT: &str = "result";

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

/// What a function gives.
struct Returns {
    /// What it gives, if anything; of a `result`, its `ok`.
    answer: Option<Shape>,
    /// Whether it gives a `result`, and what its `err` carries.
    failure: Option<Option<Shape>>,
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

/// What a function gave: an answer, or why there is none.
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) details: Option<String>,
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

/// An answer: a string is the text, everything else is JSON. A record is what a
/// program reads, too, and anything else is a property of it.
fn given(shape: Option<&Shape>, value: Option<&Val>, limit: usize) -> Result<Given, Stop> {
    let (text, details) = match (shape, value) {
        (Some(Shape::String), Some(Val::String(text))) if text.len() > limit => {
            return Err(Stop::Output(limit));
        }
        (Some(Shape::String), Some(Val::String(text))) => (text.clone(), None),
        (Some(shape @ Shape::Record(_)), Some(value)) => {
            (String::new(), Some(lift::to_json(shape, value, limit)?))
        }
        (Some(shape), Some(value)) => {
            let json = lift::to_json(shape, value, limit)?;
            let details = format!("{{\"{RESULT}\": {json}}}");
            (json, Some(details))
        }
        _ => ("null".to_owned(), Some(format!("{{\"{RESULT}\": null}}"))),
    };
    Ok(Given { text, details })
}

/// Why there is no answer: in the words of a string, or as JSON.
fn reason(shape: Option<&Shape>, value: Option<&Val>, limit: usize) -> Result<Given, Stop> {
    let (text, details) = match (shape, value) {
        (Some(Shape::String), Some(Val::String(text))) if text.len() > limit => {
            return Err(Stop::Output(limit));
        }
        (Some(Shape::String), Some(Val::String(text))) => (text.clone(), None),
        (Some(shape), Some(value)) => {
            let json = lift::to_json(shape, value, limit)?;
            let details = format!("{{\"error\": {json}}}");
            (json, Some(details))
        }
        _ => ("the tool failed, and does not say why".to_owned(), None),
    };
    Ok(Given { text, details })
}

fn in_result(schema: Value) -> Map<String, Value> {
    let field = json!({
        "type": "object",
        "properties": {RESULT: schema},
        "required": [RESULT],
        "additionalProperties": false,
    });
    match field {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Whether an exported interface is for others than us: what a program is
/// started by is no tool.
fn is_for_others(interface: &str) -> bool {
    interface.starts_with("wasi:")
}

/// The functions that a component exports, in its order.
fn exports(
    engine: &Engine,
    component: &Component,
) -> anyhow::Result<Vec<(Place, ComponentExportIndex, ComponentFunc)>> {
    let index = |parent: Option<&ComponentExportIndex>, name: &str| {
        let index = component.get_export_index(parent, name);
        index.with_context(|| format!("its export `{}` cannot be found", name.escape_debug()))
    };
    let mut found = Vec::new();
    let kind = component.component_type();
    for (name, export) in kind.exports(engine) {
        match export.ty {
            ComponentItem::ComponentFunc(ty) => {
                let place = Place {
                    interface: None,
                    function: name.to_owned(),
                };
                found.push((place, index(None, name)?, ty));
            }
            ComponentItem::ComponentInstance(instance) if !is_for_others(name) => {
                let parent = index(None, name)?;
                for (function, export) in instance.exports(engine) {
                    if let ComponentItem::ComponentFunc(ty) = export.ty {
                        let place = Place {
                            interface: Some(name.to_owned()),
                            function: function.to_owned(),
                        };
                        found.push((place, index(Some(&parent), function)?, ty));
                    }
                }
            }
            _ => {}
        }
        if found.len() > limits::DEFINITIONS {
            bail!("it exports more than {} functions", limits::DEFINITIONS);
        }
    }
    Ok(found)
}

/// The types of a function, as far as they have a form in JSON.
fn signature(
    engine: &Engine,
    component: &Component,
    ty: &ComponentFunc,
) -> anyhow::Result<(Vec<(Label, Shape)>, Returns)> {
    let resource = |ty: &ResourceType| resource_name(engine, component, ty);
    let mut reader = Reader::new(&resource);
    if ty.async_() {
        bail!("it is `async`, and a call of a tool ends with its answer");
    }
    let mut parameters = Vec::new();
    for (name, ty) in ty.params() {
        let shape = reader.read(&ty).map_err(|what| {
            let name = name.escape_debug();
            anyhow::anyhow!("its parameter `{name}` has {what}, for which there is no JSON")
        })?;
        if name == SKILL && shape != Shape::String {
            bail!(
                "its parameter `{SKILL}` is no `string`: that name is for the skill whose folder \
                 a call reads, give anything else another one"
            );
        }
        parameters.push((Label::new(name), shape));
    }
    let result = ty.results().next().map(|ty| reader.read(&ty));
    let result = result
        .transpose()
        .map_err(|what| anyhow::anyhow!("its result has {what}, for which there is no JSON"))?;
    let result = match result {
        Some(Shape::Result(cases)) => {
            let [answer, failure] = *cases;
            Returns {
                answer,
                failure: Some(failure),
            }
        }
        answer => Returns {
            answer,
            failure: None,
        },
    };
    Ok((parameters, result))
}

/// What a component calls a resource that it imports or exports.
fn resource_name(engine: &Engine, component: &Component, ty: &ResourceType) -> Option<String> {
    let within = |name: &str, item: &ComponentItem| match item {
        ComponentItem::Resource(one) if one == ty => Some(name.to_owned()),
        ComponentItem::ComponentInstance(instance) => {
            let mut exports = instance.exports(engine);
            exports.find_map(|(name, export)| match export.ty {
                ComponentItem::Resource(one) if one == *ty => Some(name.to_owned()),
                _ => None,
            })
        }
        _ => None,
    };
    let kind = component.component_type();
    let mut all = kind.exports(engine).chain(kind.imports(engine));
    all.find_map(|(name, item)| within(name, &item.ty))
}
