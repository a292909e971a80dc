//! Counts the lines of a file in a skill.

use skillhost_guest::{Access, Failure, Output, SkillPath, Tool};

skillhost_guest::arguments! {
    struct CountLines {
        /// Name of the skill
        skill_name: String,
        /// Path of a text file in the skill's folder
        path: String,
    }
}

fn count_lines(arguments: CountLines, access: Access) -> Result<Output, Failure> {
    let path = SkillPath::new(&arguments.path)?;
    let text = access.folder()?.read(&path, 1 << 20)?.into_text()?;
    Ok(Output::text(format!(
        "{} lines in {} of {}",
        text.lines().count(),
        path.as_str(),
        arguments.skill_name
    )))
}

skillhost_guest::export_tools!(
    Tool::new(
        "count_lines",
        "Count the lines of a file in a skill.",
        count_lines
    )
    .in_skill_at("skill_name", "path")
);
