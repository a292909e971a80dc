//! Cursors that hold an item instead of a number, so that added or removed items do not shift later
//! pages. The item is the last one of a page, or the next one.
//!
//! A cursor needs no signature: it holds no secret, and gives no access beyond the listing. A
//! cursor of another listing is refused.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use skillhost::limits;

/// The maximum number of bytes of a cursor. Guards against: text that is costly to refuse.
const MAX_BYTES: usize = 8 * limits::PATH_BYTES;

/// The error for text that is not a cursor of this listing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is not valid for this listing: list again without a cursor")]
pub(crate) struct BadCursor;

/// Returns the cursor of a listing that holds this item.
pub(crate) fn encode<const N: usize>(listing: &str, item: [&str; N]) -> String {
    let parts: Vec<&str> = std::iter::once(listing).chain(item).collect();
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::json!(parts).to_string())
}

/// Returns the item that a cursor of this listing holds.
pub(crate) fn decode<const N: usize>(
    listing: &str,
    cursor: &str,
) -> Result<[String; N], BadCursor> {
    if cursor.len() > MAX_BYTES {
        return Err(BadCursor);
    }
    let json = BASE64_URL_SAFE_NO_PAD
        .decode(cursor)
        .map_err(|_| BadCursor)?;
    let mut parts: Vec<String> = serde_json::from_slice(&json).map_err(|_| BadCursor)?;
    if parts.first().is_none_or(|first| first != listing) {
        return Err(BadCursor);
    }
    parts.remove(0);
    parts.try_into().map_err(|_| BadCursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_cursors_of_same_listing_only() {
        let cursor = encode("resources", ["a", "docs/ä\0.md"]);
        let item = ["a".to_owned(), "docs/ä\0.md".to_owned()];
        assert_eq!(decode("resources", &cursor), Ok(item));
        assert_eq!(decode::<2>("skills", &cursor), Err(BadCursor));
        assert_eq!(decode::<1>("resources", &cursor), Err(BadCursor));
        assert_eq!(decode::<3>("resources", &cursor), Err(BadCursor));
    }

    #[test]
    fn refuses_other_text() {
        let json = |json: &str| BASE64_URL_SAFE_NO_PAD.encode(json);
        for cursor in [
            String::new(),
            "0".to_owned(),
            "not a cursor".to_owned(),
            json(""),
            json("[]"),
            json("[\"skills\"]"),
            json("[\"skills\", 1]"),
            json("{\"skills\": \"a\"}"),
            json("[\"skills\", \"a\", \"b\"]"),
            BASE64_URL_SAFE_NO_PAD.encode(b"[\"skills\", \"\xff\"]"),
            encode("skills", ["a"]) + "=",
            encode("skills", [&"x".repeat(MAX_BYTES)]),
        ] {
            assert_eq!(decode::<1>("skills", &cursor), Err(BadCursor), "{cursor:?}");
        }
    }
}
