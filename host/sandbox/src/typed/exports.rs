//! The exports of a component that can be tools, and their types.

use anyhow::{Context as _, bail};
use wasmtime::Engine;
use wasmtime::component::types::{
    ComponentFunc, ComponentInstance, ComponentItem, ResourceType, Type,
};
use wasmtime::component::{Component, ComponentExportIndex};

use super::names::FunctionPath;
use super::shape::{Label, Shape, ShapeBudget, ShapeReader};
use crate::tool::limits;
use skillhost_skills::text::line::Line;

/// The parameter that names the call's skill.
pub(super) const SKILL: &str = "skill-name";

/// The type of a function's result.
pub(super) struct ResultShape {
    /// The type of the answer: the `ok` of a `result`, or the whole type.
    pub(super) answer: Option<Shape>,
    /// The type of `err`, if the function returns a `result`. The inner option is `None` if
    /// `err` has no type.
    pub(super) failure: Option<Option<Shape>>,
}

/// Returns whether an exported interface belongs to WASI, such as the one that starts a
/// program. WASI interfaces have no tools.
fn is_wasi(interface: &str) -> bool {
    interface.starts_with("wasi:")
}

/// Returns whether an exported interface is the one that componentize-py uses during a build.
///
/// The interface stays in the exports, and a call of it would break the component. Its name, its
/// only function and the function's parameters identify it. An author's interface with that name
/// has other parameters.
fn is_componentize_py(engine: &Engine, name: &str, instance: &ComponentInstance) -> bool {
    let mut functions = instance.exports(engine).filter_map(|(name, export)| {
        let ComponentItem::ComponentFunc(ty) = export.ty else {
            return None;
        };
        Some((name, ty))
    });
    let (Some(("init", ty)), None) = (functions.next(), functions.next()) else {
        return false;
    };
    let parameters: Vec<(&str, Type)> = ty.params().collect();
    name == "exports"
        && matches!(
            parameters.as_slice(),
            [
                ("app-name", Type::String),
                ("symbols", Type::Record(_)),
                ("stub-wasi", Type::Bool),
            ]
        )
}

/// Returns the functions that a component exports, in the component's order.
pub(super) fn exported_functions(
    engine: &Engine,
    component: &Component,
) -> anyhow::Result<Vec<(FunctionPath, ComponentExportIndex, ComponentFunc)>> {
    let index = |parent: Option<&ComponentExportIndex>, name: &str| {
        let index = component.get_export_index(parent, name);
        index.with_context(|| format!("cannot find its export `{}`", Line::new(name)))
    };
    let mut found = Vec::new();
    let kind = component.component_type();
    for (name, export) in kind.exports(engine) {
        match export.ty {
            ComponentItem::ComponentFunc(ty) => {
                let path = FunctionPath {
                    interface: None,
                    function: name.to_owned(),
                };
                found.push((path, index(None, name)?, ty));
            }
            ComponentItem::ComponentInstance(instance)
                if !is_wasi(name) && !is_componentize_py(engine, name, &instance) =>
            {
                let parent = index(None, name)?;
                for (function, export) in instance.exports(engine) {
                    if let ComponentItem::ComponentFunc(ty) = export.ty {
                        let path = FunctionPath {
                            interface: Some(name.to_owned()),
                            function: function.to_owned(),
                        };
                        found.push((path, index(Some(&parent), function)?, ty));
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

/// Returns the types of a function. The error names the type that a tool cannot have.
pub(super) fn signature(
    engine: &Engine,
    component: &Component,
    ty: &ComponentFunc,
    budget: &mut ShapeBudget,
) -> anyhow::Result<(Vec<(Label, Shape)>, ResultShape)> {
    let resource = |ty: &ResourceType| resource_name(engine, component, ty);
    let mut reader = ShapeReader::new(budget, &resource);
    if ty.async_() {
        bail!("it is `async`, which tools cannot be");
    }
    let mut parameters = Vec::new();
    for (name, ty) in ty.params() {
        let shape = reader.read(&ty).map_err(|what| {
            let name = Line::new(name);
            anyhow::anyhow!("its parameter `{name}` has {what}")
        })?;
        if name == SKILL && shape != Shape::String {
            bail!(
                "its parameter `{SKILL}` is not a `string`: that name is reserved for the \
                 skill that a call reads; rename the parameter"
            );
        }
        parameters.push((Label::new(name), shape));
    }
    let result = ty.results().next().map(|ty| reader.read(&ty));
    let result = result
        .transpose()
        .map_err(|what| anyhow::anyhow!("its result has {what}"))?;
    let result = match result {
        Some(Shape::Result(cases)) => {
            let [answer, failure] = *cases;
            ResultShape {
                answer,
                failure: Some(failure),
            }
        }
        answer => ResultShape {
            answer,
            failure: None,
        },
    };
    Ok((parameters, result))
}

/// Returns the name of a resource that a component imports or exports.
fn resource_name(engine: &Engine, component: &Component, ty: &ResourceType) -> Option<String> {
    let within = |name: &str, item: &ComponentItem| match item {
        ComponentItem::Resource(resource) if resource == ty => Some(name.to_owned()),
        ComponentItem::ComponentInstance(instance) => {
            let mut exports = instance.exports(engine);
            exports.find_map(|(name, export)| match export.ty {
                ComponentItem::Resource(resource) if resource == *ty => Some(name.to_owned()),
                _ => None,
            })
        }
        _ => None,
    };
    let kind = component.component_type();
    let mut all = kind.exports(engine).chain(kind.imports(engine));
    all.find_map(|(name, item)| within(name, &item.ty))
}
