//! Reads the folder of a skill that its author pushes.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};
use skillhost_skills::named_file;
use skillhost_skills::omitted::OmittedNames;

use crate::skill_files::{MAX_BYTES, SkillFiles, SkillFilesBuilder};

/// A skill in a folder.
#[derive(Debug)]
#[non_exhaustive]
pub struct SkillFolder {
    /// The files of the skill.
    pub files: SkillFiles,
    /// The paths that are left out: hidden files and folders, and folders that lists of files leave
    /// out too, such as `node_modules`.
    pub left_out: Vec<String>,
}

/// Reads the files of a skill.
///
/// # Errors
///
/// If the folder has a symlink or a file that is not regular, a name that
/// [`SkillFilesBuilder::add`] refuses, or no SKILL.md.
pub fn read_skill_folder(path: &Path) -> anyhow::Result<SkillFolder> {
    let mut files = SkillFilesBuilder::default();
    let mut left_out = Vec::new();
    read_into(path, "", &mut files, &mut left_out)
        .and_then(|()| files.build())
        .map(|files| SkillFolder { files, left_out })
        .with_context(|| format!("cannot use the skill `{}`", path.display()))
}

fn read_into(
    base: &Path,
    folder: &str,
    files: &mut SkillFilesBuilder,
    left_out: &mut Vec<String>,
) -> anyhow::Result<()> {
    let path = base.join(folder);
    let cannot = || format!("cannot read `{}`", path.display());
    let omitted = OmittedNames::default();
    let handle = File::open(&path).with_context(cannot)?;
    for entry in fs::read_dir(&path).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let name = entry.file_name();
        let relative = Path::new(folder).join(&name);
        let shown = relative.display();
        if name.as_bytes().starts_with(b".") || omitted.has(handle.as_fd(), &name) {
            left_out.push(shown.to_string());
            continue;
        }
        let kind = entry.file_type().with_context(cannot)?;
        ensure!(
            kind.is_file() || kind.is_dir(),
            "`{shown}` is a symlink or another special file; put a file in its place"
        );
        if kind.is_dir() {
            files.add_folder(relative.as_os_str().as_bytes())?;
            let relative = relative.to_str().context("a name is not UTF-8")?;
            read_into(base, relative, files, left_out)?;
            continue;
        }
        let bytes = named_file::read(&entry.path(), MAX_BYTES);
        let bytes = bytes.with_context(|| format!("cannot read `{shown}`"))?;
        files.add(
            relative.as_os_str().as_bytes(),
            bytes.len() as u64,
            &bytes[..],
        )?;
    }
    left_out.sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn reads_files_and_leaves_out_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for (path, text) in [
            ("SKILL.md", "# One"),
            ("scripts/a.py", "x"),
            (".env", "SECRET=1"),
            ("scripts/.hidden/x", ""),
            ("node_modules/y/z", ""),
            ("env/lib.md", "not a Python environment"),
        ] {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        }
        let skill = read_skill_folder(folder.path()).unwrap();
        let paths: Vec<_> = skill.files.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["SKILL.md", "env/lib.md", "scripts/a.py"]);
        assert_eq!(skill.left_out, [".env", "node_modules", "scripts/.hidden"]);

        symlink("SKILL.md", at("link")).unwrap();
        let error = format!("{:#}", read_skill_folder(folder.path()).unwrap_err());
        assert!(error.contains("`link` is a symlink"), "{error}");
        fs::remove_file(at("link")).unwrap();
        symlink("/etc", at("scripts/link")).unwrap();
        let error = format!("{:#}", read_skill_folder(folder.path()).unwrap_err());
        assert!(error.contains("`scripts/link` is a symlink"), "{error}");
        fs::remove_file(at("scripts/link")).unwrap();
        fs::remove_file(at("SKILL.md")).unwrap();
        let error = format!("{:#}", read_skill_folder(folder.path()).unwrap_err());
        assert!(error.contains("has no SKILL.md"), "{error}");
    }
}
