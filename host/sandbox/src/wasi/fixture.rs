//! Imports without a guest, for tests.

use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::ImportState;
use crate::engine::EpochEngine;
use crate::tool::limits::{Limits, Load};
use skillhost_skills::broker::Opener;
use skillhost_skills::guard::{Folder, HardLinks};

pub(crate) fn engine() -> EpochEngine {
    EpochEngine::new(&Load::default(), 1 << 20, true).unwrap()
}

pub(crate) fn folder(path: &Path) -> Folder {
    let folder = Dir::open_ambient_dir(path, ambient_authority()).unwrap();
    let handle = folder.into_std_file().into();
    Folder::new(handle, HardLinks::Refused, Opener::DIRECT).unwrap()
}

/// Returns the imports of a call with some variables, and optionally a folder at `/skill`.
pub(crate) fn imports(
    path: Option<&Path>,
    environment: &[(String, String)],
    limits: &Limits,
) -> ImportState {
    let preopen = path.map(|path| (folder(path), "/skill".to_owned()));
    let engine = engine();
    let (quota, descriptors) = (engine.quota("t", false, 1 << 30), engine.descriptors());
    let environment = environment.into();
    ImportState::new(
        preopen,
        environment,
        limits,
        &quota,
        descriptors,
        "t".into(),
    )
}

/// Runs a host call to its end. Also returns the number of its pauses.
pub(crate) fn finish<T>(call: impl Future<Output = T>) -> (T, usize) {
    let mut call = pin!(call);
    let mut pauses = 0;
    loop {
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => return (done, pauses),
            Poll::Pending => pauses += 1,
        }
    }
}

/// Adds a copy-on-write view.
pub(crate) fn make_view(imports: &mut ImportState, limits: &Limits) {
    let quota = engine().quota("t", false, 1 << 30);
    imports.make_view(limits, &quota).unwrap();
}
