//! Tries requests on the skills of a folder: which of them have a right skill among the
//! first hits, and how long that takes.
//!
//! `cargo run --release -p skillhost-index --example requests -- SKILLS REQUESTS [--misses]`
//!
//! `REQUESTS` is a file with a request a line: a label such as its language, the
//! request and the names of the right skills, with tabs between them and blanks between
//! names. A name may end in `*`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use skillhost::{Catalog, SkillIndex as _, SkillsRoot};
use skillhost_index::MemoryIndex;

/// A right skill among so many is found.
const FIRST: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [skills, requests, options @ ..] = arguments.as_slice() else {
        return Err("give a folder of skills and a file of requests".into());
    };
    let root = SkillsRoot::new(skills);
    let catalog = Catalog::open(&[root], None)?;
    let start = Instant::now();
    let index = MemoryIndex::build_now(&catalog);
    println!("{:.1?}: {:?}", start.elapsed(), index.report());

    let mut rates: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut times: Vec<Duration> = Vec::new();
    let text = std::fs::read_to_string(requests)?;
    for (number, line) in text.lines().enumerate() {
        let [label, request, right] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("line {}: not three columns", number + 1).into());
        };
        let start = Instant::now();
        let found = index.search(request, FIRST, &|_| true);
        times.push(start.elapsed());
        let is_right = |name: &str| {
            right.split(' ').any(|right| match right.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == right,
            })
        };
        let good = found.hits.iter().any(|hit| is_right(&hit.name));
        let half = if number % 2 == 0 { "even" } else { "odd" };
        for key in ["all", half, label] {
            let (hits, of) = rates.entry(key).or_default();
            *hits += usize::from(good);
            *of += 1;
        }
        if !good && options.iter().any(|option| option == "--misses") {
            println!("{half} {request} ({right})");
            for hit in found.hits {
                println!("    {}: {}", hit.name, hit.matches.join(" · "));
            }
        }
    }
    for (label, (hits, of)) in rates {
        println!("{label}: {hits} of {of}, {:.3}", hits as f64 / of as f64);
    }
    times.sort();
    println!(
        "median {:.2?}, longest {:.2?}",
        times[times.len() / 2],
        times[times.len() - 1]
    );
    Ok(())
}
