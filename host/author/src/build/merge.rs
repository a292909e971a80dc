//! Merges the core modules of a component that share its memory into one module.
//!
//! componentize-py writes CPython and its libraries as ten modules. Without a merge, each call
//! would fill the table that they share and resolve thousands of imports. `plan` chooses the
//! modules, `module` merges them, and this file writes the component around them.

mod module;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use wasm_encoder::reencode::{Error, Reencode, ReencodeComponent};
use wasm_encoder::{
    Alias, CanonicalFunctionSection, Component, ComponentAliasSection, ComponentSectionId,
    ExportKind, InstanceSection, ModuleArg, ModuleSection, RawSection,
};
use wasmparser::{
    CanonicalFunction, Chunk, ComponentAlias, ExternalKind, Instance, Parser, Payload,
};

use plan::{CoreInstance, Item, Plan, used_items};

/// Merges the modules of a component that share its memory. Its exports and imports stay the
/// same.
pub(super) fn merge(component: &[u8]) -> anyhow::Result<Vec<u8>> {
    let payloads = payloads(component)?;
    let plan = Plan::read(component, &payloads)?;
    let mut writer = Writer {
        plan: &plan,
        component: Component::new(),
        modules: IndexMap::default(),
        instances: IndexMap::default(),
        items: BTreeMap::new(),
        merged: None,
    };
    for payload in payloads {
        writer.write_payload(component, payload)?;
    }
    Ok(writer.component.finish())
}

/// Returns the component's own sections, and not those of nested modules and components.
fn payloads(component: &[u8]) -> anyhow::Result<Vec<Payload<'_>>> {
    let mut parser = Parser::new(0);
    let (mut rest, mut payloads) = (component, Vec::new());
    while !rest.is_empty() {
        let Chunk::Parsed { consumed, payload } = parser.parse(rest, true)? else {
            bail!("the component is truncated");
        };
        rest = &rest[consumed..];
        if let Payload::ModuleSection {
            unchecked_range, ..
        }
        | Payload::ComponentSection {
            unchecked_range, ..
        } = &payload
        {
            rest = &rest[unchecked_range.len()..];
        }
        payloads.push(payload);
    }
    Ok(payloads)
}

/// A core item of a component: its kind, and its index within that kind.
type ItemId = (Kind, u32);

/// The kinds of core items that modules share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Function,
    Table,
    Memory,
    Global,
}

impl TryFrom<ExternalKind> for Kind {
    type Error = anyhow::Error;

    fn try_from(kind: ExternalKind) -> anyhow::Result<Self> {
        Ok(match kind {
            ExternalKind::Func => Self::Function,
            ExternalKind::Table => Self::Table,
            ExternalKind::Memory => Self::Memory,
            ExternalKind::Global => Self::Global,
            other => bail!("cannot merge modules that share a {other:?}"),
        })
    }
}

impl From<Kind> for ExportKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Function => Self::Func,
            Kind::Table => Self::Table,
            Kind::Memory => Self::Memory,
            Kind::Global => Self::Global,
        }
    }
}

/// An item that is used before it is defined.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} {1} is not defined")]
struct MissingItem(Kind, u32);

/// A map from old to new indices. Items that are not written yet have no new index.
#[derive(Default)]
struct IndexMap {
    new: Vec<Option<u32>>,
    written: u32,
}

impl IndexMap {
    /// Adds an old index that gets no new index now.
    fn skip(&mut self) {
        self.new.push(None);
    }

    /// Adds an old index, and assigns the next new index to it.
    fn write(&mut self) {
        let index = self.assign();
        self.new.push(Some(index));
    }

    /// Returns the next new index, also for an item that has no old index.
    fn assign(&mut self) -> u32 {
        self.written += 1;
        self.written - 1
    }

    fn get(&self, old: u32) -> Option<u32> {
        self.new.get(old as usize).copied().flatten()
    }
}

/// Writes the new component.
struct Writer<'a> {
    plan: &'a Plan<'a>,
    component: Component,
    modules: IndexMap,
    instances: IndexMap,
    items: BTreeMap<Kind, IndexMap>,
    /// The instance of the merged module. It is written when its exports are first used: by then
    /// its imports are defined.
    merged: Option<u32>,
}

impl Writer<'_> {
    fn write_payload(&mut self, bytes: &[u8], payload: Payload<'_>) -> anyhow::Result<()> {
        match payload {
            Payload::ModuleSection {
                unchecked_range, ..
            } => {
                let index = self.modules.new.len() as u32;
                if self.plan.is_merged(index) {
                    self.modules.skip();
                } else {
                    self.write_raw(ComponentSectionId::CoreModule, &bytes[unchecked_range]);
                    self.modules.write();
                }
            }
            Payload::ComponentSection {
                unchecked_range, ..
            } => {
                self.write_raw(ComponentSectionId::Component, &bytes[unchecked_range]);
            }
            Payload::InstanceSection(section) => {
                for instance in section {
                    self.write_instance(instance?)?;
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    self.write_alias(alias?)?;
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                for function in section {
                    let function = function?;
                    for id in used_items(&function)? {
                        self.ensure_alias(id)?;
                    }
                    let is_core = !matches!(function, CanonicalFunction::Lift { .. });
                    let mut section = CanonicalFunctionSection::new();
                    self.parse_component_canonical(&mut section, function)?;
                    self.component.section(&section);
                    if is_core {
                        self.items.entry(Kind::Function).or_default().write();
                    }
                }
            }
            // Drop this section, because it names items by their old indices.
            Payload::CustomSection(section) if section.name() == "component-name" => {}
            other => {
                let mut component = std::mem::take(&mut self.component);
                self.parse_component_payload(&mut component, other, bytes)?;
                self.component = component;
            }
        }
        Ok(())
    }

    fn write_raw(&mut self, id: ComponentSectionId, data: &[u8]) {
        self.component.section(&RawSection {
            id: id.into(),
            data,
        });
    }

    fn write_instance(&mut self, instance: Instance<'_>) -> anyhow::Result<()> {
        let index = self.instances.new.len() as u32;
        match &self.plan.instances[index as usize] {
            CoreInstance::Member(_) => {
                self.instances.skip();
                return Ok(());
            }
            CoreInstance::Items(_) if !self.plan.used_instances.contains(&index) => {
                self.instances.skip();
                return Ok(());
            }
            CoreInstance::Items(items) => {
                for item in items {
                    self.ensure_alias((item.kind.try_into()?, item.index))?;
                }
            }
            CoreInstance::Unmerged => {}
        }
        let mut section = InstanceSection::new();
        self.parse_instance(&mut section, instance)?;
        self.component.section(&section);
        self.instances.write();
        Ok(())
    }

    fn write_alias(&mut self, alias: ComponentAlias<'_>) -> anyhow::Result<()> {
        if let ComponentAlias::CoreInstanceExport {
            kind,
            instance_index,
            ..
        } = &alias
        {
            let items = self.items.entry((*kind).try_into()?).or_default();
            match self.plan.instances.get(*instance_index as usize) {
                Some(CoreInstance::Member(_)) => {
                    items.skip();
                    return Ok(());
                }
                _ => items.write(),
            }
        }
        let mut section = ComponentAliasSection::new();
        section.alias(self.component_alias(alias)?);
        self.component.section(&section);
        Ok(())
    }

    /// Writes an alias of an item of the merged module unless it already has one.
    fn ensure_alias(&mut self, id: ItemId) -> anyhow::Result<()> {
        let (kind, index) = id;
        if !self.plan.is_member_export(id) || self.new_index(id).is_some() {
            return Ok(());
        }
        let instance = match self.merged {
            Some(instance) => instance,
            None => self.write_merged_module()?,
        };
        let mut section = ComponentAliasSection::new();
        section.alias(Alias::CoreInstanceExport {
            instance,
            kind: kind.into(),
            name: &module::export_name(id),
        });
        self.component.section(&section);
        let items = self.items.entry(kind).or_default();
        let new = items.assign();
        items.new[index as usize] = Some(new);
        Ok(())
    }

    /// Writes the merged module and its instance. Returns the index of the instance.
    fn write_merged_module(&mut self) -> anyhow::Result<u32> {
        let plan = self.plan;
        let members: Vec<_> = (0..)
            .zip(&plan.instances)
            .filter_map(|(index, instance)| match instance {
                CoreInstance::Member(member) => Some((index, member)),
                _ => None,
            })
            .collect();
        let used = plan.used.iter().filter(|id| plan.is_member_export(**id));
        let exports = used.filter_map(|&id| match plan.item(id)? {
            Item::Export { instance, name } => Some((id, (instance, name))),
            Item::Lowered { .. } => None,
        });
        let merged = module::merge(&members, exports.collect(), |member, module, name| {
            plan.import(member, module, name)
        })?;
        self.component.section(&ModuleSection(&merged.module));
        let module = self.modules.assign();
        let imports = merged.imports.iter().map(|&index| {
            let id = (Kind::Function, index);
            let new = self.new_index(id);
            let new = new.context("a module imports an item that is defined later")?;
            Ok((module::export_name(id), ExportKind::Func, new))
        });
        let imports: Vec<_> = imports.collect::<anyhow::Result<_>>()?;
        let mut section = InstanceSection::new();
        let arguments = self.instances.assign();
        section.export_items(
            imports
                .iter()
                .map(|(name, kind, new)| (name.as_str(), *kind, *new)),
        );
        section.instantiate(module, [("", ModuleArg::Instance(arguments))]);
        self.component.section(&section);
        let instance = self.instances.assign();
        self.merged = Some(instance);
        Ok(instance)
    }

    fn new_index(&self, (kind, index): ItemId) -> Option<u32> {
        self.items.get(&kind)?.get(index)
    }

    fn require(&self, kind: Kind, index: u32) -> Result<u32, Error<MissingItem>> {
        let missing = Error::UserError(MissingItem(kind, index));
        self.new_index((kind, index)).ok_or(missing)
    }
}

impl Reencode for Writer<'_> {
    type Error = MissingItem;

    fn function_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.require(Kind::Function, index)
    }

    fn table_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.require(Kind::Table, index)
    }

    fn memory_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.require(Kind::Memory, index)
    }

    fn global_index(&mut self, index: u32) -> Result<u32, Error<MissingItem>> {
        self.require(Kind::Global, index)
    }
}

impl ReencodeComponent for Writer<'_> {
    // An undefined index becomes `u32::MAX`. The build reports it when it validates the component.
    fn module_index(&mut self, index: u32) -> u32 {
        self.modules.get(index).unwrap_or(u32::MAX)
    }

    fn instance_index(&mut self, index: u32) -> u32 {
        self.instances.get(index).unwrap_or(u32::MAX)
    }
}
