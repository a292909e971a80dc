//! Finds records in a log by client, tool, skill, outcome or time.
//!
//! Also finds records outside a chain, and marks them: an older version may have written them, or
//! another user.

use std::borrow::Cow;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use serde::Deserialize;
use skillhost::CallOutcome;
use skillhost_sandbox::tool::audit::chain::{
    CHECKPOINT, CONTINUED, EVENTS, JOINED, TORN, format_time,
};

use crate::files;
use crate::lines::Piece;
use crate::report::VerifyReport;
use crate::verifier::Verifier;

/// The outcomes of records: the outcomes of calls, and those of records without a call.
pub const OUTCOMES: [&str; CallOutcome::NAMES.len() + 4] = {
    let [output, failed, refused, stopped, cancelled] = CallOutcome::NAMES;
    [
        output, failed, refused, stopped, cancelled, TORN, CONTINUED, JOINED, CHECKPOINT,
    ]
};

/// The conditions of a search. A record must meet each condition that is set.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Filter {
    /// The client's name.
    pub client: Option<String>,
    /// The tool's name.
    pub tool: Option<String>,
    /// The skill's name.
    pub skill: Option<String>,
    /// The outcome, one of [`OUTCOMES`]. If it is `None`, checkpoints are left out.
    pub outcome: Option<String>,
    /// The earliest time of a matching record.
    pub since: Option<RecordTime>,
    /// The latest time of a matching record.
    pub until: Option<RecordTime>,
}

/// A time in UTC, in the format of records.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordTime(String);

impl FromStr for RecordTime {
    type Err = String;

    /// Parses a time such as `2026-11-23T08:00:00Z` or `2026-11-23 08:00:00`, or an age such as
    /// `2h`, which means two hours ago.
    fn from_str(text: &str) -> Result<Self, String> {
        let absolute = humantime::parse_rfc3339_weak(text).ok();
        let relative = || {
            let age = humantime::parse_duration(text).ok()?;
            SystemTime::now().checked_sub(age)
        };
        let time = absolute.or_else(relative).ok_or(
            "expected a time in UTC such as 2026-11-23T08:00:00Z, or how long ago it was, such \
             as 2h",
        )?;
        Ok(Self(format_time(time)))
    }
}

/// The fields of a record that a person reads. Callers chose some of the values: escape them.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct CallRecord<'a> {
    /// The time.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// The caller's id for the call.
    #[serde(borrow)]
    pub id: Option<Cow<'a, str>>,
    /// The client's name.
    #[serde(borrow)]
    pub client: Option<Cow<'a, str>>,
    /// The address of the other end of the connection.
    #[serde(borrow)]
    pub peer: Option<Cow<'a, str>>,
    /// The tool. Empty for a record that belongs to no call, or if the call names none.
    #[serde(borrow)]
    pub tool: Cow<'a, str>,
    /// The skill.
    #[serde(borrow)]
    pub skill: Option<Cow<'a, str>>,
    /// The path as the caller gave it.
    #[serde(borrow)]
    pub path: Option<Cow<'a, str>>,
    /// The names of the fields whose values were cut.
    #[serde(borrow, default)]
    pub truncated: Vec<Cow<'a, str>>,
    /// The outcome.
    #[serde(borrow)]
    pub outcome: Cow<'a, str>,
    /// The kind of failure, refusal or stop.
    #[serde(borrow)]
    pub reason: Option<Cow<'a, str>>,
    /// Microseconds from the call's start to its end.
    pub duration_us: Option<u64>,
    /// The number of bytes of the answer.
    pub bytes: Option<u64>,
    /// True if the record follows the one before it in its file, and no earlier record of the file
    /// broke the chain.
    #[serde(skip)]
    pub is_chained: bool,
}

/// The result of a search, besides the records.
#[derive(Debug)]
#[non_exhaustive]
pub struct SearchSummary {
    /// The number of lines that are not records.
    pub other_lines: u64,
    /// The result of verifying the chain without checking signatures. `None` if the search ended
    /// early.
    pub report: Option<VerifyReport>,
}

impl CallRecord<'_> {
    /// Returns whether the record belongs to a call. A call has no tool if its message names none.
    pub fn is_call(&self) -> bool {
        !EVENTS.contains(&&*self.outcome)
    }
}

impl Filter {
    fn matches(&self, record: &CallRecord<'_>) -> bool {
        let is = |wanted: &Option<String>, value: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| value == Some(wanted))
        };
        let is_unwanted_checkpoint = self.outcome.is_none() && record.outcome == CHECKPOINT;
        let time = &*record.time;
        is(&self.client, record.client.as_deref())
            && is(&self.tool, Some(&*record.tool))
            && is(&self.skill, record.skill.as_deref())
            && is(&self.outcome, Some(&*record.outcome))
            && self.since.as_ref().is_none_or(|since| time >= &*since.0)
            && self.until.as_ref().is_none_or(|until| time <= &*until.0)
            && !is_unwanted_checkpoint
    }
}

/// Calls a function with each record that matches a filter, and its line, until the function
/// returns false.
///
/// The files may be given in any order.
pub fn find_records(
    files: &[PathBuf],
    filter: &Filter,
    mut each: impl FnMut(&CallRecord<'_>, &str) -> anyhow::Result<bool>,
) -> anyhow::Result<SearchSummary> {
    let mut search = RecordSearch::new(filter);
    for file in files::sort_files(files)? {
        let continues = search.start_file(&file.name, &mut each)?
            && file.read(|piece| search.check(piece, &mut each))?;
        if !continues {
            return Ok(search.abort());
        }
    }
    Ok(search.finish())
}

/// A search of a log, piece by piece.
pub(crate) struct RecordSearch<'a> {
    filter: &'a Filter,
    pub(crate) verifier: Verifier,
    other_lines: u64,
}

impl<'a> RecordSearch<'a> {
    pub(crate) fn new(filter: &'a Filter) -> Self {
        Self {
            filter,
            verifier: Verifier::unended(),
            other_lines: 0,
        }
    }

    /// Continues with another file. First calls `each` with the last record of the file before, if
    /// only its line feed is missing. Returns whether to continue.
    pub(crate) fn start_file(
        &mut self,
        name: &str,
        each: &mut impl FnMut(&CallRecord<'_>, &str) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        let mut continues = true;
        if let Some(record) = self.verifier.take_unended_record() {
            // The record was counted like a torn one.
            self.other_lines -= 1;
            continues = self.check(Piece::Line(&record), each)?;
        }
        self.verifier.start_file(name);
        Ok(continues)
    }

    /// Checks a piece, and calls `each` if the piece is a record that matches the filter. Returns
    /// whether to continue.
    pub(crate) fn check(
        &mut self,
        piece: Piece<'_>,
        each: &mut impl FnMut(&CallRecord<'_>, &str) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        let line = match piece {
            Piece::Line(line) => line,
            Piece::Part { bytes, ends_line } => {
                self.other_lines += u64::from(!self.verifier.is_in_long_line());
                self.verifier.check_part(bytes, ends_line);
                return Ok(true);
            }
        };
        let is_chained = self.verifier.check_line(line);
        let Some((record, line)) = parse_record(line, is_chained) else {
            self.other_lines += 1;
            return Ok(true);
        };
        if self.filter.matches(&record) {
            each(&record, line)
        } else {
            Ok(true)
        }
    }

    /// Ends a search that has read everything.
    pub(crate) fn finish(self) -> SearchSummary {
        SearchSummary {
            other_lines: self.other_lines,
            report: Some(self.verifier.finish()),
        }
    }

    /// Ends a search early.
    pub(crate) fn abort(self) -> SearchSummary {
        SearchSummary {
            other_lines: self.other_lines,
            report: None,
        }
    }
}

/// Reads a record and its line as text. Returns `None` if the line is not a record.
fn parse_record(line: &[u8], is_chained: bool) -> Option<(CallRecord<'_>, &str)> {
    let line = str::from_utf8(line).ok()?;
    // Serde would also accept an array with the values of the fields.
    let object = Some(line).filter(|line| line.starts_with('{'))?;
    let record = serde_json::from_str(object).ok()?;
    let record = CallRecord {
        is_chained,
        ..record
    };
    Some((record, line))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::lines::MAX_LINE_BYTES;

    #[test]
    fn counts_long_line_once_rather_than_each_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let long = "x".repeat(2 * MAX_LINE_BYTES);
        for (text, expected) in [
            (format!("{long}\n"), 1),
            (format!("{long}\n{long}\nnoise\n{long}"), 4),
            ("noise\nnoise".to_owned(), 2),
        ] {
            fs::write(&path, &text).unwrap();
            let files = std::slice::from_ref(&path);
            let summary = find_records(files, &Filter::default(), |_, _| Ok(true)).unwrap();
            assert_eq!(summary.other_lines, expected, "{} bytes", text.len());
        }
    }

    #[test]
    fn age_beyond_1970_means_1970() {
        let RecordTime(time) = "60years".parse().unwrap();
        assert_eq!(time, "1970-01-01T00:00:00.000Z");
    }
}
