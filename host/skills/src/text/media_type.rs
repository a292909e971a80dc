//! Media types of typical files in skills, by extension. If the extension is unknown, the
//! content decides. The crate `mime_guess` has other types for YAML, TOML, Python and SQL, and over
//! a thousand types that skills do not need.

/// Extensions in lower case, sorted, with their types.
const TYPES: [(&str, &str); 44] = [
    ("bash", "application/x-sh"),
    ("c", "text/x-c"),
    ("cfg", "text/plain"),
    ("conf", "text/plain"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("gif", "image/gif"),
    ("go", "text/x-go"),
    ("gz", "application/gzip"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ini", "text/plain"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("log", "text/plain"),
    ("markdown", "text/markdown"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("rst", "text/x-rst"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("toml", "application/toml"),
    ("tsv", "text/tab-separated-values"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("zip", "application/zip"),
];

/// Returns the media type for a path's extension.
pub fn of_path(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next()?;
    let (stem, extension) = name.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    let extension = match extension.to_ascii_lowercase() {
        yml if yml == "yml" => "yaml".to_owned(),
        extension => extension,
    };
    let found = TYPES.binary_search_by_key(&&*extension, |(known, _)| known);
    found.ok().map(|at| TYPES[at].1)
}

/// Returns the media type of a file, given whether its content is text.
pub fn of(path: &str, is_text: bool) -> &'static str {
    of_path(path).unwrap_or(if is_text {
        "text/plain"
    } else {
        "application/octet-stream"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_type_by_extension_then_by_content() {
        assert!(TYPES.is_sorted_by(|one, next| one.0 < next.0));
        for (path, wanted) in [
            ("SKILL.md", Some("text/markdown")),
            ("docs/X.MD", Some("text/markdown")),
            ("a.yml", Some("application/yaml")),
            ("a.tar.gz", Some("application/gzip")),
            ("a.md/plain", None),
            (".md", None),
            ("Makefile", None),
            ("a.", None),
            ("a.unknown", None),
        ] {
            assert_eq!(of_path(path), wanted, "{path}");
        }
        assert_eq!(of("x", true), "text/plain");
        assert_eq!(of("x", false), "application/octet-stream");
        assert_eq!(of("x.png", false), "image/png");
    }
}
