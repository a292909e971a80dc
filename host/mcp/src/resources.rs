//! `resources/list`, `resources/templates/list`, `resources/read` and
//! `resources/directory/read`: every file of every skill at
//! `skill://<skill>/<path>`, read as a tool's call would read it.
//!
//! The methods live here, addresses in [`uri`], and page ends in [`cursor`]. The
//! skills extension is in `super::skills`.

pub(super) mod cursor;
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
use self::uri::SkillUri;
use super::batches::{Batches, Reading};
use super::calls::Guest;
use super::client::ClientView;
use super::live::run_blocking;
use super::room::AnswerRoom;
use skillhost::Line;
use skillhost::Stop;
use skillhost::frontmatter;
use skillhost::internal::media_type;
use skillhost::{
    Caller, Contents, EntryKind, OverLimit, ResourceError, SkillFiles, SkillResources,
};

/// The most resources of a page, of about 200 bytes each. Guards against: a listing
/// that fills a client's buffers. A client may end after 64 pages.
const PAGE: usize = 1_000;
/// The most skills that are read for a page, each by a call. Guards against: a
/// listing of many empty skills.
const MOST_READ: usize = 256;
/// The most characters of an address, and of the reason, that an error repeats.
const MOST_CHARACTERS: usize = 512;

/// Returns a page of all files of all skills, sorted by the bytes of skill and
/// path.
pub(crate) async fn list(
    live: &ClientView<'_>,
    request: Option<PaginatedRequestParams>,
    caller: Caller,
) -> Result<ListResourcesResult, ErrorData> {
    const LISTING: &str = "resources";
    let place = request.and_then(|request| request.cursor);
    let place = place.map(|cursor| cursor::decode(LISTING, &cursor));
    let [from, after] = place.transpose().map_err(cursor_error)?.unwrap_or_default();
    let resources = reader(live, caller).await?;
    let mut result = ListResourcesResult::default();
    let mut last = String::new();
    let mut skills = skills_from(&resources, &from, MOST_READ + 1).await?;
    let next = skills.split_off(MOST_READ.min(skills.len())).pop();
    let places = resources.places();
    let mut skills = Batches::new(live, skills, places, move |name| {
        let reader = resources.clone();
        async move { listed(reader.files(&name).await) }
    });
    while let Some((skill, files)) = skills.next(MOST_READ).await? {
        let (files, front) = match files {
            Ok(files) => files,
            Err(error) => {
                // A skill that cannot be read hides no other.
                check_host(&error)?;
                tracing::info!(
                    "the files of `{}` are not listed: {error}",
                    Line::new(&skill)
                );
                continue;
            }
        };
        let after = if skill == from { &*after } else { "" };
        for file in files.files.into_iter().filter(|file| *file.path > *after) {
            if result.resources.len() == PAGE {
                // `last` is of this skill, or empty before its first file.
                result.next_cursor = Some(cursor::encode(LISTING, [&skill, &last]));
                return Ok(result);
            }
            let uri = SkillUri::file(&skill, &file.path);
            let mut resource = resource(&uri, file.size, front.as_ref());
            if let (SKILL_MD, Some(over)) = (&*file.path, &files.over) {
                add_notice(&mut resource, &skill, *over);
            }
            result.resources.push(resource);
            last = file.path;
        }
        last.clear();
    }
    // The next page starts with this skill: no path is empty.
    result.next_cursor = next.map(|skill| cursor::encode(LISTING, [&skill, ""]));
    Ok(result)
}

/// The files of a skill, and what its SKILL.md says of it.
type Listed = (SkillFiles, Option<Front>);

/// Returns what a listing needs of a skill's files.
fn listed(files: Result<SkillFiles, ResourceError>) -> Reading<Result<Listed, ResourceError>> {
    let count = files.as_ref().map_or(0, |files| files.files.len());
    let listed = files.map(|files| {
        let front = files.skill_md.as_deref().map(Front::of);
        (files, front)
    });
    (listed, count)
}

/// Returns the one form of all addresses.
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
    live: &ClientView<'_>,
    request: ReadResourceRequestParams,
    caller: Caller,
    room: AnswerRoom,
) -> Result<ReadResourceResult, ErrorData> {
    let refused = ErrorCode::RESOURCE_NOT_FOUND;
    let uri = parse(&request.uri, refused)?;
    let Some(path) = uri.path else {
        return Err(not_found(
            refused,
            &request.uri,
            &ResourceError::IsDirectory,
        ));
    };
    let resources = reader(live, caller).await?;
    let call_room = room.clone();
    let read = async move {
        let read = resources.read(&uri.skill, &path).await;
        let bytes = read.as_ref().map_or(0, |contents| match contents {
            Contents::Text(text) => text.len(),
            // In base64.
            Contents::Binary(bytes) => bytes.len().div_ceil(3) * 4,
        });
        call_room.fit(bytes)?;
        let read = read.map(|contents| {
            let is_text = matches!(contents, Contents::Text(_));
            (media_type::of(&path, is_text), contents)
        });
        Ok((read, bytes))
    };
    let (read, bytes) = live.run(Guest::BuiltIn, read).await??;
    let (media_type, contents) = read.map_err(|error| read_error(refused, &request.uri, &error))?;
    room.wait_for_turn(bytes).await;
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
    live: &ClientView<'_>,
    request: ReadResourceDirectoryRequestParams,
    caller: Caller,
) -> Result<ReadResourceDirectoryResult, ErrorData> {
    const LISTING: &str = "directory";
    let refused = ErrorCode::INVALID_PARAMS;
    let uri = parse(&request.uri, refused)?;
    let place = request.cursor.map(|cursor| {
        let [folder, after] = cursor::decode(LISTING, &cursor)?;
        if folder == request.uri {
            Ok(after)
        } else {
            Err(BadCursor)
        }
    });
    let after = place.transpose().map_err(cursor_error)?.unwrap_or_default();
    let resources = reader(live, caller).await?;
    let folder = uri.clone();
    let directory = async move {
        let path = folder.path.as_deref();
        resources.directory(&folder.skill, path).await
    };
    let directory = live.run(Guest::BuiltIn, directory).await?;
    let directory = directory.map_err(|error| read_error(refused, &request.uri, &error))?;
    let mut entries = directory.entries;
    entries.retain(|entry| entry.name > after);
    let mut result = ListResourcesResult::default();
    if entries.len() > PAGE {
        entries.truncate(PAGE);
        let last = entries.last().map_or("", |entry| &entry.name);
        result.next_cursor = Some(cursor::encode(LISTING, [&request.uri, last]));
    }
    let front = directory.skill_md.as_deref().map(Front::of);
    let child = |entry: skillhost::DirectoryEntry| {
        let child = uri.child(&entry.name);
        match entry.kind {
            EntryKind::File { size } => resource(&child, size, front.as_ref()),
            EntryKind::Directory => {
                Resource::new(child.to_string(), entry.name).with_mime_type(DIRECTORY_MIME_TYPE)
            }
        }
    };
    result.resources = entries.into_iter().map(child).collect();
    Ok(result)
}

/// Returns the reader of skills for a request.
pub(super) async fn reader(
    live: &ClientView<'_>,
    caller: Caller,
) -> Result<SkillResources, ErrorData> {
    let resources = live.host_to_list().await.skill_resources();
    let resources = resources.map(|resources| resources.with_caller(caller));
    resources.ok_or_else(none)
}

/// Returns the error for a request of resources that there are not.
pub(crate) fn none() -> ErrorData {
    let message = "this server serves no resources";
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

/// Returns the names of some skills, sorted: at most this many, from the first that is
/// not before `from`.
pub(super) async fn skills_from(
    resources: &SkillResources,
    from: &str,
    most: usize,
) -> Result<Vec<String>, ErrorData> {
    let (resources, from) = (resources.clone(), from.to_owned());
    run_blocking(move || resources.skills_from(&from, most)).await
}

/// Adds to the description of a SKILL.md that files of its skill are not listed, and
/// how to find them.
fn add_notice(resource: &mut Resource, skill: &str, over: OverLimit) {
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

/// Returns the resource of a file. That of the skill's SKILL.md has the name and
/// description of the skill.
fn resource(uri: &SkillUri, size: u64, front: Option<&Front>) -> Resource {
    let path = uri.path.as_deref().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut resource = Resource::new(uri.to_string(), name).with_size(size);
    resource.mime_type = media_type::of_path(path).map(str::to_owned);
    if let (SKILL_MD, Some(front)) = (path, front) {
        if let Some(name) = &front.name {
            resource.name.clone_from(name);
        }
        resource.description.clone_from(&front.description);
    }
    resource
}

/// The name and the description in a SKILL.md.
struct Front {
    name: Option<String>,
    description: Option<String>,
}

impl Front {
    /// Reads the start of a SKILL.md: strictly, if its YAML is valid, otherwise as far as
    /// it can be read.
    fn of(start: &str) -> Self {
        if let Ok(Some(object)) = frontmatter::read_json(start) {
            let text = |key| object.get(key).and_then(|value| value.as_str());
            return Self {
                name: text("name").map(str::to_owned),
                description: text("description").map(str::to_owned),
            };
        }
        let read = frontmatter::read(start).frontmatter;
        Self {
            name: read.name.map(|field| field.value),
            description: read.description.map(|field| field.value),
        }
    }
}

pub(super) fn cursor_error(bad: BadCursor) -> ErrorData {
    ErrorData::invalid_params(bad.to_string(), None)
}

/// Reads an address. `refused` is the method's code for a resource that is not
/// there.
pub(super) fn parse(uri: &str, refused: ErrorCode) -> Result<SkillUri, ErrorData> {
    SkillUri::parse(uri).map_err(|error| not_found(refused, uri, &error))
}

/// Returns the error for an address without a resource.
pub(super) fn not_found(refused: ErrorCode, uri: &str, why: &dyn std::fmt::Display) -> ErrorData {
    let shown = |text: &str| text.chars().take(MOST_CHARACTERS).collect::<String>();
    let (start, why) = (shown(uri), shown(&why.to_string()));
    // A program can use only a whole address.
    let data = (start == uri).then(|| json!({"uri": uri}));
    let start = Line::new(start);
    let message = format!("no resource at '{start}': {why}");
    ErrorData::new(refused, message, data)
}

/// Returns the error for a read that failed. A call that the host stopped is not
/// the caller's fault.
pub(super) fn read_error(refused: ErrorCode, uri: &str, error: &ResourceError) -> ErrorData {
    match check_host(error) {
        Err(error) => error,
        Ok(()) => match error {
            ResourceError::Stopped(_) => ErrorData::internal_error(error.to_string(), None),
            // A refusal does not tell whether the skill exists.
            ResourceError::NotGranted => not_found(refused, uri, &ResourceError::UnknownSkill),
            error => not_found(refused, uri, error),
        },
    }
}

/// Returns an error if the host cannot answer now, whatever the skill.
pub(super) fn check_host(error: &ResourceError) -> Result<(), ErrorData> {
    match error {
        ResourceError::Stopped(Stop::Busy | Stop::HostMemory | Stop::NotRecorded) => {
            Err(ErrorData::internal_error(error.to_string(), None))
        }
        _ => Ok(()),
    }
}
