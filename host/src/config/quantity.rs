//! Quantities in a configuration: times, sizes and numbers, with their units
//! and their bounds.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::limits;

/// A time: `"10s"`, `"500ms"`, or seconds as an integer.
pub(super) struct Time(pub(super) Duration);

/// A number of things, one or more.
pub(super) struct Count(pub(super) usize);

impl Count {
    pub(super) fn at_most(&self, most: u32) -> u32 {
        u32::try_from(self.0).unwrap_or(most).min(most)
    }
}

/// A size: `"64MiB"`, `"512KiB"`, `"100B"`, or bytes as an integer.
pub(super) struct Bytes(pub(super) usize);

const TIMES: [(&str, u64); 3] = [("ms", 1), ("s", 1_000), ("m", 60_000)];
const SIZES: [(&str, u64); 4] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("B", 1),
];

/// Longest time a call can be given: a day.
const MAX_TIME: u64 = 24 * 60 * 60 * 1000;

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let quantity = Quantity {
            units: &TIMES,
            plain: 1_000,
            example: "a time such as \"10s\" or \"500ms\"",
        };
        let ms = deserializer.deserialize_any(quantity)?;
        if ms == 0 || ms > MAX_TIME {
            return Err(de::Error::custom(
                "a time limit is between 1 ms and 24 hours",
            ));
        }
        Ok(Self(Duration::from_millis(ms)))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let quantity = Quantity {
            units: &SIZES,
            plain: 1,
            example: "a size such as \"64MiB\" or \"512KiB\"",
        };
        let bytes = deserializer.deserialize_any(quantity)?;
        match usize::try_from(bytes) {
            Ok(bytes @ 1..=limits::MAX_MEMORY) => Ok(Self(bytes)),
            _ => Err(de::Error::custom("a size is between 1 byte and 4 GiB")),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            0 => Err(de::Error::custom("a limit is at least 1")),
            count => Ok(Self(count as usize)),
        }
    }
}

/// A number of things of which the engine has room for so many.
pub(super) struct UpTo<const MOST: usize>(pub(super) usize);

impl<'de, const MOST: usize> Deserialize<'de> for UpTo<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Count::deserialize(deserializer)?.0 {
            count if count <= MOST => Ok(Self(count)),
            _ => Err(de::Error::custom(format!("this limit is at most {MOST}"))),
        }
    }
}

/// Bytes of a guest's stack.
pub(super) struct Stack(pub(super) usize);

impl<'de> Deserialize<'de> for Stack {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Bytes::deserialize(deserializer)?.0;
        match limits::STACK.contains(&bytes) {
            true => Ok(Self(bytes)),
            false => Err(de::Error::custom("a stack is between 64 KiB and 64 MiB")),
        }
    }
}

/// Reads a number with a unit.
struct Quantity {
    units: &'static [(&'static str, u64)],
    plain: u64,
    example: &'static str,
}

impl Visitor<'_> for Quantity {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.example)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number)
            .ok()
            .and_then(|number| number.checked_mul(self.plain))
            .ok_or_else(|| E::custom(format!("expected {}", self.example)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        self.units
            .iter()
            .find_map(|(unit, worth)| {
                let number: u64 = text.trim().strip_suffix(unit)?.trim_end().parse().ok()?;
                number.checked_mul(*worth)
            })
            .ok_or_else(|| {
                E::custom(format!(
                    "expected {}, not \"{}\"",
                    self.example,
                    text.escape_debug()
                ))
            })
    }
}
