//! Searches the Markdown files that a SKILL.md refers to, and the files that those files name, for
//! hidden text and further references, within bounds. A model reads them like the SKILL.md.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use super::hidden::document;
use super::links::relative_links;
use super::{Finding, Reference, Rule};
use crate::frontmatter::{Split, quoted};
use crate::guard::Folder;

/// The maximum number of files to read. The maximum in six public collections is 43.
const MAX_FILES: usize = 200;

/// The maximum size of a searched file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The maximum total size of a skill's searched files, in bytes. Guards against: minutes of work
/// for one skill.
const MAX_ALL_BYTES: u64 = 16 << 20;

/// The maximum number of other files that a message counts, as in "`c.md` and 3 other files".
/// Guards against: a file with a thousand links, each compared with all others.
const MAX_OTHERS: usize = 20;

/// The maximum number of further files that a search of one linked file finds.
const MAX_FURTHER: usize = MAX_OTHERS + 1;

/// The maximum number of look-ups of each kind for one skill. The kinds are: names in the body,
/// names in other files, and links in other files. Guards against: paths through many symlinks,
/// which take milliseconds each.
const MAX_LOOKUPS: usize = 1_000;

/// The rules for linked files.
pub(super) const RULES: &[Rule] = &[
    Rule::warning(
        "linked-unchecked",
        "Not all Markdown files that SKILL.md leads to were searched for hidden text.",
        "Refer to at most 200 files of at most 1 MiB each and 16 MiB in all, or check the others \
         yourself.",
    ),
    Rule::warning(
        "reference-depth",
        "SKILL.md refers to a file that names further files, which SKILL.md does not name.",
        "Refer to them in SKILL.md. The specification recommends references one level deep: a \
         model that follows a chain of files may read only a part of them.",
    ),
];

/// A Markdown file that SKILL.md or another linked file names.
struct Linked {
    /// The path in the skill's folder.
    path: PathBuf,
    /// The line of SKILL.md that leads to it.
    line: u32,
    /// True if the body of SKILL.md has a reference to the file. False if the body only mentions
    /// its name, or if only another file names it.
    is_reference: bool,
}

/// The files to search, each once.
struct Queue<'a> {
    folder: &'a Folder,
    files: VecDeque<Linked>,
    seen: BTreeSet<PathBuf>,
    /// The line of SKILL.md that has, or leads to, the first name over the limit of look-ups.
    first_skipped_line: Option<u32>,
}

impl Queue<'_> {
    /// Adds the file at a [`normalised`] path, if it is a Markdown file other than SKILL.md.
    fn add(&mut self, path: PathBuf, line: u32, is_reference: bool) {
        let is_skill_md = path.as_os_str().eq_ignore_ascii_case("SKILL.md");
        if is_markdown(&path) && !is_skill_md && self.seen.insert(path.clone()) {
            self.files.push_back(Linked {
                path,
                line,
                is_reference,
            });
        }
    }

    /// Adds the files whose names are anywhere in some lines. Resolves each name against each of
    /// the folders `parents`.
    ///
    /// Finds names in text, code and HTML, in links such as `a{x}.md` or `a*.md`, after a variable
    /// such as `${A}/`, and between non-ASCII letters without blanks. `lookups_left` is the number
    /// of names that may still be looked up.
    fn add_named<'t>(
        &mut self,
        lines: impl Iterator<Item = (&'t str, u32)>,
        parents: &[&Path],
        lookups_left: &mut usize,
    ) {
        let mut tried = HashSet::new();
        for (line, number) in lines {
            let words = line.split(|c: char| c.is_whitespace() || "()[]<>\"'`|=,;".contains(c));
            let slashes = line.replace('\\', "/");
            let ascii_words =
                slashes.split(|c: char| !(c.is_ascii_alphanumeric() || "._/-".contains(c)));
            let ascii_words = ascii_words.map(|word| word.trim_start_matches('/'));
            for word in words.chain(ascii_words) {
                let word = word.split(['#', '?']).next().unwrap_or_default();
                let word = word
                    .trim_end_matches(['.', ':', '!'])
                    .trim_start_matches('@');
                if !is_markdown(Path::new(word)) || !tried.insert(word.to_owned()) {
                    continue;
                }
                for path in parents.iter().filter_map(|parent| normalised(parent, word)) {
                    if self.seen.contains(&path) {
                        continue;
                    }
                    if *lookups_left == 0 {
                        self.first_skipped_line.get_or_insert(number);
                        return;
                    }
                    *lookups_left -= 1;
                    if self.folder.lookup(&path, true).is_ok() {
                        self.add(path, number, false);
                    }
                }
            }
        }
    }
}

/// Reads files within the limits.
struct Reader<'a> {
    folder: &'a Folder,
    opened: usize,
    bytes_left: u64,
    /// The line of SKILL.md that leads to the first file over a limit, and the number of such files.
    unchecked: Option<(u32, usize)>,
}

impl Reader<'_> {
    /// Returns the text of a file. Returns `None` if the file is over a limit or cannot be opened;
    /// `check/folder.rs` reports the latter.
    fn read(&mut self, linked: &Linked) -> Option<String> {
        let file = self.folder.open_file(&linked.path).ok()?;
        self.opened += 1;
        let mut bytes = Vec::new();
        let max = MAX_FILE_BYTES.min(self.bytes_left);
        let is_read = self.opened <= MAX_FILES
            && file.take(max + 1).read_to_end(&mut bytes).is_ok()
            && bytes.len() as u64 <= max;
        if !is_read {
            self.unchecked.get_or_insert((linked.line, 0)).1 += 1;
            return None;
        }
        self.bytes_left -= bytes.len() as u64;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Returns the findings for the Markdown files that a body leads to.
///
/// Searches three kinds of files for hidden text: files in `references`, files whose names are
/// elsewhere in the body, and files that an already found file names. Also reports which files in
/// `references` name further files.
pub(super) fn findings<'a>(
    folder: &Folder,
    split: &Split<'_>,
    references: impl Iterator<Item = &'a Reference<'a>> + Clone,
) -> Vec<Finding> {
    let body = split.body;
    let root = Path::new("");
    let direct: BTreeSet<PathBuf> = references
        .clone()
        .filter_map(|reference| normalised(root, &reference.path))
        .collect();
    // Many bodies name a file without its folder, outside of a link or code.
    let words = body.split(|c: char| !(c.is_alphanumeric() || "._-".contains(c)));
    let words: BTreeSet<&str> = words.map(|word| word.trim_end_matches('.')).collect();
    let is_direct = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.ancestors().any(|path| direct.contains(path)) || words.contains(&*name)
    };
    let mut findings = Vec::new();
    let mut queue = Queue {
        folder,
        files: VecDeque::new(),
        seen: BTreeSet::new(),
        first_skipped_line: None,
    };
    for reference in references {
        if let Some(path) = normalised(root, &reference.path) {
            queue.add(path, reference.line, true);
        }
    }
    let lines = body.lines().zip(split.body_line..);
    queue.add_named(lines, &[root], &mut { MAX_LOOKUPS });
    let mut reader = Reader {
        folder,
        opened: 0,
        bytes_left: MAX_ALL_BYTES,
        unchecked: None,
    };
    let (mut links_left, mut names_left) = (MAX_LOOKUPS, MAX_LOOKUPS);
    while let Some(linked) = queue.files.pop_front() {
        let Some(text) = reader.read(&linked) else {
            continue;
        };
        let mut found = document::file_findings(&text);
        if linked.is_reference {
            found.extend(depth_finding(
                folder,
                &linked.path,
                &text,
                is_direct,
                &mut links_left,
            ));
        }
        findings.extend(found.into_iter().map(|finding| Finding {
            file: Some(linked.path.to_string_lossy().into_owned()),
            ..finding
        }));
        let parent = linked.path.parent().unwrap_or(root);
        for reference in relative_links(&text, linked.line) {
            if let Some(path) = normalised(parent, &reference.path) {
                queue.add(path, linked.line, false);
            }
        }
        let lines = text.lines().map(|line| (line, linked.line));
        queue.add_named(lines, &[parent, root], &mut names_left);
    }
    findings.extend(limit_findings(reader.unchecked, queue.first_skipped_line));
    findings
}

/// Returns the findings that some files were not searched.
fn limit_findings(
    unchecked: Option<(u32, usize)>,
    first_skipped_line: Option<u32>,
) -> impl Iterator<Item = Finding> {
    let unchecked = unchecked.map(|(line, count)| {
        let message = format!(
            "{count} of the Markdown files that the body refers to were not searched for hidden \
             text: the limits are {MAX_FILES} files, {MAX_FILE_BYTES} bytes in each, and \
             {MAX_ALL_BYTES} bytes in all"
        );
        Finding::warning("linked-unchecked", Some(line), message)
    });
    let skipped = first_skipped_line.map(|line| {
        let message = format!(
            "some names of Markdown files were not looked up, so their files may not have been \
             searched for hidden text: the limits are {MAX_LOOKUPS} names in the body, and \
             {MAX_LOOKUPS} in other files"
        );
        Finding::warning("linked-unchecked", Some(line), message)
    });
    unchecked.into_iter().chain(skipped)
}

/// Returns a finding if a linked file refers to Markdown files that SKILL.md does not name.
/// Subtracts its look-ups from `lookups_left`, the number that the skill can still use.
fn depth_finding(
    folder: &Folder,
    file: &Path,
    text: &str,
    is_direct: impl Fn(&Path) -> bool,
    lookups_left: &mut usize,
) -> Option<Finding> {
    let parent = file.parent().unwrap_or(Path::new(""));
    let mut further: Vec<(PathBuf, u32)> = Vec::new();
    for reference in relative_links(text, 1) {
        let Some(path) = normalised(parent, &reference.path).filter(|path| is_markdown(path))
        else {
            continue;
        };
        let is_known = |(known, _): &(PathBuf, u32)| *known == path;
        let is_skill_md = path.as_os_str().eq_ignore_ascii_case("SKILL.md");
        if !is_skill_md && !is_direct(&path) && !further.iter().any(is_known) {
            *lookups_left = lookups_left.saturating_sub(1);
            if folder.lookup(&path, true).is_ok() {
                further.push((path, reference.line));
            }
        }
        if further.len() == MAX_FURTHER || *lookups_left == 0 {
            break;
        }
    }
    let (first, line) = further.first()?;
    let others = match further.len() - 1 {
        0 => String::new(),
        MAX_OTHERS => format!(" and at least {MAX_OTHERS} other files"),
        1 => " and 1 other file".to_owned(),
        number => format!(" and {number} other files"),
    };
    let message = format!(
        "the file refers to {}{others}, but SKILL.md does not: references one level deep from \
         SKILL.md are recommended",
        quoted(&first.to_string_lossy())
    );
    Some(Finding::warning("reference-depth", Some(*line), message))
}

fn is_markdown(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    ["md", "markdown", "mdx"]
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

/// Joins a path to a folder in the skill, and removes `.` and `..`, so that each file has one path.
/// Returns `None` if the path leads out of the skill.
pub(super) fn normalised(folder: &Path, path: &str) -> Option<PathBuf> {
    let mut normalised = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::Normal(part) => normalised.push(part),
            Component::CurDir => {}
            Component::ParentDir if normalised.pop() => {}
            _ => return None,
        }
    }
    Some(normalised)
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
    fn searches_files_that_are_mentioned_for_hidden_text() {
        let hidden = || "b\u{e0041}\u{e0042}\n[x](SKILL.md) [other](other.md)".to_owned();
        let body = "`code.md` and text.md. <a href=\"tag.md#x\">t</a> @at.md [i](i{x}.md) \
                    [w](r/w*.md) `r/h{x}.md` https://a.b/url.md missing.md ../a/out.md SKILL.md \
                    **bold.md** 読むr/beside.mdを読む {baseDir}/r/dir.md r\\back.md ${A}/var.md";
        let read = [
            "at.md",
            "bold.md",
            "code.md",
            "i{x}.md",
            "other.md",
            "r/back.md",
            "r/beside.md",
            "r/dir.md",
            "r/h{x}.md",
            "r/w*.md",
            "tag.md",
            "text.md",
            "var.md",
        ];
        let mut files = vec![skill(body)];
        files.extend(read.iter().map(|path| (*path, hidden())));
        files.extend(["url.md", "out.md"].map(|path| (path, hidden())));
        let found = found(&files);
        let places: Vec<_> = found
            .iter()
            .map(|(rule, file, line, _)| (*rule, file.as_deref().unwrap_or_default(), *line))
            .collect();
        assert_eq!(places, read.map(|path| ("hidden-tags", path, 1)));
    }

    #[test]
    fn searches_files_that_only_other_files_name() {
        let hidden = || "b\u{e0041}\u{e0042}".to_owned();
        let text = |text: &str| text.to_owned();
        let found = found(&[
            skill("[a](r/a.md)\n\nb.md"),
            ("r/a.md", text("[c](s/c%20d.md) b.md r/e.md ../f.md")),
            ("b.md", text("g.md and ../out.md")),
            ("r/b.md", hidden()),
            ("r/s/c d.md", hidden()),
            ("r/e.md", hidden()),
            ("f.md", hidden()),
            ("g.md", text("`h.md` SKILL.md")),
            ("h.md", hidden()),
            ("unnamed.md", hidden()),
        ]);
        let hidden = found.iter().filter(|found| found.0 == "hidden-tags");
        let places: Vec<_> = hidden
            .map(|(_, file, ..)| file.as_deref().unwrap())
            .collect();
        assert_eq!(places, ["f.md", "h.md", "r/b.md", "r/e.md", "r/s/c d.md"]);
    }

    #[test]
    fn reports_names_beyond_limit_of_lookups() {
        let many: Vec<String> = (0..=MAX_LOOKUPS).map(|n| format!("{n}.md")).collect();
        for (files, line) in [
            (vec![skill(&format!("a\n{}", many.join(" ")))], 6),
            (
                vec![
                    skill("a\nb.md"),
                    ("b.md", many[..=MAX_LOOKUPS / 2].join(" ")),
                ],
                6,
            ),
        ] {
            let found = found(&files);
            let message = "some names of Markdown files were not looked up, so their files may \
                           not have been searched for hidden text: the limits are 1000 names in \
                           the body, and 1000 in other files";
            let expected = ("linked-unchecked", None, line, message.to_owned());
            assert_eq!(found, [expected], "{files:?}");
        }
    }

    #[test]
    fn reports_files_that_only_another_file_names() {
        let text = |text: &str| text.to_owned();
        let found = found(&[
            skill("[b](r/b.md) [d](d/) `r/e.md` and f.md"),
            (
                "r/b.md",
                text(
                    "[self](b.md) [skill](../SKILL.md) [d](../d/x.md) [e](e.md) [f](f.md)\n\
                     [out](../../g.md) [none](h.md) [t](t.txt)\n\
                     [c](c.md) [again](./c.md#x) [deep](s/deep.md)\n",
                ),
            ),
            ("r/c.md", text("[deep](s/deep.md)")),
            ("r/e.md", text("x")),
            ("r/f.md", text("x")),
            ("r/t.txt", text("x")),
            ("r/s/deep.md", text("x")),
            ("d/x.md", text("x")),
        ]);
        let message = "the file refers to `r/c.md` and 1 other file, but SKILL.md does not: \
                       references one level deep from SKILL.md are recommended";
        let file = Some("r/b.md".to_owned());
        assert_eq!(found, [("reference-depth", file, 3, message.to_owned())]);
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
    fn reports_files_beyond_the_limits() {
        let names: Vec<String> = (0..MAX_FILES + 1).map(|n| format!("{n}.md")).collect();
        let links: Vec<String> = names.iter().map(|name| format!("[x]({name})")).collect();
        let mut files = vec![skill(&links.join(" "))];
        files.extend(names.iter().map(|name| (&**name, "x".to_owned())));
        let large = usize::try_from(MAX_FILE_BYTES).unwrap() + 1;
        files[1].1 = "x".repeat(large - 1);
        files[2].1 = "x".repeat(large);
        let found = found(&files);
        let message = "2 of the Markdown files that the body refers to were not searched for \
                       hidden text: the limits are 200 files, 1048576 bytes in each, and 16777216 \
                       bytes in all";
        assert_eq!(found, [("linked-unchecked", None, 5, message.to_owned())]);
    }

    #[test]
    fn searches_a_bounded_number_of_bytes() {
        let names: Vec<String> = (0..18).map(|n| format!("{n}.md")).collect();
        let links: Vec<String> = names.iter().map(|name| format!("[x]({name})")).collect();
        let mut files = vec![skill(&links.join(" "))];
        let text = "x".repeat(usize::try_from(MAX_FILE_BYTES).unwrap());
        files.extend(names.iter().map(|name| (&**name, text.clone())));
        let found = found(&files);
        let [("linked-unchecked", None, 5, message)] = &found[..] else {
            panic!("{found:?}");
        };
        assert!(message.starts_with("2 of the Markdown files"), "{message}");
    }
}
