//! The query of a search. Models write the regular expressions, so they run in linear time
//! and have a maximum size.

use regex::{Regex, RegexBuilder};
use skillhost_guest::Failure;

/// The maximum size of a compiled expression in bytes. Guards against: a short expression with
/// a repetition of thousands.
const MAX_COMPILED_BYTES: usize = 1 << 20;
/// The maximum number of words in a query.
const MAX_WORDS: usize = 20;

/// Regular expressions that must all match a line.
pub(crate) struct Query(Vec<Regex>);

impl Query {
    pub(crate) fn new(query: &str, is_regex: bool) -> Result<Self, Failure> {
        let mut expressions = Vec::new();
        if is_regex && !query.is_empty() {
            expressions.push(compile(query, false)?);
        } else if !is_regex {
            for word in query.split_whitespace() {
                if expressions.len() == MAX_WORDS {
                    return Err(Failure::invalid_arguments(format!(
                        "The query has more than {MAX_WORDS} words."
                    )));
                }
                expressions.push(compile(&regex::escape(word), true)?);
            }
        }
        if expressions.is_empty() {
            return Err(Failure::invalid_arguments("The query is empty."));
        }
        Ok(Self(expressions))
    }

    pub(crate) fn matches(&self, line: &str) -> bool {
        self.0.iter().all(|expression| expression.is_match(line))
    }
}

fn compile(expression: &str, ignore_case: bool) -> Result<Regex, Failure> {
    let regex = RegexBuilder::new(expression)
        .case_insensitive(ignore_case)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .build();
    regex.map_err(|error| {
        let message = error.to_string();
        // The message shows the expression first, and the reason last.
        let reason = message.rsplit("error: ").next().unwrap_or(&message).trim();
        Failure::invalid_arguments(format!(
            "The query is not a valid regular expression: {reason}"
        ))
    })
}
