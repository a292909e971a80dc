//! Python, compiled by componentize-py.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use skillhost::named_file;

use super::Fault;
use super::merge;
use super::project::{BUILT_BYTES, Project, TEXT_BYTES};
use super::step::Step;
use super::venv::{LATE_IMPORTS, Libraries, Venv};
use super::wit::ProjectWit;
use crate::kit;
use skillhost_program::terminal::{self, format_line};

/// The module that defines the class `Tools`.
const APP: &str = "tool";
/// The module that stands for it if its functions have types: no kit of the project
/// imports then what they import.
const TYPED_APP: &str = "skillhost_app";
/// The most imports that failed and are shown. Guards against: a project that fills the screen.
const SHOWN: usize = 20;
const TYPED_APP_SOURCE: &str = "\
import sys
import tool
import skillhost_imports

skillhost_imports.bake()
sys.modules[__name__] = tool
";

pub(super) fn build(project: &Project) -> Result<PathBuf, Fault> {
    project.file("tool.py")?;
    project.file("wit/world.wit")?;
    let wit = ProjectWit::read(project)?;
    let venv = Venv::open(project)?;
    // Python itself names a file that does not parse in three lines.
    let mut command = venv.python();
    command
        .args(["-c", CHECK])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&project.folder);
    Step::new("reading the project's Python files", command).run()?;
    let late = project.scratch("late")?;
    let failed = late.join("failed.txt");
    // There is none unless an import of the build before failed.
    let _ = fs::remove_file(&failed);
    let mut command = venv.python();
    command
        .args(["-c", LATE_IMPORTS])
        .arg(late.join("skillhost_late.py"))
        .arg(&project.folder)
        .args(venv.libraries.iter().map(|it| it.folder.as_path()))
        .current_dir(&project.folder);
    Step::new("reading the project's imports", command).run()?;
    let app = match wit.is_typed() {
        true => {
            write(&late, TYPED_APP, TYPED_APP_SOURCE)?;
            write(&late, "skillhost_imports", kit::PYTHON_IMPORTS)?;
            TYPED_APP
        }
        false => APP,
    };
    let mut paths = vec![Path::new("."), late.as_path()];
    if let Some(libraries) = &venv.libraries {
        paths.extend([libraries.folder.as_path(), libraries.late.as_path()]);
    }
    let component = project.scratch("")?.join("component.wasm");
    let mut command = venv.python();
    command
        .arg(venv.folder.join("bin/componentize-py"))
        .args(["-d", "wit", "-w", wit.world_name()?, "componentize", app])
        .args(
            paths
                .iter()
                .flat_map(|path| [OsStr::new("-p"), path.as_ref()]),
        )
        .arg("-o")
        .arg(&component)
        .env("VIRTUAL_ENV", &venv.folder)
        .current_dir(&project.folder);
    let mut step = Step::new("`componentize-py`", command);
    step.is_noise = is_noise;
    // The project's folder in the compiler's sandbox.
    step.alias = Some("/0/".to_owned());
    step.run().map_err(|fault| {
        let native = venv.libraries.as_ref().map(Libraries::native);
        let fault = match native.as_deref() {
            Some([first, ..]) => fault.fix(format!(
                "`{first}` of a library is native code, which a tool cannot run: choose a library \
                 of pure Python, if the error above is about it"
            )),
            _ => fault,
        };
        fault
            .fix("the compiler runs `tool.py` once; the last line of Python above says why it failed")
            .fix(format!("`tool.py` must define {}, and may import only pure Python: modules beside it, \
                 and libraries that `skillhost add-library` pins", defines(&wit)))
    })?;
    for line in named_file::read_text(&failed, TEXT_BYTES)
        .unwrap_or_default()
        .lines()
        .take(SHOWN)
    {
        terminal::complain(line);
    }
    merge_modules(&component)
        .map_err(|error| Fault::project(format!("cannot keep the component: {error:#}")))?;
    Ok(component)
}

/// Writes a module into a folder of the build.
fn write(folder: &Path, module: &str, source: &str) -> Result<(), Fault> {
    let file = folder.join(format!("{module}.py"));
    fs::write(&file, source)
        .map_err(|error| Fault::missing(format!("cannot write `{}`: {error}", file.display())))
}

/// Returns what the module must define.
fn defines(wit: &ProjectWit) -> String {
    if !wit.is_typed() {
        return "`Tools = export(…)`".to_owned();
    }
    "a class for each interface that the world in `wit` exports, and `WitWorld` for its own functions"
        .to_owned()
}

/// Merges the component's modules, so that a call takes two thirds of the time. A component
/// that is not of the form that is expected stays as it is.
fn merge_modules(component: &Path) -> anyhow::Result<()> {
    match merge::merge(&named_file::read(component, BUILT_BYTES)?) {
        Ok(merged) => fs::write(component, merged)?,
        Err(error) => terminal::say(&format_line!(
            "its modules stay apart, and its calls take longer: {error:#}"
        )),
    }
    Ok(())
}

/// Parses every file beside `tool.py`, and reports the place of the first error.
const CHECK: &str = r"
import pathlib, sys
for path in sorted(pathlib.Path('.').glob('*.py')):
    try:
        compile(path.read_bytes(), str(path), 'exec')
    except (SyntaxError, ValueError) as error:
        line = getattr(error, 'lineno', None)
        print('%s:%s: %s' % (path, line or 1, getattr(error, 'msg', error)), file=sys.stderr)
        text = getattr(error, 'text', None)
        if text:
            print('    ' + text.rstrip(), file=sys.stderr)
        sys.exit(1)
";

/// Checks whether a line is about the compiler's own code or Python's.
fn is_noise(line: &str) -> bool {
    const OWN: [&str; 8] = [
        "Stack backtrace:",
        "Traceback (most recent call last):",
        "AssertionError: Traceback (most recent call last):",
        "Caused by:",
        "Component built successfully",
        "sys.exit(script())",
        "import tool",
        "",
    ];
    let line = line.trim();
    OWN.contains(&line)
        || line.starts_with("at ")
        || line.contains("bin/componentize-py\", line ")
        || line.contains("/skillhost_app.py\", line ")
        || line.bytes().all(|byte| byte == b'^' || byte == b'~')
        || is_frame(line)
}

/// Checks whether a line names a function of a backtrace: a number and no words.
fn is_frame(line: &str) -> bool {
    let Some((number, function)) = line.split_once(": ") else {
        return false;
    };
    number.bytes().all(|byte| byte.is_ascii_digit())
        && (!function.contains(' ') || function.contains("::") || function.contains('!'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_only_lines_about_the_project() {
        for line in [
            "  File \"/0/tool.py\", line 8, in <module>",
            "    LISTED = FIFTY",
            "NameError: name 'FIFTY' is not defined",
            "    0: the module has no class named Tools",
        ] {
            assert!(!is_noise(line), "{line}");
        }
        for line in [
            "Traceback (most recent call last):",
            "  File \"/x/venv/bin/componentize-py\", line 8, in <module>",
            "  File \"/1/skillhost_app.py\", line 2, in <module>",
            "    import tool",
            "             ^^^^^~~",
            "  10: cfunction_vectorcall_NOARGS",
            "   3: anyhow::error::from",
            "             at /x/lib.rs:3:4",
            "",
        ] {
            assert!(is_noise(line), "{line}");
        }
    }
}
