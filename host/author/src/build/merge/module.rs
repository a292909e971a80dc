//! Merges core modules that import from each other into one module.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail, ensure};
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    CodeSection, DataCountSection, DataSection, ElementSection, EntityType, ExportKind,
    ExportSection, FunctionSection, GlobalSection, ImportSection, Instruction, MemorySection,
    Module, TableSection, TypeSection,
};
use wasmparser::{
    Data, Element, FunctionBody, Global, Import, MemoryType, Operator, Parser, Payload, RecGroup,
    Table, TypeRef,
};

use super::{ItemId, Kind, MissingItem};

/// A module that is merged, and its arguments: names, and core instances.
pub(super) struct Member<'a> {
    /// Its place among the component's modules.
    pub(super) index: u32,
    pub(super) module: &'a [u8],
    pub(super) arguments: Vec<(&'a str, u32)>,
}

/// The origin of an import.
pub(super) enum Source<'a> {
    /// An export of another merged module, by its core instance.
    Member { instance: u32, name: &'a str },
    /// Another item of the component.
    Outside(ItemId),
}

/// A merged module, and the component's functions that it imports.
pub(super) struct MergedModule {
    pub(super) module: Module,
    pub(super) imports: Vec<u32>,
}

/// Returns the name by which the merged module imports or exports an item.
pub(super) fn export_name((kind, index): ItemId) -> String {
    format!("{kind:?} {index}")
}

/// Checks whether a module defines a memory.
pub(super) fn defines_memory(module: &[u8]) -> anyhow::Result<bool> {
    Ok(!Parts::read(module)?.memories.is_empty())
}

/// The parts of a module.
#[derive(Default)]
struct Parts<'a> {
    types: Vec<RecGroup>,
    imports: Vec<Import<'a>>,
    functions: Vec<u32>,
    tables: Vec<Table<'a>>,
    memories: Vec<MemoryType>,
    globals: Vec<Global<'a>>,
    exports: BTreeMap<&'a str, (Kind, u32)>,
    elements: Vec<Element<'a>>,
    bodies: Vec<FunctionBody<'a>>,
    data: Vec<Data<'a>>,
    counts_data: bool,
}

impl<'a> Parts<'a> {
    fn read(module: &'a [u8]) -> anyhow::Result<Self> {
        let mut parts = Self::default();
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(section) => {
                    parts.types = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::ImportSection(section) => {
                    parts.imports = section.into_imports().collect::<Result<_, _>>()?;
                }
                Payload::FunctionSection(section) => {
                    parts.functions = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::TableSection(section) => {
                    parts.tables = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::MemorySection(section) => {
                    parts.memories = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::GlobalSection(section) => {
                    parts.globals = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        let item = (export.kind.try_into()?, export.index);
                        parts.exports.insert(export.name, item);
                    }
                }
                Payload::ElementSection(section) => {
                    parts.elements = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::DataSection(section) => {
                    parts.data = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::DataCountSection { .. } => parts.counts_data = true,
                Payload::CodeSectionEntry(body) => parts.bodies.push(body),
                Payload::Version { .. }
                | Payload::CodeSectionStart { .. }
                | Payload::CustomSection(_)
                | Payload::End(_) => {}
                // A start function would run before the component is linked.
                other => bail!("a module has {other:?}"),
            }
        }
        Ok(parts)
    }
}

/// An item of the merged module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Import(u32),
    Defined(u32),
}

/// The merged module's indices of one module's.
#[derive(Default)]
struct Indices {
    types: u32,
    items: BTreeMap<Kind, Vec<Place>>,
    elements: u32,
    data: u32,
}

/// Merges modules, each with its core instance. `exports` are the merged module's,
/// and `import` finds the origin of an import.
pub(super) fn merge<'a>(
    members: &[(u32, &Member<'a>)],
    exports: BTreeMap<ItemId, (u32, &str)>,
    import: impl Fn(&Member<'a>, &str, &'a str) -> Option<Source<'a>>,
) -> anyhow::Result<MergedModule> {
    let parts = members.iter().map(|(_, member)| Parts::read(member.module));
    let parts: Vec<Parts<'_>> = parts.collect::<anyhow::Result<_>>()?;
    let mut linker = Linker::default();
    for ((instance, member), parts) in members.iter().zip(&parts) {
        linker.add(*instance, parts, |module, name| {
            import(member, module, name)
        })?;
    }
    let exports = exports
        .into_iter()
        .map(|((kind, index), (instance, name))| {
            let place = linker.export(instance, name, kind)?;
            Ok((index, kind, place))
        });
    let exports: Vec<_> = exports.collect::<anyhow::Result<_>>()?;
    linker.write(&parts, &exports)
}

#[derive(Default)]
struct Linker<'a> {
    indices: Vec<Indices>,
    /// The exports of each core instance.
    exports: BTreeMap<(u32, &'a str), (Kind, Place)>,
    /// The functions that the merged module imports, with their types.
    imports: Vec<(u32, u32)>,
    /// The number of items of each kind that are defined so far.
    defined: BTreeMap<Kind, u32>,
    types: u32,
    elements: u32,
    data: u32,
}

impl<'a> Linker<'a> {
    fn add(
        &mut self,
        instance: u32,
        parts: &Parts<'a>,
        import: impl Fn(&str, &'a str) -> Option<Source<'a>>,
    ) -> anyhow::Result<()> {
        let mut indices = Indices {
            types: self.types,
            elements: self.elements,
            data: self.data,
            ..Indices::default()
        };
        for wanted in &parts.imports {
            let (kind, function_type) = match wanted.ty {
                TypeRef::Func(index) => (Kind::Function, self.types + index),
                TypeRef::Table(_) => (Kind::Table, 0),
                TypeRef::Memory(_) => (Kind::Memory, 0),
                TypeRef::Global(_) => (Kind::Global, 0),
                other => bail!("a module imports {other:?}"),
            };
            let source = import(wanted.module, wanted.name);
            let source = source.with_context(|| format!("a module lacks `{}`", wanted.name))?;
            let place = match source {
                Source::Member { instance, name } => self.export(instance, name, kind)?,
                Source::Outside((Kind::Function, item)) if kind == Kind::Function => {
                    let known = self.imports.iter().position(|(known, _)| *known == item);
                    Place::Import(known.unwrap_or_else(|| {
                        self.imports.push((item, function_type));
                        self.imports.len() - 1
                    }) as u32)
                }
                Source::Outside(_) => bail!("`{}` is not a function", wanted.name),
            };
            indices.items.entry(kind).or_default().push(place);
        }
        for (kind, count) in [
            (Kind::Function, parts.functions.len()),
            (Kind::Table, parts.tables.len()),
            (Kind::Memory, parts.memories.len()),
            (Kind::Global, parts.globals.len()),
        ] {
            let first = self.defined.entry(kind).or_default();
            let next = *first + count as u32;
            let places = (*first..next).map(Place::Defined);
            indices.items.entry(kind).or_default().extend(places);
            *first = next;
        }
        for (name, (kind, index)) in &parts.exports {
            let place = indices.items[kind].get(*index as usize);
            let place = *place.context("a module exports what it does not have")?;
            self.exports.insert((instance, name), (*kind, place));
        }
        self.types += parts
            .types
            .iter()
            .map(|group| group.types().len() as u32)
            .sum::<u32>();
        self.elements += parts.elements.len() as u32;
        self.data += parts.data.len() as u32;
        self.indices.push(indices);
        Ok(())
    }

    fn export(&self, instance: u32, name: &str, kind: Kind) -> anyhow::Result<Place> {
        match self.exports.get(&(instance, name)) {
            Some((found, place)) if *found == kind => Ok(*place),
            _ => bail!("no module exports `{name}`"),
        }
    }

    fn write(
        self,
        parts: &[Parts<'_>],
        exports: &[(u32, Kind, Place)],
    ) -> anyhow::Result<MergedModule> {
        ensure!(
            self.defined.get(&Kind::Memory) == Some(&1),
            "it has several memories"
        );
        let constants = self.constants(parts, exports)?;
        let mut module = Module::new();
        let (mut types, mut imports, mut functions) = (
            TypeSection::new(),
            ImportSection::new(),
            FunctionSection::new(),
        );
        let (mut tables, mut memories, mut globals) = (
            TableSection::new(),
            MemorySection::new(),
            GlobalSection::new(),
        );
        let (mut elements, mut code, mut data) = (
            ElementSection::new(),
            CodeSection::new(),
            DataSection::new(),
        );
        for (item, function_type) in &self.imports {
            imports.import(
                "",
                &export_name((Kind::Function, *item)),
                EntityType::Function(*function_type),
            );
        }
        for (indices, parts) in self.indices.iter().zip(parts) {
            let mut writer = Writer {
                indices,
                imported: self.imports.len() as u32,
                constants: &constants,
            };
            for group in &parts.types {
                writer.parse_recursive_type_group(types.ty(), group.clone())?;
            }
            for function_type in &parts.functions {
                functions.function(writer.type_index(*function_type)?);
            }
            for table in &parts.tables {
                writer.parse_table(&mut tables, table.clone())?;
            }
            for memory in &parts.memories {
                memories.memory(writer.memory_type(*memory)?);
            }
            for global in &parts.globals {
                writer.parse_global(&mut globals, global.clone())?;
            }
            for element in &parts.elements {
                writer.parse_element(&mut elements, element.clone())?;
            }
            for body in &parts.bodies {
                writer.parse_function_body(&mut code, body.clone())?;
            }
            for datum in &parts.data {
                writer.parse_data(&mut data, datum.clone())?;
            }
        }
        let mut exported = ExportSection::new();
        for &(index, kind, place) in exports {
            let place = self.index(kind, place);
            exported.export(&export_name((kind, index)), ExportKind::from(kind), place);
        }
        module
            .section(&types)
            .section(&imports)
            .section(&functions)
            .section(&tables);
        module
            .section(&memories)
            .section(&globals)
            .section(&exported)
            .section(&elements);
        if parts.iter().any(|parts| parts.counts_data) {
            module.section(&DataCountSection { count: self.data });
        }
        module.section(&code).section(&data);
        let imports = self.imports.iter().map(|(item, _)| *item).collect();
        Ok(MergedModule { module, imports })
    }

    fn index(&self, kind: Kind, place: Place) -> u32 {
        index(kind, place, self.imports.len() as u32)
    }

    /// Returns the globals that nothing ever sets, with their values: above all the
    /// addresses by which libraries find each other.
    fn constants(
        &self,
        parts: &[Parts<'_>],
        exports: &[(u32, Kind, Place)],
    ) -> anyhow::Result<BTreeMap<Place, i32>> {
        let exported = exports.iter().filter(|(_, kind, _)| *kind == Kind::Global);
        let mut set: BTreeSet<Place> = exported.map(|(_, _, place)| *place).collect();
        let mut constants = BTreeMap::new();
        for (indices, parts) in self.indices.iter().zip(parts) {
            let globals = &indices.items[&Kind::Global];
            for body in &parts.bodies {
                for operator in body.get_operators_reader()? {
                    if let Operator::GlobalSet { global_index } = operator? {
                        let place = globals.get(global_index as usize);
                        set.insert(*place.context("no such global")?);
                    }
                }
            }
            let first = globals.len() - parts.globals.len();
            for (place, global) in globals[first..].iter().zip(&parts.globals) {
                let mut operators = global.init_expr.get_operators_reader();
                if let (Operator::I32Const { value }, Operator::End) =
                    (operators.read()?, operators.read()?)
                {
                    constants.insert(*place, value);
                }
            }
        }
        constants.retain(|place, _| !set.contains(place));
        Ok(constants)
    }
}

fn index(kind: Kind, place: Place, imported: u32) -> u32 {
    match (kind, place) {
        (_, Place::Import(index)) => index,
        (Kind::Function, Place::Defined(index)) => imported + index,
        (_, Place::Defined(index)) => index,
    }
}

/// Rewrites the parts of one module.
struct Writer<'a> {
    indices: &'a Indices,
    imported: u32,
    constants: &'a BTreeMap<Place, i32>,
}

impl Writer<'_> {
    fn item(&self, kind: Kind, old: u32) -> Result<u32, Error<MissingItem>> {
        let place = self
            .indices
            .items
            .get(&kind)
            .and_then(|items| items.get(old as usize));
        let missing = || Error::UserError(MissingItem(kind, old));
        Ok(index(kind, *place.ok_or_else(missing)?, self.imported))
    }
}

impl Reencode for Writer<'_> {
    type Error = MissingItem;

    fn type_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        Ok(self.indices.types + index)
    }

    fn element_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        Ok(self.indices.elements + index)
    }

    fn data_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        Ok(self.indices.data + index)
    }

    fn function_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.item(Kind::Function, index)
    }

    fn table_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.item(Kind::Table, index)
    }

    fn memory_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.item(Kind::Memory, index)
    }

    fn global_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.item(Kind::Global, index)
    }

    fn instruction<'a>(
        &mut self,
        operator: Operator<'a>,
    ) -> Result<Instruction<'a>, Error<MissingItem>> {
        if let Operator::GlobalGet { global_index } = operator
            && let Some(place) = self.indices.items[&Kind::Global].get(global_index as usize)
            && let Some(value) = self.constants.get(place)
        {
            return Ok(Instruction::I32Const(*value));
        }
        utils::instruction(self, operator)
    }
}
