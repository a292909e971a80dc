//! Normalises arguments for guests: converts whole numbers to integers, and removes nulls that
//! mean an absent property.

use serde_json::Value;

/// Converts whole numbers to integers. JSON Schema accepts `5.0` as an integer, but guests
/// that parse integers refuse it.
///
/// Subtracts one from `values_left` for each value. Returns `false` if there are more values.
pub(super) fn make_integers(value: &mut Value, values_left: &mut usize) -> bool {
    let Some(rest) = values_left.checked_sub(1) else {
        return false;
    };
    *values_left = rest;
    match value {
        Value::Array(values) => values
            .iter_mut()
            .all(|value| make_integers(value, values_left)),
        Value::Object(object) => object
            .values_mut()
            .all(|value| make_integers(value, values_left)),
        Value::Number(number) => {
            if let Some(whole) = number
                .as_f64()
                .filter(|_| number.is_f64())
                .and_then(integer)
            {
                *value = whole.into();
            }
            true
        }
        _ => true,
    }
}

/// Returns a float as an integer, if it is whole and small enough to be exact.
fn integer(number: f64) -> Option<i64> {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "whole, and within 2^53")]
    (number.fract() == 0.0 && number.abs() <= LARGEST).then_some(number as i64)
}

/// Removes nulls that mean an absent property from objects inside the arguments. Keeps keys that
/// the schema does not name, because they are data.
pub(super) fn drop_absent(schema: &Value, value: &mut Value) {
    match value {
        Value::Array(values) => {
            if let Some(items) = schema.get("items") {
                values
                    .iter_mut()
                    .for_each(|value| drop_absent(items, value));
            }
        }
        Value::Object(object) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            let required = schema.get("required").and_then(Value::as_array);
            let required =
                |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
            object.retain(|name, value| {
                let property = properties.get(name);
                !value.is_null() || required(name) || property.is_none_or(allows_null)
            });
            for (name, value) in object {
                if let Some(schema) = properties.get(name) {
                    drop_absent(schema, value);
                }
            }
        }
        _ => {}
    }
}

/// Returns whether the `type` in a property's schema allows null.
pub(super) fn allows_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "null",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    }
}
