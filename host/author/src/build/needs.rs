//! Reads `needs.toml` of a project: the requests and secrets that its tools need, which an operator
//! may grant. `sections.rs` writes them into the component.

use skillhost::Needs;

use super::BuildError;
use super::project::{NEEDS_FILE, Project};

/// Reads the needs of a project. A project without the file has none.
pub(super) fn read(project: &Project) -> Result<Needs, BuildError> {
    parse(&project.optional_text(NEEDS_FILE)?)
}

fn parse(text: &str) -> Result<Needs, BuildError> {
    let needs: Needs = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        BuildError::project(format!("`{NEEDS_FILE}`, line {line}: {}", error.message()))
    })?;
    let length = needs.to_json().to_string().len();
    if length > Needs::MAX_BYTES {
        return Err(BuildError::project(format!(
            "`{NEEDS_FILE}` has {length} bytes as JSON; a component may have {} at most",
            Needs::MAX_BYTES
        )));
    }
    Ok(needs)
}

/// Returns the number of the line that contains a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: &str = "\
[[network]]
rule = \"GET https://api.example.org/v1/*\"
why = \"reads forecasts\"

[[network]]
rule = \"https://*.example.org/data/*\"
why = \"reads stations\"

[secrets.WEATHER_TOKEN]
header = \"Authorization\"
hosts = [\"api.example.org\", \"api.example.org:8443\"]
why = \"the service counts requests by key\"
";

    #[test]
    fn reads_rules_and_secrets() {
        let needs = parse(NEEDS).unwrap();
        assert!(needs.asks_for_network());
        assert_eq!(
            needs.to_json(),
            serde_json::json!({
                "network": [
                    {"rule": "GET https://api.example.org/v1/*", "why": "reads forecasts"},
                    {"rule": "https://*.example.org/data/*", "why": "reads stations"},
                ],
                "secrets": {"WEATHER_TOKEN": {
                    "header": "authorization",
                    "hosts": ["api.example.org", "api.example.org:8443"],
                    "why": "the service counts requests by key",
                }},
            })
        );
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn error_names_file_and_line() {
        for (old, new, line, message) in [
            (
                "[[network]]\nrule = \"https",
                "[[network]\nrule = \"https",
                5,
                "",
            ),
            (
                "why = \"reads st",
                "reason = \"reads st",
                7,
                "unknown field `reason`",
            ),
            ("why = \"reads stations\"", "", 5, "missing field `why`"),
            ("reads stations", " ", 7, "`why` is empty"),
            (
                "https://*.example.org",
                "https://*.org",
                6,
                "`https://*.org/data/*`: the host",
            ),
            (
                "GET https",
                "get https",
                2,
                "a method is a word in upper case",
            ),
            (
                "[secrets.WEATHER_TOKEN]",
                "[secrets.A-B]",
                9,
                "secret `A-B`: its name",
            ),
            (
                "[secrets.WEATHER_TOKEN]",
                "[secret.A]",
                9,
                "unknown field `secret`",
            ),
            (
                "\"api.example.org\"",
                "\"*.example.org\"",
                9,
                "secret `WEATHER_TOKEN`: `*.exam",
            ),
            ("\"api.example.org\"", "1", 11, "invalid type"),
        ] {
            let text = NEEDS.replacen(old, new, 1);
            assert_ne!(text, NEEDS, "{old}");
            let error = format!("{:?}", parse(&text).unwrap_err());
            let location = format!("`needs.toml`, line {line}: ");
            let is_named = error.contains(&location) && error.contains(message);
            assert!(is_named, "{new}: {error}");
        }
    }

    #[test]
    fn refuses_needs_that_no_host_reads() {
        let secret = |number| {
            let hosts = vec![format!("\"{}.example.org\"", "a".repeat(60)); 16].join(",");
            format!("[secrets.A{number}]\nheader = \"a\"\nhosts = [{hosts}]\nwhy = \"b\"\n")
        };
        let secrets = |count| (0..count).map(secret).collect::<String>();
        parse(&secrets(12)).unwrap();
        let error = format!("{:?}", parse(&secrets(16)).unwrap_err());
        assert!(
            error.contains("bytes as JSON; a component may have 16384"),
            "{error}"
        );
    }
}
