//! Python, by componentize-py.

use std::path::PathBuf;

use super::Fault;
use super::project::Project;
use super::step::Step;
use super::venv::Venv;

/// The module that defines the component's `Tools`.
const APP: &str = "tool";

pub(super) fn build(project: &Project) -> Result<PathBuf, Fault> {
    project.file("tool.py")?;
    project.file("wit/world.wit")?;
    let venv = Venv::open(project)?;
    // A file that does not parse is named by Python itself, in three lines.
    let mut command = venv.python();
    command
        .args(["-c", CHECK])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&project.folder);
    Step::new("reading the project's Python files", command).run()?;
    let component = project.scratch("")?.join("component.wasm");
    let mut command = venv.python();
    command
        .arg(venv.folder.join("bin/componentize-py"))
        .args([
            "-d",
            "wit",
            "-w",
            "tool-component",
            "componentize",
            APP,
            "-o",
        ])
        .arg(&component)
        .env("VIRTUAL_ENV", &venv.folder)
        .current_dir(&project.folder);
    let mut step = Step::new("`componentize-py`", command);
    step.noise = is_noise;
    // Where the compiler's sandbox has the project's folder.
    step.alias = Some("/0/".to_owned());
    step.run().map_err(|fault| {
        fault
            .fix("it runs `tool.py` once when it builds; the last line of Python above says why that ended")
            .fix("`tool.py` defines `Tools = export(…)`, and imports only pure Python: modules beside it, \
                 and packages in `requirements.txt`")
    })?;
    Ok(component)
}

/// Reads every file beside `tool.py` as Python does, and says where one is wrong.
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

/// Lines on the compiler's own code, and on Python's.
fn is_noise(line: &str) -> bool {
    const OWN: [&str; 7] = [
        "Stack backtrace:",
        "Traceback (most recent call last):",
        "AssertionError: Traceback (most recent call last):",
        "Caused by:",
        "Component built successfully",
        "sys.exit(script())",
        "",
    ];
    let line = line.trim();
    OWN.contains(&line)
        || line.starts_with("at ")
        || line.contains("bin/componentize-py\", line ")
        || line.bytes().all(|byte| byte == b'^' || byte == b'~')
        || is_frame(line)
}

/// Whether a line names a function of a backtrace: a number and no words.
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
    fn what_python_says_of_the_project_stays_and_the_rest_goes() {
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
