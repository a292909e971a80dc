//! Scripts of file operations, one on each line, and the result of each as text. The guest
//! runs them over WASI. `tests/fuzz/bodies/view.rs` runs the same code over a folder of
//! the disk, and compares the results.
//!
//! Spaces separate the words of a line; `""` is an empty word. Handles are numbers:
//! 0 is the skill's folder, 1 is `/tmp`, and `open` sets the others.

use std::fmt::Write as _;

/// The number of handles.
pub(crate) const HANDLES: usize = 8;

/// WASI's name of an error.
pub(crate) type Code = &'static str;

/// A file system that a script runs on.
pub(crate) trait FileSystem {
    /// A file or folder that is open.
    type Handle;

    /// Opens the folder that a handle refers to at the start, if any.
    fn top(&mut self, index: usize) -> Option<Self::Handle>;
    /// Opens a path. The letters of `flags`: (f)ollow, (c)reate, e(x)clusive, (t)runcate,
    /// (d)irectory, (r)ead, (w)rite.
    fn open(&mut self, base: &Self::Handle, path: &str, flags: &str) -> Result<Self::Handle, Code>;
    /// Reads bytes.
    fn read(&mut self, file: &Self::Handle, length: u64, offset: u64) -> Result<Vec<u8>, Code>;
    /// Reads bytes through a stream.
    fn read_stream(
        &mut self,
        file: &Self::Handle,
        length: u64,
        offset: u64,
    ) -> Result<Vec<u8>, Code>;
    /// Writes bytes.
    fn write(&mut self, file: &Self::Handle, bytes: &[u8], offset: u64) -> Result<(), Code>;
    /// Writes bytes through a stream, at the end unless there is an offset.
    fn write_stream(
        &mut self,
        file: &Self::Handle,
        bytes: &[u8],
        offset: Option<u64>,
    ) -> Result<(), Code>;
    /// Sets the size.
    fn set_size(&mut self, file: &Self::Handle, size: u64) -> Result<(), Code>;
    /// Returns the status.
    fn status(&mut self, file: &Self::Handle) -> Result<Status, Code>;
    /// Returns the status at a path.
    fn status_at(&mut self, base: &Self::Handle, path: &str, follow: bool) -> Result<Status, Code>;
    /// Returns the entries of a folder, with the letters of their kinds.
    fn list(&mut self, folder: &Self::Handle) -> Result<Vec<(String, char)>, Code>;
    /// Makes a folder.
    fn make_folder(&mut self, base: &Self::Handle, path: &str) -> Result<(), Code>;
    /// Removes a folder.
    fn remove_folder(&mut self, base: &Self::Handle, path: &str) -> Result<(), Code>;
    /// Removes a file.
    fn remove_file(&mut self, base: &Self::Handle, path: &str) -> Result<(), Code>;
    /// Renames.
    fn rename(
        &mut self,
        base: &Self::Handle,
        path: &str,
        new_base: &Self::Handle,
        new_path: &str,
    ) -> Result<(), Code>;
    /// Makes a symlink.
    fn make_link(&mut self, base: &Self::Handle, path: &str, target: &str) -> Result<(), Code>;
    /// Makes a hard link.
    fn add_name(
        &mut self,
        base: &Self::Handle,
        path: &str,
        follow: bool,
        new_base: &Self::Handle,
        new_path: &str,
    ) -> Result<(), Code>;
    /// Reads a symlink.
    fn read_link(&mut self, base: &Self::Handle, path: &str) -> Result<String, Code>;
    /// Sets the times, in seconds.
    fn set_times(
        &mut self,
        file: &Self::Handle,
        accessed: Option<u64>,
        modified: Option<u64>,
    ) -> Result<(), Code>;
    /// Sets the times at a path.
    fn set_times_at(
        &mut self,
        base: &Self::Handle,
        path: &str,
        follow: bool,
        accessed: Option<u64>,
        modified: Option<u64>,
    ) -> Result<(), Code>;
    /// Checks whether two handles refer to the same file.
    fn is_same(&mut self, one: &Self::Handle, other: &Self::Handle) -> Result<bool, Code>;
    /// Checks whether a path leads to the file of a handle.
    fn lies_at(
        &mut self,
        file: &Self::Handle,
        base: &Self::Handle,
        path: &str,
        follow: bool,
    ) -> Result<bool, Code>;
}

/// The status of a file, as a script sees it.
pub(crate) struct Status {
    /// `f` a file, `d` a folder, `l` a link, `?` anything else.
    pub(crate) kind: char,
    /// The number of hard links.
    pub(crate) links: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Seconds since 1970.
    pub(crate) modified: u64,
}

/// Scripts set only earlier times. Later ones are from the clock, and differ between runs.
const TODAY: u64 = 1_000_000_000;

/// Runs a script. Returns one line with the result of each line of the script.
pub(crate) fn run<F: FileSystem>(script: &str, files: &mut F) -> String {
    let mut runner = Runner {
        handles: (0..HANDLES).map(|index| files.top(index)).collect(),
        files,
    };
    let mut told = String::new();
    for line in script.lines() {
        let result = runner.step(line);
        let result = result.unwrap_or_else(|code| format!("!{code}"));
        told.push_str(&result);
        told.push('\n');
    }
    told
}

struct Runner<'a, F: FileSystem> {
    handles: Vec<Option<F::Handle>>,
    files: &'a mut F,
}

impl<F: FileSystem> Runner<'_, F> {
    fn step(&mut self, line: &str) -> Result<String, Code> {
        let mut words = line
            .split(' ')
            .map(|word| if word == "\"\"" { "" } else { word });
        let operation = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        let text = |index: usize| words.get(index).copied().unwrap_or_default();
        let number = |index: usize| text(index).parse::<u64>().unwrap_or_default();
        let time = |index: usize| text(index).parse::<u64>().ok();
        let slot = |index: usize| number(index) as usize % HANDLES;
        let follow = |index: usize| text(index) == "f";
        let fill = |byte: usize, count: usize| vec![number(byte) as u8; number(count) as usize];
        let Self { handles, files } = self;
        let handle = |index: usize| handles[slot(index)].as_ref().ok_or("no-handle");
        let done = |(): ()| "ok".to_owned();
        match operation {
            "open" => {
                let opened = files.open(handle(1)?, text(2), text(3))?;
                if slot(0) > 1 {
                    handles[slot(0)] = Some(opened);
                }
                Ok("ok".to_owned())
            }
            "close" => {
                if slot(0) > 1 {
                    handles[slot(0)] = None;
                }
                Ok("ok".to_owned())
            }
            "read" => files.read(handle(0)?, number(1), number(2)).map(show),
            "stream" => files
                .read_stream(handle(0)?, number(1), number(2))
                .map(show),
            "write" => files.write(handle(0)?, &fill(2, 3), number(1)).map(done),
            "text" => files
                .write(handle(0)?, text(2).as_bytes(), number(1))
                .map(done),
            "pour" => {
                let bytes = fill(2, 3);
                files
                    .write_stream(handle(0)?, &bytes, Some(number(1)))
                    .map(done)
            }
            "append" => files.write_stream(handle(0)?, &fill(1, 2), None).map(done),
            "size" => files.set_size(handle(0)?, number(1)).map(done),
            "stat" => files.status(handle(0)?).map(told),
            "stat-at" => files.status_at(handle(0)?, text(1), follow(2)).map(told),
            "list" => Ok(names(files.list(handle(0)?)?)),
            "mkdir" => files.make_folder(handle(0)?, text(1)).map(done),
            "rmdir" => files.remove_folder(handle(0)?, text(1)).map(done),
            "unlink" => files.remove_file(handle(0)?, text(1)).map(done),
            "rename" => {
                let moved = files.rename(handle(0)?, text(1), handle(2)?, text(3));
                moved.map(done)
            }
            "symlink" => files.make_link(handle(0)?, text(1), text(2)).map(done),
            "link" => {
                let (old, new) = (handle(0)?, handle(3)?);
                files
                    .add_name(old, text(1), follow(2), new, text(4))
                    .map(done)
            }
            "readlink" => files.read_link(handle(0)?, text(1)),
            "times" => files.set_times(handle(0)?, time(1), time(2)).map(done),
            "times-at" => {
                let set = files.set_times_at(handle(0)?, text(1), follow(2), time(3), time(4));
                set.map(done)
            }
            "same" => Ok(files.is_same(handle(0)?, handle(1)?)?.to_string()),
            "lies-at" => {
                let same = files.lies_at(handle(0)?, handle(1)?, text(2), follow(3));
                Ok(same?.to_string())
            }
            "tree" => {
                let mut told = String::new();
                tree(*files, handle(0)?, "", &mut told)?;
                Ok(told)
            }
            _ => Err("no-operation"),
        }
    }
}

/// Appends everything below a folder to `told`.
fn tree<F: FileSystem>(
    files: &mut F,
    folder: &F::Handle,
    at: &str,
    told: &mut String,
) -> Result<(), Code> {
    let mut entries = files.list(folder)?;
    entries.sort();
    for (name, kind) in entries {
        let _ = write!(told, " {at}{name}:");
        let shown = match kind {
            'f' => {
                let file = files.open(folder, &name, "r");
                file.and_then(|file| files.read(&file, 1 << 20, 0))
                    .map(show)
            }
            'l' => files.read_link(folder, &name),
            'd' => {
                let inner = files.open(folder, &name, "rd")?;
                tree(files, &inner, &format!("{at}{name}/"), told)?;
                Ok("/".to_owned())
            }
            _ => Ok("?".to_owned()),
        };
        told.push_str(&shown.unwrap_or_else(|code| format!("!{code}")));
    }
    Ok(())
}

fn names(mut entries: Vec<(String, char)>) -> String {
    entries.sort();
    let names = entries.iter().map(|(name, kind)| format!("{name}:{kind}"));
    names.collect::<Vec<_>>().join(" ")
}

fn told(status: Status) -> String {
    let Status {
        kind,
        links,
        size,
        modified,
    } = status;
    let when = if modified < TODAY {
        modified.to_string()
    } else {
        "today".to_owned()
    };
    // The size and the links of a folder differ between file systems.
    match kind {
        'd' => format!("d {when}"),
        _ => format!("{kind} {size} {links} {when}"),
    }
}

/// Shows short text as it is, and other bytes by their number and a hash.
fn show(bytes: Vec<u8>) -> String {
    if bytes.len() <= 64 && bytes.iter().all(u8::is_ascii_graphic) {
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("#{}:{hash:x}", bytes.len())
}
