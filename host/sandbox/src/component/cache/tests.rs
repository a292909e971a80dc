//! Tests of the cache on disk.

use super::*;
use std::cell::Cell;
use std::fs::{self, FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::SystemTime;

use rustix::fs::CWD;

fn cache() -> (tempfile::TempDir, ComponentCache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = ComponentCache::open(&folder.path().join("cache"), None, &Trust::new()).unwrap();
    (folder, cache)
}

fn key() -> DefinitionsKey {
    DefinitionsKey("k".to_owned())
}

#[test]
fn does_not_use_a_damaged_or_truncated_file() {
    let (_folder, cache) = cache();
    let long = b"definitions".repeat(10_000);
    for bytes in [&b"definitions"[..], b"", &long] {
        cache.put_definitions(&key(), bytes.to_vec());
        assert_eq!(cache.definitions(&key()).unwrap(), bytes);
    }
    let file = cache.folders[0].path.join(key().0);
    let mut holes = fs::read(&file).unwrap();
    holes[70_000..80_000].fill(0);
    let cut = holes[..holes.len() - 1].to_vec();
    for damaged in [&b"definitionz"[..], b"", b"short", &[1; 64], &holes, &cut] {
        fs::write(&file, damaged).unwrap();
        assert_eq!(cache.definitions(&key()), None, "{}", damaged.len());
    }
}

#[test]
fn checksum_changes_with_every_bit() {
    let mut bytes: Vec<u8> = (0..4100_u32).map(|at| (at * at).to_le_bytes()[1]).collect();
    let original = checksum(&bytes);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            assert_ne!(checksum(&bytes), original, "bit {bit} of byte {at}");
            bytes[at] ^= 1 << bit;
        }
    }
    // Zeros at the end count, too.
    assert_ne!(checksum(&[1, 0]), checksum(&[1]));
}

#[test]
fn finds_code_only_in_valid_files() {
    let (_folder, cache) = cache();
    let path = |name: &str| cache.folders[0].path.join(name);
    let has_code = |name: &str| cache.has_code(&CodeKey(name.to_owned()));
    for (name, size, expected) in [
        ("short", CHECKSUM_BYTES as u64 - 1, false),
        ("empty", CHECKSUM_BYTES as u64, true),
        ("largest", MAX_BYTES, true),
        ("larger", MAX_BYTES + 1, false),
    ] {
        // A sparse file takes no space on the disk.
        File::create(path(name)).unwrap().set_len(size).unwrap();
        assert_eq!(has_code(name), expected, "{name}");
    }
    fs::hard_link(path("empty"), path("twice")).unwrap();
    fs::create_dir_all(path("folder/with/more")).unwrap();
    let fifo = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, path("fifo"), FileType::Fifo, fifo, 0).unwrap();
    for name in ["none", "twice", "empty", "folder", "fifo"] {
        assert!(!has_code(name), "{name}");
    }
    fs::remove_file(path("twice")).unwrap();
    assert!(has_code("empty"));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(path("empty"), Some(54_321), None).unwrap();
        assert!(!has_code("empty"), "another user's");
    }
}

#[test]
fn failed_write_leaves_no_entry() {
    let (_folder, cache) = cache();
    let path = &cache.folders[0].path;
    fs::create_dir(path.join(key().0)).unwrap();
    cache.put_definitions(&key(), b"definitions".to_vec());
    let left: Vec<_> = fs::read_dir(path).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn does_not_lock_a_removed_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    let opened = Cell::new(0);
    let open = || {
        let file = rustix::fs::open(&path, OFlags::RDWR | OFlags::CREATE, Mode::RUSR).unwrap();
        if opened.replace(opened.get() + 1) == 0 {
            fs::remove_file(&path).unwrap();
        }
        Ok(file)
    };
    wait_for_lock(open, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(opened.get(), 2);
}

#[test]
fn stops_waiting_if_every_open_file_has_no_links() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    let open = || {
        let file = rustix::fs::open(&path, OFlags::RDWR | OFlags::CREATE, Mode::RUSR)?;
        fs::remove_file(&path).unwrap();
        Ok(file)
    };
    let locked = wait_for_lock(open, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(locked.unwrap_err(), Errno::WOULDBLOCK);
}

#[test]
fn keeps_old_lock_file_that_is_held() {
    let (_folder, cache) = cache();
    let folder = &cache.folders[0].path;
    let digits = |count| "1".repeat(count);
    let key = CodeKey(format!("{}-{}.cwasm", digits(64), digits(16)));
    let lock = cache.lock(&key).unwrap();
    let path = folder.join(&lock.name);
    let old = SystemTime::now() - UNFINISHED_AGE * 2;
    let times = FileTimes::new().set_modified(old).set_accessed(old);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_times(times).unwrap();
    cache.put_definitions(&self::key(), b"definitions".to_vec());
    assert!(path.exists());
}

#[test]
fn leaves_name_of_removed_file_to_others() {
    let (_folder, cache) = cache();
    // Removing it would fail, or remove a file that another process has just created.
    let missing = OsStr::new("a.lock");
    cache.folders[0].remove_unless_locked(missing).unwrap();
}

#[test]
fn removes_old_entries_but_no_other_files() {
    let (folder, cache) = cache();
    let path = folder.path().join("cache");
    const MONTH: u64 = 30 * 24 * 60;
    let entry = |digit: char, extension: &str| {
        let (digest, settings) = ([digit; 64], [digit; 16]);
        let key = [String::from_iter(digest), String::from_iter(settings)].join("-");
        format!("{key}.{extension}")
    };
    let mut expected = Vec::new();
    for (name, written, read, stays) in [
        (entry('1', "tools.1.0.part"), 61, 61, false),
        (entry('2', "tools.2.0.part"), 59, 59, true),
        (entry('3', "cwasm"), 2 * MONTH, MONTH + 1, false),
        (entry('4', "cwasm"), 2 * MONTH, MONTH - 1, true),
        (entry('5', "tools"), MONTH + 1, 2 * MONTH, false),
        (entry('6', "tools"), MONTH - 1, 2 * MONTH, true),
        (entry('7', "cwasm.lock"), 61, 61, false),
        (
            "0123456789abcdef.index".to_owned(),
            2 * MONTH,
            2 * MONTH,
            false,
        ),
        ("successor-0123456789abcdef.lock".to_owned(), 61, 61, false),
        // Files of other programs, in case the wrong folder is configured as the cache.
        ("other".to_owned(), 2 * MONTH, 2 * MONTH, true),
        ("Cargo.lock".to_owned(), 2 * MONTH, 2 * MONTH, true),
        ("film.mkv.part".to_owned(), 2 * MONTH, 2 * MONTH, true),
        ("film.1.0.part".to_owned(), 2 * MONTH, 2 * MONTH, true),
        ("notes.tools".to_owned(), 2 * MONTH, 2 * MONTH, true),
        ("a.cwasm".to_owned(), 2 * MONTH, 2 * MONTH, true),
        ("book.index".to_owned(), 2 * MONTH, 2 * MONTH, true),
    ] {
        expected.extend(stays.then(|| name.clone()));
        let file = File::create(path.join(&name)).unwrap();
        let ago = |minutes: u64| SystemTime::now() - Duration::from_secs(minutes * 60);
        let times = FileTimes::new().set_modified(ago(written));
        file.set_times(times.set_accessed(ago(read))).unwrap();
    }
    cache.put_definitions(&key(), b"definitions".to_vec());
    fs::remove_file(path.join(key().0)).unwrap();
    let left = fs::read_dir(&path).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn only_owner_may_access_entry() {
    let (_folder, cache) = cache();
    cache.put_definitions(&key(), b"definitions".to_vec());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = &cache.folders[0].path;
    assert_eq!((mode(folder), mode(&folder.join(key().0))), (0o700, 0o600));
}

#[test]
fn ignores_entries_that_others_may_write() {
    let (folder, cache) = cache();
    let put = || cache.put_definitions(&key(), b"definitions".to_vec());
    put();
    let file = cache.folders[0].path.join(key().0);
    for mode in [0o666, 0o660, 0o620, 0o602] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        assert_eq!(cache.definitions(&key()), None, "{mode:o}");
        // The entry is replaced, not written into.
        put();
        assert!(cache.definitions(&key()).is_some());
    }
    // A link to a good entry elsewhere is not followed.
    fs::rename(&file, folder.path().join("elsewhere")).unwrap();
    symlink(folder.path().join("elsewhere"), &file).unwrap();
    assert_eq!(cache.definitions(&key()), None);
    let cache = folder.path().join("cache");
    for mode in [0o777, 0o770, 0o720, 0o702] {
        fs::set_permissions(&cache, Permissions::from_mode(mode)).unwrap();
        assert!(
            ComponentCache::open(&cache, None, &Trust::new()).is_err(),
            "{mode:o}"
        );
    }
}

#[test]
fn writes_new_entries_into_a_separate_folder() {
    let (folder, cache) = cache();
    let path = |name: &str| folder.path().join(name);
    let open = |new: &Path| ComponentCache::open(&path("cache"), Some(new), &Trust::new());
    let with_new_folder = || open(&path("cache/new")).unwrap();
    with_new_folder().put_definitions(&key(), b"new".to_vec());
    assert_eq!(cache.definitions(&key()), None);
    assert_eq!(with_new_folder().definitions(&key()).unwrap(), b"new");
    let old_key = DefinitionsKey("old".to_owned());
    cache.put_definitions(&old_key, b"old".to_vec());
    assert_eq!(with_new_folder().definitions(&old_key).unwrap(), b"old");
    // A damaged entry does not hide an intact one in the other folder.
    cache.put_definitions(&key(), b"intact".to_vec());
    fs::write(path("cache/new").join(key().0), b"damaged").unwrap();
    assert_eq!(with_new_folder().definitions(&key()).unwrap(), b"intact");
}

#[test]
fn waits_while_another_compiles_the_component() {
    let (_folder, cache) = cache();
    let key = |name: &str| CodeKey(name.to_owned());
    let lock = cache.lock(&key("a")).unwrap();
    assert!(cache.lock(&key("b")).is_some());
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let lock = cache.lock(&key("a"));
            sender.send(lock.is_some()).unwrap();
        });
        let early = ended.recv_timeout(Duration::from_millis(100));
        assert!(early.is_err(), "it did not wait");
        drop(lock);
        assert_eq!(ended.recv_timeout(Duration::from_secs(10)), Ok(true));
    });
    let left = fs::read_dir(&cache.folders[0].path).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn confined_waits_for_unconfined_but_not_vice_versa() {
    let (_folder, unconfined) = cache();
    let folder = &unconfined.folders[0].path;
    let new_entries = folder.join("confined");
    let confined = ComponentCache::open(folder, Some(&new_entries), &Trust::new()).unwrap();
    let key = CodeKey("a".to_owned());
    let lock = unconfined.lock(&key).unwrap();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let lock = confined.lock(&key);
            sender.send(lock.is_some()).unwrap();
        });
        let early = ended.recv_timeout(Duration::from_millis(100));
        assert!(early.is_err(), "it did not wait");
        drop(lock);
        assert_eq!(ended.recv_timeout(Duration::from_secs(10)), Ok(true));
        // An escaped guest could hold this lock.
        let held = confined.lock(&key);
        threads.spawn(|| sender.send(unconfined.lock(&key).is_some()).unwrap());
        let locked = ended.recv_timeout(Duration::from_secs(10));
        drop(held);
        assert_eq!(locked, Ok(true), "it waited for a confined process");
    });
}
