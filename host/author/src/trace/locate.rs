//! Finds source locations for offsets in a component, from its debug sections. These are
//! untrusted, so a separate process reads them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::env;
use std::io::{self, Read as _};
use std::ops::Range;
use std::time::Duration;

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use skillhost_sandbox::component::child::{ChildProcess, limit_this_process};
use wasmparser::{Encoding, Parser, Payload};

use skillhost_program::terminal;

/// The argument that starts this program as the process that reads debug sections.
pub(crate) const ARGUMENT: &str = "--locate-frames";

/// The time limit for reading debug sections. Guards against: sections that take forever. A
/// component of 30 MB takes a second.
const MAX_TIME: Duration = Duration::from_secs(20);
/// The maximum size of a response in bytes. Guards against: sections with names that fill the
/// memory.
const MAX_RESPONSE: u64 = 1 << 20;
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

/// The first line of a request. The bytes of both components follow.
#[derive(Serialize, Deserialize)]
struct RequestHeader {
    /// The length of the component.
    component: usize,
    /// The length of the component with debug sections.
    debug: usize,
    offsets: Vec<u64>,
}

/// Starts a process that returns the source locations of offsets in a component, innermost
/// function first. `debug` is the component with debug sections, or empty if `component` has
/// them itself.
pub(super) fn request(
    component: &[u8],
    debug: &[u8],
    offsets: &[u64],
) -> anyhow::Result<Vec<Location>> {
    let mut request = serde_json::to_vec(&RequestHeader {
        component: component.len(),
        debug: debug.len(),
        offsets: offsets.to_vec(),
    })?;
    request.push(b'\n');
    request.extend_from_slice(component);
    request.extend_from_slice(debug);
    let program = env::current_exe()?;
    let child = ChildProcess {
        program: &program,
        argument: ARGUMENT,
        environment: Vec::new(),
        purpose: "reading the debug sections of",
        time: MAX_TIME,
        max_output: MAX_RESPONSE,
    };
    Ok(serde_json::from_slice(&child.run(&request)?)?)
}

/// Answers a request on stdin. Calls `confine` before it reads any byte.
pub(crate) fn serve(confine: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    limit_this_process(0)?;
    confine()?;
    let mut request = Vec::new();
    io::stdin().lock().read_to_end(&mut request)?;
    let locations = answer(&request)?;
    terminal::print_json(&serde_json::to_value(&locations)?)
}

fn answer(request: &[u8]) -> anyhow::Result<Vec<Location>> {
    let end = request.iter().position(|byte| *byte == b'\n');
    let (header, bytes) = request.split_at(end.context("the request has no header")?);
    let header: RequestHeader = serde_json::from_slice(header)?;
    let (component, debug) = bytes[1..]
        .split_at_checked(header.component)
        .context("the component is truncated")?;
    let debug = if header.debug == 0 { component } else { debug };
    locate(component, debug, &header.offsets)
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
    let mut open: Vec<Option<usize>> = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::Version { encoding, .. } => {
                let is_module = encoding == Encoding::Module;
                open.push(is_module.then_some(modules.len()));
                if is_module {
                    modules.push(CoreModule::default());
                }
            }
            Payload::End(_) => {
                open.pop();
            }
            payload => {
                let module = open.last().copied().flatten();
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
            (&b"no component".to_vec(), "magic"),
        ] {
            let error = locate(&bytes, debug, &[offset]).unwrap_err();
            assert!(format!("{error:#}").contains(message), "{error:#}");
        }
    }

    #[test]
    fn refuses_truncated_request() {
        for request in [
            &b""[..],
            b"{}\n",
            b"{\"component\": 9, \"debug\": 0, \"offsets\": []}\nshort",
        ] {
            assert!(answer(request).is_err());
        }
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
