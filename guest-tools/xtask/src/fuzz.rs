//! `cargo xtask fuzz`: runs all fuzz targets in turns, minimises their corpora, and adds the
//! processor hours to the table in `tests/fuzz/README.md`.

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
/// Needs cargo-fuzz and g++. Adds each turn to the table in `tests/fuzz/README.md`: commit that
/// file.
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Hours for all targets together
    #[arg(long)]
    hours: f64,
    /// Names of targets [default: all]
    targets: Vec<String>,
}

/// The maximum length of a turn in seconds. Turns are short, so that an interrupted run has run
/// every target.
const MAX_TURN_SECONDS: u64 = 900;

/// The maximum number of files in a collected corpus. Guards against: a full disk, and turns that
/// only read the corpus.
const MAX_CORPUS_FILES: usize = 5_000;
/// The maximum size of a file in a collected corpus.
const MAX_INPUT_BYTES: u64 = 64 << 10;

/// The results of a turn.
#[derive(Debug, Default, Clone, PartialEq)]
struct TurnResult {
    /// Processor time.
    seconds: u64,
    executions: u64,
    /// The number of code edges that the corpus covers at the end.
    coverage: u64,
    /// The number of new inputs that crash the target or exceed a limit.
    findings: usize,
}

pub(super) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let root = workspace::root()?;
    let known = targets(&root)?;
    for target in &arguments.targets {
        ensure!(known.contains(target), "there is no fuzz target `{target}`");
    }
    let chosen = if arguments.targets.is_empty() {
        &known
    } else {
        &arguments.targets
    };
    let total = (arguments.hours * 3600.0) as u64;
    let mut remaining = total / chosen.len() as u64;
    ensure!(
        remaining > 0,
        "`--hours` gives each target less than a second"
    );
    let mut findings = 0;
    while remaining > 0 {
        let turn = remaining.min(MAX_TURN_SECONDS);
        for target in chosen {
            let result = run_turn(&root, target, turn)?;
            println!(
                "{target:<12} {:>5} s, {} executions, coverage {}, {} findings",
                result.seconds, result.executions, result.coverage, result.findings
            );
            // Write the page after each turn, so that it has the turns of an interrupted run.
            add_to_page(&root, target, &result)?;
            findings += result.findings;
        }
        remaining -= turn;
    }
    for target in chosen {
        minimise(&root, target)?;
    }
    if findings == 0 {
        return Ok(Outcome::Clean);
    }
    println!("{findings} findings are in `tests/fuzz/artifacts`; see CONTRIBUTING.md");
    Ok(Outcome::Findings)
}

/// Returns the names of all fuzz targets, sorted.
fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("tests/fuzz/fuzz_targets");
    let mut names = Vec::new();
    let context = || format!("cannot list `{}`", folder.display());
    for entry in fs::read_dir(&folder).with_context(context)? {
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

/// Returns the folder of a target's collected corpus.
fn corpus_folder(root: &Path, target: &str) -> PathBuf {
    root.join("target/fuzz").join(target)
}

/// Runs a target for some seconds.
fn run_turn(root: &Path, target: &str, seconds: u64) -> Result<TurnResult> {
    let folder = corpus_folder(root, target);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let artifacts_before = count_artifacts(root, target);
    // Build before the clock starts, because a build runs on all processors.
    let built = cargo_fuzz(root, "build", target).status();
    let built =
        built.context("cannot run `cargo fuzz`: install it with `cargo install cargo-fuzz`")?;
    ensure!(built.success(), "cannot build the target `{target}`");
    let log = folder.with_extension("log");
    let log_file =
        File::create(&log).with_context(|| format!("cannot create `{}`", log.display()))?;
    let (start, used_before) = (Instant::now(), processor_time()?);
    cargo_fuzz(root, "run", target)
        .arg(&folder)
        .arg(format!("tests/fuzz/corpus/{target}"))
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        // An input that takes a minute counts as a finding.
        .args([
            "-print_final_stats=1",
            "-timeout=60",
            "-report_slow_units=60",
        ])
        .stdin(Stdio::null())
        .stdout(log_file.try_clone()?)
        .stderr(log_file)
        .status()
        .context("cannot run `cargo fuzz`")?;
    let output = fs::read(&log).with_context(|| format!("cannot read `{}`", log.display()))?;
    let mut result = parse_log(&String::from_utf8_lossy(&output));
    result.findings = count_artifacts(root, target).saturating_sub(artifacts_before);
    // Processor time is less than elapsed time if other processes ran too.
    let used = processor_time()?.saturating_sub(used_before);
    result.seconds = start.elapsed().min(used).as_secs().min(seconds);
    ensure!(
        result.executions > 0 || result.findings > 0,
        "the target `{target}` did not run: see `{}`",
        log.display()
    );
    Ok(result)
}

/// Returns the processor time of the child processes that have ended.
fn processor_time() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read `/proc/self/stat`")?;
    // The program's name may contain anything, and ends at the last parenthesis.
    let (_, fields) = stat
        .rsplit_once(") ")
        .context("unexpected format of `/proc/self/stat`")?;
    let ticks = fields.split(' ').skip(13).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<_, _>>()?;
    Ok(Duration::from_millis(ticks * TICK_MILLIS))
}

/// The length of a tick in `/proc`, in milliseconds.
const TICK_MILLIS: u64 = 10;

/// Reads the numbers in libFuzzer's output.
fn parse_log(log: &str) -> TurnResult {
    let mut result = TurnResult::default();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once(" cov: ") {
            let number = rest.split(' ').next().and_then(|word| word.parse().ok());
            result.coverage = number.unwrap_or(result.coverage);
        }
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            result.executions = number.trim().parse().unwrap_or_default();
        }
    }
    result
}

/// Returns the number of inputs that made a target fail.
fn count_artifacts(root: &Path, target: &str) -> usize {
    let folder = root.join("tests/fuzz/artifacts").join(target);
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// Removes files from a collected corpus that reach no additional code, or exceed a limit.
fn minimise(root: &Path, target: &str) -> Result<()> {
    let folder = corpus_folder(root, target);
    let status = cargo_fuzz(root, "cmin", target)
        .arg(&folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot run `cargo fuzz cmin`")?;
    if !status.success() {
        println!("{target:<12} not minimised: the target fails on an input of its corpus");
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.len(), entry.path()));
    }
    files.sort();
    let mut kept = 0;
    for (bytes, path) in files {
        if kept < MAX_CORPUS_FILES && bytes <= MAX_INPUT_BYTES {
            kept += 1;
        } else {
            fs::remove_file(path)?;
        }
    }
    println!("{target:<12} {kept} files kept");
    Ok(())
}

/// The header of the table of hours.
const HEAD: &str = "| target | hours | executions | coverage | found |\n|---|---|---|---|---|\n";

/// Adds a turn to the table in `tests/fuzz/README.md`.
fn add_to_page(root: &Path, target: &str, result: &TurnResult) -> Result<()> {
    let page = root.join("tests/fuzz/README.md");
    let write = || {
        let mut file = File::options().read(true).write(true).open(&page)?;
        // Another run may write at the same time.
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let text = add_to_table(&text, target, result)?;
        file.set_len(0)?;
        file.rewind()?;
        anyhow::Ok(file.write_all(text.as_bytes())?)
    };
    write().with_context(|| format!("cannot update `{}`", page.display()))
}

/// Returns the page with a turn added to its table.
fn add_to_table(page: &str, target: &str, result: &TurnResult) -> Result<String> {
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
            anyhow::bail!("tests/fuzz/README.md: this row must have five cells: `{row}`");
        };
        let (executions, found) = (executions.parse()?, found.parse()?);
        let sums = (hours.parse()?, executions, coverage.parse()?, found);
        rows.insert(target.trim_matches('`'), sums);
    }
    let sums = rows.entry(target).or_default();
    sums.0 += result.seconds as f64 / 3600.0;
    sums.1 += result.executions;
    sums.2 = result.coverage;
    sums.3 += result.findings as u64;
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
    fn parses_executions_and_last_coverage() {
        let log = "#2\tINITED cov: 17 ft: 18 corp: 1/1b\n#9\tDONE   cov: 40 ft: 50 corp: 2/8b\n\
                   stat::number_of_executed_units: 900\n";
        let result = parse_log(log);
        assert_eq!((result.executions, result.coverage), (900, 40));
    }

    #[test]
    fn adds_turn_to_row_of_its_target() {
        let page = |rows: &str| format!("# F\n\n{HEAD}{rows}\nMore.\n");
        let old = "| `call` | 1.500 | 10 | 3 | 1 |\n";
        let result = TurnResult {
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
            assert_eq!(
                add_to_table(&page(old), target, &result).unwrap(),
                page(&rows)
            );
        }
    }

    #[test]
    fn page_has_row_for_each_target() {
        let root = workspace::root().unwrap();
        let page = fs::read_to_string(root.join("tests/fuzz/README.md")).unwrap();
        for target in targets(&root).unwrap() {
            let added = add_to_table(&page, &target, &TurnResult::default()).unwrap();
            assert_eq!(added.lines().count(), page.lines().count(), "{target}");
        }
    }

    #[test]
    fn counts_time_of_ended_children() {
        let before = processor_time().unwrap();
        let loops = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let child = Command::new("sh").args(["-c", loops]).status().unwrap();
        assert!(child.success());
        assert!(processor_time().unwrap() > before);
    }
}
