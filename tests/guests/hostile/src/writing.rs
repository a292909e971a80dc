//! Attacks that try to change files and folders.

use skillhost_guest::Failure;
use wasip2::filesystem::types::{DescriptorFlags, NewTimestamp, OpenFlags, PathFlags};

use crate::{Arguments, Attack, done, open, open_with, refused, root};

fn open_to(call: &Arguments, open: OpenFlags, flags: DescriptorFlags) -> Attack {
    open_with(call.path(), open, flags)?;
    done()
}

pub(crate) fn create(call: &Arguments) -> Attack {
    open_to(call, OpenFlags::CREATE, DescriptorFlags::READ)
}

pub(crate) fn create_exclusively(call: &Arguments) -> Attack {
    let flags = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
    open_to(call, flags, DescriptorFlags::WRITE)
}

pub(crate) fn truncate(call: &Arguments) -> Attack {
    open_to(call, OpenFlags::TRUNCATE, DescriptorFlags::READ)
}

pub(crate) fn open_for_writing(call: &Arguments) -> Attack {
    let flags = DescriptorFlags::READ | DescriptorFlags::WRITE;
    open_to(call, OpenFlags::empty(), flags)
}

pub(crate) fn open_for_changing(call: &Arguments) -> Attack {
    let flags = DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY;
    open_to(call, OpenFlags::DIRECTORY, flags)
}

pub(crate) fn write(call: &Arguments) -> Attack {
    open(call.path())?.write(b"hostile", 0).map_err(refused)?;
    done()
}

pub(crate) fn write_through_stream(call: &Arguments) -> Attack {
    open(call.path())?.write_via_stream(0).map_err(refused)?;
    done()
}

pub(crate) fn append_through_stream(call: &Arguments) -> Attack {
    open(call.path())?.append_via_stream().map_err(refused)?;
    done()
}

pub(crate) fn set_size(call: &Arguments) -> Attack {
    open(call.path())?.set_size(0).map_err(refused)?;
    done()
}

pub(crate) fn set_times(call: &Arguments) -> Attack {
    let file = open(call.path())?;
    file.set_times(NewTimestamp::Now, NewTimestamp::Now)
        .map_err(refused)?;
    done()
}

pub(crate) fn set_times_at(call: &Arguments) -> Attack {
    let (flags, now) = (PathFlags::SYMLINK_FOLLOW, NewTimestamp::Now);
    root()?
        .set_times_at(flags, call.path(), now, now)
        .map_err(refused)?;
    done()
}

pub(crate) fn rename(call: &Arguments) -> Attack {
    let root = root()?;
    root.rename_at(call.path(), &root, "renamed")
        .map_err(refused)?;
    done()
}

pub(crate) fn link(call: &Arguments) -> Attack {
    let root = root()?;
    root.link_at(PathFlags::empty(), call.path(), &root, "linked")
        .map_err(refused)?;
    done()
}

pub(crate) fn symlink(_: &Arguments) -> Attack {
    root()?
        .symlink_at("../../outside", "made")
        .map_err(refused)?;
    done()
}

pub(crate) fn unlink(call: &Arguments) -> Attack {
    root()?.unlink_file_at(call.path()).map_err(refused)?;
    done()
}

pub(crate) fn make_folder(_: &Arguments) -> Attack {
    root()?.create_directory_at("made").map_err(refused)?;
    done()
}

pub(crate) fn remove_folder(_: &Arguments) -> Attack {
    root()?.remove_directory_at("docs").map_err(refused)?;
    done()
}

pub(crate) fn sync(call: &Arguments) -> Attack {
    let file = open(call.path())?;
    file.sync().and(file.sync_data()).map_err(refused)?;
    done()
}

pub(crate) fn write_by_std(call: &Arguments) -> Attack {
    let path = format!("/skills/a/{}", call.path());
    std::fs::write(path, "hostile")
        .map_err(|error| Failure::refused(format!("{:?}", error.kind())))?;
    done()
}
