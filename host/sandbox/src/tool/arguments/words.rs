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
    let name = short(&path.trim_start_matches('/').replace('/', "."));
    match error.kind() {
        ValidationErrorKind::Type { kind } if !name.is_empty() => {
            format!("Argument '{name}' must be {}", expected(kind))
        }
        ValidationErrorKind::Required { property } => {
            let property = property.as_str().unwrap_or_default();
            let within = if name.is_empty() {
                String::new()
            } else {
                format!("{name}.")
            };
            format!("Missing required argument: '{within}{}'", short(property))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            format!("Unknown argument: '{}'", short(&unexpected.join("', '")))
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if !name.is_empty() =>
        {
            describe_choices(error, &name, context)
        }
        _ if name.is_empty() => format!("Invalid arguments: {}", short(&error.to_string())),
        _ => format!(
            "Argument '{name}' is invalid: {}",
            short(&error.to_string())
        ),
    }
}

/// Returns the reason why no alternative matches a value. If exactly one matches the value but
/// not what is inside it, the caller meant that one.
fn describe_choices(
    error: &ValidationError<'_>,
    name: &str,
    choices: &[Vec<ValidationError<'static>>],
) -> String {
    let path = error.instance_path();
    let within = |error: &&ValidationError<'_>| error.instance_path() != path;
    let mut meant = choices
        .iter()
        .filter_map(|errors| errors.iter().find(within));
    if let (Some(meant), None) = (meant.next(), meant.next()) {
        return message(meant);
    }
    let (same_type, other_type): (Vec<_>, Vec<_>) = choices
        .iter()
        .map(|errors| (errors, described(errors)))
        .partition(|(_, described)| described.is_none());
    let mut described: Vec<String> = other_type
        .into_iter()
        .filter_map(|(_, text)| text)
        .collect();
    described.dedup();
    // An alternative that allows the value's type, but not the value.
    let other = same_type.first().and_then(|(errors, _)| errors.first());
    match (other, described.split_last()) {
        (Some(other), None) => message(other),
        (Some(other), Some(_)) => {
            format!("{}, and is not {}", message(other), described.join(" or "))
        }
        (None, Some((last, []))) => format!("Argument '{name}' must be {last}"),
        (None, Some((last, rest))) => {
            format!("Argument '{name}' must be {} or {last}", rest.join(", "))
        }
        (None, None) => format!("Argument '{name}' is invalid"),
    }
}

/// Returns the values that a schema lists, or the type that it requires. Returns `None` if the
/// type is right.
fn described(errors: &[ValidationError<'_>]) -> Option<String> {
    let exact = errors.iter().find_map(|error| match error.kind() {
        ValidationErrorKind::Enum { options } => {
            let options: Vec<String> = options.as_array()?.iter().map(Value::to_string).collect();
            Some(format!("one of {}", short(&options.join(", "))))
        }
        ValidationErrorKind::Required { property } => {
            Some(format!("an object with '{}'", short(property.as_str()?)))
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
pub(super) fn short(text: &str) -> String {
    cut(text, MAX_NAME)
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
