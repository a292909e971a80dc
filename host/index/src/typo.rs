//! Words that differ in a few letters. A request's unknown word is compared with all
//! terms of an index, so that a comparison must take nanoseconds.

/// Longest word that can be compared: a bit for each letter.
const MAX_WORD: usize = 64;

/// A word to compare others with.
pub(crate) struct MistypedWord {
    /// For each letter a bit for each of its places in the word.
    places: [u64; 128],
    letters: u32,
    length: usize,
}

impl MistypedWord {
    /// Reads a word. `None` if it is empty, too long or not ASCII.
    pub(crate) fn new(word: &str) -> Option<Self> {
        if !(1..=MAX_WORD).contains(&word.len()) || !word.is_ascii() {
            return None;
        }
        let mut places = [0; 128];
        for (place, letter) in word.bytes().enumerate() {
            places[usize::from(letter)] |= 1 << place;
        }
        Some(Self {
            places,
            letters: letters_of(word),
            length: word.len(),
        })
    }

    /// Returns whether a word of this length with these [letters](letters_of) may differ
    /// in this many letters or fewer.
    pub(crate) fn may_be(&self, length: usize, letters: u32, most: usize) -> bool {
        // A letter that is changed takes one away and adds one.
        length.abs_diff(self.length) <= most
            && (self.letters ^ letters).count_ones() as usize <= 2 * most
    }

    /// Returns the letters that must be added, taken away, changed or swapped with their
    /// neighbour to make another word: the optimal string alignment, a column at a time
    /// (Hyyrö 2003). `None` if the other is not ASCII.
    pub(crate) fn distance(&self, other: &str) -> Option<usize> {
        let last = 1 << (self.length - 1);
        let (mut up, mut down, mut diagonal, mut before) = (u64::MAX, 0, 0_u64, 0);
        let mut distance = self.length;
        for letter in other.bytes() {
            let here = *self.places.get(usize::from(letter))?;
            let swapped = ((!diagonal & here) << 1) & before;
            diagonal = ((here & up).wrapping_add(up) ^ up) | here | down | swapped;
            let right = down | !(diagonal | up);
            let left = diagonal & up;
            distance += usize::from(right & last != 0);
            distance -= usize::from(left & last != 0);
            let right = (right << 1) | 1;
            up = (left << 1) | !(diagonal | right);
            down = right & diagonal;
            before = here;
        }
        Some(distance)
    }
}

/// Returns a bit for each letter that occurs in a word.
pub(crate) fn letters_of(word: &str) -> u32 {
    let bits = word.bytes().map(|byte| 1 << (byte % 32));
    bits.fold(0, |letters, bit| letters | bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_must_be_changed() {
        for (word, other, distance) in [
            ("docker", "docker", 0),
            ("docker", "dokcer", 1),
            ("docker", "dcoekr", 2),
            ("docker", "doker", 1),
            ("docker", "dockers", 1),
            ("docker", "", 6),
            ("ca", "abc", 3),
        ] {
            let found = MistypedWord::new(word).unwrap().distance(other);
            assert_eq!(found, Some(distance), "{word} {other}");
        }
        assert_eq!(MistypedWord::new("doker").unwrap().distance("döker"), None);
        for word in ["", "döker", &"a".repeat(MAX_WORD + 1)] {
            assert!(MistypedWord::new(word).is_none(), "{word}");
        }
    }

    #[test]
    fn agrees_with_a_table_of_all_distances() {
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
                for most in distance..3 {
                    assert!(mistyped.may_be(other.len(), letters_of(other), most));
                }
            }
        }
    }
}
