//! A configuration file. What is refused is refused with its line; what is
//! taken is what it says, and within its bounds.

use std::path::Path;
use std::time::Duration;

use skillhost::config::Located;
use skillhost::limits::{MAX_CALLS, MAX_MEMORY, MAX_TABLE_ELEMENTS};
use skillhost::{Config, Limits};
use toml::{Table, Value};

/// Where relative paths count from.
const FOLDER: &str = "/etc/skillhost";

/// The keys that mean something, by what their value is.
const STRINGS: [&str; 3] = ["home", "audit_file", "audit"];
const BOOLEANS: [&str; 3] = ["hard_links", "require_pins", "require_components"];
const LISTS: [&str; 3] = ["skills", "tools", "disabled_tools"];
const NUMBERS: [&str; 6] = [
    "calls",
    "queue",
    "calls_per_tool",
    "calls_memory",
    "compile_time",
    "stack",
];
const TABLES: [&str; 4] = ["limits", "pins", "grants", "http"];
const LIMITS: [&str; 10] = [
    "time",
    "memory",
    "output",
    "table_elements",
    "instances",
    "tables",
    "hostcall_fuel",
    "handles",
    "directory_entries",
    "log",
];
const HTTP: [&str; 12] = [
    "token_file",
    "allowed_hosts",
    "allowed_origins",
    "body",
    "connections",
    "requests",
    "streams",
    "header_time",
    "body_time",
    "request_time",
    "write_time",
    "shutdown_time",
];
const GRANT: [&str; 5] = ["skills", "home", "hard_links", "limits", "environment"];

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Config::parse(text, "skillhost.toml", Path::new(FOLDER)) {
        Err(error) => refused(&format!("{error:#}"), text),
        Ok(config) => taken(&config, text),
    }
}

/// A message starts with the place, and that is a line of the file.
fn refused(message: &str, text: &str) {
    let place = message.strip_prefix("`skillhost.toml`, line ");
    let line = place.and_then(|rest| rest.split_once(": "));
    let line: usize = match line {
        Some((line, why)) if !why.is_empty() => line.parse().unwrap(),
        _ => panic!("{message:?}: {text:?}"),
    };
    let last = text.matches('\n').count() + 1;
    assert!((1..=last).contains(&line), "{message:?}: {text:?}");
}

fn taken(config: &Config, text: &str) {
    let table: Table = text.parse().unwrap();
    for (key, value) in &table {
        let key = &**key;
        let right = match value {
            Value::String(_) => {
                STRINGS.contains(&key) || matches!(key, "compile_time" | "stack" | "calls_memory")
            }
            Value::Boolean(_) => BOOLEANS.contains(&key),
            Value::Integer(_) => NUMBERS.contains(&key),
            Value::Array(_) => LISTS.contains(&key),
            Value::Table(_) => TABLES.contains(&key),
            _ => false,
        };
        assert!(right, "`{key}` of the wrong kind is taken: {text:?}");
    }
    limits(&config.limits, table.get("limits"), text);
    let grants = table.get("grants").and_then(Value::as_table);
    assert_eq!(
        config.grants.len(),
        grants.map_or(0, Table::len),
        "{text:?}"
    );
    for grant in grants.iter().flat_map(|grants| grants.values()) {
        let grant = grant.as_table();
        let grant = grant.unwrap_or_else(|| panic!("a grant is no table: {text:?}"));
        only(grant, &GRANT, text);
        let environment = grant.get("environment");
        assert!(environment.is_none_or(Value::is_table), "{text:?}");
        limits(&Limits::default(), grant.get("limits"), text);
    }
    if let Some(http) = table.get("http").and_then(Value::as_table) {
        only(http, &HTTP, text);
    }
    let http = &config.http.limits;
    let numbers = [http.body, http.connections, http.requests, http.streams];
    assert!(!numbers.contains(&0), "{text:?}");
    for time in [http.header_time, http.request_time, http.shutdown_time] {
        assert!(is_time(time), "{text:?}");
    }
    for pin in config.pins.values() {
        assert!(pin.len() == 64 && u128::from_str_radix(&pin[..32], 16).is_ok());
    }
    assert!((1..=MAX_CALLS).contains(&config.load.calls), "{text:?}");
    assert!(config.load.queue >= 1, "{text:?}");
    let per_tool = config.load.calls_per_tool;
    assert!(per_tool.is_none_or(|calls| (1..=MAX_CALLS).contains(&calls)));
    assert!(
        config
            .load
            .calls_memory
            .is_none_or(|bytes| bytes >= 1 << 20)
    );
    assert!(config.compile_time.is_none_or(is_time), "{text:?}");
    let roots = table.get("skills").and_then(Value::as_array);
    let mut roots = roots.into_iter().flatten();
    assert!(roots.all(|root| !root.is_array()), "{text:?}");
    let lists = |key: &str| table.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    assert_eq!(config.skills.len(), lists("skills"), "{text:?}");
    assert_eq!(config.tools.len(), lists("tools"), "{text:?}");
    let roots = config.skills.iter().map(|root| &root.root.path);
    let others = config
        .tools
        .iter()
        .chain(&config.home)
        .chain(&config.audit_file)
        .chain(&config.http.token_file);
    for path in roots.chain(others.map(|Located { path, .. }| path)) {
        assert!(path.is_absolute(), "{path:?}: {text:?}");
    }
}

/// Every limit is within its bounds, and the one that stands in the file.
fn limits(limits: &Limits, written: Option<&Value>, text: &str) {
    assert!(is_time(limits.time), "{text:?}");
    let least = [
        (limits.memory, 1 << 20),
        (limits.output, 256),
        (limits.hostcall_fuel, 64 << 10),
        (limits.log, 1),
    ];
    for (bytes, least) in least {
        assert!((least..=MAX_MEMORY).contains(&bytes), "{text:?}");
    }
    assert!((100..=MAX_TABLE_ELEMENTS).contains(&limits.table_elements));
    assert!(limits.instances >= 4 && limits.tables >= 2, "{text:?}");
    assert!(limits.handles >= 8 && limits.directory_entries >= 1);
    let Some(written) = written else { return };
    let written = written.as_table();
    let written = written.unwrap_or_else(|| panic!("limits are no table: {text:?}"));
    only(written, &LIMITS, text);
}

fn only(table: &Table, known: &[&str], text: &str) {
    let unknown = table.keys().find(|key| !known.contains(&&***key));
    assert_eq!(unknown, None, "{text:?}");
}

fn is_time(time: Duration) -> bool {
    (Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60)).contains(&time)
}
