//! The thesaurus: synonyms for the words of a query, in several languages.
//!
//! The words are in `thesaurus.txt`. `query.rs` weighs them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::text::{Analyzer, TextToken, TokenKind, fold, normalize};

/// The thesaurus in `thesaurus.txt`.
pub(crate) static THESAURUS: LazyLock<Thesaurus> =
    LazyLock::new(|| Thesaurus::parse(include_str!("thesaurus.txt")));

/// Groups of words with the same meaning.
pub(crate) struct Thesaurus {
    /// The phrases that each group adds to a query.
    groups: Vec<Vec<PhraseTerms>>,
    triggers: Vec<Trigger>,
    /// Words of writing systems without blanks, and the group that each triggers.
    unspaced_triggers: Vec<(String, usize)>,
}

/// The terms of a phrase. A single word is a phrase of one term.
pub(crate) type PhraseTerms = Vec<String>;

/// Successive words of a query that trigger a group.
struct Trigger {
    words: Vec<WordPattern>,
    group: usize,
}

/// A pattern for one word.
enum WordPattern {
    /// Words with this stem.
    Stem(String),
    /// Words that start with this text.
    Prefix(String),
}

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) folded: String,
    /// The stem, or the word itself if it is a stop word.
    pub(crate) stem: String,
}

impl WordPattern {
    fn matches(&self, word: &Word) -> bool {
        match self {
            Self::Stem(stem) => *stem == word.stem,
            Self::Prefix(prefix) => word.folded.starts_with(prefix),
        }
    }
}

impl Thesaurus {
    fn parse(text: &str) -> Self {
        let mut thesaurus = Self {
            groups: Vec::new(),
            triggers: Vec::new(),
            unspaced_triggers: Vec::new(),
        };
        let mut analyzer = Analyzer::new();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for (terms, words) in lines.filter_map(|line| line.split_once(": ")) {
            let group = thesaurus.groups.len();
            let terms: Vec<&str> = terms.split(", ").collect();
            for phrase in terms.iter().copied().chain(words.split(", ")) {
                thesaurus.add_trigger(&mut analyzer, phrase, group);
            }
            let phrases = terms.into_iter();
            let phrases = phrases.map(|phrase| phrase_terms(&mut analyzer, phrase));
            thesaurus.groups.push(phrases.collect());
        }
        thesaurus
    }

    /// Adds a phrase that triggers a group.
    fn add_trigger(&mut self, analyzer: &mut Analyzer, phrase: &str, group: usize) {
        let mut words = Vec::new();
        let mut is_unspaced = false;
        analyzer.tokens(&normalize(phrase), |token| match token.kind {
            TokenKind::Gram => is_unspaced = true,
            TokenKind::Part => {}
            TokenKind::Word | TokenKind::StopWord => words.push(Word::from(token)),
        });
        if is_unspaced {
            self.unspaced_triggers
                .push((fold(&normalize(phrase)), group));
            return;
        }
        let prefix = phrase.ends_with('*').then(|| words.pop()).flatten();
        let stems = words.into_iter().map(|word| WordPattern::Stem(word.stem));
        let prefix = prefix.map(|word| WordPattern::Prefix(word.folded));
        self.triggers.push(Trigger {
            words: stems.chain(prefix).collect(),
            group,
        });
    }

    /// Returns whether a word alone triggers a group.
    pub(crate) fn contains(&self, word: &Word) -> bool {
        let mut triggers = self.triggers.iter();
        triggers.any(|trigger| matches!(trigger.words.as_slice(), [only] if only.matches(word)))
    }

    /// Returns the groups that a query triggers. If one word alone triggers a group, the
    /// group comes with the index of the word.
    pub(crate) fn groups(
        &self,
        words: &[Word],
        folded_text: &str,
    ) -> Vec<(&[PhraseTerms], Option<usize>)> {
        let mut groups: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        for trigger in &self.triggers {
            let mut windows = words.windows(trigger.words.len().max(1));
            let position = windows.position(|window| {
                let mut pairs = trigger.words.iter().zip(window);
                pairs.all(|(pattern, word)| pattern.matches(word))
            });
            if let Some(position) = position {
                let single_word = (trigger.words.len() == 1).then_some(position);
                let known_word = groups.entry(trigger.group).or_insert(single_word);
                *known_word = known_word.or(single_word);
            }
        }
        for (word, group) in &self.unspaced_triggers {
            if folded_text.contains(word.as_str()) {
                groups.entry(*group).or_insert(None);
            }
        }
        let groups = groups.into_iter();
        groups
            .map(|(group, word)| (self.groups[group].as_slice(), word))
            .collect()
    }
}

impl From<TextToken<'_>> for Word {
    fn from(token: TextToken<'_>) -> Self {
        Self {
            folded: token.folded.to_owned(),
            stem: token.term.to_owned(),
        }
    }
}

/// Returns the terms of a phrase, without stop words.
fn phrase_terms(analyzer: &mut Analyzer, phrase: &str) -> PhraseTerms {
    let mut terms = Vec::new();
    analyzer.tokens(phrase, |token| {
        if matches!(token.kind, TokenKind::Word) {
            terms.push(token.term.to_owned());
        }
    });
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the groups that a query triggers, with the terms of each.
    fn groups(thesaurus: &Thesaurus, query: &str) -> Vec<String> {
        let mut words = Vec::new();
        Analyzer::new().tokens(query, |token| {
            if matches!(token.kind, TokenKind::Word | TokenKind::StopWord) {
                words.push(Word::from(token));
            }
        });
        let groups = thesaurus.groups(&words, &fold(query)).into_iter();
        let joined = |(group, _): (&[PhraseTerms], Option<usize>)| {
            let terms: Vec<String> = group.iter().map(|term| term.join(" ")).collect();
            terms.join(",")
        };
        groups.map(joined).collect()
    }

    #[test]
    fn finds_words_phrases_prefixes_and_unspaced_words() {
        let text = "# Test\nxlsx, excel: sheet*, 表格\nlogin, sign on: log in\n";
        let thesaurus = Thesaurus::parse(text);
        for (query, expected) in [
            ("an Excel file", "xlsx,excel"),
            ("spreadsheets", ""),
            ("my sheetlets", "xlsx,excel"),
            ("修改表格里", "xlsx,excel"),
            ("logging in as root", "login,sign"),
            ("log it in", ""),
            ("sign on, sheet", "xlsx,excel|login,sign"),
            ("", ""),
        ] {
            assert_eq!(groups(&thesaurus, query).join("|"), expected, "{query}");
        }
    }

    #[test]
    fn reads_every_line_of_the_file() {
        let lines = include_str!("thesaurus.txt").lines();
        let groups = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
        assert_eq!(THESAURUS.groups.len(), groups.count());
        for group in &THESAURUS.groups {
            assert!(group.iter().all(|phrase| !phrase.is_empty()), "{group:?}");
        }
        let mut triggers = THESAURUS.triggers.iter();
        assert!(triggers.all(|trigger| !trigger.words.is_empty()));
    }
}
