//! An update: the index reads what has changed in a catalog. Not here: the thread that
//! does it.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use skillhost::frontmatter::MAX_FRONTMATTER_BYTES;
use skillhost::{Catalog, DocumentStamp};

use crate::fields::{FieldReader, Part};
use crate::report::IndexReport;
use crate::store::{Extent, IndexedSkill};
use crate::{Content, Shared};

/// Most bytes of a SKILL.md that are read: the most of a frontmatter, and as much of the
/// body. Guards against: files of gigabytes.
const MAX_DOCUMENT: u64 = 128 * 1024;

/// A full index removes dead text if that is more than this part of it. Guards against: an
/// index without room that is compacted again at every change.
const DEAD_PART: usize = 8;

/// The sizes at which an index takes no more. Guards against: a catalog that fills the
/// memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// The bytes at which it takes no more bodies. Names and descriptions take the rest.
    pub(crate) bodies: usize,
    /// The bytes at which it takes no more skills.
    pub(crate) skills: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            bodies: 56 << 20,
            skills: 72 << 20,
        }
    }
}

/// An update reads each changed skill twice: all names and descriptions come before the
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

/// Reads what has changed. Returns false if `stopped` ended it early: another update reads
/// the rest.
pub(crate) fn update(shared: &Shared, catalog: &Catalog, stopped: &dyn Fn() -> bool) -> bool {
    shared.load();
    let names = catalog.names();
    remove_gone(shared, &names);
    let mut changes = Vec::new();
    for name in &names {
        if stopped() {
            return false;
        }
        let stamp = catalog.document_stamp(name).unwrap_or(None);
        let change = Change { name, stamp };
        if is_change(shared, &change) {
            changes.push(change);
        }
    }

    let mut reader = FieldReader::new();
    // Also for few changes: how many there are must not show to an asker who may see few.
    for pass in [Pass::Descriptions, Pass::Bodies] {
        for change in &changes {
            if stopped() {
                return false;
            }
            read_skill(shared, catalog, &mut reader, change, pass);
        }
        shared.write().has_descriptions = true;
    }
    end(shared, &names);
    shared.save(SystemTime::now());
    true
}

fn remove_gone(shared: &Shared, names: &[String]) {
    let present: HashSet<&str> = names.iter().map(String::as_str).collect();
    let gone: Vec<String> = {
        let content = shared.read();
        let gone = content.store.names().filter(|name| !present.contains(name));
        gone.map(str::to_owned).collect()
    };
    if !gone.is_empty() {
        let mut content = shared.write();
        for name in gone {
            content.store.remove(&name);
        }
    }
}

/// Returns whether a skill must be read: it is new, it has changed, or there is room for
/// its body now.
fn is_change(shared: &Shared, change: &Change<'_>) -> bool {
    let content = shared.read();
    match content.store.get(change.name) {
        Some(known) if known.stamp == change.stamp => match known.extent {
            Extent::Pending => true,
            Extent::Description => content.store.bytes() < shared.room.bodies,
            Extent::All | Extent::Start | Extent::Unreadable => false,
        },
        _ => true,
    }
}

fn read_skill(
    shared: &Shared,
    catalog: &Catalog,
    reader: &mut FieldReader,
    change: &Change<'_>,
    pass: Pass,
) {
    let name = change.name;
    make_room(shared);
    let (bytes, is_new, is_same) = {
        let content = shared.read();
        let known = content.store.get(name);
        let is_same = known.is_some_and(|known| known.stamp == change.stamp);
        (content.store.bytes(), known.is_none(), is_same)
    };
    if is_new && bytes >= shared.room.skills {
        return;
    }
    let part = if pass == Pass::Bodies && bytes < shared.room.bodies {
        Part::All
    } else {
        Part::Description
    };
    if part == Part::Description && is_same {
        if pass == Pass::Bodies {
            shared.write().store.leave_out_body(name);
        }
        return;
    }
    let most = match part {
        Part::Description => MAX_FRONTMATTER_BYTES as u64 + 1024,
        Part::All => MAX_DOCUMENT,
    };
    let document = catalog.document(name, most);
    let text = document.as_ref().ok().and_then(Option::as_ref);
    let fields = reader.read(name, text.map_or("", |document| &document.text), part);
    let extent = match (&document, part) {
        (Err(_), _) => Extent::Unreadable,
        (Ok(Some(_)), Part::Description) if pass == Pass::Descriptions => Extent::Pending,
        (Ok(Some(_)), Part::Description) => Extent::Description,
        (Ok(Some(document)), _) if fields.cut || document.size > most => Extent::Start,
        (Ok(_), _) => Extent::All,
    };
    let skill = IndexedSkill {
        name: name.into(),
        shown: fields.shown.as_str().into(),
        stamp: text.map(|document| document.stamp),
        extent,
    };
    shared.write().store.insert(skill, &fields);
    shared.note_read();
}

/// Removes the dead text of a full index, if that is much.
fn make_room(shared: &Shared) {
    let store = |content: &Content| (content.store.bytes(), content.store.dead_bytes());
    let (bytes, dead_bytes) = store(&shared.read());
    if bytes >= shared.room.bodies && dead_bytes * DEAD_PART > bytes {
        shared.write().store.compact();
    }
}

/// Ends an update: all names have been read.
fn end(shared: &Shared, names: &[String]) {
    let mut report = IndexReport::default();
    {
        let content = shared.read();
        for name in names {
            match content.store.get(name).map(|skill| skill.extent) {
                Some(Extent::All) => {}
                Some(Extent::Start) => report.cut.add(name),
                Some(Extent::Description | Extent::Pending) => report.without_body.add(name),
                Some(Extent::Unreadable) => report.unreadable.add(name),
                None => report.left_out.add(name),
            }
        }
    }
    let mut content = shared.write();
    report.skills = content.store.len();
    report.bytes = content.store.bytes();
    let before = std::mem::replace(&mut content.report, report.clone());
    drop(content);
    if !report.leaves_out_the_same(&before) {
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
