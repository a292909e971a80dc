//! `skillhost new`: creates a tool project to start from.

mod name;
mod sdk;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use skillhost::Line;

use crate::build;
use crate::kit::{self, Language};
use sdk::SdkSource;
use skillhost_program::exit::Exit;
use skillhost_program::terminal::{self, format_line};

/// Create a tool project with a working tool, a skill and cases
#[derive(Args)]
#[command(after_help = build::RIGHTS)]
pub(crate) struct NewCommand {
    /// Name of the project and its tool, such as `look-up-term`
    name: String,
    /// Language of the tool
    #[arg(long, value_enum)]
    lang: Language,
    /// Create the project in this folder [default: ./NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Make functions with types of their own, in WIT, the tools
    #[arg(long, conflicts_with_all = ["sdk_path", "sdk_version"])]
    typed: bool,
    #[command(flatten)]
    sdk: SdkSource,
}

impl NewCommand {
    pub(crate) fn execute(self) -> anyhow::Result<Exit> {
        let folder = self.dir.clone().unwrap_or_else(|| (&self.name).into());
        let checked = name::check(&self.name)
            .and_then(|()| {
                if self.typed {
                    name::check_wit(&self.name)
                } else {
                    Ok(())
                }
            })
            .and_then(|()| self.sdk.dependency(self.lang))
            .and_then(|dependency| {
                must_be_free(&folder)?;
                Ok(dependency)
            });
        let dependency = match checked {
            Ok(dependency) => dependency,
            Err(why) => {
                terminal::complain(format_args!("{why:#}"));
                return Ok(Exit::Usage);
            }
        };
        let tool = name::tool(&self.name);
        if self.typed {
            let (kebab, camel) = (tool.replace('_', "-"), name::camel(&tool));
            for (path, text) in self.lang.typed_files() {
                let text = text.replace(kit::NAME, &kebab).replace(kit::TOOL, &tool);
                write(&folder.join(path), &text.replace(kit::CAMEL, &camel))?;
            }
            terminal::print(&self.next(&folder, &tool))?;
            return Ok(Exit::Ok);
        }
        for (path, text) in self.lang.files() {
            if dependency.is_some() && path.starts_with(kit::SDK_FOLDER) {
                continue;
            }
            // Others pin the WIT package and the SDK: they do not change with the name.
            let text = if path.contains("wit/") || path.starts_with(kit::SDK_FOLDER) {
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

    fn next(&self, folder: &Path, tool: &str) -> [Line; 8] {
        let (folder, language) = (folder.display(), self.lang.name());
        [
            format_line!("created `{folder}`, a tool project in {language}; next:"),
            Line::default(),
            format_line!("  cd {}", quoted(&folder.to_string())),
            format_line!("  skillhost build"),
            format_line!("  skillhost test dist/{tool}.wasm --cases cases"),
            format_line!(
                "  skillhost call {tool} \
                 '{{\"skill_name\": \"sailing-terms\", \"term\": \"halyard\"}}'"
            ),
            Line::default(),
            format_line!(
                "to make it yours, change {}, replace what lies in `cases` and `skills`, and grant \
                 the tool your skills in `skillhost.toml`",
                match self.typed {
                    true => format!("`wit` and `{}`", self.lang.source()),
                    false => format!("`{}`", self.lang.source()),
                }
            ),
        ]
    }
}

/// Refuses a folder that holds something: `new` overwrites nothing.
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
                    "cannot use `{}`; choose another folder with `--dir`",
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

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
