//! `skills/list` and `skills/get`: the skills extension of MCP (SEP-2640, beta).
//! An entry is a skill's frontmatter, word for word, and all of its files with
//! their current digests and sizes.
//!
//! The listing has the skills that every client takes; the others are counted in one
//! line for the operator. `skills/get` answers for every skill that has a SKILL.md, unless
//! its `name` is another than its folder's. The rules are in [`entry`].

mod entry;

use rmcp::model::{
    ErrorCode, ErrorData, ExtensionCapabilities, GetSkillRequestParams, GetSkillResult,
    ListSkillsResult, PaginatedRequestParams, SKILL_MD, ServerCapabilities,
};

use self::entry::{Entry, NOT_A_NAME, is_name};
use super::calls::Guest;
use super::faults::SkillFault;
use super::live::LiveHost;
use super::resources::{
    all_skills, check_host, cursor, cursor_error, not_found, parse, read_error, reader,
};
use skillhost::{ResourceError, SkillFiles, SkillResources};

/// The most entries of a page. Guards against: a listing that fills a client's
/// buffers. A client may end after 64 pages.
const PAGE: usize = 200;
/// The files after which a page ends, about 150 bytes each. Guards against: entries
/// with 512 files each.
const FILES: usize = 5_000;
/// The most skills that are read for a page, each by a call. Guards against: a
/// listing of many skills that are left out.
const MOST_READ: usize = 256;
/// The bytes of digested files after which a page ends. Guards against: a page
/// that takes a minute.
const BYTES: u64 = 32 << 20;

/// The reason why a skill's files were not read.
#[derive(Debug)]
enum FilesError {
    Read(ResourceError),
    /// The server is ending, or the call broke off.
    Ended(ErrorData),
}

/// Returns what the server's capabilities say of the extension.
pub(crate) fn extension() -> Option<ExtensionCapabilities> {
    let capabilities = ServerCapabilities::builder().enable_skills_with_directory_read();
    capabilities.build().extensions
}

/// Returns a page of the skills that every client takes, sorted by name.
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
    let names = all_skills(&resources).await?;
    let mut result = ListSkillsResult::default();
    let (mut bytes, mut files, mut skills_read) = (0, 0, 0);
    let faults = live.faults();
    for name in &names[names.partition_point(|name| *name < from)..] {
        if result.skills.len() == PAGE
            || skills_read == MOST_READ
            || files >= FILES
            || bytes >= BYTES
        {
            result.next_cursor = Some(cursor::encode(LISTING, [name]));
            return Ok(result);
        }
        // It costs no call to leave such a skill out.
        if !is_name(name) {
            faults.set(name, SkillFault::FolderName, NOT_A_NAME);
            continue;
        }
        skills_read += 1;
        let read = match read(live, &resources, name).await {
            Ok(read) => read,
            Err(FilesError::Ended(error)) => return Err(error),
            // It was removed while the others were read.
            Err(FilesError::Read(ResourceError::UnknownSkill)) => continue,
            Err(FilesError::Read(error)) => {
                check_host(&error)?;
                faults.set(name, SkillFault::Unreadable, &error.to_string());
                continue;
            }
        };
        match entry::of_files(name, &read) {
            Ok(Entry { skill, fault: None }) => {
                bytes += read.files.iter().map(|file| file.size).sum::<u64>();
                files += read.files.len();
                result.skills.push(skill);
                match left_out(&read) {
                    Some(files) => faults.set(name, SkillFault::Incomplete, &files),
                    None => faults.clear(name),
                }
            }
            Ok(Entry {
                fault: Some((fault, why)),
                ..
            })
            | Err((fault, why)) => faults.set(name, fault, &why),
        }
    }
    faults.summarize(&names);
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
    let resources = reader(live, id).await?;
    let files = match read(live, &resources, &uri.skill).await {
        Ok(files) => files,
        Err(FilesError::Ended(error)) => return Err(error),
        Err(FilesError::Read(error)) => return Err(read_error(refused, &request.uri, &error)),
    };
    match entry::carried(&uri.skill, &files) {
        Ok(skill) => Ok(GetSkillResult::new(skill)),
        Err(why) => Err(not_found(refused, &request.uri, &why)),
    }
}

/// Reads all files of a skill, for their digests.
async fn read(
    live: &LiveHost,
    resources: &SkillResources,
    name: &str,
) -> Result<SkillFiles, FilesError> {
    let (resources, of) = (resources.clone(), name.to_owned());
    let files = live.run(Guest::BuiltIn, async move { resources.manifest(&of).await });
    let files = files.await.map_err(FilesError::Ended)?;
    files.map_err(FilesError::Read)
}

/// Returns the files that are not in a skill's manifest, in words.
fn left_out(files: &SkillFiles) -> Option<String> {
    let first = files.left_out.first()?;
    let more = match files.left_out_count {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    Some(format!("`{}` ({}){more}", first.path, first.reason))
}
