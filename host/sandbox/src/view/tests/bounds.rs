//! Tests of the limits of a view: its bytes and changes, and the length and depth of paths.

use std::cell::Cell;

use super::*;

/// Work that may reach a limit.
type BoundedWork = fn(&Fixture) -> Result<(), Errno>;

#[test]
fn view_enforces_byte_limit_and_reuses_freed_bytes() {
    /// A file and its entry, with a name of one character.
    const FILE: usize = 512 + 160 + 1;
    fn open(f: &Fixture, path: &str) -> Result<FileHandle, Errno> {
        let mode = OpenMode {
            create: true,
            write: true,
            ..OpenMode::default()
        };
        match f.view.open(f.view.folder(), path, mode)? {
            ViewHandle::File(file) => Ok(file),
            ViewHandle::Folder(_) => panic!("{path} is a folder"),
        }
    }
    fn write(f: &Fixture, path: &str, text: &[u8], at: u64) -> Result<(), Errno> {
        open(f, path)?.write_at(text, at)
    }
    let cases: [(&str, BoundedWork, usize); 9] = [
        ("a file", |f| write(f, "a", &[1; 100], 0), FILE + 100),
        (
            "a file that grows to less than twice its size",
            |f| {
                write(f, "a", &[1; 100], 0)?;
                write(f, "a", &[1; 1], 100)
            },
            FILE + 101,
        ),
        (
            "a file that grows twice",
            |f| {
                write(f, "a", &[1; 100], 0)?;
                write(f, "a", &[1; 1], 100)?;
                write(f, "a", &[1; 1], 310)
            },
            FILE + 311,
        ),
        (
            "a file that is overwritten, and another",
            |f| {
                write(f, "a", &[1; 100], 0)?;
                write(f, "a", &[2; 100], 0)?;
                write(f, "b", &[1; 120], 0)
            },
            2 * FILE + 220,
        ),
        (
            "a file that is truncated, and another",
            |f| {
                write(f, "a", &[1; 100], 0)?;
                open(f, "a")?.set_size(10)?;
                write(f, "b", &[1; 90], 0)
            },
            2 * FILE + 100,
        ),
        (
            "a file that is truncated and removed, and another",
            |f| {
                write(f, "a", &[1; 100], 0)?;
                open(f, "a")?.set_size(10)?;
                f.view.remove_file(f.view.folder(), "a")?;
                write(f, "b", &[1; 200], 0)
            },
            FILE + 200,
        ),
        (
            "a file on the disk, and another",
            |f| {
                write(f, "one", &[1; 1], 0)?;
                write(f, "b", &[1; 10], 0)
            },
            2 * FILE + 2 * "one".len() - 1 + 11,
        ),
        (
            "a folder",
            |f| f.view.make_folder(f.view.folder(), "d"),
            FILE,
        ),
        (
            "a link",
            |f| f.view.make_link(f.view.folder(), "l", &"x".repeat(100)),
            FILE + 100,
        ),
    ];
    for (about, work, least) in cases {
        for (bytes, expected) in [(least, Ok(())), (least - 1, Err(Errno::NOSPC))] {
            let limits = Limits {
                view_bytes: bytes,
                ..Limits::default()
            };
            let done = work(&fixture_within(&limits));
            assert_eq!(done, expected, "{about} with {bytes} bytes");
        }
    }
}

#[test]
fn lists_first_changes_and_counts_all() {
    let fixture = fixture();
    for path in ["one", "two", "link"] {
        fixture.unlink(path);
    }
    fixture.mkdir("f0");
    fixture.write("f0/all", "text");
    let root = fixture.view.folder();
    for name in 1..200 {
        let (old, new) = ((root, "f0/all", false), format!("f{name:03}"));
        fixture.view.make_hard_link(old, (root, &new)).unwrap();
    }
    for (max, files, removed) in [
        (1, &["f0/all"][..], &["link"][..]),
        (2, &["f0/all", "f001"], &["link", "one"]),
        (
            4,
            &["f0/all", "f001", "f002", "f003"],
            &["link", "one", "two"],
        ),
    ] {
        let changes = fixture.view.changes(max, &|| false).unwrap();
        assert!(changes.files.first.keys().eq(files), "{changes:?}");
        assert!(changes.removed.first.keys().eq(removed), "{changes:?}");
        let counts = (changes.files.count, changes.bytes, changes.removed.count);
        assert_eq!(counts, (200, 800, 3));
    }
}

#[test]
fn counts_but_omits_too_long_paths() {
    let fixture = fixture();
    let mut folder = Arc::clone(fixture.view.folder());
    // The last of 17 paths has more than 4096 bytes.
    for _ in 0..17 {
        let mode = OpenMode {
            create: true,
            ..OpenMode::default()
        };
        fixture.view.open(&folder, "new", mode).ok().unwrap();
        let name = "d".repeat(255);
        fixture.view.make_folder(&folder, &name).unwrap();
        let open = fixture.view.open(&folder, &name, OpenMode::default());
        let Ok(ViewHandle::Folder(inner)) = open else {
            panic!("no folder")
        };
        folder = inner;
    }
    let files = fixture.view.changes(100, &|| false).unwrap().files;
    assert_eq!((files.first.len(), files.count), (16, 17));
}

#[test]
fn collecting_changes_stops_when_call_is_over() {
    let fixture = fixture();
    fixture.unlink("link");
    fixture.write("one", "2");
    fixture.mkdir("folder");
    fixture.write("folder/new", "n");
    let collected = |max_checks: usize| {
        let checks = Cell::new(0);
        let is_over = || checks.replace(checks.get() + 1) == max_checks;
        let changes = fixture.view.changes(10, &is_over);
        (changes.is_some(), checks.get())
    };
    let (_, all) = collected(usize::MAX);
    // Four names, and a file with the same size as on the disk.
    assert_eq!(all, 5);
    for max in 0..all {
        assert_eq!(collected(max), (false, max + 1));
    }
}

/// Returns the memory that all calls use after this work.
fn memory_after(work: impl FnOnce(&Fixture)) -> usize {
    let fixture = fixture();
    work(&fixture);
    fixture.engine.occupancy().memory
}

#[test]
fn file_uses_at_most_four_times_its_length() {
    let empty = memory_after(|f| drop(f.open("new")));
    let cases: [(Work, usize); 7] = [
        (|f| f.open("new").write_at(&[1; 100], 0).unwrap(), 100),
        (
            |f| {
                f.open("new").write_at(&[1; 100], 0).unwrap();
                f.open("new").append(&[1; 1]).unwrap();
            },
            200,
        ),
        (
            |f| {
                f.open("new").write_at(&[1; 100], 0).unwrap();
                f.open("new").append(&[1; 101]).unwrap();
            },
            201,
        ),
        (|f| truncate(f, 101), 400),
        (|f| truncate(f, 100), 400),
        (|f| truncate(f, 99), 99),
        (|f| truncate(f, 0), 0),
    ];
    fn truncate(f: &Fixture, size: u64) {
        f.open("new").write_at(&[1; 400], 0).unwrap();
        f.open("new").set_size(size).unwrap();
    }
    for (index, (work, bytes)) in cases.into_iter().enumerate() {
        assert_eq!(memory_after(work) - empty, bytes, "case {index}");
    }
}

#[test]
fn limits_names_to_255_bytes() {
    let fixture = fixture();
    let make = |name: &str| fixture.view.make_folder(fixture.view.folder(), name);
    for bytes in [255, 256, 257] {
        let expected = match bytes {
            255 => Ok(()),
            _ => Err(Errno::NAMETOOLONG),
        };
        assert_eq!(make(&"n".repeat(bytes)), expected, "{bytes}");
    }
}

#[test]
fn path_follows_at_most_40_links() {
    let fixture = fixture();
    let root = fixture.view.folder();
    fixture.write("0", "");
    for index in 1..=41 {
        let (target, link) = (format!("{}", index - 1), format!("{index}"));
        fixture.view.make_link(root, &link, &target).unwrap();
    }
    let look = |path| fixture.view.status_at(root, path, true).map(|_| ());
    assert_eq!(
        [look("39"), look("40"), look("41")],
        [Ok(()), Ok(()), Err(Errno::LOOP)]
    );
}

#[test]
fn depth_limit_covers_disk_and_moved_folders() {
    let within = |depth| {
        fixture_within(&Limits {
            view_depth: depth,
            ..Limits::default()
        })
    };
    let look = |depth: usize, path: &str| {
        let fixture = within(depth);
        let found = fixture.view.status_at(fixture.view.folder(), path, true);
        found.map(|_| ())
    };
    for (path, depth) in [("one", 0), ("sub/three", 1), ("sub/deep/four", 2)] {
        assert_eq!(look(depth, path), Ok(()), "{path}");
        if depth > 0 {
            assert_eq!(look(depth - 1, path), Err(Errno::NAMETOOLONG), "{path}");
        }
    }
    for (folders, lowest) in [
        (&["a"][..], 2),
        (&["a", "a/b"], 3),
        (&["a", "a/b", "a/b/c"], 4),
    ] {
        for depth in [lowest, lowest - 1] {
            let fixture = within(depth.max(folders.len()));
            folders.iter().for_each(|folder| fixture.mkdir(folder));
            fixture.mkdir("x");
            let root = fixture.view.folder();
            let moved = fixture.move_to((root, "a"), (root, "x/a"));
            let expected = if depth == lowest {
                Ok(())
            } else {
                Err(Errno::NAMETOOLONG)
            };
            assert_eq!(moved, expected, "{folders:?} within {depth}");
        }
    }
}

#[test]
fn node_is_charged_for_its_disk_path() {
    let opened = memory_after(|f| drop(f.open("sub/deep/four"))) - memory_after(|_| ());
    let names = "sub".len() + "deep".len() + "four".len();
    let paths = "sub".len() + "sub/deep".len() + "sub/deep/four".len();
    assert_eq!(opened, 3 * (512 + 160) + names + paths);
}

#[test]
fn link_is_charged_for_its_target() {
    let charge_of_target = |bytes: usize| {
        memory_after(|f| {
            let target = "x".repeat(bytes);
            f.view.make_link(f.view.folder(), "l", &target).unwrap();
        })
    };
    assert_eq!(charge_of_target(4000) - charge_of_target(1), 3999);
}
