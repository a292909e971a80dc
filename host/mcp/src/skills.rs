//! `skills/list` and `skills/get`: the skills extension of MCP (SEP-2640, beta).
//! An entry is a skill's frontmatter, word for word, and all of its files with
//! their current digests and sizes.
//!
//! A skill has no entry if its name in SKILL.md is not its folder's, if it is
//! over the extension's limits, or if the Agent Skills specification refuses
//! it. Such a skill is left out and logged; its files are resources all the
//! same.

use rmcp::model::{
    ErrorCode, ErrorData, ExtensionCapabilities, GetSkillRequestParams, GetSkillResult,
    ListSkillsResult, PaginatedRequestParams, SKILL_MD, ServerCapabilities, Skill,
    SkillFrontmatter, SkillResource, SkillResources as Manifest,
};
use serde_json::Value;

use super::calls::Guest;
use super::live::LiveHost;
use super::resources::uri::SkillUri;
use super::resources::{
    check_host, cursor, cursor_error, not_found, parse, read_error, reader, skills_from,
};
use skillhost::check::{Finding, Severity, check_frontmatter};
use skillhost::frontmatter;
use skillhost::{ResourceError, SkillFiles, SkillResources};

/// The most entries of a page, each with up to 512 files. Guards against: a
/// listing that fills a client's buffers.
const PAGE: usize = 50;
/// The most skills that are read for a page, each by a call. Guards against: a
/// listing of many skills that are left out.
const MOST_READ: usize = 64;
/// The bytes of digested files after which a page ends. Guards against: a page
/// that takes a minute.
const BYTES: u64 = 32 << 20;

/// The reason why a skill has no entry.
#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error(transparent)]
    Read(#[from] ResourceError),
    #[error("{0}")]
    Unfit(String),
    /// The server is ending, or the call broke off.
    #[error("{}", .0.message)]
    Ended(ErrorData),
}

/// Returns what the server's capabilities say of the extension.
pub(crate) fn extension() -> Option<ExtensionCapabilities> {
    let capabilities = ServerCapabilities::builder().enable_skills_with_directory_read();
    capabilities.build().extensions
}

/// Returns a page of the skills, sorted by name.
pub(crate) async fn list(
    live: &LiveHost,
    request: Option<PaginatedRequestParams>,
    id: &str,
) -> Result<ListSkillsResult, ErrorData> {
    const LISTING: &str = "skills";
    let place = request.and_then(|request| request.cursor);
    let place = place.map(|cursor| cursor::decode(LISTING, &cursor));
    let [from] = place.transpose().map_err(cursor_error)?.unwrap_or_default();
    let resources = reader(live, id).await?;
    let mut result = ListSkillsResult::default();
    let mut bytes = 0;
    let mut skills_read = 0;
    for name in skills_from(&resources, &from).await? {
        if result.skills.len() == PAGE || skills_read == MOST_READ || bytes >= BYTES {
            result.next_cursor = Some(cursor::encode(LISTING, [&name]));
            break;
        }
        // Most skills that are left out have a bad name, which costs no call.
        if !is_name(&name) {
            live.faults().left_out(&name, NOT_A_NAME);
            continue;
        }
        skills_read += 1;
        match entry(live, &resources, &name).await {
            Ok((skill, size)) => {
                bytes += size;
                result.skills.push(skill);
            }
            // It was removed while the others were read.
            Err(EntryError::Read(ResourceError::UnknownSkill)) => {}
            Err(EntryError::Ended(error)) => return Err(error),
            Err(why) => {
                if let EntryError::Read(error) = &why {
                    check_host(error)?;
                }
                live.faults().left_out(&name, &why.to_string());
            }
        }
    }
    Ok(result)
}

/// Returns one skill, by the address of its SKILL.md.
pub(crate) async fn get(
    live: &LiveHost,
    request: GetSkillRequestParams,
    id: &str,
) -> Result<GetSkillResult, ErrorData> {
    let refused = ErrorCode::INVALID_PARAMS;
    let uri = parse(&request.uri, refused)?;
    if uri.path.as_deref() != Some(SKILL_MD) {
        let why = "the address of a skill is that of the SKILL.md in its folder";
        return Err(not_found(refused, &request.uri, &why));
    }
    if !is_name(&uri.skill) {
        return Err(not_found(refused, &request.uri, &NOT_A_NAME));
    }
    let resources = reader(live, id).await?;
    match entry(live, &resources, &uri.skill).await {
        Ok((skill, _)) => Ok(GetSkillResult::new(skill)),
        Err(EntryError::Read(error)) => Err(read_error(refused, &request.uri, &error)),
        Err(EntryError::Ended(error)) => Err(error),
        Err(why) => Err(not_found(refused, &request.uri, &why)),
    }
}

const NOT_A_NAME: &str = "its name is not 1 to 64 lower-case letters, digits and hyphens, with \
                          each hyphen between two others";

/// Returns whether the extension takes a name. The specification's letters are
/// read as ASCII, which every reader takes.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.split('-').all(|part| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

/// Returns a skill's entry, and the bytes of its files.
async fn entry(
    live: &LiveHost,
    resources: &SkillResources,
    name: &str,
) -> Result<(Skill, u64), EntryError> {
    let (resources, of) = (resources.clone(), name.to_owned());
    let files = live.run(Guest::BuiltIn, async move { resources.manifest(&of).await });
    let files = files.await.map_err(EntryError::Ended)??;
    let faults = live.faults();
    let skill = from_files(name, &files).map_err(EntryError::Unfit)?;
    match files.left_out.first() {
        None => faults.clear(name),
        Some(first) => {
            let more = match files.left_out_count {
                1 => String::new(),
                count => format!(", and {} more", count - 1),
            };
            let (path, reason) = (&first.path, &first.reason);
            faults.incomplete(name, &format!("`{path}` ({reason}){more}"));
        }
    }
    Ok((skill, files.files.iter().map(|file| file.size).sum()))
}

/// Returns the entry of a skill whose files were read, or why it has none.
fn from_files(name: &str, files: &SkillFiles) -> Result<Skill, String> {
    if let Some(over) = &files.over {
        return Err(over.to_string());
    }
    let start = files.skill_md.as_deref();
    let start = start.ok_or("there is no `SKILL.md` that can be read, or it is not UTF-8")?;
    let refused = |finding: &Finding| {
        // The extension passes unknown keys on.
        finding.severity == Severity::Error && finding.rule != "key-unknown"
    };
    let findings = check_frontmatter(name, &frontmatter::read(start));
    if let Some(finding) = findings.into_iter().find(refused) {
        return Err(finding.message);
    }
    let object = frontmatter::read_json(start).map_err(|problem| problem.message)?;
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
    // One entry that breaks the protocol's own rules spoils the whole listing.
    skill.validate().map_err(|error| error.to_string())?;
    Ok(skill)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_names_of_the_specification() {
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
}
