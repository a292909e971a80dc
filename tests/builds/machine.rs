//! A test machine: a project, a cache, and scripts that replace compilers.

use super::*;

/// Replaces Python: makes an environment with a symlink to itself, installs a compiler, and
/// compiles.
pub(super) const PYTHON: &str = r#"
# Log the first line of a script.
echo "python $*" | head -n 1 >>"$LOG"
for last; do :; done
case "$*" in
    *version_info*) echo 3 12 ;;
    *"-m venv"*) mkdir -p "$last/bin" && ln -s "$0" "$last/bin/python" ;;
    *"-m pip"*) : >"${0%/*}/componentize-py"; cat requirements.txt >>"$LOG.requirements" ;;
    *ziglang*) exit 1 ;;
esac
while [ $# -gt 0 ]; do
    [ "$1" = -o ] && cp "$COMPONENT" "$2"
    shift
done
exit 0
"#;

/// Replaces Node.js, and the script that compiles.
pub(super) const NODE: &str = r#"
case "$1" in
    --version) echo v20.0.0 ;;
    --check) ;;
    componentize.mjs) cp "$COMPONENT" "$3" && cat src/*.js >"$LOG.sources"; echo "$4" >"$LOG.network" ;;
esac
"#;

/// Replaces npm, and like npm finds Node.js on the PATH. Fails at its end if `FAIL` is set.
pub(super) const NPM: &str = r#"
echo "npm $*" >>"$LOG"
cp package-lock.json "$LOG.lock"
/usr/bin/env node --version >/dev/null
compiler=node_modules/@bytecodealliance/componentize-js/src
mkdir -p $compiler
: >$compiler/cli.js
[ -z "$FAIL" ]
"#;

/// A folder with a project, a cache, and the programs of a machine.
pub(crate) struct Machine {
    pub(crate) program: Program,
    pub(crate) project: PathBuf,
}

impl Machine {
    pub(crate) fn with_project(language: &str) -> Self {
        let program = Program::new();
        for (name, script) in [("python3", PYTHON), ("node", NODE), ("npm", NPM)] {
            program.script(&format!("bin/{name}"), script);
        }
        let run = program.run(&["new", "project", "--lang", language]);
        assert_eq!(run.code, 0, "{run:?}");
        let project = program.folder.path().join("project");
        Self { program, project }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.program.folder.path().join(name)
    }

    pub(crate) fn build(&self) -> Run {
        self.build_with(&[])
    }

    /// Writes a file of the project, then builds.
    pub(super) fn build_with_text(&self, file: &str, text: &str) -> Run {
        fs::write(self.project.join(file), text).unwrap();
        self.build()
    }

    pub(crate) fn build_with(&self, variables: &[(&str, &Path)]) -> Run {
        let mut command = self.command(&["build"]);
        for (name, value) in variables {
            command.env(name, value);
        }
        finish(command, "")
    }

    /// Returns a command in the project's folder, with a PATH that names this folder in many ways.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let inside = [
            String::new(),
            ".".to_owned(),
            self.project.display().to_string(),
            self.project.join("node_modules/.bin").display().to_string(),
            self.path("link").display().to_string(),
            self.path("linked").display().to_string(),
        ];
        let mut command = self.program.command(arguments);
        command
            .current_dir(&self.project)
            .env(
                "PATH",
                format!(
                    "{}:{}:/usr/bin:/bin",
                    inside.join(":"),
                    self.path("bin").display()
                ),
            )
            .env("SKILLHOST_CACHE", self.path("cache"))
            .env(
                "COMPONENT",
                repository().join("tests/guests/dist/count_lines.wasm"),
            )
            .env("LOG", self.path("log"));
        command
    }

    /// Returns the commands that ran, one line each.
    pub(super) fn logged(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Returns how often a build installed a compiler.
    pub(crate) fn install_count(&self) -> usize {
        let installs = |line: &&String| line.contains("-m venv") || line.starts_with("npm ci");
        self.logged().iter().filter(installs).count()
    }

    /// Returns the environments in the cache, without the project's data for later builds.
    pub(super) fn environments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache/environments")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_of_project = |path: &PathBuf| {
            let name = path.file_name().unwrap();
            name.to_str().unwrap().starts_with("project-")
        };
        paths.filter(|path| !is_of_project(path)).collect()
    }
}
