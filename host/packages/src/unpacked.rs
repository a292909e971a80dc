//! The unpacked files of skills in the store: `skills/sha256-CONTENT-NAME/NAME/…`, read-only.
//!
//! Each folder is the root of one skill, because two configurations can give the same bytes two
//! names. It appears atomically, and the program compares its files with the lock file at
//! each start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::CWD;
use skillhost_skills::atomic_file::{UNFINISHED, unfinished_name};
use skillhost_skills::broker::Opener;
use skillhost_skills::entries::{EntryCursor, ListedEntry};
use skillhost_skills::named_file;
use tempfile::TempDir;

use crate::digest::Digest;
use crate::lock::LockedSkill;
use crate::quote::quote;
use crate::skill_files::{MAX_BYTES, SkillFiles};
use crate::store::{Store, is_abandoned};

/// The beginning of the names of folders with skills.
const PREFIX: &str = "sha256-";

/// The modes of folders and files, which are read-only.
const FOLDER: u32 = 0o555;
const FILE: u32 = 0o444;

impl Store {
    /// Returns the folder whose only entry is the unpacked skill. It may be missing.
    pub fn skill_root(&self, locked: &LockedSkill) -> PathBuf {
        let name = format!("{PREFIX}{}-{}", locked.content.hex(), locked.name);
        self.skills.join(name)
    }

    /// Checks that the files of a skill are unpacked, and match the lock file.
    ///
    /// # Errors
    ///
    /// If a file is missing, changed or not in the lock file. The error says what to do.
    pub fn check_unpacked(&self, locked: &LockedSkill) -> anyhow::Result<()> {
        let (root, name) = (self.skill_root(locked), &locked.name);
        ensure!(
            root.is_dir(),
            "the files of the skill `{name}` are not in the store; `skillhost fetch` unpacks them"
        );
        let checked = compare(&root, locked, &self.opener);
        let checked = checked.with_context(|| root.display().to_string());
        checked.with_context(|| {
            format!(
                "the files of the skill `{name}` are not those of the lock file; `skillhost fetch` \
                 unpacks them again"
            )
        })
    }

    /// Unpacks the files of a locked skill if they are missing or damaged.
    ///
    /// # Errors
    ///
    /// If the files differ from the lock file, or cannot be written.
    pub fn unpack(&self, locked: &LockedSkill, files: &SkillFiles) -> anyhow::Result<()> {
        ensure!(
            files.digests() == locked.files,
            "the skill `{}` has other files than the lock file",
            locked.name
        );
        if self.check_unpacked(locked).is_ok() {
            return Ok(());
        }
        let root = self.skill_root(locked);
        let aside = || self.skills.join(unfinished_name(&locked.name));
        let (new, old) = (aside(), aside());
        let written = (|| {
            write_tree(&new, &locked.name, files)?;
            ignore_missing(fs::rename(&root, &old))?;
            fs::rename(&new, &root)?;
            File::open(&self.skills)?.sync_all()?;
            remove_tree(&old)
        })();
        let _ = remove_tree(&new);
        // Another process can have unpacked the same skill meanwhile.
        written
            .or_else(|error: io::Error| self.check_unpacked(locked).map_err(|_| error))
            .with_context(|| format!("cannot unpack the skill into `{}`", root.display()))
    }

    /// Makes a folder that only this user can read.
    ///
    /// It is removed on drop. If the process is killed, `store clean` removes it.
    pub fn temporary_folder(&self) -> anyhow::Result<TempDir> {
        let folder = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&self.skills);
        folder.with_context(|| format!("cannot make a folder in `{}`", self.skills.display()))
    }

    /// Removes each unpacked skill unless `kept` has its content's digest, and the unfinished
    /// folders of processes that have ended.
    pub(crate) fn clean_unpacked(&self, kept: &BTreeSet<Digest>) -> anyhow::Result<()> {
        let cannot = || format!("cannot clean `{}`", self.skills.display());
        for entry in fs::read_dir(&self.skills).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let content = name.strip_prefix(PREFIX).and_then(|rest| rest.get(..64));
            let content = content.and_then(|hex| format!("sha256:{hex}").parse().ok());
            let is_kept = match content {
                Some(content) => kept.contains(&content),
                None => name.starts_with(UNFINISHED) && !is_abandoned(&entry),
            };
            if !is_kept {
                // Meanwhile, another process can unpack the same skill again.
                let aside = self.skills.join(unfinished_name("removed"));
                let renamed = fs::rename(entry.path(), &aside);
                let removed = renamed.and_then(|()| remove_tree(&aside));
                ignore_missing(removed).with_context(cannot)?;
            }
        }
        Ok(())
    }
}

/// Writes the files of a skill into `root/name`, and makes both folders.
fn write_tree(root: &Path, name: &str, files: &SkillFiles) -> io::Result<()> {
    let base = root.join(name);
    let mut folders = BTreeSet::from([root.to_owned(), base.clone()]);
    for (path, bytes) in files.iter() {
        let path = base.join(path);
        let parents = path.ancestors().skip(1);
        folders.extend(parents.take_while(|it| *it != root).map(Path::to_owned));
        let parent = path.parent().unwrap_or(&base);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(FILE))?;
        file.sync_all()?;
    }
    // Inner folders first.
    for folder in folders.iter().rev() {
        let folder = File::open(folder)?;
        folder.set_permissions(Permissions::from_mode(FOLDER))?;
        folder.sync_all()?;
    }
    Ok(())
}

/// Removes a file, or a folder with its content, even if folders are read-only. Follows no symlink.
///
/// Another process may remove the same files at the same time.
fn remove_tree(path: &Path) -> io::Result<()> {
    let removed = (|| {
        if !path.symlink_metadata()?.is_dir() {
            return fs::remove_file(path);
        }
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(path)? {
            remove_tree(&entry?.path())?;
        }
        fs::remove_dir(path)
    })();
    ignore_missing(removed)
}

/// Returns `Ok` if a file or folder was missing.
fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Compares the only skill in a folder with the lock file.
fn compare(root: &Path, locked: &LockedSkill, opener: &Opener) -> anyhow::Result<()> {
    let mut unseen: BTreeMap<String, &Digest> = locked
        .files
        .iter()
        .map(|(path, digest)| (format!("{}/{path}", locked.name), digest))
        .collect();
    let folders: BTreeSet<String> = unseen
        .keys()
        .flat_map(|path| {
            path.match_indices('/')
                .map(|(end, _)| path[..end].to_owned())
        })
        .collect();
    let mut bytes_left = MAX_BYTES;
    let mut folders_to_read = vec![String::new()];
    while let Some(folder) = folders_to_read.pop() {
        // A slash at the end would follow a symlink.
        let path = match folder.as_str() {
            "" => root.to_owned(),
            folder => root.join(folder),
        };
        for entry in EntryCursor::open(CWD, path.as_path(), opener)? {
            let ListedEntry { name, kind } = entry?;
            let path = match folder.as_str() {
                "" => name.to_string_lossy().into_owned(),
                folder => format!("{folder}/{}", name.to_string_lossy()),
            };
            if kind.is_dir() && folders.contains(&path) {
                folders_to_read.push(path);
                continue;
            }
            let Some(digest) = unseen.remove(&path).filter(|_| kind.is_file()) else {
                bail!("`{}` is not in the lock file", quote(&path));
            };
            let file = named_file::open_with(&root.join(&path), opener);
            let content = file.and_then(|file| named_file::read_all(file, bytes_left));
            let content = content.with_context(|| format!("cannot read `{path}`"))?;
            bytes_left -= content.len() as u64;
            ensure!(Digest::of(&content) == *digest, "`{path}` has other bytes");
        }
    }
    if let Some((path, _)) = unseen.first_key_value() {
        bail!("`{path}` is missing");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use skillhost_skills::trust::Trust;

    use super::*;
    use crate::skill_files::tests::skill_files;
    use crate::store::UNFINISHED_TIME;
    use crate::tests::locked_skill;

    /// Returns a store, and a skill whose files contain their paths.
    fn unpacked() -> (TempDir, Store, LockedSkill, SkillFiles) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store"), &Trust::new()).unwrap();
        let paths = ["SKILL.md", "scripts/a.py", "scripts/lib/b.py"];
        let files = skill_files(&paths.map(|path| (path, path))).unwrap();
        let locked = locked_skill("report", &paths);
        store.unpack(&locked, &files).unwrap();
        (folder, store, locked, files)
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn unpacks_read_only_files() {
        let (_folder, store, locked, _) = unpacked();
        store.check_unpacked(&locked).unwrap();
        let root = store.skill_root(&locked);
        for (path, mode) in [
            ("", FOLDER),
            ("report", FOLDER),
            ("report/scripts/lib", FOLDER),
            ("report/SKILL.md", FILE),
            ("report/scripts/lib/b.py", FILE),
        ] {
            let found = fs::metadata(root.join(path)).unwrap();
            assert_eq!(found.permissions().mode() & 0o777, mode, "{path}");
        }
        let text = fs::read_to_string(root.join("report/scripts/a.py")).unwrap();
        assert_eq!(text, "scripts/a.py");
        assert_eq!(fs::read_dir(&store.skills).unwrap().count(), 1);
    }

    #[test]
    fn changed_skills_are_found_and_unpacked_again() {
        let (_folder, store, locked, files) = unpacked();
        let root = store.skill_root(&locked);
        let skill = root.join("report");
        let file = skill.join("scripts/a.py");
        type Change<'c> = Box<dyn Fn() -> io::Result<()> + 'c>;
        let cases: [(Change<'_>, &str); 8] = [
            (
                Box::new(|| fs::write(&file, "other")),
                "`report/scripts/a.py` has other bytes",
            ),
            (
                Box::new(|| fs::remove_file(&file)),
                "`report/scripts/a.py` is missing",
            ),
            (
                Box::new(|| fs::write(skill.join("b.py"), "")),
                "`report/b.py` is not in the lock file",
            ),
            (
                Box::new(|| fs::create_dir(skill.join("more"))),
                "`report/more` is not in the lock file",
            ),
            (
                Box::new(|| fs::create_dir(root.join("other"))),
                "`other` is not in the lock file",
            ),
            (
                Box::new(|| {
                    fs::rename(&file, skill.join("x"))?;
                    symlink("../x", &file)
                }),
                "is not in the lock file",
            ),
            (
                Box::new(|| {
                    fs::remove_file(&file)?;
                    fs::create_dir(&file)
                }),
                "`report/scripts/a.py` is not in the lock file",
            ),
            (
                Box::new(|| remove_tree(&root)),
                "`skillhost fetch` unpacks them",
            ),
        ];
        for (change, why) in cases {
            for path in [&root, &skill, &skill.join("scripts")] {
                set_mode(path, 0o700);
            }
            set_mode(&file, 0o600);
            change().unwrap();
            let error = format!("{:#}", store.check_unpacked(&locked).unwrap_err());
            assert!(error.contains(why), "{why}: {error}");
            assert!(error.contains("`skillhost fetch` unpacks"), "{error}");
            store.unpack(&locked, &files).unwrap();
            store.check_unpacked(&locked).unwrap();
            assert_eq!(fs::read_dir(&store.skills).unwrap().count(), 1);
        }
    }

    #[test]
    fn refuses_files_of_another_lock_file() {
        let (_folder, store, locked, files) = unpacked();
        let mut other = locked.clone();
        other.files.remove("scripts/a.py");
        let error = store.unpack(&other, &files).unwrap_err().to_string();
        assert!(error.contains("other files than the lock file"), "{error}");
        let error = format!("{:#}", store.check_unpacked(&other).unwrap_err());
        assert!(error.contains("`report/scripts/a.py` is not in"), "{error}");
    }

    #[test]
    fn unpacks_same_bytes_under_two_names() {
        let (_folder, store, locked, files) = unpacked();
        let mut other = locked.clone();
        other.package.name = "other".to_owned();
        store.unpack(&other, &files).unwrap();
        store.check_unpacked(&locked).unwrap();
        store.check_unpacked(&other).unwrap();
        let names = fs::read_dir(store.skill_root(&other)).unwrap();
        let names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["other"]);
    }

    #[test]
    fn cleaning_removes_each_skill_at_once() {
        let (folder, store, locked, files) = unpacked();
        let root = store.skill_root(&locked);
        set_mode(&root, 0o700);
        // The removal fails partway, at a path that is too long.
        let deep = |base: &Path| (0..11).fold(base.to_owned(), |it, _| it.join("n".repeat(200)));
        let (outer, inner) = (deep(&root), folder.path().join("inner"));
        fs::create_dir_all(&outer).unwrap();
        fs::create_dir_all(deep(&inner)).unwrap();
        fs::rename(&inner, outer.join("inner")).unwrap();
        let error = store.clean_unpacked(&BTreeSet::new()).unwrap_err();
        assert!(error.to_string().contains("cannot clean"), "{error:#}");
        assert!(!root.exists());
        store.unpack(&locked, &files).unwrap();
        store.check_unpacked(&locked).unwrap();
    }

    #[test]
    fn ignores_leftovers_of_killed_processes() {
        let (_folder, store, locked, files) = unpacked();
        let root = store.skill_root(&locked);
        remove_tree(&root).unwrap();
        // Killed while it wrote files.
        let half = store.skills.join(unfinished_name("report"));
        write_tree(&half, "report", &files).unwrap();
        assert!(store.check_unpacked(&locked).is_err());
        store.unpack(&locked, &files).unwrap();
        store.check_unpacked(&locked).unwrap();
        // Killed between the two renames.
        let renamed = store.skills.join(unfinished_name("report"));
        fs::rename(&root, &renamed).unwrap();
        store.unpack(&locked, &files).unwrap();
        store.check_unpacked(&locked).unwrap();
        // Recent leftovers stay: another process may still write them.
        let kept = BTreeSet::from([locked.content.clone()]);
        store.clean_unpacked(&kept).unwrap();
        assert_eq!(fs::read_dir(&store.skills).unwrap().count(), 3);
        let long_ago = SystemTime::now() - 2 * UNFINISHED_TIME;
        for leftover in [&half, &renamed] {
            File::open(leftover)
                .unwrap()
                .set_modified(long_ago)
                .unwrap();
        }
        store.clean_unpacked(&kept).unwrap();
        assert_eq!(fs::read_dir(&store.skills).unwrap().count(), 1);
        store.check_unpacked(&locked).unwrap();
        store.clean_unpacked(&BTreeSet::new()).unwrap();
        assert_eq!(fs::read_dir(&store.skills).unwrap().count(), 0);
    }
}
