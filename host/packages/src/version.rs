//! Compares versions of packages, as authors write them: `1.2`, `v1.2.3-rc.1`, `2026.01.02`.

use std::cmp::Ordering;

use semver::Prerelease;

use crate::quote::quote;

/// The maximum length of a version, in bytes.
pub const MAX_VERSION: usize = 128;

/// Returns the reason why a new version is refused as a downgrade. Returns `None` if it is not.
///
/// A version that is missing or cannot be compared is refused too, because the package could be an
/// old one.
pub fn find_downgrade(old: Option<&str>, new: Option<&str>) -> Option<String> {
    let old = old?;
    let Some(new) = new else {
        return Some(format!(
            "it has no version, but the locked package has `{}`",
            quote(old)
        ));
    };
    let ordering = match (old == new, Parts::parse(old), Parts::parse(new)) {
        (true, ..) => Some(Ordering::Equal),
        (false, Some(old), Some(new)) => Some(new.cmp(&old)),
        _ => None,
    };
    let (old, new) = (quote(old), quote(new));
    match ordering {
        Some(Ordering::Less) => Some(format!("its version `{new}` is lower than `{old}`")),
        Some(_) => None,
        None => Some(format!(
            "its version `{new}` cannot be compared with `{old}`"
        )),
    }
}

/// The parts of a version that are compared. Build metadata is not compared.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Parts {
    /// The numbers without zeros at the end, so `1` and `1.0` are equal.
    numbers: Vec<u64>,
    prerelease: Prerelease,
}

impl Parts {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(text, _)| text);
        let (numbers, prerelease) = text.split_once('-').unwrap_or((text, ""));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        let numbers = numbers
            .split('.')
            .map(|part| is_number(part).then(|| part.parse().ok()).flatten());
        let mut numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        Some(Self {
            numbers,
            prerelease: Prerelease::new(prerelease).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_lower_missing_and_incomparable_versions() {
        for (old, new, why) in [
            (None, None, None),
            (None, Some("0.1"), None),
            (Some("1.2"), Some("1.2"), None),
            (Some("1.2"), Some("1.2.0"), None),
            (Some("1.2"), Some("v1.10"), None),
            (Some("1.2.0-rc.1"), Some("1.2.0"), None),
            (Some("1.2.0+b2"), Some("1.2.0+b1"), None),
            (Some("2026.01.02"), Some("2026.01.10"), None),
            (Some("main"), Some("main"), None),
            (Some("1.10"), Some("1.9"), Some("is lower than `1.10`")),
            (Some("1.2.0.1"), Some("1.2.0"), Some("is lower than")),
            (Some("1.2"), Some("1.2.0-rc.1"), Some("is lower than")),
            (Some("1.2"), None, Some("it has no version")),
            (Some("main"), Some("1.0"), Some("cannot be compared")),
            (Some("1.0"), Some("1..1"), Some("cannot be compared")),
            (Some("1.0"), Some("+1"), Some("cannot be compared")),
            (
                Some("1.0"),
                Some("99999999999999999999"),
                Some("cannot be compared"),
            ),
            (Some("1"), Some("\u{1b}[2J"), Some("`\\u{1b}[2J` cannot")),
        ] {
            let found = find_downgrade(old, new);
            match (&found, why) {
                (None, None) => {}
                (Some(found), Some(why)) => assert!(found.contains(why), "{found}"),
                _ => panic!("{old:?} {new:?}: {found:?}"),
            }
        }
    }
}
