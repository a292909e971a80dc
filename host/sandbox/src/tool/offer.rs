//! The tools that a host offers, and the wording of their descriptions. `grant.rs` decides what
//! a tool is allowed to do.

use std::collections::BTreeSet;

/// The set of offered tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolSet {
    /// All tools.
    #[default]
    All,
    /// The minimal set of built-in tools that covers every task, and the tools of all other
    /// components.
    Compact,
    /// The tools with these names, built in or not.
    Named(BTreeSet<String>),
}

/// The built-in tools of [`ToolSet::Compact`], one for each task.
const COMPACT: [&str; 5] = [
    // List the skills, and search them.
    "list_skills",
    "find_skills",
    // Read a skill's instructions. The prompt section names this tool.
    "read_skill",
    // List a skill's files, and read one. `read_file_in_skill` cannot select lines.
    "list_files_in_skill",
    "read_skill_file",
];

/// The wording of the built-in tools' descriptions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wording {
    /// The components' own descriptions, in English.
    #[default]
    Plain,
    /// The contracts' descriptions.
    Contract,
}

/// The contracts' descriptions that differ from the components'. The description of
/// `read_skill_file` is in Chinese, and names tools that do not exist here.
const CONTRACT_DESCRIPTIONS: [(&str, &str); 1] = [(
    "read_skill_file",
    "从技能目录读取文件(⚠️ 技能文件存储在本地机器,不在远程沙盒中。当 skill 中提到其他文件时,\
     必须使用此工具读取,不能使用 read_file 或 run 命令在沙盒中查找)",
)];

/// The source of a tool's description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptionSource {
    /// The component that defines the tool.
    Component,
    /// The contract that the tool implements.
    Contract,
    /// The operator.
    Operator,
}

impl DescriptionSource {
    /// Returns the name for the operator.
    pub fn name(self) -> &'static str {
        match self {
            Self::Component => "component",
            Self::Contract => "contract",
            Self::Operator => "operator",
        }
    }
}

/// The maximum size of an operator's description, in bytes. Guards against: pages of text in every
/// request to a model.
const DESCRIPTION_BYTES: usize = 8 << 10;

impl ToolSet {
    /// Returns whether the set has a tool.
    pub fn has(&self, tool: &str, is_built_in: bool) -> bool {
        match self {
            Self::All => true,
            Self::Compact => !is_built_in || COMPACT.contains(&tool),
            Self::Named(names) => names.contains(tool),
        }
    }
}

impl Wording {
    /// Returns the description of a built-in tool, if it differs from the component's.
    pub fn description(self, tool: &str) -> Option<&'static str> {
        let (_, description) = CONTRACT_DESCRIPTIONS
            .iter()
            .find(|(name, _)| *name == tool && self == Self::Contract)?;
        Some(*description)
    }
}

/// Checks an operator's description.
pub fn check_description(text: &str) -> Result<(), String> {
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.trim().is_empty() {
        return Err("the description is empty".to_owned());
    }
    if text.len() > DESCRIPTION_BYTES {
        return Err(format!(
            "the description has {} bytes, more than {DESCRIPTION_BYTES}",
            text.len()
        ));
    }
    match text.chars().find(|c| is_control(*c)) {
        Some(control) => Err(format!(
            "the description has the control character `{}`",
            control.escape_default()
        )),
        None => Ok(()),
    }
}
