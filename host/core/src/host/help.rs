//! Help for calls that failed because of a skill's name or a path: similar names, the
//! entries of a folder, the target of a link.
//!
//! Help is made only when somebody asks for it. Making it reads the file system again, within the
//! tool's grant, but does not scan for skills: it uses the names from the last scan. Other failures
//! get no help.
//!
//! Not here: the search for similar paths (`neighbours.rs` of the crate
//! `skillhost-skills`).

use serde_json::{Map, Value};

use super::{Host, ServedTool, string};
use skillhost_sandbox::tool::{CallError, FailureKind, FolderRule, Help, Stop};
use skillhost_skills::catalog::{CallFolder, Catalog, FolderError, Freshness};
use skillhost_skills::guard::PathTarget;
use skillhost_skills::neighbours::{self, WayOut};
use skillhost_skills::skill_md;
use skillhost_skills::text::line::escape_json;
use skillhost_skills::text::suggest;

/// The maximum number of bytes of help. Guards against: file names that fill a model's context.
const MAX_BYTES: usize = 1024;
/// The maximum number of bytes of a name in help. Longer names are omitted.
const MAX_NAME_BYTES: usize = 300;
/// The maximum number of bytes of a skill's name or a path in a call. For longer ones there is no
/// help. Guards against: a path with a hundred thousand names, each of which would be looked up.
const MAX_ASKED_BYTES: usize = 512;
/// The maximum number of skills that help lists if no name is similar. In a larger catalog, help
/// names a tool that finds skills.
const FEW_SKILLS: usize = 12;
/// The maximum number of skills that are compared with a name. In a larger catalog, only those with
/// the same first letter are compared. Guards against: failed calls that are slow because of a
/// large catalog.
const MAX_COMPARED: usize = 1_000;
/// The size in bytes above which SKILL.md may be too large for a tool's answer.
const LARGE_SKILL_MD: u64 = 1 << 20;

/// The tools that find a skill, best first.
const SKILL_FINDERS: [&str; 2] = ["find_skills", "list_skills"];
/// The tool that reads some lines of a file.
pub(super) const LINE_READER: &str = "read_skill_file";
/// The tool that lists the files of a skill.
const FILE_LISTER: &str = "list_files_in_skill";

/// The parts of a failed call that its help is made from.
struct FailedCall<'a> {
    host: &'a Host,
    served: &'a ServedTool,
    rule: &'a FolderRule,
    arguments: &'a Map<String, Value>,
    /// True if the call was stopped because its answer was too large.
    is_too_large: bool,
}

impl Host {
    /// Adds help to the error of a call with these arguments.
    pub(super) fn with_help(
        &self,
        served: &ServedTool,
        arguments: Map<String, Value>,
        mut error: CallError,
    ) -> CallError {
        if served.tool.definition.folder.is_none() {
            return error;
        }
        let (help, is_too_large) = match &mut error {
            CallError::Failed(failure) if failure.kind != FailureKind::Failed => {
                (&mut failure.help, false)
            }
            CallError::Stopped { stop, help, .. } => match stop {
                Stop::NotGranted { .. } => (help, false),
                Stop::Output(_) => (help, true),
                _ => return error,
            },
            _ => return error,
        };
        let (host, tool) = (self.clone(), served.tool.definition.name.clone());
        *help = Help::new(move || {
            let served = host.tool(&tool).ok()?;
            let call = FailedCall {
                host: &host,
                served,
                rule: served.tool.definition.folder.as_ref()?,
                arguments: &arguments,
                is_too_large,
            };
            let help = call.help()?.join("\n");
            (help.len() <= MAX_BYTES).then_some(help)
        });
        error
    }
}

impl FailedCall<'_> {
    fn help(&self) -> Option<Vec<String>> {
        let skill = self.skill();
        let is_long = |asked: &str| asked.len() > MAX_ASKED_BYTES;
        if skill.is_some_and(is_long) || self.path().is_some_and(is_long) {
            return None;
        }
        let ServedTool { tool, terms, .. } = self.served;
        let folder = self
            .host
            .open_granted_folder(tool, self.rule, self.arguments, terms);
        match (folder, skill) {
            (Ok(Ok(open)), _) => self.wrong_path(&self.catalog().for_lists(open)),
            (Ok(Err(FolderError::Unreadable)), _) => None,
            (Ok(Err(_)) | Err(_), Some(skill)) => self.wrong_skill(skill),
            (Ok(Err(_)) | Err(_), None) => self.no_skill(),
        }
    }

    /// Returns help for an unknown skill.
    fn wrong_skill(&self, name: &str) -> Option<Vec<String>> {
        // The model wrote a path instead of a name.
        if name.contains(['/', '\\'])
            && let Some((skill, rest)) = self.skill_in(name)
        {
            let rest = Some(rest).filter(|rest| self.path().is_none() && !rest.is_empty());
            return Some(vec![self.retry_advice(Some(&skill), rest.as_deref())]);
        }
        let names = self.catalog().shared_names(Freshness::Known);
        let known = || names.iter().filter(|name| self.may_read(name));
        let compares_all = known().nth(MAX_COMPARED).is_none();
        let first = name.chars().next().map(|c| c.to_ascii_lowercase());
        let starts_alike =
            |other: &&str| other.chars().next().map(|c| c.to_ascii_lowercase()) == first;
        let compared = known().map(String::as_str);
        let compared = compared.filter(|other| compares_all || starts_alike(other));
        let compared = compared.take(MAX_COMPARED);
        let nearest = suggest::nearest_checked(name, compared, |name| self.is_listed(name));
        if nearest.is_empty() {
            self.skills_advice()
        } else {
            Some(vec![format!(
                "Skills with a similar name: {}",
                list(&nearest, 0)?
            )])
        }
    }

    /// Returns help for a call that names no skill, and whose path is in no folder that the call
    /// may read.
    fn no_skill(&self) -> Option<Vec<String>> {
        let path = self.path().unwrap_or_default();
        if let Some(lines) = self.path_through_skill(path) {
            return Some(lines);
        }
        let mut lines = self.skills_advice()?;
        lines.insert(
            0,
            format!("Give the skill's name as `{}`.", self.rule.skill_property),
        );
        Some(lines)
    }

    /// Returns help for a call that names no skill, but whose path goes through a skill's folder.
    fn path_through_skill(&self, path: &str) -> Option<Vec<String>> {
        let (skill, rest) = self.skill_in(path)?;
        let open = self.open_skill(&skill)?;
        if rest.is_empty() {
            return self.entries(&open, ".");
        }
        let found = if self.is_readable(&open, &rest) {
            Some(rest)
        } else {
            neighbours::nearest(&open.folder, &rest).into_iter().next()
        };
        Some(vec![self.retry_advice(Some(&skill), found.as_deref())])
    }

    /// Returns help for a call whose path cannot be read as a file in the call's folder.
    fn wrong_path(&self, open: &CallFolder) -> Option<Vec<String>> {
        let Some(path) = open.path.as_deref().or_else(|| self.path()) else {
            return self.unusable_skill_md(open);
        };
        let path = match path {
            "" => ".",
            path => path,
        };
        match open.folder.lookup(path.as_ref(), true) {
            Ok(PathTarget::Folder(_)) => self.entries(open, path),
            Ok(PathTarget::File(file)) => {
                (self.is_too_large).then(|| self.too_large(open, path, file.size))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => self
                .outside(open, path)
                .or_else(|| self.missing(open, path)),
            Err(_) => self.missing(open, path),
        }
    }

    /// Returns help for a skill whose SKILL.md is missing or too large.
    fn unusable_skill_md(&self, open: &CallFolder) -> Option<Vec<String>> {
        let Some((name, file)) = skill_md::open(&open.folder).ok()? else {
            return self.entries(open, ".");
        };
        let size = file.metadata().ok()?.len();
        (size > LARGE_SKILL_MD).then(|| self.too_large(open, &name, size))?
    }

    /// Returns help for a path that does not exist.
    fn missing(&self, open: &CallFolder, path: &str) -> Option<Vec<String>> {
        if open.skill.is_none()
            && let Some(lines) = self.path_through_skill(path)
        {
            return Some(lines);
        }
        let nearest = neighbours::nearest(&open.folder, path);
        if !nearest.is_empty() {
            return Some(vec![format!("Nearest paths: {}", list(&nearest, 0)?)]);
        }
        // List the entries of the deepest folder in the path that exists.
        let plain = neighbours::plain(path);
        let mut folder = plain.as_str();
        while let Some((above, _)) = folder.rsplit_once('/') {
            folder = above;
            if let Some(lines) = self.entries(open, folder) {
                return Some(lines);
            }
        }
        self.entries(open, ".")
    }

    /// Returns help for a path that leads out of the call's folder, by `..` or a symlink or because
    /// it is absolute.
    fn outside(&self, open: &CallFolder, path: &str) -> Option<Vec<String>> {
        let found = match neighbours::way_out(&open.folder, path)? {
            WayOut::Absolute(path) => self
                .skill_of_absolute(&path)
                .or_else(|| self.skill_in(&path)),
            WayOut::Beside(path) => {
                let (skill, rest) = path.split_once('/').unwrap_or((&path, "."));
                self.is_readable_skill(skill)
                    .then(|| (skill.to_owned(), rest.to_owned()))
                    .or_else(|| self.skill_in(&path))
            }
        };
        let (skill, rest) = found?;
        let in_same_skill = Some(&skill) == open.skill.as_ref();
        // The name may come from the target of a symlink.
        if !in_same_skill && !self.is_listed(&skill) {
            return None;
        }
        let target = self.open_skill(&skill)?;
        if !self.is_readable(&target, &rest) {
            let nearest = match rest.as_str() {
                "" | "." => Vec::new(),
                rest => neighbours::nearest(&target.folder, rest),
            };
            let path = nearest.first()?;
            return Some(vec![
                self.retry_advice((!in_same_skill).then_some(&*skill), Some(path)),
            ]);
        }
        let mut lines = Vec::new();
        if !in_same_skill {
            lines.push(format!("It is in the skill {}.", quoted(&skill)?));
        }
        lines.push(self.retry_advice((!in_same_skill).then_some(&*skill), Some(&rest)));
        Some(lines)
    }

    /// Returns help that lists the entries of a folder.
    fn entries(&self, open: &CallFolder, path: &str) -> Option<Vec<String>> {
        let entries = neighbours::entries(&open.folder, path)?;
        let subject = match (neighbours::plain(path).as_str(), &open.skill) {
            ("", Some(skill)) => format!("The skill {}", quoted(skill)?),
            ("", None) => "The folder".to_owned(),
            (path, _) => format!("The folder {}", quoted(path)?),
        };
        let mut lines = vec![match list(&entries.names, entries.more) {
            Some(names) => format!("{subject} holds {names}"),
            None => format!("{subject} holds nothing that can be read"),
        }];
        let may_advise = |name| self.served.tool.definition.name != name && self.offers(name, open);
        if entries.more > 0 && may_advise(FILE_LISTER) {
            lines.push(format!("{FILE_LISTER} lists them all"));
        }
        Some(lines)
    }

    /// Returns help for a file that is too large for an answer: how to read a part of it.
    fn too_large(&self, open: &CallFolder, path: &str, size: u64) -> Option<Vec<String>> {
        let skill = open.skill.as_deref()?;
        if !self.offers(LINE_READER, open) {
            return None;
        }
        Some(vec![format!(
            "The file has {size} bytes. {LINE_READER} reads a part of it: \
             {{\"skill_name\": {}, \"path\": {}, \"offset\": 1, \"limit\": 200}}",
            quoted(skill)?,
            quoted(path)?
        )])
    }

    /// Returns the advice to call again with this skill and this path.
    fn retry_advice(&self, skill: Option<&str>, path: Option<&str>) -> String {
        let skill = skill.map(|skill| (Some(&*self.rule.skill_property), skill));
        let path = path.map(|path| (self.rule.path_property.as_deref(), path));
        let given = skill.into_iter().chain(path);
        let given: Vec<String> = given
            .filter_map(|(property, value)| Some(format!("{} {}", property?, quoted(value)?)))
            .collect();
        format!("Call again with {}", given.join(" and "))
    }

    /// Returns a list of the skills if they are few, or else names the tool that finds skills.
    fn skills_advice(&self) -> Option<Vec<String>> {
        let names = self.catalog().shared_names(Freshness::Known);
        let known = names.iter().filter(|name| self.may_read(name));
        let mut names: Vec<String> = known.take(FEW_SKILLS + 1).cloned().collect();
        if names.len() <= FEW_SKILLS {
            names.retain(|name| self.is_listed(name));
            return Some(vec![format!("The skills are {}", list(&names, 0)?)]);
        }
        let served = |tool: &&str| self.host.tool(tool).is_ok();
        let tool = SKILL_FINDERS.into_iter().find(served)?;
        Some(vec![format!("{tool} names the skills")])
    }

    /// Returns the skill that a path goes through, and the rest of the path inside the skill. If
    /// several names in the path are skills, takes the last: a folder above the skills may have the
    /// same name as a skill.
    fn skill_in(&self, path: &str) -> Option<(String, String)> {
        let path = neighbours::plain(path);
        let names: Vec<&str> = path.split('/').collect();
        let at = names
            .iter()
            .rposition(|name| self.is_readable_skill(name))?;
        Some((names[at].to_owned(), names[at + 1..].join("/")))
    }

    /// Returns the skill of an absolute path, and the rest of the path inside the skill.
    fn skill_of_absolute(&self, path: &str) -> Option<(String, String)> {
        let hard_links = self.served.terms.hard_links;
        let sees = |skill: &str| self.is_readable_skill(skill);
        let open = self.catalog().folder_of_path(path, hard_links, sees).ok()?;
        Some((open.skill?, open.path?))
    }

    /// Opens the folder of a skill, if the grant allows it.
    fn open_skill(&self, skill: &str) -> Option<CallFolder> {
        let terms = &self.served.terms;
        let allowed = self.may_read(skill);
        let opened = allowed.then(|| self.catalog().skill(skill, terms.hard_links));
        Some(self.catalog().for_lists(opened?.ok()?))
    }

    fn is_readable(&self, open: &CallFolder, path: &str) -> bool {
        open.folder.lookup(path.as_ref(), true).is_ok()
    }

    /// Returns whether the tool's grant and the caller's scope allow a skill.
    fn may_read(&self, skill: &str) -> bool {
        self.host.may_read(&self.served.terms, skill)
    }

    /// Returns whether help may name a skill that the call did not name.
    fn is_listed(&self, skill: &str) -> bool {
        self.catalog().read_listed(skill).is_some()
    }

    /// Returns whether a skill exists and the grant allows it.
    fn is_readable_skill(&self, skill: &str) -> bool {
        self.may_read(skill) && self.catalog().has(skill)
    }

    /// Returns whether a built-in tool is served and may read the skill of this folder.
    fn offers(&self, tool: &str, open: &CallFolder) -> bool {
        let skill = open.skill.as_deref();
        self.host.tool(tool).is_ok_and(|served| {
            served.quota.is_built_in && skill.is_some_and(|skill| served.terms.skills.allow(skill))
        })
    }

    /// Returns the name of a skill in the call's arguments, if there is one.
    fn skill(&self) -> Option<&str> {
        string(self.arguments, &self.rule.skill_property).filter(|skill| {
            // If the tool needs no skill, an empty name means no skill.
            !(skill.is_empty() && self.rule.skill_optional)
        })
    }

    /// Returns the path in the call's arguments, if there is one.
    fn path(&self) -> Option<&str> {
        string(self.arguments, self.rule.path_property.as_deref()?)
    }

    fn catalog(&self) -> &Catalog {
        &self.host.0.catalog
    }
}

/// Returns a name as a JSON string without hidden characters. Returns `None` if it is too
/// long.
fn quoted(name: &str) -> Option<String> {
    let quoted = escape_json(&Value::from(name).to_string());
    (quoted.len() <= MAX_NAME_BYTES).then_some(quoted)
}

/// Returns a list of as many names as fit, and then the number of names that the list lacks.
/// `omitted` is added to this number. Returns `None` if no name fits.
fn list(names: &[String], omitted: usize) -> Option<String> {
    const MAX_LIST_BYTES: usize = MAX_BYTES - 2 * MAX_NAME_BYTES;
    let mut list = String::new();
    let mut listed = 0;
    for name in names.iter().filter_map(|name| quoted(name)) {
        if list.len() + name.len() > MAX_LIST_BYTES {
            break;
        }
        list.push_str(if listed > 0 { ", " } else { "" });
        list.push_str(&name);
        listed += 1;
    }
    match (listed, omitted + names.len() - listed) {
        (0, _) => None,
        (_, 0) => Some(list),
        (_, more) => Some(format!("{list} and {more} more")),
    }
}
