//! Paths that are work.

use skillhost_guest::Output;
use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};

use crate::{Arguments, Attack, done, open, refused, root};

/// `docs/../docs/../…`, which is inside all the way.
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

/// Goes into a folder of this name as often as there is one in the last.
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
