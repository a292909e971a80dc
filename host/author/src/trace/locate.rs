//! Places in sources, by positions in a component, from its debug sections. They are a
//! stranger's input, so a process of its own reads them.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, Read as _};
use std::ops::Range;
use std::time::Duration;

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use skillhost::internal::{ChildProcess, limit_this_process};
use wasmparser::{Encoding, Parser, Payload};

use skillhost_program::terminal;

/// The argument that starts the program as the process that reads debug sections.
pub(crate) const ARGUMENT: &str = "--locate-frames";

/// The longest time to read them. Guards against: sections that are made to take
/// forever. A component of 30 MB takes a second.
const TIME: Duration = Duration::from_secs(20);
/// The most bytes of an answer. Guards against: sections with names that fill the
/// memory.
const MAX_ANSWER: u64 = 1 << 20;
/// The most places of all positions together. Guards against: functions that are inlined
/// into one another without end.
const MAX_PLACES: usize = 200;
/// The most characters of a name or a path.
const MAX_NAME: usize = 300;

/// A place in a source.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) function: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

/// What stands before the bytes of a question.
#[derive(Serialize, Deserialize)]
struct Question {
    component: usize,
    debug: usize,
    offsets: Vec<u64>,
}

/// Asks a process for the places of positions in a component, innermost function first.
/// `debug` is the component before it was stripped; empty if it was not.
pub(super) fn ask(component: &[u8], debug: &[u8], offsets: &[u64]) -> anyhow::Result<Vec<Place>> {
    let mut question = serde_json::to_vec(&Question {
        component: component.len(),
        debug: debug.len(),
        offsets: offsets.to_vec(),
    })?;
    question.push(b'\n');
    question.extend_from_slice(component);
    question.extend_from_slice(debug);
    let program = env::current_exe()?;
    let child = ChildProcess {
        program: &program,
        argument: ARGUMENT,
        environment: Vec::new(),
        purpose: "reading the debug sections of",
        time: TIME,
        max_output: MAX_ANSWER,
    };
    Ok(serde_json::from_slice(&child.run(&question)?)?)
}

/// Answers a question on stdin: the task of that process. `confine` is called before a byte
/// of it is read.
pub(crate) fn answer(confine: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    limit_this_process(0)?;
    confine()?;
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let places = read_question(&input)?;
    terminal::print_json(&serde_json::to_value(&places)?)
}

fn read_question(input: &[u8]) -> anyhow::Result<Vec<Place>> {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (question, bytes) = input.split_at(end.context("there is no question")?);
    let question: Question = serde_json::from_slice(question)?;
    let (component, debug) = bytes[1..]
        .split_at_checked(question.component)
        .context("the component is not whole")?;
    let debug = match question.debug {
        0 => component,
        _ => debug,
    };
    locate(component, debug, &question.offsets)
}

/// A core module: where its code lies in the component, and its debug sections.
#[derive(Default)]
struct CoreModule<'a> {
    code: Range<usize>,
    sections: BTreeMap<&'a str, &'a [u8]>,
}

fn locate(component: &[u8], debug: &[u8], offsets: &[u64]) -> anyhow::Result<Vec<Place>> {
    let stripped = modules(component)?;
    let whole = modules(debug)?;
    let mut contexts = BTreeMap::new();
    let mut places = Vec::new();
    for offset in offsets {
        let offset = usize::try_from(*offset)?;
        let found = stripped
            .iter()
            .position(|module| module.code.contains(&offset));
        let Some(index) = found else { continue };
        let code = &stripped[index].code;
        let module = whole
            .get(index)
            .filter(|module| component.get(code.clone()) == debug.get(module.code.clone()));
        let module = module.context("the debug sections are those of another component")?;
        let context = match contexts.entry(index) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(addr2line::Context::from_dwarf(dwarf(module)?)?)
            }
        };
        let mut frames = context
            .find_frames((offset - code.start) as u64)
            .skip_all_loads()?;
        while let Some(frame) = frames.next()? {
            if places.len() == MAX_PLACES {
                return Ok(places);
            }
            let name = frame
                .function
                .as_ref()
                .and_then(|name| name.demangle().ok());
            let location = frame.location;
            places.push(Place {
                function: name.map(|name| shortened(&name)),
                file: location.as_ref().and_then(|at| at.file).map(shortened),
                line: location.as_ref().and_then(|at| at.line),
                column: location.as_ref().and_then(|at| at.column),
            });
        }
    }
    Ok(places)
}

type Section<'a> = EndianSlice<'a, LittleEndian>;

fn dwarf<'a>(module: &CoreModule<'a>) -> anyhow::Result<Dwarf<Section<'a>>> {
    ensure!(
        module.sections.contains_key(".debug_line"),
        "it has no debug sections"
    );
    let load = |id: SectionId| {
        let section = module.sections.get(id.name()).copied().unwrap_or_default();
        Ok::<_, anyhow::Error>(EndianSlice::new(section, LittleEndian))
    };
    Dwarf::load(load)
}

/// Returns the core modules of a component, in their order.
fn modules(component: &[u8]) -> anyhow::Result<Vec<CoreModule<'_>>> {
    let mut found: Vec<CoreModule<'_>> = Vec::new();
    // For each component or module around a section, the module's place.
    let mut open: Vec<Option<usize>> = Vec::new();
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::Version { encoding, .. } => {
                let is_module = encoding == Encoding::Module;
                open.push(is_module.then_some(found.len()));
                if is_module {
                    found.push(CoreModule::default());
                }
            }
            Payload::End(_) => {
                open.pop();
            }
            payload => {
                let module = open.last().copied().flatten();
                let Some(module) = module.and_then(|at| found.get_mut(at)) else {
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
    Ok(found)
}

/// Returns a function's name as its author wrote it.
pub(super) fn demangled(name: &String) -> String {
    shortened(&addr2line::demangle_auto(name.into(), None))
}

fn shortened(name: &str) -> String {
    // Rust's compiler adds a hash.
    let name = match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => name,
    };
    name.chars().take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a component with these sections, and returns the position of its code.
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
    fn hostile_debug_sections_are_an_error_or_nothing() {
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
    fn takes_no_lines_from_the_debug_sections_of_another_component() {
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
    fn a_question_that_is_not_whole_is_an_error() {
        for question in [
            &b""[..],
            b"{}\n",
            b"{\"component\": 9, \"debug\": 0, \"offsets\": []}\nshort",
        ] {
            assert!(read_question(question).is_err());
        }
    }

    #[test]
    fn shows_a_functions_name_as_its_author_wrote_it() {
        for (name, shown) in [
            ("find_word", "find_word"),
            ("_ZN4tool3run17h0123456789abcdefE", "tool::run"),
            ("tool::run::h0123456789abcdef", "tool::run"),
        ] {
            assert_eq!(demangled(&name.to_owned()), shown);
        }
    }
}
