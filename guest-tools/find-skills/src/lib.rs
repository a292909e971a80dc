//! `find_skills`: the skills that fit a request in plain words. The host searches;
//! this tool words the answer in few tokens.
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
        /// Most skills in the answer. Default: 5, at most 20
        #[schemars(range(min = 1))]
        limit: Option<u64>,
    }
}

skillhost_guest::record! {
    struct Found {
        skills: Vec<Hit>,
        /// The text that was searched.
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

/// The most characters of a description: enough to choose by.
const DESCRIPTION_CHARS: usize = 200;

/// The most reasons of a hit, and the most characters of one.
const REASONS: usize = 4;
const REASON_CHARS: usize = 60;

/// The most bytes of the lines of an answer. Guards against: names and descriptions
/// in characters of four bytes, which fill a model's context.
const ANSWER_BYTES: usize = 7 * 1024;

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
        if text.len() + line.len() > ANSWER_BYTES {
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
    Ok(Output::text(text).with(&Found { skills, searched }))
}

impl From<SearchHit> for Hit {
    fn from(hit: SearchHit) -> Self {
        let matches = hit.matches.iter().take(REASONS);
        Self {
            description: one_line(&hit.skill.description, DESCRIPTION_CHARS),
            matches: matches
                .map(|reason| one_line(reason, REASON_CHARS))
                .collect(),
            name: hit.skill.name,
        }
    }
}

impl Hit {
    /// Returns the line that the model reads.
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

/// Returns a stranger's text without line breaks and control characters, cut to
/// this many characters.
fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if let Some((end, _)) = line.char_indices().nth(most) {
        line.truncate(end);
        line.push('…');
    }
    line
}
