//! The Markdown files that a SKILL.md refers to, which a model reads like it. Searches them for
//! hidden text, within bounds.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Component, Path};

use super::hidden::document;
use super::{Finding, Reference, Rule};
use crate::guard::Folder;

/// The maximum number of files to read. The maximum in six public collections is 43.
const MAX_FILES: usize = 200;

/// The maximum bytes of a file to search.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The rules for linked files.
pub(super) const RULES: &[Rule] = &[Rule::warning(
    "linked-unchecked",
    "Not all Markdown files that SKILL.md refers to were searched for hidden text.",
    "Link at most 200 files of at most 1 MiB each, or look at the others yourself.",
)];

/// Returns the findings for the Markdown files that a body refers to.
pub(super) fn findings<'a>(
    folder: &Folder,
    references: impl Iterator<Item = &'a Reference<'a>>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    let mut unchecked: Option<(u32, usize)> = None;
    for reference in references {
        let path = Path::new(&*reference.path);
        if !is_markdown(path) || !seen.insert(normal(path)) {
            continue;
        }
        // The list of missing files has those that cannot be opened.
        let Ok(file) = folder.open_file(path) else {
            continue;
        };
        let mut bytes = Vec::new();
        let is_read = seen.len() <= MAX_FILES
            && file
                .take(MAX_FILE_BYTES + 1)
                .read_to_end(&mut bytes)
                .is_ok()
            && bytes.len() as u64 <= MAX_FILE_BYTES;
        if is_read {
            let in_file = |finding| Finding {
                file: Some(reference.path.to_string()),
                ..finding
            };
            let text = String::from_utf8_lossy(&bytes);
            findings.extend(document::file_findings(&text).into_iter().map(in_file));
        } else {
            unchecked.get_or_insert((reference.line, 0)).1 += 1;
        }
    }
    findings.extend(unchecked.map(|(line, count)| {
        let message = format!(
            "{count} of the Markdown files that the body refers to were not searched for hidden \
             text: at most {MAX_FILES} files of at most {MAX_FILE_BYTES} bytes are"
        );
        Finding::warning("linked-unchecked", Some(line), message)
    }));
    findings
}

fn is_markdown(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    ["md", "markdown", "mdx"]
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

/// Returns a path without `.` and `a/..`, so that each file is read once.
fn normal(path: &Path) -> Vec<Component<'_>> {
    let mut normal = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::check_folder;
    use super::*;

    /// Returns the rule, file, line and message of each finding of a skill with these files.
    fn found(files: &[(&str, String)]) -> Vec<(&'static str, Option<String>, u32, String)> {
        let folder = tempfile::tempdir().unwrap();
        let skill = folder.path().join("a");
        for (path, text) in files {
            let path = skill.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = check_folder(&skill).unwrap().into_iter();
        let parts = |found: Finding| (found.rule, found.file, found.line.unwrap(), found.message);
        found.map(parts).collect()
    }

    fn skill(body: &str) -> (&'static str, String) {
        let text = format!("---\nname: a\ndescription: Adds.\n---\n{body}\n");
        ("SKILL.md", text)
    }

    #[test]
    fn searches_linked_files_for_hidden_text() {
        let hidden = || "a\nb\u{e0041}\u{e0042}\n".to_owned();
        let found = found(&[
            skill("[b](b.md) [again](./x/../b.md#top) `references/c.MD` [d](d.txt) [x](x/)"),
            ("b.md", hidden()),
            ("references/c.MD", hidden()),
            ("d.txt", hidden()),
            ("x/not-linked.md", hidden()),
        ]);
        let places: Vec<_> = found
            .iter()
            .map(|(rule, file, line, _)| (*rule, file.as_deref(), *line))
            .collect();
        assert_eq!(
            places,
            [
                ("hidden-tags", Some("b.md"), 2),
                ("hidden-tags", Some("references/c.MD"), 2)
            ]
        );
        let message = "the file has 2 tag characters: a person does not see what a model reads";
        assert_eq!(found[0].3, message);
    }

    #[test]
    fn reads_no_linked_file_outside_the_skill() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.md"), "\u{e0041}").unwrap();
        let a = folder.path().join("a");
        fs::create_dir(&a).unwrap();
        fs::write(a.join("SKILL.md"), skill("[b](../b.md) [c](c.md)").1).unwrap();
        std::os::unix::fs::symlink("../b.md", a.join("c.md")).unwrap();
        let found = check_folder(&a).unwrap().into_iter();
        let rules: Vec<_> = found.map(|found| found.rule).collect();
        assert_eq!(rules, ["reference-outside", "reference-missing"]);
    }

    #[test]
    fn tells_which_files_it_did_not_search() {
        let names: Vec<String> = (0..MAX_FILES + 1).map(|n| format!("{n}.md")).collect();
        let links: Vec<String> = names.iter().map(|name| format!("[x]({name})")).collect();
        let mut files = vec![skill(&links.join(" "))];
        files.extend(names.iter().map(|name| (&**name, "x".to_owned())));
        let large = usize::try_from(MAX_FILE_BYTES).unwrap() + 1;
        files[1].1 = "x".repeat(large - 1);
        files[2].1 = "x".repeat(large);
        let found = found(&files);
        let message = "2 of the Markdown files that the body refers to were not searched for \
                       hidden text: at most 200 files of at most 1048576 bytes are";
        assert_eq!(found, [("linked-unchecked", None, 5, message.to_owned())]);
    }
}
