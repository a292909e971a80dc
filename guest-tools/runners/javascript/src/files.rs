//! Files for `js/fs.js`: what WASI does, and Node's codes of errors. Paths are absolute
//! and normal; what an operation means in Node is said there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rquickjs::{ArrayBuffer, Ctx, Exception, Object, Result, TypedArray, prelude::Func};

/// The first number of an open file, after those of the standard streams.
const FIRST: u32 = 10;

thread_local! {
    static OPEN: RefCell<BTreeMap<u32, File>> = RefCell::default();
}

/// Returns Node's code of an error, by WASI's number.
pub(crate) fn code(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(2 | 63 | 76) => "EACCES",
        Some(8) => "EBADF",
        Some(20) => "EEXIST",
        Some(22) => "EFBIG",
        Some(28) => "EINVAL",
        Some(31) => "EISDIR",
        Some(32) => "ELOOP",
        Some(37) => "ENAMETOOLONG",
        Some(44) => "ENOENT",
        Some(51) => "ENOSPC",
        Some(54) => "ENOTDIR",
        Some(55) => "ENOTEMPTY",
        Some(52 | 58) => "ENOTSUP",
        Some(69) => "EROFS",
        Some(75) => "EXDEV",
        _ => match error.kind() {
            io::ErrorKind::NotFound => "ENOENT",
            io::ErrorKind::InvalidInput => "EINVAL",
            // The C library asks the host for nothing that lies outside of the folders.
            _ if error.raw_os_error().is_none() => "EACCES",
            _ => "EIO",
        },
    }
}

fn done<T>(ctx: &Ctx<'_>, result: io::Result<T>) -> Result<T> {
    result.map_err(|error| Exception::throw_message(ctx, code(&error)))
}

fn with<T>(ctx: &Ctx<'_>, fd: u32, act: impl FnOnce(&mut File) -> io::Result<T>) -> Result<T> {
    let result = OPEN.with_borrow_mut(|open| open.get_mut(&fd).map(act));
    match result {
        Some(result) => done(ctx, result),
        None => Err(Exception::throw_message(ctx, "EBADF")),
    }
}

/// Flags of `open`, as `fs.constants` has them.
const WRITE_ONLY: u32 = 1;
const READ_WRITE: u32 = 2;
const CREATE: u32 = 64;
const EXCLUSIVE: u32 = 128;
const TRUNCATE: u32 = 512;
const APPEND: u32 = 1024;

fn open(ctx: Ctx<'_>, path: String, flags: u32) -> Result<u32> {
    let has = |flag| flags & flag != 0;
    let writes = has(WRITE_ONLY | READ_WRITE);
    let mut options = OpenOptions::new();
    options
        .read(!has(WRITE_ONLY))
        .write(writes)
        .append(writes && has(APPEND))
        .truncate(has(TRUNCATE))
        .create(has(CREATE));
    if has(CREATE) && has(EXCLUSIVE) {
        options.create_new(true);
    }
    let file = done(&ctx, options.open(path))?;
    Ok(OPEN.with_borrow_mut(|open| {
        let fd = (FIRST..)
            .find(|fd| !open.contains_key(fd))
            .unwrap_or(u32::MAX);
        open.insert(fd, file);
        fd
    }))
}

fn close(ctx: Ctx<'_>, fd: u32) -> Result<()> {
    match OPEN.with_borrow_mut(|open| open.remove(&fd)) {
        Some(_) => Ok(()),
        None => Err(Exception::throw_message(&ctx, "EBADF")),
    }
}

/// Acts at a position, or at the file's own where it is negative.
fn at<T>(
    file: &mut File,
    position: f64,
    act: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    if position < 0.0 {
        return act(file);
    }
    let before = file.stream_position()?;
    file.seek(SeekFrom::Start(position as u64))?;
    let result = act(file);
    file.seek(SeekFrom::Start(before))?;
    result
}

fn read<'js>(ctx: Ctx<'js>, fd: u32, length: usize, position: f64) -> Result<ArrayBuffer<'js>> {
    let bytes = with(&ctx, fd, |file| {
        at(file, position, |file| {
            let mut bytes = Vec::new();
            file.take(length as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
    })?;
    ArrayBuffer::new(ctx, bytes)
}

fn write(ctx: Ctx<'_>, fd: u32, bytes: TypedArray<'_, u8>, position: f64) -> Result<()> {
    let bytes = bytes.as_bytes().unwrap_or_default();
    with(&ctx, fd, |file| {
        at(file, position, |file| file.write_all(bytes))
    })
}

fn read_file<'js>(ctx: Ctx<'js>, path: String) -> Result<ArrayBuffer<'js>> {
    let bytes = done(&ctx, fs::read(path))?;
    ArrayBuffer::new(ctx, bytes)
}

fn milliseconds(time: io::Result<SystemTime>) -> f64 {
    let since = time
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.unwrap_or_default().as_secs_f64() * 1000.0
}

/// Returns kind, size, and the times of access, change and making in milliseconds.
fn record(metadata: &Metadata) -> Vec<f64> {
    let kind = match metadata.file_type() {
        kind if kind.is_file() => 0.0,
        kind if kind.is_dir() => 1.0,
        kind if kind.is_symlink() => 2.0,
        _ => 3.0,
    };
    let modified = milliseconds(metadata.modified());
    let accessed = milliseconds(metadata.accessed());
    vec![kind, metadata.len() as f64, accessed, modified]
}

fn stat(ctx: Ctx<'_>, path: String, follow: bool) -> Result<Vec<f64>> {
    let metadata = if follow {
        fs::metadata(path)
    } else {
        fs::symlink_metadata(path)
    };
    Ok(record(&done(&ctx, metadata)?))
}

fn list(ctx: Ctx<'_>, path: String) -> Result<Vec<String>> {
    let entries = done(&ctx, fs::read_dir(path))?;
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = done(&ctx, entry)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn touch(ctx: Ctx<'_>, path: String, accessed: f64, modified: f64) -> Result<()> {
    let time = |seconds: f64| {
        let since = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
        let time = since.and_then(|since| UNIX_EPOCH.checked_add(since));
        time.ok_or(io::Error::from(io::ErrorKind::InvalidInput))
    };
    let set = || {
        let times = FileTimes::new()
            .set_accessed(time(accessed)?)
            .set_modified(time(modified)?);
        File::open(path)?.set_times(times)
    };
    done(&ctx, set())
}

/// Adds the functions to the object that the scripts in `js` have.
pub(crate) fn provide<'js>(native: &Object<'js>) -> Result<()> {
    native.set("open", Func::from(open))?;
    native.set("close", Func::from(close))?;
    native.set("read", Func::from(read))?;
    native.set("write", Func::from(write))?;
    native.set("readFile", Func::from(read_file))?;
    native.set("stat", Func::from(stat))?;
    native.set("list", Func::from(list))?;
    native.set("touch", Func::from(touch))?;
    native.set(
        "fstat",
        Func::from(|ctx: Ctx<'js>, fd: u32| {
            with(&ctx, fd, |file| file.metadata()).map(|metadata| record(&metadata))
        }),
    )?;
    native.set(
        "resize",
        Func::from(|ctx: Ctx<'js>, fd: u32, length: f64| {
            with(&ctx, fd, |file| file.set_len(length as u64))
        }),
    )?;
    native.set(
        "makeFolder",
        Func::from(|ctx: Ctx<'js>, path: String| done(&ctx, fs::create_dir(path))),
    )?;
    native.set(
        "removeFolder",
        Func::from(|ctx: Ctx<'js>, path: String| done(&ctx, fs::remove_dir(path))),
    )?;
    native.set(
        "removeFile",
        Func::from(|ctx: Ctx<'js>, path: String| done(&ctx, fs::remove_file(path))),
    )?;
    native.set(
        "rename",
        Func::from(|ctx: Ctx<'js>, from: String, to: String| done(&ctx, fs::rename(from, to))),
    )?;
    native.set(
        "readLink",
        Func::from(|ctx: Ctx<'js>, path: String| {
            done(&ctx, fs::read_link(path)).map(|target| target.to_string_lossy().into_owned())
        }),
    )
}
