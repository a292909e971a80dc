//! The functions of `wit/`: look up the meaning of a word in a skill's glossary.

use std::io::ErrorKind;

use exports::local::glossary::terms::{Entry, Guest};

wit_bindgen::generate!({ path: "wit" });

/// The maximum number of terms to list when a term is not found.
const LISTED: usize = 50;

/// The exports of the component.
struct Glossary;

export!(Glossary);

impl Guest for Glossary {
    fn look_up_term(
        skill_name: String,
        term: String,
        file_path: Option<String>,
    ) -> Result<Entry, String> {
        let term = term.trim();
        if term.is_empty() {
            return Err("The term is empty.".to_owned());
        }
        let file = file_path.as_deref().unwrap_or("glossary.txt");
        // The sandbox has only the skill's folder.
        let text = std::fs::read_to_string(format!("/skills/{skill_name}/{file}"));
        let text = text.map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!("{file}: not found"),
            _ => format!("{file}: cannot be read"),
        })?;

        let mut terms = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, meaning)) = line.split_once(':') else {
                continue;
            };
            if name.trim().eq_ignore_ascii_case(term) {
                return Ok(Entry {
                    term: name.trim().to_owned(),
                    meaning: meaning.trim().to_owned(),
                });
            }
            terms.push(name.trim());
        }
        terms.truncate(LISTED);
        Err(format!(
            "{file} has no term '{term}'. It has: {}.",
            terms.join(", ")
        ))
    }
}
