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
    ListSkillsResult, PaginatedRequestParams, SKILL_MD, ServerCapabilities, Skill,
};

use self::entry::{Entry, Fault, NOT_A_NAME, is_name};
use super::batches::{Batches, Reading};
use super::calls::Guest;
use super::client::ClientView;
use super::faults::SkillFault;
use super::live::{LiveHost, run_blocking};
use super::resources::{
    check_host, cursor, cursor_error, not_found, parse, read_error, reader, skills_from,
};
use skillhost::{Caller, ResourceError, SkillFiles};

/// The most entries of a page. Guards against: a listing that fills a client's
/// buffers. A client may end after 64 pages.
const PAGE: usize = 200;
/// The files after which a page ends, about 150 bytes each. Guards against: entries
/// with 512 files each.
const FILES: usize = 5_000;
/// The most skills that are looked at for a page, each by a call. Guards against: a
/// listing of many skills that are left out.
const MOST_READ: usize = 256;
/// The bytes of digested files after which a page ends. Guards against: a page
/// that takes a minute.
const BYTES: u64 = 32 << 20;

/// Returns what the server's capabilities say of the extension.
pub(crate) fn extension() -> Option<ExtensionCapabilities> {
    let capabilities = ServerCapabilities::builder().enable_skills_with_directory_read();
    capabilities.build().extensions
}

/// Returns a page of the skills that every client takes, sorted by name.
pub(crate) async fn list(
    live: &ClientView<'_>,
    request: Option<PaginatedRequestParams>,
    caller: Caller,
) -> Result<ListSkillsResult, ErrorData> {
    const LISTING: &str = "skills";
    let place = request.and_then(|request| request.cursor);
    let place = place.map(|cursor| cursor::decode(LISTING, &cursor));
    let [from] = place.transpose().map_err(cursor_error)?.unwrap_or_default();
    let resources = reader(live, caller).await?;
    let mut names = skills_from(&resources, &from, MOST_READ + 1).await?;
    let next = names.split_off(MOST_READ.min(names.len())).pop();
    let mut result = ListSkillsResult::default();
    let (mut bytes, mut files) = (0, 0);
    let faults = live.faults();
    // It costs no call to leave such a skill out.
    names.retain(|name| {
        let is_name = is_name(name);
        if !is_name {
            faults.set(name, SkillFault::FolderName, NOT_A_NAME);
        }
        is_name
    });
    let (places, reader) = (resources.places(), resources.clone());
    let mut skills = Batches::new(live, names, places, move |name| {
        let reader = reader.clone();
        async move { listed(&name, reader.manifest(&name).await) }
    });
    while files < FILES
        && bytes < BYTES
        && let wanted @ 1.. = PAGE - result.skills.len()
        && let Some((name, read)) = skills.next(wanted).await?
    {
        match read {
            Ok(listed) => {
                bytes += listed.bytes;
                files += listed.files;
                result.skills.push(listed.skill);
                match listed.left_out {
                    Some(files) => faults.set(&name, SkillFault::Incomplete, &files),
                    None => faults.clear(&name),
                }
            }
            // It was removed while the others were read.
            Err(NotListed::Read(ResourceError::UnknownSkill)) => {}
            Err(NotListed::Read(error)) => {
                check_host(&error)?;
                faults.set(&name, SkillFault::Unreadable, &error.to_string());
            }
            Err(NotListed::Fault((fault, why))) => faults.set(&name, fault, &why),
        }
    }
    match skills.into_rest().or(next) {
        Some(next) => result.next_cursor = Some(cursor::encode(LISTING, [&next])),
        None => {
            // Of all clients: what one does not see is no fault.
            let all = LiveHost::host_to_list(live).await.skill_resources();
            if let Some(all) = all {
                faults.summarize(&run_blocking(move || all.skills()).await?);
            }
        }
    }
    Ok(result)
}

/// A skill of a listing.
struct ListedSkill {
    skill: Skill,
    /// The bytes and the number of its files.
    bytes: u64,
    files: usize,
    left_out: Option<String>,
}

/// The reason why a listing leaves a skill out.
enum NotListed {
    Read(ResourceError),
    Fault(Fault),
}

/// Returns what a listing needs of a skill's files.
fn listed(
    name: &str,
    read: Result<SkillFiles, ResourceError>,
) -> Reading<Result<ListedSkill, NotListed>> {
    let files = read.as_ref().map_or(0, |read| read.files.len());
    let listed = read.map_err(NotListed::Read).and_then(|read| {
        let Entry { skill, fault } = entry::of_files(name, &read).map_err(NotListed::Fault)?;
        match fault {
            Some(fault) => Err(NotListed::Fault(fault)),
            None => Ok(ListedSkill {
                skill,
                bytes: read.files.iter().map(|file| file.size).sum(),
                files,
                left_out: left_out(&read),
            }),
        }
    });
    (listed, files)
}

/// Returns one skill, by the address of its SKILL.md.
pub(crate) async fn get(
    live: &ClientView<'_>,
    request: GetSkillRequestParams,
    caller: Caller,
) -> Result<GetSkillResult, ErrorData> {
    let refused = ErrorCode::INVALID_PARAMS;
    let uri = parse(&request.uri, refused)?;
    if uri.path.as_deref() != Some(SKILL_MD) {
        let why = "the address of a skill is that of the SKILL.md in its folder";
        return Err(not_found(refused, &request.uri, &why));
    }
    let resources = reader(live, caller).await?;
    let skill = uri.skill.clone();
    let files = async move { resources.manifest(&skill).await };
    let files = live.run(Guest::BuiltIn, files).await?;
    let files = files.map_err(|error| read_error(refused, &request.uri, &error))?;
    match entry::carried(&uri.skill, &files) {
        Ok(skill) => Ok(GetSkillResult::new(skill)),
        Err(why) => Err(not_found(refused, &request.uri, &why)),
    }
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
