//! Parsing of limits.

use toml::de::{DeTable, DeValue};

use super::source::{ConfigSource, kind};
use skillhost_sandbox::tool::limits::{LimitSet, Unit};

/// Returns `limits`, changed by the values of a table.
pub(super) fn read<S: LimitSet>(
    table: &DeTable<'_>,
    mut limits: S,
    source: &ConfigSource<'_>,
) -> anyhow::Result<S> {
    for (key, value) in table {
        let row = S::TABLE.iter().find(|row| row.key == key.get_ref());
        let Some(row) = row else { continue };
        let quantity = read_quantity(value.get_ref(), row.unit)
            .and_then(|quantity| row.check(quantity).map(|()| quantity))
            .map_err(|error| anyhow::anyhow!("{}: {error}", source.place(value.span().start)))?;
        row.set(&mut limits, quantity);
    }
    Ok(limits)
}

fn read_quantity(value: &DeValue<'_>, unit: Unit) -> Result<u64, String> {
    let (quantity, found) = match value {
        DeValue::Integer(integer) => {
            let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
            let quantity = number.and_then(|number| number.checked_mul(unit.of_plain_number()));
            (quantity, format!(", not {integer}"))
        }
        DeValue::String(text) if unit != Unit::Count => (
            unit.parse(text),
            format!(", not \"{}\"", text.escape_debug()),
        ),
        other => (None, format!(", not {}", kind(other))),
    };
    quantity.ok_or_else(|| format!("expected {}{found}", unit.example()))
}
