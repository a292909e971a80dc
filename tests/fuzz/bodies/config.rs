//! Reads a configuration file. An error must name its line. Accepted settings must
//! match the file, and be within their bounds.

use std::path::Path;

use skillhost::config::{self, ConfiguredPath};
use skillhost::limits::{CompileLimits, Limit, LimitSet, Unit};
use skillhost::{Limits, Load};
use skillhost_cli::Settings;
use toml::{Table, Value};

/// The folder that relative paths are resolved against.
const FOLDER: &str = "/etc/skillhost";

/// The known top-level keys, by the type of their value. `Load` and `CompileLimits` have others.
const STRINGS: [&str; 5] = ["home", "audit_file", "audit", "offer", "wording"];
const BOOLEANS: [&str; 4] = ["hard_links", "help", "require_pins", "require_components"];
const LISTS: [&str; 4] = ["skills", "tools", "disabled_tools", "offer"];
const TABLES: [&str; 12] = [
    "limits",
    "pins",
    "grants",
    "stdio",
    "http",
    "clients",
    "issuers",
    "audit",
    "descriptions",
    "prompt",
    "search",
    "process",
];
/// The known keys of some tables. `http` and `audit` have limits too.
const HTTP: [&str; 9] = [
    "token_file",
    "resource",
    "tls_cert",
    "tls_key",
    "tls_client_ca",
    "socket_mode",
    "allowed_hosts",
    "allowed_origins",
    "trusted_proxies",
];
const AUDIT: [&str; 4] = [
    "mode",
    "key_file",
    "checkpoint_command",
    "checkpoint_socket",
];
const GRANT: [&str; 7] = [
    "skills",
    "home",
    "hard_links",
    "view",
    "limits",
    "environment",
    "scripts",
];
const SEARCH: [&str; 2] = ["find_skills", "offer"];
const PROCESS: [&str; 1] = ["confine"];

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match config::parse(text, "skillhost.toml", Path::new(FOLDER)) {
        Err(error) => check_error(&format!("{error:#}"), text),
        Ok(settings) => check_settings(&settings, text),
    }
}

/// Checks that a message starts with the number of a line of the file.
fn check_error(message: &str, text: &str) {
    let place = message.strip_prefix("`skillhost.toml`, line ");
    let line = place.and_then(|rest| rest.split_once(": "));
    let line: usize = match line {
        Some((line, why)) if !why.is_empty() => line.parse().unwrap(),
        _ => panic!("{message:?}: {text:?}"),
    };
    let last = text.matches('\n').count() + 1;
    assert!((1..=last).contains(&line), "{message:?}: {text:?}");
}

fn check_settings(settings: &Settings, text: &str) {
    let config = &settings.host;
    let table: Table = text.parse().unwrap();
    for (key, value) in &table {
        let key = &**key;
        let right = match value {
            Value::String(_) => {
                let unit = unit::<Load>(key).or(unit::<CompileLimits>(key));
                STRINGS.contains(&key) || matches!(unit, Some(Unit::Time | Unit::Bytes))
            }
            Value::Boolean(_) => BOOLEANS.contains(&key),
            Value::Integer(_) => {
                unit::<Load>(key).is_some() || unit::<CompileLimits>(key).is_some()
            }
            Value::Array(_) => LISTS.contains(&key),
            Value::Table(_) => TABLES.contains(&key),
            _ => false,
        };
        assert!(right, "`{key}` of the wrong type is accepted: {text:?}");
    }
    check_limits(&config.limits, table.get("limits"), &[], text);
    let grants = table.get("grants").and_then(Value::as_table);
    assert_eq!(
        config.grants.len(),
        grants.map_or(0, Table::len),
        "{text:?}"
    );
    for grant in grants.iter().flat_map(|grants| grants.values()) {
        let grant = grant.as_table();
        let grant = grant.unwrap_or_else(|| panic!("a grant is not a table: {text:?}"));
        assert_keys(grant, &GRANT, text);
        let environment = grant.get("environment");
        assert!(environment.is_none_or(Value::is_table), "{text:?}");
        check_limits(&Limits::default(), grant.get("limits"), &[], text);
    }
    check_limits(&settings.stdio, table.get("stdio"), &[], text);
    check_limits(&settings.http.limits, table.get("http"), &HTTP, text);
    let audit = table.get("audit").filter(|audit| audit.is_table());
    check_limits(&config.checkpoints.limits, audit, &AUDIT, text);
    check_limits(&config.prompt, table.get("prompt"), &[], text);
    for (name, keys) in [("search", &SEARCH[..]), ("process", &PROCESS)] {
        let written = table.get(name).and_then(Value::as_table);
        written
            .iter()
            .for_each(|table| assert_keys(table, keys, text));
    }
    for (name, parsed) in [
        ("clients", settings.identity.clients.len()),
        ("issuers", settings.identity.issuers.len()),
    ] {
        let written = table.get(name).and_then(Value::as_table);
        let written: Vec<&Value> = written.iter().flat_map(|table| table.values()).collect();
        assert!(written.iter().all(|one| one.is_table()), "{text:?}");
        assert_eq!(parsed, written.len(), "{text:?}");
    }
    check_limits(&config.load, None, &[], text);
    check_limits(&config.compile_limits, None, &[], text);
    for pin in config.pins.values() {
        assert!(pin.len() == 64 && u128::from_str_radix(&pin[..32], 16).is_ok());
    }
    let roots = table.get("skills").and_then(Value::as_array);
    let mut roots = roots.into_iter().flatten();
    assert!(roots.all(|root| !root.is_array()), "{text:?}");
    let length = |key: &str| table.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    assert_eq!(config.skills.len(), length("skills"), "{text:?}");
    assert_eq!(config.tools.len(), length("tools"), "{text:?}");
    let roots = config.skills.iter().map(|root| &root.root.path);
    // `-` is stderr, not a file.
    let is_file = |file: &&ConfiguredPath| file.path != Path::new("-");
    let others = config
        .tools
        .iter()
        .chain(&config.home)
        .chain(config.audit_file.iter().filter(is_file))
        .chain(&config.checkpoints.key_file)
        .chain(&config.checkpoints.socket)
        .chain(&settings.http.token_file)
        .chain(&settings.http.tls_cert)
        .chain(&settings.http.tls_key)
        .chain(&settings.http.tls_client_ca);
    for path in roots.chain(others.map(|ConfiguredPath { path, .. }| path)) {
        assert!(path.is_absolute(), "{path:?}: {text:?}");
    }
}

/// Checks that every limit is within its bounds, and that a table of limits has
/// only its keys and `others`.
fn check_limits<S: LimitSet>(limits: &S, written: Option<&Value>, others: &[&str], text: &str) {
    for row in S::TABLE {
        let quantity = row.get(limits);
        let is_within = |quantity| (row.least..=row.greatest).contains(&quantity);
        assert!(quantity.is_none_or(is_within), "{}: {text:?}", row.key);
    }
    let Some(written) = written else { return };
    let written = written.as_table();
    let written = written.unwrap_or_else(|| panic!("the limits are not a table: {text:?}"));
    let keys = S::TABLE.iter().map(|row| row.key);
    assert_keys(written, &[&keys.collect::<Vec<_>>(), others].concat(), text);
}

/// Returns the unit of a limit.
fn unit<S: LimitSet>(key: &str) -> Option<Unit> {
    let mut rows = S::TABLE.iter();
    rows.find(|row| row.key == key)
        .map(|row: &Limit<S>| row.unit)
}

fn assert_keys(table: &Table, known: &[&str], text: &str) {
    let unknown = table.keys().find(|key| !known.contains(&&***key));
    assert_eq!(unknown, None, "{text:?}");
}
