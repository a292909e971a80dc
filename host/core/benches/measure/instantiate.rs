//! The cost of a sandbox without a call: each tool's component is instantiated with all limits and
//! dropped. For comparison, `native` starts a process that does nothing.

use std::hint::black_box;
use std::process::Command;

use criterion::Criterion;
use skillhost::Host;

use super::support::{runtime, skills};

pub(super) fn run() {
    let mut criterion = Criterion::default().configure_from_args();
    let root = skills(1);
    let runtime = runtime();
    let host = runtime.block_on(Host::builder().skills(root.path()).build());
    let host = host.unwrap();
    let mut group = criterion.benchmark_group("instantiate");
    for definition in host.definitions() {
        group.bench_function(&definition.name, |bencher| {
            bencher.iter(|| {
                let instance = host.instantiate(&definition.name);
                runtime.block_on(instance).unwrap();
            });
        });
    }
    group.bench_function("native, a process", |bencher| {
        bencher.iter(|| black_box(Command::new("true").status().unwrap()));
    });
    group.finish();
    criterion.final_summary();
}
