//! The scripts that a call may start, and the files that it changed in its copy-on-write view.

use std::sync::Arc;
use std::time::Instant;

use crate::engine::CallSlot;
use crate::tool::grant::Terms;
use crate::tool::limits::Limits;
use crate::tool::{OutputFiles, Stop};
use crate::view::View;
use crate::wasi::ScriptGate;
use skillhost_skills::blocking;
use skillhost_skills::catalog::{CallFolder, FolderError};

/// Returns the gate for the scripts that a call may start. Returns `None` if the call has no skill
/// or its grant allows no script.
pub fn gate(terms: &Terms, folder: &Option<Result<CallFolder, FolderError>>) -> Option<ScriptGate> {
    let Some(Ok(CallFolder { skill: Some(_), .. })) = folder else {
        return None;
    };
    let allowed = &terms.scripts;
    (!allowed.is_empty()).then(|| ScriptGate::new(allowed.clone()))
}

/// Returns the changes in the view of a call whose guest has ended.
///
/// This reads files and computes digests, so it runs on a thread for blocking work. It is part
/// of the call: it holds the slot, and stops at the deadline or when the call is dropped.
pub async fn changed_files(
    view: Option<Arc<View>>,
    limits: &Limits,
    slot: Arc<CallSlot>,
    deadline: Option<Instant>,
) -> Result<Option<OutputFiles>, Stop> {
    let Some(view) = view else {
        return Ok(None);
    };
    let thread_limits = limits.clone();
    let gathered = slot.run_blocking(move || {
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let is_over = || blocking::is_abandoned() || is_late();
        let changes = view.changes(thread_limits.output_files, &is_over);
        changes.and_then(|changes| OutputFiles::new(changes, &thread_limits, &is_over))
    });
    match gathered.await {
        Ok(Some(files)) => Ok(Some(files)),
        Ok(None) => Err(Stop::Time(limits.time)),
        Err(error) => {
            tracing::error!("the changed files are lost: {error}");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::Poll;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use tokio::task::{spawn_blocking, yield_now};

    use super::*;
    use crate::engine::EpochEngine;
    use crate::tool::limits::Load;
    use crate::view::OpenMode;
    use skillhost_skills::broker::Opener;
    use skillhost_skills::guard::{Folder, HardLinks};

    /// A view with one new file, and the slot of its call.
    struct Fixture {
        engine: EpochEngine,
        view: Arc<View>,
        slot: Arc<CallSlot>,
        _folder: tempfile::TempDir,
    }

    async fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let disk = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let disk = disk.into_std_file().into();
        let disk = Folder::new(disk, HardLinks::Refused, Opener::DIRECT).unwrap();
        let engine = EpochEngine::new(&Load::default(), 1 << 20, true).unwrap();
        let quota = engine.quota("t", false, 1 << 30);
        let descriptors = engine.descriptors();
        let limits = Limits::default();
        let view = View::new(Arc::new(disk), &limits, &quota, descriptors, "t".into()).unwrap();
        let mode = OpenMode {
            create: true,
            ..OpenMode::default()
        };
        view.open(view.folder(), "new", mode).ok().unwrap();
        Fixture {
            slot: Arc::new(engine.enter(&quota, 1).await.unwrap()),
            view: Arc::new(view),
            engine,
            _folder: folder,
        }
    }

    /// Runs a test on a runtime with one thread for blocking work. That thread waits until
    /// the test drops the sender.
    fn with_one_thread(test: impl AsyncFnOnce(Fixture, mpsc::Sender<()>)) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (end, wait) = mpsc::channel::<()>();
            spawn_blocking(move || wait.recv());
            test(fixture().await, end).await;
        });
    }

    #[test]
    fn gathering_changed_files_holds_call_slot() {
        with_one_thread(async |fixture, busy| {
            let Fixture {
                engine, view, slot, ..
            } = fixture;
            let limits = Limits::default();
            let mut files = pin!(changed_files(Some(view), &limits, slot, None));
            assert!(poll_fn(|task| Poll::Ready(files.as_mut().poll(task).is_pending())).await);
            assert_eq!(engine.occupancy().running, 1);
            drop(busy);
            let files = files.await.unwrap().unwrap();
            assert_eq!((files.total, engine.occupancy().running), (1, 0));
        });
    }

    #[test]
    fn abandoned_call_keeps_slot_until_gathering_ends() {
        with_one_thread(async |fixture, busy| {
            let Fixture {
                engine, view, slot, ..
            } = fixture;
            let limits = Limits::default();
            {
                let mut files = pin!(changed_files(Some(view), &limits, slot, None));
                assert!(poll_fn(|task| Poll::Ready(files.as_mut().poll(task).is_pending())).await);
                // The gathering asks for the only thread, which is busy.
                yield_now().await;
            }
            // The call has dropped the gathering.
            yield_now().await;
            assert_eq!(engine.occupancy().running, 1);
            drop(busy);
            // The only thread runs this after the gathering.
            spawn_blocking(|| ()).await.unwrap();
            let left = engine.occupancy();
            assert_eq!((left.running, left.memory), (0, 0));
        });
    }

    #[test]
    fn changed_files_are_not_gathered_past_the_deadline() {
        with_one_thread(async |fixture, busy| {
            let Fixture { view, slot, .. } = fixture;
            drop(busy);
            let limits = Limits::default();
            let files = changed_files(Some(view), &limits, slot, Some(Instant::now())).await;
            assert_eq!(files, Err(Stop::Time(limits.time)));
        });
    }
}
