//! `search_in_skill`: the lines of a skill's text files that hold some words,
//! or that a regular expression matches. What is searched and what is answered
//! are bounded, and the answer says where it is cut.

mod find;
mod query;
mod walk;

use skillhost_guest::{Access, Failure, Output, SkillPath, Tool};

use find::{Found, Match};
use query::Query;
use walk::Walk;

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of the skill
        #[serde(rename = "skill_name")]
        _skill_name: String,
        /// Words that a line must all hold, in any case; or a regular expression, if regex is true
        query: String,
        /// Whether the query is a regular expression. It tells upper from lower case unless it begins with (?i)
        regex: Option<bool>,
        /// File or folder in the skill to search; all of it, if left out
        path: Option<String>,
        /// Lines to show before and after each match; 0, if left out
        #[schemars(range(max = 10))]
        context: Option<usize>,
        /// Most matches to give; 20, if left out
        #[schemars(range(min = 1, max = 100))]
        max_results: Option<usize>,
    }
}

skillhost_guest::record! {
    struct Record {
        matches: Vec<Match>,
        files_searched: usize,
        /// Not all was searched, or more matches.
        truncated: bool,
    }
}

skillhost_guest::export_tools!(
    Tool::new(
        "search_in_skill",
        "Find lines in the text files of a skill, by words or by a regular expression. Gives the \
         file and the line number of each, so that a part of the file can be read then.",
        search_in_skill,
    )
    .title("Search in a skill")
    .in_skill_at("skill_name", "path")
    .output_schema(include_str!("output.schema.json"))
);

/// Matches, where the call does not say how many.
const RESULTS: usize = 20;

fn search_in_skill(call: Arguments, access: Access) -> Result<Output, Failure> {
    let query = Query::new(&call.query, call.regex.unwrap_or(false))?;
    let folder = access.folder()?;
    let start = match call.path.as_deref() {
        None | Some("") => SkillPath::new(".")?,
        Some(path) => SkillPath::new(path)?,
    };
    let results = call.max_results.unwrap_or(RESULTS);
    let mut found = Found::new(query, call.context.unwrap_or(0), results);
    let walk = Walk::from(&folder, &start, &mut |path, text| found.search(path, text))?;
    let truncated = walk.cut || found.more;
    Ok(
        Output::text(found.text(walk.files, truncated)).with(&Record {
            matches: found.matches,
            files_searched: walk.files,
            truncated,
        }),
    )
}
