//! `--output-dir`: writes the files that a call made or changed into a new folder. Overwrites no
//! file and follows no symlink.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use cap_std::fs::Dir;
use rustix::fs::OFlags;
use skillhost::{OutputFiles, Trust};
use skillhost_confine::broker::BrokerClient;
use skillhost_skills::text::count::count;

use skillhost_program::terminal::{self, format_line};

/// Checks that the folder does not exist yet, and that no other user can replace it later. Runs
/// before the call, which may take long.
pub(super) fn check(folder: &Path, trust: &Trust) -> anyhow::Result<()> {
    match folder.symlink_metadata() {
        Ok(_) => bail!(
            "`--output-dir {}` exists already; name a new folder: no file is overwritten",
            folder.display()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let checked = trust.check_parent(folder);
            checked.map_err(|error| creation_error(error.into(), folder))
        }
        Err(error) => Err(creation_error(error.into(), folder)),
    }
}

/// Writes the files into a new folder, and prints their names. Returns `false` if the answer's
/// limits left out some of them.
pub(super) fn write(
    files: &OutputFiles,
    folder: &Path,
    broker: Option<&BrokerClient>,
) -> anyhow::Result<bool> {
    let opened = match broker {
        Some(broker) => broker
            .create_output_folder()
            .map(|()| OutputDir::Brokered(broker)),
        None => create(folder).map(OutputDir::Direct),
    };
    let output_dir = opened.map_err(|error| creation_error(error.into(), folder))?;
    let mut complete = true;
    for file in &files.files {
        let shown = terminal::name(&file.path);
        let written = file
            .bytes
            .as_ref()
            .map(|bytes| output_dir.write_file(&file.path, bytes));
        match written {
            Some(Ok(())) => {
                terminal::say(&format_line!(
                    "wrote {shown} ({})",
                    count(file.size, "byte")
                ));
            }
            None => {
                complete = false;
                terminal::complain(format_args!(
                    "{shown} ({}) is not written: it exceeds the limit of the answer; raise \
                     `output_file_bytes` in the tool's limits",
                    count(file.size, "byte")
                ));
            }
            Some(Err(error)) => {
                let folder = folder.display().to_string();
                return Err(error).with_context(|| {
                    format!(
                        "cannot write all of {shown} into `{folder}`; the files before it are written"
                    )
                });
            }
        }
    }
    let left_out = files.total - files.files.len();
    if left_out > 0 {
        complete = false;
        terminal::complain(format_args!(
            "{} {} not written: raise `output_files` in the tool's limits",
            count(left_out, "more file"),
            if left_out == 1 { "is" } else { "are" }
        ));
    }
    if files.total == 0 {
        terminal::say(&format_line!("the call made and changed no files"));
    }
    Ok(complete)
}

/// The new folder, and the process that writes in it.
enum OutputDir<'a> {
    /// This process writes.
    Direct(Dir),
    /// The broker creates the files, because this process is confined.
    Brokered(&'a BrokerClient),
}

impl OutputDir<'_> {
    fn write_file(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Direct(folder) => write_file(folder, path, bytes),
            Self::Brokered(broker) => File::from(broker.create_output_file(path)?).write_all(bytes),
        }
    }
}

/// Creates and opens the folder. Follows no symlink that somebody may put in its place.
fn create(folder: &Path) -> io::Result<Dir> {
    DirBuilder::new().create(folder)?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(folder)?;
    Ok(Dir::from_std_file(opened))
}

/// Writes a new file. The handle of the folder confines every path to the folder.
fn write_file(folder: &Dir, path: &str, bytes: &[u8]) -> io::Result<()> {
    if let Some((parent, _)) = path.rsplit_once('/') {
        folder.create_dir_all(parent)?;
    }
    let mut options = cap_std::fs::OpenOptions::new();
    let mut file = folder.open_with(path, options.write(true).create_new(true))?;
    file.write_all(bytes)
}

fn creation_error(error: anyhow::Error, folder: &Path) -> anyhow::Error {
    error.context(format!("cannot create the folder `{}`", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn check(folder: &Path) -> anyhow::Result<()> {
        super::check(folder, &Trust::new())
    }

    #[test]
    fn refuses_parents_that_others_can_change() {
        let base = tempfile::tempdir().unwrap();
        for (mode, is_safe) in [(0o757, false), (0o1757, true), (0o755, true)] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(base.path(), permissions).unwrap();
            let checked = check(&base.path().join("new"));
            assert_eq!(checked.is_ok(), is_safe, "{mode:o}: {checked:?}");
        }
    }

    #[test]
    fn refuses_paths_that_exist() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("there")).unwrap();
        symlink("there", base.path().join("link")).unwrap();
        symlink("nothing", base.path().join("dangling")).unwrap();
        std::fs::write(base.path().join("file"), "").unwrap();
        for name in ["there", "link", "dangling", "file"] {
            let folder = base.path().join(name);
            let error = format!("{:#}", check(&folder).unwrap_err());
            assert!(error.contains("exists already"), "{name}: {error}");
            // `create` also refuses a path that appears after the check.
            assert!(create(&folder).is_err(), "{name}");
        }
        assert!(!base.path().join("nothing").exists());
        assert!(check(&base.path().join("none")).is_ok());
        assert!(check(&base.path().join("file/none")).is_err());
        assert!(create(&base.path().join("none/deep")).is_err());
    }

    #[test]
    fn refuses_paths_and_symlinks_that_lead_out() {
        let base = tempfile::tempdir().unwrap();
        let folder = create(&base.path().join("out")).unwrap();
        symlink("../stolen", base.path().join("out/link")).unwrap();
        symlink("..", base.path().join("out/up")).unwrap();
        std::fs::write(base.path().join("out/old"), "old").unwrap();
        for path in ["../x", "/tmp/x", "link", "up/x", "old", "old/x", ""] {
            assert!(write_file(&folder, path, b"new").is_err(), "{path}");
        }
        assert!(write_file(&folder, "a/b/new", b"new").is_ok());
        let names = |path: &str| {
            let entries = std::fs::read_dir(base.path().join(path)).unwrap();
            entries.count()
        };
        assert_eq!((names(""), names("out")), (1, 4));
        let old = std::fs::read_to_string(base.path().join("out/old"));
        assert_eq!(old.unwrap(), "old");
    }
}
