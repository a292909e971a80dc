//! Attacks that use up time, stack or memory.

use std::hint::black_box;
use std::time::Duration;

use skillhost_guest::Output;
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::filesystem::types::PathFlags;
use wasip2::io::poll::{Pollable, poll};

use crate::{Arguments, Attack, done, root};

const HOUR: u64 = 3_600_000_000_000;

pub(crate) fn compute(_: &Arguments) -> Attack {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

pub(crate) fn sleep(_: &Arguments) -> Attack {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

pub(crate) fn poll_for_ever(_: &Arguments) -> Attack {
    let timers: Vec<Pollable> = (0..100).map(|_| subscribe_duration(HOUR)).collect();
    let timers: Vec<&Pollable> = timers.iter().collect();
    loop {
        poll(&timers);
    }
}

pub(crate) fn poll_one_often(call: &Arguments) -> Attack {
    let timer = subscribe_duration(HOUR);
    loop {
        poll(&vec![&timer; call.size()]);
    }
}

pub(crate) fn poll_nothing(_: &Arguments) -> Attack {
    poll(&[]);
    done()
}

pub(crate) fn wait_for_the_end_of_time(_: &Arguments) -> Attack {
    subscribe_duration(u64::MAX).block();
    done()
}

pub(crate) fn call_host_for_ever(call: &Arguments) -> Attack {
    let root = root()?;
    loop {
        let _ = black_box(root.stat_at(PathFlags::SYMLINK_FOLLOW, call.path()));
    }
}

/// Recurses with large frames, so that the guest's own stack overflows first.
pub(crate) fn recur(_: &Arguments) -> Attack {
    fn deeper(depth: u64) -> u64 {
        if depth == u64::MAX {
            return 0;
        }
        let frame = black_box([depth; 32]);
        deeper(depth + 1) + frame[(depth % 32) as usize]
    }
    Ok(Output::text(deeper(0).to_string()))
}

/// Recurses without frames in memory, so that the host's stack for the guest overflows first.
pub(crate) fn recur_in_registers(_: &Arguments) -> Attack {
    fn deeper(depth: u64) -> u64 {
        if depth == u64::MAX {
            return 1;
        }
        // With two calls, the compiler cannot turn the recursion into a loop.
        deeper(depth + 1).wrapping_mul(31) ^ deeper(depth ^ 1)
    }
    Ok(Output::text(deeper(0).to_string()))
}

/// Allocates pieces of a mebibyte until an allocation fails.
fn all_there_is() -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(1 << 20).is_err() {
            return taken;
        }
        piece.resize(1 << 20, 1);
        taken.push(piece);
    }
}

pub(crate) fn take_memory(_: &Arguments) -> Attack {
    panic!("there were {} pieces", all_there_is().len())
}

pub(crate) fn take_memory_and_answer(_: &Arguments) -> Attack {
    let pieces = all_there_is().len();
    Ok(Output::text(format!("there were {pieces} pieces")))
}
