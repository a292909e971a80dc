//! The thesaurus: other words for what a request asks, in several languages. The words
//! are in `thesaurus.txt`. Not here: how much another word counts.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::text::{Analyzer, Token, TokenKind, fold, visible};

/// The thesaurus of this crate.
pub(crate) static THESAURUS: LazyLock<Thesaurus> =
    LazyLock::new(|| Thesaurus::parse(include_str!("thesaurus.txt")));

/// Groups of words that mean the same.
pub(crate) struct Thesaurus {
    /// The terms that a group adds to a request.
    groups: Vec<Vec<GroupTerm>>,
    phrases: Vec<Phrase>,
    /// Words of scripts without blanks, and their groups.
    runs: Vec<(String, usize)>,
}

/// A term that a group adds: one or several that belong together.
pub(crate) type GroupTerm = Vec<String>;

/// Words that stand for a group.
struct Phrase {
    words: Vec<PhraseWord>,
    group: usize,
}

enum PhraseWord {
    /// A word of this stem.
    Stem(String),
    /// A word that starts so.
    Start(String),
}

/// A word of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) folded: String,
    /// Its stem, or itself if it is a stop word.
    pub(crate) stem: String,
}

impl PhraseWord {
    fn is(&self, word: &Word) -> bool {
        match self {
            Self::Stem(stem) => *stem == word.stem,
            Self::Start(start) => word.folded.starts_with(start),
        }
    }
}

impl Thesaurus {
    fn parse(text: &str) -> Self {
        let mut thesaurus = Self {
            groups: Vec::new(),
            phrases: Vec::new(),
            runs: Vec::new(),
        };
        let mut analyzer = Analyzer::new();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for (terms, words) in lines.filter_map(|line| line.split_once(": ")) {
            let group = thesaurus.groups.len();
            let terms: Vec<&str> = terms.split(", ").collect();
            for phrase in terms.iter().copied().chain(words.split(", ")) {
                thesaurus.add(&mut analyzer, phrase, group);
            }
            let terms = terms.into_iter().map(|term| terms_of(&mut analyzer, term));
            thesaurus.groups.push(terms.collect());
        }
        thesaurus
    }

    fn add(&mut self, analyzer: &mut Analyzer, phrase: &str, group: usize) {
        let mut words = Vec::new();
        let mut run = false;
        analyzer.tokens(&visible(phrase), |token| match token.kind {
            TokenKind::Gram => run = true,
            TokenKind::Part => {}
            TokenKind::Word | TokenKind::StopWord => words.push(Word::from(token)),
        });
        if run {
            self.runs.push((fold(&visible(phrase)), group));
            return;
        }
        let last = words.len();
        let word = |(at, word): (usize, Word)| match phrase.ends_with('*') && at + 1 == last {
            true => PhraseWord::Start(word.folded),
            false => PhraseWord::Stem(word.stem),
        };
        let words = words.into_iter().enumerate().map(word).collect();
        self.phrases.push(Phrase { words, group });
    }

    /// Returns whether a word alone stands for a group.
    pub(crate) fn has(&self, word: &Word) -> bool {
        let mut phrases = self.phrases.iter();
        phrases.any(|phrase| matches!(phrase.words.as_slice(), [only] if only.is(word)))
    }

    /// Returns the terms of the groups for which a request has words, and the place of the
    /// word where one word alone stands for the group. `text` is the folded request.
    pub(crate) fn groups(&self, words: &[Word], text: &str) -> Vec<(&[GroupTerm], Option<usize>)> {
        let mut groups: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        for phrase in &self.phrases {
            let mut places = words.windows(phrase.words.len().max(1));
            let place = places.position(|place| {
                let mut pairs = phrase.words.iter().zip(place);
                pairs.all(|(one, word)| one.is(word))
            });
            if let Some(place) = place {
                let alone = (phrase.words.len() == 1).then_some(place);
                let known = groups.entry(phrase.group).or_insert(alone);
                *known = known.or(alone);
            }
        }
        for (run, group) in &self.runs {
            if text.contains(run.as_str()) {
                groups.entry(*group).or_insert(None);
            }
        }
        let groups = groups.into_iter();
        groups
            .map(|(group, word)| (self.groups[group].as_slice(), word))
            .collect()
    }
}

impl From<Token<'_>> for Word {
    fn from(token: Token<'_>) -> Self {
        Self {
            folded: token.folded.to_owned(),
            stem: token.term.to_owned(),
        }
    }
}

fn terms_of(analyzer: &mut Analyzer, text: &str) -> GroupTerm {
    let mut terms = Vec::new();
    analyzer.tokens(text, |token| {
        if matches!(token.kind, TokenKind::Word) {
            terms.push(token.term.to_owned());
        }
    });
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(thesaurus: &Thesaurus, request: &str) -> Vec<String> {
        let mut words = Vec::new();
        Analyzer::new().tokens(request, |token| {
            if matches!(token.kind, TokenKind::Word | TokenKind::StopWord) {
                words.push(Word::from(token));
            }
        });
        let found = thesaurus.groups(&words, &fold(request));
        let joined = |(group, _): (&[GroupTerm], Option<usize>)| {
            let terms: Vec<String> = group.iter().map(|term| term.join(" ")).collect();
            terms.join(",")
        };
        found.into_iter().map(joined).collect()
    }

    #[test]
    fn finds_words_phrases_starts_and_runs() {
        let text = "# Test\nxlsx, excel: sheet*, 表格\nlogin, sign on: log in\n";
        let thesaurus = Thesaurus::parse(text);
        for (request, expected) in [
            ("an Excel file", "xlsx,excel"),
            ("spreadsheets", ""),
            ("my sheetlets", "xlsx,excel"),
            ("修改表格里", "xlsx,excel"),
            ("logging in as root", "login,sign"),
            ("log it in", ""),
            ("sign on, sheet", "xlsx,excel|login,sign"),
            ("", ""),
        ] {
            assert_eq!(groups(&thesaurus, request).join("|"), expected, "{request}");
        }
    }

    #[test]
    fn every_line_of_the_thesaurus_is_read() {
        let lines = include_str!("thesaurus.txt").lines();
        let wanted = lines.filter(|line| !line.starts_with('#') && !line.is_empty());
        assert_eq!(THESAURUS.groups.len(), wanted.count());
        for group in &THESAURUS.groups {
            assert!(group.iter().all(|term| !term.is_empty()), "{group:?}");
        }
        assert!(
            THESAURUS
                .phrases
                .iter()
                .all(|phrase| !phrase.words.is_empty())
        );
    }
}
