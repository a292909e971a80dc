//! Unpacks archives of other programs, and refuses hostile ones.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::*;
use crate::skill_files::tests::skill_files;

/// A file of an archive, with its descriptions in the header and in the list.
#[derive(Clone)]
struct TestFile {
    packed: Vec<u8>,
    header: TestHeader,
    listed: TestHeader,
    /// The bytes of its data descriptor. Empty if it has none.
    descriptor: Vec<u8>,
    attributes: u32,
    disk: u16,
    /// The number that is added to the file's position in the list.
    moved: u32,
    comment: &'static [u8],
}

#[derive(Clone)]
struct TestHeader {
    name: Vec<u8>,
    version: u8,
    flags: u16,
    method: u16,
    time: [u8; 4],
    sizes: Sizes,
    extra: Vec<u8>,
}

impl TestHeader {
    fn bytes(&self) -> Vec<u8> {
        let sizes = size_bytes(self.sizes);
        let (flags, method) = (self.flags.to_le_bytes(), self.method.to_le_bytes());
        [&[self.version, 0][..], &flags, &method, &self.time, &sizes].concat()
    }

    fn lengths(&self) -> Vec<u8> {
        let lengths = [self.name.len(), self.extra.len()];
        lengths
            .map(|it| u16::try_from(it).unwrap().to_le_bytes())
            .concat()
    }
}

fn size_bytes(sizes: Sizes) -> Vec<u8> {
    let sizes = [sizes.checksum, sizes.packed, sizes.unpacked];
    sizes.map(u32::to_le_bytes).concat()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn stored(name: &str, bytes: &[u8]) -> TestFile {
    packed(name, bytes, STORED, bytes.to_vec())
}

fn deflated(name: &str, bytes: &[u8]) -> TestFile {
    packed(name, bytes, DEFLATED, deflate(bytes))
}

fn packed(name: &str, bytes: &[u8], method: u16, packed: Vec<u8>) -> TestFile {
    let mut checksum = Crc::new();
    checksum.update(bytes);
    let header = TestHeader {
        name: name.into(),
        version: 20,
        flags: if name.is_ascii() { 0 } else { IS_UTF8 },
        method,
        time: *b"time",
        sizes: Sizes {
            checksum: checksum.sum(),
            packed: packed.len().try_into().unwrap(),
            unpacked: bytes.len().try_into().unwrap(),
        },
        extra: Vec::new(),
    };
    TestFile {
        packed,
        listed: header.clone(),
        header,
        descriptor: Vec::new(),
        attributes: 0o100_644 << 16,
        disk: 0,
        moved: 0,
        comment: b"",
    }
}

fn folder(name: &str) -> TestFile {
    let mut folder = stored(name, b"");
    folder.attributes = 0o040_755 << 16 | DOS_FOLDER;
    folder
}

impl TestFile {
    /// Changes the file's header, and its description in the list.
    fn change_both(mut self, change: impl Fn(&mut TestHeader)) -> Self {
        change(&mut self.header);
        change(&mut self.listed);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn attributes(self, attributes: u32) -> Self {
        self.with(|it| it.attributes = attributes)
    }

    /// Moves the sizes into a data descriptor, like programs that cannot seek.
    fn with_descriptor(self, signature: &[u8]) -> Self {
        let descriptor = [signature, &size_bytes(self.listed.sizes)].concat();
        self.change_both(|it| it.flags |= HAS_DATA_DESCRIPTOR)
            .with(|it| (it.descriptor, it.header.sizes) = (descriptor, Sizes::UNKNOWN))
    }
}

/// The fields of the end record.
struct TestEnd {
    disks: [u16; 2],
    counts: [u16; 2],
    size: usize,
    offset: usize,
    comment: Vec<u8>,
}

fn archive(files: &[TestFile]) -> Vec<u8> {
    changed_archive(files, |_, _, _| {})
}

/// Builds an archive after a test has changed its entries, list and end.
fn changed_archive(
    files: &[TestFile],
    change: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>, &mut TestEnd),
) -> Vec<u8> {
    let (mut entries, mut list) = (Vec::new(), Vec::new());
    for file in files {
        let place = u32::try_from(entries.len()).unwrap() + file.moved;
        let (header, listed) = (&file.header, &file.listed);
        entries.extend([HEADER, &header.bytes(), &header.lengths()].concat());
        entries.extend(
            [
                &header.name[..],
                &header.extra,
                &file.packed,
                &file.descriptor,
            ]
            .concat(),
        );
        list.extend([LISTED, &[20, 3], &listed.bytes(), &listed.lengths()].concat());
        list.extend(u16::try_from(file.comment.len()).unwrap().to_le_bytes());
        list.extend([&file.disk.to_le_bytes()[..], &[0, 0]].concat());
        list.extend([file.attributes.to_le_bytes(), place.to_le_bytes()].concat());
        list.extend([&listed.name[..], &listed.extra, file.comment].concat());
    }
    let mut end = TestEnd {
        disks: [0; 2],
        counts: [files.len().try_into().unwrap(); 2],
        size: list.len(),
        offset: entries.len(),
        comment: Vec::new(),
    };
    change(&mut entries, &mut list, &mut end);
    let counts = [end.disks, end.counts].concat();
    let counts: Vec<u8> = counts.into_iter().flat_map(u16::to_le_bytes).collect();
    let sizes = [end.size, end.offset].map(|it| u32::try_from(it).unwrap().to_le_bytes());
    let comment = u16::try_from(end.comment.len()).unwrap().to_le_bytes();
    let end = [END, &counts, &sizes.concat(), &comment, &end.comment].concat();
    [entries, list, end].concat()
}

/// Packs the files of a skill.
pub(crate) fn archive_of(files: &SkillFiles) -> Vec<u8> {
    let files = files.iter().map(|(path, bytes)| deflated(path, bytes));
    archive(&files.collect::<Vec<_>>())
}

fn skill() -> TestFile {
    stored("SKILL.md", b"# One\n")
}

fn error(archive: &[u8]) -> String {
    format!("{:#}", unpack(archive).unwrap_err())
}

#[test]
fn unpacks_archives_of_other_programs() {
    let text = "text ".repeat(1000);
    let expected = skill_files(&[
        ("SKILL.md", "# One\n"),
        ("empty", ""),
        ("größe/ß.txt", &text),
    ]);
    let expected = expected.unwrap();
    let files = [
        folder("none/"),
        skill(),
        deflated("größe/ß.txt", text.as_bytes()),
        stored("empty", b""),
    ];
    assert_eq!(unpack(&archive(&files)).unwrap(), expected);
    // Python in memory: modes without a file type.
    let python = files.clone().map(|it| it.attributes(0o600 << 16));
    assert_eq!(unpack(&archive(&python)).unwrap(), expected);
    // Info-ZIP: times and owners, and an empty folder that is deflated.
    let times = b"UT\x05\x00\x03abcdux\x02\x00ab";
    let info = [
        deflated("none/", b"").attributes(DOS_FOLDER),
        files[1].clone(),
        files[2].clone(),
        files[3].clone(),
    ];
    let info = info.map(|it| it.change_both(|it| it.extra = times.to_vec()));
    assert_eq!(unpack(&archive(&info)).unwrap(), expected);
    // Go, and programs that write to a pipe: data descriptors.
    for signature in [DATA_DESCRIPTOR, b""] {
        let described = [
            deflated("SKILL.md", b"# One\n").with_descriptor(signature),
            deflated("größe/ß.txt", text.as_bytes()).with_descriptor(signature),
            deflated("empty", b"").with_descriptor(signature),
        ];
        assert_eq!(unpack(&archive(&described)).unwrap(), expected);
    }
    // Git: a commit as the comment.
    let git = changed_archive(&files, |_, _, end| end.comment = vec![b'a'; 40]);
    assert_eq!(unpack(&git).unwrap(), expected);
    let commented = files.map(|it| it.with(|it| it.comment = b"a comment"));
    assert_eq!(unpack(&archive(&commented)).unwrap(), expected);
    // A zip archive in the skill, right before the list.
    let inner = stored("inner.zip", &archive(&[skill()]));
    unpack(&archive(&[skill(), inner])).unwrap();
}

#[test]
fn refuses_hostile_files() {
    let x = || stored("x", b"bytes");
    let d = || deflated("x", b"bytes");
    let described = d().with_descriptor(DATA_DESCRIPTOR);
    let (wrong_sizes, other_name) = (
        Sizes {
            checksum: 1,
            ..x().listed.sizes
        },
        b"up\x05\x00\x01crcx",
    );
    for (file, why) in [
        (
            x().attributes(0o120_777 << 16),
            "`x` is not a file or a folder",
        ),
        (x().attributes(0o020_644 << 16), "is not a file or a folder"),
        (x().attributes(0o060_644 << 16), "is not a file or a folder"),
        (x().attributes(0o010_644 << 16), "is not a file or a folder"),
        (x().attributes(0o140_644 << 16), "is not a file or a folder"),
        (x().attributes(0o040_755 << 16), "is not a file or a folder"),
        (x().attributes(DOS_FOLDER), "is not a file or a folder"),
        (x().attributes(0x08), "is not a file or a folder"),
        (x().attributes(0x420), "is not a file or a folder"),
        (
            folder("d/").attributes(0o100_644 << 16),
            "is not a file or a folder",
        ),
        (
            folder("d/").attributes(0o120_644 << 16),
            "is not a file or a folder",
        ),
        (
            stored("d/", b"bytes").attributes(0),
            "the folder `d/` has 5 bytes",
        ),
        (
            stored("\x1b[2J", b"").attributes(0o120_777 << 16),
            "`\\u{1b}[2J` is not",
        ),
        (stored("/etc/passwd", b""), "is not relative"),
        (stored("../up", b""), "`..`"),
        (stored("./x", b""), "`.`"),
        (folder("../up/"), "`..`"),
        (folder("/"), "is empty"),
        (stored("C:\\x", b""), "a backslash"),
        (stored("a\0b", b""), "not visible"),
        (stored("skill.md", b""), "differ only by case"),
        (stored("SKILL.md", b""), "occurs twice"),
        (stored("SKILL.md/x", b""), "occurs twice"),
        (
            stored("größe", b"").change_both(|it| it.flags = 0),
            "is not marked as UTF-8",
        ),
        (x().change_both(|it| it.flags = 1), "`x` is encrypted"),
        (x().change_both(|it| it.flags = 1 << 6), "`x` is encrypted"),
        (x().change_both(|it| it.flags = 1 << 13), "`x` is encrypted"),
        (
            x().change_both(|it| it.flags = 1 << 5),
            "unknown flags: 0x20",
        ),
        (x().change_both(|it| it.method = 12), "the method 12"),
        (x().change_both(|it| it.method = 9), "the method 9"),
        (x().change_both(|it| it.method = 99), "the method 99"),
        (x().with(|it| it.disk = 1), "in another part of the archive"),
        (
            x().with(|it| it.moved = 1),
            "does not follow the file before it",
        ),
        // Extra fields: zip64, another name, and truncated ones.
        (
            x().change_both(|it| it.extra = b"\x01\x00\x08\x00abcdefgh".to_vec()),
            "the extra field 0x0001",
        ),
        (
            x().change_both(|it| it.extra = other_name.to_vec()),
            "the extra field 0x7075",
        ),
        (
            x().with(|it| it.header.extra = other_name.to_vec()),
            "the extra field 0x7075",
        ),
        (
            x().change_both(|it| it.extra = b"UT\x05\x00\x03".to_vec()),
            "ends too early",
        ),
        (
            x().change_both(|it| it.extra = b"U".to_vec()),
            "ends too early",
        ),
        (
            x().with(|it| it.header.extra = [&b"UT\x3d\x00"[..], &[0; 61]].concat()),
            "extra fields of more than 64 bytes",
        ),
        (x().with(|it| it.comment = b"\xff"), "the comment of `x`"),
        (x().with(|it| it.comment = b"\x01"), "the comment of `x`"),
        // The two descriptions differ.
        (
            x().with(|it| it.header.name = b"y".to_vec()),
            "cannot unpack `x`: the list has another name",
        ),
        (
            x().with(|it| it.header.name = b"xx".to_vec()),
            "another name, size",
        ),
        (
            x().with(|it| it.header.method = DEFLATED),
            "another name, size",
        ),
        (
            x().with(|it| it.header.flags = IS_UTF8),
            "another name, size",
        ),
        (
            x().with(|it| it.header.sizes = wrong_sizes),
            "another name, size",
        ),
        (
            x().with(|it| it.header.time = *b"Time"),
            "checksum, time or version",
        ),
        (
            x().with(|it| it.header.version = 10),
            "checksum, time or version",
        ),
        (
            x().with(|it| it.header.sizes = Sizes::UNKNOWN),
            "another name, size",
        ),
        (
            x().with(|it| it.listed.sizes.packed = u32::MAX),
            "ends too early",
        ),
        // Wrong sizes and checksums.
        (
            x().change_both(|it| it.sizes = wrong_sizes),
            "the size and checksum",
        ),
        (
            d().change_both(|it| it.sizes = wrong_sizes),
            "has another size",
        ),
        (
            x().change_both(|it| it.sizes.unpacked = 4),
            "the size and checksum",
        ),
        (
            x().change_both(|it| it.sizes.unpacked = 6),
            "the size and checksum",
        ),
        (
            d().change_both(|it| it.sizes.unpacked = 4),
            "the size and checksum",
        ),
        (
            d().change_both(|it| it.sizes.unpacked = 3),
            "has another size",
        ),
        (
            d().change_both(|it| it.sizes.unpacked = 6),
            "the size and checksum",
        ),
        (
            x().change_both(|it| it.sizes.unpacked = u32::MAX),
            "unpacks to too many bytes",
        ),
        (
            packed(
                "x",
                b"bytes",
                DEFLATED,
                [&deflate(b"bytes")[..], b"more"].concat(),
            ),
            "it is damaged",
        ),
        (
            packed("x", b"bytes", DEFLATED, b"\xff\xff".to_vec()),
            "it is damaged",
        ),
        (
            packed("x", b"bytes", DEFLATED, deflate(b"bytes")[..3].to_vec()),
            "it is damaged",
        ),
        // Data descriptors.
        (
            x().with_descriptor(DATA_DESCRIPTOR),
            "its size is given before and after it",
        ),
        (
            described
                .clone()
                .with(|it| it.header.sizes = it.listed.sizes),
            "its size is given before and after it",
        ),
        (
            described.clone().with(|it| it.descriptor[4] ^= 1),
            "another name, size",
        ),
        (
            // Sizes as long as in zip64.
            described.with(|it| it.descriptor.extend([0; 8])),
            "bytes or files that its list does not name",
        ),
    ] {
        let error = error(&archive(&[skill(), file]));
        assert!(error.contains(why), "expected `{why}`: {error}");
        assert!(!error.contains('\x1b'), "{error}");
    }
}

#[test]
fn refuses_archives_that_can_be_read_in_two_ways() {
    let files = [skill(), stored("x", b"bytes")];
    let moved = files.clone().map(|it| it.with(|it| it.moved = 6));
    let hidden = archive(&[stored("hidden", b"")]);
    let changed =
        |change: fn(&mut Vec<u8>, &mut Vec<u8>, &mut TestEnd)| changed_archive(&files, change);
    let commented = |comment| archive(&[skill().with(|it| it.comment = comment)]);
    let good = archive(&files);
    for (what, bytes, why) in [
        (
            "bytes before the first file",
            [b"#!/bin/sh\n", &good[..]].concat(),
            "its list of files is not before its end",
        ),
        (
            "bytes before the first file, which keeps its listed position",
            changed(|entries, _, end| {
                entries.splice(..0, *b"before");
                end.offset += 6;
            }),
            "it is not where the list says",
        ),
        (
            "bytes before the first file, and adapted positions",
            changed_archive(&moved, |entries, _, end| {
                entries.splice(..0, *b"before");
                end.offset += 6;
            }),
            "does not follow the file before it",
        ),
        (
            "bytes after the last file",
            changed(|entries, _, end| {
                entries.extend(b"after");
                end.offset += 5;
            }),
            "bytes or files that its list does not name",
        ),
        (
            "a file that is not in the list",
            changed(|_, list, end| {
                list.truncate(46 + 8);
                (end.size, end.counts) = (list.len(), [1; 2]);
            }),
            "bytes or files that its list does not name",
        ),
        (
            "a list that is longer than the count",
            changed(|_, _, end| end.counts = [1; 2]),
            "bytes or files that its list does not name",
        ),
        (
            "a list that is shorter than the count",
            changed(|_, _, end| end.counts = [3; 2]),
            "ends too early",
        ),
        (
            "a list in another order",
            changed(|_, list, _| list.rotate_left(46 + 8)),
            "`x` does not follow the file before it",
        ),
        (
            "the same file twice in the list",
            changed(|_, list, end| {
                list.extend_from_within(46 + 8..);
                (end.size, end.counts) = (list.len(), [3; 2]);
            }),
            "`x` does not follow the file before it",
        ),
        (
            "bytes before the end",
            changed(|_, list, _| list.extend(b"more")),
            "its list of files is not before its end",
        ),
        (
            "an end in zip64",
            changed(|_, _, end| (end.counts, end.size) = ([u16::MAX; 2], u32::MAX as usize)),
            "more than 16384 entries",
        ),
        (
            "a list of 4 GiB",
            changed(|_, _, end| (end.size, end.offset) = (u32::MAX as usize, u32::MAX as usize)),
            "its list of files is not before its end",
        ),
        (
            "bytes after the end",
            [&good[..], b"\0"].concat(),
            "bytes after its end",
        ),
        (
            "another archive after it",
            [&good[..], &hidden].concat(),
            "is not before its end",
        ),
        (
            "another archive as the comment",
            changed_archive(&files, |_, _, end| end.comment = hidden.clone()),
            "is not before its end",
        ),
        (
            "an end in the comment",
            changed(|_, _, end| end.comment = [END, &[0; 30]].concat()),
            "bytes after its end",
        ),
        (
            "an end in a comment of the list",
            commented(END),
            "a second end record",
        ),
        (
            "an end of zip64 in a comment of the list",
            commented(ZIP64_END),
            "a second end record",
        ),
        (
            "an end of zip64 in the comment",
            changed(|_, _, end| end.comment = ZIP64_END.to_vec()),
            "a second end record",
        ),
        (
            "an end in the last bytes of a file",
            archive(&[stored("SKILL.md", END)]),
            "a second end record",
        ),
        (
            "two disks",
            changed(|_, _, end| end.disks = [1, 0]),
            "a part of an archive",
        ),
        (
            "a list elsewhere",
            changed(|_, _, end| end.disks = [0, 1]),
            "a part of an archive",
        ),
        (
            "fewer files here",
            changed(|_, _, end| end.counts = [1, 2]),
            "a part of an archive",
        ),
        ("nothing", Vec::new(), "it has no end"),
        ("no end", good[..good.len() - 1].to_vec(), "it has no end"),
        (
            "no list",
            changed(|_, list, _| list.fill(0)),
            "its list of files is malformed",
        ),
        (
            "no header",
            changed(|entries, _, _| entries[..4].fill(0)),
            "not where the list says",
        ),
        ("no files", archive(&[]), "it has no SKILL.md"),
    ] {
        let error = error(&bytes);
        assert!(error.contains(why), "{what}: expected `{why}`: {error}");
    }
}

#[test]
fn refuses_zip64_locator_where_programs_search_for_it() {
    const LOCATOR: &[u8] = b"PK\x06\x07\0\0\0\0position\x01\0\0\0";
    let commented = || skill().with(|it| it.comment = LOCATOR);
    let extra = skill().with(|it| it.listed.extra = [b"UT\x14\0", LOCATOR].concat());
    for (place, bytes) in [
        ("a comment of the list", archive(&[commented()])),
        ("an extra field of the list", archive(&[extra])),
        (
            "the comment of the archive",
            changed_archive(&[skill()], |_, _, end| end.comment = LOCATOR.to_vec()),
        ),
        (
            "the bytes before the longest end",
            changed_archive(&[commented()], |_, _, end| {
                end.comment = vec![b' '; u16::MAX.into()];
            }),
        ),
        ("a file", archive(&[skill(), stored("x", LOCATOR)])),
    ] {
        let error = error(&bytes);
        assert!(error.contains("an end record of zip64"), "{place}: {error}");
    }
    // No program looks further from the end.
    let files = [stored("x", LOCATOR), stored("y", &[0; 1 << 16]), skill()];
    unpack(&archive(&files)).unwrap();
}

#[test]
fn refuses_bombs() {
    // Many files in the list that share the bytes of one file.
    let zeros = vec![0; 1 << 20];
    let bomb = changed_archive(&[skill(), deflated("0", &zeros)], |_, list, end| {
        let listed = list.split_off(46 + 8);
        for at in 0..100 {
            let mut listed = listed.clone();
            listed[46] = b'A' + at;
            list.extend(listed);
        }
        (end.size, end.counts) = (list.len(), [101; 2]);
    });
    assert!(
        error(&bomb).contains("another name, size"),
        "{}",
        error(&bomb)
    );
    // Small archives that unpack to huge sizes, in one file and in many.
    let one = [skill(), deflated("x", &[0; 4 << 20])];
    let many: Vec<TestFile> = (0..9).map(|at| deflated(&at.to_string(), &zeros)).collect();
    for files in [&one[..], &many] {
        let error = error(&archive(files));
        assert!(error.contains("unpacks to too many bytes"), "{error}");
    }
    let names = 0..=crate::skill_files::MAX_FILES;
    let many: Vec<TestFile> = names.map(|at| stored(&at.to_string(), b"")).collect();
    let error = error(&archive(&many));
    assert!(error.contains("more than 4096 files"), "{error}");
}
