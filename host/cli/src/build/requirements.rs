//! `requirements.txt`: the packages that it pins, and which of them are compilers.
//! `venv.rs` installs them.

/// The packages that compile. All others are libraries of the project.
const COMPILERS: [&str; 2] = ["componentize-py", "ziglang"];

/// A package of a requirements file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Requirement<'a> {
    /// The name, as registries compare names.
    pub(super) name: String,
    pub(super) version: &'a str,
    /// Its lines.
    pub(super) text: &'a str,
}

impl Requirement<'_> {
    fn is_compiler(&self) -> bool {
        COMPILERS.contains(&self.name.as_str())
    }
}

/// Reads a requirements file. The error is a line that names anything but a package of
/// the registry, by version and hashes: a path, a URL, an option. Guards against: a
/// compiler that lies in the project.
pub(super) fn read(text: &str) -> Result<Vec<Requirement<'_>>, String> {
    let mut found = Vec::new();
    for lines in logical_lines(text) {
        let line = lines.replace("\\\r\n", " ").replace("\\\n", " ");
        let without_comments: Vec<&str> = line
            .lines()
            .map(|line| line.split_once(" #").map_or(line, |(line, _comment)| line))
            .collect();
        let line = without_comments.join(" ");
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_plain = !line.contains(['@', '/', '\\', '$', '%'])
            && line
                .split_whitespace()
                .all(|word| !word.starts_with('-') || word.starts_with("--hash=sha256:"));
        let Some((name, _)) = line.split_once("==").filter(|_| is_plain) else {
            return Err(line.to_owned());
        };
        let is_of_version = |c: char| c.is_ascii_alphanumeric() || ".+!*".contains(c);
        let start = lines.find("==").map_or(0, |at| at + 2);
        let version = lines[start..].trim_start();
        let end = version.find(|c| !is_of_version(c)).unwrap_or(version.len());
        found.push(Requirement {
            name: normal_name(name.split('[').next().unwrap_or_default()),
            version: &version[..end],
            text: lines,
        });
    }
    Ok(found)
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
        of_kind
            .map(|it| format!("{}\n", it.text.trim_end()))
            .collect()
    };
    (text(true), text(false))
}

/// Splits a text into lines, each with those that a backslash at the end adds.
fn logical_lines(text: &str) -> Vec<&str> {
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        if !line.trim_end().ends_with('\\') {
            found.push(&text[start..at]);
            start = at;
        }
    }
    found.push(&text[start..]);
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
        ] {
            let text = format!("two==2.0 {HASH}\n{line}\n");
            assert_eq!(read(&text), Err(line.to_owned()));
        }
    }

    #[test]
    fn tells_compilers_from_libraries() {
        let text = format!(
            "# by hand\ncomponentize_py==0.25.1 \\\n    {HASH}\nPyYAML==6.0.3 {HASH}\nx[y]==1 {HASH}"
        );
        let found = read(&text).unwrap();
        let names: Vec<_> = found.iter().map(|it| (&*it.name, it.version)).collect();
        assert_eq!(
            names,
            [
                ("componentize-py", "0.25.1"),
                ("pyyaml", "6.0.3"),
                ("x", "1")
            ]
        );
        let (compilers, libraries) = split(&found);
        assert_eq!(
            compilers,
            format!("componentize_py==0.25.1 \\\n    {HASH}\n")
        );
        assert_eq!(libraries, format!("PyYAML==6.0.3 {HASH}\nx[y]==1 {HASH}\n"));
    }
}
