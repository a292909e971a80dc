//! The tool `look_up_term`: looks up the meaning of a word in a skill's glossary.

use skillhost_guest::{Access, Failure, Output, Tool};

/// The maximum size of a glossary in bytes.
const LARGEST: u64 = 1 << 20;
/// The maximum number of terms to list when a term is not found.
const LISTED: usize = 50;

skillhost_guest::arguments! {
    struct LookUpTerm {
        /// Name of the skill
        skill_name: String,
        /// The term, in upper or lower case
        term: String,
        /// Path of the glossary in the skill's folder; glossary.txt if left out
        file_path: Option<String>,
    }
}

fn look_up_term(arguments: LookUpTerm, access: Access) -> Result<Output, Failure> {
    let term = arguments.term.trim();
    if term.is_empty() {
        return Err(Failure::invalid_arguments("The term is empty."));
    }
    let file = arguments.file_path.as_deref().unwrap_or("glossary.txt");
    let text = access.folder()?.read_text(file, LARGEST)?;
    let mut terms = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, meaning)) = line.split_once(':') else {
            continue;
        };
        if name.trim().eq_ignore_ascii_case(term) {
            return Ok(Output::text(meaning.trim()));
        }
        terms.push(name.trim());
    }
    terms.truncate(LISTED);
    Err(Failure::not_found(format!(
        "{file} has no term '{term}'. It has: {}.",
        terms.join(", ")
    )))
}

skillhost_guest::export_tools!(
    Tool::new(
        "look_up_term",
        "Look up what a term means in a skill's glossary.",
        look_up_term
    )
    .title("Look up a term")
    .in_skill_at("skill_name", "file_path")
);
