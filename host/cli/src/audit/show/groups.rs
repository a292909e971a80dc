//! Counts of calls by skill or tool.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde_json::json;
use skillhost::Line;
use skillhost_audit::CallRecord;
use unicode_width::UnicodeWidthStr as _;

use skillhost_program::terminal::{self, format_line};

/// The maximum number of groups. Guards against: callers that invent a name for each call.
const MAX_GROUPS: usize = 10_000;

/// The outcomes of calls that count as errors.
const ERRORS: [&str; 3] = ["failed", "refused", "stopped"];

/// The field that calls are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum GroupBy {
    /// The skill that a call read
    Skill,
    /// The tool
    Tool,
}

/// The calls of each skill or tool.
pub(super) struct Groups {
    by: GroupBy,
    groups: BTreeMap<Option<String>, Group>,
    /// The calls with names beyond the first `MAX_GROUPS`.
    others: Group,
    /// The number of records that do not follow the one before them in the chain.
    pub(super) unchained: u64,
}

/// The calls of one skill or tool.
#[derive(Default)]
struct Group {
    calls: u64,
    errors: u64,
    duration_us: u64,
    /// The records that do not follow the one before them in the chain. Anybody may have written
    /// them, so they do not count as calls.
    unchained: u64,
}

impl Groups {
    pub(super) fn new(by: GroupBy) -> Self {
        Self {
            by,
            groups: BTreeMap::new(),
            others: Group::default(),
            unchained: 0,
        }
    }

    /// Counts the record of a call, and ignores other records.
    pub(super) fn add(&mut self, record: &CallRecord<'_>) {
        if !record.is_call() {
            return;
        }
        self.unchained += u64::from(!record.is_chained);
        let name = match self.by {
            GroupBy::Skill => record.skill.as_deref(),
            GroupBy::Tool => Some(&*record.tool).filter(|name| !name.is_empty()),
        };
        let name = name.map(str::to_owned);
        let group = if self.groups.len() < MAX_GROUPS || self.groups.contains_key(&name) {
            self.groups.entry(name).or_default()
        } else {
            &mut self.others
        };
        if !record.is_chained {
            group.unchained += 1;
            return;
        }
        group.calls += 1;
        group.errors += u64::from(ERRORS.contains(&&*record.outcome));
        let duration = record.duration_us.unwrap_or_default();
        group.duration_us = group.duration_us.saturating_add(duration);
    }

    /// Returns the groups, most calls first.
    fn sorted(&self) -> Vec<(Option<&str>, &Group)> {
        let groups = self.groups.iter();
        let mut sorted: Vec<_> = groups
            .map(|(name, group)| (name.as_deref(), group))
            .collect();
        sorted.sort_by_key(|(name, group)| (std::cmp::Reverse(group.calls), *name));
        sorted
    }

    /// Returns a table for people: the names, calls, errors and the total time. It has a column for
    /// unchained records if there are any.
    pub(super) fn table(&self) -> Vec<Line> {
        let header = match self.by {
            GroupBy::Skill => "SKILL",
            GroupBy::Tool => "TOOL",
        };
        let unchained = |number: &str| match self.unchained {
            0 => String::new(),
            _ => format!("  {number:>9}"),
        };
        let columns = [header, "CALLS", "ERRORS", "TIME", &unchained("UNCHAINED")];
        let mut rows = vec![columns.map(str::to_owned)];
        let row = |name: String, group: &Group| {
            let (calls, errors) = (group.calls.to_string(), group.errors.to_string());
            let unchained = unchained(&group.unchained.to_string());
            [
                name,
                calls,
                errors,
                milliseconds(group.duration_us),
                unchained,
            ]
        };
        for (name, group) in self.sorted() {
            let name = name.map_or_else(|| "-".to_owned(), |name| terminal::name(name).to_string());
            rows.push(row(name, group));
        }
        if self.others.calls + self.others.unchained > 0 {
            rows.push(row("(others)".to_owned(), &self.others));
        }
        if rows.len() == 1 {
            return Vec::new();
        }
        let width = |column: usize| {
            rows.iter()
                .map(|row| row[column].width())
                .max()
                .unwrap_or(0)
        };
        let widths = [0, 1, 2, 3].map(width);
        let lines = rows.iter().map(|[name, calls, errors, time, unchained]| {
            let padding = " ".repeat(widths[0] - name.width());
            format_line!(
                "{name}{padding}  {calls:>calls_width$}  {errors:>errors_width$}  {time:>time_width$}{unchained}",
                calls_width = widths[1],
                errors_width = widths[2],
                time_width = widths[3],
            )
        });
        lines.collect()
    }

    /// Returns a line of JSON for each group.
    pub(super) fn json_lines(&self) -> Vec<String> {
        let key = match self.by {
            GroupBy::Skill => "skill",
            GroupBy::Tool => "tool",
        };
        let line = |name: Option<&str>, group: &Group| {
            json!({
                key: name,
                "calls": group.calls,
                "errors": group.errors,
                "duration_us": group.duration_us,
                "unchained": group.unchained,
            })
        };
        let mut lines: Vec<_> = self
            .sorted()
            .into_iter()
            .map(|(name, group)| line(name, group))
            .collect();
        if self.others.calls + self.others.unchained > 0 {
            let mut others = line(None, &self.others);
            others["others"] = json!(true);
            lines.push(others);
        }
        lines.iter().map(ToString::to_string).collect()
    }
}

/// Returns a time in milliseconds.
fn milliseconds(microseconds: u64) -> String {
    format!("{}.{:03} ms", microseconds / 1_000, microseconds % 1_000)
}
