//! A skill in a zip archive, as sites offer it.
//!
//! Zip names each file twice: before its bytes, and in a list at the end (the central directory).
//! Programs read one or the other, so two programs can find different files in one archive. This
//! module accepts an archive only if both ways give the same files: its entries follow one another
//! from the first byte, the list names exactly these in the same order, and the end record follows
//! the list. So entries cannot overlap either. Another end record would name another list, so none
//! may be where programs search for one.
//!
//! Unpacks only files and folders, stored or deflated, to memory. Drops times, owners, permissions
//! and comments. Refuses everything else, such as encryption and zip64.

#[cfg(test)]
pub(crate) mod tests;

use anyhow::{Context as _, bail, ensure};
use flate2::{Crc, Decompress, FlushDecompress, Status};

use crate::layer::{MAX_ENTRIES, max_decompressed_size};
use crate::quote::quote;
use crate::skill_files::{SkillFiles, SkillFilesBuilder};

/// The first bytes of an archive: the signature of the header before a file.
pub(crate) const HEADER: &[u8] = b"PK\x03\x04";

/// The signature of a file in the list.
const LISTED: &[u8] = b"PK\x01\x02";

/// The signature of the end record.
const END: &[u8] = b"PK\x05\x06";

/// The signature of a data descriptor: the checksum and the sizes after a file. Some programs leave
/// the signature out.
const DATA_DESCRIPTOR: &[u8] = b"PK\x07\x08";

/// The number of bytes of the end record, without its comment.
const END_BYTES: usize = 22;

/// The signature of an end record of zip64.
const ZIP64_END: &[u8] = b"PK\x06\x06";

/// The signature of the record that locates an end record of zip64, and the record's bytes.
const ZIP64_LOCATOR: &[u8] = b"PK\x06\x07";
const ZIP64_LOCATOR_BYTES: usize = 20;

/// The signatures of the records that lead programs to a list.
const ENDS: [&[u8]; 3] = [END, ZIP64_END, ZIP64_LOCATOR];

/// The number of bytes at the end in which unzipper takes the first end record.
const FIRST_END_BYTES: usize = 80;

/// The maximum size of the extra fields before a file, in bytes. Programs write at most 36. A list
/// and an end record have 76.
const MAX_EXTRA: u16 = 64;

/// A flag: the file has a data descriptor.
const HAS_DATA_DESCRIPTOR: u16 = 1 << 3;

/// A flag: the name is UTF-8.
const IS_UTF8: u16 = 1 << 11;

/// The known flags. Bits 1 and 2 are the level of compression.
const KNOWN_FLAGS: u16 = HAS_DATA_DESCRIPTOR | IS_UTF8 | 0b110;

/// The method of a file that is not compressed.
const STORED: u16 = 0;

/// The method of a compressed file.
const DEFLATED: u16 = 8;

/// The extra fields that change neither a name nor bytes: times and owners, and the mark of a JAR.
const DROPPED: [u16; 6] = [0x000a, 0x5455, 0x5855, 0x7855, 0x7875, 0xcafe];

/// The bits of a mode that have the file's type, and the types of files and folders.
const TYPE: u32 = 0o170_000;
const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

/// The DOS attribute of a folder, and those of a disk's name, a device and a link.
const DOS_FOLDER: u32 = 0x10;
const DOS_OTHER: u32 = 0x08 | 0x40 | 0x400;

/// Unpacks the files of a skill.
///
/// # Errors
///
/// If the archive has anything but files and folders, can be read in two ways, is too large or
/// damaged, or has a name that [`SkillFilesBuilder::add`] refuses.
pub(crate) fn unpack(archive: &[u8]) -> anyhow::Result<SkillFiles> {
    read_archive(archive).context("cannot unpack the archive of the skill")
}

fn read_archive(archive: &[u8]) -> anyhow::Result<SkillFiles> {
    let Parts {
        count,
        mut entries,
        mut list,
    } = split(archive)?;
    let start = entries.0.len();
    let mut bytes_left = max_decompressed_size(archive.len());
    let mut files = SkillFilesBuilder::default();
    for _ in 0..count {
        let listed = Listed::read(&mut list)?;
        let shown = quote(&String::from_utf8_lossy(listed.entry.name));
        ensure!(
            listed.offset as usize == start - entries.0.len(),
            "`{shown}` does not follow the file before it in the list"
        );
        let size = u64::from(listed.entry.sizes.unpacked);
        bytes_left = bytes_left.checked_sub(size).with_context(|| {
            let bytes = archive.len();
            format!("the archive of {bytes} bytes unpacks to too many bytes, with `{shown}`")
        })?;
        let read = read_file(&listed, &mut entries);
        let bytes = read.with_context(|| format!("cannot unpack `{shown}`"))?;
        match listed.entry.name.strip_suffix(b"/") {
            None => files.add(listed.entry.name, size, &*bytes)?,
            Some(name) => {
                ensure!(bytes.is_empty(), "the folder `{shown}` has {size} bytes");
                files.add_folder(name)?;
            }
        }
    }
    ensure!(
        entries.0.is_empty() && list.0.is_empty(),
        "it has bytes or files that its list does not name"
    );
    files.build()
}

/// The parts of an archive before its end record.
struct Parts<'a> {
    count: u16,
    entries: Fields<'a>,
    list: Fields<'a>,
}

/// Splits an archive by its end record, which ends with the archive.
fn split(archive: &[u8]) -> anyhow::Result<Parts<'_>> {
    let last = archive.len().checked_sub(END_BYTES);
    let last = last.context("it has no end")?;
    let first = last.saturating_sub(u16::MAX.into());
    // Other programs read another list if they find a locator. Some, such as minizip, search all of
    // these bytes, which can be in a file.
    let searched = first.saturating_sub(ZIP64_LOCATOR_BYTES);
    let mut parts = archive[searched..].windows(ZIP64_LOCATOR.len());
    ensure!(
        !parts.any(|part| part == ZIP64_LOCATOR),
        "it has an end record of zip64"
    );
    let end = (first..=last).rfind(|at| archive[*at..].starts_with(END));
    let (before, record) = archive.split_at(end.context("it has no end")?);
    let mut record = Fields(&record[END.len()..]);
    let (disk, list_disk) = (record.u16()?, record.u16()?);
    let (on_disk, count) = (record.u16()?, record.u16()?);
    let (size, offset) = (record.u32()? as usize, record.u32()? as usize);
    let comment = record.u16()?;
    ensure!(
        record.0.len() == usize::from(comment),
        "it has bytes after its end"
    );
    ensure!(
        (disk, list_disk, on_disk) == (0, 0, count),
        "it is a part of an archive"
    );
    ensure!(
        usize::from(count) <= MAX_ENTRIES,
        "it has more than {MAX_ENTRIES} entries"
    );
    ensure!(
        offset.checked_add(size) == Some(before.len()),
        "its list of files is not before its end"
    );
    // Some programs take another end record, in a comment of the archive or of the list: unzipper
    // the first of its last bytes, and adm-zip one of zip64 without a locator.
    let searched = offset.min(archive.len().saturating_sub(FIRST_END_BYTES));
    let parts = archive[searched..].windows(END.len());
    let ends = parts.filter(|part| ENDS.contains(part));
    ensure!(ends.count() == 1, "it has a second end record");
    let (entries, list) = before.split_at(offset);
    Ok(Parts {
        count,
        entries: Fields(entries),
        list: Fields(list),
    })
}

/// The checksum of a file, and its sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    checksum: u32,
    packed: u32,
    unpacked: u32,
}

impl Sizes {
    const UNKNOWN: Self = Self {
        checksum: 0,
        packed: 0,
        unpacked: 0,
    };

    fn read(fields: &mut Fields<'_>) -> anyhow::Result<Self> {
        Ok(Self {
            checksum: fields.u32()?,
            packed: fields.u32()?,
            unpacked: fields.u32()?,
        })
    }
}

/// The fields that a file's header and the list both have. If they differ, libzip reads the list of
/// another archive that is a file of this one.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    /// The version of zip that can unpack the file.
    version: u16,
    flags: u16,
    method: u16,
    time: u32,
    sizes: Sizes,
    name: &'a [u8],
}

/// A file in the list.
struct Listed<'a> {
    entry: Entry<'a>,
    /// The position of its header.
    offset: u32,
}

impl<'a> Listed<'a> {
    /// Reads and checks the next file of the list.
    fn read(list: &mut Fields<'a>) -> anyhow::Result<Self> {
        ensure!(list.take(4)? == LISTED, "its list of files is malformed");
        let (_packed_by, version) = (list.u16()?, list.u16()?);
        let (flags, method, time, sizes) =
            (list.u16()?, list.u16()?, list.u32()?, Sizes::read(list)?);
        let [name, extra, comment] = [list.u16()?, list.u16()?, list.u16()?];
        let (disk, _internal, attributes, offset) =
            (list.u16()?, list.u16()?, list.u32()?, list.u32()?);
        let (name, extra) = (list.take(name)?, list.take(extra)?);
        let comment = list.take(comment)?;
        let entry = Entry {
            version,
            flags,
            method,
            time,
            sizes,
            name,
        };
        let shown = quote(&String::from_utf8_lossy(name));
        ensure!(disk == 0, "`{shown}` is in another part of the archive");
        ensure!(
            flags & !KNOWN_FLAGS == 0,
            "`{shown}` is encrypted, or has unknown flags: {flags:#x}"
        );
        // Programs disagree about the encoding of non-ASCII names without the flag.
        ensure!(
            flags & IS_UTF8 != 0 || name.is_ascii(),
            "the name `{shown}` is not marked as UTF-8"
        );
        // libzip skips a list with another comment, and reads that of an archive within this one.
        ensure!(
            comment.iter().all(|c| matches!(c, b' '..=b'~')),
            "the comment of `{shown}` has characters other than printable ASCII"
        );
        let is_folder = name.ends_with(b"/");
        let kind = attributes >> 16 & TYPE;
        let has_right_type = kind == 0 || kind == if is_folder { FOLDER } else { FILE };
        let is_folder_in_dos = attributes & DOS_FOLDER != 0;
        ensure!(
            has_right_type && (is_folder || !is_folder_in_dos) && attributes & DOS_OTHER == 0,
            "`{shown}` is not a file or a folder: it has the attributes {attributes:#x}"
        );
        let checked = check_extra(extra);
        checked.with_context(|| format!("cannot unpack `{shown}`"))?;
        Ok(Self { entry, offset })
    }
}

/// Reads the next file, which must be the one that the list names. Returns its bytes.
fn read_file(listed: &Listed<'_>, entries: &mut Fields<'_>) -> anyhow::Result<Vec<u8>> {
    ensure!(entries.take(4)? == HEADER, "it is not where the list says");
    let version = entries.u16()?;
    let (flags, method, time) = (entries.u16()?, entries.u16()?, entries.u32()?);
    let mut sizes = Sizes::read(entries)?;
    let [name, extra] = [entries.u16()?, entries.u16()?];
    let name = entries.take(name)?;
    // libzip prefers a list in it to the real one, if it has more bytes.
    ensure!(
        extra <= MAX_EXTRA,
        "it has extra fields of more than {MAX_EXTRA} bytes"
    );
    check_extra(entries.take(extra)?)?;
    let packed = entries.take(listed.entry.sizes.packed)?;
    if flags & HAS_DATA_DESCRIPTOR != 0 {
        // A program that reads from the start could not find the end of a stored file.
        ensure!(
            sizes == Sizes::UNKNOWN && method == DEFLATED,
            "its size is given before and after it, or only after it although it is not compressed"
        );
        if let Some(rest) = entries.0.strip_prefix(DATA_DESCRIPTOR) {
            *entries = Fields(rest);
        }
        sizes = Sizes::read(entries)?;
    }
    let found = Entry {
        version,
        flags,
        method,
        time,
        sizes,
        name,
    };
    ensure!(
        found == listed.entry,
        "the list has another name, size, checksum, time or version for it"
    );
    let bytes = match method {
        STORED => packed.to_vec(),
        DEFLATED => inflate(packed, sizes.unpacked)?,
        method => bail!("it is packed with the method {method}"),
    };
    let mut checksum = Crc::new();
    checksum.update(&bytes);
    ensure!(
        bytes.len() == sizes.unpacked as usize && checksum.sum() == sizes.checksum,
        "its bytes do not have the size and checksum that they should have"
    );
    Ok(bytes)
}

/// Decompresses all of `packed`, to at most one byte more than `size`.
fn inflate(packed: &[u8], size: u32) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size as usize + 1);
    let mut decoder = Decompress::new(false);
    let end = decoder.decompress_vec(packed, &mut bytes, FlushDecompress::Finish);
    ensure!(
        matches!(end, Ok(Status::StreamEnd)) && decoder.total_in() == packed.len() as u64,
        "it is damaged, or has another size"
    );
    Ok(bytes)
}

/// Checks that no extra field changes a name, a size or a type.
fn check_extra(extra: &[u8]) -> anyhow::Result<()> {
    let mut fields = Fields(extra);
    while !fields.0.is_empty() {
        let (kind, length) = (fields.u16()?, fields.u16()?);
        fields.take(length)?;
        ensure!(
            DROPPED.contains(&kind),
            "it has the extra field {kind:#06x}"
        );
    }
    Ok(())
}

/// The bytes that are left to read, as fields.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: impl TryInto<usize>) -> anyhow::Result<&'a [u8]> {
        let count = count.try_into().ok();
        let split = count.and_then(|count| self.0.split_at_checked(count));
        let (taken, rest) = split.context("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> anyhow::Result<u16> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into()?))
    }

    fn u32(&mut self) -> anyhow::Result<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into()?))
    }
}
