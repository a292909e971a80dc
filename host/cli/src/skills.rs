//! `skillhost skills`: lists the catalog, or shows one skill.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use skillhost::frontmatter::{Field, Pair};
use skillhost::{Catalog, Line, Listing, Skill, SkillSummary};
use skillhost_skills::text::count::count;
use skillhost_skills::text::suggest::did_you_mean;

use crate::packages::load_skills;
use skillhost_program::exit::Exit;
use skillhost_program::options::{self, CommonOptions, open_catalog};
use skillhost_program::terminal::{self, format_line};

/// The maximum number of problems that are shown one by one. Guards against: a thousand lines
/// below the list. `check` shows all problems.
const MAX_PROBLEMS: usize = 20;

/// The mark of an unlisted skill.
const UNLISTED_MARK: &str = "(not shown to models)";

/// The minimum number of columns for a description beside a name. A word would not fit into fewer.
const MIN_DESCRIPTION_COLUMNS: usize = 10;

/// List the skills and the problems found in them, or show one skill
///
/// Also lists skills that are hidden from models. Exits with 1 if a folder of skills has no skill,
/// or if there is no skill NAME.
#[derive(Args)]
pub(crate) struct SkillsCommand {
    /// Show this skill: its description, folder, files and scripts, and what its
    /// frontmatter declares
    name: Option<String>,
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
    pub(crate) fn execute(mut self, global_options: CommonOptions) -> anyhow::Result<Exit> {
        let options = global_options.merge(std::mem::take(&mut self.options));
        let catalog = open_catalog(&load_skills(&options)?.host)?;
        let has_empty_root = options::report_advice(&catalog);
        if let Some(name) = &self.name {
            return self.show(&catalog, name);
        }
        let mut listing = catalog.list();
        listing.problems.extend(catalog.nested_skills());
        match self.output {
            ListFormat::Json => terminal::print_json(&json(&listing))?,
            ListFormat::Table => {
                terminal::print(&table(&listing.skills, terminal::width()))?;
                report_problems(&listing.skills);
                for problem in &listing.problems {
                    terminal::complain(problem);
                }
            }
        }
        Ok(if has_empty_root {
            Exit::Failure
        } else {
            Exit::Ok
        })
    }

    /// Shows one skill.
    fn show(&self, catalog: &Catalog, name: &str) -> anyhow::Result<Exit> {
        let found = catalog.read(name);
        let Some((skill, summary)) = found.zip(catalog.summary(name).ok()) else {
            let similar = did_you_mean(catalog.nearest(name), '`');
            terminal::complain(if catalog.has(name) {
                format_line!("cannot open the folder of the skill `{name}`")
            } else {
                format_line!("there is no skill `{name}`{similar}")
            });
            return Ok(Exit::Failure);
        };
        match self.output {
            ListFormat::Json => terminal::print_json(&skill_json(&skill, &summary))?,
            ListFormat::Table => {
                terminal::print(&skill_lines(&skill, &summary))?;
                report_problems(&[skill]);
            }
        }
        Ok(Exit::Ok)
    }
}

/// Prints the first problems of skills.
fn report_problems(skills: &[Skill]) {
    let mut problems = skills.iter().flat_map(|skill| {
        let problems = skill.problems.iter();
        problems.map(|problem| format!("`{}`: {problem}", skill.name))
    });
    problems
        .by_ref()
        .take(MAX_PROBLEMS)
        .for_each(terminal::complain);
    if let more @ 1.. = problems.count() {
        terminal::complain(format_args!(
            "{} of skills; `skillhost check --all` lists them all",
            count(more, "more problem")
        ));
    }
}

/// Returns a skill as lines for people.
fn skill_lines(skill: &Skill, summary: &SkillSummary) -> Vec<Line> {
    let mut lines = vec![terminal::name(&skill.name)];
    let mut add = |key: &str, text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        lines.push(format_line!("  {key}: {}", words.join(" ")));
    };
    add("description", &skill.description);
    add("folder", &summary.folder.to_string_lossy());
    let mut files = format!(
        "{}, {}",
        count(summary.files, "file"),
        count(summary.bytes, "byte")
    );
    if summary.is_partial {
        files.push_str("; the folder has more entries, which are not counted");
    }
    if summary.unreadable > 0 {
        let entries = count(summary.unreadable, "entry");
        files.push_str(&format!("; no tool can read {entries}"));
    }
    add("files", &files);
    for (key, text) in declared(summary) {
        // Quotes an unusual key, because its author could make it look like other lines.
        add(terminal::name(&key).as_str(), &text);
    }
    if !summary.scripts.is_empty() {
        lines.push(format_line!("  scripts:"));
    }
    for script in &summary.scripts {
        lines.push(format_line!("    {}", terminal::name(script)));
    }
    if summary.more_scripts > 0 {
        lines.push(format_line!("    and {} more", summary.more_scripts));
    }
    lines
}

/// Returns the fields of a skill's frontmatter, except its name and description.
fn declared(summary: &SkillSummary) -> Vec<(String, String)> {
    let declared = &summary.declared;
    let text = |key: &str, field: &Option<Field<String>>| {
        let field = field.as_ref()?;
        Some((key.to_owned(), field.value.clone()))
    };
    let pair = |prefix: &str, pair: &Pair| (format!("{prefix}{}", pair.key), pair.value.clone());
    let metadata = declared.metadata.iter().flat_map(|field| &field.value);
    [
        text("license", &declared.license),
        text("compatibility", &declared.compatibility),
        text("allowed-tools", &declared.allowed_tools),
    ]
    .into_iter()
    .flatten()
    .chain(metadata.map(|entry| pair("metadata.", entry)))
    .chain(declared.unknown.iter().map(|entry| pair("", entry)))
    .collect()
}

fn skill_json(skill: &Skill, summary: &SkillSummary) -> Value {
    let declared: Map<String, Value> = declared(summary)
        .into_iter()
        .map(|(key, text)| (key, Value::from(text)))
        .collect();
    let mut shown = entry_json(skill);
    shown["folder"] = json!(summary.folder.to_string_lossy());
    shown["files"] = json!(summary.files);
    shown["bytes"] = json!(summary.bytes);
    shown["unreadable"] = json!(summary.unreadable);
    shown["is_partial"] = json!(summary.is_partial);
    shown["scripts"] = json!(summary.scripts);
    shown["more_scripts"] = json!(summary.more_scripts);
    shown["declared"] = Value::Object(declared);
    shown
}

fn json(listing: &Listing) -> Value {
    let skills: Value = listing.skills.iter().map(entry_json).collect();
    json!({ "skills": skills, "problems": listing.problems })
}

fn entry_json(skill: &Skill) -> Value {
    let mut record = json!({
        "name": skill.name,
        "description": skill.description,
        "location": skill.file.as_ref().map(|file| format!("{}/{file}", skill.name)),
        "problems": skill.problems,
    });
    if let Some(why) = skill.unlisted {
        record["unlisted"] = why.to_string().into();
    }
    record
}

/// Returns a row for each skill: its whole name, and as much of its description as fits the width.
/// A mark comes before the description of an unlisted skill.
pub(crate) fn table(skills: &[Skill], width: usize) -> Vec<Line> {
    use unicode_width::UnicodeWidthStr as _;

    let names: Vec<Line> = skills
        .iter()
        .map(|skill| terminal::name(&skill.name))
        .collect();
    // A long name leaves at least half of the width to the other descriptions.
    let name_width = names
        .iter()
        .map(|name| name.as_str().width())
        .max()
        .unwrap_or(0)
        .min(width / 2);
    let row = |(skill, name): (&Skill, &Line)| {
        let used = name.as_str().width().max(name_width);
        let padding = " ".repeat(used - name.as_str().width());
        let mark = skill.unlisted.map(|_| UNLISTED_MARK);
        let words = mark.into_iter().chain(skill.description.split_whitespace());
        let words: Vec<&str> = words.collect();
        // Escape before cutting: escapes take columns too.
        let description = Line::new(words.join(" "));
        let description = match width.saturating_sub(used + 2) {
            0..MIN_DESCRIPTION_COLUMNS => String::new(),
            columns => fit(description.as_str(), columns),
        };
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
    let mut used = 1; // the ellipsis
    let start: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect();
    format!("{}…", start.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr as _;

    fn skill(name: &str, description: &str) -> Skill {
        let root_folder = tempfile::tempdir().unwrap();
        let folder = root_folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\n");
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
        let root = skillhost::SkillsRoot::new(root_folder.path());
        let catalog = Catalog::open(&[root], None).unwrap();
        catalog.read(name).unwrap()
    }

    #[test]
    fn table_cuts_descriptions_but_not_names() {
        let long = "a-name-of-more-than-thirty-columns";
        let skills = [skill(long, "Adds numbers."), skill("b", "Adds numbers.")];
        let table = |width| {
            let lines = table(&skills, width);
            lines.iter().map(Line::to_string).collect::<Vec<_>>()
        };
        assert_eq!(table(60)[1], format!("b{}  Adds numbers.", " ".repeat(29)));
        assert_eq!(table(60)[0], format!("{long}  Adds numbers."));
        assert_eq!(table(46)[0], format!("{long}  Adds numb…"));
        for width in [0, 1, 20, 45] {
            assert_eq!(table(width)[0], long, "{width}");
        }
    }

    #[test]
    fn cuts_text_by_columns() {
        assert_eq!(fit("short", 10), "short");
        assert_eq!(fit("rather long", 8), "rather…");
        assert_eq!(fit("数据分析工具", 7).width(), 7);
        assert_eq!(fit("anything", 0), "…");
    }
}
