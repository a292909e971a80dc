//! What is looked for. Regular expressions come from a model: they take linear
//! time, and may not be large.

use regex::{Regex, RegexBuilder};
use skillhost_guest::Failure;

/// Bytes that a compiled expression may take. Meets: a short expression that
/// counts to thousands.
const COMPILED_BYTES: usize = 1 << 20;
/// Words that are looked for.
const WORDS: usize = 20;

/// Expressions that must all match a line.
pub(crate) struct Query(Vec<Regex>);

impl Query {
    pub(crate) fn new(query: &str, is_regex: bool) -> Result<Self, Failure> {
        let mut expressions = Vec::new();
        if is_regex && !query.is_empty() {
            expressions.push(compiled(query, false)?);
        } else if !is_regex {
            for word in query.split_whitespace() {
                if expressions.len() == WORDS {
                    return Err(Failure::invalid_arguments(format!(
                        "The query has more than {WORDS} words."
                    )));
                }
                expressions.push(compiled(&regex::escape(word), true)?);
            }
        }
        match expressions.is_empty() {
            true => Err(Failure::invalid_arguments("The query is empty.")),
            false => Ok(Self(expressions)),
        }
    }

    pub(crate) fn matches(&self, line: &str) -> bool {
        self.0.iter().all(|expression| expression.is_match(line))
    }
}

fn compiled(expression: &str, any_case: bool) -> Result<Regex, Failure> {
    let built = RegexBuilder::new(expression)
        .case_insensitive(any_case)
        .size_limit(COMPILED_BYTES)
        .dfa_size_limit(COMPILED_BYTES)
        .build();
    built.map_err(|error| {
        let said = error.to_string();
        // The reason stands last, under a picture of where it is.
        let reason = said.rsplit("error: ").next().unwrap_or(&said).trim();
        Failure::invalid_arguments(format!(
            "The query is no regular expression that can be used: {reason}"
        ))
    })
}
