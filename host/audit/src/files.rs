//! The files of a log, in the order of their records.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use skillhost_sandbox::tool::audit::chain::{
    Link, MAX_SEARCH_BYTES, MAX_ZERO_BYTES, NAME_BYTES, TimeText, time_of,
};
use skillhost_skills::named_file;

use crate::lines::{MAX_LINE_BYTES, Piece, PieceReader};

/// The size of the buffer for reading a file, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// A file of a log. It is opened only while it is read, because a log can have more files than a
/// process can have open.
pub(crate) struct InputFile {
    /// The path, for messages.
    pub(crate) name: String,
    path: PathBuf,
    first: FirstRecord,
    /// The device and inode numbers.
    file_id: (u64, u64),
}

/// The first record of a file that belongs to a chain.
///
/// The default value stands for a file without such a record, for example one that a version of
/// skillhost without chains wrote. Such a file sorts before all others.
#[derive(Default, Clone, Copy)]
struct FirstRecord {
    time: TimeText,
    chain: [u8; NAME_BYTES],
    sequence: u64,
}

impl InputFile {
    /// Calls `each` with each piece of the file, until `each` returns false. Returns whether the
    /// whole file was read.
    pub(crate) fn read(
        self,
        mut each: impl FnMut(Piece<'_>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        let name = self.name;
        let context = || format!("cannot read the log `{name}`");
        let (file, file_id) = open(&self.path).with_context(context)?;
        ensure!(
            file_id == self.file_id,
            "`{name}` was renamed while the log was read; try again"
        );
        let mut pieces = PieceReader::new(BufReader::with_capacity(BUFFER_BYTES, file));
        while let Some(piece) = pieces.next().with_context(context)? {
            if !each(piece)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Sorts the files of a log by the age of their chain, then by the sequence number of their first
/// record.
pub(crate) fn sort_files(paths: &[PathBuf]) -> anyhow::Result<Vec<InputFile>> {
    let mut files: Vec<InputFile> = paths
        .iter()
        .map(|path| inspect(path))
        .collect::<anyhow::Result<_>>()?;
    files.sort_by_key(|file| file.first.sequence);
    let mut chain_times = BTreeMap::new();
    for InputFile { first, .. } in &files {
        chain_times.entry(first.chain).or_insert(first.time);
    }
    files.sort_by_key(|file| (chain_times.get(&file.first.chain), file.first.chain));
    Ok(files)
}

/// Returns a file of a log, with its first record.
fn inspect(path: &Path) -> anyhow::Result<InputFile> {
    let name = path.display().to_string();
    let context = || format!("cannot read the log `{name}`");
    let (file, file_id) = open(path).with_context(context)?;
    let first = FirstRecord::find(&file).with_context(context)?;
    Ok(InputFile {
        name,
        path: path.to_owned(),
        first,
        file_id,
    })
}

/// Opens a file. Also returns its device and inode numbers.
fn open(path: &Path) -> anyhow::Result<(File, (u64, u64))> {
    let file = named_file::open(path)?;
    let metadata = file.metadata()?;
    Ok((file, (metadata.dev(), metadata.ino())))
}

/// Returns whether the first record of a file has the chain and the sequence number of `link`.
pub(crate) fn begins_with(file: &File, link: Link) -> std::io::Result<bool> {
    let first = FirstRecord::find(file)?;
    Ok((first.chain, first.sequence) == (link.chain, link.sequence))
}

impl FirstRecord {
    /// Finds the first record in a file that belongs to a chain. A torn record may stand before it,
    /// and zero bytes that a power failure left. At the end of the file, it may lack its line feed.
    /// A part of a line that is too long does not count, here or in the verifier.
    fn find(file: &File) -> std::io::Result<Self> {
        let head = file.take(MAX_SEARCH_BYTES + MAX_ZERO_BYTES);
        let mut pieces = PieceReader::new(BufReader::new(head));
        let mut searched = 0;
        let mut is_in_long_line = false;
        while searched < MAX_SEARCH_BYTES
            && let Some(piece) = pieces.next()?
        {
            let (bytes, is_line) = match piece {
                Piece::Line(bytes) => (bytes, true),
                Piece::Part { bytes, ends_line } => {
                    let is_line = !is_in_long_line && bytes.len() < MAX_LINE_BYTES;
                    is_in_long_line = !ends_line;
                    (bytes, is_line)
                }
            };
            searched += bytes.iter().filter(|byte| **byte != 0).count() as u64;
            if is_line
                && let Some(link) = Link::parse(bytes)
                && let Some(time) = time_of(bytes)
            {
                // The first record of a chain does not contain the chain's name: the name is made
                // from that record's digest. The link after the record has the name.
                return Ok(Self {
                    time,
                    chain: link.next_after(bytes).chain,
                    sequence: link.sequence,
                });
            }
        }
        Ok(Self::default())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    /// Returns a record, and its link.
    pub(crate) fn record() -> (Link, Vec<u8>) {
        let link = Link {
            chain: [1; 8],
            sequence: 7,
            previous: [2; 32],
        };
        let mut record = b"{\"time\":\"2026-01-01T00:00:00.000Z\"}".to_vec();
        link.seal(&mut record);
        (link, record)
    }

    #[test]
    fn first_record_is_a_whole_line() {
        let (link, record) = record();
        let long_line = vec![b'x'; MAX_LINE_BYTES];
        for (before, after, is_found) in [
            (&b""[..], "\n", true),
            (b"", "", true),
            (b"torn\n\0\0\n", "\n", true),
            (&long_line, "\n", false),
            (&long_line, "", false),
            (&[&*long_line, b"\n"].concat(), "\n", true),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&[before, &record, after.as_bytes()].concat())
                .unwrap();
            file.rewind().unwrap();
            let case = (before.len(), after);
            assert_eq!(begins_with(&file, link).unwrap(), is_found, "{case:?}");
        }
    }
}
