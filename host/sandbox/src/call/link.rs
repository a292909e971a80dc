//! Links a component to its imports: only granted interfaces are available.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, StoreContextMut};

use super::store::StoreState;
use super::types::{RawSearchResult, RawSkill, RawSkillPage};
use crate::granted_skills::GrantedSkills;
use crate::tool::Stop;
use crate::versions::{self, SupportedVersion};
use crate::wasi::{self, ImportState};
use skillhost_skills::catalog::Skill;

/// Returns a linker with the interfaces of a version. The error names an import
/// that is not granted.
pub(super) fn linker(
    engine: &Engine,
    component: &Component,
    version: Option<&SupportedVersion>,
) -> wasmtime::Result<Linker<StoreState>> {
    let SupportedVersion {
        skills,
        answer,
        scripts,
        ..
    } = version.unwrap_or(versions::newest());
    let imports = component.component_type();
    for (name, import) in imports.imports(engine) {
        if !is_granted(engine, name, &import.ty) {
            if wasi::newer::is_import(name) {
                wasmtime::bail!("it imports `{name}`: {}", wasi::newer::REASON);
            }
            wasmtime::bail!(versions::refusal(name));
        }
    }
    let mut linker = Linker::new(engine);
    wasi::link::<StoreState>(&mut linker)?;
    link_skills(&mut linker, skills)?;
    link_scripts(&mut linker, scripts)?;
    linker.instance(answer)?.func_wrap(
        "text-from-file",
        |mut store: StoreContextMut<'_, StoreState>, (path, limit): (String, u64)| {
            let imports = &mut store.data_mut().imports;
            let size = imports.text_from_file(&path, limit);
            unless_busy(imports, size)
        },
    )?;
    Ok(linker)
}

/// Links the interface through which a guest lists and finds skills.
fn link_skills(linker: &mut Linker<StoreState>, interface: &str) -> wasmtime::Result<()> {
    let mut instance = linker.instance(interface)?;
    instance.func_wrap_async("list", |store, (): ()| {
        Box::new(async move {
            let StoreState { skills, limits, .. } = store.data();
            let listed = skills.list(limits).await;
            let raw =
                |skills: Vec<Skill>| skills.into_iter().map(RawSkill::from).collect::<Vec<_>>();
            skills_or_stop(store, listed.map(raw))
        })
    })?;
    instance.func_wrap_async("page", |store, (from, limit): (Option<String>, u32)| {
        Box::new(async move {
            let StoreState { skills, limits, .. } = store.data();
            let page = skills.page(from, limit as usize, limits).await;
            skills_or_stop(store, page.map(RawSkillPage::from))
        })
    })?;
    instance.func_wrap_async("find", |store, (query, limit): (String, u32)| {
        Box::new(async move {
            let StoreState { skills, limits, .. } = store.data();
            let found = skills.find(query, limit as usize, limits).await;
            skills_or_stop(store, found.map(RawSearchResult::from))
        })
    })?;
    Ok(())
}

/// Links the interface of guests that run scripts.
fn link_scripts(linker: &mut Linker<StoreState>, interface: &str) -> wasmtime::Result<()> {
    let mut instance = linker.instance(interface)?;
    instance.func_wrap(
        "start",
        |mut store: StoreContextMut<'_, StoreState>, (path,): (String,)| {
            let state = store.data_mut();
            let script = state.imports.start_script(&path);
            if script.is_ok() {
                // From now on, the script can call the interface `skills` too, and it may see only
                // its own skill.
                state.skills = GrantedSkills::default();
            }
            unless_busy(&state.imports, script)
        },
    )?;
    instance.func_wrap(
        "load-module",
        |mut store: StoreContextMut<'_, StoreState>, (path,): (String,)| {
            let imports = &mut store.data_mut().imports;
            let module = imports.load_module(&path);
            unless_busy(imports, module)
        },
    )?;
    instance.func_wrap(
        "finished",
        |mut store: StoreContextMut<'_, StoreState>, (exit_code,): (i32,)| {
            store.data_mut().imports.finish_script(exit_code);
            Ok(())
        },
    )?;
    Ok(())
}

/// Returns an answer to a guest. Stops the call if no more files can be opened.
fn unless_busy<T>(imports: &ImportState, answer: T) -> wasmtime::Result<(T,)> {
    match imports.stop {
        Some(Stop::Busy) => wasmtime::bail!("no file can be opened"),
        _ => Ok((answer,)),
    }
}

/// Returns whether a component may import an interface: one that the host offers, or one
/// that only has types.
pub(crate) fn is_granted(engine: &Engine, name: &str, import: &ComponentItem) -> bool {
    if versions::is_offered(name) || wasi::is_linked(name) {
        return true;
    }
    match import {
        ComponentItem::ComponentInstance(instance) => {
            let mut exports = instance.exports(engine).peekable();
            exports.peek().is_some()
                && exports.all(|(_, export)| matches!(export.ty, ComponentItem::Type(_)))
        }
        _ => false,
    }
}

/// Returns an answer about skills to a guest. Stops the call if they could not be read.
fn skills_or_stop<T>(
    mut store: StoreContextMut<'_, StoreState>,
    skills: Result<T, Stop>,
) -> wasmtime::Result<(T,)> {
    skills.map(|skills| (skills,)).or_else(|stop| {
        store.data_mut().imports.stop = Some(stop);
        wasmtime::bail!("there are more skills than the call may list")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::limits::Limits;
    use crate::wasi::fixture;

    #[test]
    fn grants_only_types_and_host_interfaces() {
        let engine = fixture::engine();
        let record = "(type $t (record (field \"a\" u8)))";
        for (import, granted) in [
            ("(import \"t\" (type (sub resource)))".to_owned(), false),
            (
                format!("(import \"a:b/c\" (instance {record} (export \"t\" (type (eq $t)))))"),
                true,
            ),
            (
                "(import \"wasi:clocks/monotonic-clock@0.2.0\" (instance))".to_owned(),
                true,
            ),
            ("(import \"a:b/c\" (instance))".to_owned(), false),
            ("(import \"f\" (func))".to_owned(), false),
            (
                "(import \"a:b/c\" (instance (export \"f\" (func))))".to_owned(),
                false,
            ),
        ] {
            let bytes = wat::parse_str(format!("(component {import})")).unwrap();
            let component = Component::new(&engine.engine, bytes).unwrap();
            let imports = component.component_type();
            let found = imports.imports(&engine.engine).next();
            let found = found.unwrap_or_else(|| panic!("{import}"));
            let found = is_granted(&engine.engine, found.0, &found.1.ty);
            assert_eq!(found, granted, "{import}");
        }
    }

    #[test]
    fn call_ends_when_descriptors_run_out() {
        let mut imports = fixture::imports(None, &[], &Limits::default());
        for (stop, ends) in [
            (None, false),
            (Some(Stop::DirectoryEntries(1)), false),
            (Some(Stop::Busy), true),
        ] {
            imports.stop = stop;
            assert_eq!(unless_busy(&imports, ()).is_err(), ends);
        }
    }
}
