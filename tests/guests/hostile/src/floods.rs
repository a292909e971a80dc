//! Attacks that take as much of one of the host's resources as they can get.

use std::time::Duration;

use skillhost_guest::{Failure, Output};
use wasip2::cli::stdout::get_stdout;
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::filesystem::preopens::get_directories;
use wasip2::io::streams::StreamError;
use wasip2::random::insecure::get_insecure_random_bytes;
use wasip2::random::random::get_random_bytes;

use crate::{Arguments, Attack, open, refused};

/// Acquires resources and releases none, until the host refuses one or a million are acquired.
fn until_refused<T>(one: impl Fn() -> Result<T, Failure>) -> Attack {
    let mut held = Vec::new();
    while held.len() < 1_000_000 {
        held.push(one()?);
    }
    Ok(Output::text(format!("held {}", held.len())))
}

pub(crate) fn files(call: &Arguments) -> Attack {
    until_refused(|| open(call.path()))
}

/// Keeps this many files open, and never ends.
pub(crate) fn hold_files(call: &Arguments) -> Attack {
    let _held = (0..call.number())
        .map(|_| open(call.path()))
        .collect::<Result<Vec<_>, _>>()?;
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

pub(crate) fn folders(_: &Arguments) -> Attack {
    until_refused(|| open("."))
}

pub(crate) fn listings(call: &Arguments) -> Attack {
    let folder = open(call.path())?;
    until_refused(|| folder.read_directory().map_err(refused))
}

pub(crate) fn entries(call: &Arguments) -> Attack {
    let listing = open(call.path())?.read_directory().map_err(refused)?;
    until_refused(|| listing.read_directory_entry().map_err(refused))
}

pub(crate) fn streams(call: &Arguments) -> Attack {
    let file = open(call.path())?;
    until_refused(|| file.read_via_stream(0).map_err(refused))
}

pub(crate) fn timers(_: &Arguments) -> Attack {
    until_refused(|| Ok(subscribe_duration(1)))
}

pub(crate) fn preopens(_: &Arguments) -> Attack {
    until_refused(|| Ok(get_directories()))
}

pub(crate) fn print(call: &Arguments) -> Attack {
    let line = "printed ".repeat(1000);
    for _ in 0..call.number() {
        print!("{line}");
        eprint!("{line}");
    }
    Ok(Output::text("printed"))
}

pub(crate) fn print_escapes(call: &Arguments) -> Attack {
    for _ in 0..call.number() {
        println!("\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{202e}\r\u{8}");
        eprintln!("\u{1b}[2J");
    }
    Ok(Output::text("printed"))
}

fn broken(error: StreamError) -> Failure {
    Failure::refused(match error {
        StreamError::Closed => "closed".to_owned(),
        StreamError::LastOperationFailed(error) => error.to_debug_string(),
    })
}

pub(crate) fn print_unasked(call: &Arguments) -> Attack {
    let bytes = vec![b'x'; call.size()];
    get_stdout().write(&bytes).map_err(broken)?;
    Ok(Output::text("printed"))
}

pub(crate) fn print_zeroes(call: &Arguments) -> Attack {
    get_stdout().write_zeroes(call.number()).map_err(broken)?;
    Ok(Output::text("printed"))
}

pub(crate) fn random(call: &Arguments) -> Attack {
    let bytes = get_random_bytes(call.number());
    Ok(Output::text(format!("{} bytes", bytes.len())))
}

pub(crate) fn insecure_random(call: &Arguments) -> Attack {
    let bytes = get_insecure_random_bytes(call.number());
    Ok(Output::text(format!("{} bytes", bytes.len())))
}

pub(crate) fn random_for_ever(call: &Arguments) -> Attack {
    loop {
        get_random_bytes(call.number());
    }
}

pub(crate) fn read_all(call: &Arguments) -> Attack {
    let (bytes, end) = open(call.path())?.read(u64::MAX, 0).map_err(refused)?;
    Ok(Output::text(format!("{} bytes, end: {end}", bytes.len())))
}

pub(crate) fn read_far(call: &Arguments) -> Attack {
    let file = open(call.path())?;
    let (bytes, end) = file.read(u64::MAX, u64::MAX).map_err(refused)?;
    Ok(Output::text(format!("{} bytes, end: {end}", bytes.len())))
}

pub(crate) fn stream_far(call: &Arguments) -> Attack {
    let file = open(call.path())?;
    let stream = file.read_via_stream(u64::MAX).map_err(refused)?;
    let bytes = stream.read(u64::MAX).map_err(broken)?;
    Ok(Output::text(format!("{} bytes", bytes.len())))
}

pub(crate) fn skip_far(call: &Arguments) -> Attack {
    let file = open(call.path())?;
    let stream = file.read_via_stream(0).map_err(refused)?;
    let mut skipped = 0;
    loop {
        match stream.blocking_skip(u64::MAX) {
            Ok(more) => skipped += more,
            Err(StreamError::Closed) => break,
            Err(error) => return Err(broken(error)),
        }
    }
    let spliced = get_stdout().blocking_splice(&stream, u64::MAX);
    let spliced = spliced.map_err(broken);
    Ok(Output::text(format!(
        "skipped {skipped}, then {:?}",
        spliced.map_err(|failure| failure.message().to_owned())
    )))
}
