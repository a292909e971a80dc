//! The units of limits: how a configuration writes a quantity, and how a message
//! shows one.

use std::time::Duration;

/// The unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Milliseconds, written as `"10s"` or `"500ms"`, or as a number of seconds.
    Time,
    /// Bytes, written as `"64MiB"` or `"100B"`, or as a number.
    Bytes,
    /// A plain number.
    Count,
}

impl Unit {
    /// The suffixes of a quantity with their factors, smallest first.
    const fn suffixes(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Time => &[("ms", 1), ("s", 1_000), ("m", 60_000)],
            Self::Bytes => &[
                ("B", 1),
                ("KiB", 1 << 10),
                ("MiB", 1 << 20),
                ("GiB", 1 << 30),
            ],
            Self::Count => &[("", 1)],
        }
    }

    /// Parses a quantity such as `64MiB`.
    pub const fn parse(self, text: &str) -> Option<u64> {
        let text = match text.as_bytes().trim_ascii() {
            [b'+', text @ ..] => text,
            text => text,
        };
        let mut number: u64 = 0;
        let mut digits = 0;
        while digits < text.len() && text[digits].is_ascii_digit() {
            number = match number.checked_mul(10) {
                Some(tens) => match tens.checked_add((text[digits] - b'0') as u64) {
                    Some(number) => number,
                    None => return None,
                },
                None => return None,
            };
            digits += 1;
        }
        if digits == 0 {
            return None;
        }
        let suffix = text.split_at(digits).1.trim_ascii_start();
        let suffixes = self.suffixes();
        let mut at = 0;
        while at < suffixes.len() {
            if is_same(suffixes[at].0.as_bytes(), suffix) {
                return number.checked_mul(suffixes[at].1);
            }
            at += 1;
        }
        None
    }

    /// Returns the quantity that a plain `1`, without a unit, means in a configuration.
    pub fn of_plain_number(self) -> u64 {
        match self {
            Self::Time => 1_000,
            Self::Bytes | Self::Count => 1,
        }
    }

    /// Returns an example of a quantity, for messages.
    pub fn example(self) -> &'static str {
        match self {
            Self::Time => "a time such as \"10s\" or \"500ms\"",
            Self::Bytes => "a size such as \"64MiB\" or \"512KiB\"",
            Self::Count => "a whole number",
        }
    }

    /// Returns a quantity in the largest unit that needs no fraction.
    pub fn show(self, quantity: u64) -> String {
        let mut suffixes = self.suffixes().iter().rev();
        let suffix = suffixes.find(|(_, factor)| quantity.is_multiple_of(*factor));
        match suffix {
            Some(("B", _)) if quantity == 1 => "1 byte".to_owned(),
            Some(("B", _)) => format!("{quantity} bytes"),
            Some((suffix, factor)) => format!("{} {suffix}", quantity / factor)
                .trim_end()
                .to_owned(),
            None => quantity.to_string(),
        }
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The type of a limit's field. An `Option` is `None` if the host chooses the quantity.
pub trait Quantity: Clone {
    /// Converts a quantity to this type. A quantity that is too large becomes the maximum.
    fn of(quantity: Option<u64>) -> Self;
    /// Returns the quantity, if there is one.
    fn quantity(&self) -> Option<u64>;
}

impl Quantity for Duration {
    fn of(quantity: Option<u64>) -> Self {
        Self::from_millis(quantity.unwrap_or_default())
    }
    fn quantity(&self) -> Option<u64> {
        Some(u64::try_from(self.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Quantity for usize {
    fn of(quantity: Option<u64>) -> Self {
        Self::try_from(quantity.unwrap_or_default()).unwrap_or(Self::MAX)
    }
    fn quantity(&self) -> Option<u64> {
        u64::try_from(*self).ok()
    }
}

impl Quantity for u32 {
    fn of(quantity: Option<u64>) -> Self {
        Self::try_from(quantity.unwrap_or_default()).unwrap_or(Self::MAX)
    }
    fn quantity(&self) -> Option<u64> {
        Some((*self).into())
    }
}

impl<Q: Quantity> Quantity for Option<Q> {
    fn of(quantity: Option<u64>) -> Self {
        quantity.map(|quantity| Q::of(Some(quantity)))
    }
    fn quantity(&self) -> Option<u64> {
        self.as_ref().and_then(Q::quantity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_quantities_with_units_and_shows_no_fractions() {
        for (unit, text, quantity, shown) in [
            (Unit::Time, "500ms", 500, "500 ms"),
            (Unit::Time, " 90 s ", 90_000, "90 s"),
            (Unit::Time, "120s", 120_000, "2 m"),
            (Unit::Bytes, "64MiB", 64 << 20, "64 MiB"),
            (Unit::Bytes, " +64 MiB ", 64 << 20, "64 MiB"),
            (Unit::Bytes, "1536KiB", 1536 << 10, "1536 KiB"),
            (Unit::Bytes, "255B", 255, "255 bytes"),
            (Unit::Bytes, "1B", 1, "1 byte"),
            (Unit::Count, "64", 64, "64"),
        ] {
            assert_eq!(unit.parse(text), Some(quantity), "{text}");
            assert_eq!(unit.show(quantity), shown);
        }
        for (unit, text) in [
            (Unit::Time, "10"),
            (Unit::Time, "s"),
            (Unit::Bytes, "1.5GiB"),
            (Unit::Bytes, "-1B"),
            (Unit::Bytes, "99999999999GiB"),
            (Unit::Bytes, "99999999999999999999B"),
            (Unit::Count, "1s"),
            (Unit::Count, ""),
        ] {
            assert_eq!(unit.parse(text), None, "{text}");
        }
    }
}
