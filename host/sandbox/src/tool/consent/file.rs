//! The file with consent for later sessions: a line for each component and origin.
//!
//! A line has the component's SHA-256 and the origin, with a space between them. Empty lines and
//! text after a `#` are ignored. The operator may edit the file at any time.
//!
//! A full disk or a killed process leaves a torn line, whose origin can be the start of another
//! one. So a last line without a line feed allows nothing, unless it has a `#` after the origin. A
//! mark is added to it before the next line is appended.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use http::{Method, Uri};
use skillhost_egress::Target;
use skillhost_helper::TORN_CONSENT;
use skillhost_skills::broker::Opener;
use skillhost_skills::named_file;
use skillhost_skills::text::line::Line;
use skillhost_skills::trust::Trust;

/// The maximum size of the file, in bytes. Guards against: a large file, which each request reads.
const MAX_BYTES: u64 = 1 << 20;

/// The maximum number of characters of a component's name in the comment of a line.
const MAX_NAME: usize = 64;

/// A file with consent, which is read at each request.
#[derive(Debug)]
pub struct ConsentFile {
    path: PathBuf,
    trust: Trust,
    opener: Opener,
}

impl ConsentFile {
    /// Checks and returns the file at a path. A missing file allows nothing yet.
    ///
    /// # Errors
    ///
    /// Fails if others can write the file or change its path, or if a line is wrong.
    pub fn open(path: &Path, trust: Trust, opener: Opener) -> anyhow::Result<Self> {
        let file = Self {
            path: path.to_owned(),
            trust,
            opener,
        };
        if file.read()?.is_none() {
            let trust = file.trust.with_opener(&file.opener);
            trust
                .check_parent(path)
                .with_context(|| file.cannot_use())?;
        }
        Ok(file)
    }

    /// Returns the number of the line that allows a component to send requests to an origin.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be used.
    pub fn find(&self, digest: &str, origin: &str) -> anyhow::Result<Option<usize>> {
        let text = self.read()?.unwrap_or_default();
        for (line, number) in whole_lines(&text) {
            let entry = parse_line(line).with_context(|| self.cannot_use_line(number))?;
            if entry.is_some_and(|entry| entry == (digest.to_owned(), origin.to_owned())) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// Adds a line.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written, or would be too large.
    pub fn append(&self, component: &str, digest: &str, origin: &str) -> anyhow::Result<()> {
        let text = self.read()?.unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name = component.chars().take(MAX_NAME);
        let name: String = name.map(|c| if is_plain(c) { c } else { '_' }).collect();
        let line = format!("{digest} {origin} # {name}\n");
        // A torn last line gets a mark and a line feed.
        let size = text.len() + TORN_CONSENT.len() + 1 + line.len();
        ensure!(
            size as u64 <= MAX_BYTES,
            "{}: it would have more than {MAX_BYTES} bytes; remove lines",
            self.cannot_use()
        );
        let written = named_file::append_consent(&self.path, &self.opener, &line);
        written.with_context(|| format!("cannot write to the `consent_file` `{}`", self.path()))
    }

    /// Reads and checks the file. Returns `None` if it does not exist.
    fn read(&self) -> anyhow::Result<Option<String>> {
        let file = match named_file::open_public(&self.path, &self.trust, &self.opener) {
            Err(error) if is_missing(&error) => return Ok(None),
            file => file,
        };
        let text = file.and_then(|file| named_file::read_all_text(file, MAX_BYTES));
        let text = text.with_context(|| self.cannot_use())?;
        for (line, number) in whole_lines(&text) {
            parse_line(line).with_context(|| self.cannot_use_line(number))?;
        }
        let (_, last) = split_last_line(&text);
        if !last.trim_ascii().is_empty() && !last.contains('#') {
            let problem = "the last line has no line feed, so it allows nothing";
            let path = self.path();
            tracing::warn!(
                "{}",
                Line::new(format_args!("`consent_file` `{path}`: {problem}"))
            );
        }
        Ok(Some(text))
    }

    fn cannot_use(&self) -> String {
        format!("cannot use the `consent_file` `{}`", self.path())
    }

    fn cannot_use_line(&self, number: usize) -> String {
        format!("{}, line {number}", self.cannot_use())
    }

    fn path(&self) -> impl std::fmt::Display {
        self.path.display()
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound)
}

/// Returns the lines before the last line feed, and the rest.
fn split_last_line(text: &str) -> (&str, &str) {
    text.split_at(text.rfind('\n').map_or(0, |at| at + 1))
}

/// Returns the lines that are not torn, with their numbers. The origin before a `#` is not torn.
fn whole_lines(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let (ended, _) = split_last_line(text);
    let count = ended.lines().count();
    let is_whole = move |line: &str, number| number <= count && !line.ends_with(TORN_CONSENT);
    let lines = text.lines().zip(1..);
    lines.filter(move |(line, number)| line.contains('#') || is_whole(line, *number))
}

/// Returns the digest and the origin in a line. Returns `None` if the line is empty or a comment.
fn parse_line(line: &str) -> anyhow::Result<Option<(String, String)>> {
    let entry = line.split('#').next().unwrap_or_default();
    let words: Vec<&str> = entry.split_ascii_whitespace().collect();
    let (digest, origin) = match *words {
        [] => return Ok(None),
        [digest, origin] => (digest, origin),
        _ => bail!(
            "a line has the SHA-256 digest of a component, a space, and an origin such as \
             `https://example.org`"
        ),
    };
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    ensure!(is_digest, "a SHA-256 digest has 64 hex digits");
    let target = origin.parse::<Uri>().ok();
    let target = target.and_then(|uri| Target::new(&Method::GET, &uri).ok());
    let is_origin = |target: &Target| {
        let rest = target.path_and_query();
        target.is_tls() && rest == "/" && !origin.ends_with('/')
    };
    match target.filter(is_origin) {
        Some(target) => Ok(Some((digest.to_ascii_lowercase(), target.origin()))),
        None => bail!(
            "`{}` is not an origin such as `https://example.org:8443`",
            origin.escape_debug()
        ),
    }
}
