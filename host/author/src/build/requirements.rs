//! `requirements.txt`: the packages that it pins, and which of them are compilers.
//! `venv.rs` installs them.

/// The packages that compile. All others are libraries of the project.
const COMPILERS: [&str; 2] = ["componentize-py", "ziglang"];

/// A package of a requirements file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Requirement<'a> {
    /// The name, as registries compare names.
    pub(super) name: String,
    pub(super) version: String,
    /// Its lines.
    pub(super) text: &'a str,
    /// What was understood of them, in one line. pip gets this alone: it reads more in a
    /// file than is understood here.
    line: String,
}

impl Requirement<'_> {
    fn is_compiler(&self) -> bool {
        COMPILERS.contains(&self.name.as_str())
    }
}

/// Reads a requirements file. The error is the number of a line that names anything but a
/// package of the registry, by version and hashes, and what is wrong with it. Guards
/// against: a compiler that lies in the project.
pub(super) fn read(text: &str) -> Result<Vec<Requirement<'_>>, String> {
    // pip ends lines at more characters than at a line feed, and a line that is a comment
    // has no next one for it.
    for (at, line) in text.lines().enumerate() {
        let wrong = match line.ends_with('\\') && line.contains('#') {
            true => "a comment ends in a backslash",
            false if line.chars().all(|c| matches!(c, ' '..='~' | '\t')) => continue,
            false => "a character is not printable ASCII",
        };
        return Err(format!("line {}: {wrong}", at + 1));
    }
    let mut found = Vec::new();
    for (number, text) in logical_lines(text) {
        let line = text.lines().map(without_comment);
        let line: String = line.map(|line| line.trim_end_matches('\\')).collect();
        if line.trim().is_empty() {
            continue;
        }
        found.push(requirement(&line, text).ok_or_else(|| {
            format!(
                "line {number}: only packages of the registry may stand there, by version and \
                 hashes: `{}`",
                line.trim()
            )
        })?);
    }
    Ok(found)
}

/// Reads a line such as `one[more]==1.0 ; python_version < "3.12" --hash=sha256:0123`.
fn requirement<'a>(line: &str, text: &'a str) -> Option<Requirement<'a>> {
    if line.contains(['@', '/', '\\', '$', '%', '#']) {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let options = words.iter().position(|word| word.starts_with('-'));
    let (wanted, options) = words.split_at(options.unwrap_or(words.len()));
    let is_hash = |word: &&str| {
        let digest = word.strip_prefix("--hash=sha256:");
        digest.is_some_and(|digest| digest.chars().all(|c| c.is_ascii_alphanumeric()))
    };
    let wanted = wanted.join(" ");
    let package = wanted.split(';').next()?;
    let (name, version) = package.split_once("==")?;
    let version = version.trim();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-._[], ".contains(c);
    let is_of_version = |c: char| c.is_ascii_alphanumeric() || ".+!*".contains(c);
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_of_name)
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(is_of_version)
        && options.iter().all(is_hash);
    is_plain.then(|| Requirement {
        name: normal_name(name.split('[').next().unwrap_or_default()),
        version: version.to_owned(),
        text,
        line: words.join(" "),
    })
}

/// Returns a line up to its comment, if it has one.
fn without_comment(line: &str) -> &str {
    let mut marks = line.match_indices('#').map(|(at, _)| at);
    let begins = |at: &usize| *at == 0 || line[..*at].ends_with([' ', '\t']);
    marks.find(begins).map_or(line, |at| &line[..at])
}

/// Returns a package's name as registries compare names.
pub(super) fn normal_name(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// Returns the lines that install the compilers, and those of the libraries.
pub(super) fn split(requirements: &[Requirement<'_>]) -> (String, String) {
    let text = |is_compiler| -> String {
        let of_kind = requirements
            .iter()
            .filter(|it| it.is_compiler() == is_compiler);
        of_kind.map(|it| format!("{}\n", it.line)).collect()
    };
    (text(true), text(false))
}

/// Splits a text into lines, each with those that a backslash at the end adds, and with
/// the number of its first.
fn logical_lines(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut start, mut at, mut first) = (Vec::new(), 0, 0, 1);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        at += line.len();
        if !line.trim_end_matches(['\r', '\n']).ends_with('\\') {
            found.push((first, &text[start..at]));
            (start, first) = (at, index + 2);
        }
    }
    found.push((first, &text[start..]));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "--hash=sha256:0000";

    #[test]
    fn accepts_only_packages_of_the_registry() {
        for plain in [
            "",
            "# a comment\n",
            &format!("one==1.0 \\\n    {HASH} \\\n    {HASH}\n    # via two\n"),
            &format!("one[more]==1.0 ; python_version < \"3.12\" \\\n    {HASH}\n"),
            &format!("one==1.0 \\\r\n\t{HASH}\t# a comment\r\n"),
        ] {
            assert!(read(plain).is_ok(), "{plain}");
        }
        for line in [
            "one @ file://${PWD}/one.whl --hash=sha256:0000",
            "./one.whl --hash=sha256:0000",
            "one.whl",
            "-r other.txt",
            "--index-url https://registry.example/simple",
            "--no-binary :all:",
            "one==1.0 --hash=sha256:0000 --config-settings=x",
            "one==${VERSION}",
            "one-1.0-py3-none-any.whl;python_version=='3.12' --hash=sha256:0000",
            "one==1.0 one.whl;python_version=='3.12' --hash=sha256:0000",
            "one==1.0 --hash=sha256:0000 two==2.0",
            "one==1.0 --hash=sha256:\"00",
            "one===1.0",
            "one==1.0#a --hash=sha256:0000",
            "one==1.0\\ ",
            "one==1.0\\\n--hash=sha256:0000",
        ] {
            let text = format!("# by hand\ntwo==2.0 \\\n  {HASH}\n{line}\n");
            let error = read(&text).unwrap_err();
            assert!(
                error.starts_with("line 4: only packages"),
                "{line}: {error}"
            );
        }
    }

    #[test]
    fn refuses_what_pip_splits_into_other_lines() {
        for end in "\r\u{b}\u{c}\u{1c}\u{1d}\u{1e}\u{85}\u{2028}\u{2029}\u{feff}\0é".chars() {
            let text = format!("one==1.0 {HASH}\ntwo==2.0 {HASH} # by hand{end}--index-url=x\n");
            let error = read(&text).unwrap_err();
            assert_eq!(
                error, "line 2: a character is not printable ASCII",
                "{end:?}"
            );
        }
        for comment in ["# by hand \\", "    # by hand\\", "two==2.0 # by hand \\"] {
            let text = format!("one==1.0 \\\n    {HASH} \\\n{comment}\n/project/evil.whl\n");
            let error = read(&text).unwrap_err();
            assert_eq!(error, "line 3: a comment ends in a backslash", "{comment}");
        }
    }

    #[test]
    fn tells_compilers_from_libraries() {
        let text = format!(
            "# by hand\ncomponentize_py==0.25.1 \\\n    {HASH}\nPyYAML==6.0.3 {HASH}\nx[y]==1 {HASH}"
        );
        let found = read(&text).unwrap();
        let names: Vec<_> = found.iter().map(|it| (&*it.name, &*it.version)).collect();
        assert_eq!(
            names,
            [
                ("componentize-py", "0.25.1"),
                ("pyyaml", "6.0.3"),
                ("x", "1")
            ]
        );
        let (compilers, libraries) = split(&found);
        assert_eq!(compilers, format!("componentize_py==0.25.1 {HASH}\n"));
        assert_eq!(libraries, format!("PyYAML==6.0.3 {HASH}\nx[y]==1 {HASH}\n"));
    }
}
