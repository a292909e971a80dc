//! Help for a failed call. It is computed on request, because most programs never ask for it.
//! The crate `skillhost` writes its text (`core/src/host/help.rs`).

use std::fmt;
use std::sync::{Arc, LazyLock};

/// Help for a failed call; see [`CallError::help`](crate::tool::CallError::help). Most
/// errors have no help. Clones share the text. Comparing errors ignores it.
#[derive(Clone, Default)]
pub struct Help(Option<Arc<LazyHelp>>);

type LazyHelp = LazyLock<Option<String>, Box<dyn FnOnce() -> Option<String> + Send>>;

impl Help {
    /// Creates help from the function that computes it.
    pub fn new(compute: impl FnOnce() -> Option<String> + Send + 'static) -> Self {
        Self(Some(Arc::new(LazyLock::new(Box::new(compute)))))
    }

    /// Returns the text, and computes it the first time.
    pub(crate) fn text(&self) -> Option<&str> {
        self.0.as_ref()?.as_deref()
    }
}

impl PartialEq for Help {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Help {}

impl fmt::Debug for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Help").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn computes_text_once_on_request() {
        let runs = Arc::new(AtomicUsize::new(0));
        let help = Help::new({
            let runs = Arc::clone(&runs);
            move || Some(format!("run {}", runs.fetch_add(1, Ordering::Relaxed)))
        });
        let clone = help.clone();
        assert!(help == clone && !format!("{help:?}").contains("run"));
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        for help in [&help, &clone, &help] {
            assert_eq!(help.text(), Some("run 0"));
        }
        assert_eq!(Help::default().text(), None);
    }
}
