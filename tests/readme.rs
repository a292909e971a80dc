//! Runs the commands of the README and the guides, and checks links and examples of all pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::program::run_in_repository_with;
use crate::support::repository;

/// The pages whose commands are run.
const PAGES: [&str; 3] = ["README.md", "docs/guides/use.md", "docs/guides/agents.md"];

/// The starts of commands: the README runs the program from a checkout, and the guides run the
/// installed program.
const STARTS: [&str; 2] = ["cargo run --release -- ", "skillhost "];

/// The start of each command that needs a network or does not end.
///
/// `tests/clients/run` runs the client and the server, `.ci/run` the tests, and `tests/release/run`
/// the commands that install a release.
const NOT_RUN: [&str; 5] = [
    "cargo test\n",
    "uvx skillhost call ",
    "cargo install --locked --path host/cli",
    "npx @modelcontextprotocol/inspector --cli skillhost serve --skills ",
    "(umask 077 && head -c 32 /dev/urandom | base64 > token)\nskillhost serve --http ",
];

/// Returns the fenced blocks of the pages, with their languages.
fn blocks() -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    for page in PAGES {
        let page = fs::read_to_string(repository().join(page)).unwrap();
        let mut parts = page.split("```");
        parts.next();
        while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
            let (language, text) = block.split_once('\n').unwrap();
            blocks.push((language.to_owned(), text.to_owned()));
        }
    }
    blocks
}

/// Splits a command line into words, and removes single quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.trim().split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Splits a line into the text that `echo` pipes to the command, and the command.
fn split_echo(line: &str) -> (&str, &str) {
    line.strip_prefix("echo '")
        .and_then(|rest| rest.split_once("' | "))
        .unwrap_or(("", line))
}

#[test]
fn every_command_prints_the_block_under_it() {
    let blocks = blocks();
    let mut commands = 0;
    for (index, (_, command)) in blocks
        .iter()
        .enumerate()
        .filter(|(_, (language, _))| language == "sh")
    {
        let (stdin, command) = split_echo(command);
        let Some(arguments) = STARTS.iter().find_map(|start| command.strip_prefix(start)) else {
            assert!(
                NOT_RUN.iter().any(|start| command.starts_with(start)),
                "{command}"
            );
            continue;
        };
        let run = run_in_repository_with(&words(arguments), stdin);
        assert!(run.code <= 1, "{command}: {run:?}");
        if let Some((language, expected)) = blocks.get(index + 1)
            && language == "text"
        {
            assert_eq!(run.stdout.trim_end(), expected.trim_end(), "{command}");
            assert_eq!(
                run.code == 1,
                stdin.is_empty() && (expected.starts_with("ERROR") || expected.contains("error"))
            );
        }
        commands += 1;
    }
    assert!(commands >= 12, "only {commands} commands were found");
}

/// `tests/clients/run` configures real clients with the same block of docs/guides/agents.md.
#[test]
fn configuration_for_mcp_clients_starts_a_server() {
    let blocks = blocks();
    let (_, shown) = blocks
        .iter()
        .find(|(language, _)| language == "json")
        .unwrap();
    let agents = fs::read_to_string(repository().join("docs/guides/agents.md")).unwrap();
    assert!(agents.contains(&format!("```json stdio\n{shown}```")));
    let configuration: serde_json::Value = serde_json::from_str(shown).unwrap();
    let server = &configuration["mcpServers"]["skillhost"];
    assert_eq!(server["command"], "skillhost");
    let skills = repository().join("skills").display().to_string();
    let arguments = server["args"].as_array().unwrap().iter();
    let arguments =
        arguments.map(|word| word.as_str().unwrap().replace("/home/me/skills", &skills));
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let ask = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let run = run_in_repository_with(
        &arguments.collect::<Vec<_>>(),
        &format!("{hello}\n{ready}\n{ask}\n"),
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("read_file_in_skill"), "{run:?}");
    assert!(run.stdout.contains("data_analysis"), "{run:?}");
}

#[test]
fn ci_runs_test_command_of_readme() {
    let ci = fs::read_to_string(repository().join(".ci/run")).unwrap();
    assert!(ci.lines().any(|line| line.trim() == "cargo test"));
}

#[test]
fn example_tool_is_guest_of_tests() {
    let guest =
        fs::read_to_string(repository().join("tests/guests/count-lines/src/lib.rs")).unwrap();
    let (_, code) = guest.split_once("\n\n").unwrap();
    assert!(
        blocks()
            .iter()
            .any(|(language, text)| language == "rust" && text == code)
    );
}

#[test]
fn every_configuration_on_a_page_is_valid() {
    let mut configurations = 0;
    for file in pages() {
        let page = fs::read_to_string(&file).unwrap();
        for block in page.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            // This block is a `needs.toml`.
            if block.starts_with("[[network]]") {
                let needs: skillhost::Needs = toml::from_str(block).unwrap();
                assert!(needs.asks_for_network(), "{block}");
                continue;
            }
            skillhost::config::parse::<skillhost_cli::Settings>(
                block,
                &file.display().to_string(),
                repository(),
            )
            .unwrap_or_else(|error| panic!("{error:#}"));
            configurations += 1;
        }
    }
    assert!(configurations >= 8, "only {configurations} were found");
}

/// Returns the word after `start` of each line of a help that begins with `start`.
fn help_words<'a>(help: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = help
        .lines()
        .filter_map(move |line| line.strip_prefix(start));
    lines.map(|line| line.split([' ', '=', '[']).next().unwrap())
}

#[test]
fn page_lists_each_verb_and_option() {
    let page = repository().join("docs/reference/command-line.md");
    let page = fs::read_to_string(page).unwrap();
    let help = |words: &[&str]| {
        let words = words.iter().chain(&["--help"]);
        let words: Vec<_> = words.map(|&word| word.to_owned()).collect();
        let run = run_in_repository_with(&words, "");
        assert_eq!(run.code, 0, "{run:?}");
        run.stdout
    };
    let all = help(&[]);
    let (verbs, _) = all.split_once("\nOptions:\n").unwrap();
    let verbs = help_words(verbs, "  ").filter(|verb| !verb.is_empty());
    let verbs: Vec<&str> = verbs.collect();
    assert!(verbs.len() >= 16, "only {verbs:?} were found");
    let mut helps: Vec<String> = verbs.iter().map(|verb| help(&[verb])).collect();
    helps.extend(["new-key", "digest", "verify", "show"].map(|verb| help(&["audit", verb])));
    helps.extend(["list", "add", "remove"].map(|verb| help(&["clients", verb])));
    let options = helps.iter().flat_map(|help| help_words(help, "      --"));
    let options: BTreeSet<&str> = options.collect();
    assert!(options.len() >= 30, "only {options:?} were found");
    let rows = verbs.into_iter().map(|verb| format!("\n| `{verb}"));
    let options = options.into_iter().map(|option| format!("`--{option}"));
    let missing = rows.chain(options).filter(|text| !page.contains(text));
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn page_lists_each_rule_of_check() {
    let page = fs::read_to_string(repository().join("docs/reference/check.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let missing = skillhost::check::rules().filter(|rule| {
        let severity = match rule.severity {
            skillhost::check::Severity::Error => "error",
            skillhost::check::Severity::Warning => "warning",
        };
        let description = rule.description.trim_end_matches('.');
        let row = format!(
            "| `{}` | {severity} | {description} | {} |",
            rule.id, rule.help
        );
        !page.contains(&row)
    });
    let missing: Vec<&str> = missing.map(|rule| rule.id).collect();
    assert_eq!(missing, [""; 0]);
    assert_eq!(rows.count(), skillhost::check::rules().count());
}

/// Adds the pages of a folder, and of its subfolders if `is_deep` is set.
fn add_pages(folder: &Path, is_deep: bool, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        // Links in skills are for agents, and may be broken.
        if path.is_dir() && is_deep && !["target", "node_modules", "skills"].contains(&&*name) {
            add_pages(&path, true, pages);
        } else if name.ends_with(".md") {
            pages.push(path);
        }
    }
}

/// Returns the pages at the top of the repository, and in its folders of documentation.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    add_pages(repository(), false, &mut pages);
    for folder in ["docs", "wit", "bench", "guest-tools"] {
        add_pages(&repository().join(folder), true, &mut pages);
    }
    pages
}

/// Returns a page without its blocks and spans of code.
fn without_code(page: &str) -> String {
    let outside: String = page.split("\n```").step_by(2).collect();
    outside.split('`').step_by(2).collect()
}

/// Returns the anchors that forges make from a page's headings.
fn anchors(page: &str) -> Vec<String> {
    let outside = page.split("\n```").step_by(2);
    let headings = outside
        .flat_map(str::lines)
        .filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn pages_have_no_broken_links() {
    let mut links = 0;
    let mut broken = Vec::new();
    for file in pages() {
        let page = fs::read_to_string(&file).unwrap();
        let text = without_code(&page);
        for target in text.split("](").skip(1) {
            let target = target.split(')').next().unwrap();
            if target.contains("://") {
                continue;
            }
            links += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match path {
                "" => file.clone(),
                path => file.parent().unwrap().join(path),
            };
            let exists = match anchor {
                "" => path.exists(),
                anchor => fs::read_to_string(&path)
                    .is_ok_and(|page| anchors(&page).contains(&anchor.to_owned())),
            };
            if !exists {
                broken.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
    assert!(links > 50, "only {links} links were found");
}
