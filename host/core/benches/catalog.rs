//! The cost of many skills: scanning them, listing them for a model, and reading one of them.
//!
//! The cost of reading one skill must not depend on the number of other skills. For comparison,
//! `native` reads the same files without skillhost.

mod support;

use std::fs;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use serde_json::json;
use skillhost::{Catalog, Host, SkillsRoot};
use support::{runtime, skills};

const COUNTS: [usize; 3] = [10, 1_000, 10_000];

fn many_skills(criterion: &mut Criterion) {
    let roots = COUNTS.map(|count| (count, skills(count)));
    let runtime = runtime();
    let hosts = roots.each_ref().map(|(count, root)| {
        let host = runtime.block_on(Host::builder().skills(root.path()).build());
        (*count, host.unwrap())
    });
    let mut group = criterion.benchmark_group("catalog");
    group.sample_size(20);
    for (count, root) in &roots {
        let catalog = Catalog::open(&[SkillsRoot::new(root.path())], None).unwrap();
        group.bench_function(BenchmarkId::new("scan", count), |bencher| {
            bencher.iter(|| black_box(catalog.list().skills.len()));
        });
        group.bench_function(BenchmarkId::new("names", count), |bencher| {
            bencher.iter(|| black_box(catalog.names().len()));
        });
        group.bench_function(BenchmarkId::new("native", count), |bencher| {
            bencher.iter(|| {
                let entries = fs::read_dir(root.path()).unwrap();
                let files = entries.map(|entry| entry.unwrap().path().join("SKILL.md"));
                black_box(
                    files
                        .map(|file| fs::read(file).unwrap().len())
                        .sum::<usize>(),
                )
            });
        });
    }
    for (count, host) in &hosts {
        group.bench_function(BenchmarkId::new("list_skills", count), |bencher| {
            bencher.iter(|| {
                let call = host.call("list_skills", json!({}));
                black_box(runtime.block_on(call).unwrap())
            });
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("call by number of skills");
    for (count, host) in &hosts {
        let arguments = json!({"skill_name": "skill-00007", "file_path": "SKILL.md"});
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                let call = host.call("read_file_in_skill", arguments.clone());
                black_box(runtime.block_on(call).unwrap())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, many_skills);
criterion_main!(benches);
