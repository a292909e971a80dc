//! Reads SKILL.md files for an index: their text up to a limit, and a stamp that shows
//! changes. Calls do not use this, because guests read files themselves.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::Catalog;
use crate::encoding::{self, EncodingFault};
use crate::guard::FileStatus;
use crate::skill_md;

/// The start of a skill's SKILL.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The text, or why the bytes are not text.
    pub text: Result<String, EncodingFault>,
    /// The size of the whole file in bytes.
    pub size: u64,
    /// The stamp of the file at the time of reading.
    pub stamp: DocumentStamp,
}

/// The time within which two changes can give a file the same stamp. The clocks of some file
/// systems count whole seconds.
const TICK: Duration = Duration::from_secs(2);

/// A summary of a file's status. If it differs, the file's text may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentStamp {
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
    file: u64,
}

impl DocumentStamp {
    fn of(file: &File) -> io::Result<Self> {
        let status = FileStatus::of(file)?;
        let mut hasher = DefaultHasher::new();
        status.unique_id().hash(&mut hasher);
        Ok(Self {
            size: status.size,
            modified: status.modified,
            changed: status.changed(),
            file: hasher.finish(),
        })
    }

    /// Returns whether every later change of the file changes its stamp. This holds once the
    /// last change is a few seconds old.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, _) = self.changed;
        let changed = u64::try_from(seconds).map(Duration::from_secs);
        let now = now.duration_since(SystemTime::UNIX_EPOCH);
        matches!((changed, now), (Ok(changed), Ok(now)) if changed.saturating_add(TICK) < now)
    }
}

impl Catalog {
    /// Returns the stamp of a skill's SKILL.md. Returns `None` if there is no such file.
    pub fn document_stamp(&self, name: &str) -> io::Result<Option<DocumentStamp>> {
        let file = self.open_document(name)?;
        file.map(|file| DocumentStamp::of(&file)).transpose()
    }

    /// Reads the start of a skill's SKILL.md, up to a number of bytes. Returns `None` if
    /// there is no such file.
    pub fn document(&self, name: &str, max: u64) -> io::Result<Option<Document>> {
        let Some(file) = self.open_document(name)? else {
            return Ok(None);
        };
        let stamp = DocumentStamp::of(&file)?;
        let mut bytes = Vec::new();
        file.take(max).read_to_end(&mut bytes)?;
        let is_cut = bytes.len() as u64 == max;
        Ok(Some(Document {
            text: encoding::decode(bytes, is_cut),
            size: stamp.size,
            stamp,
        }))
    }

    /// Opens the SKILL.md of a skill.
    fn open_document(&self, name: &str) -> io::Result<Option<File>> {
        let Some((handle, _)) = self.open_uncached(name) else {
            return Ok(None);
        };
        Ok(skill_md::open(&self.folder(handle)?)?.map(|(_, file)| file))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::catalog::SkillsRoot;

    fn catalog(path: &std::path::Path) -> Catalog {
        Catalog::open(&[SkillsRoot::new(path)], None).unwrap()
    }

    #[test]
    fn reads_a_document_up_to_a_limit() {
        let place = tempfile::tempdir().unwrap();
        let skill = place.path().join("tea");
        fs::create_dir(&skill).unwrap();
        let catalog = catalog(place.path());
        assert_eq!(catalog.document("tea", 4).unwrap(), None);
        assert_eq!(catalog.document("coffee", 4).unwrap(), None);
        assert_eq!(catalog.document("../tea", 4).unwrap(), None);
        fs::write(skill.join("SKILL.md"), "Brew it").unwrap();
        for (max, text) in [(4, "Brew"), (7, "Brew it"), (1000, "Brew it")] {
            let document = catalog.document("tea", max).unwrap().unwrap();
            assert_eq!((document.text.as_deref(), document.size), (Ok(text), 7));
        }
    }

    #[test]
    fn changed_document_gets_another_stamp() {
        let place = tempfile::tempdir().unwrap();
        let skill = place.path().join("tea");
        fs::create_dir(&skill).unwrap();
        fs::write(skill.join("SKILL.md"), "one").unwrap();
        let catalog = catalog(place.path());
        let stamp = || catalog.document_stamp("tea").unwrap();
        let first = stamp();
        assert_eq!(first, stamp());
        let now = SystemTime::now();
        for (later, is_settled) in [(0, false), (60, true)] {
            let later = now + Duration::from_secs(later);
            assert_eq!(first.unwrap().is_settled(later), is_settled);
        }
        let read = catalog.document("tea", 9).unwrap().unwrap();
        assert_eq!(first, Some(read.stamp));
        // Another file of the same size replaces it.
        fs::write(skill.join("new"), "two").unwrap();
        fs::rename(skill.join("new"), skill.join("SKILL.md")).unwrap();
        assert_ne!(first, stamp());
        fs::remove_file(skill.join("SKILL.md")).unwrap();
        assert_eq!(stamp(), None);
    }

    #[test]
    fn hard_linked_documents_need_permission() {
        let place = tempfile::tempdir().unwrap();
        let skill = place.path().join("tea");
        fs::create_dir(&skill).unwrap();
        fs::write(place.path().join("elsewhere"), "Brew it").unwrap();
        fs::hard_link(place.path().join("elsewhere"), skill.join("SKILL.md")).unwrap();
        let catalog = catalog(place.path());
        assert!(catalog.document("tea", 4).is_err());
        assert!(catalog.document_stamp("tea").is_err());
        let catalog = catalog.hard_links(true);
        let document = catalog.document("tea", 4).unwrap().unwrap();
        assert_eq!(document.text.as_deref(), Ok("Brew"));
        assert!(catalog.document_stamp("tea").unwrap().is_some());
    }
}
