//! `skillhost skills`: lists the catalog.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use skillhost::{Line, Listing, Skill};

use crate::settings::Settings;
use skillhost_program::exit::Exit;
use skillhost_program::options::{self, CommonOptions, open_catalog};
use skillhost_program::terminal;

/// The maximum number of problems that are shown one by one. Guards against: a thousand lines
/// below the list. `check` shows all problems.
const MAX_PROBLEMS: usize = 20;

/// List the skills and the problems found in them
#[derive(Args)]
pub(crate) struct SkillsCommand {
    /// Form of the list
    #[arg(long, value_enum, default_value_t = ListFormat::Table)]
    output: ListFormat,
    #[command(flatten)]
    options: CommonOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum ListFormat {
    /// A table for people
    Table,
    /// JSON for programs
    Json,
}

impl SkillsCommand {
    pub(crate) fn execute(mut self, outer: CommonOptions) -> anyhow::Result<Exit> {
        let options = outer.merge(std::mem::take(&mut self.options));
        let catalog = open_catalog(&options.load::<Settings>()?.host)?;
        options::report_advice(&catalog);
        let listing = catalog.list();
        match self.output {
            ListFormat::Json => terminal::print_json(&json(&listing))?,
            ListFormat::Table => {
                terminal::print(&table(&listing.skills, terminal::width()))?;
                let skills = listing.skills.iter();
                let mut problems = skills.flat_map(|skill| {
                    let problems = skill.problems.iter();
                    problems.map(|problem| format!("`{}`: {problem}", skill.name))
                });
                problems
                    .by_ref()
                    .take(MAX_PROBLEMS)
                    .for_each(terminal::complain);
                if let more @ 1.. = problems.count() {
                    terminal::complain(format_args!(
                        "{more} more problems of skills; `skillhost check --all` lists them all"
                    ));
                }
                for problem in &listing.problems {
                    terminal::complain(problem);
                }
            }
        }
        Ok(Exit::Ok)
    }
}

fn json(listing: &Listing) -> Value {
    let skills: Value = listing
        .skills
        .iter()
        .map(|skill| {
            json!({
                "name": skill.name,
                "description": skill.description,
                "location": skill.file.as_ref().map(|file| format!("{}/{file}", skill.name)),
                "problems": skill.problems,
            })
        })
        .collect();
    json!({ "skills": skills, "problems": listing.problems })
}

/// Returns a row for each skill: its name, and as much of its description as fits the width.
fn table(skills: &[Skill], width: usize) -> Vec<Line> {
    use unicode_width::UnicodeWidthStr as _;

    let names: Vec<Line> = skills
        .iter()
        .map(|skill| terminal::name(&skill.name))
        .collect();
    // On a narrow terminal, names take at most half of the width.
    let name_width = names
        .iter()
        .map(|name| name.as_str().width())
        .max()
        .unwrap_or(0)
        .min(width / 2);
    let row = |(skill, name): (&Skill, &Line)| {
        let name = fit(name.as_str(), name_width);
        let padding = " ".repeat(name_width.saturating_sub(name.width()));
        let words: Vec<&str> = skill.description.split_whitespace().collect();
        // Escape before cutting: escapes take columns too.
        let description = Line::new(words.join(" "));
        let description = fit(description.as_str(), width.saturating_sub(name_width + 2));
        Line::new(format!("{name}{padding}  {description}").trim_end())
    };
    skills.iter().zip(&names).map(row).collect()
}

/// Returns the text, cut to a number of columns.
fn fit(text: &str, columns: usize) -> String {
    use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

    if text.width() <= columns {
        return text.to_owned();
    }
    let mut used = 1;
    let kept: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr as _;

    #[test]
    fn cuts_text_by_columns() {
        assert_eq!(fit("short", 10), "short");
        assert_eq!(fit("rather long", 8), "rather…");
        assert_eq!(fit("数据分析工具", 7).width(), 7);
        assert_eq!(fit("anything", 0), "…");
    }
}
