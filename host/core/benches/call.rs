//! The cost of a call in a fresh sandbox, from arguments to answer. Measures each tool with files
//! of three sizes, and compares it with a plain read of the same file.

mod support;

use std::fs;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use skillhost::Host;
use support::{SIZES, runtime, text, write_skill};

/// Returns calls that read a file of this skill: `file` or SKILL.md.
fn reads(skill: &str, file: &str) -> [(&'static str, Value); 4] {
    [
        (
            "read_file_in_skill",
            json!({"skill_name": skill, "file_path": file}),
        ),
        (
            "read_skill_file",
            json!({"skill_name": skill, "path": file}),
        ),
        ("get_skill", json!({"skill_name": skill})),
        ("read_skill", json!({"skill_name": skill})),
    ]
}

fn calls(criterion: &mut Criterion) {
    let root = tempfile::tempdir().unwrap();
    for (name, bytes) in SIZES {
        let skill = write_skill(root.path(), name, bytes);
        fs::write(skill.join("file.txt"), text(bytes)).unwrap();
    }
    let runtime = runtime();
    let host = runtime.block_on(Host::builder().skills(root.path()).build());
    let host = host.unwrap();
    for (name, bytes) in SIZES {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(bytes as u64));
        for (tool, arguments) in reads(name, "file.txt") {
            group.bench_with_input(
                BenchmarkId::from_parameter(tool),
                &arguments,
                |bencher, arguments| {
                    bencher.iter(|| {
                        let call = host.call(tool, arguments.clone());
                        black_box(runtime.block_on(call).unwrap())
                    });
                },
            );
        }
        let file = root.path().join(name).join("file.txt");
        group.bench_function("native", |bencher| {
            bencher.iter(|| black_box(fs::read_to_string(&file).unwrap()));
        });
        group.finish();
    }
    let mut group = criterion.benchmark_group("list_skills");
    group.bench_function("3 skills", |bencher| {
        bencher.iter(|| {
            let call = host.call("list_skills", json!({}));
            black_box(runtime.block_on(call).unwrap())
        });
    });
    group.bench_function("native", |bencher| {
        bencher.iter(|| {
            let entries = fs::read_dir(root.path()).unwrap();
            let skills = entries.map(|entry| entry.unwrap().path().join("SKILL.md"));
            black_box(
                skills
                    .map(|file| fs::read(file).unwrap().len())
                    .sum::<usize>(),
            )
        });
    });
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
