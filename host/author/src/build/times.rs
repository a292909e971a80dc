//! Records and shows the durations of the parts of a build.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use skillhost::Line;

use skillhost_program::terminal::format_line;

/// The minimum duration of a listed part.
const MIN_LISTED: Duration = Duration::from_millis(200);

thread_local! {
    static PARTS: RefCell<Vec<(String, Duration)>> = const { RefCell::new(Vec::new()) };
}

/// Records that a part took from `start` until now.
pub(crate) fn record(name: &str, start: Instant) {
    let time = start.elapsed();
    PARTS.with_borrow_mut(|parts| parts.push((name.to_owned(), time)));
}

/// Removes the recorded parts. Returns a line with the time since `start` and the long parts.
pub(crate) fn take_summary(start: Instant) -> Line {
    let parts = PARTS.take();
    let long = parts.iter().filter(|(_, time)| *time >= MIN_LISTED);
    let listed: Vec<String> = long
        .map(|(name, time)| format!("{name} {:.1} s", time.as_secs_f64()))
        .collect();
    let total = start.elapsed().as_secs_f64();
    if listed.is_empty() {
        format_line!("took {total:.1} s")
    } else {
        format_line!("took {total:.1} s: {}", listed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_only_long_parts() {
        let now = Instant::now();
        let Some(earlier) = now.checked_sub(Duration::from_secs(3)) else {
            return;
        };
        record("compiling", earlier);
        record("reading", now);
        let line = format!("{}", take_summary(earlier));
        assert!(
            line.starts_with("took 3.") && line.ends_with(": compiling 3.0 s"),
            "{line}"
        );
        assert!(!format!("{}", take_summary(earlier)).contains("compiling"));
    }
}
