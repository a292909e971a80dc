//! Created and changed files of a copy-on-write view as part of an answer: their bytes for
//! callers who want them, and lists for models and programs. Nothing here writes a file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::tool::ViewChanges;
use crate::tool::limits::Limits;
use crate::tool::record;
use skillhost_skills::text::digest::hex;
use skillhost_skills::text::line::escape_json;
use skillhost_skills::text::media_type;

/// The maximum size of a file's text in a record, in bytes. Guards against: a report that fills the
/// context of a model that reads records.
const TEXT_BYTES: usize = 16 << 10;

/// The maximum size of all texts of files in a record together, in bytes.
const ALL_TEXTS_BYTES: usize = 64 << 10;

/// The maximum size of the list for models, in bytes. Guards against: a script that fills the
/// model's context with names.
const LIST_BYTES: usize = 16 << 10;

/// The number of bytes that are digested between two checks of whether the call is over.
const DIGEST_BYTES: usize = 1 << 20;

/// The changes of a call in its copy-on-write view of a skill. The skill on disk is
/// unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputFiles {
    /// The created and changed files, sorted by path: the first [`Limits::output_files`].
    /// Paths of [`PATH_BYTES`](crate::tool::limits::PATH_BYTES) or more are not listed.
    pub files: Vec<OutputFile>,
    /// The paths of removed files, links and folders, bounded like `files`.
    pub removed: Vec<String>,
    /// The number of changed and removed files that are not listed.
    pub left_out: usize,
    /// The number of all created and changed files.
    pub total: usize,
    /// The total bytes of all created and changed files.
    pub total_bytes: u64,
}

/// A created or changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputFile {
    /// The path inside the skill's folder, as the guest named it.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// The media type, by extension or content.
    pub media_type: &'static str,
    /// SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// The bytes. `None` if they exceed [`Limits::output_file_bytes`].
    pub bytes: Option<Bytes>,
}

/// A file in a record.
#[derive(Serialize)]
struct FileRecord<'a> {
    path: &'a str,
    size: u64,
    media_type: &'a str,
    sha256: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl OutputFiles {
    /// Creates the part of an answer that describes changes. Returns `None` if the call is
    /// over before everything is digested.
    pub fn new(changes: ViewChanges, limits: &Limits, is_over: &dyn Fn() -> bool) -> Option<Self> {
        let (changed, removed) = (changes.files, changes.removed);
        let left_out = changed.count - changed.first.len() + removed.count - removed.first.len();
        let mut bytes_left = limits.output_file_bytes;
        let mut contents = HashMap::new();
        let mut files = Vec::with_capacity(changed.first.len());
        for (path, bytes) in changed.first {
            // Guards against: digesting a large file for each of a thousand hard links, which
            // share the same bytes in memory.
            let content = match contents.entry((bytes.as_ptr(), bytes.len())) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Content::of(&bytes, is_over)?),
            };
            let rest = bytes_left.checked_sub(bytes.len());
            bytes_left = rest.unwrap_or(bytes_left);
            files.push(OutputFile {
                size: bytes.len() as u64,
                media_type: media_type::of(&path, content.is_text),
                sha256: content.sha256.clone(),
                bytes: rest.map(|_| bytes),
                path,
            });
        }
        Some(Self {
            files,
            removed: removed.first.into_keys().collect(),
            left_out,
            total: changed.count,
            total_bytes: changes.bytes,
        })
    }

    /// Returns the size of paths and bytes in memory.
    pub(crate) fn size(&self) -> usize {
        let files = self.files.iter();
        let files = files.map(|file| file.path.len() + file.bytes.as_ref().map_or(0, Bytes::len));
        files.sum::<usize>() + self.removed.iter().map(String::len).sum::<usize>()
    }

    /// Returns the fields of a record that describe the changes, as JSON.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let mut bytes_left = ALL_TEXTS_BYTES;
        let files: Vec<FileRecord<'_>> = self
            .files
            .iter()
            .map(|file| FileRecord {
                path: &file.path,
                size: file.size,
                media_type: file.media_type,
                sha256: &file.sha256,
                text: file.small_text().filter(|text| {
                    let rest = bytes_left.checked_sub(text.len());
                    bytes_left = rest.unwrap_or(bytes_left);
                    rest.is_some()
                }),
            })
            .collect();
        let mut fields = vec![("files", record::to_string(&files))];
        if !self.removed.is_empty() {
            fields.push(("removed", record::to_string(&self.removed)));
        }
        if self.left_out > 0 {
            fields.push(("files_left_out", self.left_out.to_string()));
        }
        fields
    }

    /// Returns the list for models: one line per file, with names as JSON strings without
    /// hidden characters. Returns `None` if nothing changed.
    pub fn list(&self) -> Option<String> {
        if self.files.is_empty() && self.removed.is_empty() {
            return None;
        }
        let mut list = "Changed files (only in this answer; the skill is as it was):".to_owned();
        let changed = self.files.iter().map(|file| {
            let OutputFile {
                path,
                size,
                media_type,
                bytes,
                ..
            } = file;
            let dropped = match bytes {
                Some(_) => "",
                None => ", too large to be returned",
            };
            format!("{} ({size} bytes, {media_type}{dropped})", quoted(path))
        });
        let removed = self.removed.iter();
        let removed = removed.map(|path| format!("{} (removed)", quoted(path)));
        let mut left_out = self.left_out;
        for line in changed.chain(removed) {
            if list.len() + line.len() < LIST_BYTES {
                list.extend(["\n", &line])
            } else {
                left_out += 1
            }
        }
        if left_out > 0 {
            // Writing to a `String` cannot fail.
            let _ = write!(list, "\nand {left_out} more");
        }
        Some(list)
    }
}

/// The digest and kind of a file's bytes.
struct Content {
    sha256: String,
    /// True if the bytes are UTF-8.
    is_text: bool,
}

impl Content {
    /// Digests bytes, and checks whether they are UTF-8. Returns `None` if the call ends first.
    fn of(bytes: &[u8], is_over: &dyn Fn() -> bool) -> Option<Self> {
        let mut digest = Sha256::new();
        for part in bytes.chunks(DIGEST_BYTES) {
            if is_over() {
                return None;
            }
            digest.update(part);
        }
        Some(Self {
            sha256: hex(&digest.finalize()),
            is_text: std::str::from_utf8(bytes).is_ok(),
        })
    }
}

impl OutputFile {
    /// Returns the file's text, if it is UTF-8 and small.
    fn small_text(&self) -> Option<&str> {
        let bytes = self.bytes.as_ref()?;
        (bytes.len() <= TEXT_BYTES).then(|| std::str::from_utf8(bytes).ok())?
    }
}

/// Returns a name as a JSON string without hidden characters.
fn quoted(name: &str) -> String {
    escape_json(&Value::from(name).to_string())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use skillhost_skills::text::digest::sha256_hex;

    fn files(changed: &[(&str, &[u8])], removed: &[&str], limits: &Limits) -> OutputFiles {
        let mut changes = ViewChanges::new(limits.output_files);
        for (path, bytes) in changed {
            changes.add_file(path, Bytes::copy_from_slice(bytes));
        }
        for path in removed {
            changes.removed.add(path, ());
        }
        OutputFiles::new(changes, limits, &|| false).unwrap()
    }

    /// Creates an answer with a file of four parts that has several names. The call is over after
    /// `max_checks` checks. Returns the answer and the number of checks.
    fn answer_with_names(names: usize, max_checks: usize) -> (Option<OutputFiles>, usize) {
        let bytes = Bytes::from(vec![0; 4 * DIGEST_BYTES]);
        let mut changes = ViewChanges::new(names);
        for name in 0..names {
            changes.add_file(&format!("{name}"), bytes.clone());
        }
        let checks = Cell::new(0);
        let is_over = || checks.replace(checks.get() + 1) == max_checks;
        let files = OutputFiles::new(changes, &Limits::default(), &is_over);
        (files, checks.get())
    }

    #[test]
    fn file_with_many_names_is_digested_once() {
        let (files, checks) = answer_with_names(50, usize::MAX);
        let files = files.unwrap().files;
        assert_eq!((files.len(), checks), (50, 4));
        let digest = sha256_hex(&[0; 4 * DIGEST_BYTES]);
        assert!(files.iter().all(|file| file.sha256 == digest));
    }

    #[test]
    fn digesting_stops_when_call_is_over() {
        for max in 0..4 {
            let (files, checks) = answer_with_names(1, max);
            assert_eq!((files, checks), (None, max + 1));
        }
    }

    fn record(files: &OutputFiles) -> Value {
        let fields = files.fields();
        let fields = fields.iter();
        fields
            .map(|(key, json)| {
                (
                    (*key).to_owned(),
                    serde_json::from_str::<Value>(json).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn describes_changed_and_removed_files() {
        let changed: [(&str, &[u8]); 3] = [("a.csv", b"x,y\n"), ("b", &[0xff]), ("empty", b"")];
        let files = files(&changed, &["old.md"], &Limits::default());
        assert_eq!(
            record(&files),
            json!({
                "files": [
                    {"path": "a.csv", "size": 4, "media_type": "text/csv",
                     "sha256": sha256_hex(b"x,y\n"), "text": "x,y\n"},
                    {"path": "b", "size": 1, "media_type": "application/octet-stream",
                     "sha256": sha256_hex(&[0xff])},
                    {"path": "empty", "size": 0, "media_type": "text/plain",
                     "sha256": sha256_hex(b""), "text": ""},
                ],
                "removed": ["old.md"],
            })
        );
        assert_eq!(
            files.list().unwrap(),
            "Changed files (only in this answer; the skill is as it was):\n\
             \"a.csv\" (4 bytes, text/csv)\n\
             \"b\" (1 bytes, application/octet-stream)\n\
             \"empty\" (0 bytes, text/plain)\n\
             \"old.md\" (removed)"
        );
        let none = super::OutputFiles::default();
        assert_eq!((record(&none), none.list()), (json!({"files": []}), None));
    }

    #[test]
    fn lists_large_files_without_bytes_and_counts_rest() {
        let mut limits = Limits::default();
        (limits.output_files, limits.output_file_bytes) = (3, 10);
        let changed: [(&str, &[u8]); 4] = [
            ("a", b"123456"),
            ("b", b"12345"),
            ("c", b"1234"),
            ("d", b""),
        ];
        let files = files(&changed, &["r", "s", "t", "u", "v"], &limits);
        let has_bytes: Vec<_> = files
            .files
            .iter()
            .map(|file| file.bytes.is_some())
            .collect();
        assert_eq!(has_bytes, [true, false, true]);
        assert_eq!(files.removed, ["r", "s", "t"]);
        assert_eq!((files.left_out, files.total, files.total_bytes), (3, 4, 15));
        let record = record(&files);
        assert_eq!(record["files"][1]["size"], 5);
        assert_eq!(record["files"][1].get("text"), None);
        assert_eq!(record["files_left_out"], 3);
        let list = files.list().unwrap();
        assert!(
            list.contains("\"b\" (5 bytes, text/plain, too large to be returned)"),
            "{list}"
        );
        assert!(list.ends_with("\"t\" (removed)\nand 3 more"), "{list}");
    }

    #[test]
    fn escapes_names_in_list() {
        let long = ["w", "x", "y", "z"].map(|name| name.repeat(4090));
        let names = [
            "\u{1b}[2J",
            "\"x\" (removed)",
            "a\nb.md",
            "a\u{202e}b",
            &long[0],
            &long[1],
            &long[2],
            &long[3],
        ];
        let changed: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b""[..])).collect();
        let list = files(&changed, &[], &Limits::default()).list().unwrap();
        let lines: Vec<&str> = list.lines().skip(1).collect();
        assert_eq!(
            lines[..4],
            [
                "\"\\u001b[2J\" (0 bytes, text/plain)",
                "\"\\\"x\\\" (removed)\" (0 bytes, text/plain)",
                "\"a\\nb.md\" (0 bytes, text/markdown)",
                "\"a\\u202eb\" (0 bytes, text/plain)",
            ]
        );
        assert_eq!(lines[7..], ["and 1 more"]);
    }

    #[test]
    fn texts_in_a_record_are_small_and_few() {
        let (large, max) = (vec![b'x'; TEXT_BYTES + 1], vec![b'x'; TEXT_BYTES]);
        let names: Vec<String> = (0..6).map(|index| format!("f{index}")).collect();
        let mut changed: Vec<(&str, &[u8])> = vec![("a", &large)];
        changed.extend(names.iter().map(|name| (name.as_str(), &max[..])));
        let record = record(&files(&changed, &[], &Limits::default()));
        let has_text = |file: &Value| file.get("text").is_some();
        let texts: Vec<bool> = record["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(has_text)
            .collect();
        assert_eq!(texts, [false, true, true, true, true, false, false]);
    }
}
