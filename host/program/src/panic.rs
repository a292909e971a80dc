//! The message of a panic: one escaped line without a backtrace. Rust's own hook would print the
//! message unescaped, with any text in it that comes from a guest, a skill or a peer.

use std::panic::{self, PanicHookInfo};

use skillhost::Line;

use crate::terminal::{self, format_line};

/// Replaces Rust's panic hook in this process. A panic still ends the process with exit code 101.
pub fn install_hook() {
    panic::set_hook(Box::new(|info| terminal::say(&report(info))));
}

/// The start of tokio's message for a thread that it cannot start.
const NO_THREAD: &str = "OS can't spawn worker thread";

fn report(info: &PanicHookInfo<'_>) -> Line {
    let message = info.payload_as_str().unwrap_or("no message");
    if message.starts_with(NO_THREAD) {
        return format_line!(
            "skillhost: cannot start another thread: raise the limit of processes (`ulimit -u`)"
        );
    }
    let location = info.location().map(ToString::to_string);
    format_line!(
        "skillhost: internal error: {} (at {}); please report it",
        terminal::shortened(message),
        location.as_deref().unwrap_or("an unknown location")
    )
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;

    /// The environment variable that makes the test's child process panic, with its value as the
    /// start of the message.
    const PANIC: &str = "SKILLHOST_TEST_PANIC";

    #[test]
    fn prints_one_escaped_line_and_exits_with_101() {
        if let Some(message) = env::var_os(PANIC) {
            install_hook();
            panic!(
                "{}{}",
                message.to_str().unwrap(),
                "\u{200b}".repeat(1 << 20)
            );
        }
        let panicked = |message| {
            let test = "prints_one_escaped_line_and_exits_with_101";
            let output = Command::new(env::current_exe().unwrap())
                .args(["--exact", &format!("panic::tests::{test}"), "--nocapture"])
                .env(PANIC, message)
                .env("RUST_BACKTRACE", "full")
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(101));
            String::from_utf8(output.stderr).unwrap()
        };
        let no_thread = panicked("OS can't spawn worker thread: Resource temporarily unavailable");
        assert_eq!(
            no_thread,
            "skillhost: cannot start another thread: raise the limit of processes (`ulimit -u`)\n"
        );
        let stderr = panicked("a\nb \u{1b}[31m");
        assert_eq!(stderr.matches('\n').count(), 1, "{stderr:.400}");
        let start = "skillhost: internal error: a\\nb \\u{1b}[31m\\u{200b}";
        assert!(stderr.starts_with(start), "{stderr:.400}");
        assert!(
            stderr.contains("… (at host/program/src/panic.rs:"),
            "{stderr:.400}"
        );
        assert!(stderr.ends_with("; please report it\n"), "{stderr:.400}");
        assert!(stderr.len() < 64 << 10, "{}", stderr.len());
    }
}
