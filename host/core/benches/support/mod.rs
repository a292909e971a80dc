//! Helpers of the benchmarks: folders of skills, components, a runtime.
#![allow(dead_code, reason = "each benchmark uses only some of these helpers")]

use std::fs;
use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;

pub(crate) const SIZES: [(&str, usize); 3] =
    [("4KiB", 4 << 10), ("64KiB", 64 << 10), ("1MiB", 1 << 20)];

/// A line of text of typical length.
const LINE: &str = "A line of ordinary text, as files of skills have them.\n";

/// Returns a text of `bytes` bytes.
pub(crate) fn text(bytes: usize) -> String {
    LINE.repeat(bytes / LINE.len() + 1)[..bytes].to_owned()
}

/// Writes a skill whose SKILL.md has `bytes` bytes.
pub(crate) fn write_skill(root: &Path, name: &str, bytes: usize) -> PathBuf {
    let folder = root.join(name);
    fs::create_dir(&folder).unwrap();
    let head = format!("---\nname: {name}\ndescription: A skill to measure with.\n---\n");
    let body = text(bytes.saturating_sub(head.len()));
    fs::write(folder.join("SKILL.md"), format!("{head}{body}")).unwrap();
    folder
}

/// Makes a folder with `count` skills of a kilobyte each, named `skill-00000` and so on.
pub(crate) fn skills(count: usize) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for number in 0..count {
        write_skill(root.path(), &format!("skill-{number:05}"), 1 << 10);
    }
    root
}

/// Returns the folder of the tests' components.
pub(crate) fn guests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guests/dist")
}

/// Makes a folder with `count` different components. Each has one tool, named `count_00000` and so
/// on.
pub(crate) fn components(count: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let component = fs::read(guests().join("count_lines.wasm")).unwrap();
    for number in 0..count {
        let name = component_tool(number);
        let other = replaced(&component, b"count_lines", name.as_bytes());
        fs::write(folder.path().join(format!("{name}.wasm")), other).unwrap();
    }
    folder
}

/// Returns the name of the tool in one of the [`components`].
pub(crate) fn component_tool(number: usize) -> String {
    format!("count_{number:05}")
}

/// Returns `bytes` with each `from` replaced by `to`, which has the same length.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while at + from.len() <= bytes.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
        at += 1;
    }
    bytes
}

/// Makes a runtime with one thread.
pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}
