//! How long the parts of a build take, for authors who wait.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use skillhost::Line;

use skillhost_program::terminal::format_line;

/// A part that is shorter is not listed.
const SHORTEST: Duration = Duration::from_millis(200);

thread_local! {
    static PARTS: RefCell<Vec<(String, Duration)>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a part took from `start` until now.
pub(crate) fn note(name: &str, start: Instant) {
    let time = start.elapsed();
    PARTS.with_borrow_mut(|parts| parts.push((name.to_owned(), time)));
}

/// Takes the parts that were noted, in a line about all the time from `start` until now.
pub(crate) fn take(start: Instant) -> Line {
    let parts = PARTS.take();
    let long = parts.iter().filter(|(_, time)| *time >= SHORTEST);
    let shown: Vec<String> = long
        .map(|(name, time)| format!("{name} {:.1} s", time.as_secs_f64()))
        .collect();
    let all = start.elapsed().as_secs_f64();
    match shown.is_empty() {
        true => format_line!("took {all:.1} s"),
        false => format_line!("took {all:.1} s: {}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_the_parts_that_take_long() {
        let now = Instant::now();
        let Some(earlier) = now.checked_sub(Duration::from_secs(3)) else {
            return;
        };
        note("compiling", earlier);
        note("reading", now);
        let line = format!("{}", take(earlier));
        assert!(
            line.starts_with("took 3.") && line.ends_with(": compiling 3.0 s"),
            "{line}"
        );
        assert!(!format!("{}", take(earlier)).contains("compiling"));
    }
}
