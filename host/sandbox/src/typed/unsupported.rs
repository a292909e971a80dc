//! WIT types that the engine does not support. The compiler reports only their position in
//! the binary. This module finds the function, for its author.

use wasmparser::component_types::{
    ComponentDefinedType, ComponentEntityType, ComponentFuncTypeId, ComponentValType,
};
use wasmparser::types::TypesRef;
use wasmparser::{Parser, Payload, PrimitiveValType, ValidPayload, Validator, WasmFeatures};

use super::names::FunctionPath;

/// The maximum number of visited types. Guards against: nested types that each refer twice to
/// the next one, so that every level doubles the number of visits.
const MAX_VISITED: usize = 10_000;

/// Returns an error that names the first exported function with an unsupported type.
/// Returns `None` if the compiler refused the component for another reason.
pub(crate) fn find_unsupported(component: &[u8]) -> Option<String> {
    // Only validates types: neither parses nor compiles code.
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut depth = 0_usize;
    let mut exported = Vec::new();
    let mut types = None;
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload.ok()?;
        match &payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentExportSection(section) if depth == 0 => {
                let section = section.clone().into_iter();
                exported.extend(section.filter_map(|export| Some(export.ok()?.name.name)));
            }
            _ => {}
        }
        if let ValidPayload::End(known) = validator.payload(&payload).ok()? {
            types = Some(known);
        }
    }
    let types = types?;
    let mut search = TypeSearch {
        types: types.as_ref(),
        left: MAX_VISITED,
    };
    exported.into_iter().find_map(|name| search.export(name))
}

/// A bounded search for unsupported types.
struct TypeSearch<'a> {
    types: TypesRef<'a>,
    /// The number of types that the search may still visit.
    left: usize,
}

impl TypeSearch<'_> {
    fn export(&mut self, name: &str) -> Option<String> {
        let types = self.types;
        let path = |interface: Option<&str>, function: &str| FunctionPath {
            interface: interface.map(str::to_owned),
            function: function.to_owned(),
        };
        match types.component_item_for_export(name)?.ty {
            ComponentEntityType::Func(id) => self.function(&path(None, name), id),
            ComponentEntityType::Instance(id) => {
                let mut exports = types[id].exports.iter();
                exports.find_map(|(function, item)| match item.ty {
                    ComponentEntityType::Func(id) => self.function(&path(Some(name), function), id),
                    _ => None,
                })
            }
            _ => None,
        }
    }

    fn function(&mut self, path: &FunctionPath, id: ComponentFuncTypeId) -> Option<String> {
        let types = self.types;
        let function = &types[id];
        if function.async_ {
            return Some(format!("{path} cannot be a tool: it is `async`"));
        }
        let mut parameters = function.params.iter();
        let parameter = parameters.find_map(|(name, ty)| {
            let found = self.value(*ty)?;
            Some(format!("its parameter `{name}` has {found}"))
        });
        let found = parameter.or_else(|| {
            let found = self.value(function.result?)?;
            Some(format!("its result has {found}"))
        })?;
        Some(format!(
            "{path} cannot be a tool: {found}, which has no form in JSON"
        ))
    }

    /// Finds an unsupported type in a type and the types that it contains.
    fn value(&mut self, ty: ComponentValType) -> Option<&'static str> {
        let mut rest = vec![ty];
        while let Some(ty) = rest.pop() {
            self.left = self.left.checked_sub(1)?;
            let id = match ty {
                ComponentValType::Primitive(PrimitiveValType::ErrorContext) => {
                    return Some("an `error-context`");
                }
                ComponentValType::Primitive(_) => continue,
                ComponentValType::Type(id) => id,
            };
            match &self.types[id] {
                ComponentDefinedType::Stream { .. } => return Some("a `stream`"),
                ComponentDefinedType::Future { .. } => return Some("a `future`"),
                ComponentDefinedType::Map { .. } => return Some("a `map`"),
                ComponentDefinedType::FixedLengthList { .. } => {
                    return Some("a `list` of fixed length");
                }
                ComponentDefinedType::Primitive(primitive) => {
                    rest.push(ComponentValType::Primitive(*primitive));
                }
                ComponentDefinedType::Record(record) => rest.extend(record.fields.values()),
                ComponentDefinedType::Variant(variant) => {
                    rest.extend(variant.cases.values().filter_map(|case| case.ty));
                }
                ComponentDefinedType::List { element, .. } => rest.push(*element),
                ComponentDefinedType::Tuple(tuple) => rest.extend(tuple.types.iter()),
                ComponentDefinedType::Option { ty, .. } => rest.push(*ty),
                ComponentDefinedType::Result { ok, err, .. } => {
                    rest.extend(ok.iter().chain(err));
                }
                ComponentDefinedType::Flags(_)
                | ComponentDefinedType::Enum(_)
                | ComponentDefinedType::Own(_)
                | ComponentDefinedType::Borrow(_) => {}
            }
        }
        None
    }
}
