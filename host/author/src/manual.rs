//! The program `skillhost-manual`: writes the manual pages and shell completions of `skillhost`
//! into a folder, under the paths that they have in an installed `share`. `cargo xtask release`
//! runs it.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap_complete::{Shell, generate_to};

const NAME: &str = "skillhost";

fn main() -> anyhow::Result<()> {
    let share = env::args_os().nth(1).context("expected a folder")?;
    let share = PathBuf::from(share);
    // A page for each `help VERB` would repeat the page of the verb.
    let mut command = skillhost_cli::command().disable_help_subcommand(true);
    for verb in skillhost_author::command().get_subcommands() {
        command = command.mut_subcommand(verb.get_name(), |_| verb.clone());
    }
    command = command.mut_subcommands(|verb| verb.disable_help_subcommand(true));
    for (shell, folder, file) in [
        (Shell::Bash, "bash-completion/completions", "skillhost"),
        (Shell::Zsh, "zsh/site-functions", "_skillhost"),
        (Shell::Fish, "fish/vendor_completions.d", "skillhost.fish"),
    ] {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        let written = generate_to(shell, &mut command, NAME, &folder)?;
        fs::rename(written, folder.join(file))?;
    }
    let pages = share.join("man/man1");
    fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(command, pages)?;
    Ok(())
}
