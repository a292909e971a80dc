//! `skillhost new`: creates a tool project.

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
#[command(after_help = build::BUILD_WARNING)]
pub(crate) struct NewCommand {
    /// Name of the project and its tool, such as `look-up-term`
    name: String,
    /// Language of the tool
    #[arg(long, value_enum)]
    lang: Language,
    /// Create the project in this folder [default: ./NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Define the tools as typed functions in WIT
    #[arg(long, conflicts_with_all = ["sdk_path", "sdk_version"])]
    typed: bool,
    #[command(flatten)]
    sdk: SdkSource,
}

impl NewCommand {
    pub(crate) fn execute(self) -> anyhow::Result<Exit> {
        let folder = self.dir.clone().unwrap_or_else(|| (&self.name).into());
        let sdk = match self.check(&folder) {
            Ok(sdk) => sdk,
            Err(error) => {
                terminal::complain(format_args!("{error:#}"));
                return Ok(Exit::Usage);
            }
        };
        let tool = name::tool(&self.name);
        if self.typed {
            self.write_typed(&folder, &tool)?;
        } else {
            self.write_plain(&folder, &tool, sdk.as_deref())?;
        }
        terminal::print(&self.next_steps(&folder, &tool))?;
        Ok(Exit::Ok)
    }

    /// Checks the arguments. Returns the manifest's line for the SDK, if it is not the default.
    fn check(&self, folder: &Path) -> anyhow::Result<Option<String>> {
        name::check(&self.name)?;
        if self.typed {
            name::check_wit(&self.name)?;
        }
        let sdk = self.sdk.dependency(self.lang)?;
        check_empty(folder)?;
        Ok(sdk)
    }

    fn write_typed(&self, folder: &Path, tool: &str) -> anyhow::Result<()> {
        let (kebab, camel) = (tool.replace('_', "-"), name::camel(tool));
        for (path, text) in self.lang.typed_files() {
            let text = text
                .replace(kit::NAME, &kebab)
                .replace(kit::TOOL, tool)
                .replace(kit::CAMEL, &camel);
            write(&folder.join(path), &text)?;
        }
        Ok(())
    }

    fn write_plain(&self, folder: &Path, tool: &str, sdk: Option<&str>) -> anyhow::Result<()> {
        for (path, text) in self.lang.files() {
            let is_sdk = path.starts_with(kit::SDK_FOLDER);
            if is_sdk && sdk.is_some() {
                continue;
            }
            // The WIT package and the SDK are the same in all projects.
            if is_sdk || path.contains("wit/") {
                write(&folder.join(path), text)?;
                continue;
            }
            let mut text = text.replace(kit::NAME, &self.name).replace(kit::TOOL, tool);
            if let (Some(line), "Cargo.toml") = (sdk, &*path) {
                text = text.replace(sdk::LINE, line);
            }
            write(&folder.join(path), &text)?;
        }
        Ok(())
    }

    /// Returns the commands to run next.
    fn next_steps(&self, folder: &Path, tool: &str) -> [Line; 8] {
        let (folder, language) = (folder.display(), self.lang.name());
        [
            format_line!("created `{folder}`, a tool project in {language}; next:"),
            Line::default(),
            format_line!("  cd {}", quote(&folder.to_string())),
            format_line!("  skillhost build"),
            format_line!("  skillhost test dist/{tool}.wasm --cases cases"),
            format_line!(
                "  skillhost call {tool} \
                 '{{\"skill_name\": \"sailing-terms\", \"term\": \"halyard\"}}'"
            ),
            Line::default(),
            format_line!(
                "to make it yours, change {}`{}`, replace the files in `cases` and `skills`, and \
                 grant the tool your skills in `skillhost.toml`",
                if self.typed { "`wit` and " } else { "" },
                self.lang.source()
            ),
        ]
    }
}

/// Refuses a folder that is not empty, because `new` overwrites nothing.
fn check_empty(folder: &Path) -> anyhow::Result<()> {
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

/// Creates a file, and the folders above it.
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
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
