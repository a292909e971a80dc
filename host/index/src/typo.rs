//! Compares words that differ in a few letters.
//!
//! An unknown word of a query is compared with all terms of an index, so a comparison
//! must take nanoseconds.

/// The longest word that can be compared: one bit for each letter.
const MAX_WORD_LENGTH: usize = 64;

/// A word to compare with others.
pub(crate) struct MistypedWord {
    /// The positions of each letter in the word, as bits.
    positions: [u64; 128],
    letters: u32,
    length: usize,
}

impl MistypedWord {
    /// Prepares a word for comparisons. Returns `None` if it is empty, too long or not ASCII.
    pub(crate) fn new(word: &str) -> Option<Self> {
        if !(1..=MAX_WORD_LENGTH).contains(&word.len()) || !word.is_ascii() {
            return None;
        }
        let mut positions = [0; 128];
        for (position, letter) in word.bytes().enumerate() {
            positions[usize::from(letter)] |= 1 << position;
        }
        Some(Self {
            positions,
            letters: letter_set(word),
            length: word.len(),
        })
    }

    /// Checks quickly whether a word may be within `max_distance`, by its length and its
    /// [letter set](letter_set). Returns `true` for every word within that distance, and for some
    /// others.
    pub(crate) fn may_be_within(&self, max_distance: usize, length: usize, letters: u32) -> bool {
        // A changed letter removes one letter of the set and adds another.
        length.abs_diff(self.length) <= max_distance
            && (self.letters ^ letters).count_ones() as usize <= 2 * max_distance
    }

    /// Returns the number of letters to add, remove, change or swap with their neighbour
    /// to get another word. Returns `None` if the other word is not ASCII.
    ///
    /// This is the optimal string alignment distance, computed a column at a time (Hyyrö
    /// 2003).
    pub(crate) fn distance(&self, other: &str) -> Option<usize> {
        let last = 1 << (self.length - 1);
        let (mut up, mut down, mut diagonal, mut previous_matches) = (u64::MAX, 0, 0_u64, 0);
        let mut distance = self.length;
        for letter in other.bytes() {
            let matches = *self.positions.get(usize::from(letter))?;
            let swapped = ((!diagonal & matches) << 1) & previous_matches;
            diagonal = ((matches & up).wrapping_add(up) ^ up) | matches | down | swapped;
            let right = down | !(diagonal | up);
            let left = diagonal & up;
            distance += usize::from(right & last != 0);
            distance -= usize::from(left & last != 0);
            let right = (right << 1) | 1;
            up = (left << 1) | !(diagonal | right);
            down = right & diagonal;
            previous_matches = matches;
        }
        Some(distance)
    }
}

/// Returns the set of letters in a word, as bits. Different letters may share a bit.
pub(crate) fn letter_set(word: &str) -> u32 {
    let bits = word.bytes().map(|byte| 1 << (byte % 32));
    bits.fold(0, |letters, bit| letters | bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        for (word, other, distance) in [
            ("docker", "docker", 0),
            ("docker", "dokcer", 1),
            ("docker", "dcoekr", 2),
            ("docker", "doker", 1),
            ("docker", "dockers", 1),
            ("docker", "", 6),
            ("ca", "abc", 3),
        ] {
            let counted = MistypedWord::new(word).unwrap().distance(other);
            assert_eq!(counted, Some(distance), "{word} {other}");
        }
        assert_eq!(MistypedWord::new("doker").unwrap().distance("döker"), None);
        for word in ["", "döker", &"a".repeat(MAX_WORD_LENGTH + 1)] {
            assert!(MistypedWord::new(word).is_none(), "{word}");
        }
    }

    #[test]
    fn agrees_with_another_implementation() {
        let words: Vec<String> = (0..400_u64)
            .map(|number| {
                let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let length = 1 + bits % 9 + 55 * u64::from(number % 50 == 0);
                let letters = (0..length).map(|_| {
                    bits = bits.rotate_left(7).wrapping_mul(0xd129_0d3a_77bd_1f65);
                    char::from(b'a' + (bits >> 61) as u8 % 4)
                });
                letters.collect()
            })
            .collect();
        for word in &words {
            let mistyped = MistypedWord::new(word).unwrap();
            for other in &words {
                let distance = strsim::osa_distance(word, other);
                assert_eq!(mistyped.distance(other), Some(distance), "{word} {other}");
                for max_distance in distance..3 {
                    let letters = letter_set(other);
                    assert!(mistyped.may_be_within(max_distance, other.len(), letters));
                }
            }
        }
    }
}
