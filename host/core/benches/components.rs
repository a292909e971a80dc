//! The cost of many components: loading them from the cache, and calling one of them.
//!
//! The cost of calling one component must not depend on the number of other components. For
//! comparison, `native` reads the same files without skillhost.

mod support;

use std::fs;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use serde_json::json;
use skillhost::{Grant, Host, HostBuilder};
use support::{component_tool, components, runtime, skills};

const COUNTS: [usize; 3] = [1, 10, 100];

fn many_components(criterion: &mut Criterion) {
    let root = skills(1);
    let cache = tempfile::tempdir().unwrap();
    let folders = COUNTS.map(|count| (count, components(count)));
    let runtime = runtime();
    let builder = |folder: &tempfile::TempDir| -> HostBuilder {
        let grant = Grant::new().skills(["*"]).unwrap();
        Host::builder()
            .without_embedded_tools()
            .skills(root.path())
            .cache(cache.path())
            .tools(folder.path())
            .grant(format!("{}.wasm", component_tool(0)), grant)
    };
    let mut group = criterion.benchmark_group("load");
    group.sample_size(20);
    let hosts = folders.each_ref().map(|(count, folder)| {
        let load = || runtime.block_on(builder(folder).build()).unwrap();
        // The first load compiles the components.
        let host = load();
        assert_eq!(host.problems(), [] as [String; 0]);
        assert_eq!(host.definitions().len(), *count);
        group.bench_function(BenchmarkId::new("known", count), |bencher| {
            bencher.iter(|| black_box(load()));
        });
        group.bench_function(BenchmarkId::new("native", count), |bencher| {
            bencher.iter(|| {
                let entries = fs::read_dir(folder.path()).unwrap();
                let files = entries.map(|entry| fs::read(entry.unwrap().path()).unwrap());
                black_box(files.map(|bytes| bytes.len()).sum::<usize>())
            });
        });
        (*count, host)
    });
    group.finish();

    let mut group = criterion.benchmark_group("call by number of components");
    let arguments = json!({"skill_name": "skill-00000", "path": "SKILL.md"});
    for (count, host) in &hosts {
        let tool = component_tool(0);
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                let call = host.call(&tool, arguments.clone());
                black_box(runtime.block_on(call).unwrap())
            });
        });
    }
    let file = root.path().join("skill-00000/SKILL.md");
    group.bench_function("native", |bencher| {
        bencher.iter(|| black_box(fs::read_to_string(&file).unwrap().lines().count()));
    });
    group.finish();
}

criterion_group!(benches, many_components);
criterion_main!(benches);
