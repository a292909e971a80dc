//! Measures an index of generated skills: the times of its start, of searches and of an
//! update, and its memory.
//!
//! `cargo run --release -p skillhost-index --example scale -- 10000`

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skillhost::{Catalog, SkillIndex as _, SkillsRoot};
use skillhost_index::MemoryIndex;

/// The number of lines of a body: about 8 KB, as in public collections.
const LINES: u64 = 110;
/// The number of different words. The first ones are the most frequent.
const WORDS: u64 = 60_000;
/// The number of searches to measure.
const SEARCHES: u64 = 500;

/// A generator of numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }

    /// Returns a word. Every second word is one of the first 250.
    fn word(&mut self) -> String {
        let end = WORDS >> self.next(16);
        let mut number = self.next(end.max(1)) + 20;
        let mut word = String::new();
        while number > 0 {
            word.push_str(["ba", "ke", "li", "mo", "nu", "ra", "se", "to"][(number % 8) as usize]);
            number /= 8;
        }
        word
    }

    fn words(&mut self, count: u64) -> String {
        (0..count).map(|_| self.word() + " ").collect()
    }
}

fn write_skill(root: &Path, number: u64, random: &mut Random) -> std::io::Result<()> {
    let name = format!("skill-{number:06}");
    let mut text = format!(
        "---\nname: {name}\ndescription: {}\n---\n",
        random.words(25)
    );
    for line in 0..LINES {
        let heading = if line % 10 == 0 { "\n## " } else { "" };
        text += &format!("{heading}{}\n", random.words(10));
    }
    fs::create_dir(root.join(&name))?;
    fs::write(root.join(&name).join("SKILL.md"), text)
}

/// Returns the resident memory of this process in MiB.
fn memory() -> std::io::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    Ok(kib.unwrap_or_default() / 1024.0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: u64 = std::env::args().nth(1).unwrap_or_default().parse()?;
    let root = tempfile::tempdir()?;
    let mut random = Random(1);
    for number in 0..count {
        write_skill(root.path(), number, &mut random)?;
    }
    let folder = SkillsRoot::new(root.path().to_owned());
    let catalog = Arc::new(Catalog::open(&[folder], None)?);

    let before = memory()?;
    let start = Instant::now();
    let index = MemoryIndex::new();
    index.update(&catalog);
    while index.search("", 1, &|_| true).coverage == skillhost::Coverage::Nothing {
        std::thread::sleep(Duration::from_millis(5));
    }
    let descriptions = start.elapsed();
    index.wait_until_ready(Duration::from_secs(600));
    println!(
        "names and descriptions after {descriptions:.2?}, all after {:.2?}",
        start.elapsed()
    );
    println!("{:.1} MiB more, {:?}", memory()? - before, index.report());

    for (kind, typo) in [("words", ""), ("a mistyped word", "kebalimor ")] {
        let search = |_| {
            let query = random.words(8) + typo;
            let start = Instant::now();
            index.search(&query, 10, &|_| true);
            start.elapsed()
        };
        let mut times: Vec<Duration> = (0..SEARCHES).map(search).collect();
        times.sort();
        let quantile = |part: f64| times[(part * times.len() as f64) as usize];
        println!(
            "search with {kind}: median {:.2?}, 99 % {:.2?}",
            quantile(0.5),
            quantile(0.99)
        );
    }

    std::thread::sleep(Duration::from_secs(1));
    fs::write(root.path().join("skill-000000/SKILL.md"), "# Xylophone\n")?;
    let start = Instant::now();
    index.update(&catalog);
    index.wait_until_ready(Duration::from_secs(600));
    let result = index.search("xylophone", 1, &|_| true);
    println!(
        "a change shows after {:.2?}: {:?}",
        start.elapsed(),
        result.hits
    );
    Ok(())
}
