//! Finds the imports that a component does not use.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentTypeRef, Parser, Payload,
};

/// Returns the names of the interfaces that a component imports and does not use. The component
/// must be one that hosts accept: reading stops at the first error.
pub(super) fn unused(component: &[u8]) -> Vec<String> {
    // The name of each instance that is an unused import. `None` for other instances.
    let mut instances = Vec::new();
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(component).map_while(Result::ok) {
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            // Only the outermost component imports from the host.
            _ if depth != 1 => {}
            Payload::ComponentImportSection(imports) => {
                let imports = imports.into_iter().map_while(Result::ok);
                let imports =
                    imports.filter(|import| matches!(import.ty, ComponentTypeRef::Instance(_)));
                instances.extend(imports.map(|import| Some(import.name.name.to_owned())));
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases.into_iter().map_while(Result::ok) {
                    if let ComponentAlias::InstanceExport {
                        kind,
                        instance_index,
                        ..
                    } = alias
                    {
                        mark_used(&mut instances, instance_index);
                        add_instance(&mut instances, kind);
                    }
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.into_iter().map_while(Result::ok) {
                    for index in used_instances(&instance) {
                        mark_used(&mut instances, index);
                    }
                    instances.push(None);
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports.into_iter().map_while(Result::ok) {
                    if export.kind == ComponentExternalKind::Instance {
                        mark_used(&mut instances, export.index);
                    }
                    add_instance(&mut instances, export.kind);
                }
            }
            _ => {}
        }
    }
    instances.into_iter().flatten().collect()
}

/// Returns the indices of the instances that `instance` is made from.
fn used_instances(instance: &ComponentInstance<'_>) -> Vec<u32> {
    let parts: Vec<_> = match instance {
        ComponentInstance::Instantiate { args, .. } => {
            args.iter().map(|it| (it.kind, it.index)).collect()
        }
        ComponentInstance::FromExports(exports) => {
            exports.iter().map(|it| (it.kind, it.index)).collect()
        }
    };
    let parts = parts.into_iter();
    let parts = parts.filter(|(kind, _)| *kind == ComponentExternalKind::Instance);
    parts.map(|(_, index)| index).collect()
}

/// Adds the instance that an alias or an export defines, if it defines one.
fn add_instance(instances: &mut Vec<Option<String>>, kind: ComponentExternalKind) {
    if kind == ComponentExternalKind::Instance {
        instances.push(None);
    }
}

fn mark_used(instances: &mut [Option<String>], index: u32) {
    if let Some(instance) = instances.get_mut(index as usize) {
        *instance = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_imports_that_nothing_refers_to() {
        let component = wat::parse_str(
            r#"(component
                (import "a:a/unused" (instance $unused (export "f" (func))))
                (import "a:a/called" (instance $called (export "f" (func))))
                (import "a:a/typed" (instance $typed (export "t" (type (sub resource)))))
                (import "a:a/passed" (instance $passed (export "f" (func))))
                (import "a:a/exported" (instance $exported (export "f" (func))))
                (alias export $called "f" (func $f))
                (core func $lowered (canon lower (func $f)))
                (alias export $typed "t" (type $t))
                (component $inner
                    (import "inner" (instance $x (export "f" (func)))))
                (instance $i (instantiate $inner (with "inner" (instance $passed))))
                (export "e" (instance $exported))
            )"#,
        );
        assert_eq!(unused(&component.unwrap()), ["a:a/unused"]);
        assert_eq!(unused(b"\0asm"), [""; 0]);
    }
}
