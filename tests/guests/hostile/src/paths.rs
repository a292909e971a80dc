//! Paths that cost the host much work.

use skillhost_guest::Output;
use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};

use crate::{Arguments, Attack, done, open, refused, root};

/// Returns `docs/../docs/../…`, which never leaves the skill.
fn yo_yo(call: &Arguments) -> String {
    let mut path = "docs/../".repeat(call.size());
    path.push_str(call.path());
    path
}

pub(crate) fn long(call: &Arguments) -> Attack {
    open(&"x".repeat(call.size()))?;
    done()
}

pub(crate) fn many_steps(call: &Arguments) -> Attack {
    let path = "x/".repeat(call.size());
    root()?
        .stat_at(PathFlags::SYMLINK_FOLLOW, &path)
        .map_err(refused)?;
    done()
}

/// Opens the folder with the given name, then the folder with that name in it, as deep as possible.
pub(crate) fn descend(call: &Arguments) -> Attack {
    let (mut folder, mut depth) = (root()?, 0);
    let flags = (OpenFlags::DIRECTORY, DescriptorFlags::READ);
    while let Ok(below) = folder.open_at(PathFlags::empty(), call.path(), flags.0, flags.1) {
        folder = below;
        depth += 1;
    }
    Ok(Output::text(format!("went down {depth}")))
}

pub(crate) fn down_and_up(call: &Arguments) -> Attack {
    open(&yo_yo(call))?;
    done()
}

pub(crate) fn stat_down_and_up(call: &Arguments) -> Attack {
    let flags = PathFlags::empty();
    root()?.stat_at(flags, &yo_yo(call)).map_err(refused)?;
    done()
}

pub(crate) fn readlink_down_and_up(call: &Arguments) -> Attack {
    let target = root()?.readlink_at(&yo_yo(call)).map_err(refused)?;
    Ok(Output::text(target))
}
