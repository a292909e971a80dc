//! Checks of definitions in the formats of model APIs and of MCP.
//!
//! A check fails if the API would refuse the whole request because of the definition. A check
//! passes if the format only leaves out parts of the schema: the host still checks arguments
//! against them.

use serde_json::{Map, Value};

use super::report::{Outcome, Reason, Recorder, Rule};
use super::wording::quoted;
use skillhost::Definition;
use skillhost::exchange::{Format, mcp_tools};

pub(super) const RULES: &[Rule] = &[
    OPENAI,
    OPENAI_STRICT,
    RESPONSES,
    RESPONSES_STRICT,
    ANTHROPIC,
    GEMINI,
    MCP,
];

const OPENAI: Rule = Rule {
    id: "format-openai",
    sentence: "OpenAI's chat completions accept the definition",
};
const OPENAI_STRICT: Rule = Rule {
    id: "format-openai-strict",
    sentence: "the strict mode of chat completions can express the schema",
};
const RESPONSES: Rule = Rule {
    id: "format-responses",
    sentence: "OpenAI's Responses accept the definition",
};
const RESPONSES_STRICT: Rule = Rule {
    id: "format-responses-strict",
    sentence: "the strict mode of Responses can express the schema",
};
const ANTHROPIC: Rule = Rule {
    id: "format-anthropic",
    sentence: "Anthropic's Messages accept the definition",
};
const GEMINI: Rule = Rule {
    id: "format-gemini",
    sentence: "Google's Gemini accepts the definition",
};
const MCP: Rule = Rule {
    id: "format-mcp",
    sentence: "MCP clients accept the definition, with its output schema",
};

/// The maximum number of characters of a description for older models of chat completions and
/// for compatible servers.
const MAX_OPENAI_DESCRIPTION: usize = 1024;

/// The maximum number of characters of a property's name in Anthropic's Messages.
const MAX_ANTHROPIC_PROPERTY: usize = 64;

type DefinitionCheck = fn(&Definition) -> Outcome;

/// The rules with their checks.
const CHECKS: [(&Rule, DefinitionCheck); 7] = [
    (&OPENAI, openai),
    (&OPENAI_STRICT, |definition| {
        strict(Format::OpenAi, definition)
    }),
    (&RESPONSES, |definition| {
        check_schema(Format::Responses, "/0/parameters", definition)
    }),
    (&RESPONSES_STRICT, |definition| {
        strict(Format::Responses, definition)
    }),
    (&ANTHROPIC, anthropic),
    (&GEMINI, gemini),
    (&MCP, mcp),
];

pub(super) async fn run(recorder: &mut Recorder, definition: &Definition) {
    let name = Some(&*definition.name);
    for (rule, check) in CHECKS {
        recorder
            .check(rule, name, async { check(definition) })
            .await;
    }
}

/// Returns the rules about formats that a definition breaks, with the reasons. Does not run the
/// component.
pub fn broken_formats(definition: &Definition) -> Vec<(Rule, Reason)> {
    let outcomes = CHECKS
        .iter()
        .map(|(rule, check)| (**rule, check(definition)));
    let failed = outcomes.filter_map(|(rule, outcome)| match outcome {
        Outcome::Failed(reason) => Some((rule, reason)),
        _ => None,
    });
    failed.collect()
}

fn openai(definition: &Definition) -> Outcome {
    let length = definition.description.chars().count();
    if length > MAX_OPENAI_DESCRIPTION {
        return Outcome::failed(
            format!("its description has {length} characters"),
            format!(
                "shorten it to {MAX_OPENAI_DESCRIPTION} characters: older models and many servers \
                 refuse the whole request if a description is longer"
            ),
        );
    }
    check_schema(Format::OpenAi, "/0/function/parameters", definition)
}

fn strict(format: Format, definition: &Definition) -> Outcome {
    let strict = format.strict_tools(std::slice::from_ref(definition));
    let reasons = strict.map(|strict| strict.not_strict).unwrap_or_default();
    match reasons.first() {
        None => Outcome::Passed,
        Some(reason) => Outcome::skipped(
            &*reason.reason,
            "nothing to fix: the host offers the tool without strict mode",
        ),
    }
}

fn anthropic(definition: &Definition) -> Outcome {
    let is_allowed = |name: &str| {
        (1..=MAX_ANTHROPIC_PROPERTY).contains(&name.chars().count())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
    };
    match properties(&definition.input_schema).find(|name| !is_allowed(name)) {
        Some(name) => Outcome::failed(
            format!("it has the property {}", quoted(name)),
            format!(
                "use 1 to {MAX_ANTHROPIC_PROPERTY} letters, digits, `_`, `.` or `-`: Anthropic \
                 refuses the whole request otherwise"
            ),
        ),
        None => check_schema(Format::Anthropic, "/0/input_schema", definition),
    }
}

fn gemini(definition: &Definition) -> Outcome {
    let first = definition.name.chars().next();
    if !first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_') {
        return Outcome::failed(
            format!("its name is `{}`", definition.name),
            "begin the name with a letter or `_`: Gemini refuses the whole request otherwise",
        );
    }
    // The host converts most schemas to Gemini's own form, and leaves the others as JSON Schema.
    match Format::Gemini
        .tools(std::slice::from_ref(definition))
        .pointer("/0/functionDeclarations/0/parametersJsonSchema")
    {
        Some(schema) => check_json_schema(schema, "its schema"),
        None => Outcome::Passed,
    }
}

fn mcp(definition: &Definition) -> Outcome {
    let tools = mcp_tools(std::slice::from_ref(definition));
    let input = tools.pointer("/0/inputSchema");
    let output = definition.output_schema.as_ref();
    match input.map(|input| check_json_schema(input, "its schema")) {
        Some(Outcome::Passed) => {}
        Some(failed) => return failed,
        None => return Outcome::failed("it has no schema", "add a schema"),
    }
    match output {
        None => Outcome::Passed,
        Some(output) => {
            if output.get("type").is_some_and(|kind| kind != "object") {
                return Outcome::failed(
                    "its output schema does not describe an object",
                    "write `\"type\": \"object\"`: a record is always an object",
                );
            }
            check_json_schema(&output.clone().into(), "its output schema")
        }
    }
}

/// Checks that the schema is valid after the host has converted the definition to a format.
///
/// `pointer` is the JSON pointer of the schema in the converted definition.
fn check_schema(format: Format, pointer: &str, definition: &Definition) -> Outcome {
    let tools = format.tools(std::slice::from_ref(definition));
    match tools.pointer(pointer) {
        Some(schema) => check_json_schema(schema, "its schema"),
        None => Outcome::failed("it has no schema", "add a schema"),
    }
}

fn check_json_schema(schema: &Value, what: &str) -> Outcome {
    match jsonschema::draft202012::meta::validate(schema) {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            let pointer = error.instance_path().to_string();
            Outcome::failed(
                format!(
                    "{what} is not a valid JSON Schema at {}: {error}",
                    quoted(&pointer)
                ),
                "correct it; the version is JSON Schema 2020-12",
            )
        }
    }
}

/// Returns the names of a schema's properties.
fn properties(schema: &Map<String, Value>) -> impl Iterator<Item = &String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(Map::keys)
}
