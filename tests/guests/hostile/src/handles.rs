//! Handles that this call was not given.

use skillhost_guest::{Failure, Output};
use wasip2::filesystem::types::Descriptor;
use wasip2::io::streams::InputStream;

use crate::{Arguments, Attack, done, open, refused, root};

/// Returns a handle with this number, whatever it refers to.
fn guessed(call: &Arguments) -> Descriptor {
    // SAFETY: a handle is only a number, which the host must check. This attack tests
    // that it does.
    unsafe { Descriptor::from_handle(call.number() as u32) }
}

pub(crate) fn guess_file(call: &Arguments) -> Attack {
    let file = guessed(call);
    let (bytes, _) = file.read(1 << 20, 0).map_err(refused)?;
    Ok(Output::text(String::from_utf8_lossy(&bytes)))
}

pub(crate) fn guess_listing(call: &Arguments) -> Attack {
    // Opens another handle, which the guess may find.
    let _own = root()?;
    let entries = guessed(call).read_directory().map_err(refused)?;
    let mut names = Vec::new();
    while let Some(entry) = entries.read_directory_entry().map_err(refused)? {
        names.push(entry.name);
    }
    Ok(Output::text(names.join("\n")))
}

pub(crate) fn guess_stream(call: &Arguments) -> Attack {
    let _own = root()?;
    // SAFETY: as above.
    let stream = unsafe { InputStream::from_handle(call.number() as u32) };
    let bytes = stream
        .read(1 << 20)
        .map_err(|error| Failure::refused(format!("{error:?}")))?;
    Ok(Output::text(String::from_utf8_lossy(&bytes)))
}

pub(crate) fn guess_drop(call: &Arguments) -> Attack {
    drop(guessed(call));
    done()
}

pub(crate) fn use_after_drop(call: &Arguments) -> Attack {
    let file = open(call.path())?;
    // SAFETY: as above.
    drop(unsafe { Descriptor::from_handle(file.handle()) });
    let (bytes, _) = file.read(1 << 20, 0).map_err(refused)?;
    Ok(Output::text(String::from_utf8_lossy(&bytes)))
}
