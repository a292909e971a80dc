//! `resources/list`, `resources/templates/list`, `resources/read` and `resources/directory/read`.
//! Every file of every skill is a resource at `skill://<skill>/<path>`, and each read runs like a
//! call of a tool.
//!
//! URIs are in [`uri`], and the cursors of pages in [`cursor`]. The skills extension is in
//! `super::skills`.

pub(super) mod cursor;
pub(super) mod entry_name;
pub(super) mod uri;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{
    DIRECTORY_MIME_TYPE, ErrorCode, ErrorData, ListResourceTemplatesResult, ListResourcesResult,
    PaginatedRequestParams, ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult,
    ReadResourceRequestParams, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    SKILL_MD,
};
use serde_json::json;

use self::cursor::BadCursor;
use self::entry_name::{entry_name, is_name};
use self::uri::SkillUri;
use super::batches::{Batches, SkillReading};
use super::calls::GuestKind;
use super::client::ClientView;
use super::page::{PageSize, json_bytes};
use skillhost::frontmatter;
use skillhost::{
    Caller, Contents, EntryKind, Line, OverLimit, ResourceError, SkillFiles, SkillResources, Stop,
    Unlisted,
};
use skillhost_sandbox::granted_skills::opaque_cursor;
use skillhost_skills::text::media_type;

/// The maximum number of resources of a page, with about 200 bytes each. A page of longer resources
/// ends earlier, at its [maximum size](super::page::PAGE_BYTES). Guards against: a listing that
/// fills a client's buffers. Pages are not small either, because a client may stop after 64 of
/// them.
const PAGE_RESOURCES: usize = 1_000;

/// The maximum number of skills that are read for a page, each by a call. Guards against: a listing
/// of many empty skills.
const MAX_SKILLS_READ: usize = 256;

/// The maximum number of characters of a resource's name and description, as many as the
/// specification allows for the description of a skill. Guards against: a resource that fills a
/// page.
const MAX_ABOUT_CHARACTERS: usize = 1024;

/// The maximum number of characters of a URI, and of the reason, that an error repeats.
const MAX_SHOWN_CHARACTERS: usize = 512;

/// Returns a page of all files of all listed skills, sorted by the bytes of skill and path.
pub(crate) async fn list(
    view: &ClientView<'_>,
    request: Option<PaginatedRequestParams>,
    caller: Caller,
) -> Result<ListResourcesResult, ErrorData> {
    const LISTING: &str = "resources";
    let cursor = request.and_then(|request| request.cursor);
    let position = cursor.map(|cursor| cursor::decode(LISTING, &cursor));
    let [from_skill, after_path] = position
        .transpose()
        .map_err(cursor_error)?
        .unwrap_or_default();
    let resources = reader(view, caller).await?;
    let mut result = ListResourcesResult::default();
    // The last resource of the page, or `None` if skills after it were left out. The cursor may
    // name it, because the page shows it.
    let mut last = None;
    let mut size = PageSize::new(view.page_bytes());
    let mut skills = skills_from(view, &resources, &from_skill, MAX_SKILLS_READ + 1).await?;
    let next = skills.split_off(MAX_SKILLS_READ.min(skills.len())).pop();
    let slots = resources.slots();
    let mut skills = Batches::new(view, skills, slots, move |name| {
        let reader = resources.clone();
        async move { read_for_listing(reader.files(&name).await) }
    });
    let mut skills_read = 0;
    let next = 'page: loop {
        let found = result.resources.len();
        if found == PAGE_RESOURCES {
            break skills.into_next_name().or(next);
        }
        // Assumes that the next skills have as many resources as those that were read.
        let wanted = ((PAGE_RESOURCES - found) * skills_read).div_ceil(found.max(1));
        let wanted = if found == 0 { MAX_SKILLS_READ } else { wanted };
        let Some((skill, files)) = skills.next(wanted).await? else {
            break skills.into_next_name().or(next);
        };
        skills_read += 1;
        let (files, about) = match files {
            Ok(files) => files,
            Err(error) => {
                // A skill that cannot be read must not hide the others.
                check_host(&error)?;
                tracing::info!("cannot list the files of `{}`: {error}", Line::new(&skill));
                last = None;
                continue;
            }
        };
        let after = if skill == from_skill {
            &*after_path
        } else {
            ""
        };
        if is_unlisted(&files) {
            last = None;
            continue;
        }
        for file in files.files.into_iter().filter(|file| *file.path > *after) {
            let uri = SkillUri::file(&skill, &file.path);
            let mut resource = resource(&uri, file.size, about.as_ref());
            if let (SKILL_MD, Some(over)) = (&*file.path, &files.over) {
                note_missing_files(&mut resource, &skill, *over);
            }
            if result.resources.len() == PAGE_RESOURCES || !size.add(json_bytes(&resource)) {
                break 'page Some(skill);
            }
            result.resources.push(resource);
            last = Some((skill.clone(), file.path));
        }
    };
    result.next_cursor = next.map(|next| {
        // The empty path sorts before every file.
        let (skill, path) = last.unwrap_or_else(|| (opaque_cursor(&next), String::new()));
        cursor::encode(LISTING, [&skill, &path])
    });
    view.answer_lease().reserve_and_wait(size.bytes()).await?;
    Ok(result)
}

/// Returns whether a listing leaves a skill out.
fn is_unlisted(files: &SkillFiles) -> bool {
    match &files.skill_md {
        Some(start) => Unlisted::in_start(start).is_some(),
        // A SKILL.md that is not UTF-8.
        None => files.files.iter().any(|file| file.path == SKILL_MD),
    }
}

/// The files of a skill, and its name and description.
type ListedFiles = (SkillFiles, Option<AboutSkill>);

/// Returns the parts of a skill that a listing needs, and the number of its files.
fn read_for_listing(
    files: Result<SkillFiles, ResourceError>,
) -> SkillReading<Result<ListedFiles, ResourceError>> {
    let count = files.as_ref().map_or(0, |files| files.files.len());
    let listed = files.map(|files| {
        let about = files.skill_md.as_deref().map(AboutSkill::parse);
        (files, about)
    });
    (listed, count)
}

/// Returns the template of all URIs.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = ResourceTemplate::new("skill://{skill}/{+path}", "skill-file")
        .with_title("File of a skill")
        .with_description(
            "Any file in a skill's folder, by its path there. SKILL.md says what the skill is for.",
        );
    ListResourceTemplatesResult::with_all_items(vec![template])
}

/// Reads a file: as text if all of it is UTF-8, otherwise as base64.
pub(crate) async fn read(
    view: &ClientView<'_>,
    request: ReadResourceRequestParams,
    caller: Caller,
) -> Result<ReadResourceResult, ErrorData> {
    let lease = view.answer_lease();
    let not_found_code = ErrorCode::RESOURCE_NOT_FOUND;
    let uri = parse(&request.uri, not_found_code)?;
    let resources = reader(view, caller).await?;
    let call_lease = lease.clone();
    let call = async move {
        let uri = without_entry_name(&resources, uri);
        let path = uri.path.unwrap_or_default();
        let contents = match &*path {
            "" => Err(ResourceError::IsDirectory),
            path => resources.read(&uri.skill, path).await,
        };
        let bytes = contents.as_ref().map_or(0, |contents| match contents {
            Contents::Text(text) => text.len(),
            // The size in base64.
            Contents::Binary(bytes) => bytes.len().div_ceil(3) * 4,
        });
        call_lease.reserve(bytes)?;
        let typed = contents.map(|contents| {
            let is_text = matches!(contents, Contents::Text(_));
            (media_type::of(&path, is_text), contents)
        });
        Ok((typed, bytes))
    };
    let (typed, bytes) = view.run(GuestKind::BuiltIn, call).await??;
    let (media_type, contents) =
        typed.map_err(|error| read_error(not_found_code, &request.uri, &error))?;
    let counted_bytes = || match &contents {
        Contents::Text(text) => json_bytes(text),
        Contents::Binary(_) => bytes,
    };
    lease.reserve_json_and_wait(bytes, counted_bytes).await?;
    let contents = match contents {
        Contents::Text(text) => ResourceContents::text(text, request.uri),
        Contents::Binary(bytes) => {
            ResourceContents::blob(BASE64_STANDARD.encode(bytes), request.uri)
        }
    };
    Ok(ReadResourceResult::new(vec![
        contents.with_mime_type(media_type),
    ]))
}

/// Returns a page of a folder's entries, sorted by name.
pub(crate) async fn directory(
    view: &ClientView<'_>,
    request: ReadResourceDirectoryRequestParams,
    caller: Caller,
) -> Result<ReadResourceDirectoryResult, ErrorData> {
    const LISTING: &str = "directory";
    let not_found_code = ErrorCode::INVALID_PARAMS;
    let uri = parse(&request.uri, not_found_code)?;
    let position = request.cursor.map(|cursor| {
        let [folder, after] = cursor::decode(LISTING, &cursor)?;
        if folder == request.uri {
            Ok(after)
        } else {
            Err(BadCursor)
        }
    });
    let after = position
        .transpose()
        .map_err(cursor_error)?
        .unwrap_or_default();
    let resources = reader(view, caller).await?;
    let folder = uri.clone();
    let call = async move {
        let folder = without_entry_name(&resources, folder);
        let path = folder.path.as_deref();
        resources.directory(&folder.skill, path).await
    };
    let result = view.run(GuestKind::BuiltIn, call).await?;
    let directory = result.map_err(|error| read_error(not_found_code, &request.uri, &error))?;
    let about = directory.skill_md.as_deref().map(AboutSkill::parse);
    let mut result = ListResourcesResult::default();
    let mut size = PageSize::new(view.page_bytes());
    let mut last_name = String::new();
    let entries = directory.entries.into_iter();
    for entry in entries.filter(|entry| entry.name > after) {
        let child = uri.child(&entry.name);
        let child = match entry.kind {
            EntryKind::File { size } => resource(&child, size, about.as_ref()),
            EntryKind::Directory => {
                Resource::new(child.to_string(), &entry.name).with_mime_type(DIRECTORY_MIME_TYPE)
            }
        };
        if result.resources.len() == PAGE_RESOURCES || !size.add(json_bytes(&child)) {
            result.next_cursor = Some(cursor::encode(LISTING, [&request.uri, &last_name]));
            break;
        }
        result.resources.push(child);
        last_name = entry.name;
    }
    view.answer_lease().reserve_and_wait(size.bytes()).await?;
    Ok(result)
}

/// Returns the reader of skills' files for a request.
pub(super) async fn reader(
    view: &ClientView<'_>,
    caller: Caller,
) -> Result<SkillResources, ErrorData> {
    let host = view.host_to_list().await;
    match host.skill_resources() {
        Some(resources) => Ok(resources.with_caller(caller)),
        None => Err(not_served()),
    }
}

/// Returns the error for a request for resources if none are served.
pub(crate) fn not_served() -> ErrorData {
    let message = "this server serves no resources";
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

/// Removes the skill's `name` from the start of a URI's path. The URIs in an [entry] can have it
/// there. Returns the URI unchanged if the skill's folder has a file or folder of that name.
///
/// [entry]: entry_name
pub(super) fn without_entry_name(resources: &SkillResources, uri: SkillUri) -> SkillUri {
    let Some(path) = &uri.path else {
        return uri;
    };
    let (first, rest) = match path.split_once('/') {
        Some((first, rest)) => (first, Some(rest.to_owned())),
        None => (path.as_str(), None),
    };
    if first == uri.skill || !is_name(first) || resources.peek_entry(&uri.skill, first) {
        return uri;
    }
    let start = resources.peek_skill_md(&uri.skill).unwrap_or_default();
    let front = frontmatter::read(&start).frontmatter;
    if entry_name(&uri.skill, &front) != Some(first) {
        return uri;
    }
    SkillUri {
        skill: uri.skill,
        path: rest,
    }
}

/// Returns the names of at most `max` skills in their order, starting with `from` or the
/// next one after it.
pub(super) async fn skills_from(
    view: &ClientView<'_>,
    resources: &SkillResources,
    from: &str,
    max: usize,
) -> Result<Vec<String>, ErrorData> {
    let (resources, from) = (resources.clone(), from.to_owned());
    let page = view.run_blocking(move || resources.skills_from(&from, max));
    page.await?.ok_or_else(|| cursor_error(BadCursor))
}

/// Adds a notice to the description of a SKILL.md. It says that not all files of the skill are
/// listed, and how to list them.
fn note_missing_files(resource: &mut Resource, skill: &str, over: OverLimit) {
    let folder = SkillUri::folder(skill);
    let notice = format!(
        "Not all files of this skill are listed: {over}. `resources/directory/read` of {folder} \
         lists each folder."
    );
    resource.description = Some(match resource.description.take() {
        Some(description) => format!("{description}\n{notice}"),
        None => notice,
    });
}

/// Returns the resource of a file. The resource of SKILL.md has the name and description of
/// the skill.
fn resource(uri: &SkillUri, size: u64, about: Option<&AboutSkill>) -> Resource {
    let path = uri.path.as_deref().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut resource = Resource::new(uri.to_string(), name).with_size(size);
    resource.mime_type = media_type::of_path(path).map(str::to_owned);
    if let (SKILL_MD, Some(about)) = (path, about) {
        let cut = |text: &String| first_characters(text, MAX_ABOUT_CHARACTERS);
        if let Some(name) = &about.name {
            resource.name = cut(name);
        }
        resource.description = about.description.as_ref().map(cut);
    }
    resource
}

/// The name and the description in a SKILL.md.
struct AboutSkill {
    name: Option<String>,
    description: Option<String>,
}

impl AboutSkill {
    /// Parses the start of a SKILL.md. If its YAML is invalid, uses the lines that can be read.
    fn parse(start: &str) -> Self {
        if let Ok(Some(object)) = frontmatter::read_json(start) {
            let text = |key| object.get(key).and_then(|value| value.as_str());
            return Self {
                name: text("name").map(str::to_owned),
                description: text("description").map(str::to_owned),
            };
        }
        let lenient = frontmatter::read(start).frontmatter;
        Self {
            name: lenient.name.map(|field| field.value),
            description: lenient.description.map(|field| field.value),
        }
    }
}

fn first_characters(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

pub(super) fn cursor_error(bad: BadCursor) -> ErrorData {
    ErrorData::invalid_params(bad.to_string(), None)
}

/// Parses a URI. `code` is the method's error code for a resource that does not exist.
pub(super) fn parse(uri: &str, code: ErrorCode) -> Result<SkillUri, ErrorData> {
    SkillUri::parse(uri).map_err(|error| not_found(code, uri, &error))
}

/// Returns the error for a URI that names no resource.
pub(super) fn not_found(code: ErrorCode, uri: &str, why: &dyn std::fmt::Display) -> ErrorData {
    let cut = |text: &str| first_characters(text, MAX_SHOWN_CHARACTERS);
    let (shown, why) = (cut(uri), cut(&why.to_string()));
    // A program can use only a whole URI.
    let data = (shown == uri).then(|| json!({"uri": uri}));
    let message = format!("no resource at `{}`: {why}", Line::new(shown));
    ErrorData::new(code, message, data)
}

/// Returns the error for a read that failed. It is an internal error if the host stopped the call.
pub(super) fn read_error(code: ErrorCode, uri: &str, error: &ResourceError) -> ErrorData {
    match check_host(error) {
        Err(error) => error,
        Ok(()) => match error {
            ResourceError::Stopped(_) => ErrorData::internal_error(error.to_string(), None),
            // The error does not tell whether the skill exists.
            ResourceError::NotGranted => not_found(code, uri, &ResourceError::UnknownSkill),
            error => not_found(code, uri, error),
        },
    }
}

/// Returns the error to send if `error` means that the host cannot read any skill now.
pub(super) fn check_host(error: &ResourceError) -> Result<(), ErrorData> {
    match error {
        ResourceError::Stopped(Stop::Busy | Stop::HostMemory | Stop::NotRecorded) => {
            Err(ErrorData::internal_error(error.to_string(), None))
        }
        _ => Ok(()),
    }
}
