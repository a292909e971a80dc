//! The project's WIT, read before any compiler reads it: its errors come with file, line
//! and column in every language, and without the compiler's own code around them.

use std::path::Path;

use wit_parser::Resolve;

use super::Fault;
use super::project::Project;

/// The package whose interfaces are called and offered by the host.
const PACKAGE: (&str, &str) = ("skillhost", "tool");

/// What stands before a place in the reader's errors.
const PLACE: &str = "--> ";

/// Checks the folder `wit` of a project, if it has one.
pub(super) fn check(project: &Project) -> Result<(), Fault> {
    let folder = project.folder.join("wit");
    if !folder.is_dir() {
        return Ok(());
    }
    let mut resolve = Resolve::default();
    let read = resolve.push_dir(&folder);
    let (_, sources) = match read {
        Ok(read) => read,
        Err(error) => {
            // The folders that were read, and then the error.
            let outer = error.chain().count() - 1;
            let outer = error.chain().take(outer).map(|cause| format!("{cause}: "));
            let text = resolve.render_error(&error);
            let text = text
                .strip_prefix(&outer.collect::<String>())
                .unwrap_or(&text);
            return Err(fault(&project.folder, text));
        }
    };
    let packages = resolve.packages.iter();
    let versions: Vec<String> = packages
        .filter(|(_, package)| (&*package.name.namespace, &*package.name.name) == PACKAGE)
        .map(|(id, package)| {
            let file = sources.package_paths(id).and_then(|mut files| files.next());
            let file = file.map(|file| inside(&project.folder, &file.display().to_string()));
            format!("`{}` in `{}`", package.name, file.unwrap_or_default())
        })
        .collect();
    if versions.len() < 2 {
        return Ok(());
    }
    Err(Fault::project(format!(
        "`wit` has several versions of one package: {}",
        versions.join(", ")
    ))
    .fix("keep one, and write its version in the packages that use it; `skillhost new` brings the newest"))
}

/// Returns the error of a WIT file, with its place first. `text` is the reader's: the error,
/// its place, and the line of the file.
fn fault(project: &Path, text: &str) -> Fault {
    let text = inside(project, text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let place = lines
        .iter()
        .position(|line| line.trim_start().starts_with(PLACE));
    let Some((at, place)) = place.and_then(|at| Some((at, lines[at].trim().strip_prefix(PLACE)?)))
    else {
        return Fault::project(format!("in `wit`: {}", lines.join(" ")));
    };
    let message = lines[..at].join(" ");
    let fault = Fault::project(format!("{place}: {}{}", message.trim(), remedy(&message)));
    let excerpt = lines[at + 1..].iter();
    let excerpt = excerpt.filter(|line| !matches!(line.trim(), "" | "|"));
    excerpt.fold(fault, |fault, line| fault.fix(*line))
}

/// Returns what to do about errors that those who are new to WIT make, to stand after them.
fn remedy(message: &str) -> String {
    if message.contains("invalid character in identifier '_'") {
        return "; names in WIT have `-`, such as `skill-name`".to_owned();
    }
    match message.split_once("found keyword `") {
        Some((_, word)) => {
            let word = word.trim_end().trim_end_matches('`');
            format!("; as a name, a word of WIT's own is written `%{word}`")
        }
        None => String::new(),
    }
}

/// Returns a text with the paths in a project as they are seen from there.
fn inside(project: &Path, text: &str) -> String {
    text.replace(&format!("{}/", project.display()), "")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::build::search::SearchPath;
    use crate::kit::Language;

    /// Returns the messages about a project with these files in `wit`.
    fn messages(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("wit").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let project = Project {
            folder: folder.path().to_owned(),
            language: Language::C,
            programs: SearchPath::outside(folder.path()),
        };
        match check(&project) {
            Ok(()) => String::new(),
            Err(fault) => format!("{fault:?}"),
        }
    }

    #[test]
    fn names_the_place_of_a_wit_error() {
        let dependency = "package skillhost:tool@0.1.0;\ninterface a {}\n";
        let mut wrong = Vec::new();
        for (files, shown) in [
            (
                &[("w.wit", "package a:b;\ninterface tools\n  f: func();\n}\n")][..],
                "wit/w.wit:3:3: expected '{'",
            ),
            (
                &[(
                    "w.wit",
                    "package a:b;\ninterface t {\n  f: func(a: sting);\n}\n",
                )],
                "wit/w.wit:3:14: name `sting` does not exist",
            ),
            (
                &[(
                    "w.wit",
                    "package a:b;\ninterface t {\n  f: func(skill_name: string);\n}\n",
                )],
                "'_'; names in WIT have `-`, such as `skill-name`",
            ),
            (
                &[("w.wit", "package a:b;\ninterface t {\n  list: func();\n}\n")],
                "found keyword `list`; as a name, a word of WIT's own is written `%list`",
            ),
            (
                &[("w.wit", "package a:b;\nworld w { export c:d/e; }\n")],
                "wit/w.wit:2:18: package 'c:d' not found",
            ),
            (
                &[("w.wit", "package a:b;\n"), ("v.wit", "package a:c;\n")],
                "wit/w.wit:1:9: package identifier `a:b` does not match",
            ),
            (
                &[
                    ("w.wit", "package a:b;\n"),
                    ("deps/x/x.wit", "package c:d\n"),
                ],
                "wit/deps/x/x.wit:2:1: expected '{', found eof",
            ),
            (
                &[
                    (
                        "w.wit",
                        "package a:b;\nworld w { import skillhost:tool/a@0.1.0; import skillhost:tool/a@0.1.1; }\n",
                    ),
                    ("deps/x/x.wit", dependency),
                    ("deps/y/y.wit", &dependency.replace("0.1.0", "0.1.1")),
                ],
                "several versions of one package: `skillhost:tool@0.1.0` in `wit/deps/x/x.wit`, `skillhost:tool@0.1.1` in `wit/deps/y/y.wit`",
            ),
            (
                &[("w.wit", "package a:b;\n"), ("deps/x/x.wit", dependency)],
                "",
            ),
            (&[], ""),
        ] {
            let found = messages(files);
            let fits = found.contains(shown) && found.is_empty() == shown.is_empty();
            if !fits || found.contains("/tmp") {
                wrong.push(format!("{files:?}: {found}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
