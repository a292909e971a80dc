//! `cargo xtask layers`: modules import downward only.
//!
//! The order of the layers is that of the `mod` declarations in a crate's
//! `lib.rs`, the lowest first. Everywhere else, in programs and inside modules,
//! modules side by side may stand in any order, but not in a circle.

mod names;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::Outcome;
use crate::workspace::{metadata, root};
use source::{ModulePath, Modules};

/// Check that the modules of the host's crates import downward only
///
/// In a `lib.rs`, a module may use those that are declared before it. The
/// children of any other module, and the modules of a program, may stand in any
/// order, but none may use itself through others. A child may use what its
/// parent has, and a parent its children.
///
/// Exit codes: 0 downward only; 1 something is not; 2 trouble.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print which module uses which, those that use least first
    #[arg(long)]
    print: bool,
}

pub(crate) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let root = root()?;
    let mut outcome = Outcome::Fine;
    let crates = find(&metadata(&root.join("Cargo.toml"))?, &root.join("host"));
    ensure!(!crates.is_empty(), "no crate in `host`");
    for Crate { name, file, lib } in crates {
        let file = file.strip_prefix(&root).unwrap_or(&file);
        let modules = source::read(file, &|file| fs::read_to_string(root.join(file)).ok())
            .with_context(|| format!("cannot read the crate `{name}`"))?;
        for family in families(&modules) {
            if arguments.print {
                print!("{}", family.listing(&name));
            }
            for violation in family.violations(&name, lib) {
                eprintln!("{violation}");
                outcome = Outcome::Different;
            }
        }
    }
    Ok(outcome)
}

/// A library or a program.
struct Crate {
    name: String,
    file: PathBuf,
    lib: bool,
}

fn find(metadata: &Value, folder: &Path) -> Vec<Crate> {
    let each = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut crates = Vec::new();
    for package in each(&metadata["packages"]) {
        for target in each(&package["targets"]) {
            let kind = |kind: &str| each(&target["kind"]).contains(&kind.into());
            let file = target["src_path"].as_str().map(PathBuf::from);
            if let (Some(name), Some(file)) = (package["name"].as_str(), file)
                && (kind("lib") || kind("bin"))
                && file.starts_with(folder)
            {
                crates.push(Crate {
                    name: name.to_owned(),
                    file,
                    lib: kind("lib"),
                });
            }
        }
    }
    crates
}

/// A module, and which of its children uses which.
struct Family<'a> {
    parent: &'a ModulePath,
    children: &'a [String],
    /// From the user to the used, with the lines where.
    edges: BTreeMap<(&'a str, &'a str), BTreeSet<(&'a Path, usize)>>,
}

/// Sorts all names by the module where the user and the used part ways.
fn families(modules: &Modules) -> impl Iterator<Item = Family<'_>> {
    let mut families: BTreeMap<_, _> = modules
        .iter()
        .map(|(parent, module)| {
            let children = &module.children;
            let edges = BTreeMap::new();
            (
                parent.as_slice(),
                Family {
                    parent,
                    children,
                    edges,
                },
            )
        })
        .collect();
    for (user, module) in modules {
        for (name, line) in &module.names {
            for used in names::modules_of(modules, user, name) {
                // Borrowed from the map, which has every module.
                let Some((used, _)) = modules.get_key_value(&used) else {
                    continue;
                };
                let same = user.iter().zip(used).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (user.get(same), used.get(same))
                    && let Some(family) = families.get_mut(&user[..same])
                {
                    let places = family.edges.entry((from, to)).or_default();
                    places.insert((&module.file, *line));
                }
            }
        }
    }
    families.into_values()
}

impl Family<'_> {
    /// All that a child uses, by way of others too, with itself.
    fn reach<'a>(&'a self, child: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::from([child]);
        let mut waiting = vec![child];
        while let Some(user) = waiting.pop() {
            let used = self.edges.keys().filter(|(from, _)| *from == user);
            waiting.extend(used.map(|(_, to)| *to).filter(|to| reached.insert(to)));
        }
        reached
    }

    /// What is against the rules, a line each.
    fn violations(&self, name: &str, lib: bool) -> Vec<String> {
        let place = |child: &str| self.children.iter().position(|other| other == child);
        let ordered = lib && self.parent.is_empty();
        let wrong = |from: &str, to: &str| {
            if ordered {
                (place(to) > place(from)).then_some("declared after it")
            } else {
                self.reach(to).contains(from).then_some("in a circle")
            }
        };
        let mut lines = Vec::new();
        for ((from, to), places) in &self.edges {
            if let Some(why) = wrong(from, to) {
                let places = places.iter();
                let places: Vec<_> = places
                    .map(|(file, line)| format!("{}:{line}", file.display()))
                    .collect();
                lines.push(format!(
                    "{}: {from} → {to}, {why} ({})",
                    self.path(name),
                    places.join(", ")
                ));
            }
        }
        lines
    }

    /// Which child uses which. Whoever reaches less stands first, so that
    /// without a circle this is an order of layers that holds.
    fn listing(&self, name: &str) -> String {
        let mut children: Vec<_> = self.children.iter().collect();
        children.sort_by_key(|child| self.reach(child).len());
        let mut text = String::new();
        for child in children {
            let used = self.edges.keys().filter(|(from, _)| from == child);
            let used: Vec<_> = used.map(|(_, to)| *to).collect();
            text += &format!("{}: {child} → {}\n", self.path(name), used.join(" "));
        }
        text
    }

    fn path(&self, name: &str) -> String {
        let words = std::iter::once(name).chain(self.parent.iter().map(String::as_str));
        words.collect::<Vec<_>>().join("::")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate, and what is wrong with it. The first file is the root; files are
    /// separated by `--- name`.
    const CASES: &[(&str, &str, &[&str])] = &[
        (
            "a module uses those declared before it",
            "--- lib.rs
             mod low; mod high;
             --- low.rs
             pub fn f() {}
             --- high.rs
             use crate::low; fn g() { super::low::f(); low::f() }",
            &[],
        ),
        (
            "every place of a use upward is told",
            "--- lib.rs
             mod low; mod high;
             --- low.rs
             use crate::high::Thing;
             fn f(x: Vec<super::high::Other>) {}
             --- high.rs",
            &["it: low → high, declared after it (low.rs:1, low.rs:2)"],
        ),
        (
            "the root and its modules may use each other",
            "--- lib.rs
             mod a; use a::Thing; pub struct Root(a::Thing);
             --- a.rs
             use crate::Root;",
            &[],
        ),
        (
            "a program has no order",
            "--- main.rs
             mod a; mod b; fn main() { a::run() }
             --- a.rs
             use crate::b;
             --- b.rs",
            &[],
        ),
        (
            "a program has no circle",
            "--- main.rs
             mod a; mod b; mod c;
             --- a.rs
             use crate::b;
             --- b.rs
             use crate::c;
             --- c.rs
             use crate::a;",
            &[
                "it: a → b, in a circle (a.rs:1)",
                "it: b → c, in a circle (b.rs:1)",
                "it: c → a, in a circle (c.rs:1)",
            ],
        ),
        (
            "modules inside one stand in any order, but in no circle",
            "--- lib.rs
             mod top;
             --- top.rs
             mod a; mod b; mod c { use super::a; }
             --- top/a.rs
             use super::b;
             --- top/b/mod.rs
             mod deep;
             --- top/b/deep.rs
             fn f() { super::super::a::g() }",
            &[
                "it::top: a → b, in a circle (top/a.rs:1)",
                "it::top: b → a, in a circle (top/b/deep.rs:1)",
            ],
        ),
        (
            "a child may use its parent, and its parent's parent",
            "--- lib.rs
             mod top;
             --- top.rs
             mod a; pub use a::A;
             --- top/a.rs
             use super::A; use crate::top::B; use crate::C;",
            &[],
        ),
        (
            "names inside different modules belong to these",
            "--- lib.rs
             mod low { pub mod inner { use crate::high::other::X; } }
             mod high { pub mod other {} }",
            &["it: low → high, declared after it (lib.rs:1)"],
        ),
        (
            "a re-export is where it comes from",
            "--- lib.rs
             mod low; mod engine; pub use engine::{Engine as Motor, quota::*};
             --- low.rs
             use crate::Motor;
             fn f() -> crate::Quota {}
             --- engine.rs
             pub mod quota;
             --- engine/quota.rs
             mod held; pub use held::Quota;
             --- engine/quota/held.rs",
            &["it: low → engine, declared after it (low.rs:1, low.rs:2)"],
        ),
        (
            "what a parent imports is where it comes from",
            "--- lib.rs
             mod top;
             --- top.rs
             mod a; mod b; use b::Thing;
             --- top/a.rs
             use super::Thing;
             --- top/b.rs
             use super::*; fn f() { a::g() }",
            &[
                "it::top: a → b, in a circle (top/a.rs:1)",
                "it::top: b → a, in a circle (top/b.rs:1)",
            ],
        ),
        (
            "a module that was imported is used by its short name",
            "--- lib.rs
             mod top;
             --- top.rs
             mod a; mod b;
             --- top/a.rs
             use crate::top as above; fn f() { above::b::g() }
             --- top/b.rs
             use super::a::{self, X};",
            &[
                "it::top: a → b, in a circle (top/a.rs:1)",
                "it::top: b → a, in a circle (top/b.rs:1)",
            ],
        ),
        (
            "macros and attributes are read",
            "--- lib.rs
             mod low; mod high;
             --- low.rs
             macro_rules! m { () => { $crate::high::f() }; }
             fn f() { println!(\"{}\", [super::high::X]); }
             #[serde(with = crate::high)] struct S;
             fn g() { crate::high::m!() }
             --- high.rs",
            &["it: low → high, declared after it (low.rs:1, low.rs:2, low.rs:3, low.rs:4)"],
        ),
        (
            "other crates, variables and words in texts are no modules",
            "--- lib.rs
             mod low; mod high;
             --- low.rs
             use super::*; use ::high::A;
             /// crate::high
             fn f() { high(); let high = \"crate::high\"; std::high::x(high) }
             pub(in crate::high) struct S;
             --- high.rs",
            &[],
        ),
        (
            "tests may use all",
            "--- lib.rs
             mod low; #[cfg(test)] mod absent; mod high;
             --- low.rs
             #[cfg(test)] use crate::high;
             #[cfg(all(test, unix))] mod tests { use crate::high; }
             impl S { #[cfg(test)] fn f() { crate::high::f() } }
             #[cfg(not(test))] fn f() { crate::high::f() }
             --- high.rs",
            &["it: low → high, declared after it (low.rs:4)"],
        ),
    ];

    /// Files of a case, by their names, without the indentation of the table.
    fn files(text: &str) -> Vec<(PathBuf, String)> {
        let lines = text.lines().map(str::trim_start).collect::<Vec<_>>();
        let files = lines.join("\n");
        let files = files.split("--- ").skip(1);
        files
            .map(|file| file.split_once('\n').unwrap_or((file, "")))
            .map(|(name, text)| (PathBuf::from(name), text.to_owned()))
            .collect()
    }

    fn modules(text: &str) -> Result<(bool, Modules)> {
        let files = files(text);
        let find = |path: &Path| files.iter().find(|(name, _)| name == path);
        let root = &files[0].0;
        let modules = source::read(root, &|path| Some(find(path)?.1.clone()))?;
        Ok((root.ends_with("lib.rs"), modules))
    }

    #[test]
    fn uses_upward_and_circles_are_found_and_nothing_else() -> Result<()> {
        for (behaviour, text, expected) in CASES {
            let (lib, modules) = modules(text)?;
            let found: Vec<_> = families(&modules)
                .flat_map(|family| family.violations("it", lib))
                .collect();
            assert_eq!(found, *expected, "{behaviour}");
        }
        Ok(())
    }

    #[test]
    fn the_listing_is_an_order_that_holds() -> Result<()> {
        let (_, modules) = modules(
            "--- lib.rs
             mod a { use crate::{b, c}; }
             mod b { use crate::c; }
             mod c {}",
        )?;
        let listed: Vec<_> = families(&modules).map(|f| f.listing("it")).collect();
        assert_eq!(listed.concat(), "it: c → \nit: b → c\nit: a → b c\n");
        Ok(())
    }

    #[test]
    fn sources_that_cannot_be_followed_are_trouble() {
        for (text, expected) in [
            ("--- lib.rs\nmod a;", "there is no `a.rs`"),
            (
                "--- lib.rs\n#[path = \"b.rs\"] mod a;\n--- b.rs",
                "lib.rs: the module `a` has a `path` attribute, which this check does not follow",
            ),
            (
                "--- lib.rs\nmod a {}\nfn 1",
                "lib.rs:2: expected identifier",
            ),
        ] {
            let error = modules(text).map(|_| ()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn libraries_and_programs_in_the_folder_are_checked() {
        let target = |kind: &str, file: &str| serde_json::json!({"kind": [kind], "src_path": file});
        let metadata = serde_json::json!({"packages": [
            {"name": "core", "targets": [
                target("lib", "/p/host/core/src/lib.rs"),
                target("example", "/p/host/core/examples/agent.rs"),
                target("custom-build", "/p/host/core/build.rs"),
            ]},
            {"name": "cli", "targets": [target("bin", "/p/host/cli/src/main.rs")]},
            {"name": "driver", "targets": [target("bin", "/p/bench/driver/src/main.rs")]},
        ]});
        let found = find(&metadata, Path::new("/p/host"));
        let found: Vec<_> = found
            .iter()
            .map(|each| (each.name.as_str(), each.file.to_str(), each.lib))
            .collect();
        assert_eq!(
            found,
            [
                ("core", Some("/p/host/core/src/lib.rs"), true),
                ("cli", Some("/p/host/cli/src/main.rs"), false),
            ]
        );
    }
}
