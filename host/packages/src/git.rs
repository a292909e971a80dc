//! Skills in git repositories: `git+https://HOST/REPOSITORY@VERSION#FOLDER`.
//!
//! The installed `git` fetches one commit into a bare repository, in an unfinished folder of the
//! store. It fetches the trees first, and then only the files of the skill. It checks nothing out,
//! so no hook, filter or submodule runs. It does not read the configuration of the user or system.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use skillhost_helper::{GroupLeader, HelperProcess};
use skillhost_skills::search_path::SearchPath;
use skillhost_skills::text::line::Line;
use tempfile::TempDir;

use crate::client::{MIN_BYTES_PER_SECOND, RegistrySettings};
use crate::quote::quote;
use crate::reference::{check_authority, is_loopback};
use crate::skill_files::{MAX_BYTES, SkillFiles, SkillFilesBuilder, SkillPaths};

/// The beginning of a git source.
const SCHEME: &str = "git+";

/// The version of a source that names no version.
const DEFAULT_VERSION: &str = "HEAD";

/// The maximum length of a repository's path, a version and a folder's path, in bytes.
const MAX_PART: usize = 255;

/// The number of hex digits of a commit.
const COMMIT_DIGITS: usize = 40;

/// The maximum time to fetch a skill. Guards against: a fetch that never ends.
const TIME: Duration = Duration::from_secs(300);

/// The seconds for which a connection may stay slower than [`MIN_BYTES_PER_SECOND`].
const SLOW_SECONDS: u32 = 60;

/// The name of the file of certificate authorities in a temporary repository.
const AUTHORITIES: &str = "authorities.pem";

/// The name of an empty folder, in which libcurl finds no certificate authorities.
///
/// libcurl trusts the authorities in a file and also those in a folder, by default the system's.
const NO_AUTHORITIES: &str = "no-authorities";

/// The maximum size of each file that git writes, in bytes. Guards against: a repository that fills
/// the disk.
///
/// Some servers send all files of a commit, not only those of the skill.
const MAX_PACK: u64 = 256 << 20;

/// The maximum memory of each process of git, in bytes. Guards against: small objects that unpack
/// to large ones.
const MAX_MEMORY: u64 = 2 << 30;

/// The maximum size of the list of a skill's files, in bytes. Guards against: a small repository
/// whose trees contain the same tree again and again.
const MAX_LIST: usize = 8 << 20;

/// The maximum number of bytes of git's message that an error shows.
const MAX_MESSAGE: usize = 512;

/// A shell script that limits files (in units of 512 bytes), memory (in KiB) and processor time (in
/// seconds), then runs git.
const LIMIT_SCRIPT: &str =
    r#"ulimit -f "$0" && ulimit -v "$1" && ulimit -t 300 && shift && exec "$@""#;

/// A skill in a git repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSource {
    /// `https` or `http`.
    scheme: &'static str,
    authority: String,
    repository: String,
    /// A branch, a tag or a full commit.
    version: Option<String>,
    /// The path of the skill's folder. Empty if the skill is the root of the repository.
    folder: String,
}

/// The files of a skill at a commit.
#[derive(Debug)]
pub(crate) struct GitFiles {
    pub(crate) commit: String,
    pub(crate) files: SkillFiles,
}

impl GitSource {
    /// Returns the source without its version and folder.
    pub(crate) fn place(&self) -> String {
        format!("{SCHEME}{}", self.address())
    }

    /// Returns the last part of the folder's path, or else of the repository's.
    pub(crate) fn last_name(&self) -> &str {
        let path = if self.folder.is_empty() {
            self.repository.trim_end_matches(".git")
        } else {
            &self.folder
        };
        path.rsplit('/').next().unwrap_or(path)
    }

    /// Returns the commit, or `None` if the source names a branch or a tag.
    pub fn commit(&self) -> Option<&str> {
        self.version.as_deref().filter(|version| is_commit(version))
    }

    /// Returns the same source at another version.
    pub(crate) fn at(&self, version: &str) -> Self {
        Self {
            version: Some(version.to_owned()),
            ..self.clone()
        }
    }

    /// Fetches the files of the skill. `temporary` is an empty folder that only this user can write.
    ///
    /// # Errors
    ///
    /// If git fails, exceeds a limit, or finds anything but files in the folder.
    pub(crate) fn fetch(
        &self,
        settings: &RegistrySettings,
        temporary: TempDir,
    ) -> anyhow::Result<GitFiles> {
        let fetch = || {
            let repository = TemporaryRepository::new(self, settings, temporary)?;
            repository.fetch(self.version.as_deref().unwrap_or(DEFAULT_VERSION), true)?;
            let commit = repository.id("FETCH_HEAD^{commit}")?;
            if let Some(expected) = self.commit() {
                ensure!(
                    commit == expected,
                    "the version is the id of a tag; use its commit {commit}"
                );
            }
            let tree = repository.id(&format!("{commit}:{}", self.folder));
            let no_folder = || format!("the commit {commit} has no folder `{}`", self.folder);
            let list = repository.list(&tree.with_context(no_folder)?)?;
            let files = repository.files(&list)?;
            anyhow::Ok(GitFiles { commit, files })
        };
        fetch().with_context(|| format!("cannot read `{self}`"))
    }

    fn address(&self) -> String {
        format!("{}://{}/{}", self.scheme, self.authority, self.repository)
    }
}

/// Returns whether a version is a full commit.
pub(crate) fn is_commit(version: &str) -> bool {
    let is_digit = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    version.len() == COMMIT_DIGITS && version.bytes().all(is_digit)
}

impl FromStr for GitSource {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        parse(text).with_context(|| {
            let text = quote(text);
            format!(
                "`{text}` is not a source such as `git+https://git.example/acme/skills@v1#reports`"
            )
        })
    }
}

fn parse(text: &str) -> anyhow::Result<GitSource> {
    let address = text.strip_prefix(SCHEME);
    let address = address.with_context(|| format!("it must start with `{SCHEME}https://`"))?;
    let (scheme, rest) = match address.split_once("://") {
        Some(("https", rest)) => ("https", rest),
        Some(("http", rest)) => ("http", rest),
        _ => bail!("it must start with `{SCHEME}https://`"),
    };
    let (rest, folder) = rest.split_once('#').unwrap_or((rest, ""));
    let (authority, rest) = rest.split_once('/').context("it has no repository")?;
    check_authority(authority)?;
    ensure!(
        scheme == "https" || is_loopback(authority),
        "plain HTTP works only with repositories on this machine"
    );
    let (repository, version) = match rest.split_once('@') {
        Some((repository, version)) => (repository, Some(version)),
        None => (rest, None),
    };
    let is_part = |part: &str| {
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"._~-".contains(&c);
        !matches!(part, "" | "." | "..") && part.bytes().all(is_plain)
    };
    ensure!(
        repository.len() <= MAX_PART && repository.split('/').all(is_part),
        "the repository may have letters, digits, `.`, `_`, `~` and `-`, in parts with `/` between \
         them"
    );
    if let Some(version) = version {
        check_version(version)?;
    }
    let is_folder = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\\');
    ensure!(
        folder.len() <= MAX_PART
            && !folder.chars().any(char::is_control)
            && (folder.is_empty() || folder.split('/').all(is_folder)),
        "the folder must be a path in the repository"
    );
    Ok(GitSource {
        scheme,
        authority: authority.to_owned(),
        repository: repository.to_owned(),
        version: version.map(str::to_owned),
        folder: folder.to_owned(),
    })
}

/// Checks that git reads a version only as a branch, tag or commit, not as an option or as the
/// target of a fetch.
fn check_version(version: &str) -> anyhow::Result<()> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"._/-+@".contains(&c);
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    ensure!(
        version.len() <= MAX_PART
            && version.bytes().all(is_plain)
            && !version.starts_with(['-', '+', '@'])
            && !version.contains("..")
            && version.split('/').all(is_part),
        "the version must be a branch, a tag or the {COMMIT_DIGITS} hex digits of a commit"
    );
    Ok(())
}

impl fmt::Display for GitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())?;
        if let Some(version) = &self.version {
            write!(f, "@{version}")?;
        }
        if !self.folder.is_empty() {
            write!(f, "#{}", self.folder)?;
        }
        Ok(())
    }
}

/// A file in a tree.
struct TreeFile {
    id: String,
    path: Vec<u8>,
}

/// A bare repository that is removed on drop.
struct TemporaryRepository {
    folder: TempDir,
    git: PathBuf,
    search_path: SearchPath,
    /// The settings that git gets with `-c`.
    options: Vec<String>,
    scheme: &'static str,
    deadline: Instant,
}

impl TemporaryRepository {
    fn new(
        source: &GitSource,
        settings: &RegistrySettings,
        folder: TempDir,
    ) -> anyhow::Result<Self> {
        let search_path = SearchPath::from_environment();
        let git = search_path.find("git").next();
        let mut options = vec![
            format!("remote.origin.url={}", source.address()),
            format!("http.lowSpeedLimit={MIN_BYTES_PER_SECOND}"),
            format!("http.lowSpeedTime={SLOW_SECONDS}"),
        ];
        let fixed = [
            "core.hooksPath=/dev/null",
            "credential.helper=",
            "fetch.unpackLimit=1",
            "http.emptyAuth=false",
            "http.followRedirects=false",
            "pack.threads=1",
            "transfer.fsckObjects=true",
        ];
        options.extend(fixed.map(str::to_owned));
        if let Some(pem) = settings.authorities_pem() {
            let file = folder.path().join(AUTHORITIES);
            fs::write(&file, pem).context("cannot write a temporary file")?;
            let empty = folder.path().join(NO_AUTHORITIES);
            fs::create_dir(&empty).context("cannot make a temporary folder")?;
            options.push(format!("http.sslCAInfo={}", file.display()));
            options.push(format!("http.sslCAPath={}", empty.display()));
        }
        let end = Instant::now() + settings.request_time.unwrap_or(TIME);
        let repository = Self {
            folder,
            git: git.context("there is no `git` on the PATH; install it")?,
            search_path,
            options,
            scheme: source.scheme,
            deadline: settings.deadline.map_or(end, |deadline| deadline.min(end)),
        };
        let init = ["init", "--quiet", "--bare", "--template="];
        repository.run("`git init`", &init, b"", 0)?;
        Ok(repository)
    }

    /// Fetches the versions or objects that `wanted` names, one per line.
    ///
    /// Asks the server for no other files. Git refuses objects that harm some clients, such as a
    /// tree with a file `.git`. With `writes_head`, git writes the commit's id to `FETCH_HEAD`.
    fn fetch(&self, wanted: &str, writes_head: bool) -> anyhow::Result<()> {
        let mut arguments = vec![
            "fetch",
            "--quiet",
            "--no-tags",
            "--depth=1",
            "--filter=blob:none",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--stdin",
            "origin",
        ];
        if !writes_head {
            arguments.insert(1, "--no-write-fetch-head");
        }
        let fetched = self.run("`git fetch`", &arguments, wanted.as_bytes(), 0);
        ensure!(
            fetched.is_ok() || !self.has_full_file(),
            "the repository has more than {} MiB",
            MAX_PACK >> 20
        );
        fetched.map(drop)
    }

    /// Returns whether a file has the maximum size, at which git stops.
    fn has_full_file(&self) -> bool {
        let entries = fs::read_dir(self.folder.path().join("objects/pack"));
        let mut files = entries.into_iter().flatten().flatten();
        files.any(|file| file.metadata().is_ok_and(|it| it.len() >= MAX_PACK))
    }

    /// Returns the id of an object.
    fn id(&self, name: &str) -> anyhow::Result<String> {
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", name];
        let output = self.run("`git rev-parse`", &arguments, b"", MAX_PART)?;
        Ok(String::from_utf8(output)?.trim().to_owned())
    }

    /// Returns the files in a tree and the trees below it.
    fn list(&self, tree: &str) -> anyhow::Result<Vec<TreeFile>> {
        let arguments = ["ls-tree", "-r", "-z", "--full-tree", tree];
        let output = self.run("`git ls-tree`", &arguments, b"", MAX_LIST)?;
        let entries = output.split(|byte| *byte == 0).filter(|it| !it.is_empty());
        entries.map(tree_file).collect()
    }

    /// Fetches and reads files, after a check of their names.
    fn files(&self, list: &[TreeFile]) -> anyhow::Result<SkillFiles> {
        let mut paths = SkillPaths::default();
        for file in list {
            paths.add(&file.path)?;
        }
        let ids = || list.iter().map(|file| &*file.id);
        let distinct: BTreeSet<&str> = ids().collect();
        if !distinct.is_empty() {
            self.fetch(&lines(distinct.into_iter()), false)?;
        }
        let requested = lines(ids());
        // Before each file, git writes a line with its id, type and size.
        let max = usize::try_from(MAX_BYTES)? + 2 * requested.len();
        let arguments = ["cat-file", "--batch"];
        let output = self.run("`git cat-file`", &arguments, requested.as_bytes(), max)?;
        let mut rest = &*output;
        let mut files = SkillFilesBuilder::default();
        for file in list {
            let (bytes, after) = split_blob(rest, &file.id)
                .with_context(|| format!("git did not return the file {}", file.id))?;
            rest = after;
            files.add(&file.path, bytes.len() as u64, bytes)?;
        }
        files.build()
    }

    /// Runs a command of git, within limits.
    fn run(
        &self,
        name: &'static str,
        arguments: &[&str],
        input: &[u8],
        max_output: usize,
    ) -> anyhow::Result<Vec<u8>> {
        let folder = self.folder.path();
        let process = HelperProcess::start(name, |[stdin, stdout, stderr]| {
            let mut command = GroupLeader::command(Path::new("/bin/sh"));
            command
                .args(["-c", LIMIT_SCRIPT])
                .arg((MAX_PACK / 512).to_string())
                .arg((MAX_MEMORY >> 10).to_string())
                .arg(&self.git)
                .args(self.options.iter().flat_map(|option| ["-c", option]))
                .args(arguments)
                .current_dir(folder)
                .env("GIT_DIR", folder)
                // In the user's HOME, libcurl would find the credentials in `.netrc`.
                .env("HOME", folder)
                .env("GIT_ALLOW_PROTOCOL", self.scheme)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_NO_LAZY_FETCH", "1")
                .env("GIT_TERMINAL_PROMPT", "0")
                .env("LC_ALL", "C")
                .stdin(Stdio::from(stdin))
                .stdout(Stdio::from(stdout))
                .stderr(Stdio::from(stderr));
            self.search_path.set_for(&mut command);
            Ok(Box::new(GroupLeader::spawn(&mut command)?))
        });
        let process = process.with_context(|| format!("cannot start {name}"))?;
        let time = self.deadline.saturating_duration_since(Instant::now());
        process.filter(input, max_output, time).map_err(|error| {
            let message = shorten(&format!("{error:#}"));
            if message.starts_with(name) {
                anyhow!(message)
            } else {
                anyhow!("{name} failed: {message}")
            }
        })
    }
}

/// Returns ids, one per line.
fn lines<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    ids.flat_map(|id| [id, "\n"]).collect()
}

/// Parses an entry of `git ls-tree`: mode, type and id, then the path.
fn tree_file(entry: &[u8]) -> anyhow::Result<TreeFile> {
    let invalid = "git wrote an invalid list";
    let end = entry.iter().position(|byte| *byte == b'\t');
    let (head, path) = entry.split_at(end.context(invalid)?);
    let path = &path[1..];
    let mut head = str::from_utf8(head).context(invalid)?.split(' ');
    let (mode, _, id) = (head.next(), head.next(), head.next());
    let shown = || quote(&String::from_utf8_lossy(path));
    match mode {
        Some("100644" | "100755" | "100664") => {}
        Some("120000") => bail!("`{}` is a symlink", shown()),
        Some("160000") => bail!("`{}` is a submodule", shown()),
        _ => bail!("`{}` is not a file", shown()),
    }
    Ok(TreeFile {
        id: id.context(invalid)?.to_owned(),
        path: path.to_owned(),
    })
}

/// Returns the bytes of the first file in the output of `git cat-file`, and the rest of the output.
fn split_blob<'a>(output: &'a [u8], id: &str) -> Option<(&'a [u8], &'a [u8])> {
    let end = output.iter().position(|byte| *byte == b'\n')?;
    let head = str::from_utf8(&output[..end]).ok()?;
    let size: usize = head
        .strip_prefix(id)?
        .strip_prefix(" blob ")?
        .parse()
        .ok()?;
    let (bytes, rest) = output[end + 1..].split_at_checked(size)?;
    Some((bytes, rest.strip_prefix(b"\n")?))
}

/// Returns the end of git's message as one line. The message can contain text from the server.
fn shorten(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    let text = lines.join("; ");
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_MESSAGE));
    Line::new(&text[start..]).to_string()
}
