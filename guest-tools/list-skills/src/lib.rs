//! `list_skills`: lists the skills with their descriptions. A small catalog fits into one
//! answer; a larger one has pages.
#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use skillhost_guest::skills::{Coverage, SearchResult, Skill, SkillPage};
use skillhost_guest::{Access, Failure, Output, Tool, check_skill_name, skills};

skillhost_guest::arguments! {
    struct Arguments {
        /// Words to search for. Default: list all skills
        query: Option<String>,
        /// Maximum number of skills in the answer. Default and limit: 100
        #[schemars(range(min = 1))]
        limit: Option<u64>,
        /// `next_cursor` of the previous answer
        cursor: Option<String>,
    }
}

skillhost_guest::record! {
    struct Listing {
        skills: Vec<Entry>,
        /// The number of all skills. Absent if this answer has all of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<String>,
        /// The part of the text that was searched. Absent if all text was searched.
        #[serde(skip_serializing_if = "Option::is_none")]
        searched: Option<&'static str>,
    }
}

skillhost_guest::record! {
    struct Entry {
        name: String,
        description: String,
    }
}

skillhost_guest::without_std!();

skillhost_guest::export_tools!(
    Tool::new(
        "list_skills",
        "List the available skills with the name and description of each. Call this to find out \
         which skill fits the user's request.",
        list_skills,
    )
    .title("List the skills")
    .model_reads_record()
    .output_schema(include_str!("output.schema.json"))
);

/// The maximum number of skills in an answer.
const MAX_PAGE_SKILLS: u64 = 100;

/// The maximum number of bytes in an answer, as JSON. Guards against: a hundred descriptions
/// of 1,024 characters, which fill a model's context.
const MAX_PAGE_BYTES: usize = 32 * 1024;

/// The number of bytes of JSON around a name and a description.
const ENTRY_BYTES: usize = r#"{"name":"","description":""},"#.len();

fn list_skills(arguments: Arguments, _: Access) -> Result<Output, Failure> {
    let Arguments {
        query,
        limit,
        cursor,
    } = arguments;
    let limit = limit.unwrap_or(MAX_PAGE_SKILLS).min(MAX_PAGE_SKILLS);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let listing = match query {
        Some(query) => search(&query, limit, cursor.as_deref()),
        None => page(limit, cursor.as_deref()),
    };
    listing.map(|listing| Output::record(&listing))
}

fn page(limit: u32, cursor: Option<&str>) -> Result<Listing, Failure> {
    if !cursor.is_none_or(check_skill_name) {
        return Err(Failure::invalid_arguments(
            "The cursor is not from list_skills; call list_skills without cursor.",
        ));
    }
    let SkillPage {
        skills,
        total,
        next,
    } = skills::page(cursor, limit);
    let (skills, left_out) = entries(skills.into_iter());
    // A page before the last may be empty: the host reads only so many unlisted skills for each.
    if cursor.is_some() && skills.is_empty() && next.is_none() {
        return Err(Failure::not_found(
            "No skill comes at or after this cursor; call list_skills without cursor.",
        ));
    }
    let next_cursor = left_out.or(next);
    let is_paged = cursor.is_some() || next_cursor.is_some();
    Ok(Listing {
        skills,
        total: is_paged.then_some(total),
        next_cursor,
        searched: None,
    })
}

fn search(query: &str, limit: u32, cursor: Option<&str>) -> Result<Listing, Failure> {
    if cursor.is_some() {
        return Err(Failure::invalid_arguments(
            "A search has one page: give query or cursor, not both.",
        ));
    }
    let query = skills::check_query(query)?;
    let SearchResult { hits, coverage } = skills::find(query, limit);
    let searched = match coverage {
        Coverage::Nothing => {
            return Err(Failure::failed(
                "The skills cannot be searched yet. Call list_skills without query, or again in \
                 some seconds.",
            ));
        }
        Coverage::Descriptions => Some("names and descriptions, as the rest is still being read"),
        Coverage::All => None,
    };
    let (skills, _) = entries(hits.into_iter().map(|hit| hit.skill));
    Ok(Listing {
        skills,
        total: None,
        next_cursor: None,
        searched,
    })
}

/// Returns the skills that fit into an answer, at least one, and the name of the first skill
/// that does not fit.
fn entries(skills: impl Iterator<Item = Skill>) -> (Vec<Entry>, Option<String>) {
    let mut entries = Vec::new();
    let mut bytes = 0;
    for Skill { name, description } in skills {
        bytes += ENTRY_BYTES + json_length(&name) + json_length(&description);
        if bytes > MAX_PAGE_BYTES && !entries.is_empty() {
            return (entries, Some(name));
        }
        entries.push(Entry { name, description });
    }
    (entries, None)
}

/// Returns the maximum number of bytes that a text has in a JSON string.
fn json_length(text: &str) -> usize {
    let length = |c: char| match c {
        '"' | '\\' => 2,
        c if c < ' ' => r"\u0000".len(),
        c => c.len_utf8(),
    };
    text.chars().map(length).sum()
}
