//! Sharing among clients: a semaphore that gives permits to clients in turn, and a budget
//! that one client cannot use up.
//!
//! Calls without a client, as on a host that does not tell clients apart, are served in
//! order of arrival and may use everything.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The name of a call's client, if the host tells clients apart.
pub(super) type ClientName = Option<Arc<str>>;

/// A semaphore that shares its permits fairly among clients.
///
/// A free permit goes to the client that holds the fewest. On a tie it goes to the client whose
/// last call began or ended longest ago. Each client's own calls are served in order of arrival.
/// Guards against: a client that fills the queue before others.
#[derive(Debug)]
pub(super) struct FairSemaphore(Mutex<Permits>);

#[derive(Debug)]
struct Permits {
    free: usize,
    /// The clients that hold permits or wait for some.
    clients: HashMap<ClientName, Holder>,
    /// The number of events so far, which orders clients and waiting calls.
    clock: u64,
}

/// A client that holds permits of a semaphore or waits for some.
#[derive(Debug, Default)]
struct Holder {
    held: usize,
    /// The clock's value when the client's last call began or ended, or its first call arrived.
    since: u64,
    waiting: VecDeque<Waiter>,
}

/// A waiting call.
#[derive(Debug)]
struct Waiter {
    id: u64,
    wanted: usize,
    permits_given: oneshot::Sender<()>,
}

/// A call's wait for permits. Dropping it before it is done removes the call from the queue, or
/// returns the permits that the call was just given.
struct WaitGuard<'a> {
    semaphore: &'a FairSemaphore,
    client: &'a ClientName,
    id: u64,
    wanted: usize,
    is_done: bool,
}

impl FairSemaphore {
    pub(super) fn new(permits: usize) -> Self {
        Self(Mutex::new(Permits {
            free: permits,
            clients: HashMap::new(),
            clock: 0,
        }))
    }

    /// Takes permits if they are free and no call waits. Returns whether it took them.
    pub(super) fn try_acquire(&self, client: &ClientName, wanted: usize) -> bool {
        let mut permits = self.lock();
        let nobody_waits = permits.clients.values().all(|one| one.waiting.is_empty());
        let taken = nobody_waits && permits.free >= wanted;
        if taken {
            permits.acquire(client, wanted);
        }
        taken
    }

    /// Waits for permits. Return them with [`release`](Self::release).
    pub(super) async fn acquire(&self, client: &ClientName, wanted: usize) {
        let (sender, receiver) = oneshot::channel();
        let mut guard = WaitGuard {
            semaphore: self,
            client,
            id: self.lock().wait(client, wanted, sender),
            wanted,
            is_done: false,
        };
        // Always `Ok`, because the sender is used before it is dropped.
        guard.is_done = receiver.await.is_ok();
    }

    pub(super) fn release(&self, client: &ClientName, permits: usize) {
        self.lock().release(client, permits);
    }

    pub(super) fn free(&self) -> usize {
        self.lock().free
    }

    fn lock(&self) -> MutexGuard<'_, Permits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permits {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Adds a call to the queue of its client. Returns its id.
    fn wait(
        &mut self,
        client: &ClientName,
        wanted: usize,
        permits_given: oneshot::Sender<()>,
    ) -> u64 {
        let id = self.tick();
        let holder = self.clients.entry(client.clone());
        let holder = holder.or_insert_with(|| Holder {
            since: id,
            ..Holder::default()
        });
        holder.waiting.push_back(Waiter {
            id,
            wanted,
            permits_given,
        });
        self.serve_waiting();
        id
    }

    /// Gives free permits to waiting calls. If the next call needs more than are free, the calls
    /// after it wait too, so that it does not wait forever.
    fn serve_waiting(&mut self) {
        loop {
            let waiting = self.clients.iter_mut();
            let waiting = waiting.filter(|(_, holder)| !holder.waiting.is_empty());
            let next = waiting.min_by_key(|(_, holder)| (holder.held, holder.since));
            let Some((client, holder)) = next else { return };
            let free = self.free;
            let Some(first) = holder.waiting.pop_front_if(|first| first.wanted <= free) else {
                return;
            };
            let client = client.clone();
            self.acquire(&client, first.wanted);
            // This fails if the future is being dropped. Its guard then returns the permits.
            let _ = first.permits_given.send(());
        }
    }

    fn acquire(&mut self, client: &ClientName, permits: usize) {
        let now = self.tick();
        let holder = self.clients.entry(client.clone()).or_default();
        holder.held += permits;
        holder.since = now;
        self.free -= permits;
    }

    fn release(&mut self, client: &ClientName, permits: usize) {
        let now = self.tick();
        if let Some(holder) = self.clients.get_mut(client) {
            holder.held -= permits;
            holder.since = now;
        }
        self.free += permits;
        self.forget(client);
        self.serve_waiting();
    }

    /// Removes a waiting call. Returns `false` if it already has its permits.
    fn stop_waiting(&mut self, client: &ClientName, id: u64) -> bool {
        let Some(holder) = self.clients.get_mut(client) else {
            return false;
        };
        let before = holder.waiting.len();
        holder.waiting.retain(|waiter| waiter.id != id);
        let was_waiting = holder.waiting.len() < before;
        if was_waiting {
            self.forget(client);
            // Other calls may have waited behind it.
            self.serve_waiting();
        }
        was_waiting
    }

    /// Forgets a client that neither holds permits nor waits.
    fn forget(&mut self, client: &ClientName) {
        let is_idle = |holder: &Holder| holder.held == 0 && holder.waiting.is_empty();
        if self.clients.get(client).is_some_and(is_idle) {
            self.clients.remove(client);
        }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let mut permits = self.semaphore.lock();
            if !permits.stop_waiting(self.client, self.id) {
                permits.release(self.client, self.wanted);
            }
        }
    }
}

/// A bounded number of units, such as bytes, that calls hold. The calls of one client hold at
/// most half of what other clients leave, so something is always left for the next client.
#[derive(Debug, Default)]
pub(super) struct FairBudget(Mutex<Usage>);

#[derive(Debug, Default)]
struct Usage {
    total: usize,
    by_client: HashMap<Arc<str>, usize>,
}

impl FairBudget {
    /// Takes units if all calls then hold at most `max`, and the calls of this client at most half
    /// of what other clients leave. A client may hold `guaranteed` units even if they are more than
    /// this half. Returns whether the units were taken.
    pub(super) fn take(
        &self,
        client: &ClientName,
        units: usize,
        guaranteed: usize,
        max: usize,
    ) -> bool {
        let mut usage = self.lock();
        let total = usage.total.checked_add(units);
        let Some(total) = total.filter(|total| *total <= max) else {
            return false;
        };
        if let Some(client) = client {
            let before = usage.by_client.get(client).copied().unwrap_or_default();
            let after = before + units;
            let held_by_others = usage.total - before;
            if after > guaranteed && after > (max - held_by_others) / 2 {
                return false;
            }
            usage.by_client.insert(Arc::clone(client), after);
        }
        usage.total = total;
        true
    }

    pub(super) fn give_back(&self, client: &ClientName, units: usize) {
        let mut usage = self.lock();
        usage.total -= units;
        let Some(client) = client else { return };
        if let Entry::Occupied(mut held) = usage.by_client.entry(Arc::clone(client)) {
            *held.get_mut() -= units;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }

    pub(super) fn total(&self) -> usize {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use super::*;

    fn client(name: &str) -> ClientName {
        Some(name.into())
    }

    /// A call that waits for permits, with its client.
    type Call<'a> = (&'a ClientName, Pin<Box<dyn Future<Output = ()> + 'a>>);

    fn wait<'a>(semaphore: &'a FairSemaphore, client: &'a ClientName, wanted: usize) -> Call<'a> {
        let mut call: Call<'_> = (client, Box::pin(semaphore.acquire(client, wanted)));
        assert!(!has_permits(&mut call));
        call
    }

    fn has_permits((_, call): &mut Call<'_>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        call.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn free_permit_goes_to_client_that_holds_fewest() {
        let semaphore = FairSemaphore::new(3);
        let (greedy, other) = (client("greedy"), client("other"));
        assert!((0..3).all(|_| semaphore.try_acquire(&greedy, 1)));
        let mut greedy_calls = [(); 2].map(|()| wait(&semaphore, &greedy, 1));
        let mut other_calls = [(); 3].map(|()| wait(&semaphore, &other, 1));
        // The greedy client keeps two permits, and then one.
        for call in &mut other_calls[..2] {
            semaphore.release(&greedy, 1);
            assert!(has_permits(call));
        }
        assert!(!has_permits(&mut greedy_calls[0]) && !has_permits(&mut other_calls[2]));
        semaphore.release(&other, 1);
        // Each client has one permit, and the last call that ended was the other client's.
        assert!(has_permits(&mut greedy_calls[0]) && !has_permits(&mut other_calls[2]));
        semaphore.release(&greedy, 1);
        assert!(has_permits(&mut other_calls[2]) && !has_permits(&mut greedy_calls[1]));
    }

    #[test]
    fn clients_take_turns_with_last_permit() {
        let semaphore = FairSemaphore::new(1);
        let [a, b, c] = ["a", "b", "c"].map(client);
        assert!(semaphore.try_acquire(&a, 1));
        let mut waiting: Vec<_> = [&a, &a, &b, &c, &b]
            .map(|client| wait(&semaphore, client, 1))
            .into();
        let mut holder = &a;
        let mut order = String::new();
        while !waiting.is_empty() {
            semaphore.release(holder, 1);
            let next: Vec<_> = waiting.extract_if(.., has_permits).collect();
            assert_eq!(next.len(), 1);
            holder = next[0].0;
            order.extend(holder.as_deref());
        }
        assert_eq!(order, "bcaba");
        semaphore.release(holder, 1);
        assert_eq!(semaphore.free(), 1);
        assert!(semaphore.lock().clients.is_empty());
    }

    #[test]
    fn calls_without_client_are_served_in_order() {
        let semaphore = FairSemaphore::new(2);
        assert!(semaphore.try_acquire(&None, 2));
        let mut heavy = wait(&semaphore, &None, 2);
        let mut light = wait(&semaphore, &None, 1);
        semaphore.release(&None, 1);
        assert!(!has_permits(&mut heavy) && !has_permits(&mut light));
        assert!(!semaphore.try_acquire(&None, 1));
        semaphore.release(&None, 1);
        assert!(has_permits(&mut heavy) && !has_permits(&mut light));
    }

    #[test]
    fn abandoned_call_leaves_permits_to_others() {
        let semaphore = FairSemaphore::new(2);
        let (one, other) = (client("one"), client("other"));
        assert!(semaphore.try_acquire(&None, 2));
        // While a call waits for two permits, other calls cannot take a single free one.
        let heavy = wait(&semaphore, &one, 2);
        let mut light = wait(&semaphore, &other, 1);
        semaphore.release(&None, 1);
        assert!(!has_permits(&mut light));
        drop(heavy);
        assert!(has_permits(&mut light));
        // A call that is dropped between getting a permit and running returns it.
        let abandoned = wait(&semaphore, &one, 1);
        semaphore.release(&None, 1);
        assert_eq!(semaphore.free(), 0);
        drop(abandoned);
        assert_eq!(semaphore.free(), 1);
        semaphore.release(&other, 1);
        assert!(semaphore.lock().clients.is_empty());
    }

    #[test]
    fn limits_client_to_half_of_what_others_leave() {
        let budget = FairBudget::default();
        let [a, b, c] = ["a", "b", "c"].map(client);
        let take = |client, units| budget.take(client, units, 10, 100);
        assert!(take(&a, 30) && take(&a, 20) && !take(&a, 1));
        assert!(take(&b, 25) && !take(&b, 1));
        assert!(take(&c, 12) && !take(&c, 1));
        // A client may always have ten, but not more than are left.
        let [d, e] = ["d", "e"].map(client);
        assert!(take(&d, 10) && take(&e, 3) && !take(&e, 1) && !take(&None, 1));
        assert!(!take(&a, usize::MAX) && budget.total() == 100);
        for (client, units) in [(&a, 50), (&c, 12), (&d, 10), (&e, 3)] {
            budget.give_back(client, units);
        }
        assert!(take(&b, 25) && !take(&b, 1));
        // Calls without a client may use everything.
        assert!(take(&None, 50));
        budget.give_back(&b, 50);
        budget.give_back(&None, 50);
        assert!(budget.total() == 0 && budget.lock().by_client.is_empty());
    }
}
