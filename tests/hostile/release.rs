//! Hostile guests that loop, or run by the thousand: they do not delay other calls, and leave
//! nothing behind in the process.

use std::fs;

use serde_json::json;
use skillhost::{CallError, Grant, Host, Stop};

use super::Ending::{Memory, Time, TooLarge};
use super::{
    Attack, Hosts, MIB, SHORT, attacks, folders, next_call_works, reveals, runtime, shown,
};
use crate::support::watchdog::wait_until;
use crate::support::{
    UNREACHED, block_on, bounded, builder, cancel_call_when, guests, limits, run_in_own_process,
    runs_in_own_process,
};

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
fn thousand_attacks_leave_nothing_behind() {
    if !runs_in_own_process() {
        // The test needs its own process, without other tests.
        run_in_own_process(
            "hostile::release::thousand_attacks_leave_nothing_behind",
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
    next_call_works(&hosts.default);
    let before = ProcessResources::now();
    // Attacks that use up their time or memory run only in the first three rounds.
    let mut remaining = 1000;
    for round in 0.. {
        for attack in &attacks {
            let costly = matches!(attack.ending, Time | Memory | TooLarge);
            let is_due = round < 3 || !(costly || attack.tool == "take_memory_and_answer");
            if is_due && remaining > 0 {
                remaining -= 1;
                run(attack);
            }
        }
        if remaining == 0 {
            break;
        }
    }
    next_call_works(&hosts.default);
    let after = ProcessResources::now();
    assert_eq!(after.threads, before.threads, "threads");
    assert_eq!(after.descriptors, before.descriptors, "descriptors");
    let most = before.memory + (before.memory / 10).max(16 * MIB);
    assert!(after.memory <= most, "{before:?}, then {after:?}");
}

#[test]
fn two_loops_leave_time_for_eight_other_calls() {
    let folders = folders();
    let host = |time| {
        let grant = Grant::new().skills(["a"]).unwrap().limits(limits(time));
        let host = builder().skills(&folders.root).tools(guests());
        crate::support::build(host.grant("hostile.wasm", grant))
    };
    let runtime = runtime();
    let loops = |host: &Host| {
        [0; 2].map(|_| {
            let host = host.clone();
            let arguments = json!({"skill_name": "a"});
            runtime.spawn(async move { host.call("hostile_compute", arguments).await })
        })
    };
    let neighbour = async |host: Host| {
        for _ in 0..20 {
            let arguments = json!({"skill_name": "a", "file_path": "SKILL.md"});
            let answer = host.call("read_file_in_skill", arguments).await;
            assert_eq!(answer.unwrap().text(), "# A\n");
        }
    };
    let endless = host(UNREACHED);
    let looping = loops(&endless);
    wait_until("not both loops run", || endless.occupancy().running == 2);
    for caller in [0; 8].map(|_| runtime.spawn(neighbour(endless.clone()))) {
        bounded(&runtime, caller).unwrap();
    }
    assert!(looping.iter().all(|looping| !looping.is_finished()));
    looping.iter().for_each(|looping| looping.abort());
    // Loops with a short time limit end at their deadline.
    for looping in loops(&host(SHORT)) {
        let ended = bounded(&runtime, looping).unwrap();
        let stop = ended.err().and_then(|error| match error {
            CallError::Stopped { stop, .. } => Some(stop),
            _ => None,
        });
        assert!(matches!(stop, Some(Stop::Time(_))), "{stop:?}");
    }
}

#[test]
fn stops_guest_of_caller_that_gives_up() {
    if !runs_in_own_process() {
        run_in_own_process(
            "hostile::release::stops_guest_of_caller_that_gives_up",
            "alone",
        );
        return;
    }
    let folders = folders();
    let grant = Grant::new().skills(["a"]).unwrap();
    let host = crate::support::build(
        builder()
            .skills(&folders.root)
            .tools(guests())
            .grant("hostile.wasm", grant.limits(limits(UNREACHED))),
    );
    next_call_works(&host);
    let hold_files = || {
        let before = ProcessResources::now().descriptors;
        let holds_all = || ProcessResources::now().descriptors >= before + 100;
        let arguments = json!({"skill_name": "a", "number": 100});
        block_on(cancel_call_when(
            &host,
            "hostile_hold_files",
            arguments,
            holds_all,
        ));
    };
    // The first call loads the component's code, and keeps its file open for later calls.
    hold_files();
    let before = ProcessResources::now();
    hold_files();
    let after = ProcessResources::now();
    assert_eq!(after.descriptors, before.descriptors);
    assert_eq!(after.threads, before.threads);
    next_call_works(&host);
}
