//! Tests of the engine: slots, clock and compiled code.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::*;

#[test]
fn default_memory_is_quarter_of_machine() {
    let mut load = Load::default();
    assert_eq!(calls_memory(&load), machine::memory() / 4);
    load.calls_memory = Some(5 << 20);
    assert_eq!(calls_memory(&load), 5 << 20);
}

fn engine(calls: u32) -> EpochEngine {
    let load = Load {
        calls,
        stack: 128 << 10,
        ..Load::default()
    };
    EpochEngine::new(&load, 1 << 20, true).unwrap()
}

#[test]
fn uses_configured_calls_and_stack() {
    let engine_of_8 = engine(8);
    let calls = (engine_of_8.calls(), engine_of_8.calls_per_tool());
    assert_eq!((calls, engine_of_8.stack()), ((8, 2), 128 << 10));
    assert_eq!(engine(0).calls(), 1);
}

#[derive(Debug)]
struct UnusedCache;

impl CacheStore for UnusedCache {
    fn get(&self, _: &[u8]) -> Option<std::borrow::Cow<'_, [u8]>> {
        None
    }

    fn insert(&self, _: &[u8], _: Vec<u8>) -> bool {
        false
    }
}

#[test]
fn code_is_compatible_only_with_same_bounds_checks() {
    let engine = engine(1);
    let hash = |engine: &Engine| {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        hasher.finish()
    };
    for checks in [BoundsChecks::GuardPages, BoundsChecks::Explicit] {
        let compiler = for_compiling(checks, None::<Arc<UnusedCache>>).unwrap();
        let is_same = hash(&compiler) == hash(&engine.engine);
        assert_eq!(is_same, checks == engine.bounds_checks, "{checks:?}");
    }
}

#[test]
fn call_takes_one_slot_per_two_memories() {
    let engine = engine(8);
    for (memories, slots) in [(0, 1), (1, 1), (2, 1), (3, 2), (8, 4)] {
        let modules = "(core module (memory 1))".repeat(memories);
        let instances: String = (0..memories)
            .map(|number| format!("(core instance (instantiate {number}))"))
            .collect();
        let component = format!("(component {modules} {instances})");
        let component = wat::parse_str(component).unwrap();
        let component = Component::new(&engine.engine, component).unwrap();
        assert_eq!(engine.weight(&component), slots, "{memories} memories");
    }
}

#[tokio::test]
async fn only_third_party_guests_take_turns() {
    let engine = engine(8);
    for is_built_in in [false, true] {
        let quota = engine.quota("tool", is_built_in, 1 << 20);
        let slot = engine.enter(&quota, 1).await.unwrap();
        assert_eq!(slot.turns.is_none(), is_built_in);
    }
    // The host's own work takes turns too, because it is for third-party components.
    let slot = engine.enter_unqueued(1).await;
    assert!(slot.turns.is_some());
}

#[tokio::test]
async fn blocking_work_for_third_party_guests_takes_turns() {
    let calls = machine::processors() + 3;
    let engine = engine(u32::try_from(4 * calls).unwrap());
    for is_built_in in [false, true] {
        let (begin, begun) = std::sync::mpsc::channel();
        let mut running = Vec::new();
        for number in 0..calls {
            let quota = engine.quota(&format!("tool-{number}"), is_built_in, 1 << 20);
            let slot = Arc::new(engine.enter(&quota, 1).await.unwrap());
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let begin = begin.clone();
            let work = slot.run_blocking(move || {
                begin.send(()).unwrap();
                let _ = ended.recv();
            });
            running.push((end, tokio::spawn(work)));
        }
        let parallel = if is_built_in {
            calls
        } else {
            machine::processors()
        };
        // The receives below block the runtime's only thread. So each task first gets the time to
        // start its work or to wait for a turn.
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
        for _ in 0..parallel {
            begun.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        let more = begun.recv_timeout(Duration::from_millis(50));
        assert!(more.is_err(), "built in: {is_built_in}");
        for (end, work) in running {
            drop(end);
            work.await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn clock_ticks_only_during_calls() {
    let engine = engine(1);
    let module = r#"(module (func (export "ends")) (func (export "loops") (loop br 0)))"#;
    let module = wat::parse_str(module).unwrap();
    let module = wasmtime::Module::new(&engine.engine, module).unwrap();
    let mut store = wasmtime::Store::new(&engine.engine, ());
    store.set_epoch_deadline(1);
    let instance = wasmtime::Instance::new(&mut store, &module, &[]).unwrap();
    let mut run = |function: &str, ticks: u64, wait: Duration| {
        store.set_epoch_deadline(ticks);
        thread::sleep(wait);
        let function = instance.get_typed_func::<(), ()>(&mut store, function);
        function.unwrap().call(&mut store, ()).is_ok()
    };
    let quota = engine.quota("tool", false, 1 << 20);
    let slot = engine.enter(&quota, 1).await.unwrap();
    let start = std::time::Instant::now();
    assert!(!run("loops", 1, Duration::ZERO));
    // Without a wake-up, the clock sleeps for a second.
    assert!(
        start.elapsed() < Duration::from_millis(800),
        "the clock was not woken"
    );
    drop(slot);
    // The last tick can still come.
    assert!(run("ends", 2, 10 * TICK));
}

#[test]
fn does_not_scan_page_map() {
    let config = format!("{:?}", pool_config(&Load::default(), 1 << 20));
    assert!(config.contains("pagemap_scan: No"), "{config}");
}

#[test]
fn few_bytes_stay_resident_on_a_small_machine() {
    for (all_memory, memories, expected) in [
        (1 << 30, 2, 256 << 10),
        (1 << 20, 2, 128 << 10),
        (32 << 10, 8, 1 << 10),
    ] {
        assert_eq!(resident_bytes(all_memory, memories), expected);
    }
}
