//! Admission: decides which component gets a name that several components claim.
//!
//! Agents call tools by name, and grants name files, so each name belongs to at most one component:
//! the one that already has it, or else the only one that a grant or a pin names. Otherwise no
//! component gets the name. The order of files does not matter. Guards against: a file beside a
//! granted component that takes over the component's name.

use skillhost_sandbox::component::cannot_load;

/// A component that claims names: a newcomer, or a component that is already admitted.
#[derive(Debug, Clone)]
pub(super) struct Candidate<'a> {
    /// The path of the component's file, or the component's name if it is built in.
    pub(super) origin: &'a str,
    pub(super) digest: &'a str,
    pub(super) tools: Vec<&'a str>,
    pub(super) claim: Claim<'a>,
}

/// The strength of a component's claim to its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim<'a> {
    /// The component is built in.
    BuiltIn,
    /// A grant names its file.
    Granted {
        /// The file's name.
        file: &'a str,
    },
    /// A pin names its file, and no grant does.
    Pinned,
    /// Neither a grant nor a pin names its file.
    None,
}

/// Returns the reason why each newcomer is refused, or `None` if it is admitted.
pub(super) fn refusals(admitted: &[Candidate<'_>], new: &[Candidate<'_>]) -> Vec<Option<String>> {
    let mut refused: Vec<Option<String>> = new
        .iter()
        .map(|new| {
            admitted
                .iter()
                .find_map(|admitted| admitted.reason_against(new))
        })
        .collect();
    for rule in [same_file, outranked, equally_named] {
        let remaining: Vec<usize> = (0..new.len()).filter(|at| refused[*at].is_none()).collect();
        for at in &remaining {
            let mut others = remaining.iter().filter(|other| *other != at);
            refused[*at] = others.find_map(|other| rule(new, *at, *other));
        }
    }
    let refusals = refused.into_iter().zip(new);
    refusals
        .map(|(why, new)| why.map(|why| format!("{}: {why}", cannot_load(new.origin))))
        .collect()
}

impl Candidate<'_> {
    /// Returns the reason why this admitted component excludes a newcomer. Returns `None` if it
    /// does not.
    fn reason_against(&self, new: &Candidate<'_>) -> Option<String> {
        if let Some(tool) = self.shared_tool(new) {
            return Some(match self.claim {
                Claim::BuiltIn => {
                    format!("it defines the tool `{tool}`, which is built in; give it another name")
                }
                _ => format!(
                    "it defines the tool `{tool}`, which `{}` already serves",
                    self.origin
                ),
            });
        }
        let file = self.shared_grant(new)?;
        Some(format!(
            "the grant of `{file}` already applies to `{}`; rename one of the two files",
            self.origin
        ))
    }

    fn shared_tool<'t>(&'t self, other: &Candidate<'_>) -> Option<&'t str> {
        let mut tools = self.tools.iter().copied();
        tools.find(|tool| other.tools.contains(tool))
    }

    /// Returns the common file name of both components, if there is one and a grant names it.
    fn shared_grant(&self, other: &Candidate<'_>) -> Option<&str> {
        match (self.claim, other.claim) {
            (Claim::Granted { file }, Claim::Granted { file: other }) if file == other => {
                Some(file)
            }
            _ => None,
        }
    }

    /// Returns whether the component is built in, or a grant or a pin names its file.
    fn is_named(&self) -> bool {
        self.claim != Claim::None
    }
}

/// Refuses the component at `at` if a file of the same granted name has another component: the
/// grant then belongs to neither. If both files have the same component, refuses only the later
/// file. If the name has a pin, files with other bytes were refused before.
fn same_file(new: &[Candidate<'_>], at: usize, other: usize) -> Option<String> {
    let (this, that) = (&new[at], &new[other]);
    let file = this.shared_grant(that)?;
    if this.digest == that.digest {
        (other < at).then(|| format!("it is the same component as `{}`", that.origin))
    } else {
        Some(format!(
            "`{}` has the same file name, so the grant of `{file}` would apply to both; pin one \
             of them, or rename one",
            that.origin
        ))
    }
}

/// Refuses the component at `at` if another component defines the same tool, and a grant or a pin
/// names only the other one.
fn outranked(new: &[Candidate<'_>], at: usize, other: usize) -> Option<String> {
    let (this, that) = (&new[at], &new[other]);
    let tool = this.shared_tool(that)?;
    (that.is_named() && !this.is_named()).then(|| {
        format!(
            "it defines the tool `{tool}`, as does `{}`, which a grant or a pin names",
            that.origin
        )
    })
}

/// Refuses the component at `at` if another component defines the same tool, and grants or pins
/// name both or neither.
fn equally_named(new: &[Candidate<'_>], at: usize, other: usize) -> Option<String> {
    let (this, that) = (&new[at], &new[other]);
    let tool = this.shared_tool(that)?;
    let which = if this.is_named() {
        "grants or pins name both: remove one of the components"
    } else {
        "neither is named by a grant or a pin: name one, or remove one"
    };
    Some(format!(
        "it defines the tool `{tool}`, and so does `{}`; {which}",
        that.origin
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANTED: Claim<'_> = Claim::Granted { file: "g.wasm" };
    const OTHER: Claim<'_> = Claim::Granted { file: "o.wasm" };

    fn candidate<'a>(
        origin: &'a str,
        claim: Claim<'a>,
        digest: &'a str,
        tools: &[&'a str],
    ) -> Candidate<'a> {
        Candidate {
            origin,
            digest,
            tools: tools.to_vec(),
            claim,
        }
    }

    /// Returns the admitted origins of newcomers `a`, `b` and `c` with these claims, digests and
    /// tools.
    fn admitted(earlier: &[Candidate<'_>], new: &[(Claim<'_>, &str, &[&str])]) -> String {
        let origins = ["a", "b", "c"];
        let new: Vec<_> = new
            .iter()
            .zip(origins)
            .map(|((claim, digest, tools), origin)| candidate(origin, *claim, digest, tools))
            .collect();
        let refused = refusals(earlier, &new);
        let results = refused.iter().zip(origins);
        results
            .filter_map(|(why, origin)| why.is_none().then_some(origin))
            .collect()
    }

    #[test]
    fn only_component_named_by_grant_or_pin_gets_the_tool() {
        for (new, expected) in [
            (
                &[(Claim::None, "1", &["t"][..]), (Claim::None, "2", &["u"])][..],
                "ab",
            ),
            (
                &[(Claim::None, "1", &["t"]), (Claim::None, "2", &["u", "t"])],
                "",
            ),
            (&[(Claim::None, "1", &["t"]), (GRANTED, "2", &["t"])], "b"),
            (
                &[(Claim::None, "1", &["t"]), (Claim::Pinned, "2", &["t"])],
                "b",
            ),
            (&[(Claim::Pinned, "1", &["t"]), (GRANTED, "2", &["t"])], ""),
            (&[(OTHER, "1", &["t"]), (GRANTED, "2", &["t"])], ""),
            // The named component outranks both others.
            (
                &[
                    (Claim::None, "1", &["t"]),
                    (GRANTED, "2", &["t"]),
                    (Claim::None, "3", &["t"]),
                ],
                "b",
            ),
            // An outranked component does not exclude others: `a` also defines the tool of `c`.
            (
                &[
                    (Claim::None, "1", &["t", "u"]),
                    (GRANTED, "2", &["t"]),
                    (Claim::None, "3", &["u"]),
                ],
                "bc",
            ),
            // The grant of a file name belongs to one file.
            (&[(GRANTED, "1", &["t"]), (GRANTED, "2", &["u"])], ""),
            (&[(GRANTED, "1", &["t"]), (GRANTED, "1", &["t"])], "a"),
        ] {
            assert_eq!(admitted(&[], new), expected, "{new:?}");
        }
    }

    #[test]
    fn admitted_components_keep_their_names() {
        let serving = [
            candidate("read_skill", Claim::BuiltIn, "0", &["read_skill"]),
            candidate("/x/g.wasm", GRANTED, "1", &["t"]),
            candidate("/x/n.wasm", Claim::None, "2", &["u"]),
        ];
        for (new, expected) in [
            ((Claim::None, "3", &["t"][..]), ""),
            ((GRANTED, "3", &["other"]), ""),
            ((OTHER, "3", &["u"]), ""),
            ((OTHER, "3", &["read_skill"]), ""),
            ((OTHER, "3", &["other"]), "a"),
        ] {
            assert_eq!(admitted(&serving, &[new]), expected, "{new:?}");
        }
    }
}
