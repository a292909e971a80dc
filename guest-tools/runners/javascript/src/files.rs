//! File operations for `js/fs.js`, with Node's error codes. Paths are absolute and
//! normalized. `js/fs.js` implements Node's semantics on top.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rquickjs::{ArrayBuffer, Ctx, Exception, Object, Result, TypedArray, prelude::Func};

/// The first file descriptor of an open file. The standard streams have lower ones.
const FIRST_FD: u32 = 10;

thread_local! {
    static OPEN_FILES: RefCell<BTreeMap<u32, File>> = RefCell::default();
}

/// Returns Node's code for an error, from its WASI error number.
pub(crate) fn node_error_code(error: &io::Error) -> &'static str {
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
            // The C library itself refuses a path outside the preopens, without a number.
            _ if error.raw_os_error().is_none() => "EACCES",
            _ => "EIO",
        },
    }
}

/// Throws the error of a failed result as a JavaScript exception with Node's code.
fn throw_on_error<T>(ctx: &Ctx<'_>, result: io::Result<T>) -> Result<T> {
    result.map_err(|error| Exception::throw_message(ctx, node_error_code(&error)))
}

/// Calls `act` with an open file.
fn with_file<T>(ctx: &Ctx<'_>, fd: u32, act: impl FnOnce(&mut File) -> io::Result<T>) -> Result<T> {
    let result = OPEN_FILES.with_borrow_mut(|files| files.get_mut(&fd).map(act));
    match result {
        Some(result) => throw_on_error(ctx, result),
        None => Err(Exception::throw_message(ctx, "EBADF")),
    }
}

/// The flags of `open`, with the values of `fs.constants`.
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
    let file = throw_on_error(&ctx, options.open(path))?;
    Ok(OPEN_FILES.with_borrow_mut(|files| {
        let fd = (FIRST_FD..)
            .find(|fd| !files.contains_key(fd))
            .unwrap_or(u32::MAX);
        files.insert(fd, file);
        fd
    }))
}

fn close(ctx: Ctx<'_>, fd: u32) -> Result<()> {
    match OPEN_FILES.with_borrow_mut(|files| files.remove(&fd)) {
        Some(_) => Ok(()),
        None => Err(Exception::throw_message(&ctx, "EBADF")),
    }
}

/// Calls `act` at `position`, or at the file's current position if `position` is negative.
fn at_position<T>(
    file: &mut File,
    position: f64,
    act: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    if position < 0.0 {
        return act(file);
    }
    let old_position = file.stream_position()?;
    file.seek(SeekFrom::Start(position as u64))?;
    let result = act(file);
    file.seek(SeekFrom::Start(old_position))?;
    result
}

fn read<'js>(ctx: Ctx<'js>, fd: u32, length: usize, position: f64) -> Result<ArrayBuffer<'js>> {
    let bytes = with_file(&ctx, fd, |file| {
        at_position(file, position, |file| {
            let mut bytes = Vec::new();
            file.take(length as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
    })?;
    ArrayBuffer::new(ctx, bytes)
}

fn write(ctx: Ctx<'_>, fd: u32, bytes: TypedArray<'_, u8>, position: f64) -> Result<()> {
    let bytes = bytes.as_bytes().unwrap_or_default();
    with_file(&ctx, fd, |file| {
        at_position(file, position, |file| file.write_all(bytes))
    })
}

fn read_file<'js>(ctx: Ctx<'js>, path: String) -> Result<ArrayBuffer<'js>> {
    let bytes = throw_on_error(&ctx, fs::read(path))?;
    ArrayBuffer::new(ctx, bytes)
}

fn milliseconds(time: io::Result<SystemTime>) -> f64 {
    let since_epoch = time
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since_epoch.unwrap_or_default().as_secs_f64() * 1000.0
}

/// Returns the kind, the size, and the times of access and modification in milliseconds.
fn stat_values(metadata: &Metadata) -> Vec<f64> {
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
    Ok(stat_values(&throw_on_error(&ctx, metadata)?))
}

fn list(ctx: Ctx<'_>, path: String) -> Result<Vec<String>> {
    let entries = throw_on_error(&ctx, fs::read_dir(path))?;
    let mut names = Vec::new();
    for entry in entries {
        if let Ok(name) = throw_on_error(&ctx, entry)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn touch(ctx: Ctx<'_>, path: String, accessed: f64, modified: f64) -> Result<()> {
    let time = |seconds: f64| {
        let since_epoch = Duration::try_from_secs_f64(seconds.max(0.0)).ok();
        let time = since_epoch.and_then(|since_epoch| UNIX_EPOCH.checked_add(since_epoch));
        time.ok_or(io::Error::from(io::ErrorKind::InvalidInput))
    };
    let set_times = || {
        let times = FileTimes::new()
            .set_accessed(time(accessed)?)
            .set_modified(time(modified)?);
        File::open(path)?.set_times(times)
    };
    throw_on_error(&ctx, set_times())
}

/// Adds this module's functions to the object `native` of the scripts in `js`.
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
            with_file(&ctx, fd, |file| file.metadata()).map(|metadata| stat_values(&metadata))
        }),
    )?;
    native.set(
        "resize",
        Func::from(|ctx: Ctx<'js>, fd: u32, length: f64| {
            with_file(&ctx, fd, |file| file.set_len(length as u64))
        }),
    )?;
    native.set(
        "makeFolder",
        Func::from(|ctx: Ctx<'js>, path: String| throw_on_error(&ctx, fs::create_dir(path))),
    )?;
    native.set(
        "removeFolder",
        Func::from(|ctx: Ctx<'js>, path: String| throw_on_error(&ctx, fs::remove_dir(path))),
    )?;
    native.set(
        "removeFile",
        Func::from(|ctx: Ctx<'js>, path: String| throw_on_error(&ctx, fs::remove_file(path))),
    )?;
    native.set(
        "rename",
        Func::from(|ctx: Ctx<'js>, from: String, to: String| {
            throw_on_error(&ctx, fs::rename(from, to))
        }),
    )?;
    native.set(
        "readLink",
        Func::from(|ctx: Ctx<'js>, path: String| {
            throw_on_error(&ctx, fs::read_link(path))
                .map(|target| target.to_string_lossy().into_owned())
        }),
    )
}
