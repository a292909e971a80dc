//! What a name in a module leads to: the modules that it goes through, by
//! declarations, imports and re-exports.

use super::source::{ModulePath, Modules};

/// More imports than one name goes through; one that imports itself ends here.
const MAX_IMPORTS: usize = 16;

/// Where a name ends.
enum End {
    Module(ModulePath),
    /// Something that is no module, in the last of the modules gone through.
    Item,
}

/// The modules that `name` goes through when `module` uses it; none if it is
/// another crate's, or defined in `module` itself.
pub(super) fn modules_of(modules: &Modules, module: &[String], name: &[String]) -> Vec<ModulePath> {
    let mut through = Vec::new();
    match follow(modules, module, name, &mut through, 0) {
        // One word that is a module's is a variable that is called so.
        Some(End::Module(_)) if name.len() == 1 => Vec::new(),
        Some(End::Module(end)) => {
            through.push(end);
            through
        }
        Some(End::Item) => through,
        None => Vec::new(),
    }
}

fn follow(
    modules: &Modules,
    module: &[String],
    name: &[String],
    through: &mut Vec<ModulePath>,
    imports: usize,
) -> Option<End> {
    let mut at = module.to_vec();
    for (index, word) in name.iter().enumerate() {
        match word.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop()?;
            }
            _ => match step(modules, &at, word, through, imports) {
                Some(End::Module(next)) => at = next,
                Some(End::Item) => return Some(End::Item),
                // In front it is another crate's, or an item of this module.
                None if index == 0 => return None,
                None => {
                    through.push(at);
                    return Some(End::Item);
                }
            },
        }
    }
    Some(End::Module(at))
}

/// What one word means in a module, if not an item that is defined there.
fn step(
    modules: &Modules,
    at: &[String],
    word: &str,
    through: &mut Vec<ModulePath>,
    imports: usize,
) -> Option<End> {
    let module = modules.get(at)?;
    if module.children.iter().any(|child| child == word) {
        let mut child = at.to_vec();
        child.push(word.to_owned());
        return Some(End::Module(child));
    }
    if imports == MAX_IMPORTS {
        return None;
    }
    if let Some(import) = module.imports.get(word) {
        through.push(at.to_vec());
        return follow(modules, at, import, through, imports + 1);
    }
    module.globs.iter().find_map(|glob| {
        let mut passed = Vec::new();
        let Some(End::Module(inside)) = follow(modules, at, glob, &mut passed, imports + 1) else {
            return None;
        };
        let end = step(modules, &inside, word, &mut passed, imports + 1)?;
        through.append(&mut passed);
        Some(end)
    })
}
