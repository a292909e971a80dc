//! The log on stderr: one line per event, even if the text of the event contains line breaks.

use std::fmt;

use tracing::{Event, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::terminal;

/// Starts the log.
pub fn start(level: LevelFilter) {
    // rmcp warns about each refused request and each client that disconnects. Both are normal.
    let rmcp_level = match level {
        LevelFilter::INFO => LevelFilter::WARN,
        LevelFilter::DEBUG | LevelFilter::TRACE => level,
        _ => LevelFilter::OFF,
    };
    let filter = Targets::new()
        .with_default(level)
        .with_target("rmcp", rmcp_level);
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(terminal::log)
        // tracing would print its own errors to stderr, and panic if stderr is closed.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .map_event_format(LineFormat)
        .finish()
        .with(filter)
        .init();
}

/// Formats an event as one escaped line, because its text may come from an untrusted source.
struct LineFormat<F>(F);

impl<S, N, F> FormatEvent<S, N> for LineFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = String::new();
        self.0
            .format_event(context, Writer::new(&mut text), event)?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        writeln!(writer, "{}", terminal::shortened(text))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn formats_events_as_bounded_lines() {
        let written = SharedBuffer::default();
        let writer = written.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .map_event_format(LineFormat)
            .finish();
        tracing::subscriber::with_default(log, || {
            tracing::info!("a\nb {}", "\u{200b}".repeat(1 << 20));
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.contains("a\\nb \\u{200b}"), "{text:.100}");
        assert!(
            text.ends_with("…\n") && text.len() < 64 << 10,
            "{}",
            text.len()
        );
    }
}
