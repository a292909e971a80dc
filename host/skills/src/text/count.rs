//! Writes a number with its noun, for messages.

use std::fmt::Display;

/// Returns a number and a noun, in the plural unless the number is one.
pub fn count(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    if number == "1" {
        return format!("1 {noun}");
    }
    let is_vowel = |c: char| "aeiou".contains(c);
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(is_vowel) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_plural_except_for_one() {
        assert_eq!(count(0, "file"), "0 files");
        assert_eq!(count(1_u64, "file"), "1 file");
        assert_eq!(count(11_usize, "more file"), "11 more files");
        assert_eq!(count(1, "entry"), "1 entry");
        assert_eq!(count(2, "entry"), "2 entries");
        assert_eq!(count(2, "key"), "2 keys");
    }
}
