//! Tries every change of a log: each changed byte, each removal, each swap and each cut.

use sha2::{Digest as _, Sha256};
use skillhost_sandbox::tool::audit::chain::{SIGNATURE_BYTES, TORN};
use skillhost_skills::text::digest::hex;

use super::*;
use crate::key::PrivateKey;
use crate::lines::PieceReader;

const TIME: &str = "2026-11-23T08:00:00.000Z";

/// A log of 400 records. Every hundredth record is a checkpoint.
struct Log {
    lines: Vec<Vec<u8>>,
    key: PublicKey,
    /// The state of the verifier before each line.
    before: Vec<Verifier>,
}

impl Log {
    fn new() -> Self {
        let key = PrivateKey::generate().unwrap();
        let id = key.public().id().to_owned();
        let mut lines = Vec::new();
        let mut external = ExternalCheckpoints::default();
        let mut link = Link::FIRST;
        for number in 0..400 {
            let mut line;
            if number % 100 == 99 {
                line = format!(
                    "{{\"time\":\"{TIME}\",\"id\":null,\"tool\":\"\",\"outcome\":\"checkpoint\",\
                     \"key\":\"{id}\"}}"
                )
                .into_bytes();
                link.seal_signed(&mut line, |message| key.sign(message));
                external.add(&line, &[key.public()]).unwrap();
            } else {
                line = format!(
                    "{{\"time\":\"{TIME}\",\"id\":\"{number}\",\"call\":\"0123456789abcdef-7\",\
                     \"transport\":\"http\",\"tool\":\"read_skill\",\"component\":null,\
                     \"skill\":\"a\\u00e9\",\"path\":null,\"outcome\":\"output\",\"reason\":null,\
                     \"bytes\":12,\"duration_us\":100,\"memory\":65536}}"
                )
                .into_bytes();
                link.seal(&mut line);
            }
            link = link.next_after(&line);
            lines.push(line);
        }
        let mut verifier = Verifier::new(&[key.public()], external);
        verifier.start_file("log");
        let before = lines.iter().map(|line| {
            let before = verifier.clone();
            verifier.check_line(line);
            before
        });
        let before = before.collect();
        let report = verifier.finish();
        assert_eq!(report.problems, []);
        assert_eq!(
            (
                report.records,
                report.checkpoints,
                report.external_checkpoints
            ),
            (400, 4, 4)
        );
        assert_eq!(
            (report.last_proven, report.unproven_records),
            (Some(399), 0)
        );
        Self {
            key: key.public(),
            lines,
            before,
        }
    }

    /// Returns whether the verifier finds a problem if `bytes` replace lines `at` up to the one
    /// before `resume_at`.
    fn finds_problem(&self, at: usize, bytes: &[u8], resume_at: usize) -> bool {
        let mut verifier = self.before[at].clone();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            verifier.check_line(&rest[..end]);
            rest = &rest[end + 1..];
        }
        // Bytes after the last line feed belong to the next line.
        let mut rest = rest.to_vec();
        for line in &self.lines[resume_at.min(self.lines.len())..] {
            rest.extend_from_slice(line);
            verifier.check_line(&rest);
            rest.clear();
            if !verifier.report.problems.is_empty() {
                return true;
            }
        }
        if !rest.is_empty() {
            verifier.check_part(&rest, false);
        }
        !verifier.finish().problems.is_empty()
    }
}

fn with_line_feed(line: &[u8]) -> Vec<u8> {
    [line, b"\n"].concat()
}

#[test]
fn finds_every_changed_byte() {
    let log = Log::new();
    for (at, line) in log.lines.iter().enumerate() {
        let mut bytes = with_line_feed(line);
        for place in 0..bytes.len() {
            let original = bytes[place];
            // Flip one bit of each byte. In two lines, try all 255 wrong values.
            let others: Vec<u8> = match at {
                3 | 99 => (0..=255).filter(|other| *other != original).collect(),
                _ => vec![original ^ (1 << (place % 8))],
            };
            for other in others {
                bytes[place] = other;
                assert!(
                    log.finds_problem(at, &bytes, at + 1),
                    "line {at}, byte {place}: {other}"
                );
            }
            bytes[place] = original;
        }
    }
}

#[test]
fn finds_every_removed_or_added_byte() {
    let log = Log::new();
    for at in [0, 1, 98, 99, 100, 250, 398, 399] {
        let whole = with_line_feed(&log.lines[at]);
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes.remove(place);
            assert!(
                log.finds_problem(at, &bytes, at + 1),
                "line {at}, byte {place} removed"
            );
            for added in [b' ', b'0', b'\n', b'"'] {
                let mut bytes = whole.clone();
                bytes.insert(place, added);
                assert!(
                    log.finds_problem(at, &bytes, at + 1),
                    "line {at}, byte {place} added"
                );
            }
        }
    }
}

#[test]
fn finds_every_moved_record() {
    let log = Log::new();
    let count = log.lines.len();
    let assert_found = |at: usize| {
        // Remove this line and any number of lines after it.
        for resume_at in at + 1..=count {
            assert!(
                log.finds_problem(at, b"", resume_at),
                "lines {at} to {resume_at} removed"
            );
        }
        // Put any other line in its place: swapped, moved or repeated.
        for other in (0..count).filter(|other| *other != at) {
            assert!(
                log.finds_problem(at, &with_line_feed(&log.lines[other]), at + 1),
                "{other} in the place of {at}"
            );
        }
        assert!(
            log.finds_problem(at, &with_line_feed(&log.lines[at]), at),
            "line {at} repeated"
        );
    };
    (0..count).for_each(assert_found);
}

#[test]
fn finds_every_cut_before_an_external_checkpoint() {
    let log = Log::new();
    let without_external = Verifier::new(
        std::slice::from_ref(&log.key),
        ExternalCheckpoints::default(),
    );
    for at in 0..log.lines.len() {
        let line = with_line_feed(&log.lines[at]);
        for end in 0..line.len() {
            assert!(
                log.finds_problem(at, &line[..end], usize::MAX),
                "cut in line {at} at {end}"
            );
        }
        // Without external checkpoints, the report shows only that the end is not proven.
        let mut verifier = Verifier {
            external: without_external.external.clone(),
            ..log.before[at].clone()
        };
        verifier.check_part(&line[..20], false);
        let report = verifier.finish();
        assert_eq!(report.problems, [], "{at}");
        assert_eq!((report.records, report.torn_bytes), (at as u64, 20));
        let proven = (at / 100 * 100).checked_sub(1).map(|last| last as u64);
        assert_eq!(
            (report.last_proven, report.unproven_records),
            (proven, at as u64 % 100)
        );
    }
}

/// Returns a record that vouches for `bytes` before it.
fn vouching_record(link: Link, tool: &str, bytes: &[u8]) -> Vec<u8> {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let mut line = format!(
        "{{\"time\":\"{TIME}\",\"id\":null,\"tool\":\"{tool}\",\"outcome\":\"{TORN}\",\
         \"gap_bytes\":{},\"gap_sha256\":\"{}\"}}",
        bytes.len(),
        hex(&digest)
    )
    .into_bytes();
    link.seal(&mut line);
    line
}

/// Returns a whole record that belongs to no chain, with its line feed.
fn unchained() -> Vec<u8> {
    let record =
        format!("{{\"time\":\"{TIME}\",\"id\":null,\"tool\":\"t\",\"outcome\":\"output\"}}");
    with_line_feed(record.as_bytes())
}

#[test]
fn counts_whole_lines_before_chain_as_unchained() {
    let log = Log::new();
    let unchained = unchained();
    let torn = with_line_feed(&unchained[..40]);
    let check = |bytes: &[u8], is_vouched: bool| {
        let mut verifier = Verifier::new(
            std::slice::from_ref(&log.key),
            ExternalCheckpoints::default(),
        );
        verifier.start_file("log");
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            verifier.check_line(line.strip_suffix(b"\n").unwrap());
        }
        if is_vouched {
            verifier.check_line(&vouching_record(Link::FIRST, "", bytes));
        }
        verifier.finish()
    };
    for (bytes, expected) in [
        (unchained.clone(), 1),
        (
            [&unchained[..], &torn, &unchained, b"noise\n", &torn].concat(),
            3,
        ),
        (torn.clone(), 0),
    ] {
        for is_vouched in [true, false] {
            let report = check(&bytes, is_vouched);
            assert_eq!((report.problems, report.unchained), (vec![], expected));
        }
    }
    // A repeated record of a chain is a problem instead.
    for is_vouched in [true, false] {
        let bytes = [&log.lines[0], &b"\n"[..], &log.lines[0], b"\n"].concat();
        let report = check(&bytes, is_vouched);
        assert!(!report.problems.is_empty(), "{report:?}");
    }
    // So is an unchained line after a record of a chain.
    let mut verifier = log.before[5].clone();
    verifier.check_line(unchained.strip_suffix(b"\n").unwrap());
    verifier.external = ExternalCheckpoints::default();
    let report = verifier.finish();
    assert_eq!((report.problems.len(), report.unchained), (1, 0));
}

#[test]
fn accepts_torn_records_only_as_reported() {
    let log = Log::new();
    let torn = [&log.lines[7][..40], b"\n"].concat();
    let next = log.before[7].next.unwrap();
    let vouching = |bytes: &[u8]| vouching_record(next, "", bytes);
    let check = |gap: &[u8], record: &[u8]| {
        let mut verifier = log.before[7].clone();
        for line in gap.split_inclusive(|byte| *byte == b'\n') {
            verifier.check_line(line.strip_suffix(b"\n").unwrap());
        }
        verifier.check_line(record);
        verifier.external = ExternalCheckpoints::default();
        verifier.finish()
    };
    let accepted = check(&torn, &vouching(&torn));
    assert_eq!(
        (accepted.problems, accepted.unchanged_gap_bytes),
        (vec![], torn.len() as u64)
    );
    let more = [&torn[..], &torn[..]].concat();
    assert_eq!(check(&more, &vouching(&more)).problems, []);
    let unchained = unchained();
    for whole in [
        &unchained[..],
        &[&torn[..], &unchained].concat(),
        &[&unchained[..], &torn].concat(),
        &[&torn[..40], &unchained].concat(),
        &with_line_feed(&log.lines[3]),
        &with_line_feed(&log.lines[6]),
        &with_line_feed(&log.lines[8]),
        &b"noise\n"[..],
        b"\n",
    ] {
        let report = check(whole, &vouching(whole));
        assert_eq!(report.unchanged_gap_bytes, 0);
        assert!(
            !report.problems.is_empty(),
            "{}",
            String::from_utf8_lossy(whole)
        );
    }
    for (gap, record) in [
        (&b""[..], vouching(&torn)),
        (&more, vouching(&torn)),
        (&b"{\"time\":\"\n"[..], vouching(&torn)),
        (&torn, log.lines[7].clone()),
        // The record of a call vouches for nothing.
        (&torn, vouching_record(next, "t", &torn)),
        (&with_line_feed(&log.lines[3])[..], log.lines[7].clone()),
    ] {
        assert_eq!(check(gap, &record).problems.len(), 1);
    }
}

#[test]
fn accepts_long_run_of_zeros_only_after_torn_record() {
    let log = Log::new();
    let next = log.before[7].next.unwrap();
    let check = |bytes: &[u8]| {
        let mut verifier = log.before[7].clone();
        let mut pieces = PieceReader::new(bytes);
        while let Some(piece) = pieces.next().unwrap() {
            verifier.check_piece(piece);
        }
        verifier.external = ExternalCheckpoints::default();
        verifier.finish()
    };
    let (zeros, others) = (&[0_u8; MAX_LINE_BYTES][..], &[b'x'; MAX_LINE_BYTES][..]);
    let (record, torn) = (&log.lines[7][..], &log.lines[7][..41]);
    for (parts, is_torn) in [
        (&[zeros][..], true),
        (&[zeros, zeros, &zeros[1..]], true),
        (&[torn, zeros], true),
        // Here the second part of the line ends with the zero bytes.
        (&[torn, zeros, &zeros[41..]], true),
        (&[record, zeros, zeros], true),
        (&[others], false),
        (&[torn, others], false),
        (&[b"noise", zeros, zeros], false),
        (&[zeros, b"noise"], false),
        (&[torn, zeros, b"noise", zeros, zeros], false),
        // Here the second part of the line begins with the record.
        (&[torn, &zeros[41..], torn], false),
        (&[torn, &zeros[41..], record], false),
    ] {
        let bytes = parts.concat();
        let about: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let report = check(&bytes);
        assert_eq!(report.problems.is_empty(), is_torn, "{about:?}");
        if is_torn {
            assert_eq!(report.torn_bytes, bytes.len() as u64, "{about:?}");
        }
        // The next record vouches for the line.
        let line = with_line_feed(&bytes);
        let vouching = with_line_feed(&vouching_record(next, "", &line));
        let report = check(&[&line[..], &vouching].concat());
        assert_eq!(report.problems.is_empty(), is_torn, "{about:?}");
        let vouched = if is_torn { line.len() as u64 } else { 0 };
        assert_eq!(report.unchanged_gap_bytes, vouched, "{about:?}");
    }
}

#[test]
fn problem_has_line_and_sequence_numbers_and_cause() {
    let log = Log::new();
    let problem = |at: usize, bytes: &[u8], resume_at: usize| {
        let mut verifier = log.before[at].clone();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            verifier.check_line(line.strip_suffix(b"\n").unwrap());
        }
        for line in &log.lines[resume_at..] {
            verifier.check_line(line);
        }
        let report = verifier.finish();
        assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
        let problem = &report.problems[0];
        assert_eq!(&*problem.file, "log");
        (problem.line, problem.sequence, problem.problem.clone())
    };
    let changed = String::from_utf8(with_line_feed(&log.lines[5])).unwrap();
    let changed = changed.replace("read_skill", "read_skull");
    for (found, line, sequence, words) in [
        (
            problem(5, changed.as_bytes(), 6),
            7,
            6,
            "one of the two was changed",
        ),
        (problem(5, b"", 6), 6, 6, "record 5 is missing before it"),
        (
            problem(5, b"", 9),
            6,
            9,
            "records 5 to 8 are missing before it",
        ),
        (
            problem(5, &with_line_feed(&log.lines[5]), 5),
            7,
            5,
            "record 5 is repeated or out of order",
        ),
    ] {
        assert_eq!((found.0, found.1), (line, Some(sequence)));
        assert!(found.2.contains(words), "{}", found.2);
    }
    // The beginning of the log is missing.
    let mut verifier = Verifier::new(
        std::slice::from_ref(&log.key),
        ExternalCheckpoints::default(),
    );
    log.lines[10..].iter().for_each(|line| {
        verifier.check_line(line);
    });
    let report = verifier.finish();
    assert!(
        report.problems[0]
            .problem
            .contains("its beginning is missing")
    );
    // Another key has signed the checkpoints.
    let other = PrivateKey::generate().unwrap().public();
    let mut verifier = Verifier::new(&[other], ExternalCheckpoints::default());
    log.lines.iter().for_each(|line| {
        verifier.check_line(line);
    });
    let report = verifier.finish();
    assert_eq!((report.problems.len(), report.last_proven), (1, None));
    assert!(report.problems[0].problem.contains("another key"));
    assert!(!report.is_proven());
}

#[test]
fn rejects_signatures_of_other_keys() {
    let log = Log::new();
    for signature in [[0; SIGNATURE_BYTES], [7; SIGNATURE_BYTES]] {
        let mut verifier = log.before[99].clone();
        let id = log.key.id();
        let mut line = format!(
            "{{\"time\":\"{TIME}\",\"id\":null,\"tool\":\"\",\"outcome\":\"checkpoint\",\
             \"key\":\"{id}\"}}"
        )
        .into_bytes();
        verifier.next.unwrap().seal_signed(&mut line, |_| signature);
        verifier.check_line(&line);
        let problems = &verifier.report.problems;
        assert!(
            problems[0].problem.contains("the signature is wrong"),
            "{problems:?}"
        );
    }
}

#[test]
fn accepts_signatures_only_of_checkpoints() {
    let log = Log::new();
    let checkpoint = format!(
        "{{\"time\":\"{TIME}\",\"id\":null,\"tool\":\"\",\"outcome\":\"checkpoint\",\"key\":\"{}\"}}",
        log.key.id()
    );
    let call = format!("{{\"time\":\"{TIME}\",\"id\":null,\"tool\":\"t\",\"outcome\":\"output\"}}");
    for (line, is_signed, words) in [
        (checkpoint, false, "the checkpoint has no signature"),
        (call, true, "is signed with another key, ``"),
    ] {
        let mut verifier = log.before[7].clone();
        let (mut line, link) = (line.into_bytes(), verifier.next.unwrap());
        if is_signed {
            link.seal_signed(&mut line, |_| [7; SIGNATURE_BYTES]);
        } else {
            link.seal(&mut line);
        }
        verifier.check_line(&line);
        let problems = &verifier.report.problems;
        assert!(problems[0].problem.contains(words), "{problems:?}");
    }
}

#[test]
fn counts_a_long_line_once() {
    let log = Log::new();
    let mut verifier = log.before[0].clone();
    for (part, ends) in [(&b"x"[..], false), (b"y", false), (b"z\n", true)] {
        verifier.check_part(part, ends);
    }
    verifier.check_line(&log.lines[0]);
    verifier.check_line(&log.lines[2]);
    let lines: Vec<_> = verifier
        .report
        .problems
        .iter()
        .map(|problem| problem.line)
        .collect();
    assert_eq!(lines, [1, 3]);
}

#[test]
fn reports_the_first_hundred_problems() {
    let log = Log::new();
    let mut verifier = log.before[0].clone();
    for line in log.lines[..302].iter().step_by(2) {
        verifier.check_line(line);
    }
    let report = &verifier.report;
    assert_eq!((report.problems.len(), report.problems_left_out), (100, 50));
}

#[test]
fn one_change_is_one_problem() {
    let log = Log::new();
    let problems_in = |files: usize, at: usize, bytes: &[u8], resume_at: usize| {
        let mut verifier = log.before[at].clone();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            verifier.check_line(line.strip_suffix(b"\n").unwrap());
        }
        if files > 1 {
            verifier.start_file("next");
        }
        for line in &log.lines[resume_at..] {
            verifier.check_line(line);
        }
        verifier.finish().problems
    };
    let problems = |at, bytes: &[u8], resume_at| problems_in(1, at, bytes, resume_at);
    for (at, step) in [(0, 5), (1, 5), (50, 1), (99, 1), (100, 5)] {
        let line = with_line_feed(&log.lines[at]);
        for place in (0..line.len() - 1).step_by(step) {
            for other in [b'0', b'7', b'x'] {
                let mut bytes = line.clone();
                bytes[place] = other;
                let found = problems(at, &bytes, at + 1);
                assert_eq!(
                    found.len(),
                    usize::from(bytes != line),
                    "line {at}, byte {place}: {found:?}"
                );
            }
        }
        // A removed record, and an added one.
        for (bytes, resume_at) in [
            (Vec::new(), at + 1),
            ([&line[..], b"noise\n"].concat(), at + 1),
            ([&line[..], &line].concat(), at + 1),
        ] {
            let found = problems(at, &bytes, resume_at);
            assert_eq!(found.len(), 1, "line {at}: {found:?}");
        }
    }
    // The last record of a file was made unreadable.
    let mut line = with_line_feed(&log.lines[50]);
    line[2] = b'x';
    let found = problems_in(2, 50, &line, 51);
    assert_eq!(found.len(), 1, "{found:?}");
    // Three external checkpoints are missing with the records.
    let found = problems(50, b"", 350);
    assert_eq!(found.len(), 1, "{found:?}");
    // Two changes are two problems.
    let changed = |at: usize| {
        let line = String::from_utf8(with_line_feed(&log.lines[at])).unwrap();
        line.replace("read_skill", "read_skull")
    };
    let between = String::from_utf8(with_line_feed(&log.lines[11])).unwrap();
    let found = problems(10, (changed(10) + &between + &changed(12)).as_bytes(), 13);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn next_file_follows_unended_record() {
    let log = Log::new();
    let mut verifier = log.before[5].clone();
    verifier.check_part(&log.lines[5], false);
    assert_eq!(verifier.next_link(), log.before[6].next_link());
}
