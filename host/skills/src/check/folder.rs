//! Checks a skill in its folder: its SKILL.md, and that the files to which its body refers exist.
//! Reads everything through the folder's handle and the guard, because the skill may be
//! hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::code_paths::code_paths;
use super::{Finding, Reference, Rule, check, contents, linked, missing_reference, references};
use crate::broker::Opener;
use crate::encoding;
use crate::frontmatter;
use crate::guard::{Folder, HardLinks};
use crate::omitted::OmittedNames;
use crate::skill_md::{self, is_skill_md};

/// The maximum size of a SKILL.md that is checked, in bytes. The limit of the tools is lower.
const MAX_BYTES: u64 = 16 << 20;

/// The rules for the folder and the file itself.
pub(super) const RULES: &[Rule] = &[
    Rule::error(
        "no-skill",
        "The path is neither a skill nor a folder of skills.",
        "Name a SKILL.md, a skill's folder or a folder of skills; `--depth` searches deeper.",
    ),
    Rule::error(
        "unreadable",
        "The skill cannot be read.",
        "Check that the folder exists and that its permissions allow reading.",
    ),
    Rule::error(
        "file-missing",
        "The folder has no SKILL.md.",
        "Write one, with `name` and `description` in its frontmatter.",
    ),
    Rule::error(
        "file-link",
        "SKILL.md is a symlink that leads to nothing or out of the skill's folder.",
        "Put the file itself into the folder. No tool follows such a link.",
    ),
    Rule::error(
        "file-size",
        "SKILL.md is too large to be read.",
        "Move text to other files.",
    ),
    Rule::error(
        "file-encoding",
        "SKILL.md is not valid UTF-8.",
        "Save the file as UTF-8.",
    ),
];

/// Checks the skill in a folder. Returns an error if the folder is unreadable.
pub fn check_folder(path: &Path) -> io::Result<Vec<Finding>> {
    let folder = Dir::open_ambient_dir(path, ambient_authority())?;
    let handle = folder.into_std_file().into();
    let folder = Folder::new(handle, HardLinks::Allowed, Opener::DIRECT)?;
    // A path such as `.` does not have the folder's name.
    let real = std::fs::canonicalize(path)?;
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    check_open_folder(&name, &folder, &OmittedNames::default(), |_| false)
}

/// Checks the skill in an open folder. `is_skill` returns whether an inner folder is a separate
/// skill.
pub(crate) fn check_open_folder(
    name: &str,
    folder: &Folder,
    names: &OmittedNames,
    is_skill: impl Fn(&str) -> bool,
) -> io::Result<Vec<Finding>> {
    let (mut findings, referenced) = check_skill_md(name, folder)?;
    let is_expected = |inner: &str| is_skill(inner) || referenced.contains(Path::new(inner));
    findings.extend(contents::findings(folder, names, is_expected));
    findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Ok(findings)
}

/// Returns the path of an example that users copy to make a file: `a.example.json` for `a.json`.
fn example_of(path: &str) -> Option<String> {
    let (stem, extension) = path.rsplit_once('.')?;
    Some(format!("{stem}.example.{extension}"))
}

/// Returns the findings, and each inner folder with a SKILL.md that the body refers to.
fn check_skill_md(name: &str, folder: &Folder) -> io::Result<(Vec<Finding>, BTreeSet<PathBuf>)> {
    let alone = |finding| Ok((vec![finding], BTreeSet::new()));
    let (file_name, file) = match skill_md::open(folder) {
        Ok(Some(found)) => found,
        found => {
            if let Some(fault) = skill_md::link_fault(folder) {
                return alone(Finding::error("file-link", None, fault));
            }
            found?;
            let message = "there is no `SKILL.md`".to_owned();
            return alone(Finding::error("file-missing", None, message));
        }
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("`{file_name}` is larger than {MAX_BYTES} bytes");
        return alone(Finding::error("file-size", None, message));
    }
    let text = match encoding::decode(bytes, false) {
        Ok(text) => text,
        Err(fault) => {
            let message = fault.to_string();
            return alone(Finding::error("file-encoding", fault.line(), message));
        }
    };
    let mut findings = check(name, &file_name, &text);
    let split = frontmatter::split(&text);
    let references = references(split.body, split.body_line);
    let references = references.chain(code_paths(split.body, split.body_line));
    let references: Vec<Reference<'_>> = references.collect();
    let mut missing: BTreeMap<&str, u32> = BTreeMap::new();
    for reference in &references {
        let exists = |path: &str| folder.lookup(Path::new(path), true).is_ok();
        let path = &*reference.path;
        // A link such as `[text](url)` shows how to write links; no file is meant.
        let may_be_file = path.contains(['.', '/']);
        if may_be_file && !exists(path) && !example_of(path).is_some_and(|path| exists(&path)) {
            let first = missing.entry(&reference.path).or_insert(reference.line);
            *first = reference.line.min(*first);
        }
    }
    findings.extend(
        missing
            .iter()
            .map(|(path, line)| missing_reference(*line, path)),
    );
    findings.extend(linked::findings(folder, &split, references.iter()));
    let folders = references.iter().filter_map(|reference| {
        let path = linked::normalised(Path::new(""), &reference.path)?;
        let is_skill_md = path.file_name().is_some_and(is_skill_md);
        path.parent().filter(|_| is_skill_md).map(Path::to_owned)
    });
    Ok((findings, folders.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_missing_files_unless_they_have_an_example() {
        let folder = tempfile::tempdir().unwrap();
        let body = "`scripts/a.py` `assets/b.json` [text](url) [c](c.md) [LICENSE](LICENSE)\n";
        let text = format!("---\nname: x\ndescription: Does x. Use for x.\n---\n{body}");
        std::fs::write(folder.path().join("SKILL.md"), text).unwrap();
        std::fs::create_dir(folder.path().join("assets")).unwrap();
        std::fs::write(folder.path().join("assets/b.example.json"), "{}").unwrap();
        let findings = check_folder(folder.path()).unwrap();
        let missing = findings
            .iter()
            .filter(|found| found.rule == "reference-missing");
        let messages: Vec<_> = missing.map(|found| &*found.message).collect();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].contains("`c.md`") && messages[1].contains("`scripts/a.py`"));
    }

    #[test]
    fn accepts_nested_skill_that_the_body_refers_to() {
        let folder = tempfile::tempdir().unwrap();
        let skill = |body| format!("---\nname: x\ndescription: Does x. Use for x.\n---\n{body}\n");
        for inner in ["linked", "templates", "other"] {
            std::fs::create_dir(folder.path().join(inner)).unwrap();
            std::fs::write(folder.path().join(inner).join("SKILL.md"), skill("x")).unwrap();
        }
        for (body, named) in [
            (
                "[a](./linked/SKILL.md) `templates/SKILL.md`",
                Some("`other/SKILL.md` counts"),
            ),
            (
                "[a](linked/SKILL.md) [b](other/SKILL.md)",
                Some("`templates/SKILL.md` counts"),
            ),
            ("[a](linked) [b](linked/x.md)", Some(" and 2 more count")),
            (
                "[a](linked/SKILL.md) [b](other/SKILL.md) `templates/SKILL.md`",
                None,
            ),
        ] {
            std::fs::write(folder.path().join("SKILL.md"), skill(body)).unwrap();
            let findings = check_folder(folder.path()).unwrap();
            let nested = findings.iter().find(|found| found.rule == "nested-skill");
            let message = nested.map(|found| &*found.message);
            assert_eq!(message.is_some(), named.is_some(), "{body}: {message:?}");
            let named = named.unwrap_or_default();
            assert!(message.unwrap_or_default().contains(named), "{message:?}");
        }
    }
}
