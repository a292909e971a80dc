//! `cargo xtask layers`: checks that modules import only from lower layers.
//!
//! The `mod` declarations in a crate's `lib.rs` give the order of the layers, lowest first. In
//! programs and inside modules, sibling modules have no order, but must not form a cycle.

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

/// Check that the modules of the host's crates import only from lower layers
///
/// A module that `lib.rs` declares may use only the modules declared before it. In programs, and
/// inside any other module, sibling modules may use each other in any order, but not in a cycle. A
/// module and its parent may use each other.
///
/// Exit codes: 0 no violation; 1 a violation; 2 an error.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Print the modules that each module uses, lowest layers first
    #[arg(long)]
    print: bool,
}

pub(crate) fn execute(arguments: &Arguments) -> Result<Outcome> {
    let root = root()?;
    let mut outcome = Outcome::Clean;
    let crates = find_crates(&metadata(&root.join("Cargo.toml"))?, &root.join("host"));
    ensure!(!crates.is_empty(), "there is no crate in `host`");
    for Crate { name, file, is_lib } in crates {
        let file = file.strip_prefix(&root).unwrap_or(&file);
        let modules = source::read(file, &|file| fs::read_to_string(root.join(file)).ok())
            .with_context(|| format!("cannot read the crate `{name}`"))?;
        for family in families(&modules) {
            if arguments.print {
                print!("{}", family.listing(&name));
            }
            for violation in family.violations(&name, is_lib) {
                eprintln!("{violation}");
                outcome = Outcome::Findings;
            }
        }
    }
    Ok(outcome)
}

/// A library or a program.
struct Crate {
    name: String,
    /// Its root file, such as `lib.rs`.
    file: PathBuf,
    is_lib: bool,
}

/// Returns the libraries and programs in a folder.
fn find_crates(metadata: &Value, folder: &Path) -> Vec<Crate> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut crates = Vec::new();
    for package in array(&metadata["packages"]) {
        for target in array(&package["targets"]) {
            let has_kind = |kind: &str| array(&target["kind"]).contains(&kind.into());
            let file = target["src_path"].as_str().map(PathBuf::from);
            if let (Some(name), Some(file)) = (package["name"].as_str(), file)
                && (has_kind("lib") || has_kind("bin"))
                && file.starts_with(folder)
            {
                crates.push(Crate {
                    name: name.to_owned(),
                    file,
                    is_lib: has_kind("lib"),
                });
            }
        }
    }
    crates
}

/// A module, its children, and which child uses which.
struct Family<'a> {
    parent: &'a ModulePath,
    children: &'a [String],
    /// The files and lines in which one child uses another. A key is the child that uses, then the
    /// child that is used.
    edges: BTreeMap<(&'a str, &'a str), BTreeSet<(&'a Path, usize)>>,
}

/// Returns a family for each module. If one module uses another, the use belongs to the family of
/// the innermost module that contains both.
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
    for (from_path, module) in modules {
        for (name, line) in &module.names {
            for resolved in names::resolve(modules, from_path, name) {
                // Borrow the path from `modules`, because the families outlive `resolved`.
                let Some((to_path, _)) = modules.get_key_value(&resolved) else {
                    continue;
                };
                let parts = from_path.iter().zip(to_path);
                let common = parts.take_while(|(from, to)| from == to).count();
                if let (Some(from), Some(to)) = (from_path.get(common), to_path.get(common))
                    && let Some(family) = families.get_mut(&from_path[..common])
                {
                    let lines = family.edges.entry((from, to)).or_default();
                    lines.insert((&module.file, *line));
                }
            }
        }
    }
    families.into_values()
}

impl Family<'_> {
    /// Returns the children that a child uses directly or indirectly, and the child itself.
    fn reachable<'a>(&'a self, child: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::from([child]);
        let mut waiting = vec![child];
        while let Some(current) = waiting.pop() {
            let used = self.edges.keys().filter(|(from, _)| *from == current);
            waiting.extend(used.map(|(_, to)| *to).filter(|to| reached.insert(to)));
        }
        reached
    }

    /// Returns a message for each violation.
    fn violations(&self, crate_name: &str, is_lib: bool) -> Vec<String> {
        let index = |child: &str| self.children.iter().position(|other| other == child);
        let is_ordered = is_lib && self.parent.is_empty();
        let violation = |from: &str, to: &str| {
            if is_ordered {
                (index(to) > index(from)).then_some("declared later")
            } else {
                self.reachable(to).contains(from).then_some("in a cycle")
            }
        };
        let mut messages = Vec::new();
        for ((from, to), lines) in &self.edges {
            if let Some(violation) = violation(from, to) {
                let lines: Vec<_> = lines
                    .iter()
                    .map(|(file, line)| format!("{}:{line}", file.display()))
                    .collect();
                messages.push(format!(
                    "{}: {from} → {to}, {violation} ({})",
                    self.path(crate_name),
                    lines.join(", ")
                ));
            }
        }
        messages
    }

    /// Lists the children that each child uses. Children that reach fewer others come first, so
    /// without cycles this is a valid order of layers.
    fn listing(&self, crate_name: &str) -> String {
        let mut children: Vec<_> = self.children.iter().collect();
        children.sort_by_key(|child| self.reachable(child).len());
        let mut text = String::new();
        for child in children {
            let used = self.edges.keys().filter(|(from, _)| from == child);
            let used: Vec<_> = used.map(|(_, to)| *to).collect();
            text += &format!("{}: {child} → {}\n", self.path(crate_name), used.join(" "));
        }
        text
    }

    /// Returns the path of the parent, with the name of the crate.
    fn path(&self, crate_name: &str) -> String {
        let words = std::iter::once(crate_name).chain(self.parent.iter().map(String::as_str));
        words.collect::<Vec<_>>().join("::")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A behaviour, a crate, and its violations. Each file of the crate begins with `--- name`; the
    /// first one is the root.
    const CASES: &[(&str, &str, &[&str])] = &[
        (
            "a module may use those declared before it",
            "--- lib.rs
             mod low; mod high;
             --- low.rs
             pub fn f() {}
             --- high.rs
             use crate::low; fn g() { super::low::f(); low::f() }",
            &[],
        ),
        (
            "every line of an upward use is reported",
            "--- lib.rs
             mod low; mod high;
             --- low.rs
             use crate::high::Thing;
             fn f(x: Vec<super::high::Other>) {}
             --- high.rs",
            &["app: low → high, declared later (low.rs:1, low.rs:2)"],
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
            "modules of a program may use each other in any order",
            "--- main.rs
             mod a; mod b; fn main() { a::run() }
             --- a.rs
             use crate::b;
             --- b.rs",
            &[],
        ),
        (
            "a cycle in a program is reported",
            "--- main.rs
             mod a; mod b; mod c;
             --- a.rs
             use crate::b;
             --- b.rs
             use crate::c;
             --- c.rs
             use crate::a;",
            &[
                "app: a → b, in a cycle (a.rs:1)",
                "app: b → c, in a cycle (b.rs:1)",
                "app: c → a, in a cycle (c.rs:1)",
            ],
        ),
        (
            "a cycle of child modules is reported, also through their children",
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
                "app::top: a → b, in a cycle (top/a.rs:1)",
                "app::top: b → a, in a cycle (top/b/deep.rs:1)",
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
            "a use between nested modules is reported for their outer modules",
            "--- lib.rs
             mod low { pub mod inner { use crate::high::other::X; } }
             mod high { pub mod other {} }",
            &["app: low → high, declared later (lib.rs:1)"],
        ),
        (
            "to use a re-export is to use the module that defines the item",
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
            &["app: low → engine, declared later (low.rs:1, low.rs:2)"],
        ),
        (
            "to use an import of the parent is to use the imported module",
            "--- lib.rs
             mod top;
             --- top.rs
             mod a; mod b; use b::Thing;
             --- top/a.rs
             use super::Thing;
             --- top/b.rs
             use super::*; fn f() { a::g() }",
            &[
                "app::top: a → b, in a cycle (top/a.rs:1)",
                "app::top: b → a, in a cycle (top/b.rs:1)",
            ],
        ),
        (
            "an imported module may be used by its short name",
            "--- lib.rs
             mod top;
             --- top.rs
             mod a; mod b;
             --- top/a.rs
             use crate::top as above; fn f() { above::b::g() }
             --- top/b.rs
             use super::a::{self, X};",
            &[
                "app::top: a → b, in a cycle (top/a.rs:1)",
                "app::top: b → a, in a cycle (top/b.rs:1)",
            ],
        ),
        (
            "a path in a macro or an attribute is a use",
            "--- lib.rs
             mod low; mod high;
             --- low.rs
             macro_rules! m { () => { $crate::high::f() }; }
             fn f() { println!(\"{}\", [super::high::X]); }
             #[serde(with = crate::high)] struct S;
             fn g() { crate::high::m!() }
             --- high.rs",
            &["app: low → high, declared later (low.rs:1, low.rs:2, low.rs:3, low.rs:4)"],
        ),
        (
            "other crates, variables and strings are not modules",
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
            "tests may use all modules",
            "--- lib.rs
             mod low; #[cfg(test)] mod absent; mod high;
             --- low.rs
             #[cfg(test)] use crate::high;
             #[cfg(all(test, unix))] mod tests { use crate::high; }
             impl S { #[cfg(test)] fn f() { crate::high::f() } }
             #[cfg(not(test))] fn f() { crate::high::f() }
             --- high.rs",
            &["app: low → high, declared later (low.rs:4)"],
        ),
    ];

    /// Returns the names and contents of a case's files, without indentation.
    fn files(text: &str) -> Vec<(PathBuf, String)> {
        let lines = text.lines().map(str::trim_start).collect::<Vec<_>>();
        let files = lines.join("\n");
        let files = files.split("--- ").skip(1);
        files
            .map(|file| file.split_once('\n').unwrap_or((file, "")))
            .map(|(name, text)| (PathBuf::from(name), text.to_owned()))
            .collect()
    }

    /// Returns the modules of a case, and whether it is a library.
    fn modules(text: &str) -> Result<(bool, Modules)> {
        let files = files(text);
        let find = |path: &Path| files.iter().find(|(name, _)| name == path);
        let root = &files[0].0;
        let modules = source::read(root, &|path| Some(find(path)?.1.clone()))?;
        Ok((root.ends_with("lib.rs"), modules))
    }

    #[test]
    fn finds_upward_uses_and_cycles() -> Result<()> {
        for (behaviour, text, expected) in CASES {
            let (is_lib, modules) = modules(text)?;
            let violations: Vec<_> = families(&modules)
                .flat_map(|family| family.violations("app", is_lib))
                .collect();
            assert_eq!(violations, *expected, "{behaviour}");
        }
        Ok(())
    }

    #[test]
    fn listing_is_valid_order() -> Result<()> {
        let (_, modules) = modules(
            "--- lib.rs
             mod a { use crate::{b, c}; }
             mod b { use crate::c; }
             mod c {}",
        )?;
        let listed: Vec<_> = families(&modules).map(|f| f.listing("app")).collect();
        assert_eq!(listed.concat(), "app: c → \napp: b → c\napp: a → b c\n");
        Ok(())
    }

    #[test]
    fn refuses_sources_it_cannot_follow() {
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
    fn finds_libraries_and_programs_in_folder() {
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
        let crates = find_crates(&metadata, Path::new("/p/host"));
        let crates: Vec<_> = crates
            .iter()
            .map(|it| (it.name.as_str(), it.file.to_str(), it.is_lib))
            .collect();
        assert_eq!(
            crates,
            [
                ("core", Some("/p/host/core/src/lib.rs"), true),
                ("cli", Some("/p/host/cli/src/main.rs"), false),
            ]
        );
    }
}
