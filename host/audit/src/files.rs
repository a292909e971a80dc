//! The files of a log, in the order of their records.

use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use skillhost::internal::chain::Link;

use crate::lines::{Piece, Pieces};

/// The bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// A file of a log.
pub(crate) struct LogPart {
    /// Its path, for messages.
    pub(crate) name: String,
    first: u64,
    file: File,
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

/// Opens the files of a log, and puts them in the order of their records.
pub(crate) fn open(paths: &[PathBuf]) -> anyhow::Result<Vec<LogPart>> {
    let open = |path: &PathBuf| {
        let name = path.display().to_string();
        let cannot = || format!("cannot read the log `{name}`");
        let mut file = File::open(path).with_context(cannot)?;
        let is_file = file.metadata().with_context(cannot)?.is_file();
        ensure!(is_file, "{}: it is not a regular file", cannot());
        let first = first_number(&file).with_context(cannot)?;
        file.rewind().with_context(cannot)?;
        Ok(LogPart { name, first, file })
    };
    let mut parts: Vec<LogPart> = paths.iter().map(open).collect::<anyhow::Result<_>>()?;
    parts.sort_by_key(|part| part.first);
    Ok(parts)
}

/// Returns the number of a log's first record. A file that begins with something else
/// is the first one: it was written by a version without a chain.
fn first_number(file: &File) -> std::io::Result<u64> {
    let mut pieces = Pieces::new(BufReader::new(file));
    let link = match pieces.next()? {
        Some(Piece::Line(line)) => Link::of(line),
        _ => None,
    };
    Ok(link.map_or(0, |link| link.sequence))
}
