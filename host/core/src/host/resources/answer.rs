//! Parses the JSON answers of the guest `skill-resources`. The guest is built in, but the host
//! checks its answers like those of any other guest.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::{
    Contents, Directory, DirectoryEntry, EntryKind, LeftOut, OverLimit, ResourceError, SkillFile,
    SkillFiles,
};
use skillhost_sandbox::tool::{Failure, Output, Stop};

/// The two forms of a list of files: without or with digests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Digests {
    Omitted,
    Computed,
}

#[derive(Deserialize)]
struct FailureReason {
    reason: String,
}

#[derive(Deserialize)]
struct Encoded {
    encoding: String,
}

#[derive(Deserialize)]
struct RawDirectory {
    entries: Vec<RawEntry>,
    /// True if the answer's text is the beginning of SKILL.md.
    skill_md: bool,
    left_out: u64,
}

#[derive(Deserialize)]
struct RawEntry {
    name: String,
    size: Option<u64>,
}

#[derive(Deserialize)]
struct RawManifest {
    files: Vec<RawFile>,
    /// True if the answer's text is the beginning of SKILL.md.
    skill_md: bool,
    left_out: Vec<RawLeftOut>,
    left_out_count: u64,
    over: Option<String>,
}

#[derive(Deserialize)]
struct RawFile {
    path: String,
    size: u64,
    sha256: Option<String>,
}

#[derive(Deserialize)]
struct RawLeftOut {
    path: String,
    reason: String,
}

/// Returns the guest's keyword for a failure, if it gave one.
pub(super) fn reason(failure: &Failure) -> Option<String> {
    let reason: FailureReason = serde_json::from_str(failure.details.as_deref()?).ok()?;
    Some(reason.reason)
}

/// Parses an answer with the contents of a file.
pub(super) fn contents(output: Output) -> Result<Contents, ResourceError> {
    if output.details.is_none() {
        return Ok(Contents::Text(output.text));
    }
    let Encoded { encoding } = parse(&output)?;
    if encoding != "base64" {
        return Err(invalid_answer("its encoding is unknown"));
    }
    let bytes = BASE64_STANDARD.decode(&output.text);
    bytes.map(Contents::Binary).map_err(invalid_answer)
}

/// Parses an answer with the entries of a folder.
pub(super) fn directory(output: Output) -> Result<Directory, ResourceError> {
    let RawDirectory {
        entries,
        skill_md,
        left_out,
    } = parse(&output)?;
    if !entries.is_sorted_by(|one, next| one.name < next.name) {
        return Err(invalid_answer("its names are not sorted"));
    }
    let entry = |RawEntry { name, size }: RawEntry| {
        let kind = match size {
            Some(size) => EntryKind::File { size },
            None => EntryKind::Directory,
        };
        is_name(&name)
            .then_some(DirectoryEntry { name, kind })
            .ok_or_else(|| invalid_answer("it has an invalid name"))
    };
    Ok(Directory {
        entries: entries.into_iter().map(entry).collect::<Result<_, _>>()?,
        skill_md: skill_md.then_some(output.text),
        left_out,
    })
}

/// Parses an answer that lists all files.
pub(super) fn files(output: Output, digests: Digests) -> Result<SkillFiles, ResourceError> {
    let raw: RawManifest = parse(&output)?;
    if !raw.files.is_sorted_by(|one, next| one.path < next.path) {
        return Err(invalid_answer("its paths are not sorted"));
    }
    let over = raw.over.map(|over| match &*over {
        "files" => Ok(OverLimit::Files),
        "bytes" => Ok(OverLimit::Bytes),
        "entries" => Ok(OverLimit::Entries),
        "depth" => Ok(OverLimit::Depth),
        _ => Err(invalid_answer("it has an unknown limit")),
    });
    let file = |RawFile { path, size, sha256 }: RawFile| {
        if !path.split('/').all(is_name) {
            return Err(invalid_answer("it has an invalid path"));
        }
        let is_digest = |digest: &String| {
            digest.len() == 64
                && digest
                    .bytes()
                    .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        if !sha256
            .as_ref()
            .map_or(digests == Digests::Omitted, is_digest)
        {
            return Err(invalid_answer("it has an invalid digest"));
        }
        Ok(SkillFile { path, size, sha256 })
    };
    let left_out = |RawLeftOut { path, reason }| LeftOut { path, reason };
    Ok(SkillFiles {
        files: raw.files.into_iter().map(file).collect::<Result<_, _>>()?,
        skill_md: raw.skill_md.then_some(output.text),
        left_out: raw.left_out.into_iter().map(left_out).collect(),
        left_out_count: raw.left_out_count,
        over: over.transpose()?,
    })
}

/// Returns whether a name is a single, unambiguous part of a path.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

fn parse<'a, T: Deserialize<'a>>(output: &'a Output) -> Result<T, ResourceError> {
    serde_json::from_str(output.details.as_deref().unwrap_or_default()).map_err(invalid_answer)
}

fn invalid_answer(why: impl std::fmt::Display) -> ResourceError {
    ResourceError::Stopped(Stop::Trap(format!(
        "the tool returned an invalid answer: {why}"
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use skillhost_sandbox::tool::Form;

    /// The digest of an empty file.
    const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn answer(record: serde_json::Value) -> Output {
        Output::new("text", Some(record.to_string()), Form::Text)
    }

    fn manifest(paths: &[&str], digest: Option<&str>) -> Result<SkillFiles, ResourceError> {
        let file = |path: &&str| json!({"path": path, "size": 0, "sha256": digest});
        let files: Vec<_> = paths.iter().map(file).collect();
        let record = json!({
            "files": files, "skill_md": false, "left_out": [], "left_out_count": 0, "over": null,
        });
        super::files(answer(record), Digests::Computed)
    }

    fn folder(names: &[&str]) -> Result<Directory, ResourceError> {
        let entry = |name: &&str| json!({"name": name, "size": 0});
        let entries: Vec<_> = names.iter().map(entry).collect();
        directory(answer(
            json!({"entries": entries, "skill_md": false, "left_out": 0}),
        ))
    }

    #[track_caller]
    fn assert_invalid<T: std::fmt::Debug>(answer: Result<T, ResourceError>, why: &str) {
        let error = answer.unwrap_err();
        assert!(format!("{error:?}").contains(why), "{error:?}");
    }

    #[test]
    fn refuses_invalid_names_in_paths_and_folders() {
        for path in [
            "", "/", "/etc", "..", "../x", "a/../x", "a/..", ".", "./a", "a/.", "a//b", "a/",
            "a\\b", "a\n", "a/\u{9b}", "a\0",
        ] {
            assert_invalid(manifest(&[path], Some(DIGEST)), "an invalid path");
            assert_invalid(folder(&[path]), "an invalid name");
        }
        assert_invalid(folder(&["a/b"]), "an invalid name");
        let paths = ["..a", "a/.b/c", "ä b"];
        let files = manifest(&paths, Some(DIGEST)).unwrap().files;
        assert!(files.iter().map(|file| file.path.as_str()).eq(paths));
        assert_eq!(folder(&["..a", ".b", "ä b"]).unwrap().entries.len(), 3);
    }

    #[test]
    fn refuses_unsorted_and_repeated_names() {
        for names in [["b", "a"], ["a", "a"]] {
            assert_invalid(manifest(&names, Some(DIGEST)), "not sorted");
            assert_invalid(folder(&names), "not sorted");
        }
    }

    #[test]
    fn manifest_needs_digests_in_lower_case() {
        let capitals = DIGEST.to_uppercase();
        let wide = "ä".repeat(32);
        let wrong = ["", &DIGEST[1..], &*capitals, &*wide].map(Some);
        for digest in wrong.into_iter().chain([None]) {
            assert_invalid(manifest(&["a"], digest), "an invalid digest");
        }
        assert!(manifest(&["a"], Some(DIGEST)).is_ok());
    }

    #[test]
    fn refuses_a_file_in_an_unknown_encoding() {
        for (encoding, why) in [("hex", "its encoding is unknown"), ("base64", "")] {
            let output = Output::new(
                "!",
                Some(json!({"encoding": encoding}).to_string()),
                Form::Text,
            );
            assert_invalid(contents(output), why);
        }
        let output = Output::new(
            "AP8=",
            Some(json!({"encoding": "base64"}).to_string()),
            Form::Text,
        );
        assert_eq!(contents(output), Ok(Contents::Binary(vec![0, 255])));
    }
}
