//! `find_skills`: finds the skills that match a request in plain words. The host searches;
//! this tool writes a short answer.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use skillhost_guest::skills::{Coverage, SearchHit, SearchResult};
use skillhost_guest::{Access, Failure, Output, Tool, skills};

skillhost_guest::arguments! {
    struct Arguments {
        /// What the task needs, in plain words
        query: String,
        /// Maximum number of skills in the answer. Default: 5, at most 20
        #[schemars(range(min = 1))]
        limit: Option<u64>,
    }
}

skillhost_guest::record! {
    struct FindResult {
        skills: Vec<Hit>,
        /// The part of the text that was searched: `all`, `descriptions` or `nothing`.
        searched: &'static str,
    }
}

skillhost_guest::record! {
    struct Hit {
        name: String,
        description: String,
        matches: Vec<String>,
    }
}

skillhost_guest::without_std!();

skillhost_guest::export_tools!(
    Tool::new(
        "find_skills",
        "Find the skills that fit a request, best first: a line for each, with its name, what it \
         is for, and what in it matches. Call this when no skill that you know of fits the task, \
         then load the right one with read_skill.",
        find_skills,
    )
    .title("Find skills for a task")
    .output_schema(include_str!("output.schema.json"))
);

const DEFAULT_LIMIT: u64 = 5;
const MAX_LIMIT: u64 = 20;

/// The maximum number of characters in a description: enough to choose a skill.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// The maximum number of matches in a hit, and of characters in a match.
const MAX_MATCHES: usize = 4;
const MAX_MATCH_CHARS: usize = 60;

/// The maximum number of bytes in the lines of an answer. Guards against: names and
/// descriptions of four-byte characters, which fill a model's context.
const MAX_ANSWER_BYTES: usize = 7 * 1024;

const ONLY_DESCRIPTIONS: &str = "Only names and descriptions were searched so far; call again in \
    some seconds to search all text.\n";
const NOT_READY: &str = "The skills cannot be searched yet: call again in some seconds, or page \
    through them with list_skills.\n";
const NOTHING_FITS: &str = "No skill fits. Try other words for the task, or page through all \
    skills with list_skills.\n";

fn find_skills(arguments: Arguments, _: Access) -> Result<Output, Failure> {
    let query = skills::check_query(&arguments.query)?;
    let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let SearchResult { hits, coverage } = skills::find(query, limit);
    let mut text = String::new();
    let mut skills = Vec::new();
    for hit in hits {
        let hit = Hit::from(hit);
        let line = hit.line();
        if text.len() + line.len() > MAX_ANSWER_BYTES {
            break;
        }
        text.push_str(&line);
        skills.push(hit);
    }
    let (searched, note) = match coverage {
        Coverage::All => ("all", ""),
        Coverage::Descriptions => ("descriptions", ONLY_DESCRIPTIONS),
        Coverage::Nothing => ("nothing", NOT_READY),
    };
    if skills.is_empty() && !matches!(coverage, Coverage::Nothing) {
        text.push_str(NOTHING_FITS);
    }
    text.push_str(note);
    Ok(Output::text(text).with(&FindResult { skills, searched }))
}

impl From<SearchHit> for Hit {
    fn from(hit: SearchHit) -> Self {
        let matches = hit.matches.iter().take(MAX_MATCHES);
        Self {
            description: one_line(&hit.skill.description, MAX_DESCRIPTION_CHARS),
            matches: matches
                .map(|matched| one_line(matched, MAX_MATCH_CHARS))
                .collect(),
            name: hit.skill.name,
        }
    }
}

impl Hit {
    /// Returns the line for the model.
    fn line(&self) -> String {
        let mut line = self.name.clone();
        if !self.description.is_empty() {
            line.push_str(": ");
            line.push_str(&self.description);
        }
        if !self.matches.is_empty() {
            line.push_str(" [matches: ");
            line.push_str(&self.matches.join(", "));
            line.push(']');
        }
        line.push('\n');
        line
    }
}

/// Returns third-party text as one line without control characters, cut to `max_chars`
/// characters.
fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if let Some((end, _)) = line.char_indices().nth(max_chars) {
        line.truncate(end);
        line.push('…');
    }
    line
}
