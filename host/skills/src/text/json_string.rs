//! Writes a text as a JSON string, with the same bytes as serde_json, but faster. With a check of
//! each byte, this would take longer than all other work on a large text. This code checks whole
//! blocks with a few instructions.

/// The number of bytes in a block, one for each bit of a mask.
const BLOCK: usize = 64;

/// The number of bytes in a chunk. Memory is reserved for one chunk at a time.
const CHUNK: usize = 64 * BLOCK;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The escapes of all bytes.
static ESCAPES: [EscapedByte; 256] = escapes();

#[derive(Clone, Copy)]
struct EscapedByte {
    bytes: [u8; 2],
    length: usize,
    /// True for an escape of six bytes, which is not in the table.
    long: bool,
}

const fn escapes() -> [EscapedByte; 256] {
    let unchanged = EscapedByte {
        bytes: [0, 0],
        length: 1,
        long: false,
    };
    let mut all = [unchanged; 256];
    let mut byte: u8 = 0;
    loop {
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            _ => 0,
        };
        let entry = &mut all[byte as usize];
        if short == 0 {
            entry.bytes[0] = byte;
            entry.long = byte < 0x20;
        } else {
            entry.bytes = [b'\\', short];
            entry.length = 2;
        }
        if byte == u8::MAX {
            return all;
        }
        byte += 1;
    }
}

/// Returns the number of bytes to reserve for a text. This is enough if escapes make the text at
/// most a sixteenth longer. It includes the memory that [`push`] adds for a chunk and truncates
/// later.
pub fn capacity_for(text: &str) -> usize {
    text.len() + text.len() / 16 + text.len().min(CHUNK) + BLOCK
}

/// Appends a text as a JSON string, with its quotation marks.
pub fn push(json: &mut Vec<u8>, text: &str) {
    json.push(b'"');
    let mut rest = text.as_bytes();
    let mut end = json.len();
    while rest.len() >= 2 * BLOCK {
        let length = (rest.len() - BLOCK).min(CHUNK) / BLOCK * BLOCK;
        // Each byte becomes at most two bytes here, and the last copy of a block may start after
        // them. Memory that the previous chunk left over is not zeroed again.
        json.resize(json.len().max(end + 2 * length + BLOCK), 0);
        match write_blocks(&mut json[end..], rest, length) {
            Some(written) => end += written,
            None => {
                json.truncate(end);
                push_bytes(json, &rest[..length]);
                end = json.len();
            }
        }
        rest = &rest[length..];
    }
    json.truncate(end);
    push_bytes(json, rest);
    json.push(b'"');
}

/// Writes the blocks in the first `length` bytes of a text, and returns the number of bytes
/// written. Returns `None` if a byte needs an escape of six bytes.
///
/// Whole blocks are copied. Therefore `text` must have at least `length + BLOCK` bytes, and `to`
/// at least `2 * length + BLOCK`.
fn write_blocks(to: &mut [u8], text: &[u8], length: usize) -> Option<usize> {
    let mut at = 0;
    let mut long = false;
    for start in (0..length).step_by(BLOCK) {
        let text = &text[start..];
        let block = text.first_chunk()?;
        let mut mask = escape_mask(block);
        let mut done = 0;
        loop {
            // Copying a whole block is faster than a part of it. The excess is overwritten.
            let plain = text[done..].first_chunk::<BLOCK>()?;
            *to[at..].first_chunk_mut()? = *plain;
            if mask == 0 {
                break;
            }
            let next = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let escape = &ESCAPES[usize::from(block[next])];
            long |= escape.long;
            at += next - done;
            *to[at..].first_chunk_mut()? = escape.bytes;
            at += 2;
            done = next + 1;
        }
        at += BLOCK - done;
    }
    (!long).then_some(at)
}

/// Returns a bit mask of the bytes in a block that need an escape.
fn escape_mask(block: &[u8; BLOCK]) -> u64 {
    let flags = block.map(|byte| u8::from((byte < 0x20) | (byte == b'"') | (byte == b'\\')));
    let (words, _) = flags.as_chunks::<8>();
    // The product has the lowest bits of the eight bytes in its highest byte.
    let bits = words
        .iter()
        .map(|word| u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56);
    bits.rev().fold(0, |all, bits| all << 8 | bits)
}

fn push_bytes(json: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        let escape = &ESCAPES[usize::from(byte)];
        if escape.long {
            let digit = |bits: u8| DIGITS[usize::from(bits)];
            json.extend_from_slice(b"\\u00");
            json.extend_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        } else {
            json.extend_from_slice(&escape.bytes[..escape.length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str) {
        let mut json = b"before".to_vec();
        push(&mut json, text);
        let expected = format!("before{}", serde_json::to_string(text).unwrap());
        assert!(json == expected.as_bytes(), "{text:?}");
    }

    #[test]
    fn writes_every_character_as_serde_json_does() {
        let ascii = (0..=0x7f).map(char::from);
        for character in ascii.chain(['\u{80}', 'é', '\u{2028}', '€', '\u{10ffff}']) {
            for before in (0..3 * BLOCK).chain([CHUNK - 1, CHUNK, CHUNK + BLOCK]) {
                let text = format!("{}{character}{}", "x".repeat(before), "y".repeat(BLOCK));
                check(&text);
            }
        }
    }

    #[test]
    fn writes_texts_of_every_length() {
        for length in (0..4 * BLOCK).chain([CHUNK, CHUNK + BLOCK, CHUNK + 2 * BLOCK, 3 * CHUNK + 7])
        {
            check(&"a".repeat(length));
            check(&"\"".repeat(length));
            check(&"\u{1}".repeat(length));
        }
    }

    #[test]
    fn allocates_once() {
        let line = "A line of \"ordinary\" text, as the files of skills have them.\n";
        for times in [0, 1, 3, 100, 20_000] {
            let text = line.repeat(times);
            let mut json = Vec::with_capacity(capacity_for(&text));
            let capacity = json.capacity();
            push(&mut json, &text);
            assert_eq!(json.capacity(), capacity, "{times}");
        }
    }

    proptest! {
        #[test]
        fn writes_random_texts_as_serde_json_does(
            parts in prop::collection::vec("[ -~\n\t\\\\\"]{0,90}|\\PC{0,30}|[\u{0}-\u{1f}]{1,3}", 0..90),
        ) {
            check(&parts.concat());
        }
    }
}
