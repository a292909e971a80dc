//! Settings of all layers in one file, the messages for wrong ones, and the page about them.

use std::path::Path;

use skillhost::config::{self, AnswerLimits, CheckpointLimits, PromptLimits};
use skillhost::limits::{CompileLimits, LimitSet, Limits, Load};
use skillhost_identity::ClientLimits;
use skillhost_server::HttpLimits;

use super::*;

fn parse(text: &str) -> Result<Settings, String> {
    config::parse(text, "skillhost.toml", Path::new("/etc")).map_err(|error| format!("{error:#}"))
}

#[test]
fn reads_the_limit_of_a_message_over_stdio() {
    let read = |text: &str| parse(text).unwrap().stdio.message;
    assert_eq!(read(""), 8 << 20);
    assert_eq!(read("[stdio]\nmessage = \"64MiB\""), 64 << 20);
}

#[test]
fn names_each_problem_with_its_line() {
    for (text, message) in [
        (
            "[stdio]\nmessage = \"1KiB\"",
            "`skillhost.toml`, line 2: `message` is at least 256 KiB: with less, the server would \
             not send its lists",
        ),
        (
            "[http]\ntoken = \"secret\"",
            "`skillhost.toml`, line 2: unknown key `http.token`; did you mean `token_file`?",
        ),
        (
            "[http]\nsocket_mode = \"0777\"",
            "`skillhost.toml`, line 2: `0777` is not a valid mode of a socket: expected a mode from \"0600\" (only its owner) to \"0666\" (every user)",
        ),
        (
            "[http]\nsocket_mode = \"0466\"",
            "`skillhost.toml`, line 2: `0466` is not a valid mode of a socket: expected a mode from \"0600\" (only its owner) to \"0666\" (every user)",
        ),
        (
            "[http]\nsocket_mode = \"+660\"",
            "`skillhost.toml`, line 2: `+660` is not a valid mode of a socket: expected a mode from \"0600\" (only its owner) to \"0666\" (every user)",
        ),
        (
            "[http]\n\nresource = \"mcp.example.com\"",
            "`skillhost.toml`, line 3: `resource`: an address must begin with `https://`; `http://` is allowed only for this machine",
        ),
        (
            "[http]\nanswers = true",
            "`skillhost.toml`, line 2: expected a size such as \"64MiB\" or \"512KiB\", not a boolean",
        ),
        (
            "[http]\nanswers = 1",
            "`skillhost.toml`, line 2: `answers` is at least 1 MiB: with less, the server would not send its lists",
        ),
        (
            "http = 1",
            "`skillhost.toml`, line 1: `http` is a table, not a number",
        ),
        (
            "[process]\nconfin = \"off\"",
            "`skillhost.toml`, line 2: unknown key `process.confin`; did you mean `confine`?",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err(), message, "{text}");
    }
}

/// Returns the tables with fixed keys, and these keys.
fn tables() -> Vec<(&'static str, Vec<&'static str>)> {
    let keys = Keys::of::<Settings>();
    let tables = keys.tables().map(|(name, keys)| {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        (name, keys)
    });
    // A grant has the limits of the table `limits`.
    let has_rows = |(name, keys): &(&str, Vec<&str>)| *keys != ["*"] && *name != "grants.*.limits";
    tables.filter(has_rows).collect()
}

/// Returns the cells of each row about a key, from the page's section about a table.
fn rows_about(table: &str) -> Vec<Vec<String>> {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/configuration.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let heading = match table {
        "" => "\n## Top level\n".to_owned(),
        table => format!("\n## `[{}]`\n", table.replace('*', "NAME")),
    };
    let (_, section) = page.split_once(&heading).expect(&heading);
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &str| {
        let row = row.trim_matches('|').replace("\\|", "/");
        row.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    rows.map(cells).collect()
}

/// Guards against: a key that the page does not list, or one that no longer exists.
#[test]
fn page_lists_each_key() {
    for (table, keys) in tables() {
        let rows = rows_about(table);
        let mut listed: Vec<_> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
        listed.sort_unstable();
        assert_eq!(listed, keys, "[{table}]");
    }
}

/// Guards against: a page with a default that differs from the code's.
#[test]
fn documented_defaults_are_the_real_ones() {
    let digest = "0".repeat(64);
    let mut tried = 0;
    for (table, _) in tables() {
        let start = match table {
            "" => String::new(),
            "clients.*" => format!("[clients.a]\ntoken_sha256 = \"{digest}\"\n"),
            "issuers.*" => {
                "[issuers.NAME]\nissuer = \"https://a\"\njwks_url = \"https://a\"\n".to_owned()
            }
            "grants.*" => "[grants.read_skill]\n".to_owned(),
            table => format!("[{table}]\n"),
        };
        // An access token needs an audience.
        let end = match table {
            "issuers.*" => "[http]\nresource = \"https://a\"\n",
            _ => "",
        };
        let parse = |key: &str| {
            let text = format!("{start}{key}\n{end}");
            let mut settings: Settings = config::parse(&text, "a", Path::new("/")).expect(&text);
            settings.host.audit_place = None;
            // A host without this setting gives help.
            settings.host.help.get_or_insert(true);
            format!("{settings:?}")
        };
        let rows = rows_about(table);
        for row in rows.iter().filter(|row| row.len() == 4) {
            let default = row[2]
                .strip_prefix('`')
                .and_then(|default| default.strip_suffix('`'));
            let Some(default) = default.filter(|default| !default.contains('`')) else {
                continue;
            };
            let key = row[0].trim_matches('`');
            assert_eq!(
                parse(&format!("{key} = {default}")),
                parse(""),
                "{table}: {key}"
            );
            tried += 1;
        }
    }
    assert!(tried > 15, "only {tried} defaults were found");
}

/// Guards against: a page with limits that differ from the tables'.
#[test]
fn page_lists_each_limit_with_its_default_and_bounds() {
    fn check<S: LimitSet>() {
        let rows = rows_about(S::KEY);
        for limit in S::TABLE {
            let default = match limit.unit.parse(limit.default) {
                Some(default) => limit.unit.show(default),
                None => limit.default.to_owned(),
            };
            let greatest = match limit.greatest {
                u64::MAX => "none".to_owned(),
                greatest => limit.unit.show(greatest),
            };
            let key = format!("`{}`", limit.key);
            let row = rows.iter().find(|row| row[0] == key).expect(&key);
            let [_, shown @ .., meaning, threat] = &row[..] else {
                panic!("{row:?}");
            };
            assert_eq!(
                shown,
                [default, limit.unit.show(limit.least), greatest],
                "{key}"
            );
            assert_eq!(threat, limit.threat, "{key}");
            assert!(!meaning.is_empty(), "{key}");
        }
    }
    check::<Limits>();
    check::<Load>();
    check::<CompileLimits>();
    check::<CheckpointLimits>();
    check::<PromptLimits>();
    check::<AnswerLimits>();
    check::<StdioLimits>();
    check::<HttpLimits>();
    check::<ClientLimits>();
}
