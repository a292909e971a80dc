//! Compares the digests of built components with those of a committed `dist` folder.

use std::fmt;

use crate::digest::{Digest, Sums};

/// The file that lists the digests of a `dist` folder.
pub(crate) const SUMS_FILE: &str = "SHA256SUMS";

/// A difference between built, committed and listed components.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The committed component differs from the built one.
    Differs {
        file: String,
        committed: Digest,
        built: Digest,
    },
    /// A guest's component is not committed.
    Missing { file: String, built: Digest },
    /// No guest builds this component.
    Extra { file: String, committed: Digest },
    /// The list has a different digest for the committed component.
    Mislisted {
        file: String,
        committed: Digest,
        listed: Digest,
    },
    /// A committed component is not in the list.
    Unlisted { file: String, committed: Digest },
    /// A file in the list is not committed.
    Dangling { file: String, listed: Digest },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs {
                file,
                committed,
                built,
            } => {
                write!(
                    f,
                    "`{file}` differs\n  committed: {committed}\n  built:     {built}"
                )
            }
            Self::Missing { file, built } => {
                write!(
                    f,
                    "`{file}` is missing\n  committed: none\n  built:     {built}"
                )
            }
            Self::Extra { file, committed } => {
                write!(
                    f,
                    "`{file}` is extra\n  committed: {committed}\n  built:     none"
                )
            }
            Self::Mislisted {
                file,
                committed,
                listed,
            } => {
                write!(
                    f,
                    "`{file}` differs in `{SUMS_FILE}`\n  committed: {committed}\n  listed:    {listed}"
                )
            }
            Self::Unlisted { file, committed } => {
                write!(
                    f,
                    "`{file}` is missing in `{SUMS_FILE}`\n  committed: {committed}\n  listed:    none"
                )
            }
            Self::Dangling { file, listed } => {
                write!(
                    f,
                    "`{file}` is extra in `{SUMS_FILE}`\n  committed: none\n  listed:    {listed}"
                )
            }
        }
    }
}

/// Compares built, committed and listed digests, in the order of file names.
pub(crate) fn compare(built: &Sums, committed: &Sums, listed: &Sums) -> Vec<Finding> {
    let mut names: Vec<_> = built
        .keys()
        .chain(committed.keys())
        .chain(listed.keys())
        .collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .flat_map(|file| compare_file(file, built, committed, listed))
        .collect()
}

fn compare_file(file: &str, built: &Sums, committed: &Sums, listed: &Sums) -> Vec<Finding> {
    let name = || file.to_owned();
    let digest = |sums: &Sums| sums.get(file).copied();

    let component_finding = match (digest(built), digest(committed)) {
        (Some(built), Some(committed)) if built != committed => Some(Finding::Differs {
            file: name(),
            committed,
            built,
        }),
        (Some(built), None) => Some(Finding::Missing {
            file: name(),
            built,
        }),
        (None, Some(committed)) => Some(Finding::Extra {
            file: name(),
            committed,
        }),
        _ => None,
    };
    let list_finding = match (digest(committed), digest(listed)) {
        (Some(committed), Some(listed)) if committed != listed => Some(Finding::Mislisted {
            file: name(),
            committed,
            listed,
        }),
        (Some(committed), None) => Some(Finding::Unlisted {
            file: name(),
            committed,
        }),
        (None, Some(listed)) => Some(Finding::Dangling {
            file: name(),
            listed,
        }),
        _ => None,
    };
    component_finding.into_iter().chain(list_finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums<const N: usize>(files: [(&str, &[u8]); N]) -> Sums {
        files
            .into_iter()
            .map(|(name, content)| (name.to_owned(), Digest::of(content)))
            .collect()
    }

    #[test]
    fn finds_nothing_if_all_are_equal() {
        let same = sums([("a.wasm", b"a"), ("b.wasm", b"b")]);
        assert_eq!(compare(&same, &same, &same), []);
    }

    #[test]
    fn finds_each_difference_in_order_of_names() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let built = sums([
            ("differs", b"a"),
            ("lost", b"a"),
            ("mislisted", b"a"),
            ("unlisted", b"a"),
        ]);
        let committed = sums([
            ("differs", b"b"),
            ("extra", b"b"),
            ("mislisted", b"a"),
            ("unlisted", b"a"),
        ]);
        let listed = sums([
            ("dangling", b"a"),
            ("differs", b"b"),
            ("extra", b"b"),
            ("mislisted", b"b"),
        ]);
        let file = str::to_owned;
        assert_eq!(
            compare(&built, &committed, &listed),
            [
                Finding::Dangling {
                    file: file("dangling"),
                    listed: a
                },
                Finding::Differs {
                    file: file("differs"),
                    committed: b,
                    built: a
                },
                Finding::Extra {
                    file: file("extra"),
                    committed: b
                },
                Finding::Missing {
                    file: file("lost"),
                    built: a
                },
                Finding::Mislisted {
                    file: file("mislisted"),
                    committed: a,
                    listed: b
                },
                Finding::Unlisted {
                    file: file("unlisted"),
                    committed: a
                },
            ]
        );
    }

    #[test]
    fn checks_component_and_list_separately() {
        let findings = compare(
            &sums([("x", b"1")]),
            &sums([("x", b"2")]),
            &sums([("x", b"3")]),
        );
        assert!(
            matches!(
                findings[..],
                [Finding::Differs { .. }, Finding::Mislisted { .. }]
            ),
            "{findings:?}"
        );
    }

    #[test]
    fn message_shows_both_digests() {
        let (committed, built) = (Digest::of(b"a"), Digest::of(b"b"));
        let text = Finding::Differs {
            file: "x.wasm".to_owned(),
            committed,
            built,
        }
        .to_string();
        assert!(text.contains("`x.wasm` differs"), "{text}");
        assert!(
            text.contains(&committed.to_string()) && text.contains(&built.to_string()),
            "{text}"
        );
    }
}
