//! Turns: how many strangers' guests compute at a time. Each goes on until it
//! waits for something, 10 ms at most, and then lets the next one; the others
//! do not stand in the runtime's queue, so that a built-in tool's call there
//! is behind few of them and not behind all.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::thread;

use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// Turns at a time: as many as there are processors. Meets: guests that
/// compute for ever, each a turn of 10 ms before a small call has its own.
#[derive(Debug)]
pub(super) struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self(Semaphore::new(processors))
    }
}

impl Turns {
    /// Runs a guest, a turn at a time.
    pub(super) async fn run<T>(&self, guest: impl Future<Output = T>) -> T {
        let mut guest = pin!(guest);
        loop {
            let turn = match self.0.try_acquire() {
                Ok(turn) => Ok(turn),
                Err(_) => {
                    let turn = self.0.acquire().await;
                    // The one before woke this task, and the runtime would run
                    // it at once, turn after turn, without a look at timers,
                    // sockets and other tasks.
                    yield_now().await;
                    turn
                }
            };
            let went = poll_fn(|task| Poll::Ready(guest.as_mut().poll(task))).await;
            drop(turn);
            if let Poll::Ready(done) = went {
                return done;
            }
            // Until the guest can go on: it has this task's waker.
            let mut woken = false;
            poll_fn(|_| match std::mem::replace(&mut woken, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn few_compute_at_a_time_and_what_waits_holds_no_turn() {
        let turns = Arc::new(Turns(Semaphore::new(1)));
        let waiting = Arc::clone(&turns);
        let waits = tokio::spawn(async move { waiting.run(std::future::pending::<()>()).await });
        let computing: Vec<_> = (0..40)
            .map(|_| {
                let turns = Arc::clone(&turns);
                tokio::spawn(async move {
                    turns
                        .run(async {
                            for _ in 0..10 {
                                std::thread::sleep(Duration::from_millis(2));
                                yield_now().await;
                            }
                        })
                        .await;
                })
            })
            .collect();
        yield_now().await;
        // Forty turns are 80 ms; a task that needs one is behind two or three.
        let mut best = Duration::MAX;
        for _ in 0..10 {
            let start = Instant::now();
            tokio::spawn(async {}).await.unwrap();
            best = best.min(start.elapsed());
        }
        assert!(best < Duration::from_millis(40), "{best:?}");
        for guest in computing {
            guest.await.unwrap();
        }
        waits.abort();
        assert!(waits.await.unwrap_err().is_cancelled());
        assert_eq!(turns.0.available_permits(), 1);
    }
}
