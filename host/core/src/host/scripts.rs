//! What a grant of scripts and of a copy-on-write view adds to a call: the scripts that
//! it may start, and the files that it has changed at its end.

use std::sync::Arc;

use crate::sandbox::view::{Changes, View};
use crate::sandbox::wasi::ScriptGate;
use crate::skill::catalog::{CallFolder, FolderError};
use crate::tool::OutputFiles;
use crate::tool::grant::Terms;
use crate::tool::limits::Limits;
use crate::tool::script::ScriptLog;

/// Returns the scripts that a call may start: those of a skill, if its grant allows
/// some.
pub(super) fn gate(
    terms: &Terms,
    folder: &Option<Result<CallFolder, FolderError>>,
) -> Option<ScriptGate> {
    let Some(Ok(CallFolder { skill: Some(_), .. })) = folder else {
        return None;
    };
    (!terms.scripts.is_empty()).then(|| ScriptGate {
        allowed: terms.scripts.clone(),
        log: ScriptLog::default(),
    })
}

/// Returns what changed in the view of a call that has ended. It reads files and makes
/// digests, so it runs on a thread where it holds up no other call.
pub(super) async fn changed_files(view: Option<Arc<View>>, limits: &Limits) -> Option<OutputFiles> {
    let (view, limits) = (view?, limits.clone());
    let files = tokio::task::spawn_blocking(move || {
        let Changes { files, removed } = view.changes();
        let files = files.into_iter().map(|file| (file.path, file.bytes));
        OutputFiles::new(files.collect(), removed, &limits)
    });
    files
        .await
        .map_err(|error| tracing::error!("the changed files are lost: {error}"))
        .ok()
}
