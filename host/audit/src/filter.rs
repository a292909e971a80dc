//! Finds records in a log: those of a client, a tool, a skill, an outcome, a time. Lines
//! that are in no chain are found too, and marked: a version without a chain wrote them, or
//! somebody else.

use std::borrow::Cow;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use serde::Deserialize;
use skillhost::CallOutcome;
use skillhost::internal::chain::{CHECKPOINT, CONTINUED, TORN, format_time};

use crate::files;
use crate::kept::KeptCheckpoints;
use crate::lines::Piece;
use crate::report::Report;
use crate::verifier::Verifier;

/// The outcomes of records: those of calls, and of records that belong to no call.
pub const OUTCOMES: [&str; CallOutcome::NAMES.len() + 3] = {
    let [output, failed, refused, stopped, cancelled] = CallOutcome::NAMES;
    [
        output, failed, refused, stopped, cancelled, TORN, CONTINUED, CHECKPOINT,
    ]
};

/// A choice of records. Each condition that is set must hold.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Filter {
    /// The client's name.
    pub client: Option<String>,
    /// The tool's name.
    pub tool: Option<String>,
    /// The skill's name.
    pub skill: Option<String>,
    /// The outcome, one of [`OUTCOMES`]. Without one, checkpoints are left out.
    pub outcome: Option<String>,
    /// The first moment.
    pub since: Option<Moment>,
    /// The last moment.
    pub until: Option<Moment>,
}

/// A moment as records have it, in UTC.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(String);

impl FromStr for Moment {
    type Err = String;

    /// Reads a time such as `2026-11-23T08:00:00Z`, `2026-11-23 08:00:00` or a duration
    /// before now such as `2h`.
    fn from_str(text: &str) -> Result<Self, String> {
        let time = humantime::parse_rfc3339_weak(text).ok();
        let before = || {
            let before = humantime::parse_duration(text).ok()?;
            SystemTime::now().checked_sub(before)
        };
        let time = time.or_else(before);
        let time = time.ok_or(
            "expected a time in UTC such as 2026-11-23T08:00:00Z, or how long ago it was, such \
             as 2h",
        )?;
        Ok(Self(format_time(time)))
    }
}

/// The fields of a record that a person reads. Callers chose some of them: escape them.
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
    /// The other end of the connection.
    #[serde(borrow)]
    pub peer: Option<Cow<'a, str>>,
    /// The tool. Empty for a record that belongs to no call.
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
    /// Bytes of the answer.
    pub bytes: Option<u64>,
    /// True if the record follows the one before it in its file.
    #[serde(skip)]
    pub is_chained: bool,
}

/// The lines that a search met besides the records it found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// The number of lines that are no records.
    pub others: u64,
    /// The chain, whose signatures are not checked. None if the search ended early.
    pub report: Option<Report>,
}

impl Filter {
    fn takes(&self, record: &CallRecord<'_>) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let is_hidden = self.outcome.is_none() && record.outcome == CHECKPOINT;
        let time = &*record.time;
        is(&self.client, record.client.as_deref())
            && is(&self.tool, Some(&*record.tool))
            && is(&self.skill, record.skill.as_deref())
            && is(&self.outcome, Some(&*record.outcome))
            && self.since.as_ref().is_none_or(|since| time >= &*since.0)
            && self.until.as_ref().is_none_or(|until| time <= &*until.0)
            && !is_hidden
    }
}

/// Calls a function with each record that a filter takes, and its line, until it
/// returns false. The files may be given in any order.
pub fn find(
    files: &[PathBuf],
    filter: &Filter,
    mut each: impl FnMut(&CallRecord<'_>, &str) -> anyhow::Result<bool>,
) -> anyhow::Result<Found> {
    let mut others = 0;
    let mut verifier = Verifier::without_keys(KeptCheckpoints::default());
    for part in files::open(files)? {
        verifier.file(&part.name);
        let goes_on = part.read(|piece| {
            let (line, is_chained) = match piece {
                Piece::Line(line) => {
                    // A record is an object: serde would take a list of its fields too.
                    let object = str::from_utf8(line).ok();
                    let object = object.filter(|line| line.starts_with('{'));
                    (object, verifier.check(line))
                }
                Piece::Part(part, ends) => {
                    verifier.part(part, ends);
                    (None, false)
                }
            };
            let read = line.and_then(|line| Some((serde_json::from_str(line).ok()?, line)));
            let Some((record, line)) = read else {
                others += 1;
                return Ok(true);
            };
            let record = CallRecord {
                is_chained,
                ..record
            };
            if filter.takes(&record) {
                each(&record, line)
            } else {
                Ok(true)
            }
        })?;
        if !goes_on {
            let report = None;
            return Ok(Found { others, report });
        }
    }
    let report = Some(verifier.finish());
    Ok(Found { others, report })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_may_lie_before_all_records() {
        let Moment(time) = "60years".parse().unwrap();
        assert_eq!(time, "1970-01-01T00:00:00.000Z");
    }
}
