//! The environment variables that the operator sets for a tool.

use alloc::string::String;

use wasip2::cli::environment;

/// Returns the value of a variable, or `None` if the operator did not set it.
pub fn variable(name: &str) -> Option<String> {
    let variables = environment::get_environment().into_iter();
    let mut matching = variables.filter(|(key, _)| key == name);
    matching.next().map(|(_, value)| value)
}
