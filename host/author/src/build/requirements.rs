//! Reads the pinned packages in `requirements.txt`, and separates compilers from libraries.
//!
//! `pip install --require-hashes` still accepts paths, addresses, and options such as `--index-url`
//! in that file. This module reads only names, versions, markers and hashes. pip gets lines made of
//! these, never the file itself. `venv.rs` runs pip.

/// The packages of compilers. All others are libraries of the project.
const COMPILERS: [&str; 2] = ["componentize-py", "ziglang"];

/// A package that a requirements file pins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Requirement<'a> {
    /// The name, normalized for comparison.
    pub(super) name: String,
    pub(super) version: String,
    /// The package's lines in the file.
    pub(super) source: &'a str,
    /// The line for pip.
    line: String,
}

impl Requirement<'_> {
    /// Returns whether this is the package of a compiler.
    pub(super) fn is_compiler(&self) -> bool {
        COMPILERS.contains(&self.name.as_str())
    }
}

/// Reads a requirements file.
///
/// Each line must be a registry package with its version and hashes. The error names the first
/// line that is not. Guards against: a project that replaces the compiler with its own, by a path
/// or an address.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement<'_>>, String> {
    let mut requirements = Vec::new();
    for (number, source) in logical_lines(text) {
        let words: Vec<&str> = source.lines().flat_map(words_of_line).collect();
        if words.is_empty() {
            continue;
        }
        requirements.push(parse_requirement(&words, source).ok_or_else(|| {
            format!(
                "line {number}: expected `NAME==VERSION --hash=sha256:…`, found `{}`",
                words.join(" ")
            )
        })?);
    }
    Ok(requirements)
}

/// Returns the words before a comment or a backslash at the end of the line.
fn words_of_line(line: &str) -> impl Iterator<Item = &str> {
    line.trim_end_matches('\\')
        .split_whitespace()
        .take_while(|word| !word.starts_with('#'))
}

/// Reads words such as `one[more]==1.0 ; python_version < "3.12" --hash=sha256:0123`.
fn parse_requirement<'a>(words: &[&str], source: &'a str) -> Option<Requirement<'a>> {
    // As in pip, all words after the first option are options.
    let is_option = |word: &&str| word.starts_with('-');
    let (specifier, options) = words.split_at(words.iter().position(is_option)?);
    let specifier = specifier.join(" ");
    let (package, marker) = specifier.split_once(';').unwrap_or((&specifier, ""));
    let (name, version) = package.split_once("==")?;
    let version = version.trim();
    let consists_of = |text: &str, punctuation: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || punctuation.contains(c))
    };
    let is_hash = |option: &&str| {
        let digest = option.strip_prefix("--hash=sha256:");
        digest.is_some_and(|digest| consists_of(digest, ""))
    };
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && consists_of(name, "-._[], ")
        && version.starts_with(|c: char| c.is_ascii_digit())
        && consists_of(version, ".+!*")
        && consists_of(marker, " ._-+*,<>=!~'\"()")
        && options.iter().all(is_hash);
    is_plain.then(|| Requirement {
        name: normalize_name(name.split('[').next().unwrap_or_default()),
        version: version.to_owned(),
        source,
        line: words.join(" "),
    })
}

/// Normalizes a package's name, as registries do to compare names.
pub(super) fn normalize_name(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// Returns the lines for pip that install the compilers, and those that install the libraries.
pub(super) fn split_compilers(requirements: &[Requirement<'_>]) -> (String, String) {
    let lines = |is_compiler| -> String {
        requirements
            .iter()
            .filter(|requirement| requirement.is_compiler() == is_compiler)
            .map(|requirement| format!("{}\n", requirement.line))
            .collect()
    };
    (lines(true), lines(false))
}

/// Splits a text into logical lines: a backslash at the end of a line joins the next line to
/// it. Returns each with the number of its first line.
fn logical_lines(text: &str) -> Vec<(usize, &str)> {
    let (mut lines, mut start, mut end, mut number) = (Vec::new(), 0, 0, 1);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        end += line.len();
        if !line.trim_end_matches(['\r', '\n']).ends_with('\\') {
            lines.push((number, &text[start..end]));
            (start, number) = (end, index + 2);
        }
    }
    lines.push((number, &text[start..]));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "--hash=sha256:0000";

    #[test]
    fn accepts_only_registry_packages() {
        for plain in [
            "",
            "# a comment\n",
            &format!("one==1.0 \\\n    {HASH} \\\n    {HASH}\n    # via two\n"),
            &format!("one[more]==1.0 ; python_version < \"3.12\" \\\n    {HASH}\n"),
            &format!("one==1.0 \\\r\n\t{HASH}\t# a comment\r\n"),
            &format!("one==1.0\\\n{HASH}\n# by hand \\\ntwo==2.0 {HASH}\n"),
        ] {
            assert!(parse(plain).is_ok(), "{plain}");
        }
        for line in [
            "one @ file://${PWD}/one.whl --hash=sha256:0000",
            "./one.whl --hash=sha256:0000",
            "one.whl",
            "one==1.0",
            "-r other.txt",
            "--index-url https://registry.example/simple",
            "--no-binary :all:",
            "one==1.0 --hash=sha256:0000 --config-settings=x",
            "one==${VERSION} --hash=sha256:0000",
            "one==1.0 ; x == \"${VALUE}\" --hash=sha256:0000",
            "one==1.0 ; x == \"/project\" --hash=sha256:0000",
            "project/one==1.0 --hash=sha256:0000",
            "one-1.0-py3-none-any.whl;python_version=='3.12' --hash=sha256:0000",
            "one==1.0 one.whl;python_version=='3.12' --hash=sha256:0000",
            "one==1.0 --hash=sha256:0000 two==2.0",
            "one==1.0 --hash=sha256:\"00",
            "one===1.0 --hash=sha256:0000",
            "one==1.0#a --hash=sha256:0000",
            "one==1.0\\ --hash=sha256:0000",
        ] {
            let text = format!("# by hand\ntwo==2.0 \\\n  {HASH}\n{line}\n");
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with("line 4: expected"), "{line}: {error}");
        }
    }

    #[test]
    fn gives_pip_no_unusual_line_breaks() {
        for end in "\r\u{b}\u{c}\u{1c}\u{1d}\u{1e}\u{85}\u{2028}\u{2029}\u{feff}\0é".chars() {
            let text = format!("one==1.0 {HASH}\ntwo==2.0 {HASH} # by hand{end}--index-url=x\n");
            let (_, libraries) = split_compilers(&parse(&text).unwrap());
            assert_eq!(libraries, format!("one==1.0 {HASH}\ntwo==2.0 {HASH}\n"));
            let text = format!("two==2.0 ; a{end}b {HASH}\n");
            let is_safe = |requirements: Vec<Requirement<'_>>| {
                let mut lines = requirements.iter().map(|requirement| &requirement.line);
                lines.all(|line| line.chars().all(|c| matches!(c, ' '..='~')))
            };
            assert!(parse(&text).is_err() || parse(&text).is_ok_and(is_safe));
        }
        for comment in ["# by hand \\", "    # by hand\\", "two==2.0 # by hand \\"] {
            let text = format!("one==1.0 \\\n    {HASH} \\\n{comment}\n/project/evil.whl\n");
            assert!(parse(&text).is_err(), "{comment}");
        }
    }

    #[test]
    fn separates_compilers_from_libraries() {
        let text = format!(
            "# by hand\ncomponentize_py==0.25.1 \\\n    {HASH}\nPyYAML==6.0.3 {HASH}\nx[y]==1 {HASH}"
        );
        let requirements = parse(&text).unwrap();
        let names: Vec<_> = requirements
            .iter()
            .map(|requirement| (&*requirement.name, &*requirement.version))
            .collect();
        assert_eq!(
            names,
            [
                ("componentize-py", "0.25.1"),
                ("pyyaml", "6.0.3"),
                ("x", "1")
            ]
        );
        let (compilers, libraries) = split_compilers(&requirements);
        assert_eq!(compilers, format!("componentize_py==0.25.1 {HASH}\n"));
        assert_eq!(libraries, format!("PyYAML==6.0.3 {HASH}\nx[y]==1 {HASH}\n"));
    }
}
