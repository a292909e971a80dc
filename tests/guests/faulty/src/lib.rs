//! Tools with one fault each, as authors make them. `tests/conformance.rs` names the check of a
//! conformance run that finds each fault.

use skillhost_guest::bindings::{self, tools};
use skillhost_guest::{Access, Failure, Output, SkillPath, Tool};
use wasip2::random::random::get_random_u64;

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of a skill
        #[serde(rename = "skill_name")]
        _skill_name: String,
        /// Path of a file
        path: String,
    }
}

skillhost_guest::arguments! {
    struct Noted {
        /// Name of a skill
        #[serde(rename = "skill_name")]
        _skill_name: String,
        /// Anything
        #[serde(default = "nothing")]
        note: serde_json::Value,
    }
}

fn nothing() -> serde_json::Value {
    "nothing".into()
}

skillhost_guest::arguments! {
    struct Spaced {
        /// Name of a skill
        #[serde(rename = "skill name")]
        _skill_name: String,
    }
}

skillhost_guest::record! {
    struct Length {
        length: usize,
    }
}

/// The maximum bytes of a file that tools read, except `faulty_huge`.
const BOUND: u64 = 1 << 20;

fn all() -> Vec<Tool> {
    let reading = |name, function| {
        Tool::new(name, "Reads a file.", function).in_skill_at("skill_name", "path")
    };
    vec![
        reading("9_faulty_name", sound),
        reading("faulty_description", sound),
        reading("faulty_long_description", sound),
        Tool::new("faulty_property", "Reads a skill.", spaced).in_skill("skill name"),
        reading("faulty_required", sound),
        reading("faulty_output_schema", sound).output_schema(r#"{"properties": 1}"#),
        reading("faulty_record", record).output_schema(
            r#"{"type": "object", "properties": {"length": {"type": "string"}}, "required": ["length"]}"#,
        ),
        reading("faulty_details", details),
        reading("faulty_random", random),
        Tool::new("faulty_null", "Tells null from nothing.", null).in_skill("skill_name"),
        reading("faulty_empty", empty),
        reading("faulty_binary", binary),
        reading("faulty_huge", huge),
        Tool::new("faulty_skill", "Never looks.", |_: Noted, _| Ok(Output::text("ok")))
            .in_skill("skill_name"),
        reading("faulty_path", path),
        reading("faulty_odd_path", odd_path),
        reading("faulty_exit", |_, _| std::process::exit(0)),
    ]
}

/// Returns the length of a file, without a fault.
fn sound(call: Arguments, access: Access) -> Result<Output, Failure> {
    let bytes = read(&call, access, BOUND)?;
    Ok(Output::text(bytes.len().to_string()))
}

fn read(call: &Arguments, access: Access, bound: u64) -> Result<Vec<u8>, Failure> {
    let path = SkillPath::new(&call.path)?;
    Ok(access.folder()?.read(&path, bound)?.0)
}

fn spaced(_: Spaced, access: Access) -> Result<Output, Failure> {
    access.folder().map(|_| Output::text("open"))
}

fn record(call: Arguments, access: Access) -> Result<Output, Failure> {
    let length = read(&call, access, BOUND)?.len();
    Ok(Output::record(&Length { length }))
}

fn details(call: Arguments, access: Access) -> Result<Output, Failure> {
    let bytes = read(&call, access, BOUND)?;
    Ok(Output::text("A list.").with(&vec![bytes.len()]))
}

fn random(call: Arguments, access: Access) -> Result<Output, Failure> {
    read(&call, access, BOUND)?;
    Ok(Output::text(get_random_u64().to_string()))
}

fn null(call: Noted, access: Access) -> Result<Output, Failure> {
    access.folder()?;
    Ok(Output::text(call.note.to_string()))
}

fn empty(call: Arguments, access: Access) -> Result<Output, Failure> {
    let bytes = read(&call, access, BOUND)?;
    Ok(Output::text(format!("begins with {}", bytes[0])))
}

#[allow(clippy::unwrap_used, reason = "the fault")]
fn binary(call: Arguments, access: Access) -> Result<Output, Failure> {
    let bytes = read(&call, access, BOUND)?;
    let text = String::from_utf8(bytes).unwrap();
    Ok(Output::text(text.lines().count().to_string()))
}

fn huge(call: Arguments, access: Access) -> Result<Output, Failure> {
    let bytes = read(&call, access, u64::from(u32::MAX))?;
    let copies = [bytes.clone(), bytes.clone(), bytes.clone(), bytes];
    let lengths: usize = copies.iter().map(Vec::len).sum();
    Ok(Output::text(lengths.to_string()))
}

fn path(call: Arguments, access: Access) -> Result<Output, Failure> {
    access.folder()?;
    Ok(Output::text(format!("{} would be read", call.path)))
}

fn odd_path(call: Arguments, access: Access) -> Result<Output, Failure> {
    let last = call.path.chars().last();
    assert!(last.is_some(), "a path has a last character");
    sound(call, access)
}

struct Faulty;

impl tools::Guest for Faulty {
    fn definitions() -> Vec<tools::Definition> {
        let mut definitions = skillhost_guest::definitions(&all());
        for definition in &mut definitions {
            let schema = &mut definition.input_schema;
            match &*definition.name {
                "faulty_description" => definition.description = " ".to_owned(),
                "faulty_long_description" => definition.description = "word ".repeat(300),
                "faulty_required" => {
                    *schema = schema.replace(r#""required":["#, r#""required":["file_name","#);
                }
                "faulty_null" | "faulty_skill" => {
                    let note = r#""note":{"type":["string","null"]}"#;
                    *schema = format!(
                        r#"{{"properties":{{"skill_name":{{"type":"string"}},{note}}},"required":["skill_name"]}}"#
                    );
                }
                _ => {}
            }
        }
        definitions
    }

    fn call(
        name: String,
        arguments: String,
        folder: tools::Folder,
    ) -> Result<tools::Output, tools::Failure> {
        skillhost_guest::call(&all(), &name, &arguments, folder)
    }
}

bindings::export!(Faulty with_types_in bindings);
