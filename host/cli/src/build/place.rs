//! A component that was built goes to `dist/`, under the name of its tool, if
//! a host would load it. What lay there before stays until then.

use std::fs;
use std::path::{Path, PathBuf};

use skillhost::Inspection;

use super::Fault;
use super::project::Project;
use crate::terminal::{self, format_line};

/// Puts a component in its place.
pub(super) fn put(
    project: &Project,
    component: &Path,
    seen: &Inspection,
) -> Result<PathBuf, Fault> {
    for import in seen.imports.iter().filter(|import| !import.granted) {
        terminal::say(&format_line!(
            "it imports `{}`, which the host does not offer to tools",
            import.name
        ));
    }
    let tools = seen.tools.as_ref().map_err(|why| {
        Fault::project(format!("it is built, and no host would load it: {why}"))
            .fix("`dist` is as it was before; `docs/writing-tools.md` says what a tool must be")
    })?;
    let Some(tool) = tools.first() else {
        return Err(Fault::project("it is built, and defines no tool")
            .fix("add one to what the component exports"));
    };
    let folder = project.own_folder(&project.folder.join("dist"))?;
    let file = folder.join(format!("{}.wasm", tool.name));
    // Whoever reads the folder meanwhile sees a whole file.
    let whole = folder.join(format!(".{}.new", tool.name));
    let put = || {
        fs::copy(component, &whole)?;
        fs::rename(&whole, &file)
    };
    put().map_err(|error| Fault::missing(format!("cannot write `{}`: {error}", file.display())))?;
    for other in others(&folder, &file) {
        terminal::say(&format_line!(
            "`{}` lies there, too, and hosts load it; delete it if it is of an earlier build",
            other.display()
        ));
    }
    Ok(file)
}

fn others(folder: &Path, file: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_other = |path: &PathBuf| path != file && path.extension().is_some_and(|x| x == "wasm");
    let mut found: Vec<PathBuf> = paths.filter(is_other).collect();
    found.sort();
    found
}
