//! Reads the modules of a crate from its sources, and the names that each module uses.
//!
//! Types are not resolved, so method calls are not found. `names.rs` resolves the names.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, Meta, UseTree};

/// The path of a module, without the name of the crate.
pub(super) type ModulePath = Vec<String>;

/// The modules of one crate.
pub(super) type Modules = BTreeMap<ModulePath, Module>;

/// A module without its tests.
#[derive(Default)]
pub(super) struct Module {
    pub(super) file: PathBuf,
    /// The modules that it declares, in source order.
    pub(super) children: Vec<String>,
    /// The paths that `use` imports, by their local names.
    pub(super) imports: HashMap<String, Vec<String>>,
    /// The paths of glob imports, without `::*`.
    pub(super) globs: Vec<Vec<String>>,
    /// The names that its code uses, split at `::`, with their lines.
    pub(super) names: Vec<(Vec<String>, usize)>,
}

/// Reads a crate from its root file. `read_text` returns the content of a file, or `None` if the
/// file does not exist.
pub(super) fn read(root: &Path, read_text: &dyn Fn(&Path) -> Option<String>) -> Result<Modules> {
    let mut modules = Modules::new();
    let folder = root.parent().unwrap_or(Path::new(""));
    read_file(root, folder, Vec::new(), read_text, &mut modules)?;
    Ok(modules)
}

fn read_file(
    file: &Path,
    folder: &Path,
    path: ModulePath,
    read_text: &dyn Fn(&Path) -> Option<String>,
    modules: &mut Modules,
) -> Result<()> {
    let content = read_text(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let parsed = syn::parse_file(&content).map_err(|error| {
        let line = error.span().start().line;
        anyhow::anyhow!("{}:{line}: {error}", file.display())
    })?;
    read_items(&parsed.items, file, folder, path, read_text, modules)
}

/// Reads the items of one module. The files of its children are in `folder`.
fn read_items(
    items: &[Item],
    file: &Path,
    folder: &Path,
    path: ModulePath,
    read_text: &dyn Fn(&Path) -> Option<String>,
    modules: &mut Modules,
) -> Result<()> {
    let mut module = Module {
        file: file.to_owned(),
        ..Module::default()
    };
    for item in items {
        let Item::Mod(child) = item else {
            module.visit_item(item);
            continue;
        };
        if is_for_tests(&child.attrs) {
            continue;
        }
        let name = child.ident.unraw().to_string();
        let child_folder = folder.join(&name);
        let mut child_path = path.clone();
        child_path.push(name.clone());
        if let Some((_, items)) = &child.content {
            read_items(items, file, &child_folder, child_path, read_text, modules)?;
        } else {
            ensure!(
                !child.attrs.iter().any(|a| a.path().is_ident("path")),
                "{}: the module `{name}` has a `path` attribute, which this check does not follow",
                file.display()
            );
            let candidates = [
                folder.join(format!("{name}.rs")),
                child_folder.join("mod.rs"),
            ];
            let Some(child_file) = candidates.iter().find(|file| read_text(file).is_some()) else {
                bail!("there is no `{}`", candidates[0].display());
            };
            read_file(child_file, &child_folder, child_path, read_text, modules)?;
        }
        module.children.push(name);
    }
    modules.insert(path, module);
    Ok(())
}

impl Module {
    /// Reads a part of a `use` declaration. `path` is the path before this part.
    fn read_use(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        let (ident, name) = match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.unraw().to_string());
                self.read_use(&inner.tree, path);
                path.pop();
                return;
            }
            UseTree::Group(group) => {
                for inner in &group.items {
                    self.read_use(inner, path);
                }
                return;
            }
            UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.names.push((path.clone(), line));
                self.globs.push(path.clone());
                return;
            }
            UseTree::Name(inner) => (&inner.ident, &inner.ident),
            UseTree::Rename(inner) => (&inner.ident, &inner.rename),
        };
        let mut full = path.clone();
        // `use a::{self}` imports `a` by its own name.
        let mut name = name.unraw().to_string();
        if ident == "self" && !full.is_empty() {
            if name == "self" {
                name.clone_from(&full[full.len() - 1]);
            }
        } else {
            full.push(ident.unraw().to_string());
        }
        self.names.push((full.clone(), ident.span().start().line));
        self.imports.insert(name, full);
    }

    /// Reads the names of two or more words, such as `a::b`, in the tokens of a macro or an
    /// attribute.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let Some((token, after)) = rest.split_first() {
            rest = after;
            match token {
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut name = vec![first.unraw().to_string()];
                    while let [
                        TokenTree::Punct(a),
                        TokenTree::Punct(b),
                        TokenTree::Ident(next),
                        after @ ..,
                    ] = rest
                        && (a.as_char(), b.as_char()) == (':', ':')
                    {
                        name.push(next.unraw().to_string());
                        rest = after;
                    }
                    if name.len() > 1 {
                        self.names.push((name, first.span().start().line));
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let (ImplItem::Const(syn::ImplItemConst { attrs, .. })
        | ImplItem::Fn(syn::ImplItemFn { attrs, .. })
        | ImplItem::Type(syn::ImplItemType { attrs, .. })
        | ImplItem::Macro(syn::ImplItemMacro { attrs, .. })) = item
        else {
            return;
        };
        if !is_for_tests(attrs) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            self.read_use(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (None, Some(first)) = (&path.leading_colon, path.segments.first()) {
            let segments = path.segments.iter();
            let name = segments.map(|s| s.ident.unraw().to_string()).collect();
            self.names.push((name, first.ident.span().start().line));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.visit_path(&mac.path);
        self.read_tokens(mac.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.read_tokens(list.tokens.clone());
        }
    }

    // The path in `pub(in path)` does not use the module that it names.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(syn::ItemConst { attrs, .. })
        | Item::Enum(syn::ItemEnum { attrs, .. })
        | Item::Fn(syn::ItemFn { attrs, .. })
        | Item::Impl(syn::ItemImpl { attrs, .. })
        | Item::Macro(syn::ItemMacro { attrs, .. })
        | Item::Mod(syn::ItemMod { attrs, .. })
        | Item::Static(syn::ItemStatic { attrs, .. })
        | Item::Struct(syn::ItemStruct { attrs, .. })
        | Item::Trait(syn::ItemTrait { attrs, .. })
        | Item::Type(syn::ItemType { attrs, .. })
        | Item::Union(syn::ItemUnion { attrs, .. })
        | Item::Use(syn::ItemUse { attrs, .. }) => attrs,
        _ => &[],
    }
}

/// Checks whether attributes restrict an item to tests.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    fn needs_test(meta: &Meta) -> bool {
        meta.path().is_ident("test")
            || matches!(meta, Meta::List(list) if list.path.is_ident("all")
                && list
                    .parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated)
                    .is_ok_and(|all| all.iter().any(needs_test)))
    }
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<Meta>()
                .is_ok_and(|meta| needs_test(&meta))
    })
}
