//! Resolves the names in a module to the modules they pass through, by declarations, imports and
//! re-exports.

use super::source::{ModulePath, Modules};

/// The maximum number of imports to follow for a name. Guards against: imports in a circle.
const MAX_IMPORTS: usize = 16;

/// The module or item that a name refers to.
enum Target {
    Module(ModulePath),
    /// An item other than a module, in the last module that the name passes through.
    Item,
}

/// Returns the modules that `name` passes through when `module` uses it. The result is empty if the
/// name belongs to another crate or is defined in `module` itself.
pub(super) fn resolve(modules: &Modules, module: &[String], name: &[String]) -> Vec<ModulePath> {
    let mut visited = Vec::new();
    match follow(modules, module, name, &mut visited, 0) {
        // A single word that is also the name of a module is taken for a variable.
        Some(Target::Module(_)) if name.len() == 1 => Vec::new(),
        Some(Target::Module(target)) => {
            visited.push(target);
            visited
        }
        Some(Target::Item) => visited,
        None => Vec::new(),
    }
}

/// Resolves all words of a name, and adds the modules that the name passes through to `visited`.
/// `depth` is the number of imports that have been followed.
fn follow(
    modules: &Modules,
    module: &[String],
    name: &[String],
    visited: &mut Vec<ModulePath>,
    depth: usize,
) -> Option<Target> {
    let mut current = module.to_vec();
    for (index, word) in name.iter().enumerate() {
        match word.as_str() {
            "crate" => current.clear(),
            "self" => {}
            "super" => {
                current.pop()?;
            }
            _ => match resolve_word(modules, &current, word, visited, depth) {
                Some(Target::Module(next)) => current = next,
                Some(Target::Item) => return Some(Target::Item),
                // The first word is another crate, or an item of this module.
                None if index == 0 => return None,
                None => {
                    visited.push(current);
                    return Some(Target::Item);
                }
            },
        }
    }
    Some(Target::Module(current))
}

/// Returns the target of a word in a module, or `None` if the word is neither a child module nor an
/// import there.
fn resolve_word(
    modules: &Modules,
    path: &[String],
    word: &str,
    visited: &mut Vec<ModulePath>,
    depth: usize,
) -> Option<Target> {
    let module = modules.get(path)?;
    if module.children.iter().any(|child| child == word) {
        let mut child = path.to_vec();
        child.push(word.to_owned());
        return Some(Target::Module(child));
    }
    if depth == MAX_IMPORTS {
        return None;
    }
    if let Some(import) = module.imports.get(word) {
        visited.push(path.to_vec());
        return follow(modules, path, import, visited, depth + 1);
    }
    module.globs.iter().find_map(|glob| {
        let mut found = Vec::new();
        let Some(Target::Module(inside)) = follow(modules, path, glob, &mut found, depth + 1)
        else {
            return None;
        };
        let target = resolve_word(modules, &inside, word, &mut found, depth + 1)?;
        visited.append(&mut found);
        Some(target)
    })
}
