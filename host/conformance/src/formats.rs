//! Whether the interfaces of models and of MCP take a tool's definition. What
//! is asked is what those interfaces are known to refuse a whole request for;
//! what a schema merely loses on its way there, the host still checks.

use serde_json::{Map, Value};

use super::Rule;
use super::report::{Outcome, Recorder};
use super::trial::quoted;
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
    sentence: "OpenAI's chat completions take the definition",
};
const OPENAI_STRICT: Rule = Rule {
    id: "format-openai-strict",
    sentence: "their strict mode can say its schema",
};
const RESPONSES: Rule = Rule {
    id: "format-responses",
    sentence: "OpenAI's Responses take the definition",
};
const RESPONSES_STRICT: Rule = Rule {
    id: "format-responses-strict",
    sentence: "their strict mode can say its schema",
};
const ANTHROPIC: Rule = Rule {
    id: "format-anthropic",
    sentence: "Anthropic's Messages take the definition",
};
const GEMINI: Rule = Rule {
    id: "format-gemini",
    sentence: "Google's Gemini takes the definition",
};
const MCP: Rule = Rule {
    id: "format-mcp",
    sentence: "MCP clients take the definition, with the schema of its record",
};

/// Characters of a description, from older models of chat completions and from
/// servers that speak as they do.
const OPENAI_DESCRIPTION: usize = 1024;

/// Characters of a property's name, from Anthropic's Messages.
const ANTHROPIC_PROPERTY: usize = 64;

/// Looks at a definition.
type Look = fn(&Definition) -> Outcome;

pub(super) async fn run(recorder: &mut Recorder, definition: &Definition) {
    let name = Some(&*definition.name);
    let checks: [(&Rule, Look); 7] = [
        (&OPENAI, openai),
        (&OPENAI_STRICT, |definition| {
            strict(Format::OpenAi, definition)
        }),
        (&RESPONSES, |definition| {
            schema_of(Format::Responses, "/0/parameters", definition)
        }),
        (&RESPONSES_STRICT, |definition| {
            strict(Format::Responses, definition)
        }),
        (&ANTHROPIC, anthropic),
        (&GEMINI, gemini),
        (&MCP, mcp),
    ];
    for (rule, check) in checks {
        recorder
            .check(rule, name, async { check(definition) })
            .await;
    }
}

fn openai(definition: &Definition) -> Outcome {
    let length = definition.description.chars().count();
    if length > OPENAI_DESCRIPTION {
        return Outcome::failed(
            format!("its description has {length} characters"),
            format!(
                "shorten it to {OPENAI_DESCRIPTION}: older models and many servers refuse the \
                 whole request for more"
            ),
        );
    }
    schema_of(Format::OpenAi, "/0/function/parameters", definition)
}

fn strict(format: Format, definition: &Definition) -> Outcome {
    let strict = format.strict_tools(std::slice::from_ref(definition));
    let reasons = strict.map(|strict| strict.not_strict).unwrap_or_default();
    match reasons.first() {
        None => Outcome::Passed,
        Some(reason) => Outcome::skipped(
            &*reason.reason,
            "nothing has to be: the tool is offered without strict mode",
        ),
    }
}

fn anthropic(definition: &Definition) -> Outcome {
    let is_taken = |name: &str| {
        (1..=ANTHROPIC_PROPERTY).contains(&name.chars().count())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
    };
    match properties(&definition.input_schema).find(|name| !is_taken(name)) {
        Some(name) => Outcome::failed(
            format!("it has the property {}", quoted(name)),
            format!(
                "name it with 1 to {ANTHROPIC_PROPERTY} letters, digits, `_`, `.` or `-`: the \
                 whole request is refused for any other"
            ),
        ),
        None => schema_of(Format::Anthropic, "/0/input_schema", definition),
    }
}

fn gemini(definition: &Definition) -> Outcome {
    let first = definition.name.chars().next();
    if !first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_') {
        return Outcome::failed(
            format!("its name is `{}`", definition.name),
            "begin it with a letter or `_`: the whole request is refused for any other",
        );
    }
    // Either the subset of a schema, by its own rules, or none, or the schema.
    match Format::Gemini
        .tools(std::slice::from_ref(definition))
        .pointer("/0/functionDeclarations/0/parametersJsonSchema")
    {
        Some(schema) => valid(schema, "its schema"),
        None => Outcome::Passed,
    }
}

fn mcp(definition: &Definition) -> Outcome {
    let tools = mcp_tools(std::slice::from_ref(definition));
    let input = tools.pointer("/0/inputSchema");
    let output = definition.output_schema.as_ref();
    match input.map(|input| valid(input, "its schema")) {
        Some(Outcome::Passed) => {}
        Some(other) => return other,
        None => return Outcome::failed("it has no schema", "give it one"),
    }
    match output {
        None => Outcome::Passed,
        Some(output) => {
            if output.get("type").is_some_and(|kind| kind != "object") {
                return Outcome::failed(
                    "its output schema is not one of objects",
                    "say `\"type\": \"object\"`: a record always is one",
                );
            }
            valid(&output.clone().into(), "its output schema")
        }
    }
}

/// Whether what the host makes of the schema for an interface still is one.
fn schema_of(format: Format, place: &str, definition: &Definition) -> Outcome {
    let tools = format.tools(std::slice::from_ref(definition));
    match tools.pointer(place) {
        Some(schema) => valid(schema, "its schema"),
        None => Outcome::failed("it has no schema", "give it one"),
    }
}

fn valid(schema: &Value, what: &str) -> Outcome {
    match jsonschema::draft202012::meta::validate(schema) {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            let place = error.instance_path().to_string();
            Outcome::failed(
                format!("{what} is no JSON Schema at {}: {error}", quoted(&place)),
                "write it by JSON Schema 2020-12",
            )
        }
    }
}

/// The names of a schema's properties.
fn properties(schema: &Map<String, Value>) -> impl Iterator<Item = &String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(Map::keys)
}
