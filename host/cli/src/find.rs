//! `skillhost find`: searches the skills like the tool `find_skills`, for people and programs.

use clap::Args;
use serde_json::{Value, json};
use skillhost::config::Config;
use skillhost::{Line, SearchHit, Skill};

use crate::packages::load_skills;
use crate::skills::table;
use skillhost_program::exit::Exit;
use skillhost_program::options::{CommonOptions, ReportFormat};
use skillhost_program::terminal::{self, format_line};

/// The maximum number of reasons of a hit that are shown.
const MAX_REASONS: usize = 4;

/// Find the skills that fit a request in plain words, best first
///
/// Searches as the tool `find_skills` does. Exits with 1 if no skill fits.
#[derive(Args)]
pub(crate) struct FindCommand {
    /// The task, in plain words
    #[arg(required = true)]
    query: Vec<String>,
    /// Show at most this number of skills
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
    #[command(flatten)]
    options: CommonOptions,
}

impl FindCommand {
    pub(crate) async fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let configured = load_skills(&options)?.host;
        // A search needs no tools. Without grants, it also finds skills that agents may not read.
        let mut config = Config::default();
        config.skills = configured.skills;
        config.hard_links = configured.hard_links;
        let host = options.build_host_without_calls(config).await?;
        let query = self.query.join(" ");
        let hits = options.search(&host, &query, self.limit.into()).await;
        let hits: Vec<(Skill, SearchHit)> = hits
            .into_iter()
            .filter_map(|hit| Some((host.catalog().read(&hit.name)?, hit)))
            .collect();
        match self.output {
            ReportFormat::Text => terminal::print(&lines(&hits))?,
            ReportFormat::Json => {
                let skills: Value = hits.iter().map(to_json).collect();
                terminal::print_json(&json!({ "skills": skills }))?;
            }
        }
        if hits.is_empty() {
            terminal::complain(
                "no skill fits: try other words, or `skillhost skills`, which lists all",
            );
            return Ok(Exit::Failure);
        }
        Ok(Exit::Ok)
    }
}

/// Returns the hits for people: each skill's row, as in `skillhost skills`, and the reasons why it
/// matches.
fn lines(hits: &[(Skill, SearchHit)]) -> Vec<Line> {
    let skills: Vec<Skill> = hits.iter().map(|(skill, _)| skill.clone()).collect();
    let mut lines = Vec::new();
    for (row, (_, hit)) in table(&skills, terminal::width()).into_iter().zip(hits) {
        lines.push(row);
        let reasons = &hit.matches[..hit.matches.len().min(MAX_REASONS)];
        if !reasons.is_empty() {
            lines.push(format_line!("  matches: {}", reasons.join(", ")));
        }
    }
    lines
}

fn to_json((skill, hit): &(Skill, SearchHit)) -> Value {
    json!({
        "name": skill.name,
        "description": skill.description,
        "matches": hit.matches,
    })
}
