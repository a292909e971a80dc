//! Bounds on what a message says of itself: its id, its progress tokens and its `_meta`. The
//! server keeps and repeats the first two, and rmcp reads the last many times. So every
//! transport checks them before it reads a message.

use skillhost::internal::RawJson;

use crate::values;

/// The most bytes of an id or progress token, as it is sent. Guards against: a
/// label as large as a message, which is repeated with every report.
pub const LABEL_BYTES: usize = 1024;

/// The most values in the `_meta` of a message. Guards against: rmcp, which builds them
/// anew for each method that a message could be of.
const META_VALUES: usize = 1000;

/// Returns an error message if a label or the `_meta` of this message is too large.
pub fn excess(message: &[u8]) -> Option<String> {
    // Most messages are shorter than a label may be.
    if message.len() <= LABEL_BYTES {
        return None;
    }
    // Others refuse what is not JSON, or not an object.
    let message = RawJson::new(str::from_utf8(message).ok()?).ok()?;
    excess_in(message, &MESSAGE)
}

/// Returns the first excess in an object. It checks both values of a duplicate key, because
/// another reader decides which one counts.
fn excess_in(object: RawJson<'_>, scope: &LabelScope) -> Option<String> {
    object.members().find_map(|(key, value)| {
        let label = scope.labels.iter().find(|(name, _)| *name == key);
        if let Some((_, what)) = label {
            let is_long = value.get().len() > LABEL_BYTES;
            return is_long.then(|| format!("{what} has {LABEL_BYTES} bytes at most"));
        }
        let (name, below) = scope.below.filter(|(name, _)| *name == key)?;
        match below.values {
            Some(most) if values::count(value.get().as_bytes()) > most => {
                Some(format!("`{name}` has {most} JSON values at most"))
            }
            _ => excess_in(value, below),
        }
    })
}

/// The labels in one object of a message.
struct LabelScope {
    /// The keys of labels, and their names in an error.
    labels: &'static [(&'static str, &'static str)],
    /// The one key below which there are more labels.
    below: Option<(&'static str, &'static LabelScope)>,
    /// The most values, if there is a bound.
    values: Option<usize>,
}

const MESSAGE: LabelScope = LabelScope {
    labels: &[("id", "a request's `id`")],
    below: Some(("params", &PARAMS)),
    values: None,
};

const PARAMS: LabelScope = LabelScope {
    // Labels of notifications; those of requests are in `_meta`.
    labels: &[
        ("requestId", "a `requestId`"),
        ("progressToken", "a `progressToken`"),
    ],
    below: Some(("_meta", &META)),
    values: None,
};

const META: LabelScope = LabelScope {
    labels: &[("progressToken", "a `progressToken`")],
    below: None,
    values: Some(META_VALUES),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_long_labels_and_nothing_else() {
        let fits = format!("\"{}\"", "x".repeat(LABEL_BYTES - 2));
        let long = format!("\"{}\"", "x".repeat(LABEL_BYTES - 1));
        let escaped = format!("\"{}\"", "\\u0061".repeat(200));
        let messages = |label: &str| {
            [
                (
                    format!(r#"{{"jsonrpc":"2.0","id":{label},"method":"ping"}}"#),
                    "`id`",
                ),
                (format!(r#"{{"id":1,"id":{label},"id":2}}"#), "`id`"),
                (format!(r#"{{"\u0069d":{label}}}"#), "`id`"),
                (
                    format!(r#"{{"id":1,"params":{{"_meta":{{"progressToken":{label}}}}}}}"#),
                    "`progressToken`",
                ),
                (
                    format!(r#"{{"params":{{"progressToken":{label}}}}}"#),
                    "`progressToken`",
                ),
                (
                    format!(r#"{{"params":{{"requestId":{label}}}}}"#),
                    "`requestId`",
                ),
                (
                    format!(r#" {{"params":[],"params":{{"requestId":{label}}}}}"#),
                    "`requestId`",
                ),
            ]
        };
        for (message, what) in [&long, &escaped]
            .into_iter()
            .flat_map(|label| messages(label))
        {
            let said = excess(message.as_bytes()).unwrap_or_default();
            assert!(
                said.contains(what) && said.contains("1024"),
                "{message}: {said}"
            );
        }
        for (message, _) in messages(&fits) {
            assert_eq!(excess(message.as_bytes()), None, "{message}");
        }
        for other in [
            format!(
                r#"{{"id":1,"method":"tools/call","params":{{"name":"a","arguments":{{"id":{long}}}}}}}"#
            ),
            format!(r#"{{"params":{{"_meta":{{"id":{long},"requestId":{long}}}}}}}"#),
            format!(r#"[{{"id":{long}}}]"#),
            format!(r#"{{"id":{}"#, &long[..1000]),
            long,
        ] {
            assert_eq!(excess(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn bounds_the_values_of_meta_wherever_it_stands() {
        let list = |values: usize| format!("[{}1]", "1,".repeat(values));
        for (values, fits) in [(META_VALUES - 3, true), (META_VALUES - 2, false)] {
            let meta = format!(r#"{{"a":{}}}"#, list(values));
            for message in [
                format!(r#"{{"id":1,"method":"a","params":{{"_meta":{meta},"name":"a"}}}}"#),
                format!(r#"{{"params":{{"name":"a","_meta":{meta}}},"method":"a","id":1}}"#),
                format!(r#"{{"params":{{}},"params":{{"_meta":{{}},"_meta":{meta}}}}}"#),
            ] {
                assert_eq!(excess(message.as_bytes()).is_none(), fits, "{message:.60}");
            }
        }
        let elsewhere = format!(
            r#"{{"params":{{"name":"a","arguments":{{"_meta":{}}}}}}}"#,
            list(2000)
        );
        assert_eq!(excess(elsewhere.as_bytes()), None);
    }
}
