//! Valid configurations, and the messages for invalid ones.

use std::path::Path;
use std::time::Duration;

use super::*;
use skillhost_sandbox::tool::grant::{Defaults, FolderAccess, Grant};
use skillhost_skills::guard::HardLinks;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, "skillhost.toml", Path::new("/etc")).map_err(|e| format!("{e:#}"))
}

#[test]
fn reads_file_with_relative_paths() {
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
    let unset = Grant::new().terms(true, &defaults);
    assert_eq!(unset.view, FolderAccess::ReadOnly);
    assert_eq!(terms.limits.time, Duration::from_secs(1));
    assert_eq!(terms.limits.memory, 32 << 20);
    assert_eq!(terms.environment[..], [("A".to_owned(), "b".to_owned())]);
    assert_eq!(parse("").unwrap().limits, Limits::default());
    let model_output = |text: &str| parse(text).unwrap().answers.model_output;
    assert_eq!(model_output(""), None);
    assert_eq!(model_output("model_output = \"100KiB\""), Some(100 << 10));
}

#[test]
fn reads_prompt_budget_and_search_offer() {
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
fn error_names_line_and_problem() {
    for (text, message) in [
        (
            "[prompt]\nbudget = 10",
            "`skillhost.toml`, line 2: `budget` is at least 256: with less, no skill would fit \
             into it",
        ),
        (
            "model_output = 1023",
            "`skillhost.toml`, line 1: `model_output` is at least 1 KiB: with less, a model would \
             read little but the note beside an answer",
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
            "[grants.list_tasks.wasm]\nskills = []",
            "`skillhost.toml`, line 1: unknown key `grants.list_tasks.wasm`; put the file's name in \
             quotes: `[grants.\"list_tasks.wasm\"]`",
        ),
        (
            "xyz = 1",
            "`skillhost.toml`, line 1: unknown key `xyz`; the keys here are skills, tools, home, \
             disabled_tools, offer, wording, descriptions, help, hard_links, omitted_names, audit_file, audit, \
             pins, require_pins, require_components, limits, grants, network, stdio, http, clients, \
             issuers, prompt, search, process, components, trust, require_signatures, calls, \
             queue, calls_per_tool, calls_memory, stack, \
             compile_time, model_output",
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
            "[limits]\nmemory = -1",
            "`skillhost.toml`, line 2: expected a size such as \"64MiB\" or \"512KiB\", not -1",
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

/// Guards against: an entry for a key that no longer exists.
#[test]
fn every_key_with_effects_beyond_folder_is_known() {
    let keys = Keys::of::<Config>();
    for key in keys::KEYS_BEYOND_FOLDER {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        assert!(keys.of_table(table).unwrap().contains(&name), "{key}");
    }
}

#[test]
fn ignores_tables_of_other_crates() {
    let text = "stdio.message = 1\nhttp.x = 1\nclients.x = 1\nissuers.x = 1\nprocess.x = 1\n\
                components.x = 1\ntrust.x = 1\n";
    let read = |text: &str| {
        let mut config = parse(text).unwrap();
        config.file = None;
        format!("{config:?}")
    };
    assert_eq!(read(text), read(""));
}
