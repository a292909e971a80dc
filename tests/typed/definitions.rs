//! The definitions of typed functions: names, descriptions and schemas.

use serde_json::{Value, json};
use skillhost::Form;

use super::host;

/// Returns the properties of the record `point`, with the comments on its fields.
fn point_properties() -> Value {
    let number = |description: &str| {
        json!({
            "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX,
            "description": description,
        })
    };
    json!({
        "x": number("To the right."),
        "y": number("Up."),
        "text_beside": {
            "type": ["string", "null"],
            "description": "What stands beside it.",
        },
    })
}

#[test]
fn comments_on_fields_and_cases_are_descriptions() {
    let definitions = host().definitions();
    let schema = |name: &str| {
        let mut definitions = definitions.iter();
        let found = definitions.find(|definition| definition.name == name);
        found.unwrap().input_schema["properties"]["value"].clone()
    };
    let figure = schema("echo_variant");
    let payload = |name: &str| {
        let choices = figure["anyOf"].as_array().unwrap();
        let mut found = choices.iter().map(|choice| &choice["properties"][name]);
        found.find(|found| !found.is_null()).unwrap().clone()
    };
    assert_eq!(figure["description"], "A figure.");
    assert_eq!(payload("circle")["description"], "A circle of this radius.");
    let corners = payload("many_corners");
    assert_eq!(corners["description"], "The corners.");
    assert_eq!(corners["items"]["properties"], point_properties());
    assert_eq!(
        figure["anyOf"][3],
        json!({"type": "string", "enum": ["nothing"], "description": "nothing: Nothing."})
    );
    assert_eq!(schema("echo_flags")["description"], "What may be done.");
    assert_eq!(schema("echo_tuple").get("description"), None);
}

#[test]
fn definitions_describe_the_types() {
    let definitions = host().definitions();
    let definition = |name: &str| {
        let found = definitions
            .iter()
            .find(|definition| definition.name == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let twice: Vec<&str> = definitions
        .iter()
        .map(|definition| &*definition.name)
        .filter(|name| name.ends_with("twice"))
        .collect();
    assert_eq!(twice, ["echo_twice", "other_twice"]);
    let many = definition("echo_many");
    assert_eq!(
        Value::from(many.input_schema.clone()),
        json!({
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "b": {
                    "type": ["object", "null"],
                    "properties": point_properties(),
                    "required": ["x", "y"],
                    "additionalProperties": false,
                    "description": "A point, and what stands beside it.",
                },
                "c": {
                    "type": "string",
                    "enum": ["dark_red", "green", "light_blue"],
                    "description": "A colour.",
                },
            },
            "required": ["a", "c"],
            "additionalProperties": false,
        })
    );
    assert_eq!(many.model_reads, Form::Text);
    assert_eq!(many.description, "All together, in another order.");
    assert_eq!(
        definition("answer").description,
        "Answers with the string, or fails with it.\n\nIt fails where `fail` says so."
    );
    assert_eq!(
        definition("echo_u8").description,
        "The function `echo-u8` of `skillhost-test:typed/echo@0.1.0`."
    );
    let other = definition("other_twice");
    assert_eq!(
        other.description,
        "Where the point lies that is twice as far away."
    );
    assert_eq!(
        Value::from(definition("echo_option").output_schema.clone().unwrap()),
        json!({
            "type": "object",
            "properties": {
                "result": {"type": ["integer", "null"], "minimum": 0, "maximum": u32::MAX},
            },
            "required": ["result"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        other.output_schema.as_ref().unwrap()["properties"],
        other.input_schema["properties"]["value"]["properties"]
    );
    assert_eq!(definition("echo_record").model_reads, Form::Record);
}
