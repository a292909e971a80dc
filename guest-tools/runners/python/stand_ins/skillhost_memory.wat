;; Makes two builds of the runner end with the same memory. The build links this library, calls
;; `__wasm_call_ctors` before Python starts, and imports `skillhost_memory` at its end. A call runs
;; none of it.
;;
;; Strings hash without a random secret. Each block of memory is cleared when it is allocated and
;; when it is freed, because unused bytes of objects would keep times, inode numbers and random
;; bytes of the build. The offsets fit libpython of the componentize-py in `requirements.txt`.
;;
;; `tests/release.rs` checks that `skillhost_memory.abi3.so` is this file.
(module
  (@dylink.0
    (mem-info (memory 256 2) (table 4 0))
    (needed "libpython3.14.so" "libc.so"))

  (type $malloc (func (param i32 i32) (result i32)))
  (type $calloc (func (param i32 i32 i32) (result i32)))
  (type $realloc (func (param i32 i32 i32) (result i32)))
  (type $free (func (param i32 i32)))

  (import "env" "memory" (memory 0))
  (import "env" "__indirect_function_table" (table 0 funcref))
  (import "env" "__memory_base" (global $base i32))
  (import "env" "__table_base" (global $table i32))
  (import "env" "__stack_pointer" (global $stack (mut i32)))
  (import "env" "setenv" (func $setenv (param i32 i32 i32) (result i32)))
  (import "env" "malloc_usable_size" (func $usable (param i32) (result i32)))
  (import "env" "PyMem_GetAllocator" (func $get_allocator (param i32 i32)))
  (import "env" "PyMem_SetAllocator" (func $set_allocator (param i32 i32)))
  (import "env" "PyErr_NoMemory" (func $no_memory (result i32)))
  (import "GOT.mem" "_PyRuntime" (global $runtime (mut i32)))
  (import "GOT.mem" "__stack_chk_guard" (global $guard (mut i32)))

  (export "__wasm_call_ctors" (func $start))
  (export "PyInit_skillhost_memory" (func $restore))

  (elem (global.get $table) func $malloc $calloc $realloc $free)
  ;; At 128 are the three saved allocators, of 20 bytes each; at 192 is the new one.
  (data (global.get $base) "PYTHONHASHSEED\00" "0\00" "PYTHONDONTWRITEBYTECODE\00" "1\00")

  (func $start (local $domain i32) (local $saved i32)
    (drop (call $setenv (call $at (i32.const 0)) (call $at (i32.const 15)) (i32.const 1)))
    (drop (call $setenv (call $at (i32.const 17)) (call $at (i32.const 41)) (i32.const 1)))
    (call $clear_start)
    (loop $next
      (local.set $saved (call $saved (local.get $domain)))
      (call $get_allocator (local.get $domain) (local.get $saved))
      (i32.store (call $at (i32.const 192)) (local.get $saved))
      (i32.store (call $at (i32.const 196)) (global.get $table))
      (i32.store (call $at (i32.const 200)) (i32.add (global.get $table) (i32.const 1)))
      (i32.store (call $at (i32.const 204)) (i32.add (global.get $table) (i32.const 2)))
      (i32.store (call $at (i32.const 208)) (i32.add (global.get $table) (i32.const 3)))
      (call $set_allocator (local.get $domain) (call $at (i32.const 192)))
      (local.set $domain (i32.add (local.get $domain) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $domain) (i32.const 3)))))

  ;; Clears what libraries stored when they started.
  (func $clear_start
    (i32.store (global.get $guard) (i32.const 0x0aff0d00))
    ;; mimalloc, which allocates nothing here: the cookie and keys, the two halves of the random
    ;; state around "expand 32-byte k", and the time of the start.
    (if (i64.ne
          (i64.load (i32.sub (global.get $runtime) (i32.const 0x97e8)))
          (i64.const 0x3320646e61707865))
      (then (unreachable)))
    (memory.fill (i32.sub (global.get $runtime) (i32.const 0x97f4)) (i32.const 0) (i32.const 12))
    (memory.fill (i32.sub (global.get $runtime) (i32.const 0x97d8)) (i32.const 0) (i32.const 32))
    (memory.fill (i32.sub (global.get $runtime) (i32.const 0x97a8)) (i32.const 0) (i32.const 64))
    (i64.store (i32.add (global.get $runtime) (i32.const 0x79e28)) (i64.const 0))
    ;; The start of the process's clock.
    (memory.fill (i32.add (global.get $runtime) (i32.const 0xb89d0)) (i32.const 0) (i32.const 12))
    (call $clear_stack))

  ;; Restores the allocators. Fails as an import does without memory, because it is no module.
  (func $restore (result i32) (local $domain i32)
    (loop $next
      (call $set_allocator (local.get $domain) (call $saved (local.get $domain)))
      (local.set $domain (i32.add (local.get $domain) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $domain) (i32.const 3))))
    (call $clear_stack)
    (call $no_memory))

  ;; Clears the unused stack, which starts at address 0.
  (func $clear_stack
    (memory.fill (i32.const 0) (i32.const 0) (global.get $stack)))

  (func $at (param $offset i32) (result i32)
    (i32.add (global.get $base) (local.get $offset)))

  (func $saved (param $domain i32) (result i32)
    (call $at (i32.add (i32.const 128) (i32.mul (local.get $domain) (i32.const 20)))))

  (func $malloc (param $saved i32) (param $size i32) (result i32)
    (call $cleared
      (call_indirect (type $malloc)
        (i32.load (local.get $saved))
        (local.get $size)
        (i32.load offset=4 (local.get $saved)))
      (i32.const 0)))

  (func $calloc (param $saved i32) (param $count i32) (param $size i32) (result i32)
    (call $cleared
      (call_indirect (type $calloc)
        (i32.load (local.get $saved))
        (local.get $count)
        (local.get $size)
        (i32.load offset=8 (local.get $saved)))
      (i32.const 0)))

  (func $realloc (param $saved i32) (param $block i32) (param $size i32) (result i32)
    (local $old i32)
    (local.set $old (call $usable (local.get $block)))
    (call $cleared
      (call_indirect (type $realloc)
        (i32.load (local.get $saved))
        (local.get $block)
        (local.get $size)
        (i32.load offset=12 (local.get $saved)))
      (local.get $old)))

  (func $free (param $saved i32) (param $block i32)
    (call_indirect (type $free)
      (i32.load (local.get $saved))
      (call $cleared (local.get $block) (i32.const 0))
      (i32.load offset=16 (local.get $saved))))

  ;; Clears a block behind its first bytes, and returns it.
  (func $cleared (param $block i32) (param $from i32) (result i32)
    (local $to i32)
    (local.set $to (call $usable (local.get $block)))
    (if (i32.gt_u (local.get $to) (local.get $from))
      (then
        (memory.fill
          (i32.add (local.get $block) (local.get $from))
          (i32.const 0)
          (i32.sub (local.get $to) (local.get $from)))))
    (local.get $block)))
