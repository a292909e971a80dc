//! Names and debug sections of a component in Rust or C: compiled into it for traces, and
//! taken out of what is shipped. `trace` reads them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use skillhost::named_file;
use wasm_encoder::Encode as _;
use wasmparser::{BinaryReader, Parser};

use super::Fault;
use super::project::{BUILT_BYTES, Project};
use crate::trace::DEBUG_FILE;

/// The most components and modules in one another. Guards against: a linker of the
/// project that makes a file without end.
const MAX_DEPTH: usize = 16;

/// Sections of a core module that a call has no use for. Those of a component stay:
/// `inspect` shows them.
fn is_debug(section: &str) -> bool {
    section.starts_with(".debug_")
        || ["name", "producers", "target_features", "linking"].contains(&section)
        || section.starts_with("reloc.")
}

/// Returns the component without debug sections, and keeps the whole one in `build`.
pub(super) fn split(project: &Project, component: &Path) -> Result<PathBuf, Fault> {
    let build = project.scratch("")?;
    let (debug, small) = (
        build.join(file_name(DEBUG_FILE)),
        build.join("component.wasm"),
    );
    let split = || {
        let whole = named_file::read(component, BUILT_BYTES)?;
        let stripped = strip(&whole, 0)?;
        fs::write(&debug, &whole)?;
        fs::write(&small, stripped)?;
        anyhow::Ok(())
    };
    split().map_err(|error| {
        Fault::missing(format!("cannot strip `{}`: {error:#}", component.display()))
    })?;
    Ok(small)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a component, or a core module, without the debug sections of its modules.
fn strip(wasm: &[u8], depth: usize) -> anyhow::Result<Vec<u8>> {
    if depth > MAX_DEPTH {
        bail!("it has more than {MAX_DEPTH} components in one another");
    }
    const HEADER: usize = 8;
    /// Sections of a component that hold a module, and a component.
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
    fn strips_the_modules_of_a_component_and_nothing_else() {
        let wat = |name: &str, custom: &str| {
            let text = format!(
                "(component (@custom \"outer\" \"kept\") (component (core module {custom} \
                 (@custom \"other\" \"kept\") (func {name} (export \"run\")))))"
            );
            wat::parse_str(text).unwrap()
        };
        let whole = wat(
            "$a",
            "(@custom \".debug_line\" \"x\") (@custom \"producers\" \"\")",
        );
        let stripped = strip(&whole, 0).unwrap();
        assert_eq!(stripped, strip(&wat("", ""), 0).unwrap());
        assert_eq!(stripped, strip(&stripped, 0).unwrap());
        assert!(stripped.len() < whole.len());
        for kept in [&b"outer"[..], b"other"] {
            assert!(stripped.windows(kept.len()).any(|bytes| bytes == kept));
        }
        wasmparser::validate(&stripped).unwrap();
        // Cut inside of a section.
        assert!(strip(&whole[..whole.len() - 1], 0).is_err());
    }
}
