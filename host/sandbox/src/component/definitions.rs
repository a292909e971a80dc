//! The definitions of a component's tools. They come from a guest, so the host asks for them
//! in a sandbox and checks them. `json` is their form on disk.

pub(crate) mod json;

use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value};

use crate::call::{RawDefinition, RawForm, Sandbox};
use crate::component::file::read_bounded;
use crate::tool::arguments::{Schema, number_of_values};
use crate::tool::limits::{self, Limits};
use crate::tool::{Definition, Effects, FolderRule, Form, Stop};
use skillhost_skills::broker::Opener;
use skillhost_skills::text::line::Line;

/// The maximum size in bytes of a file of definitions beside a component, including JSON escapes.
const TOOLS_FILE_BYTES: u64 = 2 * limits::DEFINITIONS_BYTES as u64;

/// Asks a component for its tools and checks their definitions. `bytes` is the component's
/// binary.
pub(crate) async fn ask(
    sandbox: &Sandbox,
    origin: &str,
    bytes: &[u8],
    limits: &Limits,
) -> anyhow::Result<Vec<Definition>> {
    let declared = sandbox.declared_tools(origin, bytes, limits).await;
    let declared = declared.map_err(|stop| match stop {
        Stop::Trap(causes) => anyhow::anyhow!("it trapped when asked for its tools: {causes}"),
        stop => anyhow::anyhow!("it was stopped when asked for its tools: {stop}"),
    })?;
    check_size(&declared.definitions)?;
    let definition = |raw: RawDefinition| {
        let name = raw.name.clone();
        parse_definition(raw).with_context(|| format!("in its tool `{}`", Line::new(name)))
    };
    let definitions = declared.definitions.into_iter().map(definition);
    let definitions = definitions.collect::<anyhow::Result<_>>()?;
    declared.callable.map_err(anyhow::Error::from)?;
    Ok(definitions)
}

/// Returns the path of the file of definitions beside a component.
pub fn tools_file(component: &Path) -> PathBuf {
    component.with_extension("tools.json")
}

/// Reads the file of definitions beside a component, and checks it like the component's own
/// answer.
pub fn read_beside(
    component: &Path,
    digest: &str,
    opener: &Opener,
) -> anyhow::Result<Vec<Definition>> {
    let json = read_bounded(&tools_file(component), TOOLS_FILE_BYTES, opener)?;
    let definitions = json::read_tools_file(&json, digest)?;
    check_count(definitions.len())?;
    definitions.iter().try_for_each(check)?;
    check_schemas(&definitions)?;
    Ok(definitions)
}

/// Checks the size of all schemas together, and that each input schema compiles.
pub(crate) fn check_schemas(definitions: &[Definition]) -> anyhow::Result<()> {
    let schemas = definitions.iter();
    let schemas =
        schemas.flat_map(|tool| iter::once(&tool.input_schema).chain(&tool.output_schema));
    let all: usize = schemas.flat_map(Map::values).map(number_of_values).sum();
    ensure!(
        all <= limits::DEFINITIONS_VALUES,
        "the schemas of its tools have more than {} values together",
        limits::DEFINITIONS_VALUES
    );
    let mut patterns = 0;
    for definition in definitions {
        let mut compile = || {
            let schema = Schema::uncompiled(&definition.input_schema)?;
            patterns += schema.patterns();
            ensure!(
                patterns <= limits::DEFINITIONS_PATTERNS,
                "its input schema, with those of other tools, has more than {} patterns",
                limits::DEFINITIONS_PATTERNS
            );
            schema.compile()
        };
        compile().with_context(|| format!("in its tool `{}`", definition.name))?;
    }
    Ok(())
}

fn check_count(tools: usize) -> anyhow::Result<()> {
    ensure!(
        tools <= limits::DEFINITIONS,
        "it defines {tools} tools, more than {}",
        limits::DEFINITIONS
    );
    Ok(())
}

fn check_size(definitions: &[RawDefinition]) -> anyhow::Result<()> {
    check_count(definitions.len())?;
    let bytes: usize = definitions.iter().map(size).sum();
    if bytes > limits::DEFINITIONS_BYTES {
        bail!(
            "its definitions are larger than {} bytes",
            limits::DEFINITIONS_BYTES
        );
    }
    Ok(())
}

/// Returns the total size of a definition's texts, in bytes.
fn size(raw: &RawDefinition) -> usize {
    let texts = [&raw.name, &raw.title, &raw.description, &raw.input_schema];
    let rule = raw.folder.iter();
    let rule = rule.flat_map(|rule| iter::once(&rule.skill_property).chain(&rule.path_property));
    let texts = texts.into_iter().chain(&raw.output_schema);
    let texts = texts.chain(&raw.text_property).chain(rule);
    texts.map(String::len).sum()
}

/// Parses and checks a definition.
fn parse_definition(raw: RawDefinition) -> anyhow::Result<Definition> {
    let input_schema = parse_object(&raw.input_schema).context("its input schema")?;
    let folder = raw.folder.map(|rule| FolderRule {
        skill_property: rule.skill_property,
        enumerate: rule.enumerate,
        path_property: rule.path_property,
        skill_optional: rule.skill_optional,
    });
    let definition = Definition {
        title: if raw.title.is_empty() {
            raw.name.clone()
        } else {
            raw.title
        },
        name: raw.name,
        description: raw.description,
        output_schema: raw
            .output_schema
            .map(|schema| parse_object(&schema).context("its output schema"))
            .transpose()?,
        input_schema,
        folder,
        text_property: raw.text_property,
        model_reads: match raw.model_reads {
            RawForm::Text => Form::Text,
            RawForm::Details => Form::Record,
        },
        effects: Effects::None,
    };
    check(&definition)?;
    Ok(definition)
}

/// Checks a single definition.
fn check(definition: &Definition) -> anyhow::Result<()> {
    if !is_tool_name(&definition.name) {
        bail!("a tool's name is 1 to 64 letters, digits, `_` or `-`");
    }
    let properties = definition.input_schema.get("properties");
    let properties = properties.and_then(Value::as_object);
    let rule = definition.folder.iter();
    let names = rule.flat_map(|rule| iter::once(&rule.skill_property).chain(&rule.path_property));
    for name in names {
        if !properties.is_some_and(|properties| properties.contains_key(name)) {
            bail!(
                "its folder rule names the property `{}`, which its input schema does not have",
                Line::new(name)
            );
        }
    }
    Ok(())
}

fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn parse_object(json: &str) -> anyhow::Result<Map<String, Value>> {
    match serde_json::from_str(json) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => bail!("it is not a JSON object"),
        Err(error) => Err(error).context("it is not JSON"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call::RawFolderRule;

    #[test]
    fn accepts_valid_tool_names_up_to_64_bytes() {
        let longest = "x".repeat(64);
        for name in ["a", "Z", "7", "_", "-", "read_file-2", &longest] {
            assert!(is_tool_name(name), "{name}");
        }
        let longer = "x".repeat(65);
        for name in ["", "a b", "a.b", "a/b", "\u{e4}", "a\n", &longer] {
            assert!(!is_tool_name(name), "{name}");
        }
    }

    /// Returns a definition whose texts have these lengths.
    fn sized(lengths: [usize; 8]) -> RawDefinition {
        let [
            name,
            title,
            description,
            input_schema,
            output_schema,
            text_property,
            skill_property,
            path_property,
        ] = lengths.map(|length| "x".repeat(length));
        RawDefinition {
            name,
            title,
            description,
            input_schema,
            output_schema: Some(output_schema),
            folder: Some(RawFolderRule {
                skill_property,
                enumerate: false,
                path_property: Some(path_property),
                skill_optional: false,
            }),
            text_property: Some(text_property),
            model_reads: RawForm::Text,
        }
    }

    #[test]
    fn limits_number_and_bytes_of_definitions() {
        let many = |count| {
            let small = std::iter::repeat_with(|| sized([1; 8]));
            check_size(&small.take(count).collect::<Vec<_>>())
        };
        assert!(many(limits::DEFINITIONS).is_ok());
        let error = many(limits::DEFINITIONS + 1).unwrap_err();
        assert_eq!(error.to_string(), "it defines 257 tools, more than 256");

        let max = limits::DEFINITIONS_BYTES;
        let largest = [max / 8; 8];
        assert!(check_size(&[sized(largest)]).is_ok());
        for text in 0..8 {
            let mut larger = largest;
            larger[text] += 1;
            let error = check_size(&[sized(larger)]).unwrap_err();
            assert_eq!(
                error.to_string(),
                "its definitions are larger than 1048576 bytes"
            );
        }
        let halves = [max / 4, max / 4, 0, 0, 0, 0, 0, 0];
        assert!(check_size(&[sized(halves), sized(halves)]).is_ok());
        let more = [sized(halves), sized(halves), sized([1; 8])];
        assert!(check_size(&more).is_err());
    }

    #[test]
    fn limits_values_and_patterns_of_all_tools_together() {
        let tool = |input: Value, output: Value| {
            let mut raw = sized([1; 8]);
            raw.folder = None;
            raw.input_schema = input.to_string();
            raw.output_schema = Some(output.to_string());
            parse_definition(raw).unwrap()
        };
        let check = |tools: &[Definition]| match check_schemas(tools) {
            Ok(()) => String::new(),
            Err(error) => format!("{error:#}"),
        };
        // Each schema has 100 values: the list and its items.
        let list = json!({"enum": vec![0; 99]});
        let half = limits::DEFINITIONS_VALUES / 200;
        let mut tools = vec![tool(list.clone(), list); half];
        assert_eq!(check(&tools), "");
        tools.push(tool(json!({"a": 1}), json!({})));
        let many = "the schemas of its tools have more than 50000 values together";
        assert_eq!(check(&tools), many);
        let patterns = |count| {
            let fields = (0..count).map(|at| (format!("f{at}"), json!({"pattern": "a"})));
            let fields: Map<String, Value> = fields.collect();
            tool(json!({"properties": fields}), json!({}))
        };
        let mut tools = vec![patterns(limits::DEFINITIONS_PATTERNS / 4); 4];
        assert_eq!(check(&tools), "");
        tools.push(patterns(1));
        let many = "in its tool `x`: its input schema, with those of other tools, has more than \
                    2000 patterns";
        assert_eq!(check(&tools), many);
    }
}
