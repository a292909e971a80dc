//! The script that a call runs, for the audit log. The sandbox notes it while the call runs, so
//! the call's record has it however the call ends.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use skillhost_skills::text::digest::sha256_hex;

/// The extensions of scripts and modules, by language. A module can have a different extension
/// from its script.
const LANGUAGES: [&[&str]; 2] = [&["py"], &["js", "mjs", "cjs"]];

/// The maximum number of modules per call, and of versions of code files that the call wrote and
/// then read. Guards against: a skill with a million modules, whose paths would fill the host's
/// memory.
const MAX_MODULES: usize = 4096;

/// A recorder of the script that a call starts, if it starts one. The sandbox and the call's audit
/// record share it.
#[derive(Debug, Clone, Default)]
pub struct ScriptRecorder(Arc<Mutex<Option<ScriptRun>>>);

/// A script that was started.
#[derive(Debug)]
struct ScriptRun {
    path: String,
    digest: String,
    /// The paths and digests of the modules that the guest read.
    modules: BTreeSet<(Vec<u8>, String)>,
    /// The digests of code that the call itself wrote and the guest then read.
    written: BTreeSet<String>,
    exit_code: Option<i32>,
}

/// A script in an audit record.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct ScriptRecord {
    pub(crate) script: String,
    /// The SHA-256 of the script's bytes.
    script_sha256: String,
    /// The SHA-256 of the output of `sha256sum` for the modules, sorted by path.
    modules_sha256: Option<String>,
    /// The SHA-256 of the sorted digests of code that the call wrote itself, one per line.
    written_code_sha256: Option<String>,
    exit_code: Option<i32>,
}

impl ScriptRecorder {
    /// Notes the script that the call starts.
    pub(crate) fn start(&self, path: &str, bytes: &[u8]) {
        *self.lock() = Some(ScriptRun {
            path: path.to_owned(),
            digest: sha256_hex(bytes),
            modules: BTreeSet::new(),
            written: BTreeSet::new(),
            exit_code: None,
        });
    }

    /// Returns whether a script was started.
    pub(crate) fn is_started(&self) -> bool {
        self.lock().is_some()
    }

    /// Returns whether a file has an extension of the script's language.
    ///
    /// If the script has no extension, its language can be any known one. If the script has an
    /// unknown extension, modules have the same extension. Returns `false` before the start.
    pub(crate) fn may_be_module(&self, path: &Path) -> bool {
        let run = self.lock();
        let (Some(run), Some(extension)) = (&*run, path.extension()) else {
            return false;
        };
        let uses = |language: &&[&str], extension: &OsStr| {
            language.iter().any(|known| *known == extension)
        };
        match Path::new(&run.path).extension() {
            None => LANGUAGES.iter().any(|language| uses(language, extension)),
            Some(of_script) => match LANGUAGES.iter().find(|language| uses(language, of_script)) {
                Some(language) => uses(language, extension),
                None => of_script == extension,
            },
        }
    }

    /// Notes the exit code of the script.
    pub(crate) fn finish(&self, exit_code: i32) {
        if let Some(run) = &mut *self.lock() {
            run.exit_code = Some(exit_code);
        }
    }

    /// Notes a module of the script. Returns `false` if the call would exceed the maximum.
    pub(crate) fn add_module(&self, path: &[u8], bytes: &[u8]) -> bool {
        let mut run = self.lock();
        let Some(run) = &mut *run else { return true };
        let digest = sha256_hex(bytes);
        // To print a traceback, the guest reads the script itself again.
        let is_script = path == run.path.as_bytes() && digest == run.digest;
        is_script || add(&mut run.modules, (path.to_owned(), digest))
    }

    /// Notes code that the call wrote itself. Returns `false` if the call would exceed the
    /// maximum.
    pub(crate) fn add_written_code(&self, bytes: &[u8]) -> bool {
        let mut run = self.lock();
        let Some(run) = &mut *run else { return true };
        add(&mut run.written, sha256_hex(bytes))
    }

    /// Returns the script for the audit record, if one was started. Includes the exit code only if
    /// the call ended in an answer.
    pub(crate) fn to_record(&self, is_answered: bool) -> Option<ScriptRecord> {
        let run = self.lock();
        let run = run.as_ref()?;
        let mut listing = Vec::new();
        for (path, digest) in &run.modules {
            add_line(&mut listing, digest, path);
        }
        let written: String = run
            .written
            .iter()
            .map(|digest| format!("{digest}\n"))
            .collect();
        Some(ScriptRecord {
            script: run.path.clone(),
            script_sha256: run.digest.clone(),
            modules_sha256: (!listing.is_empty()).then(|| sha256_hex(&listing)),
            written_code_sha256: (!written.is_empty()).then(|| sha256_hex(written.as_bytes())),
            exit_code: run.exit_code.filter(|_| is_answered),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<ScriptRun>> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

/// Adds a line in the format of `sha256sum`: it starts with a backslash if the path has
/// escaped characters.
fn add_line(listing: &mut Vec<u8>, digest: &str, path: &[u8]) {
    if path
        .iter()
        .any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'))
    {
        listing.push(b'\\');
    }
    listing.extend_from_slice(digest.as_bytes());
    listing.extend_from_slice(b"  ");
    for byte in path {
        match byte {
            b'\\' => listing.extend_from_slice(b"\\\\"),
            b'\n' => listing.extend_from_slice(b"\\n"),
            b'\r' => listing.extend_from_slice(b"\\r"),
            byte => listing.push(*byte),
        }
    }
    listing.push(b'\n');
}

/// Adds an entry, if the maximum is not reached. Returns whether the set has the entry.
fn add<T: Ord>(entries: &mut BTreeSet<T>, entry: T) -> bool {
    if entries.len() < MAX_MODULES {
        entries.insert(entry);
        return true;
    }
    entries.contains(&entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_modules_as_sha256sum_does() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.py", "a\nb.py", "a\\b.py", "a\rb.py", "\\n.py"] {
            std::fs::write(folder.path().join(name), name).unwrap();
            let mut command = std::process::Command::new("sha256sum");
            let printed = command
                .arg(name)
                .current_dir(folder.path())
                .output()
                .unwrap();
            let mut listing = Vec::new();
            add_line(&mut listing, &sha256_hex(name.as_bytes()), name.as_bytes());
            assert_eq!(listing, printed.stdout, "{name:?}");
        }
    }

    #[test]
    fn refuses_new_entries_past_the_limit() {
        let mut entries = BTreeSet::new();
        for number in 0..2 * MAX_MODULES {
            assert_eq!(add(&mut entries, number), number < MAX_MODULES);
        }
        assert_eq!(entries.len(), MAX_MODULES);
        assert!(add(&mut entries, 0));
    }

    #[test]
    fn module_has_extension_of_script_language() {
        for (script, modules, others) in [
            ("a.py", &["b.py"][..], &["b.js", "b", "b.txt", "py"][..]),
            ("a.mjs", &["b.js", "c/b.mjs", "b.cjs"], &["b.py", "b.json"]),
            ("bin/a", &["b.py", "b.js"], &["b", "b.txt"]),
            ("a.rb", &["b.rb"], &["b.py", "b"]),
        ] {
            let recorder = ScriptRecorder::default();
            let is_module = |path: &&str| recorder.may_be_module(Path::new(path));
            assert!(!modules.iter().any(is_module), "before the start");
            recorder.start(script, b"text");
            assert!(modules.iter().all(is_module), "{script}");
            assert!(!others.iter().any(is_module), "{script}");
        }
    }

    #[test]
    fn limits_distinct_modules_of_a_script_to_4096() {
        let recorder = ScriptRecorder::default();
        recorder.start("run.py", b"text");
        let add = |number: usize| recorder.add_module(format!("{number}.py").as_bytes(), b"");
        assert!((0..4096).all(add));
        assert!((0..4096).all(add), "again");
        assert!(recorder.add_module(b"run.py", b"text"), "the script itself");
        assert!(!add(4096));
    }
}
