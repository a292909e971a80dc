//! Updates the index: reads the skills that have changed in a catalog.
//!
//! The thread that runs updates is in `worker.rs`.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use skillhost::frontmatter::MAX_FRONTMATTER_BYTES;
use skillhost::{Catalog, DocumentStamp};

use crate::fields::{DocumentPart, FieldReader, SkillFields};
use crate::report::IndexReport;
use crate::store::{Extent, IndexedSkill, Store};
use crate::{Content, Shared};

/// The maximum number of bytes of a SKILL.md that are read: the largest frontmatter, and as many
/// bytes of the body. Guards against: files of gigabytes.
const MAX_DOCUMENT_BYTES: u64 = 128 * 1024;

/// A full index is compacted if the text of removed skills takes more than 1 / `DEAD_TEXT_DIVISOR`
/// of its bytes. Guards against: compacting a full index again at each change.
const DEAD_TEXT_DIVISOR: usize = 8;

/// The part of [`IndexLimits::skills`] by which changed skills may exceed it. An index that takes no
/// new skills thus keeps those that change a little.
const CHANGED_DIVISOR: usize = 8;

/// The sizes at which an index is full. Guards against: a catalog that fills the memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexLimits {
    /// The size in bytes at which no more bodies are added. The bytes up to `skills` are for names
    /// and descriptions.
    pub(crate) bodies: usize,
    /// The size in bytes at which no more skills are added.
    pub(crate) skills: usize,
}

impl IndexLimits {
    /// Returns the size in bytes that an index with changed skills may have.
    pub(crate) fn with_changes(&self) -> usize {
        self.skills + self.skills / CHANGED_DIVISOR
    }
}

impl Default for IndexLimits {
    fn default() -> Self {
        Self {
            bodies: 56 << 20,
            skills: 72 << 20,
        }
    }
}

/// A pass of an update over all changed skills. Names and descriptions come before the
/// first body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Descriptions,
    Bodies,
}

/// A skill to read.
struct Change<'a> {
    name: &'a str,
    stamp: Option<DocumentStamp>,
}

/// Reads the skills that have changed. Returns `false` if `is_stopped` ended the update
/// early: the next update reads the rest.
pub(crate) fn update(shared: &Shared, catalog: &Catalog, is_stopped: &dyn Fn() -> bool) -> bool {
    shared.load();
    let names = catalog.names();
    remove_missing(shared, &names);
    let mut changes = Vec::new();
    for name in &names {
        if is_stopped() {
            return false;
        }
        let stamp = catalog.document_stamp(name).unwrap_or(None);
        let change = Change { name, stamp };
        if must_read(shared, &change) {
            changes.push(change);
        }
    }

    let mut reader = FieldReader::new();
    // Two passes even for few changes: a caller who may see few skills must not learn how many
    // others have changed.
    for pass in [Pass::Descriptions, Pass::Bodies] {
        for change in &changes {
            if is_stopped() {
                return false;
            }
            read_skill(shared, catalog, &mut reader, change, pass);
        }
        shared.write().has_descriptions = true;
    }
    report_update(shared, &names);
    shared.save(SystemTime::now());
    true
}

/// Removes the skills that are no longer in the catalog.
fn remove_missing(shared: &Shared, names: &[String]) {
    let present: HashSet<&str> = names.iter().map(String::as_str).collect();
    let missing: Vec<String> = {
        let content = shared.read();
        let names = content.store.names();
        let missing = names.filter(|name| !present.contains(name));
        missing.map(str::to_owned).collect()
    };
    if !missing.is_empty() {
        let mut content = shared.write();
        for name in missing {
            content.store.remove(&name);
        }
    }
}

/// Returns whether a skill must be read: it is new, it has changed, an earlier update was stopped
/// before it read the body, or its body now fits into the index.
fn must_read(shared: &Shared, change: &Change<'_>) -> bool {
    let content = shared.read();
    match content.store.get(change.name) {
        Some(indexed) if indexed.stamp == change.stamp => match indexed.extent {
            Extent::Pending => true,
            Extent::Description => content.store.bytes() < shared.limits.bodies,
            Extent::All | Extent::Start | Extent::Unreadable | Extent::Unlisted => false,
        },
        _ => true,
    }
}

/// Reads a skill as far as the pass and the limits allow, and adds it to the index.
fn read_skill(
    shared: &Shared,
    catalog: &Catalog,
    reader: &mut FieldReader,
    change: &Change<'_>,
    pass: Pass,
) {
    let name = change.name;
    compact_if_full(shared);
    let (bytes, bytes_before, is_new, is_current) = {
        let content = shared.read();
        let indexed = content.store.get(name);
        let is_current = indexed.is_some_and(|indexed| indexed.stamp == change.stamp);
        let (bytes, live_bytes) = (content.store.bytes(), live_bytes(&content.store));
        (bytes, live_bytes, indexed.is_none(), is_current)
    };
    if is_new && bytes_before >= shared.limits.skills {
        return;
    }
    let mut part = if pass == Pass::Bodies && bytes < shared.limits.bodies {
        DocumentPart::All
    } else {
        DocumentPart::Description
    };
    if part == DocumentPart::Description && is_current {
        if pass == Pass::Bodies {
            shared.write().store.leave_out_body(name);
        }
        return;
    }
    let mut result = catalog.document(name, max_bytes(part));
    let has_bad_body = part == DocumentPart::All
        && matches!(&result, Ok(Some(document)) if document.text.is_err());
    if has_bad_body {
        // Lists read only the part with the description. If that is UTF-8, they have the skill, so
        // the index needs it too.
        part = DocumentPart::Description;
        result = catalog.document(name, max_bytes(part));
    }
    let document = result.as_ref().ok().and_then(Option::as_ref);
    let text = document.map_or(Ok(""), |document| document.text.as_deref());
    let fields = match text {
        Ok(text) => reader.read(name, text, part),
        Err(_) => SkillFields::unlisted(),
    };
    let extent = match (&result, part) {
        _ if fields.is_unlisted => Extent::Unlisted,
        (Err(_), _) => Extent::Unreadable,
        (Ok(Some(_)), _) if has_bad_body => Extent::Start,
        (Ok(Some(_)), DocumentPart::Description) if pass == Pass::Descriptions => Extent::Pending,
        (Ok(Some(_)), DocumentPart::Description) => Extent::Description,
        (Ok(Some(document)), _) if fields.is_cut || document.size > max_bytes(part) => {
            Extent::Start
        }
        (Ok(_), _) => Extent::All,
    };
    let skill = IndexedSkill {
        name: name.into(),
        display_text: fields.display_text.as_str().into(),
        stamp: document.map(|document| document.stamp),
        extent,
    };
    {
        let store = &mut shared.write().store;
        store.insert(skill, &fields);
        // The new version of a skill can be much larger than the old one.
        let limit = shared.limits.with_changes();
        if !is_new && live_bytes(store) > limit.max(bytes_before) {
            store.remove(name);
        }
    }
    shared.count_unsaved();
}

/// Returns the maximum number of bytes of a SKILL.md to read.
fn max_bytes(part: DocumentPart) -> u64 {
    match part {
        DocumentPart::Description => MAX_FRONTMATTER_BYTES as u64 + 1024,
        DocumentPart::All => MAX_DOCUMENT_BYTES,
    }
}

/// Returns the bytes of the skills' text without that of removed skills, which [`compact_if_full`]
/// limits.
fn live_bytes(store: &Store) -> usize {
    store.bytes().saturating_sub(store.dead_bytes())
}

/// Compacts a full index, unless the text of removed skills takes little of it.
fn compact_if_full(shared: &Shared) {
    let (bytes, dead_bytes) = {
        let content = shared.read();
        (content.store.bytes(), content.store.dead_bytes())
    };
    if bytes >= shared.limits.bodies && dead_bytes * DEAD_TEXT_DIVISOR > bytes {
        shared.write().store.compact();
    }
}

/// Reports on an update that has read all skills. Logs the report if it does not list the same
/// omitted skills as the previous one.
fn report_update(shared: &Shared, names: &[String]) {
    let mut report = IndexReport::default();
    {
        let content = shared.read();
        for name in names {
            match content.store.get(name).map(|skill| skill.extent) {
                Some(Extent::All | Extent::Unlisted) => {}
                Some(Extent::Start) => report.truncated.add(name),
                Some(Extent::Description | Extent::Pending) => report.without_body.add(name),
                Some(Extent::Unreadable) => report.unreadable.add(name),
                None => report.left_out.add(name),
            }
        }
        report.skills = content.store.len();
        report.bytes = content.store.bytes();
    }
    let previous = std::mem::replace(&mut shared.write().report, report.clone());
    if !report.has_same_omissions(&previous) {
        report.log();
    }
}

impl Shared {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Content> {
        let content = self.content.read();
        content.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Content> {
        let content = self.content.write();
        content.unwrap_or_else(PoisonError::into_inner)
    }
}
