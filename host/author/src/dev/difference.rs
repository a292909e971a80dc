//! Describes the differences between two builds, in lines for people.

use skillhost::{Definition, Line};

use skillhost_program::terminal::format_line;

/// Describes the size of a component, and how it changed since the last build.
///
/// `before` is 0 for the first build.
pub(super) fn size(before: usize, now: usize) -> String {
    match before {
        0 => format!("{now} bytes"),
        before if before == now => format!("{now} bytes, as before"),
        before if before < now => format!("{now} bytes, {} more", now - before),
        before => format!("{now} bytes, {} less", before - now),
    }
}

/// Lists new, removed and changed tools, one line each.
pub(super) fn tools(before: &[Definition], now: &[Definition]) -> Vec<Line> {
    let mut lines = Vec::new();
    for tool in now {
        let Some(old) = before.iter().find(|old| old.name == tool.name) else {
            lines.push(format_line!("  tool `{}`: new", tool.name));
            continue;
        };
        let parts = [
            (old.title != tool.title, "title"),
            (old.description != tool.description, "description"),
            (old.input_schema != tool.input_schema, "arguments"),
            (old.output_schema != tool.output_schema, "output schema"),
            (old.folder != tool.folder, "folder"),
        ];
        let changed: Vec<&str> = parts
            .iter()
            .filter(|(is_changed, _)| *is_changed)
            .map(|(_, part)| *part)
            .collect();
        if !changed.is_empty() {
            lines.push(format_line!(
                "  tool `{}`: changed {}",
                tool.name,
                changed.join(", ")
            ));
        }
    }
    for tool in before {
        if !now.iter().any(|new| new.name == tool.name) {
            lines.push(format_line!("  tool `{}`: gone", tool.name));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_change_of_size() {
        for (before, now, shown) in [
            (0, 5, "5 bytes"),
            (5, 5, "5 bytes, as before"),
            (5, 7, "7 bytes, 2 more"),
            (7, 5, "5 bytes, 2 less"),
        ] {
            assert_eq!(size(before, now), shown);
        }
    }
}
