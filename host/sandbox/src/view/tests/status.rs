//! Tests of the times of a view's nodes, and of removed and moved folders.

use std::thread;
use std::time::Duration;

use super::*;

impl Fixture {
    fn status(&self, path: &str) -> NodeStatus {
        let status = self.view.status_at(self.view.folder(), path, false);
        status.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn open_folder(&self, path: &str) -> Arc<FolderNode> {
        let mode = OpenMode {
            read: true,
            ..OpenMode::default()
        };
        match self.view.open(self.view.folder(), path, mode) {
            Ok(ViewHandle::Folder(folder)) => folder,
            Ok(ViewHandle::File(_)) => panic!("{path} is a file"),
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

/// The path to check before, the operation, and the path to check after.
type Change = (&'static str, Work, &'static str);

#[test]
fn renaming_and_setting_times_updates_change_time() {
    fn set(f: &Fixture, path: &str) {
        let root = f.view.folder();
        let (accessed, modified) = (Some((5, 6)), Some((7, 8)));
        f.view
            .set_times_at(root, path, false, accessed, modified)
            .unwrap();
    }
    let changes: [Change; 10] = [
        ("one", |f| set(f, "one"), "one"),
        ("sub", |f| set(f, "sub"), "sub"),
        ("link", |f| set(f, "link"), "link"),
        ("new", |f| set(f, "new"), "new"),
        ("made", |f| set(f, "made"), "made"),
        ("one", |f| f.rename("one", "uno"), "uno"),
        ("sub", |f| f.rename("sub", "moved"), "moved"),
        ("link", |f| f.rename("link", "moved"), "moved"),
        ("made", |f| f.rename("made", "moved"), "moved"),
        (
            "one",
            |f| {
                let root = f.view.folder();
                f.view
                    .make_hard_link((root, "one", false), (root, "uno"))
                    .unwrap();
            },
            "one",
        ),
    ];
    for (index, (before, change, after)) in changes.into_iter().enumerate() {
        let fixture = fixture();
        fixture.write("new", "");
        fixture.mkdir("made");
        let before = fixture.status(before);
        assert_ne!(before.accessed, (0, 0), "case {index}");
        // Longer than a tick of a file system's clock.
        thread::sleep(Duration::from_millis(15));
        change(&fixture);
        let after = fixture.status(after);
        let later = after.changed > before.changed;
        assert!(
            later,
            "case {index}: {:?}, then {:?}",
            before.changed, after.changed
        );
        // Reading a folder on the disk may change its access time.
        if index < 5 {
            assert_eq!((after.accessed, after.modified), ((5, 6), (7, 8)))
        } else {
            assert_eq!(after.modified, before.modified, "case {index}")
        }
    }
}

#[test]
fn removed_folder_stays_empty() {
    let fixture = fixture();
    fixture.unlink("sub/deep/four");
    fixture.unlink("sub/deep/five");
    fixture.mkdir("made");
    for path in ["sub/deep", "made"] {
        let folder = fixture.open_folder(path);
        fixture.rmdir(path);
        let made = fixture.view.make_folder(&folder, "x");
        assert_eq!(made, Err(Errno::NOENT), "{path}");
        let (root, one) = (fixture.view.folder(), "one");
        let moved = fixture.move_to((root, one), (&folder, "x"));
        assert_eq!(moved, Err(Errno::NOENT), "{path}");
        // It has no parent any more.
        assert_eq!(folder.depth(), 0, "{path}");
        let late = fixture.folder.path().join("sub/deep/late");
        fs::write(late, "late").unwrap();
        let mut listing = fixture.view.list(&folder).unwrap();
        assert_eq!(names(&mut listing, 9), [""; 0], "{path}");
    }
}

#[test]
fn refuses_folder_replaced_by_link_to_outside() {
    let fixture = fixture();
    let sub = fixture.open_folder("sub");
    let path = fixture.folder.path();
    fs::rename(path.join("sub"), path.join("gone")).unwrap();
    symlink("/", path.join("sub")).unwrap();
    let three = fixture.view.status_at(&sub, "three", true);
    assert_eq!(three.map(|_| ()), Err(Errno::PERM));
}

#[test]
fn moved_folder_ignores_later_changes_on_disk() {
    let fixture = fixture();
    fixture.rename("sub", "moved");
    fs::write(fixture.folder.path().join("sub/late"), "late").unwrap();
    let folder = fixture.open_folder("moved");
    let mut listing = fixture.view.list(&folder).unwrap();
    assert_eq!(names(&mut listing, 9), ["deep", "three"]);
    let late = fixture.view.status_at(&folder, "late", true);
    assert_eq!(late.map(|_| ()), Err(Errno::NOENT));
}
