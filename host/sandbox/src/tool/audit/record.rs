//! The records of the audit log: their fields, and their form as lines of JSON.
//!
//! A record has the tool, skill and path of a call, bounded and escaped, but neither the other
//! arguments nor the answer.

use std::time::{Duration, SystemTime};
use std::{fmt, io};

use serde::Serialize;

use super::chain::{CHECKPOINT, JOINED, Link, format_time};
use super::digest::{DigestKey, KeyedDigest};
use crate::tool::script::ScriptRecord;
use crate::tool::{Caller, RequestLog, RequestRecord};
use skillhost_skills::text::ascii_json::{self, escaped_len};
use skillhost_skills::text::digest::hex;

/// The maximum number of characters of a value that a caller chose. Guards against: a caller that
/// fills the disk with names.
const MAX_CHARACTERS: usize = 1024;

/// The maximum number of requests in a record. Guards against: a record longer than readers of the
/// log accept.
const MAX_REQUESTS: usize = 50;

/// The maximum number of bytes of each text about a request in its record, and of the names of its
/// secrets together. Only a rule and these names can be longer before they are cut, because
/// `wasi/http.rs` limits methods and authorities.
const MAX_REQUEST_BYTES: usize = 512;

/// The record of one call.
#[derive(Serialize, Default)]
pub(super) struct Record {
    /// The time at which the call began, UTC.
    time: String,
    /// The caller's id for the call.
    id: Option<String>,
    /// The host's own id for the call: a random number of the process, and the number of the
    /// call.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    tool: String,
    /// SHA-256 of the component.
    pub(super) component: Option<String>,
    skill: Option<String>,
    /// The path as the caller gave it.
    path: Option<String>,
    /// The names of the fields whose values were too long and have been cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    truncated: Vec<&'static str>,
    /// `output`, `failed`, `refused`, `stopped` or `cancelled`.
    pub(super) outcome: &'static str,
    /// The kind of failure, refusal or stop.
    pub(super) reason: Option<&'static str>,
    /// The size of the answer, in bytes.
    pub(super) bytes: usize,
    pub(super) duration_us: u64,
    /// The processor time in this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_us: Option<u64>,
    /// The peak memory of the call, in bytes.
    pub(super) memory: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments_hmac: Option<KeyedDigest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answer_hmac: Option<KeyedDigest>,
    /// The script, for a call that started one.
    #[serde(flatten)]
    script: Option<ScriptRecord>,
    /// The first requests that the call sent, or tried to send.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<RequestFields>,
    /// The number of all requests, if the record leaves some out.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_total: Option<usize>,
    /// The number of files that the call created or changed in a copy-on-write view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed_files: Option<usize>,
    /// The total size of these files, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) changed_bytes: Option<u64>,
}

impl Record {
    /// Creates a record with the current time.
    fn new(outcome: &'static str) -> Self {
        Self {
            time: now(),
            outcome,
            ..Self::default()
        }
    }

    /// Creates the record of a call that begins now.
    pub(super) fn begin(outcome: &'static str, caller: &Caller, call: String, tool: &str) -> Self {
        let mut record = Self {
            call: Some(call),
            peer: caller.peer.map(|peer| peer.to_string()),
            transport: Some(caller.transport.name()),
            trace: caller.trace.map(|trace| trace.to_string()),
            ..Self::new(outcome)
        };
        record.id = record.bounded("id", caller.id.as_deref());
        record.client = record.bounded("client", caller.client.as_deref());
        record.tool = record.bounded("tool", Some(tool)).unwrap_or_default();
        record
    }

    /// Sets the skill.
    pub(super) fn set_skill(&mut self, skill: Option<&str>) {
        self.skill = self.bounded("skill", skill);
    }

    /// Sets the path.
    pub(super) fn set_path(&mut self, path: Option<&str>) {
        self.path = self.bounded("path", path);
    }

    /// Sets the script.
    pub(super) fn set_script(&mut self, mut script: ScriptRecord) {
        let path = self.bounded("script", Some(&script.script));
        script.script = path.unwrap_or_default();
        self.script = Some(script);
    }

    /// Sets the requests.
    pub(super) fn set_requests(&mut self, log: &RequestLog, key: &DigestKey) {
        let (requests, total) = (log.records(), log.total());
        let listed = requests.iter().take(MAX_REQUESTS);
        let mut is_cut = false;
        let listed = listed.map(|request| RequestFields::new(request, key, &mut is_cut));
        self.requests = listed.collect();
        self.truncated.retain(|field| *field != "requests");
        self.truncated.extend(is_cut.then_some("requests"));
        self.requests_total = (total > self.requests.len()).then_some(total);
    }

    /// Returns the beginning of a field's value. If it cuts the value, adds the field to
    /// `truncated`.
    fn bounded(&mut self, field: &'static str, value: Option<&str>) -> Option<String> {
        self.truncated.retain(|other| *other != field);
        let value = value?;
        let end = value.char_indices().nth(MAX_CHARACTERS).map(|(end, _)| end);
        if end.is_some() {
            self.truncated.push(field);
        }
        Some(value[..end.unwrap_or(value.len())].to_owned())
    }
}

/// A request in a record.
#[derive(Serialize)]
struct RequestFields {
    method: String,
    /// The scheme, host and port; empty if the address is not valid.
    origin: String,
    path_hmac: KeyedDigest,
    /// The IP address and port that the request was sent to.
    address: Option<String>,
    status: Option<u16>,
    /// The kind of failure, if there is no response. `cancelled` if the call stopped waiting.
    failure: Option<&'static str>,
    sent_bytes: u64,
    received_bytes: u64,
    /// The time from the request to the head of the response.
    duration_us: Option<u64>,
    /// The rule of the grant, or the consent, that allowed the request.
    rule: Option<String>,
    /// The rule to grant, if the host denied the request because nobody consented to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_rule: Option<String>,
    /// The names of the secrets in the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<String>,
}

impl RequestFields {
    /// Converts a request for a record. Sets `is_cut` if it cuts a text.
    fn new(request: &RequestRecord, key: &DigestKey, is_cut: &mut bool) -> Self {
        let outcome = request.outcome.clone().unwrap_or_default();
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let mut left = MAX_REQUEST_BYTES;
        let secrets = outcome.secrets.iter();
        let secrets = secrets.map(|name| cut(name, &mut left, is_cut)).collect();
        let mut bounded = |text: &str| cut(text, &mut { MAX_REQUEST_BYTES }, is_cut);
        Self {
            method: bounded(&request.method),
            origin: bounded(&request.origin),
            path_hmac: key.digest_text(&request.path),
            address: outcome.address,
            status: request.status,
            failure: request.failure(),
            sent_bytes: request.sent_bytes,
            received_bytes: request.received_bytes,
            duration_us: request.duration.map(micros),
            rule: outcome.rule.as_deref().map(&mut bounded),
            missing_rule: request.missing_rule.as_deref().map(&mut bounded),
            secrets,
        }
    }
}

/// Returns the start of a text, so that its JSON has at most `left` bytes, and subtracts its bytes
/// from `left`. Sets `is_cut` if it cuts the text.
fn cut(text: &str, left: &mut usize, is_cut: &mut bool) -> String {
    let mut start = String::new();
    for c in text.chars() {
        let Some(rest) = left.checked_sub(escaped_len(c)) else {
            *is_cut = true;
            break;
        };
        *left = rest;
        start.push(c);
    }
    start
}

impl fmt::Display for Record {
    /// Names the call for the host's log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, outcome, .. } = self;
        let call = self.call.as_deref().unwrap_or_default();
        write!(f, "call `{call}` of `{tool}` ({outcome})")
    }
}

/// A record that belongs to no call: `torn`, `continued`, `joined` or `checkpoint`.
#[derive(Serialize)]
pub(super) struct EventRecord<'a> {
    time: String,
    id: Option<&'a str>,
    tool: &'a str,
    outcome: &'a str,
    /// The number of bytes between the last record of the chain and this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_bytes: Option<u64>,
    /// SHA-256 of these bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap_sha256: Option<String>,
    /// The chain of the last record that the process knew before it joined this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_chain: Option<String>,
    /// The number of that record.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_sequence: Option<u64>,
    /// SHA-256 of that record's line.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_sha256: Option<String>,
    /// True if that record was in this file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    known_here: bool,
    /// The id of the key of a checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// The random number of the process that signed. It gives different names to two chains
    /// that begin with a checkpoint in the same millisecond.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a str>,
}

impl<'a> EventRecord<'a> {
    fn new(outcome: &'a str) -> Self {
        Self {
            time: now(),
            id: None,
            tool: "",
            outcome,
            gap_bytes: None,
            gap_sha256: None,
            known_chain: None,
            known_sequence: None,
            known_sha256: None,
            known_here: false,
            key: None,
            process: None,
        }
    }

    /// Creates a record with the current time. It reports the bytes before it that are not
    /// records of the chain.
    pub(super) fn after_gap(outcome: &'a str, bytes: u64, digest: &[u8; 32]) -> Self {
        let has_gap = bytes > 0;
        Self {
            gap_bytes: has_gap.then_some(bytes),
            gap_sha256: has_gap.then(|| hex(digest)),
            ..Self::new(outcome)
        }
    }

    /// Creates a record with the current time. `own_next` is the link after the last record that
    /// the process knew. `was_here` means that this record was in the same file.
    pub(super) fn joined(own_next: Link, was_here: bool) -> Self {
        Self {
            known_chain: Some(hex(&own_next.chain)),
            known_sequence: Some(own_next.sequence.saturating_sub(1)),
            known_sha256: Some(hex(&own_next.previous)),
            known_here: was_here,
            ..Self::new(JOINED)
        }
    }

    /// Creates a checkpoint with the current time.
    pub(super) fn checkpoint(key: &'a str, process: &'a str) -> Self {
        Self {
            key: Some(key),
            process: Some(process),
            ..Self::new(CHECKPOINT)
        }
    }
}

/// Returns a record as a line of JSON without a line feed.
pub(super) fn to_json(record: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = ascii_json::to_string(record).map_err(io::Error::other)?;
    Ok(json.into_bytes())
}

fn now() -> String {
    format_time(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use skillhost_egress::Outcome;

    use super::*;

    #[test]
    fn texts_about_requests_are_bounded() {
        let key = DigestKey::new(&[0; 32]);
        for (rule, names, expected) in [
            ("https://e.org/", vec!["A"; 3], false),
            (&*"a".repeat(512), vec![], false),
            (&*"a".repeat(513), vec![], true),
            (&*"😀".repeat(43), vec![], true),
            ("", vec!["NAME"; 129], true),
            ("", vec![&*"N".repeat(6_000)], true),
        ] {
            let request = RequestRecord {
                outcome: Some(Outcome {
                    rule: Some(rule.to_owned()),
                    secrets: names.iter().map(ToString::to_string).collect(),
                    ..Outcome::default()
                }),
                ..RequestRecord::default()
            };
            let mut is_cut = false;
            let fields = RequestFields::new(&request, &key, &mut is_cut);
            let json = to_json(&fields).unwrap();
            assert!(is_cut == expected && json.len() < 1_600, "{rule} {names:?}");
        }
    }
}
