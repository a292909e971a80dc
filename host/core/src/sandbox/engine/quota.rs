//! What all calls have together, and how much of it a group of them may take:
//! slots to run in, places to wait in, and linear memory. A call counts in
//! every group that it belongs to: its tool's, that of all tools that are not
//! built in, and that of all tools.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use crate::tool::limits::Load;

/// One part in so many of slots, places and memory is for built-in tools
/// alone. Meets: strangers' tools that take all there is, of which an agent
/// then can read no skill.
const BUILT_IN: u32 = 8;

/// One part in so many is what a tool may take, where the operator does not
/// say. Meets: a tool that keeps all others waiting.
const TOOL: u32 = 4;

/// How much a group may take.
#[derive(Debug, Clone, Copy)]
struct Size {
    slots: u32,
    places: u32,
    memory: usize,
}

/// Calls that have so much together.
#[derive(Debug)]
struct Group {
    slots: Semaphore,
    places: Semaphore,
    /// Bytes of linear memory that they have, and the most.
    memory: AtomicUsize,
    most_memory: AtomicUsize,
    size: Size,
}

/// All groups.
#[derive(Debug)]
pub(super) struct Quotas {
    all: Arc<Group>,
    strangers: Arc<Group>,
    tools: Mutex<HashMap<String, Arc<Group>>>,
    tool: Size,
}

/// The groups that calls of one tool belong to, the smallest first.
#[derive(Debug)]
pub(crate) struct Quota {
    groups: Vec<Arc<Group>>,
    /// Whether the tool comes with the host.
    pub(crate) built_in: bool,
}

/// The slots of one call, given back when this goes.
#[derive(Debug)]
pub(super) struct Slots {
    quota: Arc<Quota>,
    weight: u32,
    /// How many of the groups have given theirs so far.
    groups: usize,
}

impl Size {
    /// So many parts of all slots, with the same proportion of all else.
    fn part(self, slots: u32) -> Self {
        let whole = u64::from(self.slots.max(1));
        let places = (u64::from(self.places) * u64::from(slots)).div_ceil(whole);
        let memory = self.memory as u128 * u128::from(slots) / u128::from(whole);
        Self {
            slots,
            places: u32::try_from(places).unwrap_or(self.places),
            memory: usize::try_from(memory).unwrap_or(self.memory),
        }
    }
}

impl Group {
    fn new(size: Size) -> Arc<Self> {
        Arc::new(Self {
            slots: Semaphore::new(size.slots as usize),
            places: Semaphore::new(size.places as usize),
            memory: AtomicUsize::new(0),
            most_memory: AtomicUsize::new(size.memory),
            size,
        })
    }

    fn take_memory(&self, bytes: usize) -> bool {
        let most = self.most_memory.load(Ordering::Relaxed);
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= most);
        let order = Ordering::Relaxed;
        self.memory.fetch_update(order, order, more).is_ok()
    }

    fn give_memory_back(&self, bytes: usize) {
        self.memory.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Quotas {
    /// What there is, and its parts. `memory` is that of all calls together.
    pub(super) fn new(load: &Load, memory: usize) -> Self {
        let all = Size {
            slots: load.calls,
            places: load.queue,
            memory,
        };
        let strangers = all.part(load.calls - built_in(load.calls));
        let tool = load.calls_per_tool.unwrap_or(load.calls / TOOL);
        Self {
            all: Group::new(all),
            strangers: Group::new(strangers),
            tools: Mutex::default(),
            tool: all.part(tool.clamp(1, strangers.slots)),
        }
    }

    /// Most slots that a call of a tool that is not built in can have.
    pub(super) fn most_slots(&self) -> u32 {
        self.strangers.size.slots
    }

    /// Calls of one tool that run at a time.
    pub(super) fn calls_per_tool(&self) -> u32 {
        self.tool.slots
    }

    /// The quota of the tool of this name, whichever hosts have it. One call of
    /// it may have as much memory as its own limit says.
    pub(super) fn of_tool(&self, name: &str, built_in: bool, limit: usize) -> Arc<Quota> {
        let mut tools = self
            .tools
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        // Those of tools that are gone.
        tools.retain(|_, tool| Arc::strong_count(tool) > 1);
        let tool = tools.entry(name.to_owned());
        let tool = Arc::clone(tool.or_insert_with(|| Group::new(self.tool)));
        tool.most_memory.fetch_max(limit, Ordering::Relaxed);
        let mut groups = vec![tool];
        if !built_in {
            groups.push(Arc::clone(&self.strangers));
        }
        groups.push(Arc::clone(&self.all));
        Arc::new(Quota { groups, built_in })
    }

    /// The quota of the host's own work on strangers' components, such as
    /// asking for their tools.
    pub(super) fn of_host(&self) -> Arc<Quota> {
        Arc::new(Quota {
            // Never what is left for built-in tools: the component may be made to
            // take as long as it can.
            groups: vec![Arc::clone(&self.strangers), Arc::clone(&self.all)],
            built_in: false,
        })
    }

    /// Calls that run, and that wait.
    pub(super) fn occupied(&self) -> (usize, usize) {
        let Group {
            slots,
            places,
            size,
            ..
        } = &*self.all;
        let taken =
            |all: u32, left: &Semaphore| (all as usize).saturating_sub(left.available_permits());
        (taken(size.slots, slots), taken(size.places, places))
    }

    /// Bytes of all linear memories.
    pub(super) fn memory(&self) -> usize {
        self.all.memory.load(Ordering::Relaxed)
    }
}

/// Slots that only built-in tools use, of so many.
fn built_in(calls: u32) -> u32 {
    // The one slot of a process that makes one call is for any tool.
    (calls / BUILT_IN).max(1).min(calls.saturating_sub(1))
}

impl Quota {
    /// Waits for so many slots of each group, if there is room to wait in each.
    pub(super) async fn enter(self: &Arc<Self>, weight: u32) -> Option<Slots> {
        let mut slots = Slots::new(self, weight);
        if slots.take_now() {
            return Some(slots);
        }
        let places = self.groups.iter().map(|group| group.places.try_acquire());
        let _places = places.collect::<Result<Vec<_>, _>>().ok()?;
        slots.take().await
    }

    /// Waits for so many slots, however many wait.
    pub(super) async fn enter_at_length(self: &Arc<Self>, weight: u32) -> Option<Slots> {
        Slots::new(self, weight).take().await
    }

    /// Whether a call may have so many bytes more. They are its until they are
    /// [given back](Self::give_memory_back).
    pub(crate) fn take_memory(&self, bytes: usize) -> bool {
        let full = self
            .groups
            .iter()
            .position(|group| !group.take_memory(bytes));
        for group in &self.groups[..full.unwrap_or_default()] {
            group.give_memory_back(bytes);
        }
        full.is_none()
    }

    pub(crate) fn give_memory_back(&self, bytes: usize) {
        for group in &self.groups {
            group.give_memory_back(bytes);
        }
    }
}

impl Slots {
    fn new(quota: &Arc<Quota>, weight: u32) -> Self {
        Self {
            quota: Arc::clone(quota),
            weight,
            groups: 0,
        }
    }

    /// The next group, and how many of its slots are wanted.
    fn next(&self) -> Option<(&Semaphore, u32)> {
        let group = self.quota.groups.get(self.groups)?;
        Some((&group.slots, self.of(group)))
    }

    /// How many slots of a group this call takes: a small quota has room for one
    /// call of any weight.
    fn of(&self, group: &Group) -> u32 {
        self.weight.min(group.size.slots)
    }

    /// Takes what can be had now, and says whether that is all.
    fn take_now(&mut self) -> bool {
        while let Some((slots, wanted)) = self.next() {
            match slots.try_acquire_many(wanted) {
                Ok(taken) => taken.forget(),
                Err(_) => return false,
            }
            self.groups += 1;
        }
        true
    }

    /// Waits for all that is missing.
    async fn take(mut self) -> Option<Self> {
        while let Some((slots, wanted)) = self.next() {
            slots.acquire_many(wanted).await.ok()?.forget();
            self.groups += 1;
        }
        Some(self)
    }

    pub(super) fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for group in &self.quota.groups[..self.groups] {
            group.slots.add_permits(self.of(group) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(calls: u32, queue: u32, calls_per_tool: Option<u32>) -> Quotas {
        let load = Load {
            calls,
            queue,
            calls_per_tool,
            ..Load::default()
        };
        Quotas::new(&load, 6400)
    }

    /// How many calls of this weight enter at once.
    fn enter(quota: &Arc<Quota>, weight: u32) -> Vec<Slots> {
        let one = || {
            let mut slots = Slots::new(quota, weight);
            slots.take_now().then_some(slots)
        };
        std::iter::from_fn(one).take(10_000).collect()
    }

    #[test]
    fn the_hosts_work_on_strangers_takes_nothing_of_the_built_in_tools() {
        let quotas = quotas(8, 8, Some(8));
        let strangers = enter(&quotas.of_tool("stranger", false, 1), 1);
        assert_eq!(strangers.len(), 7);
        assert_eq!(enter(&quotas.of_host(), 1).len(), 0);
        assert_eq!(enter(&quotas.of_tool("read_skill", true, 1), 1).len(), 1);
        drop(strangers);
        assert_eq!(enter(&quotas.of_host(), 1).len(), 7);
    }

    #[test]
    fn a_tool_has_its_share_strangers_leave_some_and_one_slot_is_for_any() {
        for (calls, per_tool, of_tool, of_strangers) in [
            (64, None, 16, 56),
            (64, Some(64), 56, 56),
            (64, Some(1), 1, 56),
            (8, None, 2, 7),
            (2, None, 1, 1),
            (1, None, 1, 1),
            (1, Some(16), 1, 1),
        ] {
            let quotas = quotas(calls, 0, per_tool);
            let about = format!("{calls} {per_tool:?}");
            let tool = |number: u32| quotas.of_tool(&number.to_string(), false, 0);
            let first = enter(&tool(0), 1);
            assert_eq!(first.len(), of_tool, "{about}");
            let tools: Vec<_> = (1..calls).map(tool).collect();
            let rest: Vec<_> = tools.iter().flat_map(|tool| enter(tool, 1)).collect();
            assert_eq!(first.len() + rest.len(), of_strangers, "{about}");
            let built_in = quotas.of_tool("read", true, 0);
            let left = (calls as usize - of_strangers).min(quotas.tool.slots as usize);
            assert_eq!(enter(&built_in, 1).len(), left, "{about}");
            drop((first, rest));
            assert_eq!(quotas.occupied(), (0, 0), "{about}");
        }
    }

    #[test]
    fn a_call_of_any_weight_can_run_in_the_smallest_share() {
        for calls in 1..=16 {
            let quotas = quotas(calls, 0, Some(1));
            let weight = 4.min(quotas.most_slots());
            let heavy = quotas.of_tool("heavy", false, 0);
            assert_eq!(enter(&heavy, weight).len(), 1, "{calls}");
        }
    }

    #[tokio::test]
    async fn past_its_places_a_tool_is_refused_while_others_still_wait() {
        let quotas = quotas(8, 16, None);
        let (greedy, other) = (
            quotas.of_tool("greedy", false, 0),
            quotas.of_tool("other", false, 0),
        );
        let _running = enter(&greedy, 1);
        let mut waiting: Vec<_> = (0..16).map(|_| Box::pin(greedy.enter(1))).collect();
        let mut refused = 0;
        for call in &mut waiting {
            tokio::select! {
                biased;
                entered = call => refused += u32::from(entered.is_none()),
                () = std::future::ready(()) => {}
            }
        }
        // 2 of 8 slots are its quota, and so 4 of 16 places.
        assert_eq!((refused, quotas.occupied()), (12, (2, 4)));
        assert!(other.enter(1).await.is_some());
    }

    #[test]
    fn memory_is_counted_for_the_tool_for_strangers_and_for_all() {
        let quotas = quotas(64, 0, None);
        // Of 6,400 bytes 1,600 are a tool's, and 5,600 strangers'.
        let tool = |name: &str, built_in| quotas.of_tool(name, built_in, 0);
        let first = tool("a", false);
        assert!(first.take_memory(1600) && !first.take_memory(1));
        // The same tool in another host.
        assert!(!tool("a", false).take_memory(1));
        let tools = [tool("b", false), tool("c", false), tool("d", false)];
        let taken = tools.iter().filter(|tool| tool.take_memory(1600)).count();
        assert_eq!((taken, quotas.memory()), (2, 4800));
        assert!(tools[2].take_memory(800) && !tools[2].take_memory(1));
        let built_in = tool("read", true);
        assert!(built_in.take_memory(800) && !built_in.take_memory(1));
        first.give_memory_back(1600);
        assert!(tools[2].take_memory(800) && built_in.take_memory(800));
        // One call may have its own limit, whatever the quota.
        let large = quotas.of_tool("e", false, 2000);
        tools[0].give_memory_back(1600);
        tools[1].give_memory_back(1600);
        assert!(large.take_memory(2000) && !large.take_memory(1));
    }
}
