//! The number of calls per second on one, two and four threads. For comparison, `native` reads
//! files without a sandbox.

mod support;

use std::fs;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;
use skillhost::Host;
use support::{text, write_skill};

const THREADS: [usize; 3] = [1, 2, 4];

fn throughput(criterion: &mut Criterion) {
    let root = tempfile::tempdir().unwrap();
    let skill = write_skill(root.path(), "skill", 1 << 10);
    fs::write(skill.join("file.txt"), text(4 << 10)).unwrap();
    let mut group = criterion.benchmark_group("throughput");
    group.throughput(Throughput::Elements(1));
    for threads in THREADS {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_time()
            .build()
            .unwrap();
        let host = runtime.block_on(Host::builder().skills(root.path()).build());
        let host = host.unwrap();
        group.bench_function(BenchmarkId::new("sandbox", threads), |bencher| {
            bencher.iter_custom(|calls| {
                let start = Instant::now();
                let callers: Vec<_> = shares(calls, threads)
                    .map(|calls| {
                        let host = host.clone();
                        runtime.spawn(async move {
                            for _ in 0..calls {
                                let arguments =
                                    json!({"skill_name": "skill", "file_path": "file.txt"});
                                let call = host.call("read_file_in_skill", arguments);
                                black_box(call.await.unwrap());
                            }
                        })
                    })
                    .collect();
                for caller in callers {
                    runtime.block_on(caller).unwrap();
                }
                start.elapsed()
            });
        });
        let file = skill.join("file.txt");
        group.bench_function(BenchmarkId::new("native", threads), |bencher| {
            bencher.iter_custom(|reads| native(&file, reads, threads));
        });
    }
    group.finish();
}

fn native(file: &std::path::Path, reads: u64, threads: usize) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for reads in shares(reads, threads) {
            scope.spawn(move || {
                for _ in 0..reads {
                    black_box(fs::read_to_string(file).unwrap());
                }
            });
        }
    });
    start.elapsed()
}

/// Returns each thread's share of `all` calls or reads.
fn shares(all: u64, threads: usize) -> impl Iterator<Item = u64> {
    let threads = threads as u64;
    (0..threads).map(move |thread| all / threads + u64::from(thread < all % threads))
}

criterion_group!(benches, throughput);
criterion_main!(benches);
