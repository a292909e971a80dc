//! Hidden folders, such as `.curated`, in which a root searches for skills.

use std::collections::BTreeSet;

use crate::omitted;

/// The hidden folders that the search of a root enters. It never enters folders of version control
/// and caches, such as `.git`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HiddenFolders {
    /// No hidden folder.
    #[default]
    Skipped,
    /// All hidden folders.
    Searched,
    /// The folders with these names, in any folder.
    Named(BTreeSet<String>),
}

impl HiddenFolders {
    /// Creates the set of folders with these names. Fails with the first name that is not the name
    /// of a hidden folder, or that is never entered.
    pub fn named(names: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let names: BTreeSet<String> = names.into_iter().collect();
        match names.iter().find(|name| !Self::Searched.has(name)) {
            Some(name) => Err(name.clone()),
            None => Ok(Self::Named(names)),
        }
    }

    /// Returns whether a search enters a hidden folder of this name.
    pub fn has(&self, name: &str) -> bool {
        let is_hidden = name.starts_with('.')
            && !name.starts_with("..")
            && name != "."
            && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control());
        is_hidden
            && !omitted::DEFAULT_NAMES.contains(&name)
            && match self {
                Self::Skipped => false,
                Self::Searched => true,
                Self::Named(names) => names.contains(name),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enters_hidden_folders_except_git_and_caches() {
        let named = |name: &str| HiddenFolders::named([name.to_owned()]);
        for name in [".curated", ".a.b", ".\u{e4}"] {
            assert!(HiddenFolders::Searched.has(name), "{name}");
            assert!(named(name).unwrap().has(name), "{name}");
            assert!(!named(".other").unwrap().has(name), "{name}");
            assert!(!HiddenFolders::Skipped.has(name), "{name}");
        }
        for name in [
            "a", "", ".", "..", "..data", ".git", ".venv", ".a/b", ".a\\b", ".a\nb",
        ] {
            assert!(!HiddenFolders::Searched.has(name), "{name:?}");
            assert_eq!(named(name), Err(name.to_owned()), "{name:?}");
        }
    }
}
