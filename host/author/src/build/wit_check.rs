//! Checks a project's WIT before a compiler reads it, so that errors have the same form in every
//! language: file, line and column first.

use std::path::Path;

use wit_parser::Resolve;

use super::BuildError;
use super::project::Project;

/// The package of the interfaces between host and tools.
const HOST_PACKAGE: (&str, &str) = ("skillhost", "tool");

/// The prefix of a location in the errors of the WIT parser.
const LOCATION_PREFIX: &str = "--> ";

/// Checks the folder `wit` of a project, if it has one.
pub(super) fn check(project: &Project) -> Result<(), BuildError> {
    let folder = project.folder.join("wit");
    if !folder.is_dir() {
        return Ok(());
    }
    let mut resolve = Resolve::default();
    let (_, sources) = match resolve.push_dir(&folder) {
        Ok(parsed) => parsed,
        Err(error) => {
            // The chain lists the folders that were read, and then the error itself.
            let folders = error.chain().count() - 1;
            let prefix: String = error
                .chain()
                .take(folders)
                .map(|cause| format!("{cause}: "))
                .collect();
            let text = resolve.render_error(&error);
            let text = text.strip_prefix(&prefix).unwrap_or(&text);
            return Err(located_error(&project.folder, text));
        }
    };
    let packages = resolve.packages.iter();
    let versions: Vec<String> = packages
        .filter(|(_, package)| (&*package.name.namespace, &*package.name.name) == HOST_PACKAGE)
        .map(|(id, package)| {
            let file = sources.package_paths(id).and_then(|mut files| files.next());
            let file = file.map(|file| relative(&project.folder, &file.display().to_string()));
            format!("`{}` in `{}`", package.name, file.unwrap_or_default())
        })
        .collect();
    if versions.len() < 2 {
        return Ok(());
    }
    Err(BuildError::project(format!(
        "`wit` has several versions of one package: {}",
        versions.join(", ")
    ))
    .fix(
        "keep one, and write its version in the packages that use it; a new project of \
         `skillhost new` has the newest",
    ))
}

/// Returns an error that begins with its location. `text` is the parser's message, its location,
/// and the line of the file.
fn located_error(project: &Path, text: &str) -> BuildError {
    let text = relative(project, text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let location = lines.iter().enumerate().find_map(|(index, line)| {
        let location = line.trim().strip_prefix(LOCATION_PREFIX)?;
        Some((index, location))
    });
    let Some((index, location)) = location else {
        return BuildError::project(format!("in `wit`: {}", lines.join(" ")));
    };
    let message = lines[..index].join(" ");
    let error = BuildError::project(format!(
        "{location}: {}{}",
        message.trim(),
        advice(&message)
    ));
    lines[index + 1..]
        .iter()
        .filter(|line| !matches!(line.trim(), "" | "|"))
        .fold(error, |error, line| error.fix(*line))
}

/// Returns advice on common mistakes, to append to the message.
fn advice(message: &str) -> String {
    if message.contains("invalid character in identifier '_'") {
        return "; names in WIT use `-` instead, as in `skill-name`".to_owned();
    }
    match message.split_once("found keyword `") {
        Some((_, word)) => {
            let word = word.trim_end().trim_end_matches('`');
            format!("; to use a keyword of WIT as a name, write `%{word}`")
        }
        None => String::new(),
    }
}

/// Makes the paths in a text relative to the project.
fn relative(project: &Path, text: &str) -> String {
    text.replace(&format!("{}/", project.display()), "")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::build::search::SearchPath;
    use crate::kit::Language;

    /// Returns the error about a project with these files in `wit`, or an empty string.
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
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn names_location_of_wit_error() {
        let dependency = "package skillhost:tool@0.1.0;\ninterface a {}\n";
        let mut failures = Vec::new();
        for (files, expected) in [
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
                "'_'; names in WIT use `-` instead, as in `skill-name`",
            ),
            (
                &[("w.wit", "package a:b;\ninterface t {\n  list: func();\n}\n")],
                "found keyword `list`; to use a keyword of WIT as a name, write `%list`",
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
            let actual = messages(files);
            let matches = actual.contains(expected) && actual.is_empty() == expected.is_empty();
            if !matches || actual.contains("/tmp") {
                failures.push(format!("{files:?}: {actual}"));
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
