//! Tips for a wrong command line, based on the meaning of a word. clap itself suggests words with
//! a similar spelling.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Verbs of other programs, each with a tip that names the equivalent here.
const MEANINGS: [(&[&str], &str); 18] = [
    (&["version"], "`skillhost --version` prints the version"),
    (
        &["list", "ls", "show", "catalog"],
        "`skillhost skills` lists the skills, and `skillhost tools` the tools",
    ),
    (
        &["search", "query", "lookup", "which"],
        "`skillhost find QUERY` finds the skills for a task",
    ),
    (
        &["run", "exec", "execute", "invoke", "use"],
        "`skillhost call TOOL` calls a tool, and `skillhost serve` starts the MCP server",
    ),
    (
        &[
            "start", "server", "mcp", "http", "stdio", "listen", "up", "daemon",
        ],
        "`skillhost serve` starts the MCP server",
    ),
    (
        &["read", "get", "cat", "open", "view"],
        "`skillhost call read_file_in_skill` reads a file of a skill",
    ),
    (
        &["init", "create", "scaffold", "generate"],
        "`skillhost new NAME` makes a project for a tool",
    ),
    (
        &["install", "load", "import", "enable", "pull"],
        "`skillhost add REF` adds a component from a registry; `--skills DIR` and `--tools DIR` \
         name folders",
    ),
    (
        &["validate", "lint", "verify", "doctor"],
        "`skillhost check` checks skills, and `skillhost test` a component",
    ),
    (
        &["compile", "make", "package"],
        "`skillhost build` builds a tool project",
    ),
    (
        &["watch", "develop"],
        "`skillhost dev` builds a tool project at every change",
    ),
    (
        &["bench", "cases", "conformance"],
        "`skillhost test` checks a component",
    ),
    (
        &["permissions", "limits", "access", "allow", "policy"],
        "`skillhost grants` shows what each tool may do",
    ),
    (
        &["config", "configure", "settings"],
        "`--config FILE` names a configuration, and `skillhost grants` shows what it allows",
    ),
    (
        &["info", "describe", "digest", "imports", "hash"],
        "`skillhost inspect FILE.wasm` shows a component",
    ),
    (
        &["schema", "schemas", "definitions", "functions"],
        "`skillhost tools` prints the definitions of the tools",
    ),
    (
        &["system", "system-prompt", "context"],
        "`skillhost prompt` prints the section of a system prompt that lists the skills",
    ),
    (
        &["answer", "reply", "chat", "message"],
        "`skillhost respond` answers a model's tool calls",
    ),
];

/// Adds a tip to an error of clap, if the user's intention can be guessed.
pub(crate) fn add_tip(error: &mut clap::Error) {
    let (similar, tip) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let tip = word(error, ContextKind::InvalidSubcommand).and_then(tip_for_verb);
            (ContextKind::SuggestedSubcommand, tip)
        }
        ErrorKind::UnknownArgument if is_about_call(error) => {
            let similar = ContextKind::SuggestedArg;
            // clap suggests the correct option for a misspelling.
            let is_misspelt = |word: &&str| !word.contains('_') && error.get(similar).is_some();
            let word = word(error, ContextKind::InvalidArg).filter(|word| !is_misspelt(word));
            (similar, word.and_then(tip_for_call_option))
        }
        ErrorKind::MissingRequiredArgument
            if is_about_call(error) && misses_argument(error, "<TOOL>") =>
        {
            let tip = "`skillhost tools` prints the tools with their arguments";
            (ContextKind::SuggestedArg, Some(tip.to_owned()))
        }
        _ => return,
    };
    if let Some(tip) = tip {
        error.remove(similar);
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
}

/// Checks whether an error is about this missing argument.
fn misses_argument(error: &clap::Error, argument: &str) -> bool {
    let missing = error.get(ContextKind::InvalidArg);
    matches!(missing, Some(ContextValue::Strings(names)) if names.iter().any(|name| name == argument))
}

/// Returns the word that an error is about.
fn word(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word),
        _ => None,
    }
}

/// Returns a tip for an unknown verb.
fn tip_for_verb(word: &str) -> Option<String> {
    let folded = word.to_lowercase();
    let means = |(words, _): &&(&[&str], &str)| words.contains(&&*folded);
    if let Some((_, tip)) = MEANINGS.iter().find(means) {
        return Some((*tip).to_owned());
    }
    // Most tool names have an underscore, and no verb has one.
    let is_tool = word.contains('_') && word.bytes().all(is_name_byte);
    is_tool.then(|| format!("`skillhost call {word}` calls a tool of that name"))
}

/// Returns a tip for an unknown option of `call` that is probably an argument of the tool.
fn tip_for_call_option(word: &str) -> Option<String> {
    let name = word.strip_prefix("--")?;
    let name = name.split('=').next()?;
    let is_argument = !name.is_empty() && name.bytes().all(is_name_byte);
    is_argument.then(|| format!("a tool's arguments are written without dashes: {name}=VALUE"))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Checks whether an error is about the verb `call`.
fn is_about_call(error: &clap::Error) -> bool {
    let usage = error.get(ContextKind::Usage);
    usage.is_some_and(|usage| usage.to_string().contains("skillhost call"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::CommandLine;

    #[test]
    fn meanings_are_unique_and_not_verbs() {
        let mut seen: Vec<&str> = Vec::new();
        let command = CommandLine::command();
        for word in MEANINGS.iter().flat_map(|(words, _)| words.iter()) {
            assert!(command.find_subcommand(word).is_none(), "{word}");
            assert!(!seen.contains(word), "{word}");
            seen.push(word);
        }
    }

    #[test]
    fn tips_name_existing_verbs_and_options() {
        let command = CommandLine::command();
        for tip in MEANINGS
            .iter()
            .flat_map(|(_, tip)| tip.split('`').skip(1).step_by(2))
        {
            let words = tip.strip_prefix("skillhost ").unwrap_or(tip);
            let word = words.split(' ').next().unwrap();
            let exists = match word.strip_prefix("--") {
                Some("version") => true,
                Some(option) => command
                    .get_arguments()
                    .any(|argument| argument.get_long() == Some(option)),
                None => command.find_subcommand(word).is_some(),
            };
            assert!(exists, "{tip}");
        }
    }
}
