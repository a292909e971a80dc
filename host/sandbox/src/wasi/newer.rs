//! Detects components built for WASI 0.3, which the host does not run. The errors of the compiler
//! and the linker do not tell a component's author what to do.

use wasmparser::{CanonicalFunction, CanonicalOption, Parser, Payload};

/// The reason why a component for WASI 0.3 is refused, and what to do.
pub(crate) const REASON: &str = "it is built for WASI 0.3, and this host runs WASI 0.2: build it \
    for `wasm32-wasip2` or with `skillhost build`";

/// Returns whether an import belongs to WASI 0.3 or to a draft of it.
pub(crate) fn is_import(name: &str) -> bool {
    let interface = name.strip_prefix("wasi:");
    let version = interface.and_then(|interface| interface.split_once('@'));
    let patch = version.and_then(|(_, version)| version.strip_prefix("0.3"));
    patch.is_some_and(|patch| !patch.starts_with(|first: char| first.is_ascii_digit()))
}

/// Returns whether a component imports an interface of WASI 0.3.
pub(crate) fn has_import(component: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut payloads = Parser::new(0).parse_all(component).map_while(Result::ok);
    payloads.any(|payload| match payload {
        Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
            depth += 1;
            false
        }
        Payload::End(_) => {
            depth = depth.saturating_sub(1);
            false
        }
        Payload::ComponentImportSection(imports) if depth == 0 => {
            let mut imports = imports.into_iter().map_while(Result::ok);
            imports.any(|import| is_import(import.name.name))
        }
        _ => false,
    })
}

/// Returns whether a component, or one within it, uses the asynchronous functions of the component
/// model, which WASI 0.3 needs.
pub(crate) fn is_async(component: &[u8]) -> bool {
    let mut payloads = Parser::new(0).parse_all(component).map_while(Result::ok);
    payloads.any(|payload| match payload {
        Payload::ComponentCanonicalSection(functions) => {
            let mut functions = functions.into_iter().map_while(Result::ok);
            functions.any(|function| is_async_function(&function))
        }
        _ => false,
    })
}

fn is_async_function(function: &CanonicalFunction) -> bool {
    match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
            options.contains(&CanonicalOption::Async)
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. }
        | CanonicalFunction::ThreadSpawnRef { .. }
        | CanonicalFunction::ThreadSpawnIndirect { .. }
        | CanonicalFunction::ThreadAvailableParallelism => false,
        // Tasks, streams, futures, and functions that wait for them.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_imports_of_wasi_0_3_and_its_drafts() {
        for (name, is_newer) in [
            ("wasi:cli/environment@0.3.0", true),
            ("wasi:http/types@0.3.1", true),
            ("wasi:clocks/monotonic-clock@0.3.0-rc-2025-09-16", true),
            ("wasi:cli/environment@0.3", true),
            ("wasi:cli/environment@0.2.3", false),
            ("wasi:cli/environment@0.30.0", false),
            ("wasi:cli/environment", false),
            ("other:cli/environment@0.3.0", false),
        ] {
            assert_eq!(is_import(name), is_newer, "{name}");
        }
    }
}
