//! Verifies the files of a log in bounded memory.

use std::path::PathBuf;

use crate::external::ExternalCheckpoints;
use crate::files;
use crate::key::PublicKey;
use crate::lines::Piece;
use crate::report::VerifyReport;
use crate::verifier::Verifier;

/// Verifies the files of a log, which may be given in any order.
pub fn verify(
    files: &[PathBuf],
    keys: &[PublicKey],
    external: ExternalCheckpoints,
) -> anyhow::Result<VerifyReport> {
    let mut verifier = Verifier::new(keys, external);
    for file in files::open_in_order(files)? {
        verifier.start_file(&file.name);
        file.read(|piece| {
            match piece {
                Piece::Line(line) => {
                    verifier.check_line(line);
                }
                Piece::Part { bytes, ends_line } => verifier.check_part(bytes, ends_line),
            }
            Ok(true)
        })?;
    }
    Ok(verifier.finish())
}
