//! Verifies the files of a log. Holds 16 bytes of each record in memory.

use std::path::PathBuf;

use crate::external::ExternalCheckpoints;
use crate::files;
use crate::key::PublicKey;
use crate::report::VerifyReport;
use crate::verifier::Verifier;

/// Verifies the files of a log, which may be given in any order.
pub fn verify(
    files: &[PathBuf],
    keys: &[PublicKey],
    external: ExternalCheckpoints,
) -> anyhow::Result<VerifyReport> {
    verify_with(Verifier::new(keys, external), files)
}

/// Verifies only the chain of a log, without keys: each record must have the next number and the
/// digest of the record before it.
///
/// This proves nothing, because whoever can write the log could have written all of it.
pub fn verify_chain(files: &[PathBuf]) -> anyhow::Result<VerifyReport> {
    verify_with(Verifier::without_keys(), files)
}

fn verify_with(mut verifier: Verifier, files: &[PathBuf]) -> anyhow::Result<VerifyReport> {
    for file in files::sort_files(files)? {
        verifier.start_file(&file.name);
        file.read(|piece| {
            verifier.check_piece(piece);
            Ok(true)
        })?;
    }
    Ok(verifier.finish())
}
