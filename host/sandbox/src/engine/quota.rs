//! Quotas of slots, waiting calls and linear memory that calls share. A call counts in each
//! group that it belongs to: its tool, all third-party tools, and all tools. Clients share
//! each group.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::fair::{ClientName, FairBudget, FairSemaphore};
use crate::tool::limits::Load;

/// The divisor for the part of slots, queue and memory that is reserved for built-in tools.
/// Guards against: third-party tools that take everything, so that an agent cannot read a
/// skill.
const BUILT_IN_DIVISOR: u32 = 8;

/// The divisor for one tool's default part of slots, queue and memory. Guards against: a tool
/// that keeps all others waiting.
const TOOL_DIVISOR: u32 = 4;

/// The limits of a group.
#[derive(Debug, Clone, Copy)]
struct QuotaSize {
    slots: u32,
    /// The maximum number of waiting calls.
    queue: u32,
    memory: usize,
}

/// A group of calls that share slots, a queue and memory.
#[derive(Debug)]
struct QuotaGroup {
    slots: FairSemaphore,
    /// The waiting calls.
    queue: FairBudget,
    /// The bytes of linear memory in use.
    memory: FairBudget,
    /// The bytes that one call may always have, in the group of a tool. Zero in other groups.
    call_memory: AtomicUsize,
    size: QuotaSize,
}

/// The groups of all calls.
#[derive(Debug)]
pub(super) struct QuotaRegistry {
    all: Arc<QuotaGroup>,
    third_party: Arc<QuotaGroup>,
    tools: Mutex<HashMap<String, Arc<QuotaGroup>>>,
    /// The size of each tool's group.
    tool_size: QuotaSize,
}

/// The groups of one tool's calls, smallest first.
#[derive(Debug)]
pub struct CallQuota {
    groups: Arc<[Arc<QuotaGroup>]>,
    /// The maximum memory of one call.
    limit: usize,
    client: ClientName,
    /// True for a built-in tool.
    pub is_built_in: bool,
}

/// The place of a waiting call in the queues of its groups, given up on drop.
struct QueuePlace<'a> {
    quota: &'a CallQuota,
    /// The number of groups that have this call in their queue.
    groups: usize,
}

/// The slots of one call, returned on drop.
#[derive(Debug)]
pub(super) struct Slots {
    quota: Arc<CallQuota>,
    weight: u32,
    /// The number of groups whose slots are held.
    groups: usize,
}

impl QuotaSize {
    /// Returns a size with `slots` slots and the same proportion of everything else.
    fn scaled_to(self, slots: u32) -> Self {
        let whole = u64::from(self.slots.max(1));
        let queue = (u64::from(self.queue) * u64::from(slots)).div_ceil(whole);
        let memory = self.memory as u128 * u128::from(slots) / u128::from(whole);
        Self {
            slots,
            queue: u32::try_from(queue).unwrap_or(self.queue),
            memory: usize::try_from(memory).unwrap_or(self.memory),
        }
    }
}

impl QuotaGroup {
    fn new(size: QuotaSize) -> Arc<Self> {
        Arc::new(Self {
            slots: FairSemaphore::new(size.slots as usize),
            queue: FairBudget::default(),
            memory: FairBudget::default(),
            call_memory: AtomicUsize::new(0),
            size,
        })
    }

    /// Takes memory for a call of a client. The client may always have `limit` bytes if enough
    /// are left. A tool that clients share has enough for two such calls.
    fn take_memory(&self, client: &ClientName, bytes: usize, limit: usize) -> bool {
        let calls = if client.is_some() { 2 } else { 1 };
        let calls_memory = self.call_memory.load(Ordering::Relaxed);
        let max = self.size.memory.max(calls_memory.saturating_mul(calls));
        self.memory.take(client, bytes, limit, max)
    }

    /// Takes a place in the queue. Returns `false` if it is full. A queue that clients share
    /// has at least two places, or none.
    fn take_place(&self, client: &ClientName) -> bool {
        let max = match (client, self.size.queue as usize) {
            (Some(_), places @ 1..) => places.max(2),
            (_, places) => places,
        };
        self.queue.take(client, 1, 1, max)
    }
}

impl QuotaRegistry {
    /// Divides slots, the queue and memory among the groups. `memory` is the limit for all
    /// calls together.
    pub(super) fn new(load: &Load, memory: usize) -> Self {
        let all = QuotaSize {
            slots: load.calls,
            queue: load.queue,
            memory,
        };
        let third_party = all.scaled_to(load.calls - built_in_slots(load.calls));
        let tool = load.calls_per_tool.unwrap_or(load.calls / TOOL_DIVISOR);
        Self {
            all: QuotaGroup::new(all),
            third_party: QuotaGroup::new(third_party),
            tools: Mutex::default(),
            tool_size: all.scaled_to(tool.clamp(1, third_party.slots)),
        }
    }

    /// Returns the maximum number of slots for a call of a third-party tool.
    pub(super) fn max_slots(&self) -> u32 {
        self.third_party.size.slots
    }

    /// Returns the number of calls that may run at a time.
    pub(super) fn calls(&self) -> u32 {
        self.all.size.slots
    }

    /// Returns the number of calls of one tool that may run at a time.
    pub(super) fn calls_per_tool(&self) -> u32 {
        self.tool_size.slots
    }

    /// Returns the quota of a tool. All hosts with this tool share it. One call may always
    /// have `limit` bytes of memory.
    pub(super) fn for_tool(&self, name: &str, is_built_in: bool, limit: usize) -> Arc<CallQuota> {
        let mut tools = self
            .tools
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        // A group without a quota belongs to a removed tool.
        tools.retain(|_, tool| Arc::strong_count(tool) > 1);
        let tool = tools.entry(name.to_owned());
        let tool = Arc::clone(tool.or_insert_with(|| QuotaGroup::new(self.tool_size)));
        tool.call_memory.fetch_max(limit, Ordering::Relaxed);
        let third_party = (!is_built_in).then(|| Arc::clone(&self.third_party));
        let all = Arc::clone(&self.all);
        Arc::new(CallQuota {
            groups: [tool].into_iter().chain(third_party).chain([all]).collect(),
            limit,
            client: None,
            is_built_in,
        })
    }

    /// Returns the quota for the host's own work on third-party components, such as asking
    /// for their tools.
    pub(super) fn for_host(&self) -> Arc<CallQuota> {
        Arc::new(CallQuota {
            // Never uses the slots of built-in tools, because the component can run until its
            // time limit.
            groups: [&self.third_party, &self.all].map(Arc::clone).into(),
            limit: 0,
            client: None,
            is_built_in: false,
        })
    }

    /// Returns the numbers of running and waiting calls.
    pub(super) fn occupied(&self) -> (usize, usize) {
        let QuotaGroup {
            slots, queue, size, ..
        } = &*self.all;
        let running = (size.slots as usize).saturating_sub(slots.free());
        (running, queue.total())
    }

    /// Returns the memory that all calls use, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.all.memory.total()
    }
}

/// Returns the number of slots that are reserved for built-in tools.
fn built_in_slots(calls: u32) -> u32 {
    // The only slot is not reserved.
    (calls / BUILT_IN_DIVISOR)
        .max(1)
        .min(calls.saturating_sub(1))
}

impl CallQuota {
    /// Returns this quota for the calls of one client. All clients share it.
    pub fn for_client(self: &Arc<Self>, client: ClientName) -> Arc<Self> {
        if client.is_none() {
            return Arc::clone(self);
        }
        Arc::new(Self {
            groups: Arc::clone(&self.groups),
            client,
            ..**self
        })
    }

    pub(super) fn client(&self) -> &ClientName {
        &self.client
    }

    /// Waits for `weight` slots of each group. Returns `None` if the queue of a group is full.
    pub(super) async fn enter(self: &Arc<Self>, weight: u32) -> Option<Slots> {
        let mut slots = Slots::new(self, weight);
        if slots.take_now() {
            return Some(slots);
        }
        let _place = QueuePlace::take(self)?;
        Some(slots.wait_for_rest().await)
    }

    /// Waits for `weight` slots without a place in the queue.
    pub(super) async fn enter_unqueued(self: &Arc<Self>, weight: u32) -> Slots {
        Slots::new(self, weight).wait_for_rest().await
    }

    /// Takes memory for a call, if every group has enough. Return it with
    /// [`give_memory_back`](Self::give_memory_back).
    pub(crate) fn take_memory(&self, bytes: usize) -> bool {
        let full = self
            .groups
            .iter()
            .position(|group| !group.take_memory(&self.client, bytes, self.limit));
        for group in &self.groups[..full.unwrap_or_default()] {
            group.memory.give_back(&self.client, bytes);
        }
        full.is_none()
    }

    pub(crate) fn give_memory_back(&self, bytes: usize) {
        for group in &*self.groups {
            group.memory.give_back(&self.client, bytes);
        }
    }
}

impl<'a> QueuePlace<'a> {
    /// Takes a place in the queue of each group. Returns `None` if a queue is full.
    fn take(quota: &'a CallQuota) -> Option<Self> {
        let mut place = Self { quota, groups: 0 };
        for group in &*quota.groups {
            if !group.take_place(&quota.client) {
                return None;
            }
            place.groups += 1;
        }
        Some(place)
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        for group in &self.quota.groups[..self.groups] {
            group.queue.give_back(&self.quota.client, 1);
        }
    }
}

impl Slots {
    fn new(quota: &Arc<CallQuota>, weight: u32) -> Self {
        Self {
            quota: Arc::clone(quota),
            weight,
            groups: 0,
        }
    }

    /// Returns the next group's slots, and the number to take.
    fn next(&self) -> Option<(&FairSemaphore, usize)> {
        let group = self.quota.groups.get(self.groups)?;
        Some((&group.slots, self.wanted_of(group)))
    }

    /// Returns the number of a group's slots that this call needs. A small group always admits
    /// one call of any weight.
    fn wanted_of(&self, group: &QuotaGroup) -> usize {
        self.weight.min(group.size.slots) as usize
    }

    /// Takes the slots that are free now. Returns whether the call has all its slots.
    fn take_now(&mut self) -> bool {
        while let Some((slots, wanted)) = self.next() {
            if !slots.try_acquire(&self.quota.client, wanted) {
                return false;
            }
            self.groups += 1;
        }
        true
    }

    /// Waits for the missing slots.
    async fn wait_for_rest(mut self) -> Self {
        while let Some((slots, wanted)) = self.next() {
            slots.acquire(&self.quota.client, wanted).await;
            self.groups += 1;
        }
        self
    }

    pub(super) fn quota(&self) -> &Arc<CallQuota> {
        &self.quota
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for group in &self.quota.groups[..self.groups] {
            let wanted = self.wanted_of(group);
            group.slots.release(&self.quota.client, wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use super::*;

    fn quotas(calls: u32, queue: u32, calls_per_tool: Option<u32>) -> QuotaRegistry {
        let load = Load {
            calls,
            queue,
            calls_per_tool,
            ..Load::default()
        };
        QuotaRegistry::new(&load, 6400)
    }

    /// Starts as many calls of this weight as there are slots.
    fn fill_slots(quota: &Arc<CallQuota>, weight: u32) -> Vec<Slots> {
        let start = || {
            let mut slots = Slots::new(quota, weight);
            slots.take_now().then_some(slots)
        };
        std::iter::from_fn(start).take(10_000).collect()
    }

    #[test]
    fn host_work_leaves_slots_to_built_in_tools() {
        let quotas = quotas(8, 8, Some(8));
        let third_party = fill_slots(&quotas.for_tool("third_party", false, 1), 1);
        assert_eq!(third_party.len(), 7);
        assert_eq!(fill_slots(&quotas.for_host(), 1).len(), 0);
        assert_eq!(
            fill_slots(&quotas.for_tool("read_skill", true, 1), 1).len(),
            1
        );
        drop(third_party);
        assert_eq!(fill_slots(&quotas.for_host(), 1).len(), 7);
    }

    #[test]
    fn divides_slots_among_groups_of_tools() {
        for (calls, per_tool, tool_slots, third_party_slots) in [
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
            let tool = |number: u32| quotas.for_tool(&number.to_string(), false, 0);
            let first = fill_slots(&tool(0), 1);
            assert_eq!(first.len(), tool_slots, "{about}");
            let tools: Vec<_> = (1..calls).map(tool).collect();
            let rest: Vec<_> = tools.iter().flat_map(|tool| fill_slots(tool, 1)).collect();
            assert_eq!(first.len() + rest.len(), third_party_slots, "{about}");
            let built_in = quotas.for_tool("read", true, 0);
            let left = (calls as usize - third_party_slots).min(quotas.tool_size.slots as usize);
            assert_eq!(fill_slots(&built_in, 1).len(), left, "{about}");
            drop((first, rest));
            assert_eq!(quotas.occupied(), (0, 0), "{about}");
        }
    }

    #[test]
    fn forgets_removed_tools() {
        let quotas = quotas(8, 8, None);
        let stays = quotas.for_tool("stays", false, 0);
        for number in 0..100 {
            quotas.for_tool(&number.to_string(), false, 0);
        }
        // The last tool is forgotten when the next quota is requested.
        assert!(quotas.tools.lock().unwrap().len() <= 2);
        assert!(stays.take_memory(1600));
        assert!(!quotas.for_tool("stays", false, 0).take_memory(1));
    }

    #[test]
    fn heavy_call_takes_slots_of_each_group() {
        let quotas = quotas(8, 0, Some(8));
        let heavy = quotas.for_tool("heavy", false, 0);
        // Third-party tools have seven slots.
        let calls = fill_slots(&heavy, 3);
        assert_eq!((calls.len(), quotas.occupied().0), (2, 6));
        drop(calls);
        assert_eq!(quotas.occupied().0, 0);
    }

    #[test]
    fn heaviest_call_fits_into_smallest_limit() {
        for calls in 1..=16 {
            let quotas = quotas(calls, 0, Some(1));
            let weight = 4.min(quotas.max_slots());
            let heavy = quotas.for_tool("heavy", false, 0);
            assert_eq!(fill_slots(&heavy, weight).len(), 1, "{calls}");
        }
    }

    #[tokio::test]
    async fn full_queue_of_tool_spares_other_tools() {
        let quotas = quotas(8, 16, None);
        let (greedy, other) = (
            quotas.for_tool("greedy", false, 0),
            quotas.for_tool("other", false, 0),
        );
        let _running = fill_slots(&greedy, 1);
        let mut waiting: Vec<_> = (0..16).map(|_| Box::pin(greedy.enter(1))).collect();
        let mut refused = 0;
        for call in &mut waiting {
            tokio::select! {
                biased;
                entered = call => refused += u32::from(entered.is_none()),
                () = std::future::ready(()) => {}
            }
        }
        // A tool has 2 of 8 slots, and thus 4 of 16 places in the queue.
        assert_eq!((refused, quotas.occupied()), (12, (2, 4)));
        assert!(other.enter(1).await.is_some());
    }

    /// A call that waits for its slots.
    type WaitingCall<'a> = Pin<Box<dyn Future<Output = Option<Slots>> + 'a>>;

    /// Starts a hundred calls, and returns those that wait.
    fn flood(quota: &Arc<CallQuota>) -> Vec<WaitingCall<'_>> {
        let calls = (0..100).map(|_| -> WaitingCall<'_> { Box::pin(quota.enter(1)) });
        let mut context = Context::from_waker(Waker::noop());
        calls
            .filter_map(|mut call| {
                call.as_mut()
                    .poll(&mut context)
                    .is_pending()
                    .then_some(call)
            })
            .collect()
    }

    #[test]
    fn flooding_client_leaves_queue_places_to_others() {
        // A tool has two slots, and a quarter of the queue.
        for (queue, greedy_waiting, other_waiting) in [(4, 1, 1), (16, 2, 1), (64, 8, 4)] {
            let quotas = quotas(8, queue, None);
            let tool = quotas.for_tool("tool", true, 0);
            let [greedy, other] =
                ["greedy", "other"].map(|name| tool.for_client(Some(name.into())));
            let running = fill_slots(&greedy, 1);
            assert_eq!(running.len(), 2);
            let waiting = flood(&greedy);
            assert_eq!(waiting.len(), greedy_waiting, "{queue}");
            assert_eq!(flood(&other).len(), other_waiting, "{queue}");
        }
    }

    #[test]
    fn flooding_client_leaves_memory_to_others() {
        let quotas = quotas(64, 0, None);
        // A tool may have 1,600 bytes, or the bytes of two calls if that is more.
        for (limit, expected) in [(100, [800, 400, 200]), (1600, [1600, 1600, 0])] {
            let tool = quotas.for_tool("tool", false, limit);
            let clients = ["a", "b", "c"].map(|name| tool.for_client(Some(name.into())));
            let taken = clients.each_ref().map(|client| {
                let calls = (0..100).filter(|_| client.take_memory(100));
                calls.count() * 100
            });
            assert_eq!(taken, expected);
            for (client, bytes) in clients.iter().zip(taken) {
                client.give_memory_back(bytes);
            }
            assert_eq!(quotas.memory(), 0);
        }
    }

    #[test]
    fn counts_memory_for_each_group_of_tools() {
        let quotas = quotas(64, 0, None);
        // Of 6,400 bytes, a tool may have 1,600 and third-party tools 5,600.
        let tool = |name: &str, built_in| quotas.for_tool(name, built_in, 0);
        let first = tool("a", false);
        assert!(first.take_memory(1600) && !first.take_memory(1));
        // The same tool in another host has the same group.
        assert!(!tool("a", false).take_memory(1));
        let tools = [tool("b", false), tool("c", false), tool("d", false)];
        let taken = tools.iter().filter(|tool| tool.take_memory(1600)).count();
        assert_eq!((taken, quotas.memory()), (2, 4800));
        assert!(tools[2].take_memory(800) && !tools[2].take_memory(1));
        let built_in = tool("read", true);
        assert!(built_in.take_memory(800) && !built_in.take_memory(1));
        first.give_memory_back(1600);
        assert!(tools[2].take_memory(800) && built_in.take_memory(800));
        // One call may use memory up to its own limit, even above the quota.
        let large = quotas.for_tool("e", false, 2000);
        tools[0].give_memory_back(1600);
        tools[1].give_memory_back(1600);
        assert!(large.take_memory(2000) && !large.take_memory(1));
    }
}
