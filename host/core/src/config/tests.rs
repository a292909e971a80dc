//! Configurations that are right, and the words for those that are not.

use std::path::Path;
use std::time::Duration;

use super::*;
use skillhost_sandbox::tool::grant::{Defaults, FolderAccess, Grant};
use skillhost_sandbox::tool::limits::LimitSet;
use skillhost_skills::guard::HardLinks;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, "skillhost.toml", Path::new("/etc")).map_err(|e| format!("{e:#}"))
}

#[test]
fn reads_a_whole_file_with_paths_relative_to_its_folder() {
    let config = parse(
        "skills = [\"skills\", \"/srv/skills\"]\ntools = [\"t\"]\nhome = \"h\"\n\
         disabled_tools = [\"get_skill\"]\noffer = [\"b\", \"a\"]\nwording = \"contract\"\n\
         descriptions = { a = \"A\" }\n[limits]\ntime = \"500ms\"\nmemory = \"32MiB\"\n\
         output = 1000\n[grants.\"x.wasm\"]\nskills = [\"a*\"]\nhard_links = true\n\
         view = \"copy-on-write\"\nlimits.time = 1\nenvironment = { A = \"b\" }\n",
    )
    .unwrap();
    assert_eq!(config.skills[1].root.path, Path::new("/srv/skills"));
    assert_eq!(config.tools[0].path, Path::new("/etc/t"));
    assert_eq!(config.home.unwrap().place, "`skillhost.toml`, line 3");
    let named = ["a", "b"].map(str::to_owned).into();
    assert_eq!(config.offer, ToolSet::Named(named));
    assert_eq!(config.wording, Wording::Contract);
    assert_eq!(config.descriptions["a"], "A");
    assert_eq!(config.limits.time, Duration::from_millis(500));
    assert_eq!(config.limits.memory, 32 << 20);
    assert_eq!(config.limits.output, 1000);
    let defaults = Defaults {
        limits: config.limits.clone(),
        hard_links: false,
    };
    let terms = config.grants["x.wasm"].terms(false, &defaults);
    assert!(terms.skills.allow("abc") && !terms.skills.allow("b"));
    assert_eq!(terms.hard_links, HardLinks::Allowed);
    assert_eq!(terms.view, FolderAccess::CopyOnWrite);
    let unsaid = Grant::new().terms(true, &defaults);
    assert_eq!(unsaid.view, FolderAccess::ReadOnly);
    assert_eq!(terms.limits.time, Duration::from_secs(1));
    assert_eq!(terms.limits.memory, 32 << 20);
    assert_eq!(terms.environment[..], [("A".to_owned(), "b".to_owned())]);
    assert_eq!(parse("").unwrap().limits, Limits::default());
}

#[test]
fn reads_the_settings_of_a_server_over_http() {
    let http = |text: &str| parse(text).unwrap().http;
    let given = http(
        "[http]\ntoken_file = \"t\"\nallowed_hosts = [\"h\"]\nallowed_origins = [\"o\"]\n\
         body = \"1MiB\"\nconnections = 1\nrequests = 2\nstreams = 3\nheader_time = \"4s\"\n\
         body_time = \"5s\"\nrequest_time = \"6s\"\nwrite_time = \"7s\"\nshutdown_time = \"8s\"\n",
    );
    let token = given.token_file.unwrap();
    assert_eq!(token.path, Path::new("/etc/t"));
    assert_eq!(token.place, "`skillhost.toml`, line 2");
    assert_eq!(
        (&*given.allowed_hosts, &*given.allowed_origins),
        (&["h".into()][..], &["o".into()][..])
    );
    let limits = given.limits;
    let counts = (
        limits.body,
        limits.connections,
        limits.requests,
        limits.streams,
    );
    assert_eq!(counts, (1 << 20, 1, 2, 3));
    let times = [
        limits.header_time,
        limits.body_time,
        limits.request_time,
        limits.write_time,
    ];
    assert_eq!(times, [4, 5, 6, 7].map(Duration::from_secs));
    assert_eq!(limits.shutdown_time, Duration::from_secs(8));
    assert_eq!(http("[http]").limits, HttpLimits::default());
}

#[test]
fn reads_the_budget_of_a_prompt_and_when_search_is_offered() {
    let read = |text: &str| {
        let config = parse(text).unwrap();
        (config.prompt.budget, config.search_offer)
    };
    assert_eq!(read(""), (4000, SearchOffer::Auto));
    assert_eq!(
        read("[prompt]\nbudget = 8000\n[search]\nfind_skills = \"always\""),
        (8000, SearchOffer::Always)
    );
    assert_eq!(read("search.offer = \"never\""), (4000, SearchOffer::Never));
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
            "[prompt]\nbudget = 10",
            "`skillhost.toml`, line 2: `budget` is at least 256: with less, it would hold hardly \
             more than its own words",
        ),
        (
            "[prompt]\nbudget = -1",
            "`skillhost.toml`, line 2: expected a whole number, not -1",
        ),
        (
            "[prompt]\nbudget = 99999999999999999999",
            "`skillhost.toml`, line 2: expected a whole number, not 99999999999999999999",
        ),
        (
            "[limits]\ntime = -1",
            "`skillhost.toml`, line 2: expected a time such as \"10s\" or \"500ms\", not -1",
        ),
        (
            "calls = 1e3",
            "`skillhost.toml`, line 1: expected a whole number, not a floating-point number",
        ),
        (
            "[prompt]\ntokens = 1000",
            "`skillhost.toml`, line 2: unknown key `prompt.tokens`; the keys here are budget",
        ),
        (
            "prompt = 4000",
            "`skillhost.toml`, line 1: `prompt` is a table, not a number",
        ),
        (
            "[search]\nfind_skills = \"sometimes\"",
            "`skillhost.toml`, line 2: unknown variant `sometimes`, expected one of `auto`, \
             `always`, `never`",
        ),
        (
            "\nskils = []",
            "`skillhost.toml`, line 2: unknown key `skils`; did you mean `skills`?",
        ),
        (
            "[limits]\ntme = 1",
            "`skillhost.toml`, line 2: unknown key `limits.tme`; did you mean `time`?",
        ),
        (
            "[http]\ntoken = \"secret\"",
            "`skillhost.toml`, line 2: unknown key `http.token`; did you mean `token_file`?",
        ),
        (
            "[grants.list_tasks.wasm]\nskills = []",
            "`skillhost.toml`, line 1: unknown key `grants.list_tasks.wasm`; put the file's name in \
             quotes: `[grants.\"list_tasks.wasm\"]`",
        ),
        (
            "xyz = 1",
            "`skillhost.toml`, line 1: unknown key `xyz`; the keys here are skills, tools, home, \
             disabled_tools, offer, wording, descriptions, help, hard_links, audit_file, audit, \
             pins, require_pins, require_components, limits, grants, stdio, http, clients, \
             issuers, prompt, search, process, calls, queue, calls_per_tool, calls_memory, stack, \
             compile_time",
        ),
        (
            "\nlimits = [\"1s\", \"1MiB\"]",
            "`skillhost.toml`, line 2: `limits` is a table, not a list",
        ),
        (
            "[grants]\nx = [[\"*\"], true]",
            "`skillhost.toml`, line 2: `grants.x` is a table, not a list",
        ),
        (
            "[grants.x]\nlimits = [\"1s\"]",
            "`skillhost.toml`, line 2: `grants.x.limits` is a table, not a list",
        ),
        (
            "[[grants.x]]\nskills = [\"*\"]",
            "`skillhost.toml`, line 1: `grants.x` is a table, not a list",
        ),
        (
            "skills = [\n[\"x\", true]]",
            "`skillhost.toml`, line 2: `skills` must be a list of folders, not of lists",
        ),
        (
            "[grants]\nx = 1979-05-27",
            "`skillhost.toml`, line 2: `grants.x` is a table, not a date",
        ),
        (
            "limits = 1979-05-27",
            "`skillhost.toml`, line 1: `limits` is a table, not a date",
        ),
        (
            "[grants.x]\nenvironment = 1979-05-27",
            "`skillhost.toml`, line 2: `grants.x.environment` is a table, not a date",
        ),
        (
            "pins = 07:32:00",
            "`skillhost.toml`, line 1: `pins` is a table, not a date",
        ),
        (
            "[limits]\ntime = \"ten\"",
            "`skillhost.toml`, line 2: expected a time such as \"10s\" or \"500ms\", not \"ten\"",
        ),
        (
            "[limits]\ntime = 0",
            "`skillhost.toml`, line 2: `time` is at least 1 ms",
        ),
        (
            "calls = \"5\"",
            "`skillhost.toml`, line 1: expected a whole number, not a string",
        ),
        (
            "compile_time = 1.5",
            "`skillhost.toml`, line 1: expected a time such as \"10s\" or \"500ms\", not a \
             floating-point number",
        ),
        (
            "[http]\nsocket_mode = \"0777\"",
            "`skillhost.toml`, line 2: `0777` is not the mode of a socket: from \"0600\", its owner alone, to \"0666\", every user",
        ),
        (
            "[http]\nsocket_mode = \"0466\"",
            "`skillhost.toml`, line 2: `0466` is not the mode of a socket: from \"0600\", its owner alone, to \"0666\", every user",
        ),
        (
            "[http]\nsocket_mode = \"+660\"",
            "`skillhost.toml`, line 2: `+660` is not the mode of a socket: from \"0600\", its owner alone, to \"0666\", every user",
        ),
        (
            "[http]\n\nresource = \"mcp.example.com\"",
            "`skillhost.toml`, line 3: `resource`: an address must begin with `https://`; \
             `http://` is allowed only for this machine",
        ),
        (
            "[http]\nanswers = true",
            "`skillhost.toml`, line 2: expected a size such as \"64MiB\" or \"512KiB\", not a \
             boolean",
        ),
        (
            "[http]\nanswers = 1",
            "`skillhost.toml`, line 2: `answers` is at least 1 MiB: with less, the server would \
             not send its lists",
        ),
        (
            "[limits]\nmemory = -1",
            "`skillhost.toml`, line 2: expected a size such as \"64MiB\" or \"512KiB\"",
        ),
        (
            "[limits]\noutput = \"99999999999GiB\"",
            "`skillhost.toml`, line 2: expected a size such as \"64MiB\" or \"512KiB\", not \
             \"99999999999GiB\"",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err(), message, "{text}");
    }
    for text in [
        "skills = \"x\"",
        "skills = [1]",
        "skills = [",
        "a = 1\na = 2",
    ] {
        assert!(
            parse(text)
                .unwrap_err()
                .starts_with("`skillhost.toml`, line "),
            "{text}"
        );
    }
}

/// Guards against: a rule for a key that no longer exists.
#[test]
fn each_key_that_reaches_beyond_the_folder_exists() {
    for key in keys::REACHING {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        assert!(keys::of_table(table).unwrap().contains(&name), "{key}");
    }
}

/// Returns all tables that have keys with names of their own, and those keys.
fn tables() -> Vec<(String, Vec<&'static str>)> {
    let mut names = vec![String::new()];
    let mut tables = Vec::new();
    while let Some(name) = names.pop() {
        let mut keys = keys::of_table(&name).unwrap();
        let below = |key: &&str| match &*name {
            "" => (*key).to_owned(),
            name => format!("{name}.{key}"),
        };
        let inner = keys.iter().map(below);
        names.extend(inner.filter(|name| keys::of_table(name).is_some()));
        keys.sort_unstable();
        // A grant has the limits of the table `limits`.
        if keys != ["*"] && name != "grants.*.limits" {
            tables.push((name, keys));
        }
    }
    tables
}

/// Returns the cells of the rows about keys in the page's section of a table.
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
fn the_page_lists_each_key() {
    for (table, keys) in tables() {
        let rows = rows_about(&table);
        let mut listed: Vec<_> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
        listed.sort_unstable();
        assert_eq!(listed, keys, "[{table}]");
    }
}

/// Guards against: a page that states another default than the code has.
#[test]
fn each_default_on_the_page_changes_nothing() {
    let digest = "0".repeat(64);
    let mut tried = 0;
    for (table, _) in tables() {
        let start = match &*table {
            "" => String::new(),
            "clients.*" => format!("[clients.a]\ntoken_sha256 = \"{digest}\"\n"),
            "issuers.*" => {
                "[issuers.NAME]\nissuer = \"https://a\"\njwks_url = \"https://a\"\n".to_owned()
            }
            "grants.*" => "[grants.read_skill]\n".to_owned(),
            table => format!("[{table}]\n"),
        };
        // An access token needs an audience.
        let end = match &*table {
            "issuers.*" => "[http]\nresource = \"https://a\"\n",
            _ => "",
        };
        let parse = |key: &str| {
            let text = format!("{start}{key}\n{end}");
            let mut config = Config::parse(&text, "a", Path::new("/")).expect(&text);
            config.audit_place = None;
            // A host without this setting gives help.
            config.help.get_or_insert(true);
            format!("{config:?}")
        };
        let rows = rows_about(&table);
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

/// Guards against: a page that states other limits than the tables.
#[test]
fn the_page_lists_each_limit_with_its_default_and_bounds() {
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
    check::<super::CheckpointLimits>();
    check::<super::PromptLimits>();
    check::<super::StdioLimits>();
    check::<super::HttpLimits>();
    check::<super::ClientLimits>();
}
