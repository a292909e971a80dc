//! `skillhost audit verify`: says whether a log is as it was written, and where it is
//! not.

use std::path::PathBuf;

use clap::Args;
use skillhost::Line;
use skillhost_audit::{KeptCheckpoints, Problem, PublicKey, Report, verify};

use skillhost_program::exit::Exit;
use skillhost_program::options::ReportFormat;
use skillhost_program::terminal::{self, format_line};

/// Check that no record of an audit log was changed, moved or removed
///
/// Exits with 0 if all records up to the last checkpoint are as they were written, and
/// with 1 if not, or if there is no checkpoint.
#[derive(Args)]
pub(crate) struct VerifyCommand {
    /// Files of the log, in any order
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Public key that checkpoints are signed with; repeatable, if it was changed
    #[arg(long, value_name = "FILE", required = true)]
    key: Vec<PathBuf>,
    /// Checkpoints that were kept elsewhere: the log must have each, except those that
    /// are older than the first record of their chain
    #[arg(long, value_name = "FILE")]
    checkpoints: Option<PathBuf>,
    /// Form of the result
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

impl VerifyCommand {
    pub(super) fn execute(self) -> anyhow::Result<Exit> {
        let keys = self.key.iter().map(|path| PublicKey::read(path));
        let keys: Vec<PublicKey> = keys.collect::<anyhow::Result<_>>()?;
        let kept = match &self.checkpoints {
            Some(file) => KeptCheckpoints::read(file, &keys)?,
            None => KeptCheckpoints::default(),
        };
        let report = verify(&self.files, &keys, kept)?;
        match self.output {
            ReportFormat::Text => terminal::print(&lines(&report))?,
            ReportFormat::Json => terminal::print_json(&serde_json::to_value(&report)?)?,
        }
        Ok(match report.is_proven() {
            true => Exit::Ok,
            false => Exit::Failure,
        })
    }
}

fn lines(report: &Report) -> Vec<Line> {
    let mut lines: Vec<Line> = report.problems.iter().map(problem).collect();
    if report.problems_left_out > 0 {
        lines.push(format_line!("and {} more", report.problems_left_out));
    }
    let range = match (report.chains, report.first, report.last) {
        (2.., ..) => format!(" in {} chains", report.chains),
        (_, Some(first), Some(last)) => format!(", {first} to {last}"),
        _ => String::new(),
    };
    lines.push(format_line!(
        "{}{range}, with {}",
        count(report.records, "record"),
        count(report.checkpoints, "checkpoint")
    ));
    if report.missing_before > 0 {
        let missing = count(report.missing_before, "record");
        lines.push(format_line!(
            "{missing} before the first: in no file that is given"
        ));
    }
    if report.before_checkpoint > 0 {
        lines.push(format_line!(
            "{} before the first checkpoint: it does not prove who wrote them",
            count(report.before_checkpoint, "call")
        ));
    }
    if report.kept > 0 {
        let kept = count(report.kept, "checkpoint");
        lines.push(format_line!("{kept} that were kept are in the log"));
    }
    if report.torn_checkpoint_bytes > 0 {
        lines.push(format_line!(
            "{} bytes of torn checkpoints in the file of `--checkpoints` do not count",
            report.torn_checkpoint_bytes
        ));
    }
    if report.vouched_bytes > 0 {
        lines.push(format_line!(
            "{} bytes are torn or from a version without a chain, and as they were then",
            report.vouched_bytes
        ));
    }
    if report.unchained > 0 {
        let lines_before = count(report.unchained, "line");
        lines.push(format_line!(
            "{lines_before} in no chain: a version without a chain wrote them, or somebody else; \
             nothing proves them"
        ));
    }
    lines.push(match report.proven {
        None => format_line!("nothing is proven: there is no checkpoint of this key"),
        Some(_) if !report.problems.is_empty() => {
            format_line!("the log is NOT as it was written")
        }
        Some(proven) if report.chains > 1 => {
            format_line!("proven up to record {proven} of the last chain")
        }
        Some(proven) => format_line!("proven up to record {proven}"),
    });
    if report.proven.is_some() && report.unproven > 0 {
        lines.push(format_line!(
            "{} after {} not proven",
            count(report.unproven, "record"),
            match (report.chains, report.unproven) {
                (2.., 1) => "the checkpoints is",
                (2.., _) => "the checkpoints are",
                (_, 1) => "it is",
                _ => "it are",
            }
        ));
    }
    if report.torn_bytes > 0 {
        let torn = report.torn_bytes;
        lines.push(format_line!("{torn} bytes at the end are no whole record"));
    }
    lines
}

/// Returns a problem, with its place.
pub(super) fn problem(problem: &Problem) -> Line {
    let Problem {
        file,
        line,
        problem,
        ..
    } = problem;
    format_line!("{}:{line}: {problem}", terminal::name(file))
}

fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}
