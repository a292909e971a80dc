//! `skillhost audit show`: prints records for people, or as JSON lines for programs. `groups.rs`
//! counts them by skill or tool.

mod groups;

use std::collections::VecDeque;
use std::io::{PipeReader, pipe};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use skillhost::Line;
use skillhost_audit::{
    CallRecord, Filter, FollowStep, OUTCOMES, RecordTime, SearchSummary, find_records,
    follow_records,
};
use skillhost_skills::text::count::count;
use tokio::signal::unix::{SignalKind, signal};

use groups::{GroupBy, Groups};
use skillhost_program::exit::Exit;
use skillhost_program::options::ReportFormat;
use skillhost_program::terminal::{self, format_line};

/// The header line above the records for people.
const HEADER: &str = "TIME CLIENT TOOL SKILL PATH OUTCOME DURATION";

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
    /// Only the newest N of these records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: Option<u32>,
    /// Then print new records as they are appended, also after a rotation; Ctrl-C stops it
    #[arg(long)]
    follow: bool,
    /// Count the calls and errors of each skill or tool, and the time of its calls, instead of
    /// printing records
    #[arg(long, value_enum, conflicts_with_all = ["limit", "follow"])]
    by: Option<GroupBy>,
    /// Form of the records; `json` prints each as a line of JSON
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

impl ShowCommand {
    pub(super) async fn execute(mut self) -> anyhow::Result<Exit> {
        if self.follow && self.files.len() > 1 {
            terminal::complain(
                "`--follow` takes one file; after a rotation, it opens the new file of that name",
            );
            return Ok(Exit::Usage);
        }
        let mut filter = Filter::default();
        filter.client = self.client.take();
        filter.tool = self.tool.take();
        filter.skill = self.skill.take();
        filter.outcome = self.outcome.take();
        filter.since = self.since.take();
        filter.until = self.until.take();
        if self.follow {
            return self.follow(filter).await;
        }
        if let Some(by) = self.by {
            let mut groups = Groups::new(by);
            let summary = find_records(&self.files, &filter, |record, _| {
                groups.add(record);
                Ok(true)
            })?;
            match self.output {
                ReportFormat::Text => terminal::print(&groups.table())?,
                ReportFormat::Json => {
                    for line in groups.json_lines() {
                        if !terminal::print_json_answer(&line)? {
                            break;
                        }
                    }
                }
            }
            report_problems(&summary, groups.unchained);
            return Ok(Exit::Ok);
        }
        let mut printer = Printer::new(self.output, self.limit);
        let summary = find_records(&self.files, &filter, |record, line| {
            printer.add(record, line)
        })?;
        printer.print_newest()?;
        report_problems(&summary, printer.unchained);
        Ok(Exit::Ok)
    }

    /// Prints the records, and then new ones, until a signal arrives or the output is closed.
    async fn follow(self, filter: Filter) -> anyhow::Result<Exit> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (stop, write_end) = pipe().context("cannot make a pipe")?;
        let thread = tokio::task::spawn_blocking(move || self.follow_until(&filter, &stop));
        tokio::pin!(thread);
        let followed = tokio::select! {
            followed = &mut thread => followed,
            _ = interrupt.recv() => {
                drop(write_end);
                thread.await
            }
            _ = terminate.recv() => {
                drop(write_end);
                thread.await
            }
        };
        followed.context("cannot follow the log")??;
        Ok(Exit::Ok)
    }

    /// Prints records until the write end of the pipe `stop` is closed.
    fn follow_until(self, filter: &Filter, stop: &PipeReader) -> anyhow::Result<()> {
        let mut printer = Printer::new(self.output, self.limit);
        let [file] = &self.files[..] else {
            unreachable!("`execute` allows one file");
        };
        let summary = follow_records(file, filter, stop.as_fd(), |step| match step {
            FollowStep::Record(record, line) => printer.add(record, line),
            FollowStep::CaughtUp => printer.print_newest(),
            FollowStep::Emptied => {
                terminal::complain(format_args!(
                    "`{}` was emptied; continuing at its beginning, but records may be missing",
                    file.display()
                ));
                Ok(true)
            }
        })?;
        report_problems(&summary, printer.unchained);
        Ok(())
    }
}

/// Prints records. With a limit, holds back the newest ones until all are read.
struct Printer {
    output: ReportFormat,
    /// The number of records to hold back. `None` without a limit, or once they are printed.
    limit: Option<usize>,
    newest: VecDeque<Line>,
    newest_json: VecDeque<String>,
    is_header_printed: bool,
    /// The number of records that do not follow the one before them in the chain.
    unchained: u64,
}

impl Printer {
    fn new(output: ReportFormat, limit: Option<u32>) -> Self {
        Self {
            output,
            limit: limit.map(|limit| limit as usize),
            newest: VecDeque::new(),
            newest_json: VecDeque::new(),
            is_header_printed: false,
            unchained: 0,
        }
    }

    /// Prints a record or holds it back. Returns `false` if the reader has closed the output.
    fn add(&mut self, record: &CallRecord<'_>, line: &str) -> anyhow::Result<bool> {
        self.unchained += u64::from(!record.is_chained);
        match self.output {
            ReportFormat::Text => {
                let line = record_line(record);
                match self.limit {
                    Some(limit) => push_newest(&mut self.newest, line, limit),
                    None => return self.print_text(&[line]),
                }
            }
            ReportFormat::Json => {
                let json = if record.is_chained {
                    line.to_owned()
                } else {
                    mark_unchained(line)
                };
                match self.limit {
                    Some(limit) => push_newest(&mut self.newest_json, json, limit),
                    None => return terminal::print_json_answer(&json),
                }
            }
        }
        Ok(true)
    }

    /// Prints the records that were held back, and stops holding back. Returns `false` if the
    /// reader has closed the output.
    fn print_newest(&mut self) -> anyhow::Result<bool> {
        self.limit = None;
        let newest: Vec<Line> = self.newest.drain(..).collect();
        if !newest.is_empty() && !self.print_text(&newest)? {
            return Ok(false);
        }
        for json in self.newest_json.drain(..) {
            if !terminal::print_json_answer(&json)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn print_text(&mut self, lines: &[Line]) -> anyhow::Result<bool> {
        if !self.is_header_printed {
            self.is_header_printed = true;
            if !terminal::print_unless_closed(&[format_line!("{HEADER}")])? {
                return Ok(false);
            }
        }
        terminal::print_unless_closed(lines)
    }
}

/// Adds an item, and drops the oldest beyond the limit.
fn push_newest<T>(newest: &mut VecDeque<T>, item: T, limit: usize) {
    if newest.len() == limit {
        newest.pop_front();
    }
    newest.push_back(item);
}

/// Prints the first problem of the log, and the numbers of unchained records and other lines.
fn report_problems(summary: &SearchSummary, unchained: u64) {
    if summary.other_lines > 0 {
        let verb = if summary.other_lines == 1 {
            "is not a record"
        } else {
            "are not records"
        };
        let lines = count(summary.other_lines, "line");
        terminal::complain(format_args!("{lines} {verb}"));
    }
    let problem = summary
        .report
        .as_ref()
        .and_then(|report| report.problems.first())
        .map(super::verify::problem_line);
    let marked = match unchained {
        0 => None,
        1 => Some("1 record is marked `unchained`: anybody may have written it".to_owned()),
        more => Some(format!(
            "{more} records from there on are marked `unchained`: anybody may have written them"
        )),
    };
    let parts: Vec<String> = problem
        .map(|problem| problem.to_string())
        .into_iter()
        .chain(marked)
        .collect();
    if !parts.is_empty() {
        terminal::complain(format_args!(
            "{}; see `skillhost audit verify`",
            parts.join("; ")
        ));
    }
}

/// Adds the field `unchained` to the line of a record that does not follow the one before it
/// in the chain.
///
/// It is the last field, so it overrides an `unchained` that a forger wrote.
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
