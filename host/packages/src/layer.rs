//! The layer of a skill: a tar archive of its files, plain or compressed with gzip.
//!
//! Writes such archives, and reads files and folders from them into memory. The only supported
//! extensions of tar are long names, as pax and GNU tar write them. Ignores times, owners, modes
//! and comments, which change neither a file's name nor its bytes. Refuses everything else.

use std::borrow::Cow;
use std::io::{self, Read, Write as _};
use std::ops::Range;

use anyhow::{Context as _, bail, ensure};
use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use tar::{Archive, Builder, Entry, EntryType, Header, PaxExtensions};

use crate::manifest::{Descriptor, PLAIN_SKILL_LAYER};
use crate::quote::quote;
use crate::skill_files::{MAX_BYTES, MAX_FILES, MAX_PATH, SkillFiles, SkillFilesBuilder};

/// The maximum size of an archive, in bytes. Guards against: layers that decompress to huge sizes.
const MAX_ARCHIVE: u64 = MAX_BYTES + (16 << 20);

/// The maximum size of an archive for each byte of its layer, and the size that is allowed in
/// addition, in bytes.
///
/// Guards against: small layers that decompress to huge archives. Text has a ratio of less than 20.
const MAX_RATIO: (u64, u64) = (100, 1 << 20);

/// The maximum number of entries of an archive: files, folders and long names.
pub(crate) const MAX_ENTRIES: usize = 4 * MAX_FILES;

/// The maximum size of an extended header, in bytes: of pax records or a GNU long name.
const MAX_EXTENDED_HEADER: u64 = 4096 + MAX_PATH as u64;

/// The position of the end of a name in its header.
const NAME_END: usize = 100;

/// The positions of the start and the end of a name's prefix in a header of the format ustar.
const PREFIX: usize = 345;
const PREFIX_END: usize = 500;

/// The positions of a header's numbers that decide where the next entry begins: its size and its
/// checksum.
const NUMBERS: [Range<usize>; 2] = [124..136, 148..156];

/// The position of the last byte of a header's checksum.
const CHECKSUM_LAST: usize = 155;

/// The positions of a header's ignored numbers: its mode, owner, group, time and device.
const IGNORED_NUMBERS: [Range<usize>; 6] =
    [100..108, 108..116, 116..124, 136..148, 329..337, 337..345];

/// The position of an entry's type in its header.
const TYPE: usize = 156;

/// The position of a link's target in its header.
const LINK_TARGET: Range<usize> = 157..257;

/// The keys of pax records that change neither a name nor bytes.
const IGNORED_KEYS: [&str; 8] = [
    "atime", "comment", "ctime", "gid", "gname", "mtime", "uid", "uname",
];

/// Reads the files of a skill from its layer.
///
/// # Errors
///
/// If the archive has a link, a device or an unsupported extension, is too large or damaged, or has
/// a name that [`SkillFilesBuilder::add`] refuses.
pub(crate) fn unpack(layer: &Descriptor, bytes: &[u8]) -> anyhow::Result<SkillFiles> {
    let archive = if layer.media_type == PLAIN_SKILL_LAYER {
        Cow::Borrowed(bytes)
    } else {
        Cow::Owned(decompress(bytes)?)
    };
    ensure!(
        archive.len() as u64 <= MAX_ARCHIVE,
        "the archive has more than {MAX_ARCHIVE} bytes"
    );
    read_archive(&archive).context("cannot unpack the archive of the skill")
}

/// Returns the maximum size to which `bytes` compressed bytes may decompress, in bytes.
pub(crate) fn max_decompressed_size(bytes: usize) -> u64 {
    let (ratio, extra) = MAX_RATIO;
    (bytes as u64 * ratio + extra).min(MAX_ARCHIVE)
}

fn decompress(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let max = max_decompressed_size(bytes.len());
    let mut decoder = GzDecoder::new(bytes);
    let mut archive = Vec::new();
    let read = decoder.by_ref().take(max + 1).read_to_end(&mut archive);
    read.context("the layer is not valid gzip")?;
    ensure!(
        archive.len() as u64 <= max,
        "the layer of {} bytes decompresses to more than {max} bytes",
        bytes.len()
    );
    ensure!(
        decoder.into_inner().is_empty(),
        "the layer has bytes after its gzip stream"
    );
    Ok(archive)
}

fn read_archive(bytes: &[u8]) -> anyhow::Result<SkillFiles> {
    let mut files = SkillFilesBuilder::default();
    let mut archive = Archive::new(bytes);
    let mut long_name: Option<Vec<u8>> = None;
    let mut has_pax = false;
    // Reads raw entries, because the crate `tar` itself accepts more extensions.
    for (index, entry) in archive.entries()?.raw(true).enumerate() {
        ensure!(
            index < MAX_ENTRIES,
            "there are more than {MAX_ENTRIES} entries"
        );
        let mut entry = entry?;
        let header = entry.header();
        let (size, kind) = (header.entry_size()?, header.entry_type());
        check_header(header)?;
        let name = match kind {
            EntryType::XHeader => {
                // Some programs use only the last pax header.
                ensure!(!has_pax, "a file has two pax headers");
                has_pax = true;
                read_pax(&read_extended_header(&mut entry)?)?
            }
            EntryType::XGlobalHeader => {
                // Some programs forget a file's long name at a global pax header.
                ensure!(
                    !has_pax && long_name.is_none(),
                    "a global pax header is between the headers of a file"
                );
                let name = read_pax(&read_extended_header(&mut entry)?)?;
                ensure!(name.is_none(), "a global pax header has a name");
                continue;
            }
            EntryType::GNULongName => {
                let mut name = read_extended_header(&mut entry)?;
                ensure!(
                    name.pop() == Some(0),
                    "a long name does not end with a zero byte"
                );
                Some(name)
            }
            EntryType::Regular | EntryType::Directory => {
                has_pax = false;
                let name = entry.path_bytes().into_owned();
                let name = long_name.take().unwrap_or(name);
                let is_file = kind == EntryType::Regular;
                ensure!(
                    is_file || size == 0,
                    "the folder `{}` has {size} bytes; a folder must have none",
                    quote(&String::from_utf8_lossy(&name))
                );
                if !is_file && matches!(&name[..], b"." | b"./") {
                    continue;
                }
                // `tar -C SKILL .` starts names with `./`.
                let name = name.strip_prefix(b"./").unwrap_or(&name);
                if is_file {
                    files.add(name, size, &mut entry)?;
                } else {
                    files.add_folder(name.strip_suffix(b"/").unwrap_or(name))?;
                }
                continue;
            }
            other => bail!(
                "`{}` is not a file or a folder: it has the type `{}`",
                quote(&String::from_utf8_lossy(&entry.path_bytes())),
                char::from(other.as_byte()).escape_debug()
            ),
        };
        ensure!(
            name.is_none() || long_name.is_none(),
            "a file has two long names"
        );
        long_name = name.or(long_name);
    }
    ensure!(long_name.is_none(), "a long name has no file");
    // An archive ends with two blocks of zeros. Some programs write more of them.
    ensure!(
        archive.into_inner().iter().all(|byte| *byte == 0),
        "there are bytes after the end-of-archive blocks"
    );
    files.build()
}

/// Reads the data of an extended header: pax records or a GNU long name.
fn read_extended_header(entry: &mut Entry<'_, &[u8]>) -> anyhow::Result<Vec<u8>> {
    let size = entry.header().entry_size()?;
    ensure!(
        size <= MAX_EXTENDED_HEADER,
        "an extended header has {size} bytes, more than {MAX_EXTENDED_HEADER}"
    );
    // Some programs skip such an entry if it has no name, and read its data as headers.
    ensure!(
        !entry.path_bytes().is_empty(),
        "an extended header has no name"
    );
    let mut data = Vec::new();
    entry.read_to_end(&mut data)?;
    ensure!(
        data.len() as u64 == size,
        "the archive ends within an extended header"
    );
    Ok(data)
}

/// Checks that all programs read the same name, type, size and checksum in a header.
fn check_header(header: &Header) -> anyhow::Result<()> {
    let bytes = header.as_bytes();
    let name = || quote(&String::from_utf8_lossy(&header.path_bytes())).to_string();
    // If no blank or zero byte ends a checksum, some programs read the next bytes as its digits. At
    // an ignored number that they cannot read, some programs stop without an error.
    ensure!(
        NUMBERS.into_iter().all(|number| is_octal(&bytes[number]))
            && matches!(bytes[CHECKSUM_LAST], b' ' | 0)
            && IGNORED_NUMBERS
                .into_iter()
                .all(|number| is_readable(&bytes[number])),
        "the header of `{}` has a number that some programs read differently",
        name()
    );
    // Some programs take an entry of type zero for a folder if its name ends in `/`, and read the
    // file's bytes as headers.
    ensure!(
        bytes[TYPE] != 0 || !header.path_bytes().ends_with(b"/"),
        "the name `{}` of a file ends in `/`",
        name()
    );
    // Some programs skip a header with a link target, and read the file's bytes as headers. The
    // caller refuses links.
    let is_link = matches!(header.entry_type(), EntryType::Link | EntryType::Symlink);
    ensure!(
        is_link || bytes[LINK_TARGET].iter().all(|byte| *byte == 0),
        "`{}` has a link target, but is not a link",
        name()
    );
    // Python reads a prefix in headers of all formats. A ustar header that ends with the magic
    // bytes of the format star has a shorter prefix.
    let is_ustar = header.as_ustar().is_some();
    let unused = if is_ustar { PREFIX_END } else { PREFIX };
    ensure!(
        bytes[unused..].iter().all(|byte| *byte == 0)
            && ends_at_zero(&bytes[..NAME_END])
            && ends_at_zero(&bytes[PREFIX..PREFIX_END]),
        "the header of `{}` has bytes that some programs read as a part of its name",
        name()
    );
    Ok(())
}

/// Returns whether a field of a header is an octal number: optional blanks, digits, and then only
/// blanks and zero bytes.
fn is_octal(field: &[u8]) -> bool {
    let digits = field.trim_ascii_start();
    let blanks = &field[..field.len() - digits.len()];
    let count = digits
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'7'))
        .count();
    count > 0
        && blanks.iter().all(|byte| *byte == b' ')
        && digits[count..].iter().all(|byte| matches!(byte, b' ' | 0))
}

/// Returns whether all programs can read an ignored number of a header: one that is empty, octal,
/// or in base 256 and less than 2^53. Some programs skip a header with a larger number, and read
/// the file's bytes as headers.
fn is_readable(field: &[u8]) -> bool {
    let is_empty = field.iter().all(|byte| matches!(byte, b' ' | 0));
    let is_base_256 = field.split_last_chunk::<7>().is_some_and(|(high, low)| {
        let high = high.strip_prefix(&[0x80]);
        high.is_some_and(|high| high.iter().all(|byte| *byte == 0)) && low[0] < 0x20
    });
    is_empty || is_base_256 || is_octal(field)
}

/// Returns whether a text field of a header has only zero bytes after its first zero byte.
fn ends_at_zero(field: &[u8]) -> bool {
    let mut rest = field.iter().skip_while(|byte| **byte != 0);
    rest.all(|byte| *byte == 0)
}

/// Returns the name that pax records give to the next entry.
fn read_pax(records: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let mut name = None;
    let mut length = 0;
    for record in PaxExtensions::new(records) {
        let record = record?;
        let key = record.key();
        let key = key.context("the key of a pax record is not UTF-8")?;
        let value = record.value_bytes();
        // Adds up the lengths that the records should have. Other programs could read a record of
        // another length differently, such as one with a line break in its value.
        let rest = key.len() + value.len() + 3;
        length += rest + count_digits(rest);
        match key {
            "path" if name.is_none() => name = Some(value.to_owned()),
            _ if IGNORED_KEYS.contains(&key) => {}
            "path" => bail!("the pax record `path` occurs twice"),
            _ => bail!("the pax record `{}` is not supported", quote(key)),
        }
    }
    ensure!(length == records.len(), "a pax record is malformed");
    Ok(name)
}

/// Returns the number of digits in the length of a pax record. The length counts these digits and
/// the record's other bytes, of which there are `rest`.
fn count_digits(rest: usize) -> usize {
    let count = |number: usize| number.to_string().len();
    count(rest + count(rest + count(rest)))
}

/// Packs the files of a skill. The same files give the same bytes.
pub(crate) fn pack(files: &SkillFiles) -> anyhow::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for (path, bytes) in files.iter() {
        let mut header = Header::new_ustar();
        if header.set_path(path).is_err() {
            // The failed `set_path` can leave a part of the name in the header.
            header = Header::new_ustar();
            header.set_path("long-name")?;
            // The crate `tar` would write a pax header with an empty name.
            let rest = format!(" path={path}\n");
            let record = format!("{}{rest}", rest.len() + count_digits(rest.len()));
            let mut pax = header.clone();
            pax.set_entry_type(EntryType::XHeader);
            append(&mut archive, &mut pax, record.as_bytes())?;
        }
        append(&mut archive, &mut header, bytes)?;
    }
    Ok(archive.into_inner()?)
}

/// Adds an entry without an owner or a time.
fn append(archive: &mut Builder<Vec<u8>>, header: &mut Header, bytes: &[u8]) -> io::Result<()> {
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    archive.append(header, bytes)
}

/// Compresses an archive. The same version of the compressor always gives the same bytes.
pub(crate) fn compress(archive: &[u8]) -> anyhow::Result<Vec<u8>> {
    let gzip = GzBuilder::new().operating_system(255);
    let mut encoder = gzip.write(Vec::new(), Compression::best());
    encoder.write_all(archive)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::SKILL_LAYER;
    use crate::skill_files::tests::skill_files;

    /// An archive that is built entry by entry.
    struct TestArchive(Vec<u8>);

    impl TestArchive {
        /// Creates an archive with a SKILL.md.
        fn new() -> Self {
            Self(Vec::new()).file("SKILL.md", b"# One\n")
        }

        fn file(self, name: &str, bytes: &[u8]) -> Self {
            self.entry(b'0', name.as_bytes(), bytes)
        }

        fn entry(self, kind: u8, name: &[u8], bytes: &[u8]) -> Self {
            self.sized(kind, name, bytes, bytes.len() as u64)
        }

        /// Adds an entry that claims to have `size` bytes.
        fn sized(mut self, kind: u8, name: &[u8], bytes: &[u8], size: u64) -> Self {
            let mut header = Header::new_ustar();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name);
            header.as_mut_bytes()[TYPE] = kind;
            header.set_size(size);
            header.set_mode(0o4755);
            if matches!(kind, b'1' | b'2') {
                header.set_link_name_literal("/etc/passwd").unwrap();
            }
            header.set_cksum();
            self.0.extend(header.as_bytes());
            self.0.extend(bytes);
            self.0.resize(self.0.len().next_multiple_of(512), 0);
            self
        }

        /// Adds a pax header with one record.
        fn pax(self, kind: u8, key: &str, value: &str) -> Self {
            let rest = key.len() + value.len() + 3;
            let record = format!("{} {key}={value}\n", rest + count_digits(rest));
            self.entry(kind, b"pax", record.as_bytes())
        }

        /// Changes the header of the last entry, which must be empty.
        fn header(mut self, position: usize, bytes: &[u8]) -> Self {
            let start = self.0.len() - 512;
            let mut header = Header::from_byte_slice(&self.0[start..]).clone();
            header.as_mut_bytes()[position..position + bytes.len()].copy_from_slice(bytes);
            header.set_cksum();
            self.0[start..].copy_from_slice(header.as_bytes());
            self
        }

        fn raw(mut self, bytes: &[u8]) -> Self {
            self.0.extend(bytes);
            self
        }

        fn end(mut self) -> Vec<u8> {
            self.0.resize(self.0.len() + 1024, 0);
            self.0
        }
    }

    /// Unpacks an archive from a plain and a compressed layer, and checks that the results are
    /// equal.
    fn unpack_in_both_forms(archive: &[u8]) -> Result<SkillFiles, String> {
        let plain = unpack(&Descriptor::of(PLAIN_SKILL_LAYER, archive), archive);
        let layer = compress(archive).unwrap();
        let unpacked = unpack(&Descriptor::of(SKILL_LAYER, &layer), &layer);
        let text = |it: anyhow::Result<SkillFiles>| it.map_err(|error| format!("{error:#}"));
        let (plain, unpacked) = (text(plain), text(unpacked));
        // Thousands of empty entries compress so well that the compressed layer is refused.
        let is_bomb = unpacked
            .as_ref()
            .is_err_and(|it| it.contains("decompresses to more"));
        assert!(is_bomb || plain == unpacked, "{plain:?} {unpacked:?}");
        plain
    }

    #[test]
    fn unpacks_what_it_packed() {
        let long = format!("{}/{}.md", "folder".repeat(20), "name".repeat(50));
        let deep = ["d".repeat(150), "e".repeat(60), "f".repeat(60)].join("/");
        let files = skill_files(&[
            ("SKILL.md", "# One\n"),
            ("empty", ""),
            ("größe/ß.txt", "x"),
            (&long, "long"),
            (&deep, "deep"),
            (&format!("a/{}", "n".repeat(99)), "split"),
        ]);
        let files = files.unwrap();
        let archive = pack(&files).unwrap();
        assert_eq!(archive, pack(&files).unwrap());
        assert_eq!(unpack_in_both_forms(&archive).unwrap(), files);
        assert_eq!(compress(&archive).unwrap(), compress(&archive).unwrap());
        // The header of gzip has no time and no operating system.
        assert_eq!(
            compress(&archive).unwrap()[..10],
            [31, 139, 8, 0, 0, 0, 0, 0, 2, 255]
        );
    }

    #[test]
    fn unpacks_archives_of_other_programs() {
        let long = "n".repeat(200);
        let archive = TestArchive(Vec::new())
            .pax(b'g', "comment", "a commit")
            .entry(b'5', b"./", b"")
            .entry(b'5', b".", b"")
            .entry(b'5', b"./scripts/", b"")
            .entry(b'5', b"empty/", b"")
            .file("./SKILL.md", b"# One\n")
            .pax(b'x', "mtime", "1.5")
            .file("./scripts/a.py", b"a")
            .pax(b'x', "path", &long)
            .file("short", b"pax")
            .entry(b'L', b"././@LongLink", format!("x{long}\0").as_bytes())
            .entry(b'\0', b"short", b"gnu")
            .end();
        let mut padded = archive.clone();
        padded.resize(archive.len().next_multiple_of(10_240), 0);
        let expected = skill_files(&[
            ("SKILL.md", "# One\n"),
            ("scripts/a.py", "a"),
            (&long, "pax"),
            (&format!("x{long}"), "gnu"),
        ]);
        let expected = expected.unwrap();
        assert_eq!(unpack_in_both_forms(&archive).unwrap(), expected);
        assert_eq!(unpack_in_both_forms(&padded).unwrap(), expected);
    }

    #[test]
    fn refuses_hostile_archives() {
        let new = TestArchive::new;
        let two_names = TestArchive::new()
            .pax(b'x', "path", "one")
            .entry(b'L', b"l", b"two\0")
            .file("x", b"");
        let mut broken = new().file("x", b"");
        broken.0[1024 + 100] ^= 1;
        let bad_length = b"10 path=a\n".as_slice();
        let line_break = b"11 path=a\nb\n".as_slice();
        let two_paths = b"9 path=a\n9 path=b\n".as_slice();
        let many = (0..=MAX_FILES).fold(new(), |it, number| it.file(&number.to_string(), b""));
        let folders = (0..MAX_ENTRIES).fold(new(), |it, _| it.entry(b'5', b"d", b""));
        let twice = new().file("a", b"1").file("a", b"2");
        for (archive, why) in [
            (
                new().entry(b'2', b"link", b""),
                "`link` is not a file or a folder",
            ),
            (new().entry(b'1', b"hard", b""), "has the type `1`"),
            (new().entry(b'3', b"device", b""), "has the type `3`"),
            (new().entry(b'4', b"device", b""), "has the type `4`"),
            (new().entry(b'6', b"fifo", b""), "has the type `6`"),
            (new().entry(b'7', b"contiguous", b""), "has the type `7`"),
            (new().entry(b'S', b"sparse", b""), "has the type `S`"),
            (new().entry(b'K', b"link", b"x\0"), "has the type `K`"),
            (new().entry(b'V', b"\x1b[2J", b""), "`\\u{1b}[2J` is not"),
            (new().file("/etc/passwd", b""), "is not relative"),
            (new().file("../up", b""), "`..`"),
            (new().file("a/../../up", b""), "`..`"),
            (new().file("././x", b""), "`.`"),
            (new().entry(b'5', b"../up/", b""), "`..`"),
            (
                new().entry(b'5', b"d", b"bytes"),
                "the folder `d` has 5 bytes",
            ),
            (new().file("a\\b", b""), "a backslash"),
            (new().entry(b'0', b"\xff", b""), "is not UTF-8"),
            (new().file("skill.md", b""), "differ only by case"),
            (
                new().file("A/x", b"").file("a/y", b""),
                "differ only by case",
            ),
            (
                new().file("\u{e9}", b"").file("e\u{301}", b""),
                "Unicode form",
            ),
            (twice, "occurs twice"),
            (new().file("SKILL.md/x", b""), "occurs twice"),
            (new().pax(b'x', "path", "../up").file("x", b""), "`..`"),
            (
                new().pax(b'x', "size", "9").file("x", b""),
                "pax record `size`",
            ),
            (
                new().pax(b'x', "linkpath", "/").file("x", b""),
                "`linkpath`",
            ),
            (
                new().pax(b'x', "GNU.sparse.major", "1").file("x", b""),
                "`GNU.sparse.major`",
            ),
            (
                new().pax(b'x', "SCHILY.xattr.user.x", "1").file("x", b""),
                "`SCHILY.xattr.user.x`",
            ),
            (
                new().pax(b'g', "path", "all").file("x", b""),
                "a global pax header has a name",
            ),
            (
                new().entry(b'x', b"p", bad_length).file("x", b""),
                "malformed",
            ),
            (
                new().entry(b'x', b"p", two_paths).file("x", b""),
                "`path` occurs twice",
            ),
            (
                new().entry(b'x', b"p", line_break).file("x", b""),
                "malformed",
            ),
            (
                new().entry(b'L', b"l", b"no end").file("x", b""),
                "a zero byte",
            ),
            (
                new().entry(b'L', b"l", &[b'n'; 9999]),
                "an extended header has 9999 bytes",
            ),
            (
                new().entry(b'L', b"", b"long\0").file("x", b""),
                "an extended header has no name",
            ),
            (
                new().entry(b'x', b"", b"10 path=a\n").file("x", b""),
                "an extended header has no name",
            ),
            (
                new().entry(b'g', b"", b"").file("x", b""),
                "an extended header has no name",
            ),
            (
                new().file("x", b"").header(LINK_TARGET.start, b"y"),
                "`x` has a link target",
            ),
            (
                new().entry(b'5', b"d", b"").header(LINK_TARGET.start, b"y"),
                "has a link target",
            ),
            (
                new()
                    .entry(b'x', b"p", b"")
                    .header(LINK_TARGET.end - 1, b"y")
                    .file("x", b""),
                "has a link target",
            ),
            (two_names, "two long names"),
            (
                new()
                    .pax(b'x', "path", "one")
                    .entry(b'x', b"p", b"")
                    .file("x", b""),
                "two pax headers",
            ),
            (
                new()
                    .pax(b'x', "path", "one")
                    .pax(b'g', "comment", "a commit")
                    .file("x", b""),
                "between the headers of a file",
            ),
            (
                new()
                    .entry(b'L', b"l", b"one\0")
                    .pax(b'g', "comment", "a commit")
                    .file("x", b""),
                "between the headers of a file",
            ),
            (
                new().pax(b'x', "path", "one").entry(b'\0', b"x/", b""),
                "ends in `/`",
            ),
            (new().pax(b'x', "path", "alone"), "a long name has no file"),
            (
                new().sized(b'0', b"x", b"short", 5000),
                "does not have the 5000 bytes",
            ),
            (
                new().sized(b'0', b"x", b"", 7 << 30),
                "have more than 67108864",
            ),
            (broken, "checksum"),
            (many, "more than 4096 files"),
            (folders, "more than 16384 entries"),
            (
                new().raw(&[0; 1024]).file("hidden", b""),
                "bytes after the end-of-archive blocks",
            ),
            (TestArchive(Vec::new()).file("a", b""), "has no SKILL.md"),
            (TestArchive(Vec::new()), "has no SKILL.md"),
        ] {
            let error = unpack_in_both_forms(&archive.end()).unwrap_err();
            assert!(error.contains(why), "{why}: {error}");
            assert!(!error.contains('\x1b'), "{error}");
        }
    }

    #[test]
    fn refuses_headers_with_a_second_name() {
        const GNU: &[u8; 8] = b"ustar  \0";
        const MAGIC: usize = 257;
        let run = || TestArchive::new().file("run.sh", b"");
        let long = format!("{}/run.sh", "n".repeat(155));
        let names = |archive: TestArchive| {
            let files = unpack_in_both_forms(&archive.end()).unwrap();
            let names = files.iter().map(|(name, _)| name.to_owned());
            names.collect::<Vec<_>>()
        };
        for (archive, name) in [
            (run(), "run.sh"),
            (run().header(MAGIC, GNU), "run.sh"),
            (run().header(MAGIC, &[0; 8]), "run.sh"),
            (run().header(PREFIX, b"lib"), "lib/run.sh"),
            (run().header(PREFIX, &[b'n'; 155]), long.as_str()),
        ] {
            assert_eq!(names(archive), ["SKILL.md", name]);
        }
        for archive in [
            run().header(MAGIC, GNU).header(PREFIX, b"../../../evil"),
            run().header(MAGIC, &[0; 8]).header(PREFIX, b"lib"),
            run().header(MAGIC, b"ustar\x0001").header(PREFIX, b"lib"),
            run()
                .header(MAGIC, b"ustar\x20\x00\x00")
                .header(PREFIX_END - 1, b"x"),
            run().header(0, b"run.sh\0\n"),
            run().header(NAME_END - 1, b"x"),
            run().header(PREFIX, b"lib\0x"),
            // Times of GNU tar.
            run().header(MAGIC, GNU).header(PREFIX, b"15303031562\0"),
            // The magic bytes of the format star, which has a prefix of 131 bytes.
            run().header(PREFIX, &[b'n'; 155]).header(508, b"tar\0"),
        ] {
            let error = unpack_in_both_forms(&archive.end()).unwrap_err();
            assert!(error.contains("read as a part of its name"), "{error}");
        }
    }

    #[test]
    fn refuses_numbers_that_programs_read_differently() {
        let [size, checksum] = NUMBERS.map(|number| number.start);
        let mut checksum_with_sign = TestArchive::new().file("run.sh", b"");
        let start = checksum_with_sign.0.len() - 512 + checksum;
        assert_eq!(checksum_with_sign.0[start], b'0');
        checksum_with_sign.0[start] = b'+';
        let mut checksum_without_end = TestArchive::new().file("run.sh", b"");
        let digits = start..start + 7;
        checksum_without_end.0.copy_within(digits, start + 1);
        let with = |position: usize, number: &[u8]| {
            let archive = TestArchive::new().file("run.sh", b"");
            archive.header(position, number)
        };
        let with_size = |number: &[u8; 12]| with(size, number);
        let base_256 = |length: usize, first: &[u8], low: [u8; 7]| {
            let mut number = [first, &[0; 12]].concat();
            number.truncate(length - low.len());
            [&number[..], &low].concat()
        };
        let largest = [0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let too_large = [0x20, 0, 0, 0, 0, 0, 0];
        let ignored = IGNORED_NUMBERS.into_iter().flat_map(|field| {
            [
                b"99999999".to_vec(),
                base_256(field.len(), b"\x80", too_large),
                base_256(field.len(), b"\x80\x01", [0xff; 7]),
                base_256(field.len(), b"\x80\0\0\0\x01", [0xff; 7]),
                vec![0xff; field.len()],
            ]
            .map(|number| with(field.start, &number))
        });
        for archive in [
            checksum_with_sign,
            checksum_without_end,
            with(100, b"-000644\0"),
            with(100, b"\x81000644\0"),
            with_size(b"+0000001000\0"),
            with_size(b"\n0000001000\0"),
            with_size(b"0000001000\x0b\0"),
            with_size(b"0000001000\0x"),
            with_size(b"\x80\x01\0\0\0\0\0\0\0\0\x02\0"),
            with_size(b"\x80\0\0\0\0\0\0\0\0\0\x02\0"),
        ]
        .into_iter()
        .chain(ignored)
        {
            let error = unpack_in_both_forms(&archive.end()).unwrap_err();
            assert!(error.contains("read differently"), "{error}");
        }
        for number in [b"          0 ", b"00000000000\0", b"0          \0"] {
            assert!(unpack_in_both_forms(&with_size(number).end()).is_ok());
        }
        for field in IGNORED_NUMBERS {
            let octal = [b"0000644\0", b"   644 \0", b"        ", &[0; 8]].map(|number| {
                let mut number = number.to_vec();
                number.resize(field.len(), b' ');
                number
            });
            let base_256 = [
                base_256(field.len(), b"\x80", largest),
                base_256(field.len(), b"\x80", [0; 7]),
            ];
            for number in octal.into_iter().chain(base_256) {
                assert!(unpack_in_both_forms(&with(field.start, &number).end()).is_ok());
            }
        }
    }

    #[test]
    fn refuses_damaged_and_hostile_compression() {
        let good = compress(&TestArchive::new().end()).unwrap();
        let refused = |layer: &[u8]| {
            let unpacked = unpack(&Descriptor::of(SKILL_LAYER, layer), layer);
            format!("{:#}", unpacked.unwrap_err())
        };
        assert!(refused(b"not gzip").contains("not valid gzip"));
        assert!(refused(&good[..good.len() - 1]).contains("not valid gzip"));
        let mut damaged = good.clone();
        let at = damaged.len() - 5;
        damaged[at] ^= 1;
        assert!(refused(&damaged).contains("not valid gzip"));
        // A second gzip member, which other programs would read too.
        let two = [&good[..], &good[..]].concat();
        assert!(refused(&two).contains("bytes after its gzip stream"));
        // A bomb: 1 GiB of zeros in about 1 MiB.
        let mut encoder = GzBuilder::new().write(Vec::new(), Compression::fast());
        let zeros = vec![0; 1 << 20];
        for _ in 0..1024 {
            encoder.write_all(&zeros).unwrap();
        }
        let bomb = encoder.finish().unwrap();
        let why = format!("decompresses to more than {MAX_ARCHIVE} bytes");
        assert!(refused(&bomb).contains(&why), "{}", bomb.len());
        // A small bomb, within the maximum size of an archive.
        let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
        encoder.write_all(&vec![0; 4 << 20]).unwrap();
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 16 << 10);
        assert!(refused(&bomb).contains("decompresses to more than"));
    }
}
