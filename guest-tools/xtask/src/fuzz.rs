//! `cargo xtask fuzz`: runs all fuzz targets in turns, minimises what they collect, and
//! keeps the count of hours in `tests/fuzz/README.md`. An hour is one of a processor.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::environment::cargo_program;
use crate::{Outcome, workspace};

/// Run all fuzz targets in turns
///
/// Needs cargo-fuzz and g++. Adds each turn to the table in `tests/fuzz/README.md`, which
/// is to be committed.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The hours of all targets together
    #[arg(long)]
    hours: f64,
    /// The targets, by name; all without one
    targets: Vec<String>,
}

/// The longest turn of a target in seconds. Every target gets its part even if a run is
/// ended early.
const TURN: u64 = 900;

/// The most files of a collected corpus, and the most bytes of one. Guards against: a
/// disk that fills, and turns that only read what was collected.
const MOST_FILES: usize = 5_000;
const MOST_BYTES: u64 = 64 << 10;

/// What was seen of a target.
#[derive(Debug, Default, Clone, PartialEq)]
struct Tally {
    seconds: u64,
    executions: u64,
    /// Edges of code that the corpus reaches, at the end.
    coverage: u64,
    /// Inputs that broke it.
    findings: usize,
}

pub(super) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let root = workspace::root()?;
    let known = targets(&root)?;
    for target in &arguments.targets {
        ensure!(known.contains(target), "there is no fuzz target `{target}`");
    }
    let chosen = match arguments.targets.is_empty() {
        true => &known,
        false => &arguments.targets,
    };
    let all = (arguments.hours * 3600.0) as u64;
    let each = all / chosen.len() as u64;
    ensure!(each > 0, "less than a second for each target");
    let mut findings = 0;
    let mut left = each;
    while left > 0 {
        let turn = left.min(TURN);
        for target in chosen {
            let seen = run(&root, target, turn)?;
            println!(
                "{target:<12} {:>5} s, {} executions, coverage {}, {} findings",
                seen.seconds, seen.executions, seen.coverage, seen.findings
            );
            // After each turn, so that a run which is ended early counts too.
            add_to_page(&root, target, &seen)?;
            findings += seen.findings;
        }
        left -= turn;
    }
    for target in chosen {
        minimise(&root, target)?;
    }
    match findings {
        0 => Ok(Outcome::Fine),
        _ => {
            println!(
                "{findings} findings are in tests/fuzz/artifacts; CONTRIBUTING.md says what to do"
            );
            Ok(Outcome::Different)
        }
    }
}

fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("tests/fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn cargo_fuzz(root: &Path, verb: &str, target: &str) -> Command {
    let mut cargo = Command::new(cargo_program());
    cargo.current_dir(root).args([
        "fuzz",
        verb,
        "--fuzz-dir",
        "tests/fuzz",
        "-s",
        "none",
        target,
    ]);
    cargo
}

/// Returns the folder of what a target has collected.
fn collected(root: &Path, target: &str) -> PathBuf {
    root.join("target/fuzz").join(target)
}

/// Gives a target a turn.
fn run(root: &Path, target: &str, seconds: u64) -> Result<Tally> {
    let folder = collected(root, target);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let before = artifacts(root, target);
    // Before the clock: a build runs on all processors.
    let built = cargo_fuzz(root, "build", target).status();
    let built = built.context("cannot run `cargo fuzz`: install cargo-fuzz")?;
    ensure!(built.success(), "the target `{target}` does not build");
    let log = folder.with_extension("log");
    let to = File::create(&log).context("cannot make the log")?;
    let (start, used) = (Instant::now(), processor_time()?);
    cargo_fuzz(root, "run", target)
        .arg(&folder)
        .arg(format!("tests/fuzz/corpus/{target}"))
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        // An input that takes a minute is a finding.
        .args([
            "-print_final_stats=1",
            "-timeout=60",
            "-report_slow_units=60",
        ])
        .stdin(Stdio::null())
        .stdout(to.try_clone()?)
        .stderr(to)
        .status()
        .context("cannot run `cargo fuzz`")?;
    let said = fs::read(&log).context("cannot read the log")?;
    let mut seen = read_log(&String::from_utf8_lossy(&said));
    seen.findings = artifacts(root, target).saturating_sub(before);
    // Less than the turn's if others had the processor.
    let used = processor_time()?.saturating_sub(used);
    seen.seconds = start.elapsed().min(used).as_secs().min(seconds);
    ensure!(
        seen.executions > 0 || seen.findings > 0,
        "the target `{target}` did not run: see {}",
        log.display()
    );
    Ok(seen)
}

/// Returns the processor time of the processes that this one has waited for.
fn processor_time() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read the time used")?;
    // The name of the program, which may hold anything, ends with the last bracket.
    let (_, fields) = stat.rsplit_once(") ").context("an odd /proc/self/stat")?;
    let ticks = fields.split(' ').skip(13).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<_, _>>()?;
    Ok(Duration::from_millis(ticks * TICK))
}

/// A tick of `/proc` in milliseconds.
const TICK: u64 = 10;

/// Reads the figures of libFuzzer's output.
fn read_log(log: &str) -> Tally {
    let mut seen = Tally::default();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once(" cov: ") {
            let number = rest.split(' ').next().and_then(|word| word.parse().ok());
            seen.coverage = number.unwrap_or(seen.coverage);
        }
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            seen.executions = number.trim().parse().unwrap_or_default();
        }
    }
    seen
}

/// Returns the number of inputs that have broken a target.
fn artifacts(root: &Path, target: &str) -> usize {
    let folder = root.join("tests/fuzz/artifacts").join(target);
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Keeps of a collected corpus what reaches different code, within the bounds.
fn minimise(root: &Path, target: &str) -> Result<()> {
    let folder = collected(root, target);
    let done = cargo_fuzz(root, "cmin", target)
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot run `cargo fuzz cmin`")?;
    if !done.success() {
        println!("{target:<12} was not minimised: an input of its corpus breaks it");
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.len(), entry.path()));
    }
    files.sort();
    for (number, (bytes, path)) in files.iter().enumerate() {
        if number >= MOST_FILES || *bytes > MOST_BYTES {
            fs::remove_file(path)?;
        }
    }
    println!("{target:<12} {} files kept", files.len().min(MOST_FILES));
    Ok(())
}

/// The head of the table of hours.
const HEAD: &str = "| target | hours | executions | coverage | found |\n|---|---|---|---|---|\n";

fn add_to_page(root: &Path, target: &str, seen: &Tally) -> Result<()> {
    let page = root.join("tests/fuzz/README.md");
    let write = || {
        let mut file = File::options().read(true).write(true).open(&page)?;
        // Another run may end a turn now.
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let text = add(&text, target, seen)?;
        file.set_len(0)?;
        file.rewind()?;
        anyhow::Ok(file.write_all(text.as_bytes())?)
    };
    write().with_context(|| page.display().to_string())
}

/// Returns the page with a turn added to its table.
fn add(page: &str, target: &str, seen: &Tally) -> Result<String> {
    let (before, table) = page
        .split_once(HEAD)
        .context("tests/fuzz/README.md has no table of hours")?;
    let end = table
        .split_inclusive('\n')
        .take_while(|line| line.starts_with('|'))
        .map(str::len)
        .sum();
    let (table, rest) = table.split_at(end);
    let mut rows: BTreeMap<&str, (f64, u64, u64, u64)> = BTreeMap::new();
    for row in table.lines() {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [target, hours, executions, coverage, found] = cells[..] else {
            anyhow::bail!("tests/fuzz/README.md: not a row of the table: {row}");
        };
        let (executions, found) = (executions.parse()?, found.parse()?);
        let sums = (hours.parse()?, executions, coverage.parse()?, found);
        rows.insert(target.trim_matches('`'), sums);
    }
    let sums = rows.entry(target).or_default();
    sums.0 += seen.seconds as f64 / 3600.0;
    sums.1 += seen.executions;
    sums.2 = seen.coverage;
    sums.3 += seen.findings as u64;
    let rows = rows
        .iter()
        .map(|(target, (hours, executions, coverage, found))| {
            format!("| `{target}` | {hours:.3} | {executions} | {coverage} | {found} |\n")
        });
    let rows: String = rows.collect();
    Ok([before, HEAD, &rows, rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_executions_and_the_last_coverage() {
        let log = "#2\tINITED cov: 17 ft: 18 corp: 1/1b\n#9\tDONE   cov: 40 ft: 50 corp: 2/8b\n\
                   stat::number_of_executed_units: 900\n";
        let seen = read_log(log);
        assert_eq!((seen.executions, seen.coverage), (900, 40));
    }

    #[test]
    fn a_turn_adds_to_the_row_of_its_target() {
        let page = |rows: &str| format!("# F\n\n{HEAD}{rows}\nMore.\n");
        let old = "| `call` | 1.500 | 10 | 3 | 1 |\n";
        let seen = Tally {
            seconds: 1800,
            executions: 5,
            coverage: 4,
            findings: 0,
        };
        let new = "| `view` | 0.500 | 5 | 4 | 0 |\n";
        for (target, rows) in [
            ("call", "| `call` | 2.000 | 15 | 4 | 1 |\n".to_owned()),
            ("view", format!("{old}{new}")),
        ] {
            assert_eq!(add(&page(old), target, &seen).unwrap(), page(&rows));
        }
    }

    #[test]
    fn the_page_has_a_row_for_each_target() {
        let root = workspace::root().unwrap();
        let page = fs::read_to_string(root.join("tests/fuzz/README.md")).unwrap();
        for target in targets(&root).unwrap() {
            let added = add(&page, &target, &Tally::default()).unwrap();
            assert_eq!(added.lines().count(), page.lines().count(), "{target}");
        }
    }

    #[test]
    fn the_time_of_a_child_counts_when_it_has_ended() {
        let before = processor_time().unwrap();
        let loops = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let child = Command::new("sh").args(["-c", loops]).status().unwrap();
        assert!(child.success());
        assert!(processor_time().unwrap() > before);
    }
}
