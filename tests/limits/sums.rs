//! Limits on sums: guests with several small memories, tables and handles, up to the limit and
//! just above it.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::json;
use skillhost::{CallEnd, CallError, Host, Limits, Observer, Stop};

use crate::support::folders::Folders;
use crate::support::{build, builder, call};

/// The size of a page of memory, in bytes.
const PAGE: usize = 64 << 10;

/// Loads a component from its text, under these limits.
fn host(text: &str, set: impl FnOnce(&mut Limits)) -> (Folders, Host) {
    let folders = Folders::new();
    let component = wat::parse_str(text).unwrap();
    fs::write(folders.outside.join("sums.wasm"), component).unwrap();
    let mut limits = Limits::default();
    set(&mut limits);
    let host = build(builder().tools(&folders.outside).limits(limits));
    (folders, host)
}

/// Calls `tool` with a number. Returns the limit that stopped it, if one did.
fn stop(host: &Host, tool: &str, number: u32) -> Option<Stop> {
    match call(host, tool, json!({"number": number})) {
        Ok(_) => None,
        Err(CallError::Stopped { stop, .. }) => Some(stop),
        Err(other) => panic!("{tool} {number}: {other:?}"),
    }
}

/// Makes a component of `parts` instances of a module. Its function `grow` calls the function
/// `grow` of each instance.
fn parts(parts: usize, module: &str) -> String {
    let each = |line: &dyn Fn(usize) -> String| (0..parts).map(line).collect::<String>();
    let instances = each(&|part| format!("(core instance $i{part} (instantiate $part))\n"));
    let imports =
        each(&|part| format!("(import \"{part}\" \"grow\" (func $f{part} (param i32)))\n"));
    let calls = each(&|part| format!("(call $f{part} (local.get 0))\n"));
    let arguments = each(&|part| format!("(with \"{part}\" (instance $i{part}))\n"));
    format!(
        r#"(component
  (core module $part {module})
  (core module $all {imports}
    (func (export "grow") (param i32) (result i32) {calls} (i32.const 1)))
  {instances}
  (core instance $all (instantiate $all {arguments}))
  (func (export "grow") (param "number" u32) (result u32)
    (canon lift (core func $all "grow"))))"#
    )
}

/// A module with a memory of 10 pages, which its function `grow` grows.
const MEMORY: &str = r#"(memory 10) (func (export "grow") (param i32)
    (if (i32.eq (memory.grow (local.get 0)) (i32.const -1)) (then unreachable)))"#;

#[test]
fn counts_all_memories_of_a_call_together() {
    let limit = 50 * PAGE;
    let memory = |limits: &mut Limits| limits.memory = limit;
    let stopped = Some(Stop::Memory(limit));
    // Four memories of 10 pages, and their growth.
    let (_folders, host) = self::host(&parts(4, MEMORY), memory);
    for (pages, expected) in [(0, &None), (2, &None), (3, &stopped), (25, &stopped)] {
        assert_eq!(&stop(&host, "grow", pages), expected, "{pages} pages more");
    }
    // The initial memories of instances count.
    for (count, expected) in [(5, &None), (6, &stopped)] {
        let (_folders, host) = self::host(&parts(count, MEMORY), memory);
        assert_eq!(&stop(&host, "grow", 0), expected, "{count} memories");
    }
}

#[derive(Default)]
struct Memories(Mutex<Vec<Option<usize>>>);

impl Observer for Memories {
    fn ended(&self, call: &CallEnd<'_>) {
        self.0.lock().unwrap().push(call.memory);
    }
}

#[test]
fn observer_gets_the_bytes_of_all_memories() {
    let folders = Folders::new();
    let component = wat::parse_str(parts(4, MEMORY)).unwrap();
    fs::write(folders.outside.join("sums.wasm"), component).unwrap();
    let memories = Arc::<Memories>::default();
    let observed = builder().tools(&folders.outside).observer(memories.clone());
    let host = build(observed);
    for pages in [0, 2] {
        assert_eq!(stop(&host, "grow", pages), None);
    }
    let bytes = [40, 48].map(|pages| Some(pages * PAGE));
    assert_eq!(*memories.0.lock().unwrap(), bytes);
}

#[test]
fn counts_each_growth_of_one_memory() {
    let module = r#"(memory 10) (func (export "grow") (param i32)
        (loop $more
          (if (i32.eq (memory.grow (i32.const 4)) (i32.const -1)) (then unreachable))
          (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
          (br_if $more (local.get 0))))"#;
    let limit = 50 * PAGE;
    let (_folders, host) = host(&parts(1, module), |limits| limits.memory = limit);
    for (growths, expected) in [(10, None), (11, Some(Stop::Memory(limit)))] {
        assert_eq!(stop(&host, "grow", growths), expected, "{growths} growths");
    }
}

#[test]
fn counts_elements_of_all_tables_together() {
    let module = r#"(table 10 funcref) (func (export "grow") (param i32)
        (if (i32.eq (table.grow (ref.null func) (local.get 0)) (i32.const -1))
          (then unreachable)))"#;
    let elements = |limits: &mut Limits| limits.table_elements = 50;
    let stopped = Some(Stop::TableElements(50));
    let (_folders, host) = self::host(&parts(4, module), elements);
    for (more, expected) in [(0, &None), (2, &None), (3, &stopped), (25, &stopped)] {
        assert_eq!(&stop(&host, "grow", more), expected, "{more} elements more");
    }
    for (count, expected) in [(5, &None), (6, &stopped)] {
        let (_folders, host) = self::host(&parts(count, module), elements);
        assert_eq!(&stop(&host, "grow", 0), expected, "{count} tables");
    }
}

#[test]
fn failed_table_growth_counts_nothing() {
    let module = r#"(table 6 10 funcref) (func (export "grow") (param i32)
        (loop $again
          (drop (table.grow (ref.null func) (i32.const 5)))
          (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
          (br_if $again (local.get 0)))
        (if (i32.eq (table.grow (ref.null func) (i32.const 4)) (i32.const -1))
          (then unreachable)))"#;
    let (_folders, host) = host(&parts(1, module), |limits| limits.table_elements = 19);
    assert_eq!(stop(&host, "grow", 5), None);
}

/// A component that holds as many timers as its argument says.
const TIMERS: &str = r#"(component
  (import "wasi:io/poll@0.2.0" (instance $poll (export "pollable" (type (sub resource)))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $pollable))
    (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))
  (core module $m
    (import "clock" "subscribe" (func $subscribe (param i64) (result i32)))
    (func (export "timers") (param i32) (result i32) (local $held i32)
      (loop $more
        (drop (call $subscribe (i64.const 1)))
        (local.set $held (i32.add (local.get $held) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $held) (local.get 0))))
      local.get $held))
  (core instance $i (instantiate $m (with "clock" (instance
    (export "subscribe" (func $subscribe))))))
  (func (export "timers") (param "number" u32) (result u32)
    (canon lift (core func $i "timers"))))"#;

#[test]
fn limits_handles_of_a_call() {
    // A timer takes two handles: the timer and what it waits for.
    for timers in [5, 50] {
        let limit = 2 * timers as usize;
        let (_folders, host) = host(TIMERS, |limits| limits.handles = limit);
        assert_eq!(stop(&host, "timers", timers), None);
        let stopped = Some(Stop::Handles(limit));
        assert_eq!(stop(&host, "timers", timers + 1), stopped);
    }
}

/// A component that defines a resource type and makes as many resources as its argument says.
const RESOURCES: &str = r#"(component
  (type $r (resource (rep i32)))
  (core func $new (canon resource.new $r))
  (core module $m
    (import "r" "new" (func $new (param i32) (result i32)))
    (func (export "resources") (param i32) (result i32) (local $held i32)
      (loop $more
        (drop (call $new (i32.const 7)))
        (local.set $held (i32.add (local.get $held) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $held) (local.get 0))))
      local.get $held))
  (core instance $i (instantiate $m (with "r" (instance (export "new" (func $new))))))
  (func (export "resources") (param "number" u32) (result u32)
    (canon lift (core func $i "resources"))))"#;

#[test]
fn allows_own_resources_up_to_twice_the_limit() {
    for limit in [10, 100] {
        let (_folders, host) = host(RESOURCES, |limits| limits.handles = limit);
        let most = 2 * u32::try_from(limit).unwrap();
        assert_eq!(stop(&host, "resources", most), None);
        for number in [most + 1, 100_000] {
            let stopped = Some(Stop::Handles(limit));
            assert_eq!(stop(&host, "resources", number), stopped, "{number}");
        }
    }
}
