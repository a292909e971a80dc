//! The budget of a view: how many bytes and files it may have, and how deeply its folders may
//! nest. Bytes also count against the memory that calls share.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::io::Errno;

use crate::engine::CallQuota;
use crate::tool::limits::Limits;

/// The bytes charged for a file, folder or link besides its content. Guards against: a
/// million empty files.
const NODE_BYTES: usize = 512;

/// The bytes charged for an entry of a folder besides its name. Guards against: a million
/// names.
const ENTRY_BYTES: usize = 160;

/// The limits of a view, and its current use.
pub(super) struct ViewBudget {
    quota: Arc<CallQuota>,
    /// The tool's name, for the log.
    tool: Arc<str>,
    bytes: AtomicUsize,
    max_bytes: usize,
    files: AtomicUsize,
    max_files: usize,
    /// The maximum depth of a folder.
    pub(super) max_depth: usize,
    /// True once the log says which limit the guest reached.
    is_reported: AtomicBool,
}

/// A lease on a part of the budget. Ends on drop.
pub(super) struct BudgetCharge {
    budget: Arc<ViewBudget>,
    bytes: usize,
    files: usize,
}

impl ViewBudget {
    pub(super) fn new(limits: &Limits, quota: &Arc<CallQuota>, tool: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            quota: Arc::clone(quota),
            tool,
            bytes: AtomicUsize::new(0),
            max_bytes: limits.view_bytes,
            files: AtomicUsize::new(0),
            max_files: limits.view_files,
            max_depth: limits.view_depth,
            is_reported: AtomicBool::new(false),
        })
    }

    /// Charges a file, folder or link.
    pub(super) fn charge_node(self: &Arc<Self>) -> Result<BudgetCharge, Errno> {
        if !try_add(&self.files, 1, self.max_files) {
            return Err(self.refuse("view_files", Errno::NOSPC));
        }
        let mut charge = self.empty_charge();
        charge.files = 1;
        charge.grow(NODE_BYTES)?;
        Ok(charge)
    }

    /// Charges a file or folder on the disk, and its path.
    pub(super) fn charge_disk_node(self: &Arc<Self>, path: &Path) -> Result<BudgetCharge, Errno> {
        let mut charge = self.charge_node()?;
        charge.grow(path.as_os_str().len())?;
        Ok(charge)
    }

    /// Returns an empty charge, for nodes that every view has.
    pub(super) fn empty_charge(self: &Arc<Self>) -> BudgetCharge {
        BudgetCharge {
            budget: Arc::clone(self),
            bytes: 0,
            files: 0,
        }
    }

    /// Charges an entry of a folder.
    pub(super) fn charge_entry(self: &Arc<Self>, name: &str) -> Result<BudgetCharge, Errno> {
        self.charge_bytes(ENTRY_BYTES + name.len())
    }

    /// Charges bytes.
    pub(super) fn charge_bytes(self: &Arc<Self>, bytes: usize) -> Result<BudgetCharge, Errno> {
        let mut charge = self.empty_charge();
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// Checks the depth of a folder. The call's folder and `/tmp` have depth 0.
    pub(super) fn check_depth(&self, depth: usize) -> Result<(), Errno> {
        if depth <= self.max_depth {
            Ok(())
        } else {
            Err(self.refuse("view_depth", Errno::NAMETOOLONG))
        }
    }

    /// Logs the first limit that the guest reaches. The guest only gets an error number.
    fn refuse(&self, key: &str, error: Errno) -> Errno {
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::info!(
                tool = &*self.tool,
                "a call's view reached the limit `{key}`"
            );
        }
        error
    }
}

impl BudgetCharge {
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Errno> {
        let budget = &self.budget;
        if !try_add(&budget.bytes, bytes, budget.max_bytes) {
            return Err(budget.refuse("view_bytes", Errno::NOSPC));
        }
        if !budget.quota.take_memory(bytes) {
            budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(budget.refuse("calls_memory", Errno::NOSPC));
        }
        self.bytes += bytes;
        Ok(())
    }

    pub(super) fn shrink(&mut self, bytes: usize) {
        self.budget.quota.give_memory_back(bytes);
        self.budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }

    pub(super) fn budget(&self) -> &Arc<ViewBudget> {
        &self.budget
    }
}

impl Drop for BudgetCharge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
        self.budget.files.fetch_sub(self.files, Ordering::Relaxed);
    }
}

/// Adds a number, unless the sum exceeds the maximum. Returns whether it was added.
fn try_add(to: &AtomicUsize, more: usize, max: usize) -> bool {
    let order = Ordering::Relaxed;
    let sum = |now: usize| now.checked_add(more).filter(|sum| *sum <= max);
    to.fetch_update(order, order, sum).is_ok()
}
