//! Finds source locations for offsets in a component, from its debug sections. These are
//! untrusted, so a separate process reads them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::time::Duration;

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use skillhost_helper::{Kind, OWN_PROGRAM, answer_stdin, read_message, write_message};
use skillhost_sandbox::component::child::{ChildProcess, limit_this_process};
use skillhost_skills::broker::Opener;
use wasmparser::{Encoding, Parser, Payload};

/// The argument that starts this program as the process that reads debug sections.
pub(crate) const ARGUMENT: &str = "--locate-frames";

/// The time limit for reading debug sections. Guards against: sections that take forever. A
/// component of 30 MB takes a second.
const MAX_TIME: Duration = Duration::from_secs(20);
/// The maximum size of a request in bytes. A smaller limit is not needed, because the components
/// come from the author's build.
const MAX_REQUEST: usize = u32::MAX as usize;
/// The maximum size of a response in bytes. Guards against: sections with names that fill the
/// memory.
const MAX_RESPONSE: usize = 1 << 20;
/// The maximum number of locations in a response. Guards against: endless inlined functions.
const MAX_LOCATIONS: usize = 200;
/// The maximum number of characters of a name or a path.
const MAX_NAME_CHARS: usize = 300;

/// A location in a source file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Location {
    pub(super) function: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

/// Starts a process that returns the source locations of offsets in a component, innermost
/// function first. `debug` is the component with debug sections, or empty if `component` has
/// them itself.
pub(super) fn request(
    component: &[u8],
    debug: &[u8],
    offsets: &[u64],
) -> anyhow::Result<Vec<Location>> {
    // One request with three messages.
    let mut request = Vec::new();
    for part in [&serde_json::to_vec(offsets)?, component, debug] {
        write_message(&mut request, Kind::Request, part)?;
    }
    let child = ChildProcess {
        program: OWN_PROGRAM.as_ref(),
        argument: ARGUMENT,
        environment: Vec::new(),
        name: "the process that reads debug sections",
        time: MAX_TIME,
        max_answer: MAX_RESPONSE,
        opener: &Opener::DIRECT,
    };
    Ok(serde_json::from_slice(&child.run(&request)?)?)
}

/// Answers requests on stdin. Calls `confine` before it reads any byte.
pub(crate) fn serve(confine: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    limit_this_process(0)?;
    confine()?;
    answer_stdin(MAX_REQUEST, |request| {
        Ok(serde_json::to_vec(&answer(&request)?)?)
    })
}

fn answer(mut request: &[u8]) -> anyhow::Result<Vec<Location>> {
    let mut next = || -> anyhow::Result<Vec<u8>> {
        let message = read_message(&mut request, MAX_REQUEST)?;
        Ok(message.context("the request is truncated")?.bytes)
    };
    let (offsets, component, debug) = (next()?, next()?, next()?);
    let offsets: Vec<u64> = serde_json::from_slice(&offsets)?;
    let debug = if debug.is_empty() { &component } else { &debug };
    locate(&component, debug, &offsets)
}

/// A core module of a component.
#[derive(Default)]
struct CoreModule<'a> {
    /// The position of its code in the component.
    code: Range<usize>,
    /// Its custom sections by name.
    sections: BTreeMap<&'a str, &'a [u8]>,
}

fn locate(component: &[u8], debug: &[u8], offsets: &[u64]) -> anyhow::Result<Vec<Location>> {
    let stripped_modules = modules(component)?;
    let debug_modules = modules(debug)?;
    let mut contexts = BTreeMap::new();
    let mut locations = Vec::new();
    for offset in offsets {
        let offset = usize::try_from(*offset)?;
        let index = stripped_modules
            .iter()
            .position(|module| module.code.contains(&offset));
        let Some(index) = index else { continue };
        let code = &stripped_modules[index].code;
        let module = debug_modules
            .get(index)
            .filter(|module| component.get(code.clone()) == debug.get(module.code.clone()))
            .context("the debug sections are those of another component")?;
        let context = match contexts.entry(index) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(addr2line::Context::from_dwarf(dwarf(module)?)?),
        };
        let mut frames = context
            .find_frames((offset - code.start) as u64)
            .skip_all_loads()?;
        while let Some(frame) = frames.next()? {
            if locations.len() == MAX_LOCATIONS {
                return Ok(locations);
            }
            let name = frame
                .function
                .as_ref()
                .and_then(|name| name.demangle().ok());
            let location = frame.location;
            locations.push(Location {
                function: name.map(|name| shorten(&name)),
                file: location.as_ref().and_then(|at| at.file).map(shorten),
                line: location.as_ref().and_then(|at| at.line),
                column: location.as_ref().and_then(|at| at.column),
            });
        }
    }
    Ok(locations)
}

type Section<'a> = EndianSlice<'a, LittleEndian>;

fn dwarf<'a>(module: &CoreModule<'a>) -> anyhow::Result<Dwarf<Section<'a>>> {
    ensure!(
        module.sections.contains_key(".debug_line"),
        "the component has no debug sections"
    );
    let load = |id: SectionId| {
        let section = module.sections.get(id.name()).copied().unwrap_or_default();
        Ok::<_, anyhow::Error>(EndianSlice::new(section, LittleEndian))
    };
    Dwarf::load(load)
}

/// Returns the core modules of a component, in order.
fn modules(component: &[u8]) -> anyhow::Result<Vec<CoreModule<'_>>> {
    let mut modules: Vec<CoreModule<'_>> = Vec::new();
    // The components and modules around the current section: the index of a module, or `None`
    // for a component.
    let mut enclosing: Vec<Option<usize>> = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::Version { encoding, .. } => {
                let is_module = encoding == Encoding::Module;
                enclosing.push(is_module.then_some(modules.len()));
                if is_module {
                    modules.push(CoreModule::default());
                }
            }
            Payload::End(_) => {
                enclosing.pop();
            }
            payload => {
                let module = enclosing.last().copied().flatten();
                let Some(module) = module.and_then(|index| modules.get_mut(index)) else {
                    continue;
                };
                match payload {
                    Payload::CodeSectionStart { range, .. } => module.code = range,
                    Payload::CustomSection(section) => {
                        module.sections.insert(section.name(), section.data());
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(modules)
}

/// Returns a function's name as in the source.
pub(super) fn demangle(name: &String) -> String {
    shorten(&addr2line::demangle_auto(name.into(), None))
}

fn shorten(name: &str) -> String {
    // Rust's compiler appends a hash.
    let name = match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => name,
    };
    name.chars().take(MAX_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a component with these sections, and the offset of its code.
    fn component(sections: &[(&str, &str)]) -> (Vec<u8>, u64) {
        let sections = sections.iter();
        let sections = sections.map(|(name, data)| format!("(@custom \"{name}\" \"{data}\")"));
        let text = format!(
            "(component (core module {} (func (export \"run\") unreachable)))",
            sections.collect::<String>()
        );
        let bytes = wat::parse_str(text).unwrap();
        let start = modules(&bytes).unwrap()[0].code.start as u64;
        (bytes, start + 3)
    }

    #[test]
    fn survives_hostile_debug_sections() {
        let all = "\\ff".repeat(200);
        let zeros = "\\00".repeat(200);
        for data in ["", "\\01", "abcdefgh", &all, &zeros] {
            for name in [".debug_info", ".debug_line", ".debug_str", ".debug_abbrev"] {
                let (bytes, offset) = component(&[(".debug_line", data), (name, data)]);
                for offset in [0, offset, u64::MAX] {
                    let located = locate(&bytes, &bytes, &[offset]);
                    assert!(located.is_err() || located.unwrap().is_empty(), "{name}");
                }
            }
        }
    }

    #[test]
    fn refuses_debug_sections_of_another_component() {
        let (bytes, offset) = component(&[]);
        let other =
            "(component (core module (@custom \".debug_line\" \"\") (func nop unreachable)))";
        let other = wat::parse_str(other).unwrap();
        for (debug, message) in [
            (&other, "those of another component"),
            (&bytes, "no debug sections"),
            (&b"not a component".to_vec(), "magic"),
        ] {
            let error = locate(&bytes, debug, &[offset]).unwrap_err();
            assert!(format!("{error:#}").contains(message), "{error:#}");
        }
    }

    #[test]
    fn refuses_truncated_request() {
        let mut request = Vec::new();
        for part in [&b"[]"[..], b"component", b""] {
            assert!(answer(&request).is_err(), "{request:?}");
            write_message(&mut request, Kind::Request, part).unwrap();
        }
        let error = answer(&request[..request.len() - 1]).unwrap_err();
        assert!(!format!("{error:#}").contains("magic"), "{error:#}");
        let error = answer(&request).unwrap_err();
        assert!(format!("{error:#}").contains("magic"), "{error:#}");
    }

    #[test]
    fn demangles_function_names() {
        for (name, shown) in [
            ("find_word", "find_word"),
            ("_ZN4tool3run17h0123456789abcdefE", "tool::run"),
            ("tool::run::h0123456789abcdef", "tool::run"),
        ] {
            assert_eq!(demangle(&name.to_owned()), shown);
        }
    }
}
