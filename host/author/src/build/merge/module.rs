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

/// A module to merge.
pub(super) struct Member<'a> {
    /// Its index among the component's modules.
    pub(super) index: u32,
    pub(super) module: &'a [u8],
    /// The names of its arguments, with their core instances.
    pub(super) arguments: Vec<(&'a str, u32)>,
}

/// The source of an import.
pub(super) enum Source<'a> {
    /// An export of another merged module, by its core instance.
    Member { instance: u32, name: &'a str },
    /// An item of the component outside the merged modules.
    Outside(ItemId),
}

/// The result of a merge.
pub(super) struct MergedModule {
    pub(super) module: Module,
    /// The component's functions that the module imports.
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
    has_data_count: bool,
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
                Payload::DataCountSection { .. } => parts.has_data_count = true,
                Payload::CodeSectionEntry(body) => parts.bodies.push(body),
                Payload::Version { .. }
                | Payload::CodeSectionStart { .. }
                | Payload::CustomSection(_)
                | Payload::End(_) => {}
                // Also start functions: they would run before the component is linked.
                other => bail!("unsupported section {other:?} in a module"),
            }
        }
        Ok(parts)
    }
}

/// The position of an item in the merged module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Position {
    Import(u32),
    Defined(u32),
}

/// The map from the indices of one module to the indices of the merged module. The `u32`
/// fields are offsets to add.
#[derive(Default)]
struct Indices {
    types: u32,
    items: BTreeMap<Kind, Vec<Position>>,
    elements: u32,
    data: u32,
}

/// Merges modules, each with its core instance. `exports` are the exports of the merged module,
/// and `import` returns the source of an import.
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
            let position = linker.export(instance, name, kind)?;
            Ok((index, kind, position))
        });
    let exports: Vec<_> = exports.collect::<anyhow::Result<_>>()?;
    linker.write(&parts, &exports)
}

/// Assigns positions in the merged module, and writes it.
#[derive(Default)]
struct Linker<'a> {
    indices: Vec<Indices>,
    /// The exports of each core instance.
    exports: BTreeMap<(u32, &'a str), (Kind, Position)>,
    /// The functions that the merged module imports, with their types.
    imports: Vec<(u32, u32)>,
    /// The number of items of each kind that are defined so far.
    defined: BTreeMap<Kind, u32>,
    types: u32,
    elements: u32,
    data: u32,
}

impl<'a> Linker<'a> {
    /// Adds a module. The modules that it imports from must have been added before.
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
            let source = import(wanted.module, wanted.name);
            let source = source
                .with_context(|| format!("the import `{}` of a module is missing", wanted.name))?;
            let (kind, position) = self.resolve(wanted, source)?;
            indices.items.entry(kind).or_default().push(position);
        }
        for (kind, count) in [
            (Kind::Function, parts.functions.len()),
            (Kind::Table, parts.tables.len()),
            (Kind::Memory, parts.memories.len()),
            (Kind::Global, parts.globals.len()),
        ] {
            let first = self.defined.entry(kind).or_default();
            let next = *first + count as u32;
            let positions = (*first..next).map(Position::Defined);
            indices.items.entry(kind).or_default().extend(positions);
            *first = next;
        }
        for (name, (kind, index)) in &parts.exports {
            let position = indices.items[kind].get(*index as usize);
            let position = *position.context("a module exports an undefined item")?;
            self.exports.insert((instance, name), (*kind, position));
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

    /// Returns the kind and the position of an imported item.
    fn resolve(
        &mut self,
        wanted: &Import<'_>,
        source: Source<'_>,
    ) -> anyhow::Result<(Kind, Position)> {
        let (kind, function_type) = match wanted.ty {
            TypeRef::Func(index) => (Kind::Function, self.types + index),
            TypeRef::Table(_) => (Kind::Table, 0),
            TypeRef::Memory(_) => (Kind::Memory, 0),
            TypeRef::Global(_) => (Kind::Global, 0),
            other => bail!("a module imports {other:?}"),
        };
        let position = match source {
            Source::Member { instance, name } => self.export(instance, name, kind)?,
            Source::Outside((Kind::Function, item)) if kind == Kind::Function => {
                let known = self.imports.iter().position(|(known, _)| *known == item);
                Position::Import(known.unwrap_or_else(|| {
                    self.imports.push((item, function_type));
                    self.imports.len() - 1
                }) as u32)
            }
            Source::Outside(_) => bail!("`{}` is not a function", wanted.name),
        };
        Ok((kind, position))
    }

    /// Returns the position of an item that a module exports.
    fn export(&self, instance: u32, name: &str, kind: Kind) -> anyhow::Result<Position> {
        match self.exports.get(&(instance, name)) {
            Some((exported, position)) if *exported == kind => Ok(*position),
            _ => bail!("no module exports `{name}`"),
        }
    }

    /// Writes the merged module.
    fn write(
        self,
        parts: &[Parts<'_>],
        exports: &[(u32, Kind, Position)],
    ) -> anyhow::Result<MergedModule> {
        ensure!(
            self.defined.get(&Kind::Memory) == Some(&1),
            "the modules have several memories"
        );
        let constants = self.constants(parts, exports)?;
        let mut sections = Sections::default();
        for (item, function_type) in &self.imports {
            sections.imports.import(
                "",
                &export_name((Kind::Function, *item)),
                EntityType::Function(*function_type),
            );
        }
        for (indices, parts) in self.indices.iter().zip(parts) {
            let mut writer = Writer {
                indices,
                imported_functions: self.imports.len() as u32,
                constants: &constants,
            };
            writer.write(parts, &mut sections)?;
        }
        for &(index, kind, position) in exports {
            let position = self.index(kind, position);
            let name = export_name((kind, index));
            sections
                .exports
                .export(&name, ExportKind::from(kind), position);
        }
        let has_data_count = parts.iter().any(|parts| parts.has_data_count);
        let module = sections.module(has_data_count.then_some(self.data));
        let imports = self.imports.iter().map(|(item, _)| *item).collect();
        Ok(MergedModule { module, imports })
    }

    fn index(&self, kind: Kind, position: Position) -> u32 {
        index(kind, position, self.imports.len() as u32)
    }

    /// Returns the globals that no code sets, with their values. Most of them are addresses in
    /// other libraries.
    fn constants(
        &self,
        parts: &[Parts<'_>],
        exports: &[(u32, Kind, Position)],
    ) -> anyhow::Result<BTreeMap<Position, i32>> {
        let exported = exports.iter().filter(|(_, kind, _)| *kind == Kind::Global);
        let mut assigned: BTreeSet<Position> = exported.map(|(_, _, position)| *position).collect();
        let mut constants = BTreeMap::new();
        for (indices, parts) in self.indices.iter().zip(parts) {
            let globals = &indices.items[&Kind::Global];
            for body in &parts.bodies {
                for operator in body.get_operators_reader()? {
                    if let Operator::GlobalSet { global_index } = operator? {
                        let position = globals.get(global_index as usize);
                        assigned.insert(*position.context("a module sets an undefined global")?);
                    }
                }
            }
            let first = globals.len() - parts.globals.len();
            for (position, global) in globals[first..].iter().zip(&parts.globals) {
                let mut operators = global.init_expr.get_operators_reader();
                if let (Operator::I32Const { value }, Operator::End) =
                    (operators.read()?, operators.read()?)
                {
                    constants.insert(*position, value);
                }
            }
        }
        constants.retain(|position, _| !assigned.contains(position));
        Ok(constants)
    }
}

fn index(kind: Kind, position: Position, imported_functions: u32) -> u32 {
    match (kind, position) {
        (_, Position::Import(index)) => index,
        (Kind::Function, Position::Defined(index)) => imported_functions + index,
        (_, Position::Defined(index)) => index,
    }
}

/// The sections of the merged module.
#[derive(Default)]
struct Sections {
    types: TypeSection,
    imports: ImportSection,
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    code: CodeSection,
    data: DataSection,
}

impl Sections {
    fn module(&self, data_count: Option<u32>) -> Module {
        let mut module = Module::new();
        module
            .section(&self.types)
            .section(&self.imports)
            .section(&self.functions)
            .section(&self.tables)
            .section(&self.memories)
            .section(&self.globals)
            .section(&self.exports)
            .section(&self.elements);
        if let Some(count) = data_count {
            module.section(&DataCountSection { count });
        }
        module.section(&self.code).section(&self.data);
        module
    }
}

/// Rewrites the parts of one module for the merged module.
struct Writer<'a> {
    indices: &'a Indices,
    imported_functions: u32,
    constants: &'a BTreeMap<Position, i32>,
}

impl Writer<'_> {
    fn write(
        &mut self,
        parts: &Parts<'_>,
        sections: &mut Sections,
    ) -> Result<(), Error<MissingItem>> {
        for group in &parts.types {
            self.parse_recursive_type_group(sections.types.ty(), group.clone())?;
        }
        for function_type in &parts.functions {
            sections
                .functions
                .function(self.type_index(*function_type)?);
        }
        for table in &parts.tables {
            self.parse_table(&mut sections.tables, table.clone())?;
        }
        for memory in &parts.memories {
            sections.memories.memory(self.memory_type(*memory)?);
        }
        for global in &parts.globals {
            self.parse_global(&mut sections.globals, global.clone())?;
        }
        for element in &parts.elements {
            self.parse_element(&mut sections.elements, element.clone())?;
        }
        for body in &parts.bodies {
            self.parse_function_body(&mut sections.code, body.clone())?;
        }
        for datum in &parts.data {
            self.parse_data(&mut sections.data, datum.clone())?;
        }
        Ok(())
    }

    fn new_index(&self, kind: Kind, old: u32) -> Result<u32, Error<MissingItem>> {
        let position = self
            .indices
            .items
            .get(&kind)
            .and_then(|items| items.get(old as usize));
        let missing = || Error::UserError(MissingItem(kind, old));
        Ok(index(
            kind,
            *position.ok_or_else(missing)?,
            self.imported_functions,
        ))
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
        self.new_index(Kind::Function, index)
    }

    fn table_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.new_index(Kind::Table, index)
    }

    fn memory_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.new_index(Kind::Memory, index)
    }

    fn global_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.new_index(Kind::Global, index)
    }

    fn instruction<'a>(
        &mut self,
        operator: Operator<'a>,
    ) -> Result<Instruction<'a>, Error<MissingItem>> {
        if let Operator::GlobalGet { global_index } = operator
            && let Some(position) = self.indices.items[&Kind::Global].get(global_index as usize)
            && let Some(value) = self.constants.get(position)
        {
            return Ok(Instruction::I32Const(*value));
        }
        utils::instruction(self, operator)
    }
}
