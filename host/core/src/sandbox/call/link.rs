//! Linking a component to its imports: the granted interfaces, and no others.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, StoreContextMut};

use super::store::StoreState;
use super::types::RawSkill;
use crate::sandbox::versions::{self, SupportedVersion};
use crate::sandbox::wasi;
use crate::tool::Stop;

/// Returns a linker with the interfaces of a version. The error names an import
/// that is not granted.
pub(super) fn linker(
    engine: &Engine,
    component: &Component,
    version: Option<&SupportedVersion>,
) -> wasmtime::Result<Linker<StoreState>> {
    let SupportedVersion { skills, answer, .. } = version.unwrap_or(versions::newest());
    let imports = component.component_type();
    for (name, import) in imports.imports(engine) {
        if !is_granted(engine, name, &import.ty) {
            wasmtime::bail!(versions::refusal(name));
        }
    }
    let mut linker = Linker::new(engine);
    wasi::link::<StoreState>(&mut linker)?;
    linker
        .instance(skills)?
        .func_wrap_async("list", |store, (): ()| Box::new(list_skills(store)))?;
    linker.instance(answer)?.func_wrap(
        "text-from-file",
        |mut store: StoreContextMut<'_, StoreState>, (path, limit): (String, u64)| {
            let imports = &mut store.data_mut().imports;
            let size = imports.text_from_file(&path, limit);
            // The call ends here if it cannot open a file any more.
            match imports.stop {
                Some(Stop::Busy) => wasmtime::bail!("no file can be opened"),
                _ => Ok((size,)),
            }
        },
    )?;
    Ok(linker)
}

/// Checks whether a component may import this: an interface that the host has, or
/// one of types alone, which gives it nothing.
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

/// Lists the skills that the call may know.
async fn list_skills(
    mut store: StoreContextMut<'_, StoreState>,
) -> wasmtime::Result<(Vec<RawSkill>,)> {
    let StoreState { skills, limits, .. } = store.data();
    match skills.list(limits).await {
        Ok(skills) => {
            let raw = skills.into_iter().map(|skill| RawSkill {
                name: skill.name,
                description: skill.description,
            });
            Ok((raw.collect(),))
        }
        Err(stop) => {
            store.data_mut().imports.stop = Some(stop);
            wasmtime::bail!("there are more skills than the call may list")
        }
    }
}
