//! Puts a built component into `dist/`, under the name of its tool, if a host would
//! load it. Until then, the previous one stays.

use std::fs;
use std::path::{Path, PathBuf};

use skillhost::Inspection;

use super::project::Project;
use super::{Fault, definitions};
use crate::terminal::{self, format_line};

/// Puts a component in its place.
pub(super) fn put(
    project: &Project,
    component: &Path,
    inspection: &Inspection,
) -> Result<PathBuf, Fault> {
    for import in inspection.imports.iter().filter(|import| !import.granted) {
        terminal::say(&format_line!(
            "it imports `{}`, which the host does not offer to tools",
            import.name
        ));
    }
    let tools = inspection.tools.as_ref().map_err(|why| {
        Fault::project(format!(
            "the component was built, but no host would load it: {why}"
        ))
        .fix("`dist` is unchanged; `docs/writing-tools.md` says what a tool must be")
    })?;
    let Some(tool) = tools.first() else {
        return Err(
            Fault::project("the component was built, but defines no tool")
                .fix("export at least one tool"),
        );
    };
    definitions::check(tools, project.language.source())?;
    if let Some(tool) = tools.iter().find(|tool| tool.description.trim().is_empty()) {
        return Err(Fault::project(format!(
            "the tool `{}` has no description, by which a model chooses it",
            tool.name
        ))
        .fix("say in a sentence what it does"));
    }
    let folder = project.own_folder(&project.folder.join("dist"))?;
    let file = folder.join(format!("{}.wasm", tool.name));
    // A host that reads the folder meanwhile must see a whole file.
    let whole = folder.join(format!(".{}.new", tool.name));
    let put = || {
        fs::copy(component, &whole)?;
        fs::rename(&whole, &file)
    };
    put().map_err(|error| Fault::missing(format!("cannot write `{}`: {error}", file.display())))?;
    for other in others(&folder, &file) {
        terminal::say(&format_line!(
            "hosts also load `{}`, which lies there; delete it if it is from an earlier build",
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
