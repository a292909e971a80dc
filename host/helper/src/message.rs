//! The messages between this process and its helper processes.
//!
//! A message is a kind (one byte), a length (four bytes, little-endian), and contents of that
//! length. Each reader limits the length.

use std::io::{self, ErrorKind, Read, Write};

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request.
    Request = 0,
    /// The answer to a request.
    Answer = 1,
    /// The error of a failed request.
    Failure = 2,
}

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// The kind.
    pub kind: Kind,
    /// The contents.
    pub bytes: Vec<u8>,
}

/// Writes a message.
///
/// # Errors
///
/// Fails if the contents have 4 GiB or more, or cannot be written.
pub fn write_message(mut to: impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| ErrorKind::FileTooLarge)?;
    to.write_all(&head(kind, length))?;
    to.write_all(bytes)?;
    to.flush()
}

/// Returns the bytes before the contents of a message.
pub(crate) fn head(kind: Kind, length: u32) -> [u8; 5] {
    let [a, b, c, d] = length.to_le_bytes();
    [kind as u8, a, b, c, d]
}

/// Reads a message. Returns `None` if the other side has closed its end.
///
/// # Errors
///
/// Fails with `InvalidData` for an unknown kind, with `FileTooLarge` if the contents have more
/// than `max_bytes`, and with `UnexpectedEof` if the message is cut off.
pub fn read_message(mut from: impl Read, max_bytes: usize) -> io::Result<Option<Message>> {
    let mut head = Vec::new();
    (&mut from).take(5).read_to_end(&mut head)?;
    if head.is_empty() {
        return Ok(None);
    }
    let head: [u8; 5] = head.try_into().map_err(|_| ErrorKind::UnexpectedEof)?;
    let [kind, length @ ..] = head;
    let kind = [Kind::Request, Kind::Answer, Kind::Failure]
        .into_iter()
        .find(|known| *known as u8 == kind)
        .ok_or(ErrorKind::InvalidData)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > max_bytes {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(Message { kind, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_messages_to_the_end() {
        let mut bytes = Vec::new();
        write_message(&mut bytes, Kind::Request, b"").unwrap();
        write_message(&mut bytes, Kind::Failure, &[b'x'; 300]).unwrap();
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0, 2, 44, 1]);
        let mut rest = &*bytes;
        for (kind, length) in [(Kind::Request, 0), (Kind::Failure, 300)] {
            let bytes = vec![b'x'; length];
            let message = read_message(&mut rest, 300).unwrap();
            assert_eq!(message, Some(Message { kind, bytes }));
        }
        assert_eq!(read_message(&mut rest, 300).unwrap(), None);
    }

    #[test]
    fn refuses_unknown_long_and_cut_messages() {
        for (bytes, expected) in [
            (&[3, 1, 0, 0, 0, 0][..], ErrorKind::InvalidData),
            (&[0, 6, 0, 0, 0], ErrorKind::FileTooLarge),
            (&[0, 255, 255, 255, 255], ErrorKind::FileTooLarge),
            (&[0], ErrorKind::UnexpectedEof),
            (&[0, 1, 0, 0], ErrorKind::UnexpectedEof),
            (&[0, 5, 0, 0, 0, 1, 1, 1, 1], ErrorKind::UnexpectedEof),
        ] {
            let error = read_message(bytes, 5).unwrap_err();
            assert_eq!(error.kind(), expected, "{bytes:?}");
        }
    }
}
