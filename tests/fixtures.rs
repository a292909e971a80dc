//! The components in `tests/fixtures/`, built with each published version of the WIT package in
//! every kit's language. They must always run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skillhost::{CallError, FailureKind, Grant, Host, HostBuilder};
use skillhost_index::MemoryIndex;

use crate::support::folders::Folders;
use crate::support::program::Program;
use crate::support::{build, builder, call, repository};

/// The components of one version.
struct Version {
    name: String,
    /// The committed folder.
    folder: PathBuf,
    /// The folder of its unpacked components.
    unpacked: PathBuf,
}

fn fixtures() -> PathBuf {
    repository().join("tests/fixtures")
}

fn hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns all versions, with their components unpacked, checked by digest, and compiled into the
/// tests' cache. Compiling some of them takes seconds.
fn versions() -> &'static [Version] {
    static VERSIONS: OnceLock<Vec<Version>> = OnceLock::new();
    VERSIONS.get_or_init(|| {
        let mut versions = Vec::new();
        for entry in fs::read_dir(fixtures()).unwrap() {
            let folder = entry.unwrap().path();
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            if name.starts_with(|first: char| first.is_ascii_digit()) {
                let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures");
                let version = Version {
                    unpacked: unpacked.join(&name),
                    name,
                    folder,
                };
                version.unpack();
                build(builder().without_embedded_tools().tools(&version.unpacked));
                versions.push(version);
            }
        }
        // Each version has a component in each of the four kits' languages.
        versions.sort_by(|one: &Version, other| one.name.cmp(&other.name));
        let names = versions
            .iter()
            .map(|version| (&*version.name, version.tools().len()));
        assert_eq!(names.collect::<Vec<_>>(), [("0.1.0", 4), ("0.1.1", 4)]);
        versions
    })
}

impl Version {
    /// Returns the committed digests by file name.
    fn sums(&self) -> BTreeMap<String, String> {
        let text = fs::read_to_string(self.folder.join("SHA256SUMS")).unwrap();
        let line = |line: &str| {
            let (digest, name) = line.split_once("  ").unwrap();
            (name.to_owned(), digest.to_owned())
        };
        text.lines().map(line).collect()
    }

    /// Returns the names of the components, each of which is a tool.
    fn tools(&self) -> Vec<String> {
        let sums = self.sums().into_keys();
        let tools = sums.filter_map(|file| Some(file.strip_suffix(".wasm")?.to_owned()));
        tools.collect()
    }

    fn unpack(&self) {
        let mut sums = self.sums();
        fs::create_dir_all(&self.unpacked).unwrap();
        for tool in self.tools() {
            let name = format!("{tool}.wasm");
            let packed = fs::read(self.folder.join(format!("{name}.zst"))).unwrap();
            let sum = sums.remove(&format!("{name}.zst"));
            assert_eq!(sum, Some(hex(&packed)), "{name}.zst of {}", self.name);
            let mut bytes = Vec::new();
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(&packed[..]).unwrap();
            std::io::Read::read_to_end(&mut decoder, &mut bytes).unwrap();
            assert_eq!(sums.remove(&name), Some(hex(&bytes)), "{name}");
            // Replace the file atomically, because another test run may be reading it.
            let file = self.unpacked.join(&name);
            let temporary = self
                .unpacked
                .join(format!(".{name}.{}", std::process::id()));
            fs::write(&temporary, bytes).unwrap();
            fs::rename(temporary, file).unwrap();
        }
        assert_eq!(sums, BTreeMap::new(), "a digest without a component");
    }

    fn cases(&self) -> Vec<Value> {
        let cases = fs::read(self.folder.join("cases.json")).unwrap();
        serde_json::from_slice(&cases).unwrap()
    }

    /// Builds a host with these components. Each may read one skill and start its notes as
    /// scripts.
    fn host(&self, builder: HostBuilder, root: &Path, skill: &str) -> Host {
        let builder = builder.without_embedded_tools().skills(root);
        let grant = || {
            let grant = Grant::new().skills([skill]).unwrap();
            grant.scripts(["notes/*.md"]).unwrap()
        };
        let tools = self.tools().into_iter();
        build(tools.fold(builder.tools(&self.unpacked), |builder, tool| {
            builder.grant(format!("{tool}.wasm"), grant())
        }))
    }
}

/// Returns the outcome of a call in the form of a case.
fn outcome(answer: Result<skillhost::Output, CallError>) -> Value {
    match answer {
        Ok(output) => json!({"text": output.text(), "record": output.record()}),
        Err(CallError::Failed(failure)) => {
            let kind = match failure.kind {
                FailureKind::InvalidArguments => "invalid-arguments",
                FailureKind::NotFound => "not-found",
                FailureKind::Refused => "refused",
                FailureKind::Unreadable => "unreadable",
                _ => "failed",
            };
            json!({"error": {"kind": kind, "message": failure.message}})
        }
        Err(other) => json!({"error": {"message": other.to_string()}}),
    }
}

#[test]
fn runs_components_of_every_published_version() {
    for version in versions() {
        let skills = fixtures().join("skills");
        let host = version.host(builder(), &skills, "harbours");
        let index = Arc::new(MemoryIndex::new());
        let indexed = builder().index(Arc::clone(&index) as _);
        let host_with_index = version.host(indexed, &skills, "harbours");
        host_with_index.update_index();
        assert!(index.wait_until_ready(Duration::from_secs(60)));
        let mut answered = BTreeSet::new();
        for case in version.cases() {
            let tool = case["tool"].as_str().unwrap();
            let host = match case["index"].as_bool() {
                Some(true) => &host_with_index,
                _ => &host,
            };
            let outcome = outcome(call(host, tool, case["arguments"].clone()));
            for (part, expected) in case["expect"].as_object().unwrap() {
                assert_eq!(&outcome[part], expected, "{}: {case}", version.name);
            }
            if outcome["error"].is_null() {
                answered.insert(tool.to_owned());
            }
            if case["arguments"].get("skill_name").is_none() {
                continue;
            }
            // The components cannot read a skill without a grant.
            let mut denied = case["arguments"].clone();
            denied["skill_name"] = json!("other");
            let stopped = call(host, tool, denied).unwrap_err();
            assert!(
                stopped
                    .to_string()
                    .contains("not allowed to read the skill 'other'"),
                "{tool}: {stopped}"
            );
        }
        let all = BTreeSet::from_iter(version.tools());
        assert_eq!(answered, all, "{}", version.name);
    }
}

#[test]
fn command_line_runs_components_of_every_published_version() {
    for version in versions() {
        let program = Program::new();
        let skills = fixtures().join("skills");
        let mut config = format!("skills = [{skills:?}]\ntools = [{:?}]\n", version.unpacked);
        for tool in version.tools() {
            config.push_str(&format!(
                "[grants.\"{tool}.wasm\"]\nskills = [\"harbours\"]\nscripts = [\"notes/*.md\"]\n"
            ));
        }
        program.write("skillhost.toml", config);
        for tool in version.tools() {
            let mut cases = version.cases().into_iter();
            let case = cases.find(|case| case["tool"] == tool).unwrap();
            let run = program.run(&[
                "--config",
                "skillhost.toml",
                "call",
                &tool,
                &case["arguments"].to_string(),
            ]);
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{tool}");
            match case["expect"].get("text") {
                Some(text) => assert_eq!(run.stdout, *text, "{tool}"),
                None => {
                    let record: Value = serde_json::from_str(&run.stdout).unwrap();
                    assert_eq!(record, case["expect"]["record"], "{tool}");
                }
            }

            let file = version.unpacked.join(format!("{tool}.wasm"));
            let run = program.run(&["inspect", file.to_str().unwrap(), "--output", "json"]);
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{tool}");
            let inspected: Value = serde_json::from_str(&run.stdout).unwrap();
            let interface = format!("skillhost:tool/tools@{}", version.name);
            assert_eq!(inspected["interface"], interface, "{tool}");
            assert_eq!(inspected["tools"][0]["name"], tool, "{tool}");
        }
    }
}

/// Compares the SHA-256 code of the example in C with a library's.
#[test]
fn checksum_agrees_with_another_library_near_block_sizes() {
    let folders = Folders::new();
    folders.write("sums/SKILL.md", "# Sums\n");
    let mut contents = vec![vec![b'a'; 1_000_000]];
    contents.extend((0..=200_u8).map(|length| (0..length).collect()));
    for (index, content) in contents.iter().enumerate() {
        folders.write(&format!("sums/files/{index:03}"), content);
    }
    let has_checksum = |version: &&Version| version.tools().contains(&"checksum".to_owned());
    for version in versions().iter().filter(has_checksum) {
        let host = version.host(builder(), &folders.root, "sums");
        let arguments = json!({"skill_name": "sums", "path": "files", "max_results": 1000});
        let record = call(&host, "checksum", arguments).unwrap().record();
        let files = record["files"].as_array().unwrap();
        assert_eq!(files.len(), contents.len());
        for (file, content) in files.iter().zip(&contents) {
            assert_eq!(file["size"], content.len());
            assert_eq!(file["digest"], hex(content), "{} bytes", content.len());
        }
    }
}
