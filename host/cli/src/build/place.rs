//! Puts a built component into `dist/`, under the name of its tool, if a host would
//! load it. Until then, the previous one stays.

use std::fs;
use std::path::{Path, PathBuf};

use skillhost::{Definition, Inspection};

use super::project::Project;
use super::wit::ProjectWit;
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
    let grants = ProjectGrants::read(&project.folder);
    let Some(tool) = grants.named(tools) else {
        return Err(
            Fault::project("the component was built, but defines no tool")
                .fix("export at least one tool"),
        );
    };
    let is_typed = ProjectWit::read(project).is_ok_and(|wit| wit.is_typed());
    let source = match is_typed {
        true => "wit",
        false => project.language.source(),
    };
    definitions::check(tools, source)?;
    if let Some(tool) = tools.iter().find(|tool| tool.description.trim().is_empty()) {
        return Err(Fault::project(format!(
            "the tool `{}` has no description, by which a model chooses it",
            tool.name
        ))
        .fix("say in a sentence what it does"));
    }
    let folder = project.own_folder(&project.folder.join("dist"))?;
    let file = folder.join(format!("{}.wasm", tool.name));
    let listing = file.with_extension("tools.json");
    // A host that reads the folder meanwhile must see whole files.
    let whole = folder.join(format!(".{}.new", tool.name));
    let put = || -> anyhow::Result<()> {
        fs::copy(component, &whole)?;
        fs::rename(&whole, &file)?;
        fs::write(&whole, inspection.tools_file()?)?;
        Ok(fs::rename(&whole, &listing)?)
    };
    put().map_err(|error| Fault::missing(format!("cannot write `{}`: {error}", file.display())))?;
    for other in others(&folder, &file) {
        terminal::say(&format_line!(
            "hosts also load `{}`, which lies there; delete it if it is from an earlier build",
            other.display()
        ));
    }
    grants.warn_without_grant(tools, &file);
    Ok(file)
}

/// The names of component files to which the project's own configuration grants something.
/// `None` if there is no configuration; the host says what is wrong with one.
struct ProjectGrants(Option<Vec<String>>);

impl ProjectGrants {
    fn read(project: &Path) -> Self {
        let text = fs::read_to_string(project.join("skillhost.toml"));
        let table = text.ok().and_then(|text| text.parse::<toml::Table>().ok());
        Self(table.map(|table| {
            let granted = table.get("grants").and_then(toml::Value::as_table);
            let names = granted.into_iter().flat_map(|granted| granted.keys());
            names.filter(|it| it.ends_with(".wasm")).cloned().collect()
        }))
    }

    fn grants(&self, name: &str) -> bool {
        let granted = self.0.iter().flatten();
        granted.into_iter().any(|granted| granted == name)
    }

    /// Returns the tool by which the file is named: the first one, unless the configuration
    /// grants something to a file named after another.
    fn named<'t>(&self, tools: &'t [Definition]) -> Option<&'t Definition> {
        let granted = |tool: &&Definition| self.grants(&format!("{}.wasm", tool.name));
        tools.iter().find(granted).or(tools.first())
    }

    /// Says that no call of the component could read a skill.
    fn warn_without_grant(&self, tools: &[Definition], file: &Path) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let Some(granted) = &self.0 else {
            return;
        };
        if self.grants(&name) || tools.iter().all(|tool| tool.folder.is_none()) {
            return;
        }
        let folder = file.parent().unwrap_or(file);
        let stale = granted.iter().find(|it| !folder.join(it).exists());
        let instead = match stale {
            Some(stale) => format!("rename `[grants.\"{stale}\"]` there"),
            None => format!("add `[grants.\"{name}\"]` there, with `skills = [\"NAME\"]`"),
        };
        terminal::complain(format_args!(
            "`skillhost.toml` grants nothing to `{name}`, so its tools read no skill: {instead}"
        ));
    }
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
