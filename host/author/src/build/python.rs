//! Builds Python with componentize-py.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use skillhost::Needs;
use skillhost_skills::named_file;

use super::BuildError;
use super::merge;
use super::project::{MAX_BUILT_BYTES, MAX_TEXT_BYTES, Project};
use super::step::Step;
use super::venv::{LATE_IMPORTS, Libraries, Venv};
use super::wit::ProjectWit;
use crate::kit;
use skillhost_program::terminal::{self, format_line};

/// The module that defines the class `Tools`.
const APP: &str = "tool";
/// The module that wraps `tool` in a project with typed functions. Such a project has no
/// `skillhost_kit`, so this module runs the late imports, those in functions, at build time.
const TYPED_APP: &str = "skillhost_app";
/// The module that sends requests. A project without the file gets it from the build.
const HTTP_MODULE: &str = "skillhost_http";
/// The interfaces of requests, and the names of their Python modules in every project.
const HTTP_INTERFACES: [&str; 3] = [
    "wasi:http/types@0.2.0=wasi_http_types",
    "wasi:http/outgoing-handler@0.2.0=wasi_http_outgoing_handler",
    "wasi:io/streams@0.2.0=wasi_io_streams",
];
/// The world of projects that ask for the network in `needs.toml`.
const HTTP_WORLD_NAME: &str = "requests";
/// The maximum number of failed imports to show. Guards against: a project that fills the screen.
const MAX_SHOWN_IMPORTS: usize = 20;
const TYPED_APP_SOURCE: &str = "\
import sys
import tool
import skillhost_imports

skillhost_imports.bake()
sys.modules[__name__] = tool
";

pub(super) fn build(project: &Project, needs: &Needs) -> Result<PathBuf, BuildError> {
    project.file("tool.py")?;
    project.file("wit/world.wit")?;
    let wit = ProjectWit::read(project)?;
    let venv = Venv::open(project)?;
    check_syntax(project, &venv)?;
    let late = project.build_folder("late")?;
    let failed_imports = late.join("failed.txt");
    // The file exists only if an import of the previous build failed.
    let _ = fs::remove_file(&failed_imports);
    find_late_imports(project, &venv, &late)?;
    let component = componentize(project, needs, &venv, &wit, &late)?;
    for line in named_file::read_text(&failed_imports, MAX_TEXT_BYTES)
        .unwrap_or_default()
        .lines()
        .take(MAX_SHOWN_IMPORTS)
    {
        terminal::complain(line);
    }
    merge_modules(&component)
        .map_err(|error| BuildError::project(format!("cannot rewrite the component: {error:#}")))?;
    Ok(component)
}

/// Parses the project's files. Python's own report of a syntax error is three lines long.
fn check_syntax(project: &Project, venv: &Venv<'_>) -> Result<(), BuildError> {
    let mut command = venv.python();
    command
        .args(["-c", CHECK_SYNTAX])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&project.folder);
    Step::new("reading the project's Python files", command)
        .run()
        .map(drop)
}

/// Writes a module that lists the imports in the project's functions to the folder `late`.
fn find_late_imports(project: &Project, venv: &Venv<'_>, late: &Path) -> Result<(), BuildError> {
    let mut command = venv.python();
    command
        .args(["-c", LATE_IMPORTS])
        .arg(late.join("skillhost_late.py"))
        .arg(&project.folder)
        .args(venv.libraries.iter().map(|it| it.folder.as_path()))
        .current_dir(&project.folder);
    Step::new("reading the project's imports", command)
        .run()
        .map(drop)
}

/// Runs the compiler. Returns the file of the component.
fn componentize(
    project: &Project,
    needs: &Needs,
    venv: &Venv<'_>,
    wit: &ProjectWit,
    late: &Path,
) -> Result<PathBuf, BuildError> {
    let app = if wit.is_typed() {
        write_module(late, TYPED_APP, TYPED_APP_SOURCE)?;
        write_module(late, "skillhost_imports", kit::PYTHON_IMPORTS)?;
        TYPED_APP
    } else {
        APP
    };
    let imports_http = wit.imports_http()?;
    let sends_requests = imports_http || needs.asks_for_network();
    if sends_requests && !project.folder.join(format!("{HTTP_MODULE}.py")).exists() {
        write_module(late, HTTP_MODULE, kit::PYTHON_HTTP)?;
    }
    let mut paths = vec![Path::new("."), late];
    if let Some(libraries) = &venv.libraries {
        paths.extend([libraries.folder.as_path(), libraries.late.as_path()]);
    }
    let component = project.build_folder("")?.join("component.wasm");
    let mut command = venv.python();
    command.arg(venv.folder.join("bin/componentize-py"));
    if sends_requests && !imports_http {
        command.arg("-d").arg(http_wit(project, wit)?);
        command.args(["-w", HTTP_WORLD_NAME]);
    } else {
        command.args(["-d", "wit", "-w", wit.world_name()?]);
    }
    if sends_requests {
        let names = HTTP_INTERFACES.iter();
        command.args(names.flat_map(|name| ["--import-interface-name", name]));
    }
    command
        .args(["componentize", app])
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
    // The path of the project's folder in the compiler's sandbox.
    step.hidden_prefix = Some("/0/".to_owned());
    step.run().map_err(|error| {
        let native = venv.libraries.as_ref().map(Libraries::native_files);
        let error = match native.as_deref() {
            Some([first, ..]) => error.fix(format!(
                "`{first}` of a library is native code, which a tool cannot run: choose a library \
                 of pure Python, if the error above is about it"
            )),
            _ => error,
        };
        error
            .fix("the compiler runs `tool.py` once; the last line of Python above says why it failed")
            .fix(format!(
                "`tool.py` must define {}, and may import only pure Python: modules beside it, \
                 and libraries that `skillhost add-library` pins",
                required_definitions(wit)
            ))
    })?;
    Ok(component)
}

/// Writes a package with the project's world and the imports for requests. Returns its folder.
fn http_wit(project: &Project, wit: &ProjectWit) -> Result<PathBuf, BuildError> {
    let folder = project.build_folder("wit-http")?;
    let cannot_write =
        |error: io::Error| BuildError::setup(format!("cannot write the WIT of requests: {error}"));
    fs::remove_dir_all(&folder).map_err(cannot_write)?;
    let project_wit = project.folder.join("wit");
    copy_files(&project_wit, &folder.join("deps/project")).map_err(cannot_write)?;
    if project_wit.join("deps").is_dir() {
        copy_files(&project_wit.join("deps"), &folder.join("deps")).map_err(cannot_write)?;
    }
    let world = format!(
        "package skillhost:requests;\n\nworld {HTTP_WORLD_NAME} {{\n    include {};\n    \
         import wasi:http/outgoing-handler@0.2.0;\n}}\n",
        wit.qualified_world_name()?
    );
    let dependencies = kit::WASI_HTTP.iter();
    let dependencies = dependencies.map(|file| (format!("deps/{}", file.path), file.text));
    for (path, text) in dependencies.chain([("world.wit".to_owned(), &*world)]) {
        let file = folder.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&folder))
            .and_then(|()| fs::write(&file, text))
            .map_err(cannot_write)?;
    }
    Ok(folder)
}

/// Copies a folder of WIT and its subfolders, except `deps`.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if !path.is_dir() {
            fs::copy(&path, target)?;
        } else if entry.file_name() != "deps" {
            copy_files(&path, &target)?;
        }
    }
    Ok(())
}

/// Writes a module into a folder of the build.
fn write_module(folder: &Path, module: &str, source: &str) -> Result<(), BuildError> {
    let file = folder.join(format!("{module}.py"));
    fs::write(&file, source)
        .map_err(|error| BuildError::setup(format!("cannot write `{}`: {error}", file.display())))
}

/// Names the definitions that `tool.py` must have.
fn required_definitions(wit: &ProjectWit) -> String {
    if !wit.is_typed() {
        return "`Tools = export(…)`".to_owned();
    }
    "a class for each interface that the world in `wit` exports, and `WitWorld` for its own functions"
        .to_owned()
}

/// Merges the modules of a component, so that a call takes two thirds of the time. Leaves a
/// component of an unexpected form as it is.
fn merge_modules(component: &Path) -> anyhow::Result<()> {
    match merge::merge(&named_file::read(component, MAX_BUILT_BYTES)?) {
        Ok(merged) => fs::write(component, merged)?,
        Err(error) => terminal::say(&format_line!(
            "cannot merge the modules of the component, so its calls take longer: {error:#}"
        )),
    }
    Ok(())
}

/// A script that parses every file beside `tool.py`, and prints the location of the first error.
const CHECK_SYNTAX: &str = r"
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
    const COMPILER_LINES: [&str; 8] = [
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
    COMPILER_LINES.contains(&line)
        || line.starts_with("at ")
        || line.contains("bin/componentize-py\", line ")
        || line.contains("/skillhost_app.py\", line ")
        || line.bytes().all(|byte| byte == b'^' || byte == b'~')
        || is_frame(line)
}

/// Checks whether a line is a frame of a backtrace: a number and a function.
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
