//! What a component exports that could be a tool, and the types of that.

use anyhow::{Context as _, bail};
use wasmtime::Engine;
use wasmtime::component::types::{ComponentFunc, ComponentItem, ResourceType};
use wasmtime::component::{Component, ComponentExportIndex};

use super::names::Place;
use super::shape::{Label, Reader, Shape};
use crate::text::line::Line;
use crate::tool::limits;

/// The parameter that names the skill whose folder a call may read.
pub(super) const SKILL: &str = "skill-name";

/// What a function gives.
pub(super) struct Returns {
    /// What it gives, if anything; of a `result`, its `ok`.
    pub(super) answer: Option<Shape>,
    /// Whether it gives a `result`, and what its `err` carries.
    pub(super) failure: Option<Option<Shape>>,
}

/// Whether an exported interface is for others than us: what a program is
/// started by is no tool.
fn is_for_others(interface: &str) -> bool {
    interface.starts_with("wasi:")
}

/// The functions that a component exports, in its order.
pub(super) fn exports(
    engine: &Engine,
    component: &Component,
) -> anyhow::Result<Vec<(Place, ComponentExportIndex, ComponentFunc)>> {
    let index = |parent: Option<&ComponentExportIndex>, name: &str| {
        let index = component.get_export_index(parent, name);
        index.with_context(|| format!("its export `{}` cannot be found", Line::new(name)))
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
pub(super) fn signature(
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
            let name = Line::new(name);
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
