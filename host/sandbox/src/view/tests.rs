//! Tests of a view without a guest: its changes, and listings of folders that change during
//! the listing. `tests/view.rs` of the workspace tests views with guests.

mod bounds;
mod status;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tempfile::TempDir;

use super::*;
use crate::engine::{EpochEngine, HostTurn};
use crate::tool::limits::Load;
use crate::wasi::fixture::finish;
use skillhost_skills::broker::Opener;
use skillhost_skills::guard::HardLinks;

/// A folder, its view, and the engine with the view's quota.
struct Fixture {
    folder: TempDir,
    view: View,
    engine: EpochEngine,
}

fn fixture() -> Fixture {
    fixture_within(&Limits::default())
}

fn fixture_within(limits: &Limits) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir_all(path.join("sub/deep")).unwrap();
    for (file, text) in [
        ("one", "1"),
        ("two", "2"),
        ("sub/three", "3"),
        ("sub/deep/four", "4"),
        ("sub/deep/five", "5"),
    ] {
        fs::write(path.join(file), text).unwrap();
    }
    symlink("one", path.join("link")).unwrap();
    let engine = EpochEngine::new(&Load::default(), 1 << 20, true).unwrap();
    let view = view(path, &engine, HardLinks::Refused, limits);
    Fixture {
        folder,
        view,
        engine,
    }
}

fn view(path: &Path, engine: &EpochEngine, hard_links: HardLinks, limits: &Limits) -> View {
    let disk = Dir::open_ambient_dir(path, ambient_authority()).unwrap();
    let disk = Folder::new(disk.into_std_file().into(), hard_links, Opener::DIRECT).unwrap();
    let quota = engine.quota("t", false, 1 << 30);
    let descriptors = engine.descriptors();
    View::new(Arc::new(disk), limits, &quota, descriptors, "t".into()).unwrap()
}

impl Fixture {
    fn open(&self, path: &str) -> FileHandle {
        let mode = OpenMode {
            follow: true,
            create: true,
            read: true,
            write: true,
            ..OpenMode::default()
        };
        match self.view.open(self.view.folder(), path, mode) {
            Ok(ViewHandle::File(file)) => file,
            Ok(ViewHandle::Folder(_)) => panic!("{path} is a folder"),
            Err(error) => panic!("{path}: {error}"),
        }
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.open(path);
        file.set_size(0).unwrap();
        file.write_at(text.as_bytes(), 0).unwrap();
    }

    fn unlink(&self, path: &str) {
        self.view.remove_file(self.view.folder(), path).unwrap();
    }

    fn rmdir(&self, path: &str) {
        let (root, mut count) = (self.view.folder(), || Ok(()));
        let mut counter = EntryCounter::new(HostTurn::begin(), &mut count);
        let removed = finish(self.view.remove_folder(root, path, &mut counter));
        removed.0.unwrap();
    }

    fn mkdir(&self, path: &str) {
        self.view.make_folder(self.view.folder(), path).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        let folder = self.view.folder();
        self.move_to((folder, from), (folder, to)).unwrap();
    }

    fn move_to(
        &self,
        from: (&Arc<FolderNode>, &str),
        to: (&Arc<FolderNode>, &str),
    ) -> Result<(), Errno> {
        let mut count = || Ok(());
        let mut counter = EntryCounter::new(HostTurn::begin(), &mut count);
        finish(self.view.rename(from, to, &mut counter)).0
    }

    /// Returns the changes as text: `path=text` for a changed file, `-path` for a removed one.
    fn changes(&self) -> String {
        let changes = self.view.changes(usize::MAX, &|| false).unwrap();
        let files = changes.files.first.iter();
        let files = files.map(|(path, bytes)| format!("{path}={}", bytes.escape_ascii()));
        let removed = changes.removed.first.keys().map(|path| format!("-{path}"));
        files.chain(removed).collect::<Vec<_>>().join(" ")
    }
}

/// An operation on a view.
type Work = fn(&Fixture);

#[test]
fn changes_are_differences_from_disk() {
    let cases: [(Work, &str); 19] = [
        (|_| {}, ""),
        (|f| f.write("new", "n"), "new=n"),
        (|f| f.write("sub/three", "33"), "sub/three=33"),
        (|f| f.write("link", "through"), "one=through"),
        // Writing the bytes of the disk is no change.
        (|f| f.write("two", "2"), ""),
        (|f| f.open("two").set_size(1).unwrap(), ""),
        (
            |f| {
                f.write("two", "x");
                f.write("two", "2");
            },
            "",
        ),
        (|f| f.unlink("one"), "-one"),
        (|f| f.unlink("link"), "-link"),
        (
            |f| {
                f.unlink("one");
                f.write("one", "1");
            },
            "",
        ),
        (
            |f| {
                f.write("new", "n");
                f.unlink("new");
            },
            "",
        ),
        (|f| f.rename("one", "uno"), "uno=1 -one"),
        (|f| f.rename("one", "two"), "two=1 -one"),
        (
            |f| {
                f.rename("one", "uno");
                f.rename("uno", "one");
            },
            "",
        ),
        (
            |f| f.rename("sub", "moved"),
            "moved/deep/five=5 moved/deep/four=4 moved/three=3 -sub",
        ),
        (
            |f| {
                f.rename("sub", "moved");
                f.unlink("moved/deep/four");
                f.rename("moved", "sub");
            },
            "-sub/deep/four",
        ),
        (
            |f| {
                f.unlink("sub/deep/four");
                f.unlink("sub/deep/five");
                f.rmdir("sub/deep");
                f.mkdir("sub/deep");
                f.write("sub/deep/four", "4");
            },
            "-sub/deep/five",
        ),
        (
            |f| {
                f.unlink("one");
                f.mkdir("one");
                f.write("one/inner", "i");
            },
            "one/inner=i -one",
        ),
        (
            |f| {
                f.rename("sub", "moved");
                f.write("sub", "a file");
                let (folder, temporary) = (f.view.folder(), f.view.temporary());
                f.move_to((folder, "moved"), (temporary, "m")).unwrap();
            },
            "sub=a file -sub",
        ),
    ];
    for (index, (work, expected)) in cases.into_iter().enumerate() {
        let fixture = fixture();
        work(&fixture);
        assert_eq!(fixture.changes(), expected, "case {index}");
    }
}

#[test]
fn folder_that_replaces_a_link_is_new() {
    let fixture = fixture();
    symlink("sub", fixture.folder.path().join("way")).unwrap();
    fixture.unlink("way");
    fixture.mkdir("way");
    fixture.mkdir("way/deep");
    fixture.write("way/three", "3");
    assert_eq!(fixture.changes(), "way/three=3 -way");
}

#[test]
fn changed_bytes_count_until_last_copy_drops() {
    let fixture = fixture();
    fixture.write("new", &"x".repeat(100_000));
    let changes = fixture.view.changes(1, &|| false);
    let Fixture { view, engine, .. } = fixture;
    drop(view);
    let used = engine.occupancy().memory;
    assert!((100_000..110_000).contains(&used), "{used}");
    drop(changes);
    assert_eq!(engine.occupancy().memory, 0);
}

fn names(listing: &mut FolderListing, max: usize) -> Vec<String> {
    let mut names = Vec::new();
    while names.len() < max
        && let Some(entry) = listing.step().unwrap()
    {
        names.extend(entry.map(|(name, _)| name));
    }
    names
}

#[test]
fn changing_folder_lists_each_remaining_entry_once() {
    for first in 0..20 {
        let fixture = fixture();
        for name in ["aa", "mm", "zz"] {
            fixture.write(name, "new");
        }
        for index in 0..8 {
            fs::write(fixture.folder.path().join(format!("disk{index}")), "").unwrap();
        }
        let mut listing = fixture.view.list(fixture.view.folder()).unwrap();
        let mut listed = names(&mut listing, first);
        // These open, change, remove and add entries, and move `sub` away and back.
        fixture.view.open_file_to_read("disk0").unwrap();
        fixture.write("disk1", "changed");
        fixture.unlink("disk2");
        fixture.unlink("mm");
        fixture.write("bb", "added");
        fixture.rename("sub", "moved");
        fixture.rename("moved", "sub");
        let rest = names(&mut listing, usize::MAX);
        for gone in ["disk2", "mm"] {
            assert!(!rest.iter().any(|name| name == gone), "{rest:?}");
        }
        listed.extend(rest);
        let distinct: BTreeSet<&String> = listed.iter().collect();
        let stayed = ["aa", "zz", "one", "two", "link"];
        for name in stayed.iter().map(|name| (*name).to_owned()) {
            assert!(distinct.contains(&name), "{name} after {first}: {listed:?}");
        }
        for index in (0..8).filter(|index| *index != 2) {
            assert!(distinct.contains(&format!("disk{index}")), "{listed:?}");
        }
        let moved = |name: &&String| ["sub", "moved"].contains(&name.as_str());
        let others = listed.iter().filter(|name| !moved(name)).count();
        assert_eq!(
            others,
            distinct.iter().filter(|name| !moved(name)).count(),
            "{listed:?}"
        );
    }
}

#[test]
fn read_from_memory_reports_end_of_file() {
    let fixture = fixture();
    fixture.write("new", "text");
    let file = fixture.open("new");
    for (length, offset, bytes, ended) in [
        (3, 0, "tex", false),
        (4, 0, "text", false),
        (5, 0, "text", true),
        (5, 2, "xt", true),
        (2, 2, "xt", false),
        (1, 4, "", true),
        (1, 9, "", true),
        (0, 0, "", false),
        (0, 9, "", false),
    ] {
        let read = file.read_at(length, offset);
        let expected = Ok((bytes.as_bytes().to_vec(), ended));
        assert_eq!(read, expected, "{length} at {offset}");
    }
}
