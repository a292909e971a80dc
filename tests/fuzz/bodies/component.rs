//! Loads a third-party component, and calls each of its tools.
//!
//! The first byte tells what follows: `c` a component; `m` a component's memory, with its
//! definitions and answers; `e` edits to a component's sections; `f` a function's types and answer.
//! The host refuses the component with a reason, or serves valid tools that `inspect` shows too.

#[path = "functions.rs"]
mod functions;
#[path = "sample.rs"]
mod sample;
#[path = "sections.rs"]
mod sections;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Map, Value};
use skillhost::line::is_hidden;
use skillhost::{CallError, Definition, Grant, Host, Limits, Load, Output, inspect, message};
use skillhost_skills::text::raw_json::RawJson;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use sections::Binary;

/// The maximum number of bytes of memory that `m` fills.
const IMAGE: usize = 4096;

/// The byte that fills the memory in the template. Nowhere else is it repeated so often.
const MARK: u8 = 0xee;

/// Imports that the host offers.
const IMPORTS: &str = r#"
  (import "wasi:random/random@0.2.0" (instance
    (export "get-random-u64" (func (result u64)))))
  (import "wasi:cli/environment@0.2.0" (instance
    (export "get-arguments" (func (result (list string))))
    (export "initial-cwd" (func (result (option string))))))"#;

/// A tool component from a compiler.
const REAL: &[u8] = include_bytes!("../../../guest-tools/dist/list_skills.wasm");

/// The memory of `m` and `e` before any change: one tool.
const ONE_TOOL: &[u8] = include_bytes!("../corpus/component/one-tool");

/// A component whose functions are tools.
const FUNCTIONS: &[u8] = include_bytes!("../corpus/component/functions");

pub(crate) fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    match kind {
        b'm' => load(&with_memory(rest), false),
        b'e' => load(&edited(rest), false),
        b'f' => load(&functions::component(rest), true),
        _ => load(rest, false),
    }
}

/// Loads a component and calls its tools. With `functions`, the host itself makes the definitions,
/// so arguments and answers must fit their schemas.
fn load(bytes: &[u8], functions: bool) {
    let Setup {
        runtime,
        skills,
        tools,
        ..
    } = setup();
    let file = tools.join("x.wasm");
    fs::write(&file, bytes).unwrap();
    let mut limits = Limits::default();
    limits.time = Duration::from_millis(200);
    let mut load = Load::default();
    (load.calls, load.queue) = (1, 1);
    let host = Host::builder()
        .without_embedded_tools()
        .skills(skills)
        .tools(tools)
        .limits(limits)
        .load(load);
    let host = if functions {
        host.grant("x.wasm", Grant::new().skills(["*"]).unwrap())
    } else {
        host
    };
    let host = runtime.block_on(host.build()).unwrap();
    // The grant of a refused component is reported as a problem, too.
    let about_file = |problem: &&String| !problem.starts_with("the configuration grants");
    let problems: Vec<&String> = host.problems().iter().filter(about_file).collect();
    match &*problems {
        [] => {}
        [problem] => {
            assert!(problem.contains("x.wasm`: "), "{problem}");
            assert!(host.grants().is_empty(), "{problem}");
            // `inspect` would run the same loop until its own time limit.
            if problem.contains("it took longer") {
                return;
            }
        }
        problems => panic!("{problems:?}"),
    }
    let inspected = runtime.block_on(inspect(&file, None));
    if problems.is_empty() {
        let definitions = inspected.unwrap().tools.unwrap();
        let names = definitions.iter().map(|definition| &definition.name);
        assert!(names.eq(host.grants().iter().map(|grant| &grant.tool)));
        for definition in &definitions {
            check_definition(definition);
            for pick in 0..3 {
                runtime.block_on(check_answer(&host, definition, pick, functions));
            }
        }
    }
}

/// Checks what an agent sees of a tool.
fn check_definition(definition: &Definition) {
    let name = &definition.name;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    assert!((1..=64).contains(&name.len()) && name.chars().all(plain));
    assert!(!definition.title.is_empty());
    if let Some(rule) = &definition.folder {
        let properties = &definition.input_schema["properties"];
        assert!(properties.get(&rule.skill_property).is_some());
    }
}

/// Checks that the host's answer is well formed, whatever the tool answers.
async fn check_answer(host: &Host, definition: &Definition, pick: usize, functions: bool) {
    let mut arguments = match sample::value(&definition.input_schema, pick) {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    if let Some(rule) = &definition.folder {
        arguments.insert(rule.skill_property.clone(), "a".into());
    }
    let outcome = host.call(&definition.name, arguments.into()).await;
    let unknown = matches!(outcome, Err(CallError::UnknownTool { .. }));
    assert!(!unknown, "{outcome:?}");
    let program = message::program_text(&outcome);
    assert!(RawJson::new(&program).unwrap().is_object(), "{program}");
    if functions {
        check_schemas(definition, &outcome);
    }
    let call = Value::from("x");
    let line = message::call_line(&definition.name, &call);
    assert!(!line.as_str().contains(is_hidden), "{line:?}");
    let shown = message::result_lines(&message::model_text(outcome));
    let mut below = shown.iter().skip(1);
    assert!(
        below.all(|line| line.as_str().starts_with("    ")),
        "{shown:?}"
    );
}

/// Checks that a function accepts arguments that fit its schema, and that its answer
/// fits its schema.
fn check_schemas(definition: &Definition, outcome: &Result<Output, CallError>) {
    match outcome {
        Ok(output) => {
            let schema = Value::Object(definition.output_schema.clone().unwrap());
            let record = output.record();
            let validator = jsonschema::draft202012::new(&schema).unwrap();
            assert!(validator.is_valid(&record), "{record}: {schema}");
        }
        Err(error) => {
            let refused = matches!(error, CallError::Arguments(_));
            assert!(!refused, "{error:?}: {:?}", definition.input_schema);
        }
    }
}

/// Returns a component whose memory begins with these bytes.
fn with_memory(image: &[u8]) -> Vec<u8> {
    let Setup {
        template, offset, ..
    } = setup();
    let mut bytes = template.clone();
    let part = &mut bytes[*offset..offset + IMAGE];
    part.fill(0);
    let length = image.len().min(IMAGE);
    part[..length].copy_from_slice(&image[..length]);
    bytes
}

/// Returns one of the components with edits.
fn edited(edits: &[u8]) -> Vec<u8> {
    let Setup { bases, .. } = setup();
    let (which, edits) = edits.split_first().unwrap_or((&0, &[]));
    // `REAL` is chosen rarely, because it is large and takes long to compile.
    let mut base = match which % 16 {
        0..=3 => bases[0].clone(),
        4..=6 => bases[1].clone(),
        7 => bases[2].clone(),
        _ => bases[3].clone(),
    };
    let mut edits = edits.iter().copied().peekable();
    // The number of edits is limited, because each one traverses the whole component.
    for _ in 0..64 {
        if edits.peek().is_none() {
            break;
        }
        base.edit(&mut edits);
    }
    base.bytes()
}

struct Setup {
    runtime: Runtime,
    skills: PathBuf,
    tools: PathBuf,
    /// A component with a memory full of [`MARK`].
    template: Vec<u8>,
    /// The offset of that memory.
    offset: usize,
    bases: [Binary; 4],
    /// Keeps the folders until the process ends.
    _folder: TempDir,
}

fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (skills, tools) = (folder.path().join("skills"), folder.path().join("tools"));
        fs::create_dir_all(skills.join("a")).unwrap();
        let skill = "---\nname: a\ndescription: Says so.\n---\n";
        fs::write(skills.join("a/SKILL.md"), skill).unwrap();
        fs::create_dir(&tools).unwrap();
        let template = component("", &[MARK; IMAGE]);
        let mark = [MARK; IMAGE];
        let offset = template.windows(IMAGE).position(|part| part == mark);
        let one = &ONE_TOOL[1..];
        let base = |bytes: &[u8]| Binary::new(bytes).unwrap();
        Setup {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap(),
            bases: [
                base(&component("", one)),
                base(&component(IMPORTS, one)),
                base(REAL),
                base(&FUNCTIONS[1..]),
            ],
            skills,
            tools,
            offset: offset.unwrap(),
            template,
            _folder: folder,
        }
    })
}

/// Makes a tool component with these imports and this start of its memory.
fn component(imports: &str, image: &[u8]) -> Vec<u8> {
    let image: String = image.iter().map(|byte| format!("\\{byte:02x}")).collect();
    let text = include_str!("tool.wat");
    let text = text.replace("IMPORTS", imports).replace("IMAGE", &image);
    wat::parse_str(text).unwrap()
}
