//! A guest that runs a script of file operations, one on each line. `script` describes them.

mod script;

use script::{Code, FileSystem, Status};
use skillhost_guest::bindings::answer;
use skillhost_guest::{Access, Failure, Output, Tool};
use wasip2::cli::environment;
use wasip2::clocks::wall_clock::Datetime;
use wasip2::filesystem::preopens;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, ErrorCode, NewTimestamp,
    OpenFlags, PathFlags, filesystem_error_code,
};
use wasip2::io::streams::StreamError;

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of a skill
        #[serde(rename = "skill_name")]
        _skill_name: String,
        /// Operations, one a line
        script: String,
        /// A file whose text is the answer; else the answer is what came of each line
        answer: Option<String>,
    }
}

skillhost_guest::export_tools!(
    Tool::new("scripted_run", "Run a script.", run).in_skill("skill_name"),
    Tool::new(
        "scripted_mounts",
        "Name the folders and the current one.",
        mounts
    )
    .in_skill("skill_name"),
);

fn run(call: Arguments, _: Access) -> Result<Output, Failure> {
    let told = script::run(&call.script, &mut Wasi);
    match &call.answer {
        None => Ok(Output::text(told)),
        Some(path) => match answer::text_from_file(path, 1 << 20) {
            Ok(_) => Ok(Output::text("")),
            Err(unusable) => Err(Failure::refused(unusable.name())),
        },
    }
}

fn mounts(_: Arguments, _: Access) -> Result<Output, Failure> {
    let mounts = preopens::get_directories().into_iter();
    let mut mounts: Vec<String> = mounts.map(|(_, mount)| mount).collect();
    mounts.push(format!(
        "in {}",
        environment::initial_cwd().unwrap_or_default()
    ));
    Ok(Output::text(mounts.join("\n")))
}

struct Wasi;

fn code(error: ErrorCode) -> Code {
    error.name()
}

fn failed(error: StreamError) -> Code {
    match error {
        StreamError::Closed => "closed",
        StreamError::LastOperationFailed(error) => {
            filesystem_error_code(&error).map_or("unknown", code)
        }
    }
}

fn path_flags(follow: bool) -> PathFlags {
    match follow {
        true => PathFlags::SYMLINK_FOLLOW,
        false => PathFlags::empty(),
    }
}

fn kind(kind: DescriptorType) -> char {
    match kind {
        DescriptorType::RegularFile => 'f',
        DescriptorType::Directory => 'd',
        DescriptorType::SymbolicLink => 'l',
        _ => '?',
    }
}

fn status(stat: DescriptorStat) -> Status {
    Status {
        kind: kind(stat.type_),
        links: stat.link_count,
        size: stat.size,
        modified: stat
            .data_modification_timestamp
            .map_or(0, |time| time.seconds),
    }
}

fn timestamp(seconds: Option<u64>) -> NewTimestamp {
    seconds.map_or(NewTimestamp::NoChange, |seconds| {
        NewTimestamp::Timestamp(Datetime {
            seconds,
            nanoseconds: 0,
        })
    })
}

impl FileSystem for Wasi {
    type Handle = Descriptor;

    fn top(&mut self, index: usize) -> Option<Descriptor> {
        let mut tops = preopens::get_directories().into_iter();
        tops.nth(index).map(|(top, _)| top)
    }

    fn open(&mut self, base: &Descriptor, path: &str, flags: &str) -> Result<Descriptor, Code> {
        let mut open = OpenFlags::empty();
        for (letter, flag) in [
            ('c', OpenFlags::CREATE),
            ('x', OpenFlags::EXCLUSIVE),
            ('t', OpenFlags::TRUNCATE),
            ('d', OpenFlags::DIRECTORY),
        ] {
            open.set(flag, flags.contains(letter));
        }
        let mut rights = DescriptorFlags::empty();
        rights.set(DescriptorFlags::READ, flags.contains('r'));
        rights.set(DescriptorFlags::WRITE, flags.contains('w'));
        let follow = path_flags(flags.contains('f'));
        base.open_at(follow, path, open, rights).map_err(code)
    }

    fn read(&mut self, file: &Descriptor, length: u64, offset: u64) -> Result<Vec<u8>, Code> {
        let (bytes, _) = file.read(length, offset).map_err(code)?;
        Ok(bytes)
    }

    fn read_stream(
        &mut self,
        file: &Descriptor,
        length: u64,
        offset: u64,
    ) -> Result<Vec<u8>, Code> {
        let stream = file.read_via_stream(offset).map_err(code)?;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            match stream.blocking_read(length - bytes.len() as u64) {
                Ok(more) => bytes.extend(more),
                Err(StreamError::Closed) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(bytes)
    }

    fn write(&mut self, file: &Descriptor, bytes: &[u8], offset: u64) -> Result<(), Code> {
        let written = file.write(bytes, offset).map_err(code)?;
        if written == bytes.len() as u64 {
            Ok(())
        } else {
            Err("short")
        }
    }

    fn write_stream(
        &mut self,
        file: &Descriptor,
        bytes: &[u8],
        offset: Option<u64>,
    ) -> Result<(), Code> {
        let stream = match offset {
            Some(offset) => file.write_via_stream(offset),
            None => file.append_via_stream(),
        };
        let stream = stream.map_err(code)?;
        for piece in bytes.chunks(4096) {
            stream.blocking_write_and_flush(piece).map_err(failed)?;
        }
        Ok(())
    }

    fn set_size(&mut self, file: &Descriptor, size: u64) -> Result<(), Code> {
        file.set_size(size).map_err(code)
    }

    fn status(&mut self, file: &Descriptor) -> Result<Status, Code> {
        file.stat().map(status).map_err(code)
    }

    fn status_at(&mut self, base: &Descriptor, path: &str, follow: bool) -> Result<Status, Code> {
        base.stat_at(path_flags(follow), path)
            .map(status)
            .map_err(code)
    }

    fn list(&mut self, folder: &Descriptor) -> Result<Vec<(String, char)>, Code> {
        let entries = folder.read_directory().map_err(code)?;
        let mut names = Vec::new();
        while let Some(entry) = entries.read_directory_entry().map_err(code)? {
            names.push((entry.name, kind(entry.type_)));
        }
        Ok(names)
    }

    fn make_folder(&mut self, base: &Descriptor, path: &str) -> Result<(), Code> {
        base.create_directory_at(path).map_err(code)
    }

    fn remove_folder(&mut self, base: &Descriptor, path: &str) -> Result<(), Code> {
        base.remove_directory_at(path).map_err(code)
    }

    fn remove_file(&mut self, base: &Descriptor, path: &str) -> Result<(), Code> {
        base.unlink_file_at(path).map_err(code)
    }

    fn rename(
        &mut self,
        base: &Descriptor,
        path: &str,
        new_base: &Descriptor,
        new_path: &str,
    ) -> Result<(), Code> {
        base.rename_at(path, new_base, new_path).map_err(code)
    }

    fn make_link(&mut self, base: &Descriptor, path: &str, target: &str) -> Result<(), Code> {
        base.symlink_at(target, path).map_err(code)
    }

    fn add_name(
        &mut self,
        base: &Descriptor,
        path: &str,
        follow: bool,
        new_base: &Descriptor,
        new_path: &str,
    ) -> Result<(), Code> {
        let linked = base.link_at(path_flags(follow), path, new_base, new_path);
        linked.map_err(code)
    }

    fn read_link(&mut self, base: &Descriptor, path: &str) -> Result<String, Code> {
        base.readlink_at(path).map_err(code)
    }

    fn set_times(
        &mut self,
        file: &Descriptor,
        accessed: Option<u64>,
        modified: Option<u64>,
    ) -> Result<(), Code> {
        let set = file.set_times(timestamp(accessed), timestamp(modified));
        set.map_err(code)
    }

    fn set_times_at(
        &mut self,
        base: &Descriptor,
        path: &str,
        follow: bool,
        accessed: Option<u64>,
        modified: Option<u64>,
    ) -> Result<(), Code> {
        let (accessed, modified) = (timestamp(accessed), timestamp(modified));
        let set = base.set_times_at(path_flags(follow), path, accessed, modified);
        set.map_err(code)
    }

    fn is_same(&mut self, one: &Descriptor, other: &Descriptor) -> Result<bool, Code> {
        Ok(one.is_same_object(other))
    }

    fn lies_at(
        &mut self,
        file: &Descriptor,
        base: &Descriptor,
        path: &str,
        follow: bool,
    ) -> Result<bool, Code> {
        let of_file = file.metadata_hash().map_err(code)?;
        let of_path = base
            .metadata_hash_at(path_flags(follow), path)
            .map_err(code)?;
        Ok((of_file.lower, of_file.upper) == (of_path.lower, of_path.upper))
    }
}
