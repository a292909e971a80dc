//! Removes names and debug sections from a component in Rust or C before it is shipped. `trace`
//! reads them from a copy of the original, in the project's folder `build`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use skillhost_skills::named_file;
use wasm_encoder::Encode as _;
use wasmparser::{BinaryReader, Parser};

use super::BuildError;
use super::project::{MAX_BUILT_BYTES, Project};
use crate::trace::DEBUG_FILE;

/// The maximum depth of nested components and modules. Guards against: a file that overflows
/// the stack.
const MAX_DEPTH: usize = 16;

/// Checks whether a section of a core module serves only debuggers and linkers. Sections of
/// components stay: `inspect` shows them.
fn is_debug(section: &str) -> bool {
    section.starts_with(".debug_")
        || ["name", "producers", "target_features", "linking"].contains(&section)
        || section.starts_with("reloc.")
}

/// Returns the file of the component without debug sections, and copies the original to the
/// folder `build`.
pub(super) fn split(project: &Project, component: &Path) -> Result<PathBuf, BuildError> {
    let build = project.build_folder("")?;
    let debug_file = build.join(file_name(DEBUG_FILE));
    let stripped_file = build.join("component.wasm");
    let split = || {
        let original = named_file::read(component, MAX_BUILT_BYTES)?;
        let stripped = strip(&original, 0)?;
        fs::write(&debug_file, &original)?;
        fs::write(&stripped_file, stripped)?;
        anyhow::Ok(())
    };
    split().map_err(|error| {
        BuildError::setup(format!("cannot strip `{}`: {error:#}", component.display()))
    })?;
    Ok(stripped_file)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a component, or a core module, without the debug sections of its modules.
fn strip(wasm: &[u8], depth: usize) -> anyhow::Result<Vec<u8>> {
    if depth > MAX_DEPTH {
        bail!("components are nested more than {MAX_DEPTH} deep");
    }
    const HEADER: usize = 8;
    /// The ids of a component's sections that contain a module or a component.
    const NESTED: [u8; 2] = [1, 4];
    let is_component = Parser::is_component(wasm);
    let mut reader = BinaryReader::new(wasm, 0);
    let mut stripped = reader.read_bytes(HEADER)?.to_vec();
    while !reader.eof() {
        let id = reader.read_u8()?;
        let length = reader.read_var_u32()?;
        let content = reader.read_bytes(length as usize)?;
        let inner = match (is_component, id) {
            (true, id) if NESTED.contains(&id) => Some(strip(content, depth + 1)?),
            (false, 0) if is_debug(BinaryReader::new(content, 0).read_string()?) => continue,
            _ => None,
        };
        stripped.push(id);
        inner.as_deref().unwrap_or(content).encode(&mut stripped);
    }
    Ok(stripped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_only_modules() {
        let wat = |name: &str, custom: &str| {
            let text = format!(
                "(component (@custom \"outer\" \"kept\") (component (core module {custom} \
                 (@custom \"other\" \"kept\") (func {name} (export \"run\")))))"
            );
            wat::parse_str(text).unwrap()
        };
        let original = wat(
            "$a",
            "(@custom \".debug_line\" \"x\") (@custom \"producers\" \"\")",
        );
        let stripped = strip(&original, 0).unwrap();
        assert_eq!(stripped, strip(&wat("", ""), 0).unwrap());
        assert_eq!(stripped, strip(&stripped, 0).unwrap());
        assert!(stripped.len() < original.len());
        for name in [&b"outer"[..], b"other"] {
            assert!(stripped.windows(name.len()).any(|bytes| bytes == name));
        }
        wasmparser::validate(&stripped).unwrap();
        // The component ends inside a section.
        assert!(strip(&original[..original.len() - 1], 0).is_err());
    }
}
