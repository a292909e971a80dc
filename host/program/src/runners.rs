//! The runners of skills' scripts that come with an installation of this program.

use std::env;
use std::io;
use std::path::PathBuf;

/// The value of `--tools` that stands for the folder of the runners.
pub const RUNNERS: &str = "runners";

/// A runner of the scripts of one language.
pub struct Runner {
    /// The language of the scripts.
    pub language: &'static str,
    /// The name of the component's file, which is also its name in a grant.
    pub file: &'static str,
    /// The patterns of the scripts that the runner may start, for a grant.
    pub scripts: &'static [&'static str],
}

/// Every runner of this version.
pub const ALL: [Runner; 2] = [
    Runner {
        language: "Python",
        file: "run_skill_script.wasm",
        scripts: &["scripts/**/*.py"],
    },
    Runner {
        language: "JavaScript",
        file: "run_skill_javascript.wasm",
        scripts: &["scripts/**/*.js", "scripts/**/*.mjs"],
    },
];

/// Returns the folder where an installation of this program has its runners:
/// `../share/skillhost/runners`, as seen from the program. The folder may not exist.
pub fn folder() -> io::Result<PathBuf> {
    let mut folder = env::current_exe()?;
    // Remove the program's name and its folder.
    folder.pop();
    folder.pop();
    folder.extend(["share", "skillhost", RUNNERS]);
    Ok(folder)
}
