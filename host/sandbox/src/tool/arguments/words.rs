//! Messages for a model about arguments that do not match a schema.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

/// The maximum number of characters of a quoted name or value, and of a message. An untrusted
/// schema can have names and nested alternatives of any length.
const MAX_NAME: usize = 200;
const MAX_MESSAGE: usize = 900;

/// Returns the message for a mismatch, with the property's name.
pub(super) fn describe(error: &ValidationError<'_>) -> String {
    cut(&message(error), MAX_MESSAGE)
}

fn message(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let name = shorten(&path.trim_start_matches('/').replace('/', "."));
    match error.kind() {
        ValidationErrorKind::Type { kind } if !name.is_empty() => {
            format!("Argument '{name}' must be {}", expected(kind))
        }
        ValidationErrorKind::Required { property } => {
            let property = property.as_str().unwrap_or_default();
            format!("Missing required argument: '{}'", within(&name, property))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let unknown: Vec<String> = unexpected.iter().map(|it| within(&name, it)).collect();
            format!("Unknown argument: '{}'", shorten(&unknown.join("', '")))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if !name.is_empty() =>
        {
            describe_choices(error, &name, context)
        }
        _ if name.is_empty() => format!("Invalid arguments: {}", shorten(&error.to_string())),
        _ => format!(
            "Argument '{name}' is invalid: {}",
            shorten(&error.to_string())
        ),
    }
}

/// Returns the name of a property of the argument `object`. If `object` is empty, the property is
/// an argument itself.
fn within(object: &str, property: &str) -> String {
    let property = shorten(property);
    if object.is_empty() {
        property
    } else {
        format!("{object}.{property}")
    }
}

/// Returns the message for a value that no alternative matches.
///
/// If exactly one alternative has an error inside the value, assumes that the caller meant this
/// alternative, and returns the message for that error.
fn describe_choices(
    error: &ValidationError<'_>,
    name: &str,
    choices: &[Vec<ValidationError<'static>>],
) -> String {
    let path = error.instance_path();
    let is_inside = |error: &&ValidationError<'_>| error.instance_path() != path;
    let mut meant = choices
        .iter()
        .filter_map(|errors| errors.iter().find(is_inside));
    if let (Some(meant), None) = (meant.next(), meant.next()) {
        return message(meant);
    }
    let (same_type, other_type): (Vec<_>, Vec<_>) = choices
        .iter()
        .map(|errors| (errors, expectation(errors)))
        .partition(|(_, expectation)| expectation.is_none());
    let mut expectations: Vec<String> = other_type
        .into_iter()
        .filter_map(|(_, expectation)| expectation)
        .collect();
    expectations.dedup();
    // The error of an alternative that allows the value's type, but not the value.
    let value_error = same_type.first().and_then(|(errors, _)| errors.first());
    match (value_error, expectations.split_last()) {
        (Some(error), None) => message(error),
        (Some(error), Some(_)) => {
            format!(
                "{}, and is not {}",
                message(error),
                expectations.join(" or ")
            )
        }
        (None, Some((last, []))) => format!("Argument '{name}' must be {last}"),
        (None, Some((last, rest))) => {
            format!("Argument '{name}' must be {} or {last}", rest.join(", "))
        }
        (None, None) => format!("Argument '{name}' is invalid"),
    }
}

/// Returns the values that a schema lists, the property that it requires, or its type. Returns
/// `None` if the value fails only another condition.
fn expectation(errors: &[ValidationError<'_>]) -> Option<String> {
    let exact = errors.iter().find_map(|error| match error.kind() {
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> = options.as_array()?.iter().map(Value::to_string).collect();
            let listed = shorten(&options.join(", "));
            Some(if options.len() == 1 {
                listed
            } else {
                format!("one of {listed}")
            })
        }
        ValidationErrorKind::Required { property } => {
            Some(format!("an object with '{}'", shorten(property.as_str()?)))
        }
        _ => None,
    });
    exact.or_else(|| {
        errors.iter().find_map(|error| match error.kind() {
            ValidationErrorKind::Type { kind } => Some(expected(kind)),
            _ => None,
        })
    })
}

fn expected(kind: &TypeKind) -> String {
    let with_article = |name: &str| match name.chars().next() {
        _ if name == "null" => name.to_owned(),
        Some('a' | 'e' | 'i' | 'o' | 'u') => format!("an {name}"),
        _ => format!("a {name}"),
    };
    match kind {
        TypeKind::Single(one) => with_article(&one.to_string()),
        TypeKind::Multiple(many) => {
            let names: Vec<String> = many
                .iter()
                .map(|one| with_article(&one.to_string()))
                .collect();
            names.join(" or ")
        }
    }
}

/// Shortens a caller's string for a message.
pub(super) fn shorten(text: &str) -> String {
    cut(text, MAX_NAME)
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
