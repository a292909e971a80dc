//! Measures the time that a cache line takes to another processor and back. Threads that write to
//! the same memory wait for this.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The minimum time of one sample.
const SAMPLE: Duration = Duration::from_micros(200);

/// The number of trips between two readings of the clock. A reading takes a part of a trip's time.
const TRIPS: u32 = 10;

/// The side that acts next. Aligned to two cache lines, because processors prefetch the second
/// line with the first.
#[repr(align(128))]
struct Turn(AtomicU8);

const HERE: u8 = 0;
const THERE: u8 = 1;
const OVER: u8 = 2;

/// Returns the average nanoseconds of a round trip, for each of `samples` samples.
pub(crate) fn trips(samples: usize) -> Vec<u64> {
    let turn = Turn(AtomicU8::new(HERE));
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                match turn.0.load(Ordering::Acquire) {
                    THERE => turn.0.store(HERE, Ordering::Release),
                    OVER => break,
                    _ => spin_loop(),
                }
            }
        });
        let times = (0..samples).map(|_| sample(&turn)).collect();
        turn.0.store(OVER, Ordering::Release);
        times
    })
}

fn sample(turn: &Turn) -> u64 {
    let start = Instant::now();
    let mut trips = 0;
    loop {
        for _ in 0..TRIPS {
            turn.0.store(THERE, Ordering::Release);
            while turn.0.load(Ordering::Acquire) != HERE {
                spin_loop();
            }
        }
        trips += TRIPS;
        let elapsed = start.elapsed();
        if elapsed >= SAMPLE {
            return u64::try_from((elapsed / trips).as_nanos()).unwrap_or(u64::MAX);
        }
    }
}
