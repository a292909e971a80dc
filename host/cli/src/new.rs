//! `skillhost new`: a tool project to start from.

mod name;
mod sdk;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use skillhost::Line;

use crate::build;
use crate::exit::Exit;
use crate::kit::{self, Language};
use crate::terminal::{self, format_line};
use sdk::Sdk;

/// Make a project for a new tool, with a working tool, a skill and cases in it
#[derive(Args)]
#[command(after_help = build::RIGHTS)]
pub(crate) struct New {
    /// What the project and its tool are called, such as `look-up-term`
    name: String,
    /// The language that the tool is written in
    #[arg(long, value_enum)]
    lang: Language,
    /// Where to make it [default: a folder of that name, here]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    sdk: Sdk,
}

impl New {
    pub(crate) fn execute(self) -> anyhow::Result<Exit> {
        let folder = self.dir.clone().unwrap_or_else(|| (&self.name).into());
        let made = name::check(&self.name)
            .and_then(|()| self.sdk.dependency(self.lang))
            .and_then(|dependency| {
                must_be_free(&folder)?;
                Ok(dependency)
            });
        let dependency = match made {
            Ok(dependency) => dependency,
            Err(why) => {
                terminal::complain(format_args!("{why:#}"));
                return Ok(Exit::Usage);
            }
        };
        let tool = name::tool(&self.name);
        for (path, text) in self.lang.files() {
            // What others pin must not change with the name.
            let text = if path.contains("wit/") {
                text.to_owned()
            } else {
                let text = text.replace(kit::NAME, &self.name);
                text.replace(kit::TOOL, &tool)
            };
            let text = match &dependency {
                Some(line) if path == "Cargo.toml" => text.replace(sdk::LINE, line),
                _ => text,
            };
            write(&folder.join(path), &text)?;
        }
        terminal::print(&self.next(&folder, &tool))?;
        Ok(Exit::Ok)
    }

    fn next(&self, folder: &Path, tool: &str) -> [Line; 6] {
        let (folder, language) = (folder.display(), self.lang.name());
        [
            format_line!("made `{folder}`, a tool project in {language}; next:"),
            Line::default(),
            format_line!("  cd {}", quoted(&folder.to_string())),
            format_line!("  skillhost build"),
            format_line!("  skillhost test dist/{tool}.wasm --cases cases"),
            format_line!(
                "  skillhost call {tool} \
                 '{{\"skill_name\": \"sailing-terms\", \"term\": \"halyard\"}}'"
            ),
        ]
    }
}

/// Refuses what holds something already: nothing is ever written over.
fn must_be_free(folder: &Path) -> anyhow::Result<()> {
    match fs::read_dir(folder) {
        Ok(mut entries) => anyhow::ensure!(
            entries.next().is_none(),
            "the folder `{}` exists and is not empty; choose another with `--dir`",
            folder.display()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(error).with_context(|| {
                format!(
                    "`{}` cannot be used; choose another with `--dir`",
                    folder.display()
                )
            });
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
