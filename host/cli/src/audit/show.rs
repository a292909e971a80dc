//! `skillhost audit show`: prints records for people, or as JSON lines for programs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use skillhost::Line;
use skillhost_audit::{CallRecord, Filter, OUTCOMES, RecordTime, find_records};

use skillhost_program::exit::Exit;
use skillhost_program::options::ReportFormat;
use skillhost_program::terminal::{self, format_line};

/// Print records of an audit log
///
/// Each line has the time, the client or its address, the tool, the skill, the path, the
/// outcome, and the duration of the call. A line that does not follow the one before it in the
/// chain begins with `unchained`: anybody may have written it. Only `verify` checks
/// signatures.
#[derive(Args)]
pub(crate) struct ShowCommand {
    /// Files of the log, in any order
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Only calls of this client
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls that read this skill
    #[arg(long, value_name = "NAME")]
    skill: Option<String>,
    /// Only records with this outcome
    #[arg(long, value_name = "WORD", value_parser = PossibleValuesParser::new(OUTCOMES))]
    outcome: Option<String>,
    /// Only records from this time on: in UTC, such as 2026-11-23T08:00:00Z, or an age, such
    /// as 2h
    #[arg(long, value_name = "TIME")]
    since: Option<RecordTime>,
    /// Only records up to this time
    #[arg(long, value_name = "TIME")]
    until: Option<RecordTime>,
    /// Form of the records; `json` is a line of JSON for each
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

impl ShowCommand {
    pub(super) fn execute(self) -> anyhow::Result<Exit> {
        let mut filter = Filter::default();
        filter.client = self.client;
        filter.tool = self.tool;
        filter.skill = self.skill;
        filter.outcome = self.outcome;
        filter.since = self.since;
        filter.until = self.until;
        let mut unchained = 0;
        let summary = find_records(&self.files, &filter, |record, line| {
            unchained += u64::from(!record.is_chained);
            match self.output {
                ReportFormat::Text => terminal::print_or_end(&[record_line(record)]),
                ReportFormat::Json if record.is_chained => terminal::print_json_answer(line),
                ReportFormat::Json => terminal::print_json_answer(&mark_unchained(line)),
            }
        })?;
        if summary.other_lines > 0 {
            terminal::complain(format_args!(
                "{} lines are not records",
                summary.other_lines
            ));
        }
        if unchained > 0 {
            terminal::complain(format_args!(
                "{unchained} records do not follow the one before them and are marked \
                 `unchained`: anybody may have written them; see `skillhost audit verify`"
            ));
        }
        let problem = summary
            .report
            .as_ref()
            .and_then(|report| report.problems.first());
        if let Some(problem) = problem {
            let problem = super::verify::problem_line(problem);
            terminal::complain(format_args!("{problem}; see `skillhost audit verify`"));
        }
        Ok(Exit::Ok)
    }
}

/// Adds the field `unchained` to the line of a record that does not follow the one before it.
///
/// As the last field, it overrides one that a forger wrote.
fn mark_unchained(line: &str) -> String {
    let fields = line.trim_end();
    let fields = fields.strip_suffix('}').unwrap_or(fields);
    format!("{fields},\"unchained\":true}}")
}

/// Returns the line of a record for people.
fn record_line(record: &CallRecord<'_>) -> Line {
    let name = |name: Option<&str>| match name {
        Some(name) if !name.is_empty() => terminal::name(name),
        _ => format_line!("-"),
    };
    let caller = record.client.as_deref().or(record.peer.as_deref());
    let reason = record
        .reason
        .as_deref()
        .map(|reason| format!(" ({reason})"));
    let duration = record.duration_us.unwrap_or_default();
    let truncated = match &record.truncated[..] {
        [] => String::new(),
        fields => format!(" (truncated: {})", fields.join(", ")),
    };
    format_line!(
        "{}{} {} {} {} {} {}{} {}.{:03} ms{truncated}",
        if record.is_chained { "" } else { "unchained " },
        record.time,
        name(caller),
        name(Some(&record.tool)),
        name(record.skill.as_deref()),
        name(record.path.as_deref()),
        record.outcome,
        reason.unwrap_or_default(),
        duration / 1_000,
        duration % 1_000
    )
}
