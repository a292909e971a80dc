//! `search_in_skill`: finds lines in a skill's text files, by words or by a regular
//! expression. The search and the answer have limits. The answer says when a limit was
//! reached.

mod find;
mod query;
mod walk;

use skillhost_guest::{Access, Failure, Output, SkillPath, Tool};

use find::{Match, Search};
use query::Query;
use walk::Walk;

skillhost_guest::arguments! {
    struct Arguments {
        /// Name of the skill
        #[serde(rename = "skill_name")]
        _skill_name: String,
        /// Words that a line must all hold, in any case; or a regular expression, if regex is true
        query: String,
        /// Whether the query is a regular expression. It is case-sensitive unless it begins with (?i)
        regex: Option<bool>,
        /// File or folder in the skill to search; all of it, if left out
        path: Option<String>,
        /// Lines to show before and after each match; 0, if left out
        #[schemars(range(max = 10))]
        context: Option<usize>,
        /// Maximum number of matches to return; 20, if left out
        #[schemars(range(min = 1, max = 100))]
        max_results: Option<usize>,
    }
}

skillhost_guest::record! {
    struct Record {
        matches: Vec<Match>,
        files_searched: usize,
        /// True if not all text was searched, or if there are more matches.
        truncated: bool,
    }
}

skillhost_guest::export_tools!(
    Tool::new(
        "search_in_skill",
        "Find lines in the text files of a skill, by words or by a regular expression. Returns \
         the file and the line number of each, so that you can read that part of the file.",
        search_in_skill,
    )
    .title("Search in a skill")
    .in_skill_at("skill_name", "path")
    .output_schema(include_str!("output.schema.json"))
);

/// The default maximum number of matches.
const DEFAULT_MAX_RESULTS: usize = 20;

fn search_in_skill(call: Arguments, access: Access) -> Result<Output, Failure> {
    let query = Query::new(&call.query, call.regex.unwrap_or(false))?;
    let folder = access.folder()?;
    let start = match call.path.as_deref() {
        None | Some("") => SkillPath::new(".")?,
        Some(path) => SkillPath::new(path)?,
    };
    let max_matches = call.max_results.unwrap_or(DEFAULT_MAX_RESULTS);
    let mut search = Search::new(query, call.context.unwrap_or(0), max_matches);
    let walk = Walk::from(&folder, &start, &mut |path, text| search.search(path, text))?;
    let truncated = walk.is_truncated || search.has_more;
    let text = search.text(walk.file_count, truncated);
    Ok(Output::text(text).with(&Record {
        matches: search.matches,
        files_searched: walk.file_count,
        truncated,
    }))
}
