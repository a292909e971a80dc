//! Measures how many queries find their right skill among the first hits, and how long the
//! searches take.
//!
//! `cargo run --release -p skillhost-index --example queries -- SKILLS QUERIES [--misses]`
//!
//! `SKILLS` is a folder of skills. `QUERIES` is a file with one query per line: a label such as
//! its language, the query, and the names of the right skills. Tabs separate these columns, and
//! blanks separate the names. A name that ends in `*` stands for all names that start with
//! the text before it.
//!
//! Prints the rates of all queries, of each label, and of each half of the queries. The halves are
//! `even` and `odd` lines, counted from one. A change that was chosen with one half can be checked
//! with the other.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use skillhost::{Catalog, SkillIndex as _, SkillsRoot};
use skillhost_index::MemoryIndex;

/// The number of hits among which the right skill must be.
const MAX_HITS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [skills, queries, options @ ..] = arguments.as_slice() else {
        return Err("give a folder of skills and a file of queries".into());
    };
    let root = SkillsRoot::new(skills);
    let catalog = Catalog::open(&[root], None)?;
    let start = Instant::now();
    let index = MemoryIndex::build_now(&catalog);
    println!("{:.1?}: {:?}", start.elapsed(), index.report());

    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut times: Vec<Duration> = Vec::new();
    let text = std::fs::read_to_string(queries)?;
    for (number, line) in (1..).zip(text.lines()) {
        let [label, query, right_skills] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("line {}: not three columns", number).into());
        };
        let start = Instant::now();
        let result = index.search(query, MAX_HITS, &|_| true);
        times.push(start.elapsed());
        let is_right = |name: &str| {
            let mut right_skills = right_skills.split(' ');
            right_skills.any(|right| match right.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == right,
            })
        };
        let is_found = result.hits.iter().any(|hit| is_right(&hit.name));
        let half = if number % 2 == 0 { "even" } else { "odd" };
        for key in ["all", half, label] {
            let (found, all) = counts.entry(key).or_default();
            *found += usize::from(is_found);
            *all += 1;
        }
        if !is_found && options.iter().any(|option| option == "--misses") {
            println!("{half} {query} ({right_skills})");
            for hit in result.hits {
                println!("    {}: {}", hit.name, hit.matches.join(" · "));
            }
        }
    }
    for (label, (found, all)) in counts {
        let rate = found as f64 / all as f64;
        println!("{label}: {found} of {all}, {rate:.3}");
    }
    times.sort();
    let median = times.get(times.len() / 2).ok_or("there are no queries")?;
    println!(
        "median {median:.2?}, longest {:.2?}",
        times[times.len() - 1]
    );
    Ok(())
}
