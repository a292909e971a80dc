//! Tests of handles of the disk: hashes, identity, listings, and refused changes and mounts.

mod view;

use std::os::unix::fs::symlink;

use super::super::fixture;
use super::*;
use crate::engine::HostTurn;
use crate::tool::limits::Limits;

/// Returns the state of a call with this folder, and the guest's handle of the folder.
fn call(path: &Path) -> (ImportState, u32) {
    call_within(path, &Limits::default())
}

fn call_within(path: &Path, limits: &Limits) -> (ImportState, u32) {
    let mut imports = fixture::imports(None, &[], limits);
    let root = Descriptor::preopen(Arc::new(fixture::folder(path)));
    let root = imports.table.push(root).unwrap();
    (imports, root.rep())
}

/// Reads the next entry of a listing.
fn next_entry(
    imports: &mut ImportState,
    listing: Resource<DirectoryEntryStream>,
) -> FsResult<Option<DirectoryEntry>> {
    fixture::finish(imports.next_entry(HostTurn::begin(), listing)).0
}

fn rename(imports: &mut ImportState, root: u32, old: &str, new: &str) -> FsResult<()> {
    let (old, new) = ((borrowed(root), old), (borrowed(root), new));
    fixture::finish(imports.rename(HostTurn::begin(), old, new)).0
}

fn remove_folder(imports: &mut ImportState, root: u32, path: &str) -> FsResult<()> {
    fixture::finish(imports.remove_folder(HostTurn::begin(), borrowed(root), path)).0
}

fn borrowed(handle: u32) -> Resource<WasiDescriptor> {
    Resource::new_borrow(handle)
}

fn open(imports: &mut ImportState, root: u32, path: &str) -> FsResult<u32> {
    open_as(
        imports,
        root,
        path,
        OpenFlags::empty(),
        DescriptorFlags::READ,
    )
}

fn open_as(
    mut imports: &mut ImportState,
    root: u32,
    path: &str,
    open_flags: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<u32> {
    let follow = PathFlags::SYMLINK_FOLLOW;
    let opened = imports.open_at(borrowed(root), follow, path.into(), open_flags, flags);
    Ok(opened?.rep())
}

fn hash_at(mut imports: &mut ImportState, root: u32, path: &str) -> FsResult<(u64, u64)> {
    let follow = PathFlags::SYMLINK_FOLLOW;
    let hash = (&mut imports).metadata_hash_at(borrowed(root), follow, path.into())?;
    Ok((hash.lower, hash.upper))
}

#[test]
fn file_hash_differs_between_calls() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(name), "same").unwrap();
    }
    symlink("a", folder.path().join("link")).unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (mut imports, root) = call(folder.path());
        let hash = hash_at(&mut imports, root, "a").unwrap();
        assert_eq!(hash, hash_at(&mut imports, root, "link").unwrap());
        let file = open(&mut imports, root, "a").unwrap();
        let handle_hash = (&mut &mut imports).metadata_hash(borrowed(file)).unwrap();
        assert_eq!(hash, (handle_hash.lower, handle_hash.upper));
        seen.extend([hash, hash_at(&mut imports, root, "b").unwrap()]);
    }
    for (index, hash) in seen.iter().enumerate() {
        assert!(!seen[..index].contains(hash), "{seen:?}");
        assert_ne!(hash.0, hash.1);
    }
}

#[test]
fn handles_of_changed_file_are_same_object() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(name), "same").unwrap();
    }
    let (mut imports, root) = call(folder.path());
    let first = open(&mut imports, root, "a").unwrap();
    std::fs::write(folder.path().join("a"), "other").unwrap();
    let again = open(&mut imports, root, "a").unwrap();
    let other = open(&mut imports, root, "b").unwrap();
    for (one, two, same) in [
        (first, again, true),
        (first, other, false),
        (root, root, true),
        (root, first, false),
    ] {
        let seen = (&mut &mut imports).is_same_object(borrowed(one), borrowed(two));
        assert_eq!(seen.unwrap(), same);
    }
}

#[test]
fn refuses_open_flags_that_change_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "text").unwrap();
    std::fs::create_dir(folder.path().join("dir")).unwrap();
    let (mut imports, root) = call(folder.path());
    let read = DescriptorFlags::READ;
    for (path, open_flags, flags) in [
        ("new", OpenFlags::CREATE, read),
        ("file", OpenFlags::CREATE | OpenFlags::EXCLUSIVE, read),
        ("file", OpenFlags::EXCLUSIVE, read),
        ("file", OpenFlags::TRUNCATE, read),
        ("file", OpenFlags::empty(), read | DescriptorFlags::WRITE),
        (
            "dir",
            OpenFlags::DIRECTORY,
            read | DescriptorFlags::MUTATE_DIRECTORY,
        ),
    ] {
        let answer = open_as(&mut imports, root, path, open_flags, flags);
        let error = answer.map_err(|error| error.downcast().unwrap());
        let refused = matches!(error, Err(Code::ReadOnly));
        assert!(refused, "{path} {open_flags:?} {flags:?}: {error:?}");
    }
}

#[test]
fn refuses_every_change_through_handles_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "text").unwrap();
    let (mut imports, root) = call(folder.path());
    let file = open(&mut imports, root, "file").unwrap();
    let mut files = &mut imports;
    let (file, root) = (|| borrowed(file), || borrowed(root));
    let (old, new) = (|| "file".to_owned(), || "new".to_owned());
    let (no_follow, now) = (PathFlags::empty(), || NewTimestamp::Now);
    let answers = [
        files.write_via_stream(file(), 0).map(drop),
        files.append_via_stream(file()).map(drop),
        files.sync(file()),
        files.sync_data(root()),
        files.set_size(file(), 0),
        files.set_times(file(), now(), now()),
        files.write(file(), Vec::new(), 0).map(drop),
        files.create_directory_at(root(), new()),
        files.set_times_at(root(), no_follow, old(), now(), now()),
        files.link_at(root(), no_follow, old(), root(), new()),
        remove_folder(files, root().rep(), &old()),
        rename(files, root().rep(), &old(), &new()),
        files.symlink_at(root(), old(), new()),
        files.unlink_file_at(root(), old()),
    ];
    for (which, answer) in answers.into_iter().enumerate() {
        let error = answer.map_err(|error| error.downcast().unwrap());
        assert!(matches!(error, Err(Code::ReadOnly)), "{which}: {error:?}");
    }
}

#[test]
fn refuses_file_opened_as_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "text").unwrap();
    std::fs::create_dir(folder.path().join("dir")).unwrap();
    let (mut imports, root) = call(folder.path());
    let mut open_folder = |path| {
        let answer = open_as(
            &mut imports,
            root,
            path,
            OpenFlags::DIRECTORY,
            DescriptorFlags::READ,
        );
        answer.map_err(|error| error.downcast().unwrap())
    };
    assert!(open_folder("dir").is_ok());
    assert!(matches!(open_folder("file"), Err(Code::NotDirectory)));
}

#[test]
fn all_listings_share_entry_limit_of_call() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let limits = Limits {
        directory_entries: 3,
        ..Limits::default()
    };
    let (mut imports, root) = call_within(folder.path(), &limits);
    let mut list = || {
        let mut imports = &mut imports;
        let stream = imports.read_directory(borrowed(root)).unwrap().rep();
        let mut read = || next_entry(imports, Resource::new_borrow(stream));
        [read(), read(), read()].map(|entry| entry.map(|entry| entry.is_some()))
    };
    assert!(matches!(list(), [Ok(true), Ok(true), Ok(false)]));
    let [third, over, _] = list();
    assert!(matches!(third, Ok(true)));
    let error = over.unwrap_err().downcast().unwrap();
    assert!(matches!(error, Code::Overflow), "{error:?}");
    assert_eq!(imports.stop, Some(Stop::DirectoryEntries(3)));
}

#[test]
fn dropped_handle_is_invalid() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "text").unwrap();
    let (mut imports, root) = call(folder.path());
    let file = open(&mut imports, root, "file").unwrap();
    let mut imports = &mut imports;
    let listing = imports.read_directory(borrowed(root)).unwrap().rep();
    HostDescriptor::drop(&mut imports, Resource::new_own(file)).unwrap();
    assert!(imports.stat(borrowed(file)).is_err());
    HostDirectoryEntryStream::drop(&mut imports, Resource::new_own(listing)).unwrap();
    let read = next_entry(imports, Resource::new_borrow(listing));
    assert!(read.is_err());
}

#[test]
fn every_function_refuses_other_mounts() {
    // On every Linux system, `/dev/shm` is a mount inside `/dev`.
    let inside = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    symlink("nowhere", inside.path().join("link")).unwrap();
    let below = inside.path().strip_prefix("/dev").unwrap();
    let below = below.to_str().unwrap().to_owned();
    let (mut imports, root) = call(Path::new("/dev"));
    let mut imports = &mut imports;
    let link = format!("{below}/link");
    let (follow, no_follow) = (PathFlags::SYMLINK_FOLLOW, PathFlags::empty());
    for (path, flags) in [
        ("shm", follow),
        (&below, follow),
        (&below, no_follow),
        (&link, no_follow),
    ] {
        let reading = (OpenFlags::empty(), DescriptorFlags::READ);
        let path = || path.to_owned();
        let answers = [
            imports
                .open_at(borrowed(root), flags, path(), reading.0, reading.1)
                .map(drop),
            imports.stat_at(borrowed(root), flags, path()).map(drop),
            imports
                .metadata_hash_at(borrowed(root), flags, path())
                .map(drop),
            imports.readlink_at(borrowed(root), path()).map(drop),
        ];
        for (which, answer) in answers.into_iter().enumerate() {
            let error = answer.map_err(|error| error.downcast().unwrap());
            let refused = matches!(error, Err(Code::CrossDevice));
            assert!(refused, "{which} of {}: {error:?}", path());
        }
    }
    // A device on the same mount is visible but cannot be opened.
    let seen = imports
        .stat_at(borrowed(root), follow, "null".into())
        .unwrap();
    assert_eq!(seen.type_, DescriptorType::Unknown);
    let target = imports.readlink_at(borrowed(root), "stdin".into());
    let refused = target.map_err(|error| error.downcast().unwrap());
    assert!(
        matches!(refused, Err(Code::NotPermitted | Code::Access)),
        "{refused:?}"
    );
}
