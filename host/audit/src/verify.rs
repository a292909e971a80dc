//! Verifies the files of a log in bounded memory.

use std::path::PathBuf;

use crate::files;
use crate::kept::KeptCheckpoints;
use crate::key::PublicKey;
use crate::lines::Piece;
use crate::report::Report;
use crate::verifier::Verifier;

/// Verifies the files of a log. They may be given in any order.
pub fn verify(
    files: &[PathBuf],
    keys: &[PublicKey],
    kept: KeptCheckpoints,
) -> anyhow::Result<Report> {
    let mut verifier = Verifier::new(keys, kept);
    for part in files::open(files)? {
        verifier.file(&part.name);
        part.read(|piece| {
            match piece {
                Piece::Line(line) => verifier.line(line),
                Piece::Part(part, ends) => verifier.part(part, ends),
            }
            Ok(true)
        })?;
    }
    Ok(verifier.finish())
}
