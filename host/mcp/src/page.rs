//! Pages of a long listing. A cursor names the listing and the position at which a page
//! starts. It holds no secret, and all instances of the server accept the same cursors.

use std::fmt::Write as _;

use rmcp::model::ErrorData;
use sha2::{Digest as _, Sha256};

/// The most entries of a page. Guards against: a listing that fills a client's buffers.
const PAGE_ENTRIES: usize = 100;

/// The number of a cursor's digits that identify the listing.
const LISTING_DIGITS: usize = 16;

/// Returns one page of `items`, and the cursor of the next page if there is one. A cursor is
/// valid only for a listing with the same names.
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
                "the cursor belongs to another listing: list again without a cursor",
                None,
            )
        })?,
    };
    let mut page = items.split_off(start);
    let next = (page.len() > PAGE_ENTRIES).then(|| format!("{listing}{:x}", start + PAGE_ENTRIES));
    page.truncate(PAGE_ENTRIES);
    Ok((page, next))
}

fn position(cursor: &str, listing: &str, length: usize) -> Option<usize> {
    let digits = cursor.strip_prefix(listing)?;
    let start = usize::from_str_radix(digits, 16).ok()?;
    // Accepts only cursors that `cut` returns: the start of a page, without a sign or a
    // leading zero.
    let is_page_start = start > 0 && start < length && start.is_multiple_of(PAGE_ENTRIES);
    (is_page_start && format!("{start:x}") == digits).then_some(start)
}

fn fingerprint<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut digest = Sha256::new();
    for name in names {
        digest.update(name.len().to_le_bytes());
        digest.update(name);
    }
    let mut fingerprint = String::with_capacity(LISTING_DIGITS);
    for byte in &digest.finalize()[..LISTING_DIGITS / 2] {
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
    fn pages_contain_each_entry_once_in_order() {
        for count in [
            0,
            1,
            PAGE_ENTRIES - 1,
            PAGE_ENTRIES,
            PAGE_ENTRIES + 1,
            3 * PAGE_ENTRIES,
            3 * PAGE_ENTRIES + 7,
        ] {
            let mut seen = Vec::new();
            let mut cursor = None;
            loop {
                let (page, next) = cut(names(count), cursor.as_deref(), |name| name).unwrap();
                assert!(page.len() <= PAGE_ENTRIES);
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
    fn accepts_only_returned_cursors() {
        let (_, cursor) = cut(names(PAGE_ENTRIES + 1), None, |name| name).unwrap();
        let valid = cursor.unwrap();
        assert!(cut(names(PAGE_ENTRIES + 1), Some(&valid), |name| name).is_ok());
        // Another listing of the same length.
        let mut other = names(PAGE_ENTRIES + 1);
        other[0].push('x');
        assert!(cut(other, Some(&valid), |name| name).is_err());
        let listing = &valid[..LISTING_DIGITS];
        for invalid in [
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
            &format!("{valid} "),
            &"f".repeat(1 << 20),
        ] {
            let error = cut(names(PAGE_ENTRIES + 1), Some(invalid), |name| name).unwrap_err();
            assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS);
        }
    }
}
