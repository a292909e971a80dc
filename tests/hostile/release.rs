//! Hostile guests that run to a deadline, or by the thousand: they end in time, do
//! not hold up their neighbours, and leave nothing behind in the process.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost::{CallError, Grant, Host, Limits, Stop};

use super::Ending::{Memory, Time, TooLarge};
use super::{
    Attack, Hosts, MIB, SHORT, attacks, folders, next_call_works, reveals, runtime, shown,
};
use crate::support::{again, block_on, bounded, builder, guests, is_again};

/// The resources of this process.
#[derive(Debug)]
struct ProcessResources {
    threads: usize,
    descriptors: usize,
    memory: u64,
}

impl ProcessResources {
    fn now() -> Self {
        let count = |folder: &str| fs::read_dir(folder).unwrap().count();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let memory = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB"))
            .unwrap();
        Self {
            threads: count("/proc/self/task"),
            descriptors: count("/proc/self/fd"),
            memory: memory.trim().parse::<u64>().unwrap() << 10,
        }
    }
}

#[test]
fn a_thousand_attacks_leave_nothing_behind() {
    if !is_again() {
        // It needs a process of its own, without other tests.
        again(
            "hostile::release::a_thousand_attacks_leave_nothing_behind",
            "alone",
        );
        return;
    }
    let folders = folders();
    let hosts = Hosts::new(&folders);
    let attacks = attacks();
    let run = |attack: &Attack| {
        let seen = hosts.run(attack);
        assert!(!reveals(&folders, &shown(seen)), "{}", attack.name());
    };
    attacks.iter().for_each(run);
    next_call_works(&hosts.patient);
    let before = ProcessResources::now();
    // Attacks that take their whole time or all memory run a few times only.
    let mut left = 1000;
    for round in 0.. {
        for attack in &attacks {
            let costly = matches!(attack.ending, Time | Memory | TooLarge);
            let often = round < 3 || !(costly || attack.tool == "take_memory_and_answer");
            if often && left > 0 {
                left -= 1;
                run(attack);
            }
        }
        if left == 0 {
            break;
        }
    }
    next_call_works(&hosts.patient);
    let after = ProcessResources::now();
    assert_eq!(after.threads, before.threads, "threads");
    assert_eq!(after.descriptors, before.descriptors, "descriptors");
    let most = before.memory + (before.memory / 10).max(16 * MIB);
    assert!(after.memory <= most, "{before:?}, then {after:?}");
}

#[test]
fn stops_endless_attacks_at_their_deadline() {
    if !is_again() {
        again(
            "hostile::release::stops_endless_attacks_at_their_deadline",
            "alone",
        );
        return;
    }
    let folders = folders();
    let hosts = Hosts::new(&folders);
    for attack in attacks() {
        if !matches!(attack.ending, Time) {
            continue;
        }
        // The machine may be busy with something else, but hardly each time. A host
        // that stops late is late each time.
        let late = (0..5).map(|_| {
            let start = Instant::now();
            let _ = hosts.run(&attack);
            start.elapsed().saturating_sub(SHORT)
        });
        let mut late = late.inspect(|late| {
            assert!(*late < Duration::from_secs(2), "{}", attack.name());
        });
        assert!(
            late.any(|late| late < Duration::from_millis(100)),
            "{} was late each time",
            attack.name()
        );
    }
}

#[test]
fn two_loops_leave_time_for_eight_other_calls() {
    let folders = folders();
    const LONG: Duration = Duration::from_millis(400);
    let mut limits = Limits::default();
    limits.time = LONG;
    let grant = Grant::new().skills(["a"]).unwrap().limits(limits);
    let host = crate::support::build(
        builder()
            .skills(&folders.root)
            .tools(guests())
            .grant("hostile.wasm", grant),
    );
    let runtime = runtime();
    let neighbour = async |host: Host, end: Instant| {
        let mut answered = 0;
        while Instant::now() < end {
            let arguments = json!({"skill_name": "a", "file_path": "SKILL.md"});
            let answer = host.call("read_file_in_skill", arguments).await;
            assert_eq!(answer.unwrap().text(), "# A\n");
            answered += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        answered
    };
    let looping = async |host: Host| {
        let start = Instant::now();
        let arguments = json!({"skill_name": "a"});
        let ended = host.call("hostile_compute", arguments).await;
        let late = start.elapsed().saturating_sub(LONG);
        let Err(CallError::Stopped {
            stop: Stop::Time(_),
            ..
        }) = ended
        else {
            panic!("{ended:?}");
        };
        late
    };
    // The machine may be busy with something else, but not each time.
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let loops = [0; 2].map(|_| runtime.spawn(looping(host.clone())));
        let end = Instant::now() + LONG - Duration::from_millis(50);
        let neighbours = [0; 8].map(|_| runtime.spawn(neighbour(host.clone(), end)));
        let answered = neighbours.map(|task| bounded(&runtime, task).unwrap());
        let late = loops.map(|task| bounded(&runtime, task).unwrap());
        let good = answered.iter().all(|answers| *answers >= 3)
            && late.iter().all(|late| *late < Duration::from_millis(100));
        if good {
            return;
        }
        rounds.push((answered, late));
    }
    panic!("loops ended late, or neighbours were not answered, each time: {rounds:?}");
}

#[test]
fn stops_the_guest_of_a_caller_that_gives_up() {
    if !is_again() {
        again(
            "hostile::release::stops_the_guest_of_a_caller_that_gives_up",
            "alone",
        );
        return;
    }
    let folders = folders();
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(600);
    let host = crate::support::build(builder().skills(&folders.root).tools(guests()).grant(
        "hostile.wasm",
        Grant::new().skills(["a"]).unwrap().limits(limits),
    ));
    next_call_works(&host);
    let give_up = || {
        let arguments = json!({"skill_name": "a", "number": 100});
        block_on(async {
            let called = host.call("hostile_hold_files", arguments);
            let waited = tokio::time::timeout(Duration::from_millis(200), called).await;
            assert!(waited.is_err(), "{waited:?}");
        });
    };
    // The first call leaves the component's code behind.
    give_up();
    let before = ProcessResources::now();
    give_up();
    let after = ProcessResources::now();
    assert_eq!(after.descriptors, before.descriptors);
    assert_eq!(after.threads, before.threads);
    next_call_works(&host);
}
