//! What the operator set for the tool.

use alloc::string::String;

use wasip2::cli::environment;

/// The value of a variable that the operator set for this tool.
pub fn variable(name: &str) -> Option<String> {
    let variables = environment::get_environment().into_iter();
    let mut named = variables.filter(|(found, _)| found == name);
    named.next().map(|(_, value)| value)
}
