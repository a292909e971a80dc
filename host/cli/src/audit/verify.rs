//! `skillhost audit verify`: checks that a log is unchanged since it was written, and prints each
//! problem.

use std::path::PathBuf;

use clap::Args;
use skillhost::{Line, Trust};
use skillhost_audit::{
    ExternalCheckpoints, LogProblem, PublicKey, VerifyReport, verify, verify_chain,
};
use skillhost_skills::text::count::count;

use skillhost_program::exit::Exit;
use skillhost_program::options::ReportFormat;
use skillhost_program::terminal::{self, format_line};

/// Check that no record of an audit log was changed, moved or removed
///
/// Exits with 0 if all records up to the last checkpoint are as they were written, and with 1
/// if they are not or if there is no checkpoint. Without `--key` it checks only that each
/// record has the digest of the one before it, and exits with 0 if so: that proves nothing,
/// because whoever can write the log could have written all of it.
#[derive(Args)]
pub(crate) struct VerifyCommand {
    /// Files of the log, in any order
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Public key of the checkpoints; repeatable, if the key was changed
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// File of external checkpoints; the log must have each of them, except those older
    /// than its first record; repeatable
    #[arg(long, value_name = "FILE", requires = "key")]
    checkpoints: Vec<PathBuf>,
    /// Form of the result
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

impl VerifyCommand {
    pub(super) fn execute(self, trust: &Trust) -> anyhow::Result<Exit> {
        let keys: Vec<PublicKey> = self
            .key
            .iter()
            .map(|path| PublicKey::read(path, trust))
            .collect::<anyhow::Result<_>>()?;
        let external = ExternalCheckpoints::read(&self.checkpoints, &keys)?;
        let has_keys = !keys.is_empty();
        let report = if has_keys {
            verify(&self.files, &keys, external)?
        } else {
            verify_chain(&self.files)?
        };
        match self.output {
            ReportFormat::Text => {
                let mut lines = report_lines(&report);
                lines.extend(if has_keys {
                    proof_lines(&report)
                } else {
                    chain_lines(&report)
                });
                lines.extend(torn_line(&report));
                terminal::print(&lines)?;
            }
            ReportFormat::Json => terminal::print_json(&serde_json::to_value(&report)?)?,
        }
        let is_good = if has_keys {
            report.is_proven()
        } else {
            report.is_intact()
        };
        Ok(if is_good { Exit::Ok } else { Exit::Failure })
    }
}

/// Returns the lines of a text report that do not depend on keys.
fn report_lines(report: &VerifyReport) -> Vec<Line> {
    let mut lines: Vec<Line> = report.problems.iter().map(problem_line).collect();
    if report.problems_left_out > 0 {
        lines.push(format_line!("and {} more", report.problems_left_out));
    }
    let range = match (report.chains, report.first, report.last) {
        (2.., ..) => format!(" in {}", count(report.chains, "chain")),
        (_, Some(first), Some(last)) => format!(", {first} to {last}"),
        _ => String::new(),
    };
    lines.push(format_line!(
        "{}{range}, with {}",
        count(report.records, "record"),
        count(
            report.checkpoints + report.unchecked_checkpoints,
            "checkpoint"
        )
    ));
    if report.missing_before > 0 {
        let missing = count(report.missing_before, "record");
        lines.push(format_line!(
            "the given files do not have the {missing} before their first one"
        ));
    }
    if report.before_checkpoint > 0 {
        lines.push(format_line!(
            "{} before the first checkpoint: nothing proves who wrote their records",
            count(report.before_checkpoint, "call")
        ));
    }
    if report.external_checkpoints > 0 {
        let verb = if report.external_checkpoints == 1 {
            "is"
        } else {
            "are"
        };
        let external = count(report.external_checkpoints, "external checkpoint");
        lines.push(format_line!("{external} {verb} in the log"));
    }
    if report.torn_checkpoint_bytes > 0 {
        lines.push(format_line!(
            "{} bytes of torn checkpoints in the files of `--checkpoints` are ignored",
            report.torn_checkpoint_bytes
        ));
    }
    if report.unchanged_gap_bytes > 0 {
        lines.push(format_line!(
            "{} bytes outside the chain are unchanged: torn records, or lines before the chain",
            report.unchanged_gap_bytes
        ));
    }
    if report.unchained > 0 {
        let unchained = count(report.unchained, "line");
        lines.push(format_line!(
            "{unchained} in no chain: nothing proves who wrote them"
        ));
    }
    lines
}

/// Returns the part of a report without keys: what the chain alone shows.
fn chain_lines(report: &VerifyReport) -> Vec<Line> {
    if !report.problems.is_empty() {
        return vec![format_line!("the log is NOT as it was written")];
    }
    if report.records == 0 {
        return vec![format_line!(
            "the log has no record that belongs to a chain"
        )];
    }
    let reason = if report.unchecked_checkpoints > 0 {
        "there is no `--key` to check the checkpoints with"
    } else {
        "the log has no checkpoint"
    };
    vec![
        format_line!("the chain is intact: each record has the digest of the one before it"),
        format_line!(
            "nothing is proven: {reason}; whoever can write the log can rewrite all of \
             it, or cut off its end"
        ),
    ]
}

/// Returns a line about a torn record at the end.
fn torn_line(report: &VerifyReport) -> Option<Line> {
    let torn = report.torn_bytes;
    (torn > 0).then(|| format_line!("{torn} bytes at the end are a torn record"))
}

/// Returns the part of a report with keys: how far the log is proven.
fn proof_lines(report: &VerifyReport) -> Vec<Line> {
    let proven = match report.last_proven {
        None => format_line!("nothing is proven: there is no checkpoint of the given keys"),
        Some(_) if !report.problems.is_empty() => {
            format_line!("the log is NOT as it was written")
        }
        Some(proven) if report.chains > 1 => {
            format_line!("proven up to record {proven} of the last chain")
        }
        Some(proven) => format_line!("proven up to record {proven}"),
    };
    let mut lines = vec![proven];
    if report.last_proven.is_some() && report.unproven_records > 0 {
        let unproven = count(report.unproven_records, "record");
        let place = if report.chains > 1 {
            "the checkpoints"
        } else {
            "it"
        };
        let verb = if report.unproven_records == 1 {
            "is"
        } else {
            "are"
        };
        lines.push(format_line!("{unproven} after {place} {verb} not proven"));
    }
    lines
}

/// Returns a problem with its file and line, for people.
pub(super) fn problem_line(problem: &LogProblem) -> Line {
    let LogProblem {
        file,
        line,
        problem,
        ..
    } = problem;
    format_line!("{}:{line}: {problem}", terminal::name(file))
}
