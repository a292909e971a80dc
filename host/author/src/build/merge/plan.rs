//! Reads the core items of a component, and chooses the modules to merge.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail, ensure};
use wasmparser::{CanonicalFunction, CanonicalOption, ComponentAlias, Export, Instance, Payload};

use super::{ItemId, Kind, module};

/// An instance in the component's core index space.
pub(super) enum CoreInstance<'a> {
    /// An instance of a module that becomes part of the merged one.
    Member(module::Member<'a>),
    /// An instance of a module that is not merged.
    Unmerged,
    /// A list of named items, without a module.
    Items(Vec<Export<'a>>),
}

/// The definition of a core item.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    /// An export of a core instance.
    Export { instance: u32, name: &'a str },
    /// A lowered component function. `needs_member` is true if it uses the memory or a function of
    /// a merged module.
    Lowered { needs_member: bool },
}

/// The core items of a component, and the choice of modules to merge.
#[derive(Default)]
pub(super) struct Plan<'a> {
    pub(super) modules: Vec<&'a [u8]>,
    pub(super) instances: Vec<CoreInstance<'a>>,
    pub(super) items: BTreeMap<Kind, Vec<Item<'a>>>,
    /// The items that are used outside the merged modules.
    pub(super) used: BTreeSet<ItemId>,
    /// The instances that unmerged modules import.
    pub(super) used_instances: BTreeSet<u32>,
}

impl<'a> Plan<'a> {
    pub(super) fn read(component: &'a [u8], payloads: &[Payload<'a>]) -> anyhow::Result<Self> {
        let mut plan = Self::default();
        for payload in payloads {
            match payload {
                Payload::ModuleSection {
                    unchecked_range, ..
                } => {
                    plan.modules.push(&component[unchecked_range.clone()]);
                }
                Payload::InstanceSection(section) => {
                    for instance in section.clone() {
                        plan.add_instance(instance?)?;
                    }
                }
                Payload::ComponentAliasSection(section) => {
                    for alias in section.clone() {
                        if let ComponentAlias::CoreInstanceExport {
                            kind,
                            instance_index,
                            name,
                        } = alias?
                        {
                            let instance = instance_index;
                            let items = plan.items.entry(kind.try_into()?).or_default();
                            items.push(Item::Export { instance, name });
                        }
                    }
                }
                Payload::ComponentCanonicalSection(section) => {
                    for function in section.clone() {
                        plan.add_function(&function?)?;
                    }
                }
                _ => {}
            }
        }
        Ok(plan)
    }

    fn add_function(&mut self, function: &CanonicalFunction) -> anyhow::Result<()> {
        let items = used_items(function)?;
        let needs_member = items.iter().any(|&id| self.is_member_export(id));
        self.used.extend(items);
        if !matches!(function, CanonicalFunction::Lift { .. }) {
            let functions = self.items.entry(Kind::Function).or_default();
            functions.push(Item::Lowered { needs_member });
        }
        Ok(())
    }

    fn add_instance(&mut self, instance: Instance<'a>) -> anyhow::Result<()> {
        let (index, arguments) = match instance {
            Instance::FromExports(items) => {
                self.instances.push(CoreInstance::Items(items.into()));
                return Ok(());
            }
            Instance::Instantiate { module_index, args } => (module_index, args),
        };
        ensure!(!self.is_merged(index), "a module has several instances");
        let module = *self
            .modules
            .get(index as usize)
            .context("an instance has no module")?;
        let (mut needs_member, mut can_link_first) = (module::defines_memory(module)?, true);
        let mut items = Vec::new();
        for argument in &arguments {
            match self.instances.get(argument.index as usize) {
                Some(CoreInstance::Member(_)) => needs_member = true,
                Some(CoreInstance::Items(named)) => {
                    for item in named {
                        items.push((item.kind.try_into()?, item.index));
                    }
                }
                _ => {}
            }
        }
        for &id in &items {
            needs_member |= self.is_member_export(id);
            // A function that uses the memory is defined after the merged module, which therefore
            // cannot import it.
            can_link_first &= !matches!(self.item(id), Some(Item::Lowered { needs_member: true }));
        }
        self.instances.push(if needs_member && can_link_first {
            CoreInstance::Member(module::Member {
                index,
                module,
                arguments: arguments.iter().map(|arg| (arg.name, arg.index)).collect(),
            })
        } else {
            self.used.extend(items);
            let instances = arguments.iter().map(|arg| arg.index);
            self.used_instances.extend(instances);
            CoreInstance::Unmerged
        });
        Ok(())
    }

    /// Checks whether a module becomes part of the merged one.
    pub(super) fn is_merged(&self, module: u32) -> bool {
        let mut instances = self.instances.iter();
        instances.any(
            |instance| matches!(instance, CoreInstance::Member(member) if member.index == module),
        )
    }

    pub(super) fn item(&self, (kind, index): ItemId) -> Option<Item<'a>> {
        self.items.get(&kind)?.get(index as usize).copied()
    }

    /// Checks whether an item is an export of a merged module.
    pub(super) fn is_member_export(&self, id: ItemId) -> bool {
        let Some(Item::Export { instance, .. }) = self.item(id) else {
            return false;
        };
        let instance = self.instances.get(instance as usize);
        matches!(instance, Some(CoreInstance::Member(_)))
    }

    /// Returns the source of an import of a merged module, or `None` if nothing defines the import.
    pub(super) fn import(
        &self,
        member: &module::Member<'_>,
        module: &str,
        name: &'a str,
    ) -> Option<module::Source<'a>> {
        let (_, instance) = member
            .arguments
            .iter()
            .find(|(argument, _)| *argument == module)?;
        let items = match self.instances.get(*instance as usize)? {
            CoreInstance::Items(items) => items,
            CoreInstance::Member(_) => {
                let instance = *instance;
                return Some(module::Source::Member { instance, name });
            }
            CoreInstance::Unmerged => return None,
        };
        let item = items.iter().find(|item| item.name == name)?;
        let id = (item.kind.try_into().ok()?, item.index);
        Some(match self.item(id)? {
            Item::Export { instance, name } if self.is_member_export(id) => {
                module::Source::Member { instance, name }
            }
            _ => module::Source::Outside(id),
        })
    }
}

/// Returns the core items that a lifted or lowered function uses.
pub(super) fn used_items(function: &CanonicalFunction) -> anyhow::Result<Vec<ItemId>> {
    let (mut items, options) = match function {
        CanonicalFunction::Lift {
            core_func_index,
            options,
            ..
        } => (vec![(Kind::Function, *core_func_index)], &options[..]),
        CanonicalFunction::Lower { options, .. } => (Vec::new(), &options[..]),
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => (Vec::new(), &[][..]),
        other => bail!("unsupported function {other:?}"),
    };
    for option in options {
        match option {
            CanonicalOption::Memory(index) => items.push((Kind::Memory, *index)),
            CanonicalOption::Realloc(index)
            | CanonicalOption::PostReturn(index)
            | CanonicalOption::Callback(index) => items.push((Kind::Function, *index)),
            _ => {}
        }
    }
    Ok(items)
}
