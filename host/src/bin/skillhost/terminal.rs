//! Writing to the terminal: a stranger's text is escaped before a person sees
//! it, and a reader that goes away is no error.

use std::io::{self, IsTerminal as _, Write as _};

/// Says on stderr what is wrong.
pub(crate) fn complain(message: &str) {
    // One message, one line: none can pass for another.
    let message = escape(message).replace('\n', "\\n");
    let _ = writeln!(io::stderr(), "skillhost: {message}");
}

/// Shows a line on stderr.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", escape(line));
}

/// Writes to stdout. Text that goes to a terminal is escaped; a program gets
/// it as it is. A pipe that was closed ends the writing quietly.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_or_end(text).map(drop)
}

/// Like [`print`]; `false` if nobody reads any more.
pub(crate) fn print_or_end(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    let written = if out.is_terminal() {
        out.write_all(escape(text).as_bytes())
    } else {
        out.write_all(text.as_bytes())
    };
    match written.and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow::Error::from(error).context("cannot write to stdout")),
    }
}

/// Like [`print`], with a line end after a text that has none on a terminal,
/// so that the prompt stands on a line of its own.
pub(crate) fn print_answer(text: &str) -> anyhow::Result<()> {
    print(text)?;
    if io::stdout().is_terminal() && !text.ends_with('\n') {
        print("\n")?;
    }
    Ok(())
}

/// Control characters made visible, but for line feeds and tabs: an escape
/// sequence in a file must not move anyone's cursor. Direction overrides are
/// made visible too.
pub(crate) fn escape(text: &str) -> String {
    let hidden = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let text = text.replace("\r\n", "\n");
    if !text.contains(hidden) {
        return text;
    }
    text.chars()
        .map(|c| {
            if hidden(c) {
                c.escape_unicode().to_string()
            } else {
                c.to_string()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_move_a_cursor_is_made_visible() {
        for (text, shown) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("a\r\nb", "a\nb"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\rb\u{7}\u{9b}", "a\\u{d}b\\u{7}\\u{9b}"),
            ("x\u{202e}y", "x\\u{202e}y"),
        ] {
            assert_eq!(escape(text), shown);
        }
    }
}
