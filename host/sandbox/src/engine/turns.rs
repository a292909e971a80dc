//! Turns limit the number of third-party guests that compute at a time. A guest runs until
//! it waits, for 10 ms at most, and then yields to the next one. Waiting guests are not in
//! the runtime's queue, so a call of a built-in tool waits only for a few of them.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::machine;

/// The turns. There are as many as processors. Guards against: guests that compute forever,
/// each of which would take 10 ms before a small call can run.
#[derive(Debug)]
pub(super) struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Self {
        Self(Semaphore::new(machine::processors()))
    }
}

impl Turns {
    /// Runs a guest, one turn after another.
    pub(super) async fn run<T>(&self, guest: impl Future<Output = T>) -> T {
        let mut guest = pin!(guest);
        loop {
            let turn = match self.0.try_acquire() {
                Ok(turn) => Ok(turn),
                Err(_) => {
                    let turn = self.0.acquire().await;
                    // The previous guest woke this task, and the runtime would run
                    // it at once, turn after turn, without checking timers,
                    // sockets and other tasks.
                    yield_now().await;
                    turn
                }
            };
            let polled = poll_fn(|task| Poll::Ready(guest.as_mut().poll(task))).await;
            drop(turn);
            if let Poll::Ready(done) = polled {
                return done;
            }
            // Waits until the guest can continue: it has this task's waker.
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
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn few_guests_compute_at_once_and_waiting_ones_hold_no_turn() {
        let turns = Arc::new(Turns(Semaphore::new(1)));
        let waiting = Arc::clone(&turns);
        let waits = tokio::spawn(async move { waiting.run(std::future::pending::<()>()).await });
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
                tokio::spawn(async move { turns.run(guest).await })
            })
            .collect();
        for guest in computing {
            guest.await.unwrap();
        }
        assert_eq!(MOST.load(SeqCst), 1);
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        assert_eq!(turns.0.available_permits(), 1);
    }
}
