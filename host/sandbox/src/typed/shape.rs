//! The WIT types of a function, if they have a JSON form. They are read from the component
//! once, are bounded, and do not depend on the runtime.

use wasmtime::component::Type;
use wasmtime::component::types::ResourceType;

use crate::tool::limits::DEFINITIONS_BYTES;

/// The maximum number of parts of a function's types. Guards against: a type of a few bytes
/// that has a million parts, because each level refers to the next one twice.
pub(super) const MAX_PARTS: usize = 2_000;

/// The maximum number of parts of the types of all functions of a component. Guards
/// against: a large type that hundreds of functions share.
const MAX_SHARED_PARTS: usize = 50_000;

/// The maximum nesting of types. Guards against: JSON that is nested too deeply for its
/// parsers.
const MAX_DEPTH: usize = 32;

/// A WIT type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    Bool,
    Integer(Integer),
    Float32,
    Float64,
    Char,
    String,
    /// `list<u8>`.
    Bytes,
    List(Box<Shape>),
    Tuple(Vec<Shape>),
    Record(Vec<(Label, Shape)>),
    Variant(Vec<(Label, Option<Shape>)>),
    Enum(Vec<Label>),
    Flags(Vec<Label>),
    Option(Box<Shape>),
    /// The cases `ok` and `err`.
    Result(Box<[Option<Shape>; 2]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Integer {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

impl Integer {
    /// Returns the minimum and the maximum.
    pub(crate) fn range(self) -> (i128, i128) {
        match self {
            Self::S8 => (i8::MIN.into(), i8::MAX.into()),
            Self::U8 => (u8::MIN.into(), u8::MAX.into()),
            Self::S16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U16 => (u16::MIN.into(), u16::MAX.into()),
            Self::S32 => (i32::MIN.into(), i32::MAX.into()),
            Self::U32 => (u32::MIN.into(), u32::MAX.into()),
            Self::S64 => (i64::MIN.into(), i64::MAX.into()),
            Self::U64 => (u64::MIN.into(), u64::MAX.into()),
        }
    }
}

/// A WIT name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Label {
    /// The component's spelling, such as `line-count`.
    pub(crate) wit: String,
    /// The spelling in JSON, such as `line_count`.
    pub(crate) json: String,
}

impl Label {
    pub(crate) fn new(wit: &str) -> Self {
        Self {
            wit: wit.to_owned(),
            json: super::names::snake(wit),
        }
    }
}

/// The remaining budget for all types of a component.
pub(crate) struct ShapeBudget {
    /// The number of parts that further types may have.
    parts: usize,
    /// The number of bytes that further names may have. Guards against: a long name that is used
    /// many times in a type.
    name_bytes: usize,
}

impl ShapeBudget {
    /// Creates the budget for a component's functions. More bytes of names would not fit
    /// into their definitions.
    pub(super) fn for_functions() -> Self {
        Self::with_parts(MAX_SHARED_PARTS)
    }

    pub(super) fn with_parts(parts: usize) -> Self {
        Self {
            parts,
            name_bytes: DEFINITIONS_BYTES,
        }
    }

    /// Returns whether the budget has no parts or no bytes of names left.
    pub(super) fn is_spent(&self) -> bool {
        self.parts == 0 || self.name_bytes == 0
    }
}

/// A bounded reader of a function's types.
pub(crate) struct ShapeReader<'a> {
    /// The number of parts that further types of this function may have.
    parts: usize,
    budget: &'a mut ShapeBudget,
    /// Returns the name of a resource, if the component gives it one.
    resource_name: &'a dyn Fn(&ResourceType) -> Option<String>,
}

impl<'a> ShapeReader<'a> {
    pub(crate) fn new(
        budget: &'a mut ShapeBudget,
        resource_name: &'a dyn Fn(&ResourceType) -> Option<String>,
    ) -> Self {
        Self {
            parts: MAX_PARTS,
            budget,
            resource_name,
        }
    }

    /// Reads a type. The error names a part without a JSON form, or a bound that is exceeded.
    pub(crate) fn read(&mut self, ty: &Type) -> Result<Shape, String> {
        self.shape(ty, 0)
    }

    fn shape(&mut self, ty: &Type, depth: usize) -> Result<Shape, String> {
        if depth == MAX_DEPTH {
            return Err(format!("types nested more than {MAX_DEPTH} deep"));
        }
        self.charge_part()?;
        let handle = |kind: &str, ty| match (self.resource_name)(ty) {
            Some(name) => format!("`{kind}<{name}>`, a handle to a resource"),
            None => format!("a handle (`{kind}`) to a resource"),
        };
        Ok(match ty {
            Type::Bool => Shape::Bool,
            Type::S8 => Shape::Integer(Integer::S8),
            Type::U8 => Shape::Integer(Integer::U8),
            Type::S16 => Shape::Integer(Integer::S16),
            Type::U16 => Shape::Integer(Integer::U16),
            Type::S32 => Shape::Integer(Integer::S32),
            Type::U32 => Shape::Integer(Integer::U32),
            Type::S64 => Shape::Integer(Integer::S64),
            Type::U64 => Shape::Integer(Integer::U64),
            Type::Float32 => Shape::Float32,
            Type::Float64 => Shape::Float64,
            Type::Char => Shape::Char,
            Type::String => Shape::String,
            Type::List(list) => match list.ty() {
                Type::U8 => Shape::Bytes,
                element => Shape::List(self.nested(&element, depth)?.into()),
            },
            Type::Tuple(tuple) => {
                let shapes = tuple.types().map(|ty| self.nested(&ty, depth));
                Shape::Tuple(shapes.collect::<Result<_, _>>()?)
            }
            Type::Record(record) => {
                let field = |field: wasmtime::component::types::Field<'_>| {
                    Ok((self.label(field.name)?, self.nested(&field.ty, depth)?))
                };
                Shape::Record(record.fields().map(field).collect::<Result<_, String>>()?)
            }
            Type::Variant(variant) => {
                let case = |case: wasmtime::component::types::Case<'_>| {
                    Ok((self.label(case.name)?, self.payload(case.ty, depth)?))
                };
                Shape::Variant(variant.cases().map(case).collect::<Result<_, String>>()?)
            }
            Type::Enum(names) => Shape::Enum(self.labels(names.names())?),
            Type::Flags(names) => Shape::Flags(self.labels(names.names())?),
            Type::Option(option) => Shape::Option(self.nested(&option.ty(), depth)?.into()),
            Type::Result(result) => Shape::Result(Box::new([
                self.payload(result.ok(), depth)?,
                self.payload(result.err(), depth)?,
            ])),
            Type::Own(resource) => return Err(without_json(&handle("own", resource))),
            Type::Borrow(resource) => return Err(without_json(&handle("borrow", resource))),
            Type::Future(_) => return Err(without_json("a `future`")),
            Type::Stream(_) => return Err(without_json("a `stream`")),
            Type::ErrorContext => return Err(without_json("an `error-context`")),
            Type::Map(_) => return Err(without_json("a `map`")),
            Type::FixedLengthList(_) => return Err(without_json("a `list` of fixed length")),
        })
    }

    fn nested(&mut self, ty: &Type, depth: usize) -> Result<Shape, String> {
        self.shape(ty, depth + 1)
    }

    /// Reads the payload of a case. A case without a payload is a part too.
    fn payload(&mut self, ty: Option<Type>, depth: usize) -> Result<Option<Shape>, String> {
        match ty {
            Some(ty) => self.nested(&ty, depth).map(Some),
            None => self.charge_part().map(|()| None),
        }
    }

    fn labels<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> Result<Vec<Label>, String> {
        let label = |name: &str| {
            self.charge_part()?;
            self.label(name)
        };
        names.map(label).collect()
    }

    /// Creates a label, and charges the budget for it.
    fn label(&mut self, name: &str) -> Result<Label, String> {
        let bytes_left = &mut self.budget.name_bytes;
        charge(bytes_left, name.len()).ok_or_else(|| {
            format!(
                "names of more than {DEFINITIONS_BYTES} bytes, counting those of other functions"
            )
        })?;
        Ok(Label::new(name))
    }

    fn charge_part(&mut self) -> Result<(), String> {
        charge(&mut self.budget.parts, 1).ok_or_else(|| {
            format!(
                "types of more than {MAX_SHARED_PARTS} parts, counting those of other functions"
            )
        })?;
        charge(&mut self.parts, 1).ok_or_else(|| format!("types of more than {MAX_PARTS} parts"))
    }
}

/// Returns the error for a type that has no form in JSON.
fn without_json(what: &str) -> String {
    format!("{what}, which has no form in JSON")
}

/// Charges an amount to a budget. If the budget is too small, sets it to zero and returns `None`.
fn charge(remaining: &mut usize, amount: usize) -> Option<()> {
    let rest = remaining.checked_sub(amount);
    *remaining = rest.unwrap_or(0);
    rest.map(drop)
}
