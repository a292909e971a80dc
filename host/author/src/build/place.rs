//! Puts a built component into `dist/`, under the name of its tool, if a host would
//! load it. Until then, the previous one stays.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use skillhost::{Definition, Inspection, named_file};
use toml::Spanned;

use super::project::{Project, TEXT_BYTES};
use super::wit::ProjectWit;
use super::{Fault, definitions};
use skillhost_program::terminal::{self, format_line};

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
        .fix("`dist` is unchanged; `docs/guides/write-tools.md` says what a tool must be")
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
    let others = others(&folder, &file);
    for other in &others {
        terminal::say(&format_line!(
            "hosts also load `{}`, which lies there; delete it if it is from an earlier build",
            other.display()
        ));
    }
    grants.warn(tools, &file, &others);
    Ok(file)
}

/// The grants of the project's own configuration to component files. Default: none. A
/// configuration that cannot be read is reported by the host.
#[derive(Default)]
struct ProjectGrants {
    /// The files' names, each with its line. `None` if there is no configuration.
    files: Option<Vec<(String, usize)>>,
    /// The folders with components.
    folders: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct RawGrants {
    #[serde(default)]
    grants: BTreeMap<String, Spanned<IgnoredAny>>,
    #[serde(default)]
    tools: Vec<PathBuf>,
}

impl ProjectGrants {
    fn read(project: &Path) -> Self {
        let Ok(text) = named_file::read_text(&project.join("skillhost.toml"), TEXT_BYTES) else {
            return Self::default();
        };
        let Ok(RawGrants { grants, tools }) = toml::from_str(&text) else {
            return Self::default();
        };
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let files = grants
            .into_iter()
            .filter(|(name, _)| name.ends_with(".wasm"));
        let files = files.map(|(name, grant)| (name, line(grant.span().start)));
        Self {
            files: Some(files.collect()),
            folders: tools.iter().map(|folder| project.join(folder)).collect(),
        }
    }

    fn grants(&self, name: &str) -> bool {
        let mut granted = self.files.iter().flatten();
        granted.any(|(granted, _)| granted == name)
    }

    /// Returns the tool by which the file is named: the first one, unless the configuration
    /// grants something to a file named after another.
    fn named<'t>(&self, tools: &'t [Definition]) -> Option<&'t Definition> {
        let granted = |tool: &&Definition| self.grants(&format!("{}.wasm", tool.name));
        tools.iter().find(granted).or(tools.first())
    }

    /// Says which grants are for a file of an earlier build, and that no call of the
    /// component could read a skill.
    fn warn(&self, tools: &[Definition], file: &Path, others: &[PathBuf]) {
        let Some(granted) = &self.files else {
            return;
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_granted = self.grants(&name);
        let instead = match is_granted {
            true => "remove it".to_owned(),
            false => format!("change it to `[grants.\"{name}\"]`"),
        };
        let folders = || {
            self.folders
                .iter()
                .map(|folder| &**folder)
                .chain(file.parent())
        };
        let is_there = |name: &str| folders().any(|folder| folder.join(name).exists());
        let mut has_advice = is_granted;
        for (stale, line) in granted.iter().filter(|(granted, _)| !is_there(granted)) {
            has_advice = true;
            terminal::complain(format_args!(
                "`skillhost.toml`, line {line}, grants something to `{stale}`, which does not \
                 exist: if the tool had that name before, {instead}; no host starts with a grant \
                 for a file that does not exist"
            ));
        }
        let reads_skills = tools.iter().any(|tool| tool.folder.is_some());
        let earlier = others.iter().find_map(|other| {
            let other = other.file_name()?.to_str()?;
            granted.iter().find(|(granted, _)| granted == other)
        });
        match earlier {
            Some((earlier, line)) if !is_granted => terminal::complain(format_args!(
                "`skillhost.toml`, line {line}, grants something to `{earlier}`, and nothing to \
                 `{name}`: if `{earlier}` is from an earlier build, delete it, and {instead}"
            )),
            _ if reads_skills && !has_advice => terminal::complain(format_args!(
                "`skillhost.toml` grants nothing to `{name}`, so its tools read no skill: add \
                 `[grants.\"{name}\"]` there, with `skills = [\"NAME\"]`"
            )),
            _ => {}
        }
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
