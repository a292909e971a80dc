//! What is the same and what differs between the components that were built
//! and a committed `dist` folder. Works on digests alone, touches no file.

use std::fmt;

use crate::digest::{Digest, Sums};

/// The file that lists the digests of a `dist` folder.
pub(crate) const SUMS_FILE: &str = "SHA256SUMS";

/// One thing that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The committed component is not what its source builds.
    Differs {
        file: String,
        committed: Digest,
        built: Digest,
    },
    /// A guest's component is not committed.
    Missing { file: String, built: Digest },
    /// No guest builds this component.
    Extra { file: String, committed: Digest },
    /// The list names a digest that the committed file does not have.
    Misstated {
        file: String,
        committed: Digest,
        listed: Digest,
    },
    /// The list leaves out a committed component.
    Unlisted { file: String, committed: Digest },
    /// The list names a file that is not committed.
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
            Self::Misstated {
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

/// Compares what was built with what is committed and what is listed, file by
/// file in the order of names.
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
        .flat_map(|file| look_at(file, built, committed, listed))
        .collect()
}

fn look_at(file: &str, built: &Sums, committed: &Sums, listed: &Sums) -> Vec<Finding> {
    let name = || file.to_owned();
    let of = |sums: &Sums| sums.get(file).copied();

    let source = match (of(built), of(committed)) {
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
    let list = match (of(committed), of(listed)) {
        (Some(committed), Some(listed)) if committed != listed => Some(Finding::Misstated {
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
    source.into_iter().chain(list).collect()
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
    fn the_same_everywhere_finds_nothing() {
        let same = sums([("a.wasm", b"a"), ("b.wasm", b"b")]);
        assert_eq!(compare(&same, &same, &same), []);
    }

    #[test]
    fn each_kind_of_difference_is_found_in_the_order_of_names() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let built = sums([
            ("differs", b"a"),
            ("lost", b"a"),
            ("misstated", b"a"),
            ("unlisted", b"a"),
        ]);
        let committed = sums([
            ("differs", b"b"),
            ("extra", b"b"),
            ("misstated", b"a"),
            ("unlisted", b"a"),
        ]);
        let listed = sums([
            ("dangling", b"a"),
            ("differs", b"b"),
            ("extra", b"b"),
            ("misstated", b"b"),
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
                Finding::Misstated {
                    file: file("misstated"),
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
    fn a_component_and_its_line_are_judged_apart() {
        let findings = compare(
            &sums([("x", b"1")]),
            &sums([("x", b"2")]),
            &sums([("x", b"3")]),
        );
        assert!(
            matches!(
                findings[..],
                [Finding::Differs { .. }, Finding::Misstated { .. }]
            ),
            "{findings:?}"
        );
    }

    #[test]
    fn a_difference_shows_both_digests() {
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
