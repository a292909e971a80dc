//! Comments on a component's types, for descriptions in schemas. The engine shows only a
//! type's structure, so comments are found by structure. If types with the same structure have
//! different comments, no comment is used.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentInstance, ComponentItem, Type};

use super::docs::{Docs, TypeDocs};
use super::shape::{Label, Shape, ShapeBudget, ShapeReader};

/// The maximum number of parts of all named types. Guards against: a component that names a
/// large type a hundred thousand times.
const MAX_NAMED_PARTS: usize = 20_000;

/// The comments on the types of a component.
#[derive(Default)]
pub(crate) struct TypeComments(HashMap<Shape, ShapeComments>);

/// The comments on types with the same structure.
struct ShapeComments {
    /// The name of the types, or `None` if their names differ. An interface that uses another
    /// interface's type repeats it under the same name, without comments.
    name: Option<String>,
    /// The comments, or `None` if they differ.
    docs: Option<Arc<TypeDocs>>,
}

impl TypeComments {
    /// Reads the comments on types that a component imports and exports.
    pub(crate) fn read(engine: &Engine, component: &Component, docs: &Docs) -> Self {
        let mut comments = Self::default();
        if !docs.has_type_comments() {
            return comments;
        }
        let mut budget = ShapeBudget::with_parts(MAX_NAMED_PARTS);
        let mut add = |interface: Option<&str>, name: &str, ty: &Type| {
            let docs = docs.type_docs(interface, name).cloned();
            comments.add(name, ty, docs.unwrap_or_default(), &mut budget)
        };
        let kind = component.component_type();
        for (name, item) in kind.imports(engine).chain(kind.exports(engine)) {
            let is_within_bounds = match item.ty {
                ComponentItem::Type(ty) => add(None, name, &ty),
                ComponentItem::ComponentInstance(instance) => named_types(engine, &instance)
                    .all(|(type_name, ty)| add(Some(name), type_name, &ty)),
                _ => true,
            };
            if !is_within_bounds {
                tracing::warn!("ignored the comments on types: there are too many types");
                return Self::default();
            }
        }
        comments
    }

    /// Adds a named type. Returns `false` if there are too many types.
    fn add(
        &mut self,
        name: &str,
        ty: &Type,
        docs: Arc<TypeDocs>,
        budget: &mut ShapeBudget,
    ) -> bool {
        if !matches!(
            ty,
            Type::Record(_) | Type::Variant(_) | Type::Enum(_) | Type::Flags(_)
        ) {
            // Types of other kinds often have the same structure.
            return true;
        }
        match ShapeReader::new(budget, &|_| None).read(ty) {
            Ok(shape) => self.merge(name, shape, docs),
            // The type has no JSON form, or is too large.
            Err(_) => return !budget.is_spent(),
        }
        true
    }

    fn merge(&mut self, name: &str, shape: Shape, docs: Arc<TypeDocs>) {
        let mut known = match self.0.entry(shape) {
            Entry::Vacant(place) => {
                place.insert(ShapeComments {
                    name: Some(name.to_owned()),
                    docs: Some(docs),
                });
                return;
            }
            Entry::Occupied(known) => known,
        };
        let known = known.get_mut();
        let is_same_name = known.name.as_deref() == Some(name);
        let empty = Arc::default();
        match &mut known.docs {
            None => {}
            Some(before) if *before == docs && is_same_name => {}
            Some(before) if *before == docs => known.name = None,
            Some(_) if is_same_name && docs == empty => {}
            Some(before) if is_same_name && *before == empty => *before = docs,
            Some(_) => known.docs = None,
        }
    }

    /// Returns the comment on a type.
    pub(super) fn type_comment(&self, shape: &Shape) -> Option<&str> {
        non_empty(self.docs(shape)?.docs.as_deref())
    }

    /// Returns the comment on a record's field, or on a case or a flag.
    pub(super) fn item_comment(&self, shape: &Shape, label: &Label) -> Option<&str> {
        non_empty(self.docs(shape)?.items.get(&label.wit).map(String::as_str))
    }

    fn docs(&self, shape: &Shape) -> Option<&TypeDocs> {
        self.0.get(shape)?.docs.as_deref()
    }
}

/// Returns a comment, unless it is empty.
fn non_empty(comment: Option<&str>) -> Option<&str> {
    comment.map(str::trim).filter(|text| !text.is_empty())
}

/// Returns the types of an interface, with their names.
fn named_types<'a>(
    engine: &'a Engine,
    instance: &'a ComponentInstance,
) -> impl Iterator<Item = (&'a str, Type)> {
    let exports = instance.exports(engine);
    exports.filter_map(|(name, export)| match export.ty {
        ComponentItem::Type(ty) => Some((name, ty)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Integer, MAX_PARTS};
    use super::*;

    fn record(field: &str) -> Shape {
        Shape::Record(vec![(Label::new(field), Shape::Integer(Integer::U32))])
    }

    fn docs(field: &str, comment: &str) -> Arc<TypeDocs> {
        let mut docs = TypeDocs::default();
        if !comment.is_empty() {
            docs.items.insert(field.to_owned(), comment.to_owned());
        }
        docs.into()
    }

    /// Merges records of one structure, each with a name and a comment on its field. Returns
    /// the resulting comment on the field.
    fn comment(types: &[(&str, &str)]) -> Option<String> {
        let mut comments = TypeComments::default();
        for (name, comment) in types {
            comments.merge(name, record("width"), docs("width", comment));
        }
        let found = comments.item_comment(&record("width"), &Label::new("width"));
        found.map(str::to_owned)
    }

    #[test]
    fn finds_comment_by_structure_of_type() {
        let mut comments = TypeComments::default();
        comments.merge("size", record("width"), docs("width", " In pixels.\n"));
        comments.merge("mass", record("weight"), docs("weight", " "));
        let comment_on = |field: &str| comments.item_comment(&record(field), &Label::new(field));
        assert_eq!(comment_on("width"), Some("In pixels."));
        assert_eq!(comment_on("weight"), None);
        assert_eq!(comment_on("height"), None);
        assert_eq!(comments.type_comment(&record("width")), None);
    }

    /// Reads the comments of a component. It exports enums with these numbers of names, and
    /// has a comment on the first name of `shade`.
    fn read(exports: &[(&str, usize)]) -> TypeComments {
        let export = |(name, count): &(&str, usize)| {
            let names: String = (0..*count).map(|at| format!("\"n{at}\" ")).collect();
            format!("(type ${name} (enum {names})) (export \"{name}\" (type ${name}))")
        };
        let json = r#"{"worlds": {"w": {"types": {"shade": {"items": {"n0": "Dark."}}}}}}"#;
        let exports: String = exports.iter().map(export).collect();
        read_with(&exports, json)
    }

    fn read_with(text: &str, json: &str) -> TypeComments {
        let json = json.replace('"', "\\22");
        let section = format!("(@custom \"package-docs\" \"\\01{json}\")");
        let bytes = wat::parse_str(format!("(component {text} {section})")).unwrap();
        let engine = Engine::default();
        let component = Component::new(&engine, &bytes).unwrap();
        TypeComments::read(&engine, &component, &Docs::read(&bytes))
    }

    #[test]
    fn interfaces_with_same_name_share_comments() {
        let instance = |at: usize| {
            format!(
                "(component $c{at} (type $e (enum \"n0\" \"m{at}\")) (export \"shade\" (type $e)))
                (instance $i{at} (instantiate $c{at})) (export \"a{at}:b/i\" (instance $i{at}))"
            )
        };
        let json = r#"{"interfaces": {"i": {"types": {"shade": {"items": {"n0": "Dark."}}}}}}"#;
        let comments = read_with(&(instance(1) + &instance(2)), json);
        let [first, second] = [1, 2].map(|at| {
            let labels = ["n0".to_owned(), format!("m{at}")];
            let shape = Shape::Enum(labels.iter().map(|label| Label::new(label)).collect());
            comments.docs(&shape).unwrap()
        });
        assert_eq!(first.items["n0"], "Dark.");
        assert!(std::ptr::eq(first, second));
    }

    #[test]
    fn limits_number_of_types_that_are_read() {
        let labels = |count| (0..count).map(|at| Label::new(&format!("n{at}"))).collect();
        let (first, shade) = (Label::new("n0"), Shape::Enum(labels(3)));
        let comments = read(&[("shade", 3), ("other", 4)]);
        assert_eq!(comments.item_comment(&shade, &first), Some("Dark."));
        assert_eq!(comments.item_comment(&Shape::Enum(labels(4)), &first), None);
        // Another type of the same structure has no comment.
        let comments = read(&[("shade", 3), ("other", 3)]);
        assert_eq!(comments.item_comment(&shade, &first), None);
        // One type is too large to read, and later all types together are.
        let large = MAX_PARTS + 1;
        let comments = read(&[("shade", 3), ("large", large)]);
        assert_eq!(comments.item_comment(&shade, &first), Some("Dark."));
        let max = MAX_NAMED_PARTS / MAX_PARTS;
        let names: Vec<String> = (0..max).map(|at| format!("large{at}")).collect();
        // An enum is a part, and so is each of its names.
        for size in [large, MAX_PARTS - 1] {
            let large = names.iter().map(|name| (&**name, size));
            let all: Vec<_> = std::iter::once(("shade", 3)).chain(large).collect();
            assert!(read(&all).0.is_empty(), "{size}");
            let fewer = read(&all[..max]);
            assert_eq!(fewer.item_comment(&shade, &first), Some("Dark."), "{size}");
        }
    }

    #[test]
    fn reads_the_comments_on_types_of_an_interface() {
        let shade = r#"(type $t (enum "n0" "n1")) (instance $i (export "shade" (type $t)))
            (export "acme:paint/colours" (instance $i))"#;
        let json = r#"{"interfaces": {"colours": {"types":
            {"shade": {"docs": "A shade.", "items": {"n1": "Light."}}}}}}"#;
        let comments = read_with(shade, &json.replace('\n', ""));
        let labels = ["n0", "n1"].map(Label::new);
        let shade = Shape::Enum(labels.to_vec());
        assert_eq!(comments.type_comment(&shade), Some("A shade."));
        let items = labels.map(|label| comments.item_comment(&shade, &label));
        assert_eq!(items, [None, Some("Light.")]);
    }

    #[test]
    fn ignores_differing_comments_on_same_structure() {
        let (pixels, metres, none) = ("In pixels.", "In metres.", "");
        for (types, expected) in [
            (&[("size", pixels)][..], Some(pixels)),
            // One interface uses the type of another.
            (&[("size", none), ("size", pixels)], Some(pixels)),
            (&[("size", pixels), ("size", none)], Some(pixels)),
            (&[("size", pixels), ("area", pixels)], Some(pixels)),
            (
                &[("size", none), ("size", pixels), ("size", pixels)],
                Some(pixels),
            ),
            (
                &[("size", pixels), ("size", pixels), ("size", none)],
                Some(pixels),
            ),
            (&[("size", pixels), ("area", metres)], None),
            (&[("size", pixels), ("size", metres)], None),
            (&[("size", pixels), ("area", none)], None),
            (&[("area", none), ("size", none), ("area", pixels)], None),
            (
                &[("size", pixels), ("size", metres), ("size", pixels)],
                None,
            ),
        ] {
            assert_eq!(comment(types).as_deref(), expected, "{types:?}");
            let mut reversed = types.to_vec();
            reversed.reverse();
            assert_eq!(comment(&reversed).as_deref(), expected, "{reversed:?}");
        }
    }
}
