//! `skills/list` and `skills/get`: the skills extension of MCP (SEP-2640, beta).
//!
//! An entry has a skill's frontmatter, and all of its files with their current digests and
//! sizes. The listing changes the frontmatter so that every client accepts it, and `skills/get`
//! returns it as the author wrote it; see [`entry`]. The listing leaves out unlisted skills, but
//! `skills/get` returns them. The log has one line for the operator about skills without an entry.

mod entry;

use rmcp::model::{
    ErrorCode, ErrorData, ExtensionCapabilities, GetSkillRequestParams, GetSkillResult,
    ListSkillsResult, PaginatedRequestParams, SKILL_MD, ServerCapabilities, Skill,
};

use self::entry::{Fault, Form};
use super::batches::{Batches, SkillReading};
use super::calls::GuestKind;
use super::client::ClientView;
use super::faults::SkillFault;
use super::live::LiveHost;
use super::page::{PageSize, json_bytes};
use super::resources::{
    check_host, cursor, cursor_error, not_found, parse, read_error, reader, skills_from,
    without_entry_name,
};
use skillhost::{Caller, ResourceError, SkillFiles, SkillResources, Unlisted};
use skillhost_sandbox::granted_skills::opaque_cursor;

/// The maximum number of entries of a page. A page of long entries ends earlier, at its [maximum
/// size](super::page::PAGE_BYTES). Guards against: a listing that fills a client's buffers. Pages
/// are not small either, because a client may stop after 64 of them.
const PAGE_SKILLS: usize = 200;

/// The number of files after which a page ends. Each takes about 150 bytes. Guards against:
/// entries with 512 files each.
const PAGE_FILES: usize = 5_000;

/// The maximum number of skills that are read for a page, each by a call. Guards against: a listing
/// of many skills that are left out.
const MAX_SKILLS_READ: usize = 256;

/// The number of digested bytes after which a page ends. Guards against: a page that takes a
/// minute.
const PAGE_DIGESTED_BYTES: u64 = 32 << 20;

/// Returns the description of the extension in the server's capabilities.
pub(crate) fn extension() -> Option<ExtensionCapabilities> {
    let capabilities = ServerCapabilities::builder().enable_skills_with_directory_read();
    capabilities.build().extensions
}

/// Returns a page of the skills that every client accepts, sorted by name.
pub(crate) async fn list(
    view: &ClientView<'_>,
    request: Option<PaginatedRequestParams>,
    caller: Caller,
) -> Result<ListSkillsResult, ErrorData> {
    const LISTING: &str = "skills";
    let cursor = request.and_then(|request| request.cursor);
    let position = cursor.map(|cursor| cursor::decode(LISTING, &cursor));
    let [mut from] = position
        .transpose()
        .map_err(cursor_error)?
        .unwrap_or_default();
    if !from.is_empty() && !from.starts_with('.') {
        // This cursor is not opaque: it names the last skill of a page. With a NUL, it sorts just
        // after that skill.
        from.push('\0');
    }
    let resources = reader(view, caller).await?;
    let mut names = skills_from(view, &resources, &from, MAX_SKILLS_READ + 1).await?;
    let next = names.split_off(MAX_SKILLS_READ.min(names.len())).pop();
    let mut result = ListSkillsResult::default();
    let (mut bytes, mut files) = (0, 0);
    let mut size = PageSize::new(view.page_bytes());
    let faults = view.faults();
    let slots = resources.slots();
    let mut skills = Batches::new(view, names, slots, move |name| {
        let reader = resources.clone();
        async move {
            let files = read_files(&reader, &name, Form::Listed).await;
            read_for_listing(&name, files)
        }
    });
    let (mut did_not_fit, mut last) = (None, None);
    while files < PAGE_FILES
        && bytes < PAGE_DIGESTED_BYTES
        && let wanted @ 1.. = PAGE_SKILLS - result.skills.len()
        && let Some((name, read)) = skills.next(wanted).await?
    {
        // Skills that are left out count too: reading them takes as long.
        let previous = last.take();
        bytes += read.bytes;
        files += read.files;
        match read.listed {
            Ok(listed) if listed.json_bytes > view.page_bytes() => {
                let why = format!("its entry has {} bytes", listed.json_bytes);
                faults.set(&name, SkillFault::LongEntry, &why);
            }
            Ok(listed) if !size.add(listed.json_bytes) => {
                (did_not_fit, last) = (Some(name), previous);
                break;
            }
            Ok(listed) => {
                result.skills.push(listed.skill);
                last = Some(name.clone());
                match listed.left_out {
                    Some(left_out) => faults.set(&name, SkillFault::Incomplete, &left_out),
                    None => faults.clear(&name),
                }
            }
            // The skill was removed while the others were read.
            Err(NotListed::Read(ResourceError::UnknownSkill)) => {}
            Err(NotListed::Read(error)) => {
                check_host(&error)?;
                faults.set(&name, SkillFault::Unreadable, &error.to_string());
            }
            Err(NotListed::ByAuthor) => faults.clear(&name),
            Err(NotListed::Fault((fault, why))) => faults.set(&name, fault, &why),
        }
    }
    view.answer_lease().reserve(size.bytes())?;
    match did_not_fit.or_else(|| skills.into_next_name()).or(next) {
        Some(next) => {
            // The cursor may name a skill that the page shows. Any other skill may be hidden from
            // this client, so the cursor then has a digest of its name.
            let position = last.unwrap_or_else(|| opaque_cursor(&next));
            result.next_cursor = Some(cursor::encode(LISTING, [&position]));
        }
        None => {
            // Passes all skills, not only those that this client may see. Otherwise the log would
            // forget the faults of the others.
            let host = LiveHost::host_to_list(view).await;
            if let Some(all) = host.skill_resources() {
                faults.summarize(&view.run_blocking(move || all.skills()).await?);
            }
        }
    }
    view.answer_lease().wait_for_turn(size.bytes()).await;
    Ok(result)
}

/// Reads the files of a skill. Computes their digests only if its SKILL.md allows an entry.
async fn read_files(
    reader: &SkillResources,
    name: &str,
    form: Form,
) -> Result<SkillFiles, ResourceError> {
    let is_left_out = |start: &str| form == Form::Listed && Unlisted::in_start(start).is_some();
    let may_have_entry =
        |start: &str| !is_left_out(start) && entry::may_have_entry(name, start, form);
    let start = reader.peek_skill_md(name);
    if !start.as_deref().is_some_and(may_have_entry) {
        let files = reader.files(name).await?;
        // The SKILL.md may have changed meanwhile.
        if !files.skill_md.as_deref().is_some_and(may_have_entry) {
            return Ok(files);
        }
    }
    reader.manifest(name).await
}

/// A skill that was read for a listing.
struct ReadSkill {
    /// The number of bytes of all files that were digested.
    bytes: u64,
    /// The number of its files.
    files: usize,
    listed: Result<ListedSkill, NotListed>,
}

/// A skill of a listing.
struct ListedSkill {
    skill: Skill,
    /// The number of bytes of its entry in JSON.
    json_bytes: usize,
    /// A text about the files that its manifest leaves out.
    left_out: Option<String>,
}

/// The reason why a listing leaves a skill out.
enum NotListed {
    Read(ResourceError),
    /// Its author hides it from models.
    ByAuthor,
    Fault(Fault),
}

/// Returns the parts of a skill that a listing needs, and the number of its files.
fn read_for_listing(
    name: &str,
    files: Result<SkillFiles, ResourceError>,
) -> SkillReading<ReadSkill> {
    let count = files.as_ref().map_or(0, |files| files.files.len());
    let bytes = files.as_ref().map_or(0, digested_bytes);
    let listed = files.map_err(NotListed::Read).and_then(|files| {
        match files.skill_md.as_deref().and_then(Unlisted::in_start) {
            Some(Unlisted::Author) => return Err(NotListed::ByAuthor),
            Some(why) => {
                return Err(NotListed::Fault((SkillFault::NoSkillMd, why.to_string())));
            }
            None => {}
        }
        let skill = entry::from_files(name, &files, Form::Listed).map_err(NotListed::Fault)?;
        Ok(ListedSkill {
            json_bytes: json_bytes(&skill),
            skill,
            left_out: left_out(&files),
        })
    });
    let read = ReadSkill {
        bytes,
        files: count,
        listed,
    };
    (read, count)
}

fn digested_bytes(files: &SkillFiles) -> u64 {
    let digested = files.files.iter().filter(|file| file.sha256.is_some());
    digested.map(|file| file.size).sum()
}

/// Returns one skill, by the URI of its SKILL.md.
pub(crate) async fn get(
    view: &ClientView<'_>,
    request: GetSkillRequestParams,
    caller: Caller,
) -> Result<GetSkillResult, ErrorData> {
    let not_found_code = ErrorCode::INVALID_PARAMS;
    let uri = parse(&request.uri, not_found_code)?;
    let skill = uri.skill.clone();
    let resources = reader(view, caller).await?;
    let call = async move {
        match without_entry_name(&resources, uri) {
            uri if uri.path.as_deref() == Some(SKILL_MD) => {
                Ok(read_files(&resources, &uri.skill, Form::Verbatim).await)
            }
            _ => Err("a skill's URI must be that of its SKILL.md"),
        }
    };
    let result = view.run(GuestKind::BuiltIn, call).await?;
    let result = result.map_err(|why| not_found(not_found_code, &request.uri, &why))?;
    let files = result.map_err(|error| read_error(not_found_code, &request.uri, &error))?;
    match entry::from_files(&skill, &files, Form::Verbatim) {
        Ok(skill) if skill.uri == request.uri => {
            view.answer_lease()
                .reserve_and_wait(json_bytes(&skill))
                .await?;
            Ok(GetSkillResult::new(skill))
        }
        Ok(skill) => {
            let why = format!("the entry of this skill has the URI {}", skill.uri);
            Err(not_found(not_found_code, &request.uri, &why))
        }
        Err((_, why)) => {
            let why = format!("{why}, so the skill has no entry");
            Err(not_found(not_found_code, &request.uri, &why))
        }
    }
}

/// Returns a text about the files that a skill's manifest leaves out, or `None` if it has all.
fn left_out(files: &SkillFiles) -> Option<String> {
    let first = files.left_out.first()?;
    let more = match files.left_out_count {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    Some(format!("`{}` ({}){more}", first.path, first.reason))
}
