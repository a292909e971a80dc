//! Tests of handles of a copy-on-write view.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use tempfile::TempDir;
use wasmtime_wasi::p2::bindings::filesystem::preopens::Host as _;

use super::*;
use crate::tool::limits::Limits;

/// Returns the state of a call with a view, and the guest's handle of the call's folder.
fn call() -> (TempDir, ImportState, u32) {
    call_within(&Limits::default())
}

fn call_within(limits: &Limits) -> (TempDir, ImportState, u32) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "text").unwrap();
    let mut imports = fixture::imports(Some(folder.path()), &[], limits);
    fixture::make_view(&mut imports, limits);
    let root = (&mut imports).get_directories().unwrap()[0].0.rep();
    (folder, imports, root)
}

#[test]
fn handle_reports_its_open_flags() {
    let (_folder, mut imports, root) = call();
    let mut files = &mut imports;
    let folder_flags = files.get_flags(Resource::new_borrow(root)).unwrap();
    assert_eq!(
        folder_flags,
        DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY
    );
    for flags in [
        DescriptorFlags::READ,
        DescriptorFlags::WRITE,
        DescriptorFlags::READ | DescriptorFlags::WRITE,
    ] {
        let root = Resource::new_borrow(root);
        let (path, open_flags) = ("file".to_owned(), OpenFlags::empty());
        let file = files.open_at(root, PathFlags::empty(), path, open_flags, flags);
        assert_eq!(files.get_flags(file.unwrap()).unwrap(), flags);
    }
}

#[test]
fn dropped_listing_is_invalid() {
    let (_folder, mut imports, root) = call();
    let mut files = &mut imports;
    let listing = files.read_directory(Resource::new_borrow(root)).unwrap();
    let listing = listing.rep();
    let first = next_entry(files, Resource::new_borrow(listing));
    assert_eq!(first.unwrap().unwrap().name, "file");
    HostDirectoryEntryStream::drop(&mut files, Resource::new_own(listing)).unwrap();
    let gone = next_entry(files, Resource::new_borrow(listing));
    assert!(gone.is_err());
}

#[test]
fn counts_entries_on_disk_that_the_view_removed() {
    let limits = Limits {
        directory_entries: 3,
        ..Limits::default()
    };
    for (removed, stop) in [(3, None), (4, Some(Stop::DirectoryEntries(3)))] {
        let (folder, mut imports, root) = call_within(&limits);
        std::fs::remove_file(folder.path().join("file")).unwrap();
        for name in 0..removed {
            std::fs::write(folder.path().join(format!("{name}")), "").unwrap();
        }
        let mut files = &mut imports;
        for name in 0..removed {
            let root = Resource::new_borrow(root);
            files.unlink_file_at(root, format!("{name}")).unwrap();
        }
        let listing = files.read_directory(Resource::new_borrow(root)).unwrap();
        let next = next_entry(files, listing);
        assert_eq!(next.is_err(), stop.is_some(), "{removed}");
        assert_eq!(imports.stop, stop, "{removed}");
    }
}

#[test]
fn counts_entries_read_for_remove_and_rename() {
    let limits = Limits {
        directory_entries: 3,
        ..Limits::default()
    };
    type Operation = fn(&mut ImportState, u32) -> FsResult<()>;
    let remove: Operation = |files, root| remove_folder(files, root, "emptied");
    let rename: Operation = |files, root| super::rename(files, root, "emptied", "moved");
    let replace: Operation = |files, root| super::rename(files, root, "empty", "emptied");
    for (operation, name) in [(remove, "remove"), (rename, "rename"), (replace, "replace")] {
        for (removed, stop) in [(3, None), (4, Some(Stop::DirectoryEntries(3)))] {
            let (folder, mut imports, root) = call_within(&limits);
            std::fs::create_dir(folder.path().join("empty")).unwrap();
            std::fs::create_dir(folder.path().join("emptied")).unwrap();
            let mut files = &mut imports;
            for number in 0..removed {
                let path = format!("emptied/{number}");
                std::fs::write(folder.path().join(&path), "").unwrap();
                files
                    .unlink_file_at(Resource::new_borrow(root), path)
                    .unwrap();
            }
            let done = operation(files, root);
            assert_eq!(done.is_ok(), stop.is_none(), "{name} {removed}");
            assert_eq!(imports.stop, stop, "{name} {removed}");
        }
    }
}

#[test]
fn reading_many_entries_pauses_after_each_turn() {
    type Operation = fn(&mut ImportState, HostTurn, u32) -> usize;
    let remove: Operation = |files, turn, root| {
        let (done, pauses) = fixture::finish(files.remove_folder(turn, borrowed(root), "emptied"));
        done.unwrap();
        pauses
    };
    let list: Operation = |files, turn, root| {
        let path = "emptied".to_owned();
        let opened = open(files, root, &path).unwrap();
        let mut files = &mut *files;
        let listing = files.read_directory(borrowed(opened)).unwrap();
        let (entry, pauses) = fixture::finish(files.next_entry(turn, listing));
        assert!(entry.unwrap().is_none());
        pauses
    };
    let rename: Operation = |files, turn, root| {
        let (old, new) = ((borrowed(root), "full"), (borrowed(root), "moved"));
        let (done, pauses) = fixture::finish(files.rename(turn, old, new));
        done.unwrap();
        pauses
    };
    let replace: Operation = |files, turn, root| {
        let (old, new) = ((borrowed(root), "empty"), (borrowed(root), "emptied"));
        let (done, pauses) = fixture::finish(files.rename(turn, old, new));
        done.unwrap();
        pauses
    };
    for (operation, pauses, name) in [
        (remove, 3, "remove"),
        (list, 3, "list"),
        // A pause for each of the three entries, then for each node that is moved: the folder and
        // its files.
        (rename, 3 + 4, "rename"),
        // As above, but the folder that is moved is empty.
        (replace, 3 + 1, "replace"),
    ] {
        for (turn, pauses) in [(Duration::ZERO, pauses), (Duration::MAX, 0)] {
            let (folder, mut imports, root) = call();
            for name in ["empty", "full", "emptied"] {
                std::fs::create_dir(folder.path().join(name)).unwrap();
            }
            let mut files = &mut imports;
            for number in 0..3 {
                std::fs::write(folder.path().join(format!("full/{number}")), "").unwrap();
                let path = format!("emptied/{number}");
                std::fs::write(folder.path().join(&path), "").unwrap();
                files.unlink_file_at(borrowed(root), path).unwrap();
            }
            let paused = operation(files, HostTurn::with_length(turn), root);
            assert_eq!(paused, pauses, "{name} {turn:?}");
        }
    }
}

#[test]
fn counts_entries_with_invalid_utf_8_names() {
    let limits = Limits {
        directory_entries: 3,
        ..Limits::default()
    };
    let (folder, mut imports, root) = call_within(&limits);
    std::fs::remove_file(folder.path().join("file")).unwrap();
    for name in 0..4 {
        let name = OsStr::from_bytes(&[0xff, name + b'0']).to_owned();
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let mut files = &mut imports;
    let listing = files.read_directory(Resource::new_borrow(root)).unwrap();
    for _ in 0..3 {
        let listing = Resource::new_borrow(listing.rep());
        assert!(next_entry(files, listing).is_err());
        assert_eq!(files.stop, None);
    }
    assert!(next_entry(files, listing).is_err());
    assert_eq!(imports.stop, Some(Stop::DirectoryEntries(3)));
}

#[test]
fn read_returns_at_most_16_mib() {
    const MAX: usize = 16 << 20;
    let (folder, mut imports, root) = call();
    let disk = std::fs::File::create(folder.path().join("large")).unwrap();
    disk.set_len(MAX as u64 + 4096).unwrap();
    let mut files = &mut imports;
    let root = Resource::new_borrow(root);
    let (path, open_flags) = ("large".to_owned(), OpenFlags::empty());
    let flags = DescriptorFlags::READ | DescriptorFlags::WRITE;
    let file = files.open_at(root, PathFlags::empty(), path, open_flags, flags);
    let file = file.unwrap().rep();
    let mut read = |length| {
        let read = files.read(Resource::new_borrow(file), length, 0);
        read.unwrap().0.len()
    };
    for length in [MAX as u64 + 1, u64::MAX] {
        assert_eq!(read(length), MAX, "{length}");
    }
}
