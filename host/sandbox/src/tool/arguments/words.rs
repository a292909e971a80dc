//! The reasons why arguments do not fit a schema, in words for a model.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

/// The longest name or value that a message repeats, and the longest message, in
/// characters. A schema is a stranger's: its names and nested choices have no end
/// of their own.
const LONGEST_NAME: usize = 200;
const LONGEST_MESSAGE: usize = 900;

/// Returns what does not fit, in the words of the contracts, with the property's
/// name.
pub(super) fn in_words(error: &ValidationError<'_>) -> String {
    cut(&words(error), LONGEST_MESSAGE)
}

fn words(error: &ValidationError<'_>) -> String {
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
            of_choices(error, &name, context)
        }
        _ if name.is_empty() => format!("Invalid arguments: {}", short(&error.to_string())),
        _ => format!(
            "Argument '{name}' is invalid: {}",
            short(&error.to_string())
        ),
    }
}

/// Returns why none of several schemas takes a value. The caller meant the one that
/// takes the value's top and not what is in it, if there is one.
fn of_choices(
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
        return words(meant);
    }
    let (like, unlike): (Vec<_>, Vec<_>) = choices
        .iter()
        .map(|errors| (errors, described(errors)))
        .partition(|(_, described)| described.is_none());
    let mut described: Vec<String> = unlike.into_iter().filter_map(|(_, said)| said).collect();
    described.dedup();
    // One that takes the type, and not this value of it.
    let other = like.first().and_then(|(errors, _)| errors.first());
    match (other, described.split_last()) {
        (Some(other), None) => words(other),
        (Some(other), Some(_)) => {
            format!("{}, and is not {}", words(other), described.join(" or "))
        }
        (None, Some((last, []))) => format!("Argument '{name}' must be {last}"),
        (None, Some((last, rest))) => {
            format!("Argument '{name}' must be {} or {last}", rest.join(", "))
        }
        (None, None) => format!("Argument '{name}' is invalid"),
    }
}

/// Returns what a schema takes if a value is nothing like it: the values, if the
/// schema lists them, else their type.
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

/// Returns a caller's string as it stands in a message: bounded.
pub(super) fn short(text: &str) -> String {
    cut(text, LONGEST_NAME)
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
