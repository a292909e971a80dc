//! `--output-dir`: the files that a call made or changed, written into a new folder.
//! Nothing is ever written over, and no link is followed.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use cap_std::fs::Dir;
use rustix::fs::OFlags;
use skillhost::OutputFiles;
use skillhost_confine::broker::Broker;

use skillhost_program::terminal::{self, format_line};

/// Checks before the call that the folder can be made: a call may take long.
pub(super) fn check(folder: &Path) -> anyhow::Result<()> {
    match folder.symlink_metadata() {
        Ok(_) => bail!(
            "`--output-dir {}` is there already: name a new folder, nothing is written over",
            folder.display()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(cannot_make(error, folder)),
    }
}

/// Writes the files into a new folder, and says which. Returns `false` if the answer
/// had no room for all.
pub(super) fn write(
    files: &OutputFiles,
    folder: &Path,
    broker: Option<&Broker>,
) -> anyhow::Result<bool> {
    let opened = match broker {
        Some(broker) => broker.make_output().map(|()| NewFolder::Outside(broker)),
        None => make(folder).map(NewFolder::Here),
    };
    let opened = opened.map_err(|error| cannot_make(error, folder))?;
    let mut complete = true;
    for file in &files.files {
        let shown = terminal::name(&file.path);
        let written = file
            .bytes
            .as_ref()
            .map(|bytes| opened.put(&file.path, bytes));
        match written {
            Some(Ok(())) => terminal::say(&format_line!("wrote {shown} ({} bytes)", file.size)),
            None => {
                complete = false;
                terminal::complain(format_args!(
                    "{shown} ({} bytes) is not written: the answer has no room for it; \
                     `output_file_bytes` in the tool's limits gives more",
                    file.size
                ));
            }
            Some(Err(error)) => {
                let folder = folder.display().to_string();
                return Err(error).with_context(|| {
                    format!(
                        "cannot write all of {shown} into `{folder}`; files before it are written"
                    )
                });
            }
        }
    }
    let unlisted = files.total - files.files.len();
    if unlisted > 0 {
        complete = false;
        terminal::complain(format_args!(
            "{unlisted} more files are not written: `output_files` in the tool's limits gives more"
        ));
    }
    if files.total == 0 {
        terminal::say(&format_line!("the call made and changed no files"));
    }
    Ok(complete)
}

/// The folder, and who may write in it.
enum NewFolder<'a> {
    Here(Dir),
    /// This process is confined.
    Outside(&'a Broker),
}

impl NewFolder<'_> {
    fn put(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Here(folder) => put(folder, path, bytes),
            Self::Outside(broker) => File::from(broker.create_output(path)?).write_all(bytes),
        }
    }
}

/// Makes the folder and opens it, without following a link that somebody puts in its
/// place.
fn make(folder: &Path) -> io::Result<Dir> {
    DirBuilder::new().create(folder)?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(folder)?;
    Ok(Dir::from_std_file(opened))
}

/// Writes a new file. The folder's handle keeps each path inside.
fn put(folder: &Dir, path: &str, bytes: &[u8]) -> io::Result<()> {
    if let Some((parent, _)) = path.rsplit_once('/') {
        folder.create_dir_all(parent)?;
    }
    let mut options = cap_std::fs::OpenOptions::new();
    let mut file = folder.open_with(path, options.write(true).create_new(true))?;
    file.write_all(bytes)
}

fn cannot_make(error: io::Error, folder: &Path) -> anyhow::Error {
    let made = format!("cannot make the folder `{}`", folder.display());
    anyhow::Error::from(error).context(made)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_that_is_there_in_any_form_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let there = base.path().join("there");
        std::fs::create_dir(&there).unwrap();
        symlink("there", base.path().join("link")).unwrap();
        symlink("nothing", base.path().join("dangling")).unwrap();
        std::fs::write(base.path().join("file"), "").unwrap();
        for name in ["there", "link", "dangling", "file"] {
            let folder = base.path().join(name);
            let error = format!("{:#}", check(&folder).unwrap_err());
            assert!(error.contains("is there already"), "{name}: {error}");
            // Also if it comes between the check and the call's end.
            assert!(make(&folder).is_err(), "{name}");
        }
        assert!(!base.path().join("nothing").exists());
        assert!(check(&base.path().join("none")).is_ok());
        assert!(check(&base.path().join("file/none")).is_err());
        assert!(make(&base.path().join("none/deep")).is_err());
    }

    #[test]
    fn no_path_leads_out_and_no_link_is_followed() {
        let base = tempfile::tempdir().unwrap();
        let folder = make(&base.path().join("out")).unwrap();
        symlink("../stolen", base.path().join("out/link")).unwrap();
        symlink("..", base.path().join("out/up")).unwrap();
        std::fs::write(base.path().join("out/old"), "old").unwrap();
        for path in ["../x", "/tmp/x", "link", "up/x", "old", "old/x", ""] {
            assert!(put(&folder, path, b"new").is_err(), "{path}");
        }
        assert!(put(&folder, "a/b/new", b"new").is_ok());
        let names = |path: &str| {
            let entries = std::fs::read_dir(base.path().join(path)).unwrap();
            entries.count()
        };
        assert_eq!((names(""), names("out")), (1, 4));
        let old = std::fs::read_to_string(base.path().join("out/old"));
        assert_eq!(old.unwrap(), "old");
    }
}
