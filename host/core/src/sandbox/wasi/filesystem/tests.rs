//! What a guest learns of files by the calls that open none: facts, hashes,
//! links.

use std::os::unix::fs::symlink;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::*;
use crate::sandbox::engine::Clocked;
use crate::skill::guard::HardLinks;
use crate::tool::limits::{Limits, Load};

/// A call on this folder, and its handle of it.
fn call(path: &Path) -> (World, u32) {
    let folder = Dir::open_ambient_dir(path, ambient_authority()).unwrap();
    let folder = Folder::new(folder.into_std_file().into(), HardLinks::Refused).unwrap();
    let engine = Clocked::new(&Load::default(), 1 << 20, true).unwrap();
    let limits = Limits::default();
    let mut world = World::new(
        None,
        Arc::default(),
        &limits,
        engine.descriptors(),
        "".into(),
    );
    let root = Descriptor::Directory {
        folder: Arc::new(folder),
        _permit: None,
    };
    let root = world.table.push(root).unwrap();
    (world, root.rep())
}

fn lent(handle: u32) -> Resource<WasiDescriptor> {
    Resource::new_borrow(handle)
}

fn open(mut world: &mut World, root: u32, path: &str) -> FsResult<u32> {
    let (follow, flags) = (PathFlags::SYMLINK_FOLLOW, DescriptorFlags::READ);
    let opened = (&mut world).open_at(lent(root), follow, path.into(), OpenFlags::empty(), flags);
    Ok(opened?.rep())
}

fn hash_at(mut world: &mut World, root: u32, path: &str) -> FsResult<(u64, u64)> {
    let follow = PathFlags::SYMLINK_FOLLOW;
    let hash = (&mut world).metadata_hash_at(lent(root), follow, path.into())?;
    Ok((hash.lower, hash.upper))
}

#[test]
fn a_file_has_one_hash_in_a_call_and_another_in_the_next() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(name), "same").unwrap();
    }
    symlink("a", folder.path().join("link")).unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (mut world, root) = call(folder.path());
        let hash = hash_at(&mut world, root, "a").unwrap();
        assert_eq!(hash, hash_at(&mut world, root, "link").unwrap());
        let file = open(&mut world, root, "a").unwrap();
        let of_handle = (&mut &mut world).metadata_hash(lent(file)).unwrap();
        assert_eq!(hash, (of_handle.lower, of_handle.upper));
        seen.extend([hash, hash_at(&mut world, root, "b").unwrap()]);
    }
    for (index, hash) in seen.iter().enumerate() {
        assert!(!seen[..index].contains(hash), "{seen:?}");
        assert_ne!(hash.0, hash.1);
    }
}

#[test]
fn handles_of_one_file_are_the_same_object_though_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::write(folder.path().join(name), "same").unwrap();
    }
    let (mut world, root) = call(folder.path());
    let first = open(&mut world, root, "a").unwrap();
    std::fs::write(folder.path().join("a"), "other").unwrap();
    let again = open(&mut world, root, "a").unwrap();
    let other = open(&mut world, root, "b").unwrap();
    for (one, two, same) in [
        (first, again, true),
        (first, other, false),
        (root, root, true),
        (root, first, false),
    ] {
        let seen = (&mut &mut world).is_same_object(lent(one), lent(two));
        assert_eq!(seen.unwrap(), same);
    }
}

#[test]
fn what_lies_on_another_mount_is_refused_however_it_is_asked_for() {
    // `/dev` with a mount inside, as every Linux has it.
    let inside = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    symlink("nowhere", inside.path().join("link")).unwrap();
    let below = inside.path().strip_prefix("/dev").unwrap();
    let below = below.to_str().unwrap().to_owned();
    let (mut world, root) = call(Path::new("/dev"));
    let mut world = &mut world;
    let link = format!("{below}/link");
    let (follow, keep) = (PathFlags::SYMLINK_FOLLOW, PathFlags::empty());
    for (path, flags) in [
        ("shm", follow),
        (&below, follow),
        (&below, keep),
        (&link, keep),
    ] {
        let reading = (OpenFlags::empty(), DescriptorFlags::READ);
        let path = || path.to_owned();
        let asked = [
            world
                .open_at(lent(root), flags, path(), reading.0, reading.1)
                .map(drop),
            world.stat_at(lent(root), flags, path()).map(drop),
            world.metadata_hash_at(lent(root), flags, path()).map(drop),
            world.readlink_at(lent(root), path()).map(drop),
        ];
        for (which, answer) in asked.into_iter().enumerate() {
            let error = answer.map_err(|error| error.downcast().unwrap());
            let refused = matches!(error, Err(Code::CrossDevice));
            assert!(refused, "{which} of {}: {error:?}", path());
        }
    }
    // What lies on its own mount is seen, though it cannot be opened.
    let seen = world.stat_at(lent(root), follow, "null".into()).unwrap();
    assert_eq!(seen.type_, DescriptorType::Unknown);
    let target = world.readlink_at(lent(root), "stdin".into());
    let refused = target.map_err(|error| error.downcast().unwrap());
    assert!(
        matches!(refused, Err(Code::NotPermitted | Code::Access)),
        "{refused:?}"
    );
}
