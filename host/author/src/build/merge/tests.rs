//! Runs a component before and after its modules are merged.

use serde_json::json;
use skillhost::Host;
use wasmparser::{Validator, WasmFeatures};

use super::*;

/// A component in the form in which wit-component links one. It has a library, and a main module
/// with the memory, the table and the address of the number that the library reads. The library
/// calls a host function through a shim, because that function uses the memory and is therefore
/// defined after both modules.
const LINKED: &str = r#"(component
  (import "wasi:random/random@0.2.0" (instance $random
    (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
  (core module $main
    (memory (export "memory") 1)
    (table (export "table") 4 funcref)
    (global (export "stack") (mut i32) (i32.const 4096))
    (global (export "table-base") i32 (i32.const 2))
    (global (export "address") (mut i32) (i32.const 16))
    (data (i32.const 16) "\2a\00\00\00")
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024))
  (core module $library
    (type $answer (func (result i32)))
    (import "env" "memory" (memory 1))
    (import "env" "table" (table 4 funcref))
    (import "env" "stack" (global $stack (mut i32)))
    (import "env" "table-base" (global $base i32))
    (import "env" "random" (func $random (param i64 i32)))
    (import "addresses" "answer" (global $address (mut i32)))
    (elem (global.get $base) func $three)
    (func $three (type $answer) i32.const 3)
    (func (export "sum") (param i32) (result i32)
      (global.set $stack (i32.sub (global.get $stack) (i32.const 16)))
      (call $random (i64.const 100) (global.get $stack))
      local.get 0
      (i32.load (global.get $address))
      i32.add
      (call_indirect (type $answer) (global.get $base))
      i32.add
      (i32.load offset=4 (global.get $stack))
      i32.add))
  (core module $shim
    (table (export "$imports") 1 1 funcref)
    (func (export "0") (param i64 i32)
      (call_indirect (param i64 i32) (local.get 0) (local.get 1) (i32.const 0))))
  (core module $fixup
    (import "" "$imports" (table 1 1 funcref))
    (import "" "0" (func (param i64 i32)))
    (elem (i32.const 0) func 0))
  (core instance $shim (instantiate $shim))
  (core instance $main (instantiate $main))
  (alias core export $main "memory" (core memory $memory))
  (alias core export $main "realloc" (core func $realloc))
  (core instance $library (instantiate $library
    (with "env" (instance
      (export "memory" (memory $memory))
      (export "table" (table $main "table"))
      (export "stack" (global $main "stack"))
      (export "table-base" (global $main "table-base"))
      (export "random" (func $shim "0"))))
    (with "addresses" (instance (export "answer" (global $main "address"))))))
  (core func $random (canon lower (func $random "get-random-bytes")
    (memory $memory) (realloc $realloc)))
  (core instance (instantiate $fixup (with "" (instance
    (export "$imports" (table $shim "$imports"))
    (export "0" (func $random))))))
  (func (export "sum") (param "number" u32) (result u32)
    (canon lift (core func $library "sum"))))"#;

#[test]
fn merged_component_gives_same_answer() {
    let linked = wat::parse_str(LINKED).unwrap();
    let merged = merge(&linked).unwrap();
    let module_count = |component: &[u8]| {
        Plan::read(component, &payloads(component).unwrap())
            .unwrap()
            .modules
            .len()
    };
    assert_eq!((module_count(&linked), module_count(&merged)), (4, 3));
    Validator::new_with_features(WasmFeatures::default())
        .validate_all(&merged)
        .unwrap();
    for component in [linked, merged] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("sum.wasm"), component).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let output = runtime.unwrap().block_on(async {
            let host = Host::builder().tools(folder.path()).build().await.unwrap();
            assert!(host.problems().is_empty(), "{:?}", host.problems());
            host.call("sum", json!({"number": 5})).await.unwrap()
        });
        // The sum of 5, the number in memory (42), the result of the table's function (3), and the
        // number of random bytes (100).
        assert_eq!(output.text(), "150");
    }
}

#[test]
fn refuses_module_with_start_function() {
    let sum = r#"(func (export "sum") (param i32)"#;
    let with_start = LINKED.replace(sum, &format!("(func $f) (start $f) {sum}"));
    let error = merge(&wat::parse_str(with_start).unwrap()).unwrap_err();
    assert!(error.to_string().contains("StartSection"), "{error:#}");
}
