//! What a call costs, from arguments to answer, in a fresh sandbox each time,
//! with the plain read of the same file beside it.

use std::fs;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;
use skillhost::Host;

const SIZES: [(&str, usize); 3] = [("4KiB", 4 << 10), ("64KiB", 64 << 10), ("1MiB", 1 << 20)];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

fn calls(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("skill");
    fs::create_dir(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "---\nname: skill\n---\nText.\n").unwrap();
    for (name, bytes) in SIZES {
        let line = "A line of ordinary text, as files of skills have them.\n";
        fs::write(
            skill.join(name),
            &line.repeat(bytes / line.len() + 1)[..bytes],
        )
        .unwrap();
    }
    let runtime = runtime();
    let host = runtime
        .block_on(Host::builder().skills(folder.path()).build())
        .unwrap();

    let mut group = criterion.benchmark_group("read");
    for (name, bytes) in SIZES {
        group.throughput(Throughput::Bytes(bytes as u64));
        let arguments = json!({"skill_name": "skill", "file_path": name});
        group.bench_with_input(
            BenchmarkId::new("sandbox", name),
            &arguments,
            |bencher, arguments| {
                bencher.iter(|| {
                    let call = host.call("read_file_in_skill", arguments.clone());
                    black_box(runtime.block_on(call).unwrap())
                });
            },
        );
        let path = skill.join(name);
        group.bench_with_input(BenchmarkId::new("native", name), &path, |bencher, path| {
            bencher.iter(|| black_box(fs::read_to_string(path).unwrap()));
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("other");
    for (name, tool, arguments) in [
        (
            "missing file",
            "read_file_in_skill",
            json!({"skill_name": "skill", "file_path": "none"}),
        ),
        (
            "traversal",
            "read_file_in_skill",
            json!({"skill_name": "skill", "file_path": "../x"}),
        ),
        ("unknown skill", "get_skill", json!({"skill_name": "none"})),
        ("get_skill", "get_skill", json!({"skill_name": "skill"})),
        ("read_skill", "read_skill", json!({"skill_name": "skill"})),
        (
            "read_skill_file",
            "read_skill_file",
            json!({"skill_name": "skill", "path": "SKILL.md"}),
        ),
        ("list_skills", "list_skills", json!({})),
    ] {
        group.bench_function(name, |bencher| {
            bencher
                .iter(|| black_box(runtime.block_on(host.call(tool, arguments.clone())).is_ok()));
        });
    }
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
