//! Folders of a view: their own entries, merged with the entries of a folder on the disk, except
//! those that the view hides.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::budget::{BudgetCharge, ViewBudget};
use super::file::{FileNode, errno};
use super::link::LinkNode;
use super::node::{NodeId, NodeStatus, Times, Timestamp, lock};
use skillhost_skills::descriptors::DescriptorLease;
use skillhost_skills::entries::ListedEntries;
use skillhost_skills::guard::FileStatus;

/// A file, folder or link of a view.
#[derive(Clone)]
pub(super) enum Node {
    File(Arc<FileNode>),
    Folder(Arc<FolderNode>),
    Link(Arc<LinkNode>),
}

/// A folder in a view.
pub(crate) struct FolderNode {
    pub(super) id: NodeId,
    state: Mutex<FolderState>,
    charge: BudgetCharge,
}

struct FolderState {
    /// The path of the underlying folder on the disk, inside the call's folder. `None` if the disk
    /// has no such folder.
    disk: Option<PathBuf>,
    entries: BTreeMap<String, FolderEntry>,
    /// The names on the disk that the view has removed or replaced.
    hidden: BTreeMap<String, BudgetCharge>,
    /// The parent. Empty for the call's folder, `/tmp` and removed folders.
    parent: Weak<FolderNode>,
    is_removed: bool,
    times: Times,
}

struct FolderEntry {
    node: Node,
    /// True if the disk has the entry under this name.
    is_on_disk: bool,
    _charge: BudgetCharge,
}

/// A listing in progress. Entries that exist during the whole listing are listed once, even if
/// the folder changes meanwhile.
pub(crate) struct FolderListing {
    folder: Arc<FolderNode>,
    /// The last listed name of the view's own entries.
    last: Option<String>,
    /// True once all entries that only the view has are listed.
    is_past_own: bool,
    disk: Option<(ListedEntries, DescriptorLease)>,
}

impl Node {
    /// Changes the number of hard links.
    pub(super) fn add_links(&self, more: i64) {
        let add = |links: &mut u64, times: &mut Times| {
            *links = links.saturating_add_signed(more);
            times.touch_status();
        };
        match self {
            Self::File(file) => file.change_links(add),
            Self::Link(link) => link.change_links(add),
            Self::Folder(folder) => folder.touch_status(),
        }
    }

    pub(super) fn kind(&self) -> FileType {
        match self {
            Self::File(_) => FileType::RegularFile,
            Self::Folder(_) => FileType::Directory,
            Self::Link(_) => FileType::Symlink,
        }
    }
}

impl FolderNode {
    /// Creates an empty folder.
    pub(super) fn empty(charge: BudgetCharge) -> Arc<Self> {
        Self::new(NodeId::new(), None, Times::new(), charge)
    }

    /// Creates the node of a folder on the disk.
    pub(super) fn on_disk(status: &FileStatus, path: PathBuf, charge: BudgetCharge) -> Arc<Self> {
        Self::new(NodeId::of(status), Some(path), Times::default(), charge)
    }

    fn new(id: NodeId, disk: Option<PathBuf>, times: Times, charge: BudgetCharge) -> Arc<Self> {
        Arc::new(Self {
            id,
            state: Mutex::new(FolderState {
                disk,
                entries: BTreeMap::new(),
                hidden: BTreeMap::new(),
                parent: Weak::new(),
                is_removed: false,
                times,
            }),
            charge,
        })
    }

    pub(super) fn budget(&self) -> &Arc<ViewBudget> {
        self.charge.budget()
    }

    /// Returns the path of the underlying folder on the disk.
    pub(super) fn disk_path(&self) -> Option<PathBuf> {
        lock(&self.state).disk.clone()
    }

    /// Returns the disk's path of a name, unless the name is hidden.
    pub(super) fn disk_path_of(&self, name: &str) -> Option<PathBuf> {
        let state = lock(&self.state);
        if state.hidden.contains_key(name) {
            None
        } else {
            Some(state.disk.as_ref()?.join(name))
        }
    }

    /// Returns the view's own entry with a name.
    pub(super) fn entry(&self, name: &str) -> Option<Node> {
        let state = lock(&self.state);
        Some(state.entries.get(name)?.node.clone())
    }

    /// Returns the view's own entries.
    pub(super) fn entries(&self) -> Vec<(String, Node)> {
        let state = lock(&self.state);
        let entries = state.entries.iter();
        let pair = |(name, entry): (&String, &FolderEntry)| (name.clone(), entry.node.clone());
        entries.map(pair).collect()
    }

    /// Returns the view's own entry that follows a name.
    pub(super) fn entry_after(&self, name: &str) -> Option<(String, Node)> {
        let state = lock(&self.state);
        let (name, entry) = state.entries.range::<str, _>(after(name)).next()?;
        Some((name.clone(), entry.node.clone()))
    }

    /// Returns the hidden name that follows a name.
    pub(super) fn hidden_after(&self, name: &str) -> Option<String> {
        let state = lock(&self.state);
        let (name, _) = state.hidden.range::<str, _>(after(name)).next()?;
        Some(name.clone())
    }

    /// Adds the node of an entry that the disk has under this name.
    pub(super) fn intern(self: &Arc<Self>, name: &str, node: Node) -> Result<(), Errno> {
        let charge = self.budget().charge_entry(name)?;
        self.insert(name, node, true, charge);
        Ok(())
    }

    /// Adds a node under an unused name. `charge` is the charge for the entry.
    pub(super) fn attach(self: &Arc<Self>, name: &str, node: Node, charge: BudgetCharge) {
        self.insert(name, node, false, charge);
        self.touch();
    }

    fn insert(self: &Arc<Self>, name: &str, node: Node, is_on_disk: bool, charge: BudgetCharge) {
        if let Node::Folder(folder) = &node {
            lock(&folder.state).parent = Arc::downgrade(self);
        }
        let entry = FolderEntry {
            node,
            is_on_disk,
            _charge: charge,
        };
        lock(&self.state).entries.insert(name.to_owned(), entry);
    }

    /// Removes a name and returns its node. `charge` is the charge for hiding the disk's entry.
    pub(super) fn detach(&self, name: &str, charge: BudgetCharge) -> Option<Node> {
        let mut state = lock(&self.state);
        let entry = state.entries.remove(name);
        let is_on_disk = entry.as_ref().is_none_or(|entry| entry.is_on_disk);
        if is_on_disk && state.disk.is_some() {
            state.hidden.entry(name.to_owned()).or_insert(charge);
        }
        state.times.touch();
        entry.map(|entry| entry.node)
    }

    /// Marks the folder as removed, so that nothing can be created in it.
    pub(super) fn remove(&self, status: &NodeStatus) {
        self.detach_from_disk(status);
        let mut state = lock(&self.state);
        state.is_removed = true;
        state.parent = Weak::new();
    }

    /// Detaches the folder from the disk. It then only has its own entries.
    pub(super) fn detach_from_disk(&self, status: &NodeStatus) {
        let mut state = lock(&self.state);
        state.disk = None;
        state.hidden.clear();
        state.times = Times::of(status);
    }

    pub(super) fn is_removed(&self) -> bool {
        lock(&self.state).is_removed
    }

    /// Returns this folder and its ancestors, nearest first.
    pub(super) fn ancestors(self: &Arc<Self>) -> impl Iterator<Item = Arc<Self>> + use<> {
        let parent = |folder: &Arc<Self>| lock(&folder.state).parent.upgrade();
        std::iter::successors(Some(Arc::clone(self)), parent)
    }

    /// Returns the depth: the number of ancestors.
    pub(super) fn depth(self: &Arc<Self>) -> usize {
        self.ancestors().count() - 1
    }

    pub(super) fn touch(&self) {
        lock(&self.state).times.touch();
    }

    pub(super) fn touch_status(&self) {
        lock(&self.state).times.touch_status();
    }

    pub(super) fn set_times(&self, accessed: Option<Timestamp>, modified: Option<Timestamp>) {
        lock(&self.state).times.set(accessed, modified);
    }

    /// Returns the status. `on_disk` reads the status of the disk's folder.
    pub(super) fn status(
        &self,
        on_disk: impl FnOnce(PathBuf) -> Result<FileStatus, Errno>,
    ) -> Result<NodeStatus, Errno> {
        let (disk, times) = {
            let state = lock(&self.state);
            (state.disk.clone(), state.times)
        };
        let Some(path) = disk else {
            return Ok(NodeStatus::in_memory(
                self.id,
                FileType::Directory,
                1,
                0,
                times,
            ));
        };
        let status = NodeStatus::from(on_disk(path)?);
        Ok(NodeStatus {
            id: self.id,
            ..status.with_times(times)
        })
    }
}

impl FolderListing {
    /// Starts a listing. `disk` has the entries of the folder on the disk.
    pub(super) fn new(
        folder: Arc<FolderNode>,
        disk: Option<(ListedEntries, DescriptorLease)>,
    ) -> Self {
        Self {
            folder,
            last: None,
            is_past_own: false,
            disk,
        }
    }

    /// Reads one entry. Returns `None` at the end, and `Some(None)` for an entry of the disk that
    /// listings omit or the view hides. Guards against: a million hidden entries in one host call.
    pub(crate) fn step(&mut self) -> Result<Option<Option<(String, FileType)>>, Errno> {
        if !self.is_past_own {
            let own = self.next_own_entry();
            if own.is_some() {
                return Ok(Some(own));
            }
            self.is_past_own = true;
        }
        let Some((disk, _)) = &mut self.disk else {
            return Ok(None);
        };
        let Some(step) = disk.next() else {
            return Ok(None);
        };
        let Some(entry) = step.map_err(|error| errno(&error))? else {
            return Ok(Some(None));
        };
        let name = entry.name.into_string().map_err(|_| Errno::ILSEQ)?;
        let state = lock(&self.folder.state);
        let is_listed = match state.entries.get(&name) {
            Some(own) => own.is_on_disk,
            None => state.disk.is_some() && !state.hidden.contains_key(&name),
        };
        Ok(Some(is_listed.then_some((name, entry.kind))))
    }

    /// Returns the next of the view's own entries that the disk does not list.
    fn next_own_entry(&mut self) -> Option<(String, FileType)> {
        let state = lock(&self.folder.state);
        let from = match &self.last {
            Some(last) => Bound::Excluded(last.as_str()),
            None => Bound::Unbounded,
        };
        let mut rest = state.entries.range::<str, _>((from, Bound::Unbounded));
        let is_only_in_view = |entry: &FolderEntry| !(entry.is_on_disk && self.disk.is_some());
        let (name, entry) = rest.find(|(_, entry)| is_only_in_view(entry))?;
        let next = (name.clone(), entry.node.kind());
        drop(state);
        self.last = Some(next.0.clone());
        Some(next)
    }
}

fn after(name: &str) -> (Bound<&str>, Bound<&str>) {
    (Bound::Excluded(name), Bound::Unbounded)
}
