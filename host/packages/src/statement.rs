//! The in-toto statement that a signature covers. It names the signed manifest.

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::digest::Digest;
use crate::quote::quote_error;

/// The type of the statement.
pub(crate) const STATEMENT: &str = "https://in-toto.io/Statement/v1";

/// The type of the statements of cosign 2, whose fields are the same.
pub(crate) const STATEMENT_OF_COSIGN_2: &str = "https://in-toto.io/Statement/v0.1";

/// The predicate type of a statement that only says that an artifact is signed.
pub(crate) const PREDICATE_TYPE: &str = "https://sigstore.dev/cosign/sign/v1";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Subject>,
    predicate_type: String,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    #[serde(default)]
    sha256: String,
}

/// Checks that a statement has the type and predicate of a signature, and names `manifest`.
pub(crate) fn check_statement(payload: &[u8], manifest: &Digest) -> anyhow::Result<()> {
    let statement: Statement = serde_json::from_slice(payload)
        .map_err(quote_error)
        .context("the signed statement is invalid")?;
    ensure!(
        [STATEMENT, STATEMENT_OF_COSIGN_2].contains(&&*statement.kind)
            && statement.predicate_type == PREDICATE_TYPE,
        "the signed statement is of another type"
    );
    let is_subject = |subject: &Subject| subject.digest.sha256 == manifest.hex();
    ensure!(
        statement.subject.iter().any(is_subject),
        "it is a signature of another artifact"
    );
    Ok(())
}
