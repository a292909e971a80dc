//! Turns limit the number of third-party guests that compute at a time. A guest runs until
//! it waits, or for 10 ms. Then it yields to the next guest, preferably of another client.
//! Guests that wait for a turn are not in the runtime's queue, so a call of a built-in tool
//! waits only for the few that have a turn.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::task::yield_now;

use super::fair::{ClientName, FairSemaphore};
use super::{TICK, machine};

/// The turns, one for each processor. Guards against: many guests that compute forever. A
/// small call would wait 10 ms for each of them.
#[derive(Debug)]
pub(super) struct Turns(FairSemaphore);

/// The turn of a guest, which ends on drop.
struct Turn<'a> {
    turns: &'a Turns,
    client: &'a ClientName,
}

/// A turn of a host call that may take long. The guest cannot be interrupted meanwhile.
pub(crate) struct HostTurn {
    began: Instant,
    length: Duration,
}

impl HostTurn {
    /// Begins a turn as long as a guest's.
    pub(crate) fn begin() -> Self {
        Self::with_length(TICK)
    }

    /// Begins a turn of this length.
    pub(crate) fn with_length(length: Duration) -> Self {
        let began = Instant::now();
        Self { began, length }
    }

    /// Lets others compute if the turn is over, and begins the next one. The call ends here
    /// if it is past its deadline or its caller is gone.
    pub(crate) async fn pause_if_over(&mut self) {
        if self.began.elapsed() >= self.length {
            yield_now().await;
            self.began = Instant::now();
        }
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self(FairSemaphore::new(machine::processors()))
    }
}

impl Turns {
    /// Runs the guest of a client, one turn after another.
    pub(super) async fn run<T>(&self, client: &ClientName, guest: impl Future<Output = T>) -> T {
        let mut guest = pin!(guest);
        loop {
            let has_waited = !self.0.try_acquire(client, 1);
            if has_waited {
                self.0.acquire(client, 1).await;
            }
            let turn = Turn {
                turns: self,
                client,
            };
            if has_waited {
                // The previous guest woke this task, and the runtime would run it at once,
                // turn after turn, without checking timers, sockets and other tasks.
                yield_now().await;
            }
            let polled = poll_fn(|task| Poll::Ready(guest.as_mut().poll(task))).await;
            drop(turn);
            if let Poll::Ready(done) = polled {
                return done;
            }
            // Waits until the guest can continue and wakes this task.
            let mut woken = false;
            poll_fn(|_| {
                if std::mem::replace(&mut woken, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
    }

    /// Runs work of a client in a single turn, however long it takes.
    pub(super) async fn run_in_one_turn<T>(
        &self,
        client: &ClientName,
        work: impl Future<Output = T>,
    ) -> T {
        if !self.0.try_acquire(client, 1) {
            self.0.acquire(client, 1).await;
        }
        let _turn = Turn {
            turns: self,
            client,
        };
        work.await
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.0.release(self.client, 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn waiting_guest_holds_no_turn() {
        let turns = Arc::new(Turns(FairSemaphore::new(1)));
        let waiting = Arc::clone(&turns);
        let waits =
            tokio::spawn(async move { waiting.run(&None, std::future::pending::<()>()).await });
        static COMPUTING: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let computing: Vec<_> = (0..40)
            .map(|_| {
                let turns = Arc::clone(&turns);
                let guest = async {
                    for _ in 0..10 {
                        MOST.fetch_max(1 + COMPUTING.fetch_add(1, SeqCst), SeqCst);
                        // Another thread may run meanwhile.
                        std::thread::yield_now();
                        COMPUTING.fetch_sub(1, SeqCst);
                        yield_now().await;
                    }
                };
                tokio::spawn(async move { turns.run(&None, guest).await })
            })
            .collect();
        for guest in computing {
            guest.await.unwrap();
        }
        assert_eq!(MOST.load(SeqCst), 1);
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        assert_eq!(turns.0.free(), 1);
    }

    #[tokio::test]
    async fn guests_of_clients_compute_in_turns() {
        let turns = Arc::new(Turns(FairSemaphore::new(1)));
        let order = Arc::new(Mutex::new(String::new()));
        let clients = [vec!["a"; 9], vec!["b"]].concat();
        let guests = clients.into_iter().map(|name| {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            tokio::spawn(async move {
                let guest = async {
                    for _ in 0..10 {
                        order.lock().unwrap().push_str(name);
                        yield_now().await;
                    }
                };
                turns.run(&Some(name.into()), guest).await;
            })
        });
        // All of them wait for the first turn.
        assert!(turns.0.try_acquire(&None, 1));
        let guests: Vec<_> = guests.collect();
        yield_now().await;
        assert_eq!(*order.lock().unwrap(), "");
        turns.0.release(&None, 1);
        for guest in guests {
            guest.await.unwrap();
        }
        let order = order.lock().unwrap();
        // The guest of the other client has every second or third turn until it ends, not
        // every tenth.
        let other_turns = order.matches('b').count();
        let end = order.rfind('b').unwrap();
        assert!(other_turns == 10 && end < 40, "{order}");
    }
}
