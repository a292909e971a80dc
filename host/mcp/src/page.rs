//! Pages of a long listing. A cursor names the listing and where in it a page
//! starts. It holds no secret, and every instance of the server reads it alike.

use std::fmt::Write as _;

use rmcp::model::ErrorData;
use sha2::{Digest as _, Sha256};

/// The most entries of a page. Guards against: a listing that fills a client's
/// buffers.
const PAGE: usize = 100;

/// The digits of a cursor that stand for the listing.
const DIGITS: usize = 16;

/// Returns one page of `items`, and the cursor of the next page if there is one.
/// A cursor is good only for a listing with the same `name`s.
pub(crate) fn cut<T>(
    mut items: Vec<T>,
    cursor: Option<&str>,
    name: impl Fn(&T) -> &str,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let listing = fingerprint(items.iter().map(name));
    let start = match cursor {
        None => 0,
        Some(cursor) => position(cursor, &listing, items.len()).ok_or_else(|| {
            ErrorData::invalid_params(
                "the cursor is not of this listing; list again without one",
                None,
            )
        })?,
    };
    let mut page = items.split_off(start);
    let next = (page.len() > PAGE).then(|| format!("{listing}{:x}", start + PAGE));
    page.truncate(PAGE);
    Ok((page, next))
}

fn position(cursor: &str, listing: &str, length: usize) -> Option<usize> {
    let digits = cursor.strip_prefix(listing)?;
    let start = usize::from_str_radix(digits, 16).ok()?;
    // Only cursors that were given out: the start of a page, no sign or leading zero.
    let given = start > 0 && start < length && start.is_multiple_of(PAGE);
    (given && format!("{start:x}") == digits).then_some(start)
}

fn fingerprint<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for name in names {
        digest.update(name.len().to_le_bytes());
        digest.update(name);
    }
    let mut fingerprint = String::with_capacity(DIGITS);
    for byte in &digest.finalize()[..DIGITS / 2] {
        let _ = write!(fingerprint, "{byte:02x}");
    }
    fingerprint
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("name {n}")).collect()
    }

    #[test]
    fn pages_hold_every_entry_once_in_order() {
        for count in [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 7] {
            let mut seen = Vec::new();
            let mut cursor = None;
            loop {
                let (page, next) = cut(names(count), cursor.as_deref(), |name| name).unwrap();
                assert!(page.len() <= PAGE);
                seen.extend(page);
                match next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            assert_eq!(seen, names(count));
        }
    }

    #[test]
    fn accepts_only_cursors_that_were_given_out() {
        let (_, cursor) = cut(names(PAGE + 1), None, |name| name).unwrap();
        let good = cursor.unwrap();
        assert!(cut(names(PAGE + 1), Some(&good), |name| name).is_ok());
        // Another listing, though as long.
        let mut other = names(PAGE + 1);
        other[0].push('x');
        assert!(cut(other, Some(&good), |name| name).is_err());
        let listing = &good[..DIGITS];
        for bad in [
            "",
            "0",
            "100",
            listing,
            &format!("{listing}0"),
            &format!("{listing}1"),
            &format!("{listing}+64"),
            &format!("{listing}064"),
            &format!("{listing}c8"),
            &format!("{listing}ffffffffffffffffff"),
            &format!("{good} "),
            &"f".repeat(1 << 20),
        ] {
            let error = cut(names(PAGE + 1), Some(bad), |name| name).unwrap_err();
            assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS);
        }
    }
}
