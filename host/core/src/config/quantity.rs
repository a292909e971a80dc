//! Quantities in a configuration: times, sizes and numbers, with their units
//! and their bounds.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use crate::tool::limits::{self, BOUNDS, Bound, Unit};

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
        match usize::try_from(bytes(deserializer)?) {
            Ok(bytes @ 1..=limits::MAX_MEMORY) => Ok(Self(bytes)),
            _ => Err(de::Error::custom("a size is between 1 byte and 4 GiB")),
        }
    }
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Quantity {
        units: &SIZES,
        plain: 1,
        example: "a size such as \"64MiB\" or \"512KiB\"",
    })
}

/// A number of bytes, in the largest unit that needs no fraction.
fn shown(bytes: usize) -> String {
    let [kib, mib, gib, _] = SIZES;
    let units = [gib, mib, kib];
    let mut units = units.into_iter();
    let unit = units.find(|(_, worth)| (bytes as u64).is_multiple_of(*worth));
    match unit {
        Some((unit, worth)) => format!("{} {unit}", bytes as u64 / worth),
        None => format!("{bytes} bytes"),
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

/// The limit at this place of [`BOUNDS`].
pub(super) struct Limit<const PLACE: usize>(pub(super) usize);

impl<'de, const PLACE: usize> Deserialize<'de> for Limit<PLACE> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Bound {
            key,
            unit,
            least,
            most,
        } = BOUNDS[PLACE];
        let (given, show): (u64, fn(usize) -> String) = match unit {
            Unit::Bytes => (bytes(deserializer)?, shown),
            Unit::Things => (u32::deserialize(deserializer)?.into(), |n| n.to_string()),
        };
        match usize::try_from(given).unwrap_or(usize::MAX) {
            given if given < least => Err(de::Error::custom(format!(
                "`{key}` is at least {}: with less, no built-in tool would answer",
                show(least)
            ))),
            given if given > most => Err(de::Error::custom(format!(
                "`{key}` is at most {}",
                show(most)
            ))),
            given => Ok(Self(given)),
        }
    }
}

/// Bytes of all answers over HTTP together.
pub(super) struct Answers(pub(super) usize);

/// Least of them: the lists of the built-in tools fit.
const LEAST_ANSWERS: usize = 64 << 10;

impl<'de> Deserialize<'de> for Answers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match usize::try_from(bytes(deserializer)?) {
            Ok(bytes @ LEAST_ANSWERS..) => Ok(Self(bytes)),
            _ => Err(de::Error::custom(format!(
                "`answers` is at least {}: with less, no list would be sent",
                shown(LEAST_ANSWERS)
            ))),
        }
    }
}

/// Bytes of memory of all calls together.
pub(super) struct CallsMemory(pub(super) usize);

impl<'de> Deserialize<'de> for CallsMemory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match usize::try_from(bytes(deserializer)?) {
            Ok(bytes @ limits::LEAST_MEMORY..) => Ok(Self(bytes)),
            _ => Err(de::Error::custom(format!(
                "`calls_memory` is at least {}: with less, no built-in tool would answer",
                shown(limits::LEAST_MEMORY)
            ))),
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
