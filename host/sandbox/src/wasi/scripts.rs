//! `skillhost:tool/scripts`: reads a script of the call's skill, and its modules, from the disk
//! for a component. The grant must allow the script's path. The script and modules are noted
//! for the audit log. `tool/script.rs` creates the record.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use wasmtime::component::{ComponentType, Lower};
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode as Code;

use super::ImportState;
use super::answer::reason_of_code;
use super::filesystem::{error_code, valid_path};
use crate::open_file::OpenFile;
use crate::tool::grant::Scripts;
use crate::tool::limits::SCRIPT_BYTES;
use crate::tool::script::ScriptRecorder;
use skillhost_skills::guard::{Folder, PathTarget};

/// The memory that a call is charged for a module besides its bytes and path, in bytes.
const MODULE_BYTES: usize = 256;

/// The scripts that a call may start, and the script and modules that it uses.
pub struct ScriptGate {
    allowed: Scripts,
    /// The recorder of the script and its modules, for the audit record.
    pub recorder: ScriptRecorder,
    /// The bytes of the script's modules when they were first opened, by each path that led to
    /// them. Guards against: an author who changes a module between its digest and its run,
    /// or who swaps two files or retargets a symlink while they are opened.
    modules: BTreeMap<PathBuf, Bytes>,
}

impl ScriptGate {
    /// Creates the gate of a call that may start these scripts.
    pub fn new(allowed: Scripts) -> Self {
        Self {
            allowed,
            recorder: ScriptRecorder::default(),
            modules: BTreeMap::new(),
        }
    }
}

/// The reason why a script cannot be started, as defined in `wit/`.
#[derive(ComponentType, Lower, Debug, Clone, Copy, PartialEq, Eq)]
#[component(enum)]
#[repr(u8)]
pub(crate) enum ScriptRefusal {
    #[component(name = "not-granted")]
    NotGranted,
    #[component(name = "already-started")]
    AlreadyStarted,
    #[component(name = "not-found")]
    NotFound,
    #[component(name = "outside")]
    Outside,
    #[component(name = "not-a-file")]
    NotAFile,
    #[component(name = "hard-linked")]
    HardLinked,
    #[component(name = "other-mount")]
    OtherMount,
    #[component(name = "permission-denied")]
    PermissionDenied,
    #[component(name = "symlink-loop")]
    SymlinkLoop,
    #[component(name = "name-too-long")]
    NameTooLong,
    #[component(name = "too-large")]
    TooLarge,
    #[component(name = "unreadable")]
    Unreadable,
}

impl ImportState {
    /// Starts a script: reads it from the disk and notes it.
    pub(crate) fn start_script(&mut self, path: &str) -> Result<Vec<u8>, ScriptRefusal> {
        // Resolves the path as text, so that the checked path is the one that is opened.
        let path = path_inside(path)?;
        let gate = self.scripts.as_ref();
        let gate = gate.filter(|gate| gate.allowed.allow(&path));
        let recorder = gate.ok_or(ScriptRefusal::NotGranted)?.recorder.clone();
        if recorder.is_started() {
            return Err(ScriptRefusal::AlreadyStarted);
        }
        let bytes = self.read_from_disk(&path, SCRIPT_BYTES)?;
        recorder.start(&path, &bytes);
        Ok(bytes)
    }

    /// Notes the exit code of the script.
    pub(crate) fn finish_script(&mut self, exit_code: i32) {
        if let Some(gate) = &self.scripts {
            gate.recorder.finish(exit_code);
        }
    }

    /// Reads a module of the started script and notes it. Refuses a module that the call has
    /// changed. Does not find a file that the call added.
    pub(crate) fn load_module(&mut self, path: &str) -> Result<Vec<u8>, ScriptRefusal> {
        let gate = self.scripts.as_ref();
        if !gate.is_some_and(|gate| gate.recorder.is_started()) {
            return Err(ScriptRefusal::NotGranted);
        }
        let requested = valid_path(path)?;
        if let Some(view) = self.view.clone() {
            let found = view
                .open_module(path)
                .map_err(|error| self.code_or_stop(error))?;
            let file = found.ok_or(ScriptRefusal::NotGranted)?;
            let (disk_path, open_file) = file.disk_file().ok_or(ScriptRefusal::NotGranted)?;
            return Ok(self.pin_module(None, &disk_path, open_file)?.to_vec());
        }
        let (folder, _) = self.preopen.as_ref().ok_or(ScriptRefusal::NotFound)?;
        let folder = Arc::clone(folder);
        let PathTarget::File(seen) = folder.lookup(requested, true).map_err(error_code)? else {
            return Err(ScriptRefusal::NotAFile);
        };
        let lease = self.lease_descriptor()?;
        let file = OpenFile::new(seen.open().map_err(error_code)?, lease);
        let real_path = folder.path_of(file.file()).ok_or(Code::Busy)?;
        Ok(self
            .pin_module(Some(requested), &real_path, &file)?
            .to_vec())
    }

    /// Notes a file on the disk that the guest opens, if it may be a module of the script.
    ///
    /// `base` is the folder in which the guest's path starts, in a call without a view.
    /// `real_path` returns the canonical path.
    pub(super) fn note_opened(
        &mut self,
        base: Option<&Arc<Folder>>,
        requested: &str,
        file: &OpenFile,
        real_path: impl FnOnce(&Folder) -> Result<PathBuf, Code>,
    ) -> Result<(), Code> {
        let (Some(gate), Some((root, _))) = (&self.scripts, &self.preopen) else {
            return Ok(());
        };
        if !gate.recorder.is_started() {
            return Ok(());
        }
        let (requested, real_path) = (Path::new(requested), real_path(root)?);
        // A symlink or its target may have the extension of a module.
        let recorder = &gate.recorder;
        if !recorder.may_be_module(requested) && !recorder.may_be_module(&real_path) {
            return Ok(());
        }
        let starts_at_root = base.is_some_and(|base| Arc::ptr_eq(base, root));
        let requested = starts_at_root.then_some(requested);
        self.pin_module(requested, &real_path, file).map(drop)
    }

    /// Returns the bytes that a module had when it was first opened, and makes the open file
    /// return them too.
    ///
    /// Fails if the module exceeds the size limit of scripts, or if there are too many modules.
    /// `requested` is the guest's path in the call's folder, in a call without a view.
    fn pin_module(
        &mut self,
        requested: Option<&Path>,
        real_path: &Path,
        file: &OpenFile,
    ) -> Result<Bytes, Code> {
        let gate = self.scripts.as_ref().ok_or(Code::NotPermitted)?;
        let requested = requested.map(|requested| {
            let steps = requested.components();
            let steps = steps.filter(|step| *step != Component::CurDir);
            steps.collect::<PathBuf>()
        });
        let by_requested = requested
            .as_ref()
            .and_then(|requested| gate.modules.get(requested));
        let bytes = match by_requested.or_else(|| gate.modules.get(real_path)) {
            Some(bytes) => bytes.clone(),
            None => self.add_module(real_path, file)?,
        };
        file.pin(bytes.clone());
        let gate = self.scripts.as_ref().ok_or(Code::NotPermitted)?;
        if let Some(requested) = requested
            && !gate.modules.contains_key(&requested)
        {
            // A script can spell a path in any number of ways, so each spelling is charged.
            if !self.take_memory(MODULE_BYTES + requested.as_os_str().len()) {
                return Err(Code::InsufficientMemory);
            }
            let gate = self.scripts.as_mut().ok_or(Code::NotPermitted)?;
            gate.modules.insert(requested, bytes.clone());
        }
        Ok(bytes)
    }

    /// Reads a module, and notes it for the audit log.
    fn add_module(&mut self, real_path: &Path, file: &OpenFile) -> Result<Bytes, Code> {
        let (bytes, _) = file.read_at(SCRIPT_BYTES + 1, 0)?;
        if bytes.len() as u64 > SCRIPT_BYTES {
            return Err(Code::FileTooLarge);
        }
        let path = real_path.as_os_str().as_bytes();
        // The recorder stores the path too.
        if !self.take_memory(MODULE_BYTES + bytes.len() + 2 * path.len()) {
            return Err(Code::InsufficientMemory);
        }
        let gate = self.scripts.as_mut().ok_or(Code::NotPermitted)?;
        if !gate.recorder.add_module(path, &bytes) {
            return Err(Code::InsufficientMemory);
        }
        let bytes = Bytes::from(bytes);
        gate.modules.insert(real_path.to_owned(), bytes.clone());
        Ok(bytes)
    }
}

/// Resolves `.` and `..` in a path as text. Refuses a path that leads out of the skill.
fn path_inside(path: &str) -> Result<String, ScriptRefusal> {
    if valid_path(path)?.has_root() {
        return Err(ScriptRefusal::Outside);
    }
    let mut steps = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => {
                steps.pop().ok_or(ScriptRefusal::Outside)?;
            }
            step => steps.push(step),
        }
    }
    Ok(steps.join("/"))
}

reason_of_code!(ScriptRefusal, directory: NotAFile, not_regular: NotAFile);

#[cfg(test)]
mod tests {
    use std::fs;

    use wasmtime::component::Resource;
    use wasmtime_wasi::p2::bindings::filesystem::preopens::Host as _;
    use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
        DescriptorFlags, HostDescriptor, OpenFlags, PathFlags,
    };
    use wasmtime_wasi_io::streams::DynInputStream;

    use super::super::fixture;
    use super::*;
    use crate::engine::HostTurn;
    use crate::tool::Stop;
    use crate::tool::grant::Grant;
    use crate::tool::limits::Limits;
    use skillhost_skills::text::digest::sha256_hex;

    const ORIGINAL: &[u8] = b"PART = 1\n";
    const REWRITTEN: &[u8] = b"PART = 'another one, and longer'\n";

    /// Returns a call that has started a script of a folder, and the folder.
    fn started(limits: &Limits, with_view: bool) -> (ImportState, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.py"), "import part\n").unwrap();
        fs::write(folder.path().join("part.py"), ORIGINAL).unwrap();
        let mut imports = fixture::imports(Some(folder.path()), &[], limits);
        if with_view {
            fixture::make_view(&mut imports, limits);
        }
        let grant = Grant::new().scripts(["*.py"]).unwrap();
        imports.scripts = Some(ScriptGate::new(grant.scripts));
        imports.start_script("run.py").unwrap();
        (imports, folder)
    }

    /// Opens a module. Returns its bytes, its size, and a stream of it.
    fn read_each_way(mut files: impl HostDescriptor, root: u32) -> (Vec<u8>, u64, u32) {
        let file = files.open_at(
            Resource::new_borrow(root),
            PathFlags::empty(),
            "part.py".to_owned(),
            OpenFlags::empty(),
            DescriptorFlags::READ,
        );
        let file = file.unwrap().rep();
        let (bytes, ended) = files.read(Resource::new_borrow(file), 4096, 0).unwrap();
        assert!(ended);
        let size = files.stat(Resource::new_borrow(file)).unwrap().size;
        let stream = files.read_via_stream(Resource::new_borrow(file), 0);
        (bytes, size, stream.unwrap().rep())
    }

    #[test]
    fn reads_digested_version_of_module() {
        for with_view in [false, true] {
            let (mut imports, folder) = started(&Limits::default(), with_view);
            let root = (&mut imports).get_directories().unwrap()[0].0.rep();
            let digest = format!("{}  part.py\n", sha256_hex(ORIGINAL));
            for turn in 0..3 {
                let (bytes, size, stream) = read_each_way(&mut imports, root);
                assert_eq!(bytes, ORIGINAL, "view: {with_view}, turn {turn}");
                assert_eq!(size, ORIGINAL.len() as u64);
                // The author rewrites the module in place, then replaces it with another file.
                match turn {
                    0 => fs::write(folder.path().join("part.py"), REWRITTEN).unwrap(),
                    _ => {
                        fs::write(folder.path().join("new.py"), REWRITTEN).unwrap();
                        let part = folder.path().join("part.py");
                        fs::rename(folder.path().join("new.py"), part).unwrap();
                    }
                }
                let stream = Resource::<DynInputStream>::new_own(stream);
                let mut stream = imports.table.delete(stream).unwrap();
                assert_eq!(
                    stream.read(4096).unwrap(),
                    ORIGINAL,
                    "a stream opened earlier"
                );
                assert_eq!(imports.load_module("part.py").unwrap(), ORIGINAL);
            }
            let record = imports.scripts.as_ref().unwrap().recorder.to_record(true);
            let record = serde_json::to_value(record.unwrap()).unwrap();
            assert_eq!(record["modules_sha256"], sha256_hex(digest.as_bytes()));
        }
    }

    #[test]
    fn path_always_gives_same_module_version() {
        let (mut imports, folder) = started(&Limits::default(), false);
        let path = |name: &str| folder.path().join(name);
        let root = Arc::clone(&imports.preopen.as_ref().unwrap().0);
        // The author swaps two files while one of them is opened.
        fs::write(path("other.py"), REWRITTEN).unwrap();
        let file = root.open_file(Path::new("part.py")).unwrap();
        fs::rename(path("part.py"), path("kept.py")).unwrap();
        fs::rename(path("other.py"), path("part.py")).unwrap();
        fs::rename(path("kept.py"), path("other.py")).unwrap();
        let file = OpenFile::new(file, imports.lease_descriptor().unwrap());
        imports
            .note_opened(Some(&root), "./part.py", &file, |root| {
                Ok(root.path_of(file.file()).unwrap())
            })
            .unwrap();
        for module in ["part.py", "./part.py", "other.py"] {
            assert_eq!(imports.load_module(module).unwrap(), ORIGINAL, "{module}");
        }
        // The author retargets a symlink between two reads.
        fs::write(path("first.py"), "1").unwrap();
        fs::write(path("second.py"), "2").unwrap();
        for target in ["first.py", "second.py"] {
            let _ = fs::remove_file(path("link.py"));
            std::os::unix::fs::symlink(target, path("link.py")).unwrap();
            assert_eq!(imports.load_module("link.py").unwrap(), b"1", "{target}");
        }
        assert_eq!(imports.load_module("second.py").unwrap(), b"2");
    }

    #[test]
    fn spellings_of_module_paths_count_in_memory() {
        let (mut imports, folder) = started(&Limits::default(), false);
        fs::create_dir(folder.path().join("lib")).unwrap();
        imports.load_module("part.py").unwrap();
        for (path, more) in [
            ("./part.py", 0),
            ("lib/../part.py", MODULE_BYTES + 14),
            ("lib/../part.py", 0),
        ] {
            let before = imports.memory();
            imports.load_module(path).unwrap();
            assert_eq!(imports.memory(), before + more, "{path}");
        }
    }

    #[test]
    fn counts_modules_in_memory_of_call() {
        let least = MODULE_BYTES + ORIGINAL.len() + 2 * "part.py".len();
        let limits = Limits {
            memory: least + 1,
            ..Limits::default()
        };
        for with_view in [false, true] {
            let (mut imports, _folder) = started(&limits, with_view);
            for name in ["part.py", "part.py", "run.py"] {
                let loaded = imports.load_module(name);
                assert_eq!(loaded.is_ok(), name == "part.py", "{name}");
            }
            assert_eq!(imports.memory(), least);
            assert_eq!(imports.stop, Some(Stop::Memory(limits.memory)));
        }
    }

    /// Opens a file in the view with these flags.
    fn open(mut imports: &mut ImportState, root: u32, path: &str, flags: DescriptorFlags) -> u32 {
        let handle = imports.open_at(
            Resource::new_borrow(root),
            PathFlags::SYMLINK_FOLLOW,
            path.to_owned(),
            if flags.contains(DescriptorFlags::WRITE) {
                OpenFlags::CREATE
            } else {
                OpenFlags::empty()
            },
            flags,
        );
        handle.unwrap().rep()
    }

    #[test]
    fn loads_modules_only_through_links_on_disk() {
        let (mut imports, folder) = started(&Limits::default(), true);
        std::os::unix::fs::symlink("part.py", folder.path().join("link.py")).unwrap();
        fs::create_dir(folder.path().join("lib")).unwrap();
        fs::write(folder.path().join("lib/part.py"), ORIGINAL).unwrap();
        std::os::unix::fs::symlink("lib", folder.path().join("linked")).unwrap();
        fs::write(folder.path().join("data.txt"), REWRITTEN).unwrap();
        fs::create_dir(folder.path().join("gone")).unwrap();
        let root = (&mut imports).get_directories().unwrap()[0].0.rep();
        let mut files = &mut imports;
        files
            .unlink_file_at(Resource::new_borrow(root), "run.py".to_owned())
            .unwrap();
        let gone = files.remove_folder(HostTurn::begin(), Resource::new_borrow(root), "gone");
        fixture::finish(gone).0.unwrap();
        for folder in ["made", "gone"] {
            files
                .create_directory_at(Resource::new_borrow(root), folder.to_owned())
                .unwrap();
        }
        for (target, path) in [
            ("data.txt", "new.py"),
            ("data.txt", "run.py"),
            ("lib", "folder"),
        ] {
            let (target, path) = (target.to_owned(), path.to_owned());
            files
                .symlink_at(Resource::new_borrow(root), target, path)
                .unwrap();
        }
        for (path, expected) in [
            ("link.py", Ok(ORIGINAL.to_vec())),
            ("linked/part.py", Ok(ORIGINAL.to_vec())),
            // Missing on the disk.
            ("new.py", Err(ScriptRefusal::NotFound)),
            ("folder/part.py", Err(ScriptRefusal::NotFound)),
            ("folder", Err(ScriptRefusal::NotFound)),
            ("made", Err(ScriptRefusal::NotFound)),
            ("none.py", Err(ScriptRefusal::NotFound)),
            ("part.py/", Err(ScriptRefusal::NotFound)),
            // Replaced by the call, or folders.
            ("run.py", Err(ScriptRefusal::NotGranted)),
            ("gone", Err(ScriptRefusal::NotGranted)),
            ("lib", Err(ScriptRefusal::NotAFile)),
            ("linked", Err(ScriptRefusal::NotAFile)),
        ] {
            assert_eq!(imports.load_module(path), expected, "{path}");
        }
    }

    #[test]
    fn reads_no_file_if_asked_for_a_folder() {
        for with_view in [false, true] {
            let (mut imports, folder) = started(&Limits::default(), with_view);
            fs::write(folder.path().join("part"), "data").unwrap();
            fs::create_dir(folder.path().join("lib")).unwrap();
            std::os::unix::fs::symlink("part", folder.path().join("link")).unwrap();
            for (path, expected) in [
                ("part/", ScriptRefusal::NotFound),
                ("part.py/", ScriptRefusal::NotFound),
                ("link/", ScriptRefusal::NotFound),
                ("none/", ScriptRefusal::NotFound),
                ("lib/", ScriptRefusal::NotAFile),
            ] {
                let loaded = imports.load_module(path);
                assert_eq!(loaded, Err(expected), "view: {with_view}, {path}");
            }
            assert_eq!(imports.memory(), 0);
            let record = imports.scripts.as_ref().unwrap().recorder.to_record(true);
            let record = serde_json::to_value(record.unwrap()).unwrap();
            assert_eq!(record["modules_sha256"], serde_json::Value::Null);
        }
    }

    #[test]
    fn distinguishes_changed_from_missing_modules() {
        let (mut imports, folder) = started(&Limits::default(), true);
        for path in ["a.py", "b.py", "c.py", "lib/d.py", "old/e.py", "old/f.py"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, ORIGINAL).unwrap();
        }
        std::os::unix::fs::symlink("a.py", folder.path().join("link.py")).unwrap();
        let root = (&mut imports).get_directories().unwrap()[0].0.rep();
        let borrow = || Resource::new_borrow(root);
        for path in ["a.py", "new.py"] {
            let file = open(&mut imports, root, path, DescriptorFlags::WRITE);
            let mut files = &mut imports;
            files
                .write(Resource::new_borrow(file), REWRITTEN.to_vec(), 0)
                .unwrap();
        }
        let mut files = &mut imports;
        files.unlink_file_at(borrow(), "b.py".to_owned()).unwrap();
        for (from, to) in [("c.py", "lib/c.py"), ("old", "moved")] {
            let moved = files.rename(HostTurn::begin(), (borrow(), from), (borrow(), to));
            fixture::finish(moved).0.unwrap();
        }
        // A link to a file that replaces a folder, and a loop of links.
        for (target, path) in [("part.py", "old"), ("loop", "loop")] {
            let (target, path) = (target.to_owned(), path.to_owned());
            files.symlink_at(borrow(), target, path).unwrap();
        }
        files
            .unlink_file_at(borrow(), "lib/d.py".to_owned())
            .unwrap();
        files
            .symlink_at(borrow(), "../loop".to_owned(), "lib/d.py".to_owned())
            .unwrap();
        for path in [
            "a.py", "link.py", "b.py", "c.py", "lib/d.py", "old/e.py", "old",
        ] {
            let refused = imports.load_module(path);
            assert_eq!(refused, Err(ScriptRefusal::NotGranted), "{path}");
        }
        for path in [
            "new.py",
            "lib/c.py",
            "moved",
            "moved/e.py",
            "loop",
            "none.py",
        ] {
            let refused = imports.load_module(path);
            assert_eq!(refused, Err(ScriptRefusal::NotFound), "{path}");
        }
        assert_eq!(imports.load_module("part.py").unwrap(), ORIGINAL);
    }

    #[test]
    fn notes_written_code_when_it_is_read() {
        const READ: DescriptorFlags = DescriptorFlags::READ;
        let both = READ | DescriptorFlags::WRITE;
        // The written file, the read file, and whether a symlink leads from one to the other.
        for (written, read, is_linked) in [
            ("part.py", "part.py", false),
            ("new.py", "new.py", false),
            ("new.py", "data.txt", true),
            ("data.txt", "new.py", true),
        ] {
            for is_stream in [false, true] {
                let (mut imports, _folder) = started(&Limits::default(), true);
                let root = (&mut imports).get_directories().unwrap()[0].0.rep();
                let file = open(&mut imports, root, written, both);
                let mut files = &mut imports;
                if is_linked {
                    let (target, path) = (written.to_owned(), read.to_owned());
                    files
                        .symlink_at(Resource::new_borrow(root), target, path)
                        .unwrap();
                }
                // Opened before the write.
                let reader = open(&mut imports, root, read, READ);
                let mut files = &mut imports;
                files.set_size(Resource::new_borrow(file), 0).unwrap();
                for text in [&b"one"[..], b"two"] {
                    files
                        .write(Resource::new_borrow(file), text.to_vec(), 0)
                        .unwrap();
                    if is_stream {
                        let stream = files.read_via_stream(Resource::new_borrow(reader), 0);
                        let mut stream = files.table.delete(stream.unwrap()).unwrap();
                        assert_eq!(stream.read(1).unwrap(), text[..1]);
                    } else {
                        let read = files.read(Resource::new_borrow(reader), 1, 0).unwrap();
                        assert_eq!(read.0, text[..1]);
                    }
                }
                // Restoring the text does not change the digests of what was read.
                files
                    .write(Resource::new_borrow(file), ORIGINAL.to_vec(), 0)
                    .unwrap();
                let mut digests = [sha256_hex(b"one"), sha256_hex(b"two")];
                digests.sort();
                let expected = sha256_hex(format!("{}\n", digests.join("\n")).as_bytes());
                let record = imports.scripts.as_ref().unwrap().recorder.to_record(true);
                let record = serde_json::to_value(record.unwrap()).unwrap();
                assert_eq!(record["written_code_sha256"], expected, "{written} {read}");
            }
        }
    }

    #[test]
    fn replaced_file_has_no_path() {
        let (mut imports, folder) = started(&Limits::default(), false);
        let root = Arc::clone(&imports.preopen.as_ref().unwrap().0);
        let root = &*root;
        let mut open = || {
            let file = root.open_file(Path::new("part.py")).unwrap();
            OpenFile::new(file, imports.lease_descriptor().unwrap())
        };
        let before = open();
        assert_eq!(root.path_of(before.file()), Some(PathBuf::from("part.py")));
        fs::rename(folder.path().join("run.py"), folder.path().join("part.py")).unwrap();
        assert_eq!(root.path_of(before.file()), None);
        assert_eq!(root.path_of(open().file()), Some(PathBuf::from("part.py")));
        fs::rename(
            folder.path().join("part.py"),
            folder.path().join("moved.py"),
        )
        .unwrap();
        assert_eq!(root.path_of(before.file()), None);
    }
}
