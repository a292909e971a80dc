//! An index of texts that are not skills, such as descriptions of packages.

use skillhost::SearchHit;

use crate::allowed::AllowedSkills;
use crate::fields::FieldReader;
use crate::rank;
use crate::store::{Extent, IndexedSkill, Store};

/// An index of texts with names.
///
/// It is searched and ranked like the names and descriptions of skills. It grows with its texts, so
/// the caller must bound them.
pub struct TextIndex(Store);

impl TextIndex {
    /// Creates an index of pairs of a name and a text. Only the first 1,024 characters of a text
    /// are searched.
    pub fn new<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut reader = FieldReader::new();
        let mut store = Store::default();
        for (name, text) in texts {
            let fields = reader.read_description(name, text);
            let indexed = IndexedSkill {
                name: name.into(),
                display_text: fields.display_text.as_str().into(),
                stamp: None,
                extent: Extent::Description,
            };
            store.insert(indexed, &fields);
        }
        Self(store)
    }

    /// Returns the best hits for a query, best first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<SearchHit> {
        rank::search(&AllowedSkills::all(&self.0), query, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_texts_by_name_and_description() {
        let index = TextIndex::new([
            (
                "oci://registry.example/acme/csv:1",
                "Counts rows of tables.",
            ),
            (
                "oci://registry.example/acme/weather:2",
                "Forecasts the weather.",
            ),
        ]);
        for (query, found) in [
            (
                "how warm is the wether tomorrow",
                vec!["oci://registry.example/acme/weather:2"],
            ),
            (
                "counting a table",
                vec!["oci://registry.example/acme/csv:1"],
            ),
            ("csv", vec!["oci://registry.example/acme/csv:1"]),
            ("zzzz", vec![]),
        ] {
            let hits = index.search(query, 5);
            let names: Vec<&str> = hits.iter().map(|hit| &*hit.name).collect();
            assert_eq!(names, found, "{query}");
        }
        assert_eq!(index.search("acme", 1).len(), 1);
    }
}
