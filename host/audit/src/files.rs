//! The files of a log, in the order of their records.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::PathBuf;

use anyhow::Context as _;
use skillhost::internal::chain::{Link, NAME};
use skillhost::named_file;

use crate::lines::{Piece, Pieces};

/// The bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// The beginning of a record, before its time, and the bytes of that.
const BEFORE_TIME: &[u8] = b"{\"time\":\"";
const TIME: usize = 24;

/// The bytes at the beginning of a file in which its first record is looked for. Guards
/// against: a file without records, which would be read twice. A part of a record that is
/// torn is shorter.
const HEAD_BYTES: u64 = 128 << 10;

/// A file of a log.
pub(crate) struct LogPart {
    /// Its path, for messages.
    pub(crate) name: String,
    first: FirstRecord,
    file: File,
}

/// The first record of a chain in a file. Default: there is none, because a version
/// without a chain wrote the file. Such a file is before all others.
#[derive(Default, Clone, Copy)]
struct FirstRecord {
    /// The time, as text.
    time: [u8; TIME],
    chain: [u8; NAME],
    sequence: u64,
}

impl LogPart {
    /// Calls a function with each piece of the file, until it returns false.
    pub(crate) fn read(
        self,
        mut each: impl FnMut(Piece<'_>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        let Self { name, file, .. } = self;
        let mut pieces = Pieces::new(BufReader::with_capacity(BUFFER_BYTES, file));
        let cannot = || format!("cannot read the log `{name}`");
        while let Some(piece) = pieces.next().with_context(cannot)? {
            if !each(piece)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Opens the files of a log, and puts them in the order of their records, and of their
/// chains, if there are several.
pub(crate) fn open(paths: &[PathBuf]) -> anyhow::Result<Vec<LogPart>> {
    let open = |path: &PathBuf| {
        let name = path.display().to_string();
        let cannot = || format!("cannot read the log `{name}`");
        let mut file = named_file::open(path).with_context(cannot)?;
        let first = FirstRecord::find(&file).with_context(cannot)?;
        file.rewind().with_context(cannot)?;
        Ok(LogPart { name, first, file })
    };
    let mut parts: Vec<LogPart> = paths.iter().map(open).collect::<anyhow::Result<_>>()?;
    parts.sort_by_key(|part| part.first.sequence);
    let mut times = BTreeMap::new();
    for LogPart { first, .. } in &parts {
        times.entry(first.chain).or_insert(first.time);
    }
    parts.sort_by_key(|part| (times.get(&part.first.chain), part.first.chain));
    Ok(parts)
}

impl FirstRecord {
    /// Finds the first record of a chain in a file. A part of one may stand before it.
    fn find(file: &File) -> std::io::Result<Self> {
        let mut pieces = Pieces::new(BufReader::new(file.take(HEAD_BYTES)));
        while let Some(piece) = pieces.next()? {
            if let Piece::Line(line) = piece
                && let Some(link) = Link::of(line)
                && let Some(time) = line.strip_prefix(BEFORE_TIME)
                && let Some(time) = time.first_chunk()
            {
                return Ok(Self {
                    time: *time,
                    chain: link.after(line).chain,
                    sequence: link.sequence,
                });
            }
        }
        Ok(Self::default())
    }
}
