//! Loading a stranger's component, and a call of each tool that it then has.
//! The first letter says what the rest is: `c` a component; `m` the memory of
//! one whose definitions and answers stand in it; `e` changes to the sections
//! of one; `f` the types and the answer of a function. It is refused with a
//! reason, or its tools are what they should be, and `inspect` says the same.

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

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use skillhost::line::is_hidden;
use skillhost::{CallError, Definition, Grant, Host, Limits, Load, Output, inspect, message};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use sections::Binary;

/// The most that `m` fills of the memory.
const IMAGE: usize = 4096;

/// What that part is made of in the text of the component: bytes that occur
/// nowhere else in it.
const MARK: u8 = 0xee;

/// Imports that a tool is given.
const IMPORTS: &str = r#"
  (import "wasi:random/random@0.2.0" (instance
    (export "get-random-u64" (func (result u64)))))
  (import "wasi:cli/environment@0.2.0" (instance
    (export "get-arguments" (func (result (list string))))
    (export "initial-cwd" (func (result (option string))))))"#;

/// A tool component as a compiler makes it.
const REAL: &[u8] = include_bytes!("../../../guest-tools/dist/list_skills.wasm");

/// What `m` and `e` say as long as nothing is changed: one tool.
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

/// `functions`: its definitions are the host's, and hold.
fn load(bytes: &[u8], functions: bool) {
    let World {
        runtime,
        skills,
        tools,
        ..
    } = world();
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
    let host = match functions {
        true => host.grant("x.wasm", Grant::new().skills(["*"]).unwrap()),
        false => host,
    };
    let host = runtime.block_on(host.build()).unwrap();
    // A grant for a tool that is refused is one, too.
    let about_file = |problem: &&String| !problem.starts_with("the configuration grants");
    let problems: Vec<&String> = host.problems().iter().filter(about_file).collect();
    match &*problems {
        [] => {}
        [problem] => {
            assert!(problem.contains("x.wasm`: "), "{problem}");
            assert!(host.grants().is_empty(), "{problem}");
            // A loop; `inspect` would wait for it to the end.
            if problem.contains("it took longer") {
                return;
            }
        }
        problems => panic!("{problems:?}"),
    }
    let seen = runtime.block_on(inspect(&file, None));
    if problems.is_empty() {
        let seen = seen.unwrap().tools.unwrap();
        let names = seen.iter().map(|definition| &definition.name);
        assert!(names.eq(host.grants().iter().map(|grant| &grant.tool)));
        for definition in &seen {
            sound(definition);
            for pick in 0..3 {
                runtime.block_on(answer(&host, definition, pick, functions));
            }
        }
    }
}

/// What an agent is shown of a tool.
fn sound(definition: &Definition) {
    let name = &definition.name;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    assert!((1..=64).contains(&name.len()) && name.chars().all(plain));
    assert!(!definition.title.is_empty());
    if let Some(rule) = &definition.folder {
        let properties = &definition.input_schema["properties"];
        assert!(properties.get(&rule.skill_property).is_some());
    }
}

/// Whatever it answers, the host's own answer is well formed.
async fn answer(host: &Host, definition: &Definition, pick: usize, functions: bool) {
    let mut arguments = match sample::of(&definition.input_schema, pick) {
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
    let json: &RawValue = serde_json::from_str(&program).unwrap();
    assert!(json.get().starts_with('{'), "{program}");
    if functions {
        promised(definition, &outcome);
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

/// What fits the schema of a function is taken, and what it gives is what it
/// promises.
fn promised(definition: &Definition, outcome: &Result<Output, CallError>) {
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

/// The component whose memory begins so.
fn with_memory(image: &[u8]) -> Vec<u8> {
    let World { template, at, .. } = world();
    let mut bytes = template.clone();
    let part = &mut bytes[*at..at + IMAGE];
    part.fill(0);
    let length = image.len().min(IMAGE);
    part[..length].copy_from_slice(&image[..length]);
    bytes
}

/// One of the components, with changes.
fn edited(edits: &[u8]) -> Vec<u8> {
    let World { bases, .. } = world();
    let (which, edits) = edits.split_first().unwrap_or((&0, &[]));
    // The third is large, and takes long to compile.
    let mut base = match which % 16 {
        0..=3 => bases[0].clone(),
        4..=6 => bases[1].clone(),
        7 => bases[2].clone(),
        _ => bases[3].clone(),
    };
    let mut edits = edits.iter().copied().peekable();
    // Each change costs going through the whole.
    for _ in 0..64 {
        if edits.peek().is_none() {
            break;
        }
        base.edit(&mut edits);
    }
    base.bytes()
}

struct World {
    runtime: Runtime,
    skills: PathBuf,
    tools: PathBuf,
    /// A component with a memory full of [`MARK`], and where that is in it.
    template: Vec<u8>,
    at: usize,
    bases: [Binary; 4],
    /// Kept, so that the folders are.
    _folder: TempDir,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (skills, tools) = (folder.path().join("skills"), folder.path().join("tools"));
        fs::create_dir_all(skills.join("a")).unwrap();
        let skill = "---\nname: a\ndescription: Says so.\n---\n";
        fs::write(skills.join("a/SKILL.md"), skill).unwrap();
        fs::create_dir(&tools).unwrap();
        let template = component("", &[MARK; IMAGE]);
        let mark = [MARK; IMAGE];
        let at = template.windows(IMAGE).position(|part| part == mark);
        let one = &ONE_TOOL[1..];
        let base = |bytes: &[u8]| Binary::new(bytes).unwrap();
        World {
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
            at: at.unwrap(),
            template,
            _folder: folder,
        }
    })
}

/// A tool component of these imports, with this at the start of its memory.
fn component(imports: &str, image: &[u8]) -> Vec<u8> {
    let image: String = image.iter().map(|byte| format!("\\{byte:02x}")).collect();
    let text = include_str!("tool.wat");
    let text = text.replace("IMPORTS", imports).replace("IMAGE", &image);
    wat::parse_str(text).unwrap()
}
