//! Where a page of a listing ended. A cursor says after which item the next page
//! starts, and not how many there were: what is added or goes in between shifts
//! nothing. It holds no secret and opens nothing that the listing itself would
//! not, so it needs no seal; what is no cursor of this listing is refused.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use skillhost::limits;

/// Bytes of a cursor. Meets: a text that costs something before it is refused.
const MOST_BYTES: usize = 8 * limits::PATH_BYTES;

/// A text that is no cursor of this listing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is none of this listing: list again without one")]
pub(crate) struct BadCursor;

/// The cursor of a place in a listing.
pub(crate) fn encode<const N: usize>(listing: &str, place: [&str; N]) -> String {
    let parts: Vec<&str> = std::iter::once(listing).chain(place).collect();
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::json!(parts).to_string())
}

/// The place that a cursor names.
pub(crate) fn decode<const N: usize>(
    listing: &str,
    cursor: &str,
) -> Result<[String; N], BadCursor> {
    if cursor.len() > MOST_BYTES {
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
    fn a_cursor_is_read_back_by_its_own_listing_alone() {
        let cursor = encode("resources", ["a", "docs/ä\0.md"]);
        let place = ["a".to_owned(), "docs/ä\0.md".to_owned()];
        assert_eq!(decode("resources", &cursor), Ok(place));
        assert_eq!(decode::<2>("skills", &cursor), Err(BadCursor));
        assert_eq!(decode::<1>("resources", &cursor), Err(BadCursor));
        assert_eq!(decode::<3>("resources", &cursor), Err(BadCursor));
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
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
            encode("skills", [&"x".repeat(MOST_BYTES)]),
        ] {
            assert_eq!(decode::<1>("skills", &cursor), Err(BadCursor), "{cursor:?}");
        }
    }
}
