//! The cost of a call that fails. Such a call does the same as one that is answered, but reads no
//! file.

mod support;

use std::fs;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use skillhost::Host;
use support::{runtime, skills};

fn errors(criterion: &mut Criterion) {
    let root = skills(1);
    let runtime = runtime();
    let host = runtime.block_on(Host::builder().skills(root.path()).build());
    let host = host.unwrap();
    let mut group = criterion.benchmark_group("error");
    for (name, skill, path) in [
        ("missing file", "skill-00000", "none.txt"),
        ("traversal", "skill-00000", "../skill-00000/SKILL.md"),
        ("unknown skill", "none", "SKILL.md"),
    ] {
        let arguments = json!({"skill_name": skill, "file_path": path});
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let call = host.call("read_file_in_skill", arguments.clone());
                black_box(runtime.block_on(call).unwrap_err())
            });
        });
    }
    // The host refuses this call before it creates a sandbox.
    group.bench_function("wrong arguments", |bencher| {
        bencher.iter(|| {
            let call = host.call("read_file_in_skill", json!({"skill_name": 1}));
            black_box(runtime.block_on(call).unwrap_err())
        });
    });
    let missing = root.path().join("skill-00000/none.txt");
    group.bench_function("native, missing file", |bencher| {
        bencher.iter(|| black_box(fs::read_to_string(&missing).unwrap_err()));
    });
    group.finish();
}

criterion_group!(benches, errors);
criterion_main!(benches);
