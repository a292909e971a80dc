//! `skillhost runners`: lists the runners of skills' scripts in this installation.

use std::fs;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use skillhost::Line;
use skillhost_program::exit::Exit;
use skillhost_program::options::ReportFormat;
use skillhost_program::runners::{self, RUNNERS, Runner};
use skillhost_program::terminal::{self, format_line};

/// List the runners of skills' scripts that come with skillhost, and show how to
/// grant them
///
/// Exits with 1 if there is none.
#[derive(Args)]
pub(crate) struct RunnersCommand {
    /// Form of the list
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

impl RunnersCommand {
    pub(crate) fn execute(self) -> anyhow::Result<Exit> {
        let folder = runners::folder().context("cannot find the folder of this program")?;
        let mut installed = Vec::new();
        for runner in &runners::ALL {
            if let Ok(metadata) = fs::metadata(folder.join(runner.file)) {
                installed.push((runner, metadata.len()));
            }
        }
        if let ReportFormat::Json = self.output {
            let rows = installed.iter().map(|(runner, bytes)| {
                json!({
                    "language": runner.language,
                    "path": folder.join(runner.file),
                    "bytes": bytes,
                    "scripts": runner.scripts,
                })
            });
            terminal::print_json(&rows.collect())?;
        } else {
            let mut lines = Vec::new();
            for (runner, bytes) in &installed {
                let path = folder.join(runner.file);
                let (language, megabytes) = (runner.language, *bytes as f64 / 1e6);
                lines.push(format_line!(
                    "{language:12}{megabytes:5.1} MB  {}",
                    path.display()
                ));
            }
            if !installed.is_empty() {
                lines.extend(advice(installed.iter().map(|(runner, _)| *runner)));
            }
            terminal::print(&lines)?;
        }
        if installed.is_empty() {
            terminal::complain(format_args!(
                "there are no runners in `{}`: only packages of skillhost contain them; in a \
                 checkout, `skillhost build guest-tools/runners/python` builds the one for Python",
                folder.display()
            ));
            return Ok(Exit::Failure);
        }
        Ok(Exit::Ok)
    }
}

/// Returns the lines of a configuration that grants the runners all skills.
fn advice<'a>(runners: impl Iterator<Item = &'a Runner>) -> Vec<Line> {
    let mut lines = vec![
        Line::default(),
        format_line!("`--tools {RUNNERS}` loads them. Grant them scripts in the configuration:"),
    ];
    for runner in runners {
        lines.extend([
            Line::default(),
            format_line!("[grants.\"{}\"]", runner.file),
            format_line!("skills = [\"*\"]"),
            format_line!("scripts = {:?}", runner.scripts),
            format_line!("view = \"copy-on-write\""),
            format_line!("limits.memory = \"256MiB\""),
            format_line!("limits.time = \"30s\""),
        ]);
    }
    lines
}
