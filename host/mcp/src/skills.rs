//! `skills/list` and `skills/get`: the skills extension of MCP (SEP-2640). An
//! entry is a skill's frontmatter, word for word, and all of its files with
//! digests and sizes, as they are at this moment.
//!
//! A skill that the extension has no entry for is left out, and the operator is
//! told: one whose name in SKILL.md is not its folder's, one over the
//! extension's limits, one that the Agent Skills specification refuses. Its
//! files are resources all the same.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rmcp::model::{
    ErrorCode, ErrorData, ExtensionCapabilities, GetSkillRequestParams, GetSkillResult,
    ListSkillsResult, PaginatedRequestParams, SKILL_MD, ServerCapabilities, Skill,
    SkillFrontmatter, SkillResource, SkillResources as Manifest,
};
use serde_json::Value;

use super::calls::Guest;
use super::live::Live;
use super::resources::uri::SkillUri;
use super::resources::{
    bad_cursor, check_host, cursor, failed, not_served, parse, serving, skills_from,
};
use skillhost::Line;
use skillhost::check::{Finding, Severity, check_frontmatter};
use skillhost::frontmatter;
use skillhost::{ResourceError, SkillFiles, SkillResources};

/// Entries of a page, each with up to 512 files. Meets: a listing that fills a
/// client's buffers.
const PAGE: usize = 50;
/// Skills that are looked at for a page, each by a call. Meets: a listing of
/// many skills that are left out.
const LOOKED_AT: usize = 64;
/// Bytes of files after whose digests a page ends. Meets: a page that takes a
/// minute.
const BYTES: u64 = 32 << 20;
/// Skills whose faults are remembered. Meets: a root of ever new names.
const REMEMBERED: usize = 4096;
/// Characters of a fault that is told. Meets: a path as long as a page.
const LONGEST: usize = 512;

/// What the operator was told, so that it is told once and not at each listing.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeMap<String, String>>);

/// Why a skill has no entry.
#[derive(Debug, thiserror::Error)]
enum NoEntry {
    #[error(transparent)]
    Read(#[from] ResourceError),
    #[error("{0}")]
    Unfit(String),
    /// The server is ending, or the call broke off.
    #[error("{}", .0.message)]
    Ended(ErrorData),
}

/// What the server's capabilities say of the extension.
pub(crate) fn extension() -> Option<ExtensionCapabilities> {
    let capabilities = ServerCapabilities::builder().enable_skills_with_directory_read();
    capabilities.build().extensions
}

/// A page of the skills, sorted by name.
pub(crate) async fn list(
    live: &Live,
    request: Option<PaginatedRequestParams>,
    id: &str,
) -> Result<ListSkillsResult, ErrorData> {
    const LISTING: &str = "skills";
    let place = request.and_then(|request| request.cursor);
    let place = place.map(|cursor| cursor::decode(LISTING, &cursor));
    let [from] = place.transpose().map_err(bad_cursor)?.unwrap_or_default();
    let resources = serving(live, id).await?;
    let mut result = ListSkillsResult::default();
    let mut bytes = 0;
    let mut looked_at = 0;
    for name in skills_from(&resources, &from).await? {
        if result.skills.len() == PAGE || looked_at == LOOKED_AT || bytes >= BYTES {
            result.next_cursor = Some(cursor::encode(LISTING, [&name]));
            break;
        }
        // Most of what is left out is left out for its name, at no cost.
        if !is_name(&name) {
            live.told().left_out(&name, NOT_A_NAME);
            continue;
        }
        looked_at += 1;
        match entry(live, &resources, &name).await {
            Ok((skill, size)) => {
                bytes += size;
                result.skills.push(skill);
            }
            // It went while the others were looked at.
            Err(NoEntry::Read(ResourceError::UnknownSkill)) => {}
            Err(NoEntry::Ended(error)) => return Err(error),
            Err(why) => {
                if let NoEntry::Read(error) = &why {
                    check_host(error)?;
                }
                live.told().left_out(&name, &why.to_string());
            }
        }
    }
    Ok(result)
}

/// One skill, by the address of its SKILL.md.
pub(crate) async fn get(
    live: &Live,
    request: GetSkillRequestParams,
    id: &str,
) -> Result<GetSkillResult, ErrorData> {
    let refused = ErrorCode::INVALID_PARAMS;
    let uri = parse(&request.uri, refused)?;
    if uri.path.as_deref() != Some(SKILL_MD) {
        let why = "a skill's address is that of the SKILL.md in its own folder";
        return Err(not_served(refused, &request.uri, &why));
    }
    if !is_name(&uri.skill) {
        return Err(not_served(refused, &request.uri, &NOT_A_NAME));
    }
    let resources = serving(live, id).await?;
    match entry(live, &resources, &uri.skill).await {
        Ok((skill, _)) => Ok(GetSkillResult::new(skill)),
        Err(NoEntry::Read(error)) => Err(failed(refused, &request.uri, &error)),
        Err(NoEntry::Ended(error)) => Err(error),
        Err(why) => Err(not_served(refused, &request.uri, &why)),
    }
}

const NOT_A_NAME: &str = "its name is not 1 to 64 lower-case letters, digits and hyphens, each \
                          hyphen between two others";

/// Whether a name is one that the extension has. What the specification says of
/// letters is read as ASCII, which every reader takes.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.split('-').all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// A skill's entry, and the bytes of its files.
async fn entry(
    live: &Live,
    resources: &SkillResources,
    name: &str,
) -> Result<(Skill, u64), NoEntry> {
    let (reader, of) = (resources.clone(), name.to_owned());
    let files = live.run(Guest::BuiltIn, async move { reader.manifest(&of).await });
    let files = files.await.map_err(NoEntry::Ended)??;
    let told = live.told();
    let skill = from_files(name, &files).map_err(NoEntry::Unfit)?;
    match files.left_out.first() {
        None => told.mended(name),
        Some(first) => {
            let more = match files.left_out_count {
                1 => String::new(),
                count => format!(", and {} more", count - 1),
            };
            let (path, reason) = (&first.path, &first.reason);
            told.incomplete(name, &format!("`{path}` ({reason}){more}"));
        }
    }
    Ok((skill, files.files.iter().map(|file| file.size).sum()))
}

/// An entry of what was read, or why there can be none.
fn from_files(name: &str, files: &SkillFiles) -> Result<Skill, String> {
    if let Some(over) = &files.over {
        return Err(over.to_string());
    }
    let start = files.skill_md.as_deref();
    let start = start.ok_or("there is no `SKILL.md` that can be read, or it is not UTF-8")?;
    let refused = |finding: &Finding| {
        // The extension passes on what it does not know.
        finding.severity == Severity::Error && finding.rule != "key-unknown"
    };
    let findings = check_frontmatter(name, &frontmatter::read(start));
    if let Some(finding) = findings.into_iter().find(refused) {
        return Err(finding.message);
    }
    let object = frontmatter::verbatim(start).map_err(|problem| problem.message)?;
    let mut object = object.unwrap_or_default();
    let mut text = |key: &str| match object.shift_remove(key) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(format!("`{key}` is not text")),
    };
    let mut front = SkillFrontmatter::new(text("name")?, text("description")?);
    front.extra = object;
    let file = |file: &skillhost::SkillFile| {
        let digest = file.sha256.as_deref().unwrap_or_default();
        let uri = SkillUri::file(name, &file.path).to_string();
        SkillResource::new(uri, format!("sha256:{digest}"), file.size)
    };
    let manifest = Manifest::Files(files.files.iter().map(file).collect());
    let skill = Skill::new(SkillUri::file(name, SKILL_MD).to_string(), front, manifest);
    // The protocol's own rules: one entry that breaks them spoils the listing.
    skill.validate().map_err(|error| error.to_string())?;
    Ok(skill)
}

impl Told {
    fn left_out(&self, skill: &str, why: &str) {
        let why: String = why.chars().take(LONGEST).collect();
        if self.is_news(skill, &why) {
            tracing::warn!(
                "`{}` is left out of the skills extension: {}",
                Line::new(skill),
                Line::new(why)
            );
        }
    }

    fn incomplete(&self, skill: &str, what: &str) {
        let what: String = what.chars().take(LONGEST).collect();
        if self.is_news(skill, &what) {
            tracing::warn!(
                "the manifest of `{}` is without {}",
                Line::new(skill),
                Line::new(what)
            );
        }
    }

    fn mended(&self, skill: &str) {
        self.faults().remove(skill);
    }

    fn is_news(&self, skill: &str, what: &str) -> bool {
        let mut faults = self.faults();
        if faults.get(skill).is_some_and(|known| known == what) {
            return false;
        }
        if faults.len() >= REMEMBERED {
            faults.clear();
        }
        faults.insert(skill.to_owned(), what.to_owned());
        true
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_the_specification() {
        for name in ["a", "0", "pdf-processing", "a-1-b", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "-a",
            "a-",
            "a--b",
            "A",
            "a_b",
            "ä",
            "a.b",
            "a b",
            &"a".repeat(65),
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn the_operator_is_told_once_and_again_when_it_is_another_fault() {
        let told = Told::default();
        assert!(told.is_news("a", "x"));
        assert!(!told.is_news("a", "x"));
        assert!(told.is_news("a", "y"));
        assert!(told.is_news("b", "y"));
        told.mended("a");
        assert!(told.is_news("a", "y"));
        for number in 0..2 * REMEMBERED {
            told.is_news(&number.to_string(), "x");
        }
        assert!(told.faults().len() <= REMEMBERED);
    }
}
