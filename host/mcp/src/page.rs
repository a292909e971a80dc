//! Splits long listings into pages. [`cut`] does this for listings that are in memory. Its
//! cursors name the listing and the position at which a page starts. They hold no secret, and
//! all instances of the server accept them.

use std::fmt::Write as _;
use std::io;

use rmcp::model::ErrorData;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The maximum number of entries of a page. Guards against: a listing that fills a client's
/// buffers.
const PAGE_ENTRIES: usize = 100;

/// The maximum number of bytes of a page's entries in JSON. Guards against: long names and
/// descriptions, which fill a client's buffers with few entries.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// The size of a page's entries in JSON, and its maximum, in bytes.
pub(crate) struct PageSize {
    bytes: usize,
    max: usize,
}

impl PageSize {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: 0, max }
    }

    /// Adds an entry of this size. Returns false if the page must end before this entry. The first
    /// entry always fits.
    pub(crate) fn add(&mut self, entry: usize) -> bool {
        // One more byte for a comma.
        let bytes = self.bytes + entry + 1;
        let fits = self.bytes == 0 || bytes <= self.max;
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Returns the number of bytes of a value in JSON.
pub(crate) fn json_bytes(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Fails only for values that JSON cannot express. Entries have none.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// The number of a cursor's digits that identify the listing.
const LISTING_DIGITS: usize = 16;

/// Returns one page of `items`, and the cursor of the next page if there is one. The entries of a
/// page have at most `max_bytes` in JSON; a larger entry gets its own page. A cursor is valid only
/// for a listing with the same names.
pub(crate) fn cut<T>(
    mut items: Vec<T>,
    cursor: Option<&str>,
    max_bytes: usize,
    name: impl Fn(&T) -> &str,
    json_bytes: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let listing = fingerprint(items.iter().map(name));
    let starts = page_starts(items.iter().map(json_bytes), max_bytes);
    let page = match cursor {
        None => 0,
        Some(cursor) => find_page(cursor, &listing, &starts).ok_or_else(|| {
            ErrorData::invalid_params(
                "the cursor is not valid for this listing: list again without a cursor",
                None,
            )
        })?,
    };
    let next = starts.get(page + 1);
    if let Some(next) = next {
        items.truncate(*next);
    }
    let entries = items.split_off(starts[page]);
    Ok((entries, next.map(|next| format!("{listing}{next:x}"))))
}

/// Returns the position of the first entry of each page.
fn page_starts(sizes: impl Iterator<Item = usize>, max_bytes: usize) -> Vec<usize> {
    let mut starts = vec![0];
    let mut page = PageSize::new(max_bytes);
    let mut start = 0;
    for (position, bytes) in sizes.enumerate() {
        if position - start == PAGE_ENTRIES || !page.add(bytes) {
            page = PageSize::new(max_bytes);
            page.add(bytes);
            start = position;
            starts.push(start);
        }
    }
    starts
}

/// Returns the number of the page that a cursor names. Accepts only cursors that `cut`
/// returns: with the start of a page after the first, without a sign or a leading zero.
fn find_page(cursor: &str, listing: &str, starts: &[usize]) -> Option<usize> {
    let digits = cursor.strip_prefix(listing)?;
    let start = usize::from_str_radix(digits, 16).ok()?;
    let page = starts.iter().position(|other| *other == start)?;
    (page > 0 && format!("{start:x}") == digits).then_some(page)
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

    fn cut_names(
        names: Vec<String>,
        cursor: Option<&str>,
        max_bytes: usize,
    ) -> Result<(Vec<String>, Option<String>), ErrorData> {
        cut(names, cursor, max_bytes, |name| name, json_bytes)
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
                let (page, next) = cut_names(names(count), cursor.as_deref(), PAGE_BYTES).unwrap();
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
    fn limits_page_bytes_but_allows_one_large_entry() {
        // With quotes and a comma they have 103, 103, 203, 503, 53 and 4 bytes.
        let names = [100, 100, 200, 500, 50, 1].map(|length| "x".repeat(length));
        for (max_bytes, expected) in [
            (10_000, vec![6]),
            (969, vec![6]),
            (968, vec![5, 1]),
            (409, vec![3, 1, 2]),
            (408, vec![2, 1, 1, 2]),
            (1, vec![1; 6]),
        ] {
            let (mut pages, mut seen, mut cursor) = (Vec::new(), Vec::new(), None::<String>);
            loop {
                let (page, next) = cut_names(names.to_vec(), cursor.as_deref(), max_bytes).unwrap();
                pages.push(page.len());
                seen.extend(page);
                match next {
                    Some(next) => cursor = Some(next),
                    None => break,
                }
            }
            assert_eq!(pages, expected, "{max_bytes}");
            assert_eq!(seen, names);
        }
    }

    #[test]
    fn counts_bytes_of_escaped_json() {
        let value = serde_json::json!({"a": "\u{1b}\"", "b": [1, null]});
        assert_eq!(json_bytes(&value), value.to_string().len());
    }

    #[test]
    fn accepts_only_returned_cursors() {
        let (_, cursor) = cut_names(names(PAGE_ENTRIES + 1), None, PAGE_BYTES).unwrap();
        let valid = cursor.unwrap();
        assert!(cut_names(names(PAGE_ENTRIES + 1), Some(&valid), PAGE_BYTES).is_ok());
        // Another listing of the same length.
        let mut other = names(PAGE_ENTRIES + 1);
        other[0].push('x');
        assert!(cut_names(other, Some(&valid), PAGE_BYTES).is_err());
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
            let error = cut_names(names(PAGE_ENTRIES + 1), Some(invalid), PAGE_BYTES).unwrap_err();
            assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS);
        }
    }
}
