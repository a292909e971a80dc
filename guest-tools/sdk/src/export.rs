//! Exports a list of [`Tool`]s as the two functions of the `tools` interface.

use alloc::format;
use alloc::vec::Vec;

use crate::Tool;
use crate::bindings::tools::{self, Definition};

/// Exports tools from a component. Each argument is an expression of type [`Tool`].
#[macro_export]
macro_rules! export_tools {
    ($($tool:expr),+ $(,)?) => {
        struct SkillhostTools;

        impl SkillhostTools {
            fn all() -> $crate::alloc::vec::Vec<$crate::Tool> {
                $crate::alloc::vec![$($tool),+]
            }
        }

        impl $crate::bindings::tools::Guest for SkillhostTools {
            fn definitions() -> $crate::alloc::vec::Vec<$crate::bindings::tools::Definition> {
                $crate::definitions(&Self::all())
            }

            fn call(
                name: $crate::alloc::string::String,
                arguments: $crate::alloc::string::String,
                folder: $crate::bindings::tools::Folder,
            ) -> ::core::result::Result<
                $crate::bindings::tools::Output,
                $crate::bindings::tools::Failure,
            > {
                $crate::call(&Self::all(), &name, &arguments, folder)
            }
        }

        $crate::bindings::export!(SkillhostTools with_types_in $crate::bindings);
    };
}

/// Returns the definitions of `tools`.
pub fn definitions(tools: &[Tool]) -> Vec<Definition> {
    tools.iter().map(Tool::definition).collect()
}

/// Runs the tool that is called `name`.
pub fn call(
    tools: &[Tool],
    name: &str,
    arguments: &str,
    folder: tools::Folder,
) -> Result<tools::Output, tools::Failure> {
    let Some(tool) = tools.iter().find(|tool| tool.name() == name) else {
        return Err(crate::Failure::failed(format!("this component has no tool '{name}'")).into());
    };
    match tool.run(arguments, folder) {
        Ok(output) => Ok(output.into()),
        Err(failure) => Err(failure.into()),
    }
}
