//! The files that a call made or changed in its copy-on-write view, as a part of its
//! answer: carried for callers who keep them, and listed for models and programs.
//! Nothing here writes a file.

use std::fmt::Write as _;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::text::digest::sha256_hex;
use crate::text::line::escape_json;
use crate::text::media_type;
use crate::tool::limits::Limits;
use crate::tool::record;

/// The largest text of a file that stands in a record. Guards against: a report that
/// fills the context of a model that reads records.
const TEXT_BYTES: usize = 16 << 10;

/// Bytes of all such texts of a record together. Guards against: the same by many
/// small files.
const TEXTS_BYTES: usize = 64 << 10;

/// Bytes of the list that a model reads. Guards against: a script that fills the
/// model's context with names.
const LIST_BYTES: usize = 16 << 10;

/// The changes that a call made to its copy-on-write view of a skill. The skill on
/// disk is as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputFiles {
    /// The files that the call made or changed, in the order of their paths: at most
    /// [`Limits::output_files`].
    pub files: Vec<OutputFile>,
    /// The paths of the skill's files that the call removed: as many at most.
    pub removed: Vec<String>,
    /// The number of changed and removed files that are in neither list.
    pub left_out: usize,
    /// The number of all files that the call made or changed.
    pub total: usize,
    /// The bytes of all files that the call made or changed.
    pub total_bytes: u64,
}

/// A file that a call made or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputFile {
    /// Its path inside the skill's folder, as the guest named it.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its media type, by its extension or its content.
    pub media_type: &'static str,
    /// SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// Its bytes. `None` if the answer has no room for them:
    /// [`Limits::output_file_bytes`].
    pub bytes: Option<Bytes>,
}

/// A file as a record has it.
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
    /// Creates the answer's part of what a call changed: files and paths of removed
    /// ones, each sorted by path.
    pub(crate) fn new(
        changed: Vec<(String, Bytes)>,
        mut removed: Vec<String>,
        limits: &Limits,
    ) -> Self {
        let total = changed.len();
        let total_bytes = changed.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let mut room = limits.output_file_bytes;
        let listed = changed.into_iter().take(limits.output_files);
        let files: Vec<OutputFile> = listed
            .map(|(path, bytes)| {
                let fits = room.checked_sub(bytes.len());
                room = fits.unwrap_or(room);
                OutputFile {
                    size: bytes.len() as u64,
                    media_type: media_type::of(&path, std::str::from_utf8(&bytes).is_ok()),
                    sha256: sha256_hex(&bytes),
                    bytes: fits.map(|_| bytes),
                    path,
                }
            })
            .collect();
        let left_out = total - files.len() + removed.len().saturating_sub(limits.output_files);
        removed.truncate(limits.output_files);
        Self {
            files,
            removed,
            left_out,
            total,
            total_bytes,
        }
    }

    /// Returns the bytes that they take in memory.
    pub(crate) fn size(&self) -> usize {
        let files = self.files.iter();
        let files = files.map(|file| file.path.len() + file.bytes.as_ref().map_or(0, Bytes::len));
        files.sum::<usize>() + self.removed.iter().map(String::len).sum::<usize>()
    }

    /// Returns the fields that a record has of them, as JSON.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let mut room = TEXTS_BYTES;
        let files: Vec<FileRecord<'_>> = self
            .files
            .iter()
            .map(|file| FileRecord {
                path: &file.path,
                size: file.size,
                media_type: file.media_type,
                sha256: &file.sha256,
                text: file.small_text().filter(|text| {
                    let fits = room.checked_sub(text.len());
                    room = fits.unwrap_or(room);
                    fits.is_some()
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

    /// Returns the list that a model reads: one line for each file, in which names are
    /// JSON strings without hidden characters. `None` if nothing changed.
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
            match list.len() + line.len() < LIST_BYTES {
                true => list.extend(["\n", &line]),
                false => left_out += 1,
            }
        }
        if left_out > 0 {
            // A `String` takes all.
            let _ = write!(list, "\nand {left_out} more");
        }
        Some(list)
    }
}

impl OutputFile {
    /// Returns its text if it is UTF-8 and small.
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
    use serde_json::json;

    use super::*;

    fn files(changed: &[(&str, &[u8])], removed: &[&str], limits: &Limits) -> OutputFiles {
        let changed = changed.iter();
        let changed =
            changed.map(|(path, bytes)| ((*path).to_owned(), Bytes::copy_from_slice(bytes)));
        let removed = removed.iter().map(|path| (*path).to_owned());
        OutputFiles::new(changed.collect(), removed.collect(), limits)
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
    fn lists_what_it_does_not_carry_and_counts_what_it_does_not_list() {
        let mut limits = Limits::default();
        (limits.output_files, limits.output_file_bytes) = (3, 10);
        let changed: [(&str, &[u8]); 4] = [
            ("a", b"123456"),
            ("b", b"12345"),
            ("c", b"1234"),
            ("d", b""),
        ];
        let files = files(&changed, &["r", "s", "t", "u", "v"], &limits);
        let carried: Vec<_> = files
            .files
            .iter()
            .map(|file| file.bytes.is_some())
            .collect();
        assert_eq!(carried, [true, false, true]);
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
    fn a_name_cannot_pass_for_a_line_or_hide() {
        let names = [
            "a\nb.md",
            "\"x\" (removed)",
            "a\u{202e}b",
            "\u{1b}[2J",
            &"n".repeat(20_000),
        ];
        let changed: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b""[..])).collect();
        let list = files(&changed, &[], &Limits::default()).list().unwrap();
        let lines: Vec<&str> = list.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "\"a\\nb.md\" (0 bytes, text/markdown)",
                "\"\\\"x\\\" (removed)\" (0 bytes, text/plain)",
                "\"a\\u202eb\" (0 bytes, text/plain)",
                "\"\\u001b[2J\" (0 bytes, text/plain)",
                "and 1 more",
            ]
        );
    }

    #[test]
    fn texts_in_a_record_are_small_and_few() {
        let (large, most) = (vec![b'x'; TEXT_BYTES + 1], vec![b'x'; TEXT_BYTES]);
        let names: Vec<String> = (0..6).map(|index| format!("f{index}")).collect();
        let mut changed: Vec<(&str, &[u8])> = vec![("a", &large)];
        changed.extend(names.iter().map(|name| (name.as_str(), &most[..])));
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
