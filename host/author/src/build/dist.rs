//! Installs a built component into `dist`, under the name of its tool, if a host would load it.
//! Otherwise the previous component stays.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use skillhost::{Definition, Inspection};
use skillhost_skills::named_file;
use toml::Spanned;

use super::project::{MAX_TEXT_BYTES, Project};
use super::wit::ProjectWit;
use super::{BuildError, definitions};
use skillhost_program::terminal::{self, format_line};

/// Checks a component and copies it to `dist`. Returns its file there.
pub(super) fn install(
    project: &Project,
    component: &Path,
    inspection: &Inspection,
) -> Result<PathBuf, BuildError> {
    for import in inspection.imports.iter().filter(|import| !import.granted) {
        terminal::say(&format_line!(
            "the component imports `{}`, which the host does not offer to tools",
            import.name
        ));
    }
    let grants = ProjectGrants::read(&project.folder);
    let (tools, main_tool) = check_tools(project, inspection, &grants)?;
    let folder = project.output_folder(&project.folder.join("dist"))?;
    let file = folder.join(format!("{}.wasm", main_tool.name));
    let listing = file.with_extension("tools.json");
    // Write a temporary file and rename it, because a host may read the folder at any time.
    let temporary = folder.join(format!(".{}.new", main_tool.name));
    let write = || -> anyhow::Result<()> {
        fs::copy(component, &temporary)?;
        fs::rename(&temporary, &file)?;
        fs::write(&temporary, inspection.tools_file()?)?;
        Ok(fs::rename(&temporary, &listing)?)
    };
    write().map_err(|error| {
        BuildError::setup(format!("cannot write `{}`: {error}", file.display()))
    })?;
    let others = other_components(&folder, &file);
    for other in &others {
        terminal::say(&format_line!(
            "hosts also load `{}`; delete it if it is from an earlier build",
            other.display()
        ));
    }
    grants.warn(tools, &file, &others);
    Ok(file)
}

/// Checks that a host would load the tools. Returns them, and the tool that gives the file its
/// name.
fn check_tools<'a>(
    project: &Project,
    inspection: &'a Inspection,
    grants: &ProjectGrants,
) -> Result<(&'a [Definition], &'a Definition), BuildError> {
    let tools = inspection.tools.as_ref().map_err(|error| {
        BuildError::project(format!(
            "the component was built, but no host would load it: {error}"
        ))
        .fix("`dist` is unchanged; `docs/guides/write-tools.md` says what a tool must be")
    })?;
    let Some(main_tool) = grants.main_tool(tools) else {
        return Err(
            BuildError::project("the component was built, but defines no tool")
                .fix("export at least one tool"),
        );
    };
    let is_typed = ProjectWit::read(project).is_ok_and(|wit| wit.is_typed());
    let source = if is_typed {
        "wit"
    } else {
        project.language.source()
    };
    definitions::check(tools, source)?;
    if let Some(tool) = tools.iter().find(|tool| tool.description.trim().is_empty()) {
        return Err(BuildError::project(format!(
            "the tool `{}` has no description, and a model chooses a tool by its description",
            tool.name
        ))
        .fix("say in a sentence what it does"));
    }
    Ok((tools, main_tool))
}

/// The grants to component files in the project's own configuration.
///
/// Empty if the configuration cannot be read: the host reports that.
#[derive(Default)]
struct ProjectGrants {
    /// The names of the files, each with its line. `None` without a configuration.
    files: Option<Vec<(String, usize)>>,
    /// The folders of components.
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
        let Ok(text) = named_file::read_text(&project.join("skillhost.toml"), MAX_TEXT_BYTES)
        else {
            return Self::default();
        };
        let Ok(RawGrants { grants, tools }) = toml::from_str(&text) else {
            return Self::default();
        };
        let line = |offset: usize| text[..offset].matches('\n').count() + 1;
        let files = grants
            .into_iter()
            .filter(|(name, _)| name.ends_with(".wasm"));
        let files = files.map(|(name, grant)| (name, line(grant.span().start)));
        Self {
            files: Some(files.collect()),
            folders: tools.iter().map(|folder| project.join(folder)).collect(),
        }
    }

    fn has_grant_for(&self, name: &str) -> bool {
        let mut files = self.files.iter().flatten();
        files.any(|(granted, _)| granted == name)
    }

    /// Returns the tool that names the file: the first one, unless the configuration has a grant
    /// for a file with the name of another tool.
    fn main_tool<'t>(&self, tools: &'t [Definition]) -> Option<&'t Definition> {
        let granted = |tool: &&Definition| self.has_grant_for(&format!("{}.wasm", tool.name));
        tools.iter().find(granted).or(tools.first())
    }

    /// Warns about grants to files of earlier builds, and about a missing grant of skills.
    fn warn(&self, tools: &[Definition], file: &Path, others: &[PathBuf]) {
        let Some(files) = &self.files else {
            return;
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let is_granted = self.has_grant_for(&name);
        let advice = if is_granted {
            "remove it".to_owned()
        } else {
            format!("change it to `[grants.\"{name}\"]`")
        };
        let folders = || {
            self.folders
                .iter()
                .map(|folder| &**folder)
                .chain(file.parent())
        };
        let exists = |name: &str| folders().any(|folder| folder.join(name).exists());
        let mut has_advice = is_granted;
        for (stale, line) in files.iter().filter(|(granted, _)| !exists(granted)) {
            has_advice = true;
            terminal::complain(format_args!(
                "`skillhost.toml`, line {line}, grants something to `{stale}`, which does not \
                 exist: if the tool had that name before, {advice}; no host starts with a grant \
                 for a file that does not exist"
            ));
        }
        let reads_skills = tools.iter().any(|tool| tool.folder.is_some());
        let earlier = others.iter().find_map(|other| {
            let other = other.file_name()?.to_str()?;
            files.iter().find(|(granted, _)| granted == other)
        });
        match earlier {
            Some((earlier, line)) if !is_granted => terminal::complain(format_args!(
                "`skillhost.toml`, line {line}, grants something to `{earlier}`, and nothing to \
                 `{name}`: if `{earlier}` is from an earlier build, delete it, and {advice}"
            )),
            _ if reads_skills && !has_advice => terminal::complain(format_args!(
                "`skillhost.toml` grants nothing to `{name}`, so its tools read no skill: add \
                 `[grants.\"{name}\"]` there, with `skills = [\"NAME\"]`"
            )),
            _ => {}
        }
    }
}

/// Returns the other component files in a folder, sorted.
fn other_components(folder: &Path, file: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let is_other = |path: &PathBuf| {
        path != file
            && path
                .extension()
                .is_some_and(|extension| extension == "wasm")
    };
    let mut components: Vec<PathBuf> = paths.filter(is_other).collect();
    components.sort();
    components
}
